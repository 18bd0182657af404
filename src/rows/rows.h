/* SPDX-License-Identifier: Apache-2.0
 * The rows of a problem, whether they lie in memory or are read in chunks. */
#ifndef HF_ROWS_H
#define HF_ROWS_H

#include "core/context.h"
#include <holdfast/array.h>

struct hf_reader;

struct hf_rows {
    hf_context *ctx;
    const hf_array *array; /* one of the two */
    const hf_source *source;
    int64_t n, d; /* rows that take part, columns */
    hf_dtype dtype;
    int64_t chunk_rows;     /* rows handed out at once */
    void *buffer;           /* [chunk_rows, d] for sources and where rows are dropped, else NULL */
    const int64_t *dropped; /* ascending numbers of rows that take no part */
    int64_t dropped_count;
    struct hf_reader *reader; /* copies them to the device panel by panel (reader.h), or NULL */
};

/* Called with rows [first, first + chunk->rows) of those that take part. */
typedef hf_status hf_rows_fn(void *job, const hf_array *chunk, int64_t first);

/* All rows in order, a chunk at a time; stops at the first failure and returns it. With a reader
 * chunks lie on the device. Else arrays without dropped rows are handed out in place. */
hf_status hf_rows_each(const struct hf_rows *rows, hf_rows_fn *fn, void *job);

/* The same rows without their reader, for a pass on the host; the reader is paused. */
struct hf_rows hf_rows_on_host(const struct hf_rows *rows);

/* Rows index[0..count) of those that take part, in any order, as float64 [count, d]. */
hf_status hf_rows_gather(const struct hf_rows *rows, const int64_t *index, int64_t count,
                         double *dst);

#endif
