/* SPDX-License-Identifier: Apache-2.0
 * range: least and largest value of each column, and which rows are not finite; of one problem or
 * of several, whose rows lie one behind the other. Of whole numbers also sums and sums of squares,
 * which spares their moments a pass. */
#ifndef HF_RANGE_H
#define HF_RANGE_H

#include "core/run.h"
#include <stdbool.h>

/* All in/out, so that chunks can follow each other: start with min = +Inf, max = -Inf, whole =
 * true. */
struct hf_range_args {
    hf_array x;        /* [batch * n, d] any data type */
    int64_t batch;     /* problems; 0 stands for 1 */
    double *min, *max; /* [batch, d] over the rows that are finite throughout */
    bool *whole;       /* [batch] stays true while every value of such rows is a whole number */
    uint8_t *row_bad;  /* [batch * n] out: 1 where a row has NaN or Inf, else 0 */
    int64_t *bad_rows; /* [batch] added to: how many such rows */
    /* [batch, 2, d] added to: sums of x and of x * x over the rows that are finite, of use where
     * all values are whole and neither those nor any part of them goes beyond 2^53. NULL: not
     * wanted; never wanted unless hf_range_sums(). */
    double *sums;
};

/* Do kernels of the context's device add up whole numbers? On a GPU a pass for the moments costs
 * less than sums in every pass for the range. */
static inline bool hf_range_sums(const hf_context *ctx) { return hf_ctx_is_host(ctx); }

static inline int64_t hf_range_batch(const struct hf_range_args *args) {
    return args->batch > 1 ? args->batch : 1;
}

/* Problem p alone. */
static inline struct hf_range_args hf_range_problem(const struct hf_range_args *args, int64_t p) {
    struct hf_range_args one = *args;
    const int64_t n = args->x.rows / hf_range_batch(args), d = args->x.cols;
    const int64_t stride = args->x.row_stride ? args->x.row_stride : d;
    one.batch = 1;
    one.x.data = (char *)args->x.data + (size_t)(p * n * stride) * hf_dtype_bytes(args->x.dtype);
    one.x.rows = n;
    one.min += p * d;
    one.max += p * d;
    one.whole += p;
    one.row_bad += p * n;
    one.bad_rows += p;
    one.sums = args->sums ? args->sums + p * 2 * d : NULL;
    return one;
}

static inline hf_status hf_range(hf_context *ctx, const struct hf_range_args *args) {
    return hf_run(ctx, HF_OP_RANGE, args);
}

#endif
