/* SPDX-License-Identifier: Apache-2.0 */
#include "io/input.h"

#include "io/gunzip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define READ_MAX ((size_t)1 << 30) /* bytes asked of one pread: Linux gives at most 2^31 - 4096 */

_Static_assert(sizeof(off_t) == 8, "file positions need 64 bits");

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

static hf_status open_file(struct hf_input *in, const char *path, hf_error *err) {
    /* O_NONBLOCK: opening a pipe must not wait for its writer. It changes nothing for files. */
    do {
        in->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    } while (in->fd < 0 && errno == EINTR);
    if (in->fd < 0)
        return hf_fail(err, HF_E_IO, "%s: cannot be opened: %s%s", in->name, strerror(errno),
                       open_remedy(errno));
    struct stat st;
    if (fstat(in->fd, &st) != 0)
        return hf_fail(err, HF_E_IO, "%s: cannot be examined: %s", in->name, strerror(errno));
    HF_TRY(check_kind(in, &st, err));
    in->size = (int64_t)st.st_size;
    in->mtime_s = (int64_t)st.st_mtim.tv_sec;
    in->mtime_ns = (int64_t)st.st_mtim.tv_nsec;
    return HF_OK;
}

static hf_status read_plain(struct hf_input *in, int64_t offset, void *dst, size_t bytes,
                            size_t *got, hf_error *err) {
    *got = 0;
    while (*got < bytes) {
        const size_t left = bytes - *got;
        const int64_t at = offset + (int64_t)*got;
        const ssize_t n =
            pread(in->fd, (char *)dst + *got, left < READ_MAX ? left : READ_MAX, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hf_fail(err, HF_E_IO, "%s: reading failed at byte %lld: %s", in->name,
                           (long long)at, strerror(errno));
        if (n == 0)
            return HF_OK;
        *got += (size_t)n;
    }
    return HF_OK;
}

static hf_status read_head(struct hf_input *in, hf_error *err) {
    HF_TRY(read_plain(in, 0, in->head, sizeof in->head, &in->head_bytes, err));
    if (in->head_bytes < 2 || in->head[0] != 0x1f || in->head[1] != 0x8b)
        return HF_OK;
    HF_TRY(hf_gunzip_open(&in->gz, in->fd, in->name, err));
    HF_TRY(hf_gunzip_read(in->gz, in->head, sizeof in->head, &in->head_bytes, err));
    if (in->head_bytes == 0)
        return hf_fail(err, HF_E_DATA, "%s: the compressed file holds no data", in->name);
    return HF_OK;
}

hf_status hf_input_open(struct hf_input *in, const char *path, hf_error *err) {
    memset(in, 0, sizeof *in);
    in->fd = -1;
    set_name(in, path);
    hf_status status = open_file(in, path, err);
    if (status == HF_OK)
        status = read_head(in, err);
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
    if ((int64_t)st.st_size == in->size && (int64_t)st.st_mtim.tv_sec == in->mtime_s &&
        (int64_t)st.st_mtim.tv_nsec == in->mtime_ns)
        return HF_OK;
    return hf_fail(
        err, HF_E_IO,
        "%s: was changed while it was being read (it had %lld bytes and has %lld now); run "
        "again when nothing writes to it",
        in->name, (long long)in->size, (long long)st.st_size);
}
