/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/file.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)256 << 10)
#define CREATE_TRIES 100

struct hf_file {
    int fd;
    size_t used; /* of buffer */
    char path[PATH_MAX];
    char temp[PATH_MAX];
    char buffer[BUFFER_BYTES];
};

/* What to do about an error of the operating system. */
static const char *remedy(int error) {
    switch (error) {
    case ENOSPC:
    case EDQUOT:
        return "free some space or choose another folder";
    case EFBIG:
        return "the limit on file sizes (ulimit -f) or the file system does not allow it";
    case EACCES:
    case EPERM:
        return "check the permissions or choose another folder";
    case EROFS:
        return "the file system is read-only; choose another folder";
    case ENOENT:
    case ENOTDIR:
        return "check the path; folders are not created";
    case EISDIR:
        return "it is a folder; name a file";
    case ENAMETOOLONG:
        return "choose a shorter name";
    case EMFILE:
    case ENFILE:
        return "too many files are open; raise the limit (ulimit -n)";
    case EIO:
        return "the storage reports an error; check the disk";
    default:
        return "nothing was changed";
    }
}

static hf_status os_error(hf_error *err, const char *verb, const char *path, int error) {
    char text[128];
    return hf_fail(err, HF_E_IO, "cannot %s %s: %s; %s", verb, path,
                   strerror_r(error, text, sizeof text), remedy(error));
}

/* Where a symbolic link points to, so that it stays one; else path itself. Something that is there
 * and no plain file (/dev/null, a pipe) must not be replaced by one. */
static hf_status resolve(hf_file *file, const char *path, mode_t *mode, hf_error *err) {
    struct stat st;
    *mode = 0;
    if (realpath(path, file->path) == NULL) {
        if (errno != ENOENT)
            return os_error(err, "write", path, errno);
        if (strlen(path) >= sizeof file->path)
            return os_error(err, "write", path, ENAMETOOLONG);
        (void)snprintf(file->path, sizeof file->path, "%s", path);
        return HF_OK;
    }
    if (stat(file->path, &st) != 0)
        return os_error(err, "write", path, errno);
    if (S_ISDIR(st.st_mode))
        return os_error(err, "write", path, EISDIR);
    if (!S_ISREG(st.st_mode))
        return hf_fail(err, HF_E_IO, "cannot write %s: it is not a regular file; name another file",
                       path);
    *mode = st.st_mode & 07777;
    return HF_OK;
}

static int open_temp(hf_file *file) {
    static _Atomic unsigned serial;
    for (int i = 0; i < CREATE_TRIES; i++) {
        const int len = snprintf(file->temp, sizeof file->temp, "%s.%ld-%u.tmp", file->path,
                                 (long)getpid(), atomic_fetch_add(&serial, 1));
        if (len < 0 || (size_t)len >= sizeof file->temp) {
            errno = ENAMETOOLONG;
            return -1;
        }
        const int fd = open(file->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 || (errno != EEXIST && errno != EINTR))
            return fd;
    }
    return -1;
}

hf_status hf_file_create(hf_file **out, const char *path, hf_error *err) {
    hf_file *file = hf_alloc(sizeof *file);
    if (file == NULL)
        return hf_fail(err, HF_E_NOMEM, "cannot write %s: out of memory", path);
    file->used = 0;
    mode_t mode = 0;
    hf_status status = resolve(file, path, &mode, err);
    if (status == HF_OK) {
        file->fd = open_temp(file);
        if (file->fd < 0)
            status = os_error(err, "write", path, errno);
        else if (mode != 0)
            (void)fchmod(file->fd, mode); /* the new file keeps the old one's permissions */
    }
    if (status != HF_OK) {
        hf_free(file);
        return status;
    }
    *out = file;
    return HF_OK;
}

static hf_status write_out(hf_file *file, const char *data, size_t bytes, hf_error *err) {
    while (bytes > 0) {
        const ssize_t done = write(file->fd, data, bytes);
        if (done < 0 && errno == EINTR)
            continue;
        if (done <= 0)
            return os_error(err, "write", file->path, done < 0 ? errno : ENOSPC);
        data += done;
        bytes -= (size_t)done;
    }
    return HF_OK;
}

