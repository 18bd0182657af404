/* SPDX-License-Identifier: Apache-2.0 */
#include "kmeans/outputs.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
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

/* The lock is on the folder itself, leaves nothing behind and ends with the process. Folders that
 * cannot be opened or locked (some network file systems) are used without. */
static int lock_folder(struct outputs *out) {
    out->lock = open(out->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (out->lock < 0 || flock(out->lock, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
        return EXIT_DONE;
    tool_error("another run is writing into %s: wait until it ends, or choose another folder with "
               "-o",
               out->dir);
    return EXIT_FAILED;
}

/* The path of a file of the run; NULL (reported) when memory is out. */
static char *path_of(const struct outputs *out, const char *name) {
    char *path = outputs_path(out->dir, name);
    if (!path)
        no_memory();
    return path;
}

/* After a call with path, which is freed. */
static int finished(const struct outputs *out, hf_status status, char *path) {
    const int code = status == HF_OK ? EXIT_DONE : tool_fail(out->ctx, status, STAGE_WRITE);
    free(path);
    return code;
}

int outputs_open(struct outputs *out, hf_context *ctx, const char *dir, const char *const *names) {
    *out = (struct outputs){.ctx = ctx, .dir = strdup(dir), .lock = -1};
    if (!out->dir)
        return no_memory();
    if (make_folders(out->dir, &out->made_dir) != 0)
        return os_failure("cannot make the folder", out->dir, "; choose another with -o");
    int code = lock_folder(out);
    for (int i = 0; code == EXIT_DONE && names[i]; i++) {
        char *path = path_of(out, names[i]);
        errno = 0;
        code = path ? finished(out, hf_write_check(ctx, path), path) : EXIT_RESOURCES;
    }
    if (code != EXIT_DONE)
        return code;
    errno = 0;
    const hf_status status = hf_file_set_create(ctx, &out->set);
    return status == HF_OK ? EXIT_DONE : tool_fail(ctx, status, STAGE_WRITE);
}

static bool any_link(const struct outputs *out, const char *const *names) {
    bool found = false;
    for (int i = 0; names[i] && !found; i++) {
        struct stat info;
        char *path = outputs_path(out->dir, names[i]);
        found = !path || (lstat(path, &info) == 0 && S_ISLNK(info.st_mode));
        free(path);
    }
    return found;
}

int outputs_check_room(const struct outputs *out, const char *const *names, uint64_t bytes) {
    struct statvfs disk;
    if (statvfs(out->dir, &disk) != 0 || disk.f_blocks == 0 || disk.f_frsize == 0 ||
        any_link(out, names))
        return EXIT_DONE;
    const uint64_t blocks = geteuid() == 0 ? disk.f_bfree : disk.f_bavail;
    if (bytes / disk.f_frsize < blocks)
        return EXIT_DONE;
    tool_error("cannot write the result into %s: %s: it takes %s or more beside what is there, and "
               "%s are free; make room, or choose another folder with -o",
               out->dir, strerror(ENOSPC), tool_bytes_text(bytes),
               tool_bytes_text(blocks * disk.f_frsize));
    return EXIT_RESOURCES;
}

int outputs_elsewhere(struct outputs *out) {
    static const char *const none[] = {NULL};
    hf_context *ctx = out->ctx;
    const char *temporary = getenv("TMPDIR");
    char *dir = outputs_path(temporary && temporary[0] ? temporary : "/tmp", "holdfast-XXXXXX");
    outputs_close(out);
    if (!dir)
        return no_memory();
    const bool made = mkdtemp(dir) != NULL;
    const int code =
        made ? outputs_open(out, ctx, dir, none) : os_failure("cannot make the folder", dir, "");
    out->made_dir = made;
    free(dir);
    return code;
}

/* Note the name of a file that the set took. */
static int added(struct outputs *out, const char *name, hf_status status, char *path) {
    if (status == HF_OK)
        out->names[out->count++] = name;
    return finished(out, status, path);
}

int outputs_matrix(struct outputs *out, const char *name, const hf_array *a) {
    char *path = path_of(out, name);
    errno = 0;
    return path ? added(out, name, hf_file_set_npy_matrix(out->set, path, a), path)
                : EXIT_RESOURCES;
}

int outputs_labels(struct outputs *out, const int32_t *labels, int64_t n,
                   enum labels_format format) {
    const char *name = labels_file_name(format);
    char *path = path_of(out, name);
    errno = 0;
    return path ? added(out, name, labels_add(out->set, path, labels, n, format), path)
                : EXIT_RESOURCES;
}

int outputs_file(struct outputs *out, const char *name, const void *data, size_t bytes) {
    char *path = path_of(out, name);
    errno = 0;
    return path ? added(out, name, hf_file_set_file(out->set, path, data, bytes), path)
                : EXIT_RESOURCES;
}

json_t *outputs_json(const struct outputs *out) {
    json_t *files = json_object();
    int64_t bytes = 0;
    uint32_t crc32 = 0;
    for (int i = 0; hf_file_set_at(out->set, i, &bytes, &crc32); i++) {
        char digits[9];
        snprintf(digits, sizeof digits, "%08x", (unsigned)crc32);
        json_object_set_new(files, out->names[i],
                            json_pack("{s:I, s:s}", "bytes", (json_int_t)bytes, "crc32", digits));
    }
    return files;
}

int outputs_publish(struct outputs *out) {
    errno = 0;
    const hf_status status = hf_file_set_commit(out->set, &out->appeared);
    return status == HF_OK ? EXIT_DONE : tool_fail(out->ctx, status, STAGE_WRITE);
}

void outputs_explain(const struct outputs *out) {
    if (out->appeared == 0)
        tool_error("what %s held before was left as it was", out->dir);
    else if (out->appeared < out->count)
        tool_error("%s now mixes two results: %d of %d files had been replaced; run again, or keep "
                   "those whose checksum report.json has",
                   out->dir, out->appeared, out->count);
    else
        tool_error("the files of %s are new, but not sure to outlive a power failure", out->dir);
}

void outputs_close(struct outputs *out) {
    if (!out->dir)
        return;
    hf_file_set_destroy(out->set);
    if (out->made_dir)
        rmdir(out->dir); /* fails, as it should, when something is in it */
    if (out->lock >= 0)
        close(out->lock);
    free(out->dir);
    memset(out, 0, sizeof *out);
}
