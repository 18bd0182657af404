/* SPDX-License-Identifier: Apache-2.0
 * seed: what greedy k-means++ and k-means|| need: how much each candidate centroid would lower the sum of
 * the distances to the nearest centroid. All results are free of order and of the kernel. */
#ifndef HF_SEED_H
#define HF_SEED_H

#include "core/run.h"
#include "ops/assign/assign.h"
#include <holdfast/kmeans.h>

#define HF_SEED_BLOCK 4096 /* rows per entry of block */

/* d is the reference distance; HF_COSINE: max(d, 0); HF_DOT seeds with the Euclidean distance. For each
 * candidate l: potential[l] += sum over rows of q(min(nearest_i, d(x_i, cand_l))), where
 * q(v) = (uint64_t) rint(weight_i * v * unit), an integer below 2^62 / (rows of the whole problem). */
struct hf_seed_args {
    hf_array x;                /* [n, d] any data type */
    hf_array candidates;       /* [l, d] F64 */
    hf_metric metric;
    const double *weights;     /* [n], NULL means 1 */
    struct hf_filter filter;
    double unit;               /* scale of the potentials */
    double *nearest;           /* [n] distance to the nearest centroid so far, +Inf at the start */
    bool commit;               /* nearest_i = min(nearest_i, d(x_i, cand_l) for all l) is written */
    uint64_t *potential;       /* [l] added to; with commit: [1], the potential after all candidates */
    uint64_t *block;           /* commit: [ceil(n / HF_SEED_BLOCK)] out: sum of q(nearest_i) of each block of
                                  rows; NULL when not wanted */
    double *farthest;          /* commit: max of weight_i * nearest_i is folded into it; NULL: not wanted */
};

static inline hf_status hf_seed(hf_context *ctx, const struct hf_seed_args *args) {
    return hf_run(ctx, HF_OP_SEED, args);
}

#endif
