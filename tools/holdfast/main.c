/* SPDX-License-Identifier: Apache-2.0
 * The command: finds the verb and runs it. */
#include "suggest.h"
#include "tool.h"
#include <fcntl.h>
#include <holdfast/dev.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct command {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
};

static const struct command commands[] = {
#define COMMAND(name, summary) {#name, summary, cmd_##name},
#include "commands.def"
#undef COMMAND
};

enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *out) {
    fputs("Usage: holdfast VERB [OPTION...] [ARGUMENT...]\n"
          "Exact and repeatable k-means, products of matrices, sparse linear systems.\n\nVerbs:\n",
          out);
    for (int i = 0; i < COMMANDS; i++)
        fprintf(out, "  %-10s %s\n", commands[i].name, commands[i].summary);
    fputs("\n'holdfast VERB --help' lists the options of a verb; 'man holdfast' explains them.\n"
          "  holdfast --version   print the version\n"
          "  holdfast --help      print this list\n"
          "\nExit codes:\n"
          "  0    done\n"
          "  1    failed: an output could not be written, a device failed, a bug\n"
          "  2    usage: an option is malformed, or options contradict each other\n"
          "  3    bad input: a file cannot be read or is malformed, or an option contradicts the "
          "data\n"
          "  4    out of resources: memory, disk space, threads, a device\n"
          "  5    corrupted: a damaged checkpoint, or arithmetic that went wrong\n"
          "  6    a test did not run, or not wholly: it has neither passed nor failed\n"
          "  7    nothing wrong, but the cores were busy with other programs (screen)\n"
          "  8    not converged: solve stopped before the tolerance; its best x was written\n"
          "  130  interrupted: SIGINT, SIGTERM or SIGHUP; results so far, if any, were written\n"
          "\nFirst steps:\n"
          "  holdfast kmeans data.npy -k 10 -o result\n"
          "  holdfast predict more.npy --from result -o labels.npy\n"
          "  holdfast gemm a.npy b.npy -o product.npy\n"
          "  holdfast solve A.mtx -b b.npy -o x.npy\n",
          out);
}

static int unknown_verb(const char *verb) {
    const char *names[COMMANDS];
    for (int i = 0; i < COMMANDS; i++)
        names[i] = commands[i].name;
    const int best = suggest(verb, names, COMMANDS);
    if (best >= 0)
        tool_error("there is no verb '%s'; did you mean '%s'? 'holdfast --help' lists all verbs",
                   verb, commands[best].name);
    else
        tool_error("there is no verb '%s'; 'holdfast --help' lists all verbs", verb);
    return EXIT_USAGE;
}

/* argp takes the name in its messages from argv[0]: make that "holdfast VERB". */
static int run_command(const struct command *command, int argc, char **argv) {
    static char name[64];
    snprintf(name, sizeof name, "holdfast %s", command->name);
    argv[0] = name;
    return command->run(argc, argv);
}

/* A standard stream that came closed must not become the number of a file that is opened later:
 * what is printed would end up in it. Opened for reading only, writing to it fails as before. */
static void occupy_streams(void) {
    int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO)
        fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        close(fd);
}

/* This program, which the library starts where a compiler of OpenCL crashed before. */
static void name_compiler(void) {
    char path[4096];
    const ssize_t bytes = readlink("/proc/self/exe", path, sizeof path - 1);
    if (bytes > 0) {
        path[bytes] = '\0';
        setenv("HF_OPENCL_COMPILER", path, 0);
    }
}

int main(int argc, char **argv) {
    occupy_streams();
    atexit(tool_close_stdout);
    signal(SIGXFSZ, SIG_IGN); /* a file size limit is reported like a full disk */
    signal(SIGPIPE, SIG_IGN); /* so is a reader that went away; no fit is lost for its progress */
    argp_err_exit_status = EXIT_USAGE;
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *verb = argv[1];
    if (argc == 5 && strcmp(verb, "--compile-opencl") == 0) /* by name_compiler() alone */
        return hf_dev_opencl_compile(atoi(argv[2]), argv[3], argv[4]) == HF_OK ? EXIT_DONE
                                                                               : EXIT_FAILED;
    name_compiler();
    if (strcmp(verb, "--help") == 0 || strcmp(verb, "-h") == 0 || strcmp(verb, "help") == 0) {
        print_help(stdout);
        return EXIT_DONE;
    }
    if (strcmp(verb, "--version") == 0 || strcmp(verb, "-V") == 0) {
        printf("holdfast %s\n", hf_version());
        return EXIT_DONE;
    }
    for (int i = 0; i < COMMANDS; i++)
        if (strcmp(verb, commands[i].name) == 0)
            return run_command(&commands[i], argc - 1, argv + 1);
    return unknown_verb(verb);
}