static hf_status flush(hf_file *file, hf_error *err) {
    const size_t used = file->used;
    file->used = 0;
    return write_out(file, file->buffer, used, err);
}

hf_status hf_file_write(hf_file *file, const void *data, size_t bytes, hf_error *err) {
    if (bytes > BUFFER_BYTES - file->used)
        HF_TRY(flush(file, err));
    if (bytes >= BUFFER_BYTES)
        return write_out(file, data, bytes, err);
    if (bytes > 0)
        memcpy(file->buffer + file->used, data, bytes);
    file->used += bytes;
    return HF_OK;
}

/* Make the rename last. Some file systems cannot sync a folder, and then need not. */
static hf_status sync_folder(const char *path, hf_error *err) {
    char folder[PATH_MAX];
    const char *slash = strrchr(path, '/');
    const int len = slash != NULL ? (int)(slash - path) + 1 : 0;
    (void)snprintf(folder, sizeof folder, "%.*s.", len, path);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? HF_OK : os_error(err, "sync the folder of", path, errno);
    int error = fsync(fd) != 0 ? errno : 0;
    (void)close(fd);
    if (error == EINVAL || error == ENOTSUP || error == EROFS)
        error = 0;
    return error != 0 ? os_error(err, "sync the folder of", path, error) : HF_OK;
}

hf_status hf_file_commit(hf_file *file, hf_error *err) {
    hf_status status = flush(file, err);
    if (status == HF_OK && fsync(file->fd) != 0 && errno != EINVAL)
        status = os_error(err, "write", file->path, errno);
    if (close(file->fd) != 0 && status == HF_OK && errno != EINTR)
        status = os_error(err, "write", file->path, errno);
    if (status == HF_OK && rename(file->temp, file->path) != 0)
        status = os_error(err, "replace", file->path, errno);
    if (status != HF_OK)
        (void)unlink(file->temp);
    else
        status = sync_folder(file->path, err);
    hf_free(file);
    return status;
}

void hf_file_abort(hf_file *file) {
    if (file == NULL)
        return;
    (void)close(file->fd);
    (void)unlink(file->temp);
    hf_free(file);
}

/* Read until the end of the file or until block is full. */
static hf_status fill(int fd, const char *path, char *block, size_t room, size_t *used,
                      hf_error *err) {
    while (*used < room) {
        const ssize_t got = read(fd, block + *used, room - *used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return os_error(err, "read", path, errno);
        if (got == 0)
            return HF_OK;
        *used += (size_t)got;
    }
    return HF_OK;
}

/* A block always has room for one byte more than expected, so that a full one means: there is more.
 */
static hf_status read_growing(int fd, const char *path, size_t max, size_t guess, void **data,
                              size_t *bytes, hf_error *err) {
    size_t room = (guess < max ? guess : max) + 1, used = 0;
    char *block = hf_alloc(room);
    while (block != NULL) {
        const hf_status status = fill(fd, path, block, room, &used, err);
        if (status != HF_OK) {
            hf_free(block);
            return status;
        }
        if (used < room) {
            *data = block;
            *bytes = used;
            return HF_OK;
        }
        if (used > max)
            break;
        room = room < max / 2 ? 2 * room : max + 1;
        char *larger = hf_alloc(room);
        if (larger != NULL)
            memcpy(larger, block, used);
        hf_free(block);
        block = larger;
    }
    hf_free(block);
    if (used > max)
        return hf_fail(err, HF_E_NOMEM, "cannot read %s: it is larger than the %zu bytes allowed",
                       path, max);
    return hf_fail(err, HF_E_NOMEM, "cannot read %s: no memory for %zu bytes", path, room);
}

hf_status hf_file_read_all(const char *path, uint64_t max_bytes, void **data, size_t *bytes,
                           hf_error *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return os_error(err, "read", path, errno);
    struct stat st;
    hf_status status = HF_OK;
    if (fstat(fd, &st) != 0)
        status = os_error(err, "read", path, errno);
    else if (S_ISDIR(st.st_mode))
        status = os_error(err, "read", path, EISDIR);
    else
        status = read_growing(fd, path, max_bytes < SIZE_MAX / 4 ? (size_t)max_bytes : SIZE_MAX / 4,
                              st.st_size > 0 ? (size_t)st.st_size : 0, data, bytes, err);
    (void)close(fd);
    return status;
}
