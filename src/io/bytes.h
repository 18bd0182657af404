/* SPDX-License-Identifier: Apache-2.0
 * The bytes of an open file, by their position. */
#ifndef HF_BYTES_H
#define HF_BYTES_H

#include "base/status.h"

/* A view: whoever opened the file closes it, and owns the name. */
struct hf_bytes {
    int fd;
    int64_t size;     /* of the file */
    const char *name; /* for messages */
};

/* Bytes [offset, offset + bytes) of the file to dst; *got is less only where the file ends.
 * HF_E_IO: the system cannot read them. */
hf_status hf_bytes_read(const struct hf_bytes *file, int64_t offset, void *dst, size_t bytes,
                        size_t *got, hf_error *err);

#endif
