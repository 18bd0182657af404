/* SPDX-License-Identifier: Apache-2.0
 * Data files. Reading: .npy, .fvecs, .bvecs, IDX (.gz too), CSV/TSV. Writing: .npy, whole or not at all. */
#ifndef HF_IO_H
#define HF_IO_H

#include <holdfast/array.h>
#include <holdfast/base.h>
#include <holdfast/context.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hf_dataset hf_dataset;

/* All zero means default. */
typedef struct hf_open_opts {
    uint64_t memory_bytes; /* files above this are not loaded but read in chunks where the format
                              allows it (.npy in C order, .fvecs, .bvecs), else HF_E_NOMEM;
                              0 means the context's limit */
    int stream;            /* non-zero: read in chunks even if it would fit */
} hf_open_opts;

/* Open a data file as a matrix. The format is told from the content, then from the name. IDX images
 * [n, h, w] become [n, h * w], one-dimensional .npy becomes [n, 1].
 * HF_E_IO    cannot be opened or read
 * HF_E_DATA  malformed; the message names file, place and remedy
 * HF_E_NOMEM larger than allowed and not streamable
 * Free *data with hf_dataset_close(). */
HF_API hf_status hf_dataset_open(hf_context *ctx, const char *path, const hf_open_opts *opts,
                                 hf_dataset **data);
HF_API void hf_dataset_close(hf_dataset *data);

/* The rows in memory, or NULL when they are read in chunks. Belongs to the dataset. */
HF_API const hf_array *hf_dataset_array(const hf_dataset *data);
/* The rows as a source, or NULL when they are in memory. Belongs to the dataset. */
HF_API const hf_source *hf_dataset_source(const hf_dataset *data);
/* "npy", "fvecs", "bvecs", "idx" or "csv". */
HF_API const char *hf_dataset_format(const hf_dataset *data);

/* Write a matrix as .npy (format 1.0, C order; BF16 is written as the '<V2' numpy and ml_dtypes use).
 * The file appears whole or not at all: temporary file beside it, fsync, rename. */
HF_API hf_status hf_write_npy(hf_context *ctx, const char *path, const hf_array *a);

/* Write `bytes` bytes to path, whole or not at all, as above. */
HF_API hf_status hf_write_file(hf_context *ctx, const char *path, const void *data, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
