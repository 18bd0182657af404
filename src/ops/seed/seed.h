/* SPDX-License-Identifier: Apache-2.0
 * seed: what greedy k-means++ and k-means|| need: how much each candidate centroid would lower the
 * sum of the distances to the nearest centroid. Results depend neither on the threads nor on the
 * kernel, but for the order of the list of pairs. */
#ifndef HF_SEED_H
#define HF_SEED_H

#include "base/fixed.h"
#include "core/run.h"
#include "ops/assign/assign.h"
#include <float.h>
#include <holdfast/kmeans.h>
#include <math.h>

#define HF_SEED_BLOCK 4096 /* rows per entry of block */

/* A row that a candidate would bring nearer. */
struct hf_seed_pair {
    int64_t row; /* counted in the whole problem */
    double d;
    int32_t candidate;
};

/* d is the reference distance; HF_COSINE: max(d, 0); HF_DOT seeds with the Euclidean distance. With
 * e_il = min(nearest_i, d(x_i, cand_l)) and the integers q(v) of hf_seed_quantum():
 *   evaluate (commit false)  gain[l] += sum over the rows of q(nearest_i) - q(e_il); the pairs with
 *                            e_il < nearest_i are listed, in any order
 *   commit                   nearest_i = min over l of e_il, label_i with it; then block and
 * farthest */
struct hf_seed_args {
    hf_array x;          /* [n, d] any data type */
    hf_array candidates; /* [l, d] F64 */
    hf_metric metric;
    const double *weights;   /* [n], NULL means 1 */
    struct hf_filter filter; /* whole: the candidates are whole numbers likewise */
    double unit;             /* scale of q, a power of two */
    double limit;            /* q never exceeds it; limit * rows of the whole problem <= 2^62 */
    int64_t first;           /* number of row 0 in the whole problem */
    double *nearest;         /* [n] distance to the nearest centroid so far, +Inf at the start */
    int32_t *label;          /* [n] which centroid that is; NULL when not wanted */
    const double *reach; /* rows with nearest_i <= reach[label_i] are nearer to no candidate: how
                            the triangle inequality skips work. NULL: nothing is known */
    bool commit;
    uint64_t *gain;             /* evaluate: [l] added to */
    struct hf_seed_pair *pairs; /* evaluate: [pairs_room] out; NULL when not wanted */
    int64_t pairs_room;
    int64_t *pairs_count; /* evaluate: added to, also by the pairs that found no room */
    int32_t first_label;  /* commit: label of candidate 0 */
    uint64_t *block;      /* commit: q(nearest_i) is added to [(first + i) / HF_SEED_BLOCK]; NULL:
                             not wanted */
};

/* The integer q(v) that stands for weight * v, weight >= 0. Numbers from 2^52 on are whole; adding
 * 2^52 to smaller ones rounds them as rint() does, without a call. */
static inline uint64_t hf_seed_quantum(double v, double weight, double unit, double limit) {
    const double scaled = weight * v * unit;
    if (scaled < limit)
        return (uint64_t)(int64_t)(scaled < 0x1p52 ? (scaled + 0x1p52) - 0x1p52 : scaled);
    return weight > 0 ? (uint64_t)limit : 0; /* Inf, or 0 * Inf */
}

/* The unit that uses the whole range of the integers, given the largest weight * nearest. */
static inline double hf_seed_scale_of(const double *nearest, const double *weights, int64_t n) {
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        const double weight = weights ? weights[i] : 1;
        if (weight > 0)
            most = fmax(most, weight * nearest[i]);
    }
    return hf_fixed_mult(hf_fixed_bits(n), hf_fixed_exponent(fmin(most, DBL_MAX)));
}

/* A value for reach, given the reference distance between the centroid and the candidate nearest to
 * it: not for HF_COSINE. When D(c, cand) >= 2 D(x, c) the candidate is no nearer to x (D: roots of
 * the distances); the factor pays for the roundings of the three float64 distances, each a share (d
 * + 2) 2^-53 at most, and squares that may have underflown count as 0. */
static inline double hf_seed_reach(double between, int64_t d) {
    return between > 1e-280 ? between * 0.25 * (1 - ((double)d + 8) * 0x1p-49) : 0;
}

static inline hf_status hf_seed(hf_context *ctx, const struct hf_seed_args *args) {
    return hf_run(ctx, HF_OP_SEED, args);
}

#endif
