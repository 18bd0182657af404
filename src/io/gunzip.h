/* SPDX-License-Identifier: Apache-2.0
 * Decompression of gzip files, and of deflated members of ZIP archives, from front to back, in
 * bounded memory. */
#ifndef HF_GUNZIP_H
#define HF_GUNZIP_H

#include "base/status.h"
#include "io/zip.h"

/* Deflate makes at most this many bytes of one (zlib's technical notes: 1032:1). */
#define HF_GUNZIP_MAX_RATIO 1032

struct hf_gunzip;

/* Read the content of `file`, from its start, or of a deflated member of it (NULL: the file is one
 * of gzip). The file's name and the member are borrowed. HF_E_NOMEM */
hf_status hf_gunzip_open(struct hf_gunzip **gz, const struct hf_bytes *file,
                         const struct hf_zip_member *member, hf_error *err);
void hf_gunzip_close(struct hf_gunzip *gz);

/* The next `bytes` bytes; *got is less only at the end, after the checksums were found right. */
hf_status hf_gunzip_read(struct hf_gunzip *gz, void *dst, size_t bytes, size_t *got, hf_error *err);

/* Bytes handed out so far. */
int64_t hf_gunzip_position(const struct hf_gunzip *gz);

#endif
