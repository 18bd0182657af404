/* SPDX-License-Identifier: Apache-2.0 */
#include "io/bytes.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define READ_MAX ((size_t)1 << 30) /* bytes asked of one pread: Linux gives at most 2^31 - 4096 */

_Static_assert(sizeof(off_t) == 8, "file positions need 64 bits");

hf_status hf_bytes_read(const struct hf_bytes *file, int64_t offset, void *dst, size_t bytes,
                        size_t *got, hf_error *err) {
    *got = 0;
    while (*got < bytes) {
        const size_t left = bytes - *got;
        const int64_t at = offset + (int64_t)*got;
        const ssize_t n =
            pread(file->fd, (char *)dst + *got, left < READ_MAX ? left : READ_MAX, (off_t)at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return hf_fail(err, HF_E_IO, "%s: reading failed at byte %lld: %s", file->name,
                           (long long)at, strerror(errno));
        if (n == 0)
            return HF_OK;
        *got += (size_t)n;
    }
    return HF_OK;
}
