/* SPDX-License-Identifier: Apache-2.0
 * spread: a round of k-means|| on rows whose distances a device holds: what the candidates of the
 * last round changed, then the next candidates. Everything that decides is an integer. */
#ifndef HF_SPREAD_H
#define HF_SPREAD_H

#include "core/run.h"

#define HF_SPREAD_FINER 0x1p-8 /* share of the limit below which the scale becomes finer */

/* First, if there are `far`: where far_i < nearest_i, nearest_i becomes far_i and label_i becomes
 *   first_label + near_i. With q_i = hf_seed_quantum(nearest_i, weight_i, unit, limit), unit
 *   becomes hf_seed_scale_of() of the largest weight_i nearest_i if it was 0, or if there are `far`
 *   and the sum of all q is below limit HF_SPREAD_FINER. `total` is the sum of all q after that.
 * Then row i is drawn if q_i wanted >= total and q_i > 0, or if
 *   hf_rng_bits(seed, stream, i) total < 2^64 q_i wanted: with a chance of min(1, q_i wanted /
 *   total), so that no more than `wanted` are expected. */
struct hf_spread_args {
    hf_array x;            /* [n, d] its shape alone counts */
    const double *weights; /* [n] finite, >= 0; NULL means 1 */
    const double *far;     /* [n] distance to the nearest of the last candidates; NULL: none */
    const int32_t *nearest_candidate; /* [n] which of them that is */
    int32_t first_label;              /* of the first of them */
    int64_t wanted;                   /* 0: none are drawn; at most 2^62 */
    uint64_t seed, stream;
    double limit;    /* 2^hf_fixed_bits(n) */
    double *unit;    /* [1] in and out: 0 or a power of two */
    double *nearest; /* [n] in and out */
    int32_t *label;  /* [n] in and out */
    uint64_t *total; /* [1] out */
    int64_t *index;  /* [n] out: the rows drawn, ascending, in the first of its places */
    int64_t *count;  /* [1] out: how many they are */
};

static inline hf_status hf_spread(hf_context *ctx, const struct hf_spread_args *args) {
    return hf_run(ctx, HF_OP_SPREAD, args);
}

#endif
