/* SPDX-License-Identifier: Apache-2.0 */
#include "io/input.h"

#include "base/mem.h"
#include "io/gunzip.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define COPY_BYTES ((size_t)1 << 20) /* of standard input at once */

/* Control characters would let a file name write to the terminal that shows the message. */
static void set_name(struct hf_input *in, const char *path) {
    const size_t bytes = strlen(path);
    const size_t room = sizeof in->name - 1;
    if (bytes <= room)
        (void)snprintf(in->name, sizeof in->name, "%s", path);
    else
        (void)snprintf(in->name, sizeof in->name, "...%s", path + (bytes - room + 3));
    for (char *c = in->name; *c != '\0'; c++)
        if ((unsigned char)*c < 32 || *c == 127)
            *c = '?';
}

static const char *open_remedy(int error) {
    switch (error) {
    case ENOENT:
        return "; check the name";
    case EACCES:
        return "; ask its owner for read permission";
    case EMFILE:
    case ENFILE:
        return "; raise the limit of open files (ulimit -n)";
    default:
        return "";
    }
}

static hf_status check_kind(struct hf_input *in, const struct stat *st, hf_error *err) {
    const char *kind = NULL;
    if (S_ISDIR(st->st_mode))
        return hf_fail(err, HF_E_IO, "%s: is a directory; name a data file in it", in->name);
    if (S_ISFIFO(st->st_mode))
        kind = "pipe";
    else if (S_ISCHR(st->st_mode) || S_ISBLK(st->st_mode))
        kind = "device";
    else if (!S_ISREG(st->st_mode))
        kind = "special file";
    if (kind != NULL)
        return hf_fail(err, HF_E_IO,
                       "%s: is a %s, and rows must be read more than once; save the data to a "
                       "regular file first",
                       in->name, kind);
    if (st->st_size == 0)
        return hf_fail(err, HF_E_DATA, "%s: the file is empty; write data to it first", in->name);
    return HF_OK;
}

static void keep_stat(struct hf_input *in, const struct stat *st) {
    in->size = in->file_bytes = (int64_t)st->st_size;
    in->mtime_s = (int64_t)st->st_mtim.tv_sec;
    in->mtime_ns = (int64_t)st->st_mtim.tv_nsec;
}

