/* SPDX-License-Identifier: Apache-2.0
 * Files that appear whole or not at all. */
#ifndef HF_FILE_H
#define HF_FILE_H

#include "base/status.h"

typedef struct hf_file hf_file;

/* Begin to write `path`: a temporary file in the same folder, .NAME.0.holdfast or the like. One
 * that a killed writer of the same path left there is removed. Symbolic links are followed. */
hf_status hf_file_create(hf_file **out, const char *path, hf_error *err);
hf_status hf_file_write(hf_file *file, const void *data, size_t bytes, hf_error *err);
/* Bring all that was written to the disk, so that only the name is missing. Nothing may be written
 * after. */
hf_status hf_file_stage(hf_file *file, hf_error *err);
/* Stage, rename over path, fsync the folder; frees file whatever happens. On failure the temporary
 * file is removed and what was at path is untouched. */
hf_status hf_file_commit(hf_file *file, hf_error *err);
/* The same for several: all are staged before the first is renamed. The first *appeared have their
 * names, less than all only on failure. */
hf_status hf_file_commit_all(hf_file *const *files, int count, int *appeared, hf_error *err);
/* Give up: remove the temporary file. NULL is allowed. */
void hf_file_abort(hf_file *file);

/* CRC-32C (Castagnoli) of a block, going on from crc (0 to begin). */
uint32_t hf_crc32c(uint32_t crc, const void *data, size_t bytes);

/* Whole file into *data (free with hf_free). HF_E_NOMEM above max_bytes. */
hf_status hf_file_read_all(const char *path, uint64_t max_bytes, void **data, size_t *bytes,
                           hf_error *err);

#endif
