/* SPDX-License-Identifier: Apache-2.0 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "base/file.h"

#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)256 << 10)
#define MAX_WRITERS 100 /* of one file at the same time */
#define MAX_LINKS 40    /* that lead to a file, as in the kernel */

struct hf_file {
    int fd;
    int old;             /* what path names until the rename; -1: nothing */
    bool staged;         /* complete and on the disk, but for its name */
    size_t used;         /* of buffer */
    char name[PATH_MAX]; /* as the caller said it, for messages */
    char path[PATH_MAX]; /* the same, links followed */
    char temp[PATH_MAX]; /* beside path */
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
        return "it is a folder: remove it or name a file";
    case EEXIST:
        return "remove the hidden files of that name that end in .holdfast: killed runs left them";
    case ELOOP:
        return "its links lead in a circle; remove them or name another file";
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

/* The length of the folder in front of the last part of a path, its slash included. */
static int folder_length(const char *path) {
    const char *slash = strrchr(path, '/');
    return slash != NULL ? (int)(slash - path) + 1 : 0;
}

/* Replace file->path by what it links to, so that links stay links, also those to a file that is
 * not there yet. Returns an error of the operating system or 0. */
static int follow_links(hf_file *file) {
    char target[PATH_MAX];
    char whole[PATH_MAX];
    for (int hops = 0; hops < MAX_LINKS; hops++) {
        const ssize_t length = readlink(file->path, target, sizeof target - 1);
        if (length < 0)
            return 0; /* no link; what else may be wrong shows when the file is made */
        target[length] = '\0';
        const int folder = target[0] == '/' ? 0 : folder_length(file->path);
        const int used = snprintf(whole, sizeof whole, "%.*s%s", folder, file->path, target);
        if (used < 0 || (size_t)used >= sizeof whole)
            return ENAMETOOLONG;
        memcpy(file->path, whole, (size_t)used + 1);
    }
    return ELOOP;
}

/* Something that is there and no plain file (/dev/null, a pipe) must not be replaced by one. */
static hf_status resolve(hf_file *file, const char *path, mode_t *mode, hf_error *err) {
    struct stat st;
    *mode = 0;
    if (strlen(path) >= sizeof file->path)
        return os_error(err, "write", path, ENAMETOOLONG);
    (void)snprintf(file->name, sizeof file->name, "%s", path);
    (void)snprintf(file->path, sizeof file->path, "%s", path);
    const int error = follow_links(file);
    if (error != 0)
        return os_error(err, "write", path, error);
    if (stat(file->path, &st) != 0)
        return errno == ENOENT ? HF_OK : os_error(err, "write", path, errno);
    if (S_ISDIR(st.st_mode))
        return os_error(err, "write", path, EISDIR);
    if (!S_ISREG(st.st_mode))
        return hf_fail(err, HF_E_IO, "cannot write %s: it is not a regular file; name another file",
                       path);
    *mode = st.st_mode & 07777;
    return HF_OK;
}

/* ---- temporary files. Their writer holds a lock on them, which ends with it however it ends: one
 * that can be locked was left by a writer that was killed. */

/* Remove file->temp if its writer is gone. Whoever holds the lock of what temp names, and nobody
 * else, may rename or remove it, hence the second look at the name under the lock. */
static bool drop_stale(const hf_file *file) {
    struct stat held, named;
    int fd = open(file->temp, O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 && errno == EACCES) /* it has the permissions of a read-only target */
        fd = open(file->temp, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT;
    const bool gone = flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &held) == 0 &&
                      lstat(file->temp, &named) == 0 && S_ISREG(held.st_mode) &&
                      held.st_dev == named.st_dev && held.st_ino == named.st_ino &&
                      held.st_uid == geteuid() && unlink(file->temp) == 0;
    (void)close(fd);
    return gone;
}

/* False when another writer took the new file for a stale one before it was locked. A file system
 * without locks never has stale files removed. */
static bool lock_temp(int fd) {
    struct stat st;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        return errno != EWOULDBLOCK;
    return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

/* One of a few names in the same folder, so that leftovers are found without looking for them. */
static int open_temp(hf_file *file) {
    const int folder = folder_length(file->path);
    int number = 0;
    for (int tries = 0; number < MAX_WRITERS && tries < 10 * MAX_WRITERS; tries++) {
        const int len = snprintf(file->temp, sizeof file->temp, "%.*s.%s.%d.holdfast", folder,
                                 file->path, file->path + folder, number);
        if (len < 0 || (size_t)len >= sizeof file->temp) {
            errno = ENAMETOOLONG;
            return -1;
        }
        const int fd = open(file->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0 && lock_temp(fd))
            return fd;
        if (fd >= 0)
            (void)close(fd);
        else if (errno == EEXIST)
            number += drop_stale(file) ? 0 : 1;
        else if (errno != EINTR)
            return -1;
    }
    errno = EEXIST;
    return -1;
}

hf_status hf_file_create(hf_file **out, const char *path, hf_error *err) {
    hf_file *file = hf_alloc(sizeof *file);
    if (file == NULL)
        return hf_fail(err, HF_E_NOMEM, "cannot write %s: out of memory", path);
    file->used = 0;
    file->old = -1;
    file->staged = false;
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
            return os_error(err, "write", file->name, done < 0 ? errno : ENOSPC);
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

static bool same_folder(const hf_file *a, const hf_file *b) {
    const int length = folder_length(a->path);
    return length == folder_length(b->path) && memcmp(a->path, b->path, (size_t)length) == 0;
}

/* Make the rename last. Some file systems cannot sync a folder, and then need not. */
static hf_status sync_folder(const hf_file *file, hf_error *err) {
    char folder[PATH_MAX];
    (void)snprintf(folder, sizeof folder, "%.*s.", folder_length(file->path), file->path);
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return errno == EACCES ? HF_OK : os_error(err, "sync the folder of", file->name, errno);
    int error = fsync(fd) != 0 ? errno : 0;
    (void)close(fd);
    if (error == EINVAL || error == ENOTSUP || error == EROFS)
        error = 0;
    return error != 0 ? os_error(err, "sync the folder of", file->name, error) : HF_OK;
}

/* The lock goes with fd, so not before the name is right. The old file goes with its handle: to
 * give its space back can take long, and would otherwise be a part of the rename. */
static void release(hf_file *file) {
    (void)close(file->fd);
    if (file->old >= 0)
        (void)close(file->old);
    hf_free(file);
}

hf_status hf_file_stage(hf_file *file, hf_error *err) {
    if (file->staged)
        return HF_OK;
    file->old = open(file->path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    HF_TRY(flush(file, err));
    if (fsync(file->fd) != 0 && errno != EINVAL)
        return os_error(err, "write", file->name, errno);
    file->staged = true;
    return HF_OK;
}

hf_status hf_file_commit_all(hf_file *const *files, int count, int *appeared, hf_error *err) {
    hf_status status = HF_OK;
    int moved = 0;
    for (int i = 0; i < count && status == HF_OK; i++)
        status = hf_file_stage(files[i], err);
    while (status == HF_OK && moved < count) {
        if (rename(files[moved]->temp, files[moved]->path) == 0)
            moved++;
        else
            status = os_error(err, "replace", files[moved]->name, errno);
    }
    for (int i = 0; i < moved && status == HF_OK; i++)
        if (i == 0 || !same_folder(files[i - 1], files[i]))
            status = sync_folder(files[i], err);
    for (int i = 0; i < count; i++) {
        if (i >= moved)
            (void)unlink(files[i]->temp);
        release(files[i]);
    }
    *appeared = moved;
    return status;
}

hf_status hf_file_commit(hf_file *file, hf_error *err) {
    int appeared;
    return hf_file_commit_all(&file, 1, &appeared, err);
}

void hf_file_abort(hf_file *file) {
    if (file == NULL)
        return;
    (void)unlink(file->temp);
    release(file);
}

/* A file that is read whole. */
struct whole {
    int fd;
    const char *path;
    size_t most;  /* bytes allowed */
    size_t guess; /* bytes that the system says it has */
    hf_error *err;
};

/* Read until the end of the file or until block is full. */
static hf_status fill(const struct whole *file, char *block, size_t room, size_t *used) {
    while (*used < room) {
        const ssize_t got = read(file->fd, block + *used, room - *used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return os_error(file->err, "read", file->path, errno);
        if (got == 0)
            return HF_OK;
        *used += (size_t)got;
    }
    return HF_OK;
}

/* A block always has room for one byte more than expected, so that a full one means: there is more.
 */
static hf_status read_growing(const struct whole *file, void **data, size_t *bytes) {
    const size_t max = file->most;
    size_t room = (file->guess < max ? file->guess : max) + 1, used = 0;
    char *block = hf_alloc(room);
    while (block != NULL) {
        const hf_status status = fill(file, block, room, &used);
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
        return hf_fail(file->err, HF_E_NOMEM,
                       "cannot read %s: it is larger than the %zu bytes allowed", file->path, max);
    return hf_fail(file->err, HF_E_NOMEM, "cannot read %s: no memory for %zu bytes", file->path,
                   room);
}

hf_status hf_file_read_all(const char *path, uint64_t max_bytes, void **data, size_t *bytes,
                           hf_error *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return os_error(err, "read", path, errno);
    struct whole file = {.fd = fd, .path = path, .err = err};
    file.most = max_bytes < SIZE_MAX / 4 ? (size_t)max_bytes : SIZE_MAX / 4;
    struct stat st;
    hf_status status = HF_OK;
    if (fstat(fd, &st) != 0)
        status = os_error(err, "read", path, errno);
    else if (S_ISDIR(st.st_mode))
        status = os_error(err, "read", path, EISDIR);
    file.guess = status == HF_OK && st.st_size > 0 ? (size_t)st.st_size : 0;
    if (status == HF_OK)
        status = read_growing(&file, data, bytes);
    (void)close(fd);
    return status;
}