static int open_fd(const char *path) {
    int fd;
    /* O_NONBLOCK: opening a pipe must not wait for its writer. It changes nothing for files. */
    do {
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (fd < 0 && errno == EINTR);
    return fd;
}

/* FILE:NAME where there is no file of that name: the member NAME of FILE. */
static void open_named(struct hf_input *in, const char *path, const char **wanted) {
    const char *colon = strrchr(path, ':');
    in->fd = open_fd(path);
    if (in->fd >= 0 || (errno != ENOENT && errno != ENOTDIR) || colon == NULL || colon == path ||
        colon[1] == '\0')
        return;
    const int os_error = errno;
    char file[PATH_MAX];
    const int written = snprintf(file, sizeof file, "%.*s", (int)(colon - path), path);
    in->fd = written < PATH_MAX ? open_fd(file) : -1;
    errno = os_error;
    *wanted = colon + 1;
}

static hf_status open_file(struct hf_input *in, const char *path, const char **wanted,
                           hf_error *err) {
    open_named(in, path, wanted);
    if (in->fd < 0)
        return hf_fail(err, HF_E_IO, "%s: cannot be opened: %s%s", in->name, strerror(errno),
                       open_remedy(errno));
    struct stat st;
    if (fstat(in->fd, &st) != 0)
        return hf_fail(err, HF_E_IO, "%s: cannot be examined: %s", in->name, strerror(errno));
    HF_TRY(check_kind(in, &st, err));
    keep_stat(in, &st);
    return HF_OK;
}

/* All that comes from standard input, into the memory behind in->fd. */
static hf_status copy_standard(struct hf_input *in, char *block, uint64_t most, hf_error *err) {
    uint64_t bytes = 0;
    for (;;) {
        const ssize_t n = read(STDIN_FILENO, block, COPY_BYTES);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hf_fail(err, HF_E_IO, "%s: reading failed at byte %llu: %s", in->name,
                           (unsigned long long)bytes, strerror(errno));
        if (n == 0)
            return HF_OK;
        bytes += (uint64_t)n;
        if (bytes > most)
            return hf_fail(err, HF_E_NOMEM,
                           "%s: is more than the %llu bytes allowed, and all of it is kept in "
                           "memory; save it to a file, or raise memory_bytes",
                           in->name, (unsigned long long)most);
        for (ssize_t done = 0; done < n;) {
            const ssize_t now = write(in->fd, block + done, (size_t)(n - done));
            if (now < 0 && errno != EINTR)
                return hf_fail(err, HF_E_NOMEM,
                               "%s: the system has no memory for more than %llu bytes of it (%s); "
                               "save it to a file",
                               in->name, (unsigned long long)bytes, strerror(errno));
            done += now > 0 ? now : 0;
        }
    }
}

/* Rows are read more than once: a file that is redirected is opened again from its front, what
 * comes through a pipe is copied first. */
static hf_status open_standard(struct hf_input *in, uint64_t most, hf_error *err) {
    struct stat st;
    const bool file = fstat(STDIN_FILENO, &st) == 0 && S_ISREG(st.st_mode) &&
                      lseek(STDIN_FILENO, 0, SEEK_CUR) == 0;
    in->fd = file ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                  : memfd_create("holdfast-input", MFD_CLOEXEC);
    if (in->fd < 0)
        return hf_fail(err, HF_E_IO, "%s: cannot be opened: %s", in->name, strerror(errno));
    if (!file) {
        char *block = hf_alloc(COPY_BYTES);
        const hf_status status =
            block != NULL ? copy_standard(in, block, most, err)
                          : hf_fail(err, HF_E_NOMEM, "%s: no memory to read it", in->name);
        hf_free(block);
        HF_TRY(status);
    }
    if (fstat(in->fd, &st) != 0)
        return hf_fail(err, HF_E_IO, "%s: cannot be examined: %s", in->name, strerror(errno));
    if (st.st_size == 0)
        return hf_fail(err, HF_E_DATA, "%s: is empty; send data to it, or name a file", in->name);
    keep_stat(in, &st);
    return HF_OK;
}

static struct hf_bytes file_of(const struct hf_input *in) {
    return (struct hf_bytes){.fd = in->fd, .size = in->file_bytes, .name = in->name};
}

/* Bytes of the content, which may be a part of the file. */
static hf_status read_plain(const struct hf_input *in, int64_t offset, void *dst, size_t bytes,
                            size_t *got, hf_error *err) {
    const int64_t base = in->is_member ? in->member.offset : 0;
    const int64_t left = offset < in->size ? in->size - offset : 0;
    const size_t ask = in->is_member && bytes > (uint64_t)left ? (size_t)left : bytes;
    const struct hf_bytes file = file_of(in);
    return hf_bytes_read(&file, base + offset, dst, ask, got, err);
}

static hf_status read_packed_head(struct hf_input *in, hf_error *err) {
    const struct hf_bytes file = file_of(in);
    HF_TRY(hf_gunzip_open(&in->gz, &file, in->is_member ? &in->member : NULL, err));
    HF_TRY(hf_gunzip_read(in->gz, in->head, sizeof in->head, &in->head_bytes, err));
    if (in->head_bytes == 0)
        return hf_fail(err, HF_E_DATA, "%s: the compressed file holds no data", in->name);
    return HF_OK;
}

static hf_status read_head(struct hf_input *in, hf_error *err) {
    if (in->is_member && in->member.deflated)
        return read_packed_head(in, err);
    HF_TRY(read_plain(in, 0, in->head, sizeof in->head, &in->head_bytes, err));
    const bool gzip = in->head_bytes >= 2 && in->head[0] == 0x1f && in->head[1] == 0x8b;
    return gzip && !in->is_member ? read_packed_head(in, err) : HF_OK;
}

/* Of an archive one member stands for the file. */
static hf_status enter_archive(struct hf_input *in, const char *wanted, hf_error *err) {
    const bool archive = in->gz == NULL && hf_zip_probe(in->head, in->head_bytes);
    if (!archive && wanted == NULL)
        return HF_OK;
    if (!archive)
        return hf_fail(err, HF_E_DATA,
                       "%s: the file before the colon is no .npz file, so it has no arrays with "
                       "names",
                       in->name);
    const struct hf_bytes file = file_of(in);
    HF_TRY(hf_zip_find(&file, wanted, &in->member, err));
    in->is_member = true;
    in->size = in->member.packed;
    return read_head(in, err);
}

hf_status hf_input_open(struct hf_input *in, const char *path, uint64_t most, hf_error *err) {
    const char *wanted = NULL;
    const bool standard = strcmp(path, "-") == 0;
    memset(in, 0, sizeof *in);
    in->fd = -1;
    set_name(in, standard ? "standard input" : path);
    hf_status status = standard ? open_standard(in, most, err) : open_file(in, path, &wanted, err);
    if (status == HF_OK)
        status = read_head(in, err);
    if (status == HF_OK)
        status = enter_archive(in, wanted, err);
    if (status != HF_OK)
        hf_input_close(in);
    return status;
}

hf_status hf_input_rewind(struct hf_input *in, hf_error *err) {
    hf_gunzip_close(in->gz);
    in->gz = NULL;
    return read_head(in, err);
}

void hf_input_close(struct hf_input *in) {
    hf_gunzip_close(in->gz);
    in->gz = NULL;
    if (in->fd >= 0)
        (void)close(in->fd);
    in->fd = -1;
}

hf_status hf_input_read(struct hf_input *in, int64_t offset, void *dst, size_t bytes, size_t *got,
                        hf_error *err) {
    if (in->gz == NULL)
        return read_plain(in, offset, dst, bytes, got, err);
    *got = 0;
    const int64_t head = (int64_t)in->head_bytes;
    if (offset < head) {
        const size_t left = (size_t)(head - offset);
        *got = bytes < left ? bytes : left;
        memcpy(dst, in->head + offset, *got);
    }
    if (*got == bytes)
        return HF_OK;
    if (offset + (int64_t)*got != hf_gunzip_position(in->gz))
        return hf_fail(err, HF_E_INTERNAL, "%s: a compressed file was read out of order", in->name);
    size_t more = 0;
    const hf_status status = hf_gunzip_read(in->gz, (char *)dst + *got, bytes - *got, &more, err);
    *got += more;
    return status;
}

hf_status hf_input_read_all_of(struct hf_input *in, int64_t offset, void *dst, size_t bytes,
                               hf_error *err) {
    size_t got = 0;
    HF_TRY(hf_input_read(in, offset, dst, bytes, &got, err));
    if (got == bytes)
        return HF_OK;
    const int64_t end = offset + (int64_t)got;
    const int64_t wanted = offset + (int64_t)bytes;
    if (in->gz == NULL && wanted <= in->size)
        return hf_fail(err, HF_E_IO,
                       "%s: became shorter while it was being read: ends at byte %lld, had %lld; "
                       "run again when nothing writes to it",
                       in->name, (long long)end, (long long)in->size);
    return hf_fail(err, HF_E_DATA,
                   "%s: ends after %lld bytes where at least %lld are needed; the file is cut off: "
                   "write or copy it again",
                   in->name, (long long)end, (long long)wanted);
}

hf_status hf_input_expect_size(struct hf_input *in, int64_t total, const char *what,
                               hf_error *err) {
    if (in->gz == NULL && in->size != total)
        return hf_fail(err, HF_E_DATA,
                       "%s: has %lld bytes, but %s promises %lld: the file is %s; write "
                       "or copy it again",
                       in->name, (long long)in->size, what, (long long)total,
                       in->size < total ? "cut off" : "longer than it should be");
    if (in->gz == NULL)
        return HF_OK;
    char extra;
    size_t got = 0;
    HF_TRY(hf_input_read(in, total, &extra, 1, &got, err));
    if (got == 0)
        return HF_OK;
    return hf_fail(err, HF_E_DATA,
                   "%s: has more than the %lld bytes of content that %s promises; write it again",
                   in->name, (long long)total, what);
}

hf_status hf_input_unchanged(const struct hf_input *in, hf_error *err) {
    struct stat st;
    if (fstat(in->fd, &st) != 0)
        return hf_fail(err, HF_E_IO, "%s: cannot be examined: %s", in->name, strerror(errno));
    if ((int64_t)st.st_size == in->file_bytes && (int64_t)st.st_mtim.tv_sec == in->mtime_s &&
        (int64_t)st.st_mtim.tv_nsec == in->mtime_ns)
        return HF_OK;
    return hf_fail(
        err, HF_E_IO,
        "%s: was changed while it was being read (it had %lld bytes and has %lld now); run "
        "again when nothing writes to it",
        in->name, (long long)in->file_bytes, (long long)st.st_size);
}
