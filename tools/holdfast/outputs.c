/* SPDX-License-Identifier: Apache-2.0 */
#include "outputs.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int no_memory(void) {
    tool_error("out of memory");
    return EXIT_RESOURCES;
}

static int os_failure(const char *what, const char *path, const char *remedy) {
    const int os_error = errno;
    tool_error("%s %s: %s%s", what, path, strerror(os_error), remedy);
    return tool_exit_code(HF_E_IO, os_error, STAGE_WRITE);
}

char *outputs_path(const char *dir, const char *name) {
    assert(dir);
    const size_t length = strlen(dir);
    const char *slash = length > 0 && dir[length - 1] == '/' ? "" : "/";
    char *path;
    return asprintf(&path, "%s%s%s", dir, slash, name) < 0 ? NULL : path;
}

/* mkdir -p: 0, or -1 with errno. *made tells whether the last part is new. */
static int make_folders(char *path, bool *made) {
    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        const int failed = mkdir(path, 0777);
        const int os_error = errno;
        *p = '/';
        errno = os_error;
        if (failed && os_error != EEXIST && os_error != EISDIR && os_error != EROFS)
            return -1;
    }
    *made = mkdir(path, 0777) == 0;
    if (*made)
        return 0;
    struct stat info;
    const int os_error = errno;
    const bool there = stat(path, &info) == 0;
    errno = there ? ENOTDIR : os_error;
    return there && S_ISDIR(info.st_mode) ? 0 : -1;
}

static int make_stage(struct outputs *out) {
    if (out->stage)
        return EXIT_DONE;
    char name[48];
    snprintf(name, sizeof name, ".holdfast-%ld", (long)getpid());
    out->stage = outputs_path(out->dir, name);
    if (!out->stage)
        return no_memory();
    if (mkdir(out->stage, 0777) == 0)
        return EXIT_DONE;
    const int code = os_failure("cannot write into", out->dir, "; choose another folder with -o");
    free(out->stage);
    out->stage = NULL;
    return code;
}

static void remove_stage(struct outputs *out) {
    if (!out->stage)
        return;
    for (int i = 0; i < out->count; i++) {
        char *path = outputs_path(out->stage, out->names[i]);
        if (path)
            unlink(path);
        free(path);
    }
    rmdir(out->stage);
    free(out->stage);
    out->stage = NULL;
    out->count = 0;
}

int outputs_open(struct outputs *out, const char *dir) {
    memset(out, 0, sizeof *out);
    out->dir = strdup(dir[0] ? dir : ".");
    if (!out->dir)
        return no_memory();
    if (make_folders(out->dir, &out->made_dir) != 0)
        return os_failure("cannot make the folder", out->dir, "; choose another with -o");
    const int code = make_stage(out);
    remove_stage(out); /* nothing stays behind if the run is killed */
    return code;
}

/* The path of a file being added; NULL (reported) when it cannot be had. */
static char *add(struct outputs *out, const char *name, int *code) {
    *code = make_stage(out);
    if (*code != EXIT_DONE)
        return NULL;
    char *path = outputs_path(out->stage, name);
    if (!path)
        *code = no_memory();
    else
        out->names[out->count++] = name;
    return path;
}

/* After the call that wrote path, which is freed. */
static int written(hf_context *ctx, hf_status status, char *path) {
    const int code = status == HF_OK ? EXIT_DONE : tool_fail(ctx, status, STAGE_WRITE);
    free(path);
    return code;
}

int outputs_matrix(struct outputs *out, hf_context *ctx, const char *name, const hf_array *a) {
    int code;
    char *path = add(out, name, &code);
    errno = 0;
    return path ? written(ctx, hf_write_npy_matrix(ctx, path, a), path) : code;
}

int outputs_vector(struct outputs *out, hf_context *ctx, const char *name, const hf_array *a) {
    int code;
    char *path = add(out, name, &code);
    errno = 0;
    return path ? written(ctx, hf_write_npy(ctx, path, a), path) : code;
}

int outputs_file(struct outputs *out, hf_context *ctx, const char *name, const void *data,
                 size_t bytes) {
    int code;
    char *path = add(out, name, &code);
    errno = 0;
    return path ? written(ctx, hf_write_file(ctx, path, data, bytes), path) : code;
}

/* rename() refuses a folder in the way: find that out before the first file has moved. */
static int check_target(const char *path) {
    struct stat info;
    if (lstat(path, &info) != 0 || !S_ISDIR(info.st_mode))
        return EXIT_DONE;
    errno = EISDIR;
    return os_failure("cannot replace", path, "; remove that folder or choose another with -o");
}

static int move_file(const struct outputs *out, const char *name, bool only_check) {
    char *from = outputs_path(out->stage, name);
    char *to = outputs_path(out->dir, name);
    int code = EXIT_DONE;
    if (!from || !to)
        code = no_memory();
    else if (only_check)
        code = check_target(to);
    else if (rename(from, to) != 0)
        code = os_failure("cannot write", to, "");
    free(from);
    free(to);
    return code;
}

int outputs_publish(struct outputs *out) {
    int code = EXIT_DONE;
    for (int i = 0; i < out->count && code == EXIT_DONE; i++)
        code = move_file(out, out->names[i], true);
    for (int i = 0; i < out->count && code == EXIT_DONE; i++)
        code = move_file(out, out->names[i], false);
    if (code != EXIT_DONE)
        return code;
    const int folder = open(out->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder >= 0) {
        fsync(folder); /* not possible on every file system; the files themselves are synced */
        close(folder);
    }
    return EXIT_DONE;
}

void outputs_close(struct outputs *out) {
    remove_stage(out);
    if (out->made_dir)
        rmdir(out->dir); /* fails, as it should, when something is in it */
    free(out->dir);
    memset(out, 0, sizeof *out);
}
