/* SPDX-License-Identifier: Apache-2.0
 * A program that a process died over is compiled in a child first: another process of the command,
 * which HF_OPENCL_COMPILER names, as a library cannot fork once a driver has its threads. */
#include "device/opencl/cl_cache.h"
#include "device/opencl/opencl.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define MOST_VARIABLES 4096

static int index_of(const struct hf_opencl *cl) {
    int i = 0;
    while (hf_cl_at(i) != NULL && hf_cl_at(i) != cl->info)
        i++;
    return i;
}

/* Ours without the variable that would make it ask a child in turn. */
static int copy_environment(char *to[MOST_VARIABLES]) {
    const char *without = "HF_OPENCL_COMPILER=";
    int count = 0;
    for (char **from = environ; *from != NULL && count < MOST_VARIABLES - 1; from++)
        if (strncmp(*from, without, strlen(without)) != 0)
            to[count++] = *from;
    to[count] = NULL;
    return count;
}

/* Its output would stand in the middle of ours. */
static int silence(posix_spawn_file_actions_t *actions) {
    int error = posix_spawn_file_actions_init(actions);
    for (int stream = 1; error == 0 && stream <= 2; stream++)
        error = posix_spawn_file_actions_addopen(actions, stream, "/dev/null", O_WRONLY, 0);
    return error;
}

void hf_cl_compile_in_child(const struct hf_opencl *cl, const char *source, const char *options) {
    const char *compiler = getenv("HF_OPENCL_COMPILER");
    posix_spawn_file_actions_t actions;
    char index[16], *variables[MOST_VARIABLES];
    pid_t child = 0;
    int status = 0;
    if (compiler == NULL || *compiler == '\0')
        return;
    (void)snprintf(index, sizeof index, "%d", index_of(cl));
    const char *const words[] = {
        compiler, HF_CL_COMPILE_VERB, index, source, options != NULL ? options : "", NULL};
    char *argv[sizeof words / sizeof *words];
    memcpy(argv, words, sizeof argv);
    (void)copy_environment(variables);
    if (silence(&actions) == 0 &&
        posix_spawn(&child, compiler, &actions, NULL, argv, variables) == 0)
        while (waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
    (void)posix_spawn_file_actions_destroy(&actions);
}
