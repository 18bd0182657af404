/* SPDX-License-Identifier: Apache-2.0
 * The inside of prepared rows (prep.h): reading them, and measuring them for a scaling. */
#ifndef HF_PREP_ROWS_H
#define HF_PREP_ROWS_H

#include "base/status.h"
#include <holdfast/prep.h>
#include <stdbool.h>

struct hf_prep {
    char name[256]; /* of the data, for messages */
    hf_array x;     /* the rows as they come, data NULL: from inner */
    hf_source inner;
    hf_source source; /* the prepared rows */
    int64_t *columns; /* [source.cols] numbers in the rows as they come */
    bool all;         /* columns are 0, 1, ... and no more come */
    double *missing;  /* [missing_count], as the type of the rows has them */
    int64_t missing_count;
    double *parameters; /* [2, source.cols]: shifts, units; NULL: no scaling */
    hf_scaling scaling;
    int64_t flat, first_flat; /* columns that vary, but have equal quartiles; the first of them */
    unsigned char *raw;       /* [raw_rows, inner.cols] of what inner reads; NULL with x */
    int64_t raw_rows;
    double *wide; /* [x.cols or inner.cols], a row as it comes */
    double *row;  /* [source.cols], a prepared row */
};

/* Columns and type of the rows as they come. */
static inline int64_t hf_prep_cols_in(const struct hf_prep *p) {
    return p->x.data != NULL ? p->x.cols : p->inner.cols;
}
static inline hf_dtype hf_prep_dtype_in(const struct hf_prep *p) {
    return p->x.data != NULL ? p->x.dtype : p->inner.dtype;
}

/* What is prepared. */
struct hf_prep_input {
    const char *name;  /* for messages */
    uint64_t memory;   /* bytes that counting may take */
    const hf_array *x; /* one of the two, which outlives the prepared rows */
    const hf_source *source;
};

/* hf_prep_create() without a context. opts: NULL means defaults; *prep is not written on failure.
 * */
hf_status hf_prep_make(const struct hf_prep_input *input, const hf_prep_opts *opts,
                       struct hf_prep **prep, hf_error *err);

/* Prepared rows, as hf_source.read() gives them; user is the struct hf_prep. */
hf_status hf_prep_read(void *user, int64_t first, int64_t count, void *dst, char *message,
                       size_t message_bytes);

/* Called with rows [first, first + count), [count, cols] in float64, not scaled yet. */
typedef hf_status hf_prep_fn(void *job, int64_t first, const double *rows, int64_t count);

/* All rows in order, a block at a time, but for those with NaN or Inf. `first` counts all. */
hf_status hf_prep_each(struct hf_prep *p, hf_prep_fn *fn, void *job, hf_error *err);

/* Fill p->parameters for a method other than NONE; counting may take `memory` bytes. */
hf_status hf_prep_measure(struct hf_prep *p, hf_scale method, uint64_t memory, hf_error *err);

/* The quartiles of `count` columns from `column` on, [count, 3] to quartiles: exact, each between
 * the two nearest of n rows. */
struct hf_quartiles {
    struct hf_prep *p;
    int64_t n; /* rows without NaN and Inf */
    int64_t column, count;
    double *quartiles;
};
#define HF_QUARTILE_BYTES ((uint64_t)6 * 2048 * sizeof(int64_t)) /* that a column takes */
hf_status hf_quartiles_find(const struct hf_quartiles *q, hf_error *err);

#endif
