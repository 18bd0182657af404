/* SPDX-License-Identifier: Apache-2.0
 * frame: where the bulk of the rows lies, and how far they are from there: medians, which a few far
 * rows do not move. Of a fixed sample; of one problem or of several, whose rows lie one behind the
 * other.
 *
 * A length is the root of the sum of (x_j - origin_j)^2 in float64, features in ascending order,
 * one rounding for each operation: every kernel gives the same bits. */
#ifndef HF_FRAME_H
#define HF_FRAME_H

#include "core/run.h"

#define HF_FRAME_ROWS 256                  /* of the sample at most, */
#define HF_FRAME_VALUES ((int64_t)1 << 15) /* fewer where rows are long: values at most, */
#define HF_FRAME_LEAST 16                  /* but not fewer rows */

struct hf_frame_args {
    hf_array x;            /* [batch * n, d] any data type, finite */
    int64_t batch;         /* problems; 0 stands for 1 */
    const double *mean;    /* [batch, d] an origin to compare with */
    double *median;        /* [batch, d] out: lower median of each column; 0, not -0 */
    double *length_mean;   /* [batch] out: lower median of |x - mean| */
    double *length_median; /* [batch] out: that of |x - median| */
};

static inline int64_t hf_frame_batch(const struct hf_frame_args *args) {
    return args->batch > 1 ? args->batch : 1;
}

/* Rows of the sample of n >= 1 rows of d columns: row i of it is row i * n / hf_frame_rows(n, d).
 */
static inline int64_t hf_frame_rows(int64_t n, int64_t d) {
    int64_t rows = HF_FRAME_VALUES / d;
    rows = rows < HF_FRAME_LEAST ? HF_FRAME_LEAST : rows;
    rows = rows > HF_FRAME_ROWS ? HF_FRAME_ROWS : rows;
    return rows < n ? rows : n;
}

/* The lower median of m values is the one with so many before it in ascending order. */
static inline int64_t hf_frame_rank(int64_t m) { return (m - 1) / 2; }

static inline hf_status hf_frame(hf_context *ctx, const struct hf_frame_args *args) {
    return hf_run(ctx, HF_OP_FRAME, args);
}

#endif
