/* SPDX-License-Identifier: Apache-2.0
 * update: move rows between the sums of their clusters. The sums are fixed-point integers
 * (base/fixed.h), so they are exact, free of order, and a row can be taken out again. */
#ifndef HF_UPDATE_H
#define HF_UPDATE_H

#include "base/fixed.h"
#include "core/run.h"
#include <holdfast/kmeans.h>

/* What is added for row i, feature j is the float64 v = x_ij * r_i (one rounding; v = x_ij when r_i
 * is 1) with r_i = weight_i, and for HF_COSINE r_i = weight_i / |x_i| (|x_i| = sqrt of the ordered
 * float64 sum of squares; 0 rows add 0). */
struct hf_sums {
    int64_t k, d;
    int limbs;          /* 1 or 2 */
    int bits;           /* of a limb: hf_fixed_bits(n) */
    const double *mult; /* [d] hf_fixed_mult() of each column */
    double weight_mult; /* the same for the weights */
    int64_t *sum;       /* [limbs, k, d] */
    int64_t *count;     /* [k] rows of the cluster */
    int64_t *weight;    /* [limbs, k] sums of the weights, or NULL when there are none */
};

struct hf_update_args {
    hf_array x; /* [n, d] any data type */
    hf_metric metric;
    const double *weights;     /* [n], NULL means 1 */
    const int32_t *old_labels; /* [n] cluster the row is taken from, -1: none. NULL means all -1 */
    const int32_t *labels;     /* [n] cluster the row is added to, -1: none */
    struct hf_sums *sums;      /* added to */
};

static inline hf_status hf_update(hf_context *ctx, const struct hf_update_args *args) {
    return hf_run(ctx, HF_OP_UPDATE, args);
}

#endif
