/* SPDX-License-Identifier: Apache-2.0
 * A file that is read: by position, or from front to back when it is compressed. What is read of a
 * ZIP archive (.npz) is one of its members, of standard input a copy in memory. */
#ifndef HF_INPUT_H
#define HF_INPUT_H

#include "base/status.h"
#include "io/zip.h"
#include <sys/types.h>

#define HF_INPUT_HEAD 4096

struct hf_gunzip;

struct hf_input {
    int fd;
    char name[256]; /* the path for messages; long ones lose their front */
    int64_t size;   /* bytes on disk, of the member if it is one */
    int64_t file_bytes, mtime_s, mtime_ns;
    bool is_member; /* of a ZIP archive */
    struct hf_zip_member member;
    struct hf_gunzip *gz; /* NULL: the content is not compressed */
    size_t head_bytes;
    unsigned char head[HF_INPUT_HEAD]; /* the first bytes of the content, decompressed */
};

/* Open a regular file that is not empty, a member of a ZIP archive ("FILE.npz:NAME", or the only
 * one), or standard input ("-"), of which at most `most` bytes are kept. On failure nothing needs
 * closing.
 * HF_E_IO: missing, no permission, a directory, pipe or device; HF_E_DATA: empty or damaged gzip or
 * ZIP; HF_E_NOMEM: too much on standard input. */
hf_status hf_input_open(struct hf_input *in, const char *path, uint64_t most, hf_error *err);
void hf_input_close(struct hf_input *in);

/* Let a compressed file be read from its front again; others can be at any time. */
hf_status hf_input_rewind(struct hf_input *in, hf_error *err);

/* Bytes [offset, offset + bytes) of the content into dst; *got is less only where the content ends.
 * Compressed: past the head, offset must be where the last read ended. */
hf_status hf_input_read(struct hf_input *in, int64_t offset, void *dst, size_t bytes, size_t *got,
                        hf_error *err);

/* The same; content that ends earlier is HF_E_DATA. */
hf_status hf_input_read_all_of(struct hf_input *in, int64_t offset, void *dst, size_t bytes,
                               hf_error *err);

/* Is the content `total` bytes long, no more and no less? `what` names the part of the file that
 * promises it ("the .npy header"). Compressed: only to be asked at the end, sees what is too much.
 */
hf_status hf_input_expect_size(struct hf_input *in, int64_t total, const char *what, hf_error *err);

/* HF_E_IO when the file has been changed since it was opened. */
hf_status hf_input_unchanged(const struct hf_input *in, hf_error *err);

#endif
