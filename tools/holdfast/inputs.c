/* SPDX-License-Identifier: Apache-2.0
 * Files that go in, and outputs that must not lie where they do. */
#include "tool.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int tool_writable(hf_context *ctx, const char *path) {
    errno = 0;
    const hf_status status = path ? hf_write_check(ctx, path) : HF_OK;
    return status == HF_OK ? EXIT_DONE : tool_fail(ctx, status, STAGE_WRITE);
}

/* The file behind a name that may be that of an array in it, FILE.npz:NAME. */
static bool stat_input(const char *name, struct stat *info) {
    const char *colon = strrchr(name, ':');
    if (stat(name, info) == 0 || !colon)
        return stat(name, info) == 0;
    char *file = strndup(name, (size_t)(colon - name));
    const bool there = file && stat(file, info) == 0;
    free(file);
    return there;
}

int tool_one_standard_input(const char *const *names, const char *const *files, int count) {
    const char *first = NULL;
    for (int i = 0; i < count; i++) {
        if (!files[i] || strcmp(files[i], "-") != 0)
            continue;
        if (first) {
            tool_error("%s and %s are both standard input (-), which can be read once: save one of "
                       "them to a file",
                       first, names[i]);
            return EXIT_USAGE;
        }
        first = names[i];
    }
    return EXIT_DONE;
}

int tool_spare(const char *output, const char *const *inputs, int count) {
    struct stat out;
    struct stat in;
    if (!output || stat(output, &out) != 0)
        return EXIT_DONE;
    for (int i = 0; i < count; i++) {
        if (!inputs[i] || !stat_input(inputs[i], &in) || in.st_dev != out.st_dev ||
            in.st_ino != out.st_ino)
            continue;
        tool_error("%s would be overwritten, but it is read from as %s: name another output",
                   output, inputs[i]);
        return EXIT_USAGE;
    }
    return EXIT_DONE;
}

int tool_open(hf_context *ctx, uint64_t memory, const char *path, const char *option,
              hf_dataset **data) {
    const hf_open_opts opts = {.memory_bytes = memory};
    errno = 0;
    const hf_status status = hf_dataset_open(ctx, path, &opts, data);
    if (status != HF_OK)
        return tool_fail(ctx, status, STAGE_READ);
    if (!option || hf_dataset_array(*data))
        return EXIT_DONE;
    tool_error("%s %s: does not fit in memory (%s may be used); raise --memory", option, path,
               memory ? tool_bytes_text(memory) : "half of what is free");
    return EXIT_RESOURCES;
}
