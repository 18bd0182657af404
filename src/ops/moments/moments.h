/* SPDX-License-Identifier: Apache-2.0
 * moments: order-free sums of x - shift and of (x - shift)^2 for each column (base/fixed.h). */
#ifndef HF_MOMENTS_H
#define HF_MOMENTS_H

#include "base/fixed.h"
#include "core/run.h"

struct hf_moments_args {
    hf_array x;                /* [n, d] any data type, finite */
    const double *shift;       /* [d]; t = x - shift, one rounding; s = t * t, one rounding */
    int bits;                  /* hf_fixed_bits(rows of the whole problem) */
    const double *mult;        /* [d] scale of t */
    const double *mult_square; /* [d] scale of s */
    int64_t *sum;              /* [2, d] both limbs of the sums of t, added to */
    int64_t *sum_square;       /* [2, d] likewise of s */
};

static inline hf_status hf_moments(hf_context *ctx, const struct hf_moments_args *args) {
    return hf_run(ctx, HF_OP_MOMENTS, args);
}

#endif
