/* SPDX-License-Identifier: Apache-2.0
 * holdfast replay: the same fit or product again, on other cores or another device. Every number
 * has the same bits on every machine, so the first that differs is where one of the two computed
 * wrongly. */
#include "cores.h"
#include "interrupt.h"
#include "safety/replay.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum key { KEY_CORES = 256, KEY_DATA, KEY_DEVICE, KEY_JSON };

static const struct argp_option options[] = {
    {"cores", KEY_CORES, "LIST", 0, "Run on these cores, such as 0,2-5 (default: all)", 0},
    {"threads", 't', "T", 0, "Worker threads; default: one for each usable core", 0},
    {"data", KEY_DATA, "FILE", 0, "The data of a fit, if they are not where the report says", 0},
    {"device", KEY_DEVICE, "NAME", 0, "cpu (default), cuda, cuda:N, opencl or opencl:N", 0},
    {"json", KEY_JSON, NULL, 0, "Print the result as JSON", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state) {
    struct replay *r = state->input;
    switch (key) {
    case KEY_CORES:
        r->cores = tool_cores(state, arg, r->core, REPLAY_CORES);
        break;
    case 't':
        r->threads = (int)tool_int(state, "--threads", arg, 1, 1024);
        break;
    case KEY_DATA:
        r->data = tool_path(state, "--data", arg);
        break;
    case KEY_DEVICE:
        r->device = arg;
        break;
    case KEY_JSON:
        r->json = true;
        break;
    case ARGP_KEY_ARG:
        if (r->report)
            argp_error(state, "one report at a time, not also '%s'", arg);
        r->report = tool_path(state, "REPORT", arg);
        break;
    case ARGP_KEY_END:
        if (!r->report)
            argp_error(state, "which run? give its report");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static const struct argp argp = {
    options,
    parse,
    "REPORT",
    "Make the fit of a report.json of holdfast kmeans again and compare each iteration (inertia, "
    "changed labels, empty clusters, how far the centroids moved, checksums of sizes and "
    "centroids) and the files written; or the product of a report of holdfast gemm --json, block "
    "by block of its rows. Names the first iteration and block that differ. Exit codes: 0 the "
    "same; 3 the data are not those of the report; 5 not the same: one of the two runs computed "
    "wrongly.",
    NULL,
    NULL,
    NULL};

static bool names_file(const json_t *report, const char *member) {
    return json_is_string(json_object_get(json_object_get(report, member), "path"));
}

/* Was it written by a verb whose runs can be compared? */
static bool is_known(const json_t *report) {
    const char *by =
        json_string_value(json_object_get(json_object_get(report, "holdfast"), "command"));
    if (by && strcmp(by, "kmeans") == 0)
        return json_is_array(json_object_get(report, "history")) && names_file(report, "data");
    return replay_is_product(report) && json_is_object(json_object_get(report, "blocks")) &&
           json_is_string(json_object_get(report, "arithmetic")) && names_file(report, "a") &&
           names_file(report, "b");
}

/* Another version may round differently, which is no fault. */
static bool is_of_this_version(const char *path, const json_t *report) {
    const json_t *by = json_object_get(report, "holdfast");
    const char *version =
        json_string_value(replay_is_product(report) ? by : json_object_get(by, "version"));
    if (version && strcmp(version, hf_version()) == 0)
        return true;
    tool_error("%s is of holdfast %s, this is %s: replay it with that version",
               tool_name_text(path), version ? version : "?", hf_version());
    return false;
}

static int read_report(const char *path, json_t **report) {
    json_error_t error;
    struct stat info;
    if (stat(path, &info) == 0 && S_ISDIR(info.st_mode)) {
        tool_error("%s: is a directory; name the report.json in it", tool_name_text(path));
        return EXIT_INPUT;
    }
    *report = json_load_file(path, 0, &error);
    if (!*report) {
        tool_error("%s cannot be read as a report: %s", tool_name_text(path), error.text);
        return EXIT_INPUT;
    }
    if (is_known(*report))
        return is_of_this_version(path, *report) ? EXIT_DONE : EXIT_INPUT;
    tool_error("%s is no report of holdfast kmeans or gemm with something to compare in it: give "
               "the report.json of kmeans -o, or what gemm --json prints, of this version",
               tool_name_text(path));
    return EXIT_INPUT;
}

static void use_cores(const struct replay *r) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < r->cores; i++)
        CPU_SET((unsigned)r->core[i], &set);
    if (r->cores > 0 && sched_setaffinity(0, sizeof set, &set) != 0) {
        tool_error("this process cannot be moved to these cores: %s", strerror(errno));
        _exit(EXIT_RESOURCES);
    }
}

/* A product's report goes to standard output. */
static void use_output(const char *path) {
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0) {
        tool_error("%s cannot be written: %s", path, strerror(errno));
        _exit(EXIT_FAILED);
    }
}

/* Wait for the second run; what stops this program stops that one, too. An exit code. */
static int await(pid_t child) {
    int status = 0;
    pid_t ended = 0;
    for (bool told = false; ended == 0; ended = waitpid(child, &status, WNOHANG)) {
        if (interrupt_seen() && !told)
            told = kill(child, SIGTERM) == 0;
        (void)poll(NULL, 0, 10);
    }
    if (interrupt_seen())
        return EXIT_INTERRUPTED;
    return ended == child && WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILED;
}

/* The same job in a process of its own, on the cores asked for; an exit code. */
static int run_again(const struct replay *r, const json_t *report, const char *result) {
    static struct replay_words w;
    replay_command(r, report, &w);
    fflush(NULL);
    const pid_t child = interrupt_fork();
    if (child == 0) {
        use_cores(r);
        if (replay_is_product(report))
            use_output(result);
        execv("/proc/self/exe", w.word);
        _exit(EXIT_FAILED);
    }
    if (child < 0) {
        tool_error("the job could not be started again: %s", strerror(errno));
        return EXIT_RESOURCES;
    }
    return await(child);
}

static void remove_folder(const char *folder) {
    DIR *dir = opendir(folder);
    char path[4400];
    for (const struct dirent *entry; dir && (entry = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        (void)unlink(path);
    }
    if (dir)
        (void)closedir(dir);
    (void)rmdir(folder);
}

static int replay(struct replay *r, const json_t *report) {
    const char *given = getenv("TMPDIR"), *tmp = given && given[0] ? given : "/tmp";
    json_t *second = NULL;
    char result[4200];
    snprintf(r->folder, sizeof r->folder, "%s/holdfast-replay-XXXXXX", tmp);
    interrupt_watch();
    if (!mkdtemp(r->folder)) {
        tool_error("cannot make a folder in %s: %s", tmp, strerror(errno));
        return EXIT_FAILED;
    }
    snprintf(result, sizeof result, "%s/report.json", r->folder);
    int code = run_again(r, report, result);
    if (code == EXIT_DONE)
        code = read_report(result, &second);
    if (code == EXIT_DONE)
        code = replay_compare(r, report, second);
    json_decref(second);
    remove_folder(r->folder);
    return code;
}

int cmd_replay(int argc, char **argv) {
    static struct replay r;
    json_t *report = NULL;
    tool_parse(&argp, argc, argv, &r);
    int code = read_report(r.report, &report);
    if (code == EXIT_DONE && r.data && replay_is_product(report)) {
        tool_error("--data is for fits; a product is made of the files that its report names");
        code = EXIT_USAGE;
    }
    if (code == EXIT_DONE)
        code = replay(&r, report);
    json_decref(report);
    return code;
}
