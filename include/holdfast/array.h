/* SPDX-License-Identifier: Apache-2.0
 * Views of data that somebody else owns: hf_array is memory, hf_source is rows read on demand. */
#ifndef HF_ARRAY_H
#define HF_ARRAY_H

#include <holdfast/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A row-major matrix: element (i, j) lies at data + (i * row_stride + j) * size. It may lie in host
 * memory or in that of the context's device. A view never owns its memory. A vector of n elements
 * is rows = n, cols = 1. */
typedef struct hf_array {
    void *data;         /* element (0, 0) */
    hf_dtype dtype;     /* of every element */
    int64_t rows;       /* at least 0 */
    int64_t cols;       /* at least 0 */
    int64_t row_stride; /* elements from one row to the next; 0 means cols */
} hf_array;

/* View of rows x cols elements without gaps. */
static inline hf_array hf_array_view(void *data, hf_dtype dtype, int64_t rows, int64_t cols) {
    hf_array a;
    a.data = data;
    a.dtype = dtype;
    a.rows = rows;
    a.cols = cols;
    a.row_stride = cols;
    return a;
}

/* Rows that need not be in memory: a file, a database, a generator. `read` is called from one
 * thread at a time, may be asked for the same rows again and must then give the same bytes. On a
 * GPU that is a thread of the library: it reads ahead, rows that turn out needless too, while
 * progress functions and sinks run on the caller's. */
typedef struct hf_source {
    int64_t rows;   /* in all */
    int64_t cols;   /* elements of a row */
    hf_dtype dtype; /* of every element */
    /* Write rows [first, first + count) to dst [count, cols], without gaps. On failure return a
     * status and put a message of at most message_bytes into message. A number that is no
     * hf_status counts as HF_E_IO. */
    hf_status (*read)(void *user, int64_t first, int64_t count, void *dst, char *message,
                      size_t message_bytes);
    void *user; /* first argument of read */
} hf_source;

#ifdef __cplusplus
}
#endif
#endif
