/* SPDX-License-Identifier: Apache-2.0
 * moments: order-free sums of x - shift and of (x - shift)^2 for each column (base/fixed.h); of one
 * problem or of several, whose rows lie one behind the other. */
#ifndef HF_MOMENTS_H
#define HF_MOMENTS_H

#include "base/fixed.h"
#include "core/run.h"

struct hf_moments_args {
    hf_array x;                /* [batch * n, d] any data type, finite */
    int64_t batch;             /* problems; 0 stands for 1 */
    const double *shift;       /* [batch, d]; t = x - shift, one rounding; s = t * t, likewise */
    int bits;                  /* hf_fixed_bits(rows of a whole problem) */
    const double *mult;        /* [batch, d] scale of t */
    const double *mult_square; /* [batch, d] scale of s */
    int64_t *sum;              /* [batch, 2, d] both limbs of the sums of t, added to */
    int64_t *sum_square;       /* [batch, 2, d] likewise of s */
};

static inline int64_t hf_moments_batch(const struct hf_moments_args *args) {
    return args->batch > 1 ? args->batch : 1;
}

/* Problem p alone. */
static inline struct hf_moments_args hf_moments_problem(const struct hf_moments_args *args,
                                                        int64_t p) {
    struct hf_moments_args one = *args;
    const int64_t n = args->x.rows / hf_moments_batch(args), d = args->x.cols;
    const int64_t stride = args->x.row_stride ? args->x.row_stride : d;
    one.batch = 1;
    one.x.data = (char *)args->x.data + (size_t)(p * n * stride) * hf_dtype_bytes(args->x.dtype);
    one.x.rows = n;
    one.shift += p * d;
    one.mult += p * d;
    one.mult_square += p * d;
    one.sum += p * 2 * d;
    one.sum_square += p * 2 * d;
    return one;
}

static inline hf_status hf_moments(hf_context *ctx, const struct hf_moments_args *args) {
    return hf_run(ctx, HF_OP_MOMENTS, args);
}

#endif
