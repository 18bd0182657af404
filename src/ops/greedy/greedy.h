/* SPDX-License-Identifier: Apache-2.0
 * greedy: steps of greedy k-means++ (Arthur, Vassilvitskii: k-means++: the advantages of careful
 * seeding, SODA 2007) on rows that the device holds. Everything that decides is an integer or a
 * reference distance, so all kernels choose the same. */
#ifndef HF_GREEDY_H
#define HF_GREEDY_H

#include "core/run.h"
#include "ops/assign/assign.h"
#include <holdfast/kmeans.h>

#define HF_GREEDY_TRIALS 24    /* 2 + ln k, and some */
#define HF_GREEDY_FINER 0x1p-8 /* share of the limit below which the scale becomes finer */

/* A step, with the integers q_i = hf_seed_quantum(nearest_i, weight_i, unit, limit):
 *   candidate l is the first row where the running sum of q exceeds
 *     hf_rng_below(seed, stream, count * trials + l, sum of all q);
 *   the winner lowers the sum most if nearest_i becomes min(nearest_i, d(x_i, candidate)), the
 *     first of equals; d as in seed.h. Then that is done, and its own row's nearest is 0;
 *   if the sum is then below limit HF_GREEDY_FINER, unit becomes hf_seed_scale_of() of the largest
 *     weight_i nearest_i. */
struct hf_greedy_args {
    hf_array x;            /* [n, d] any data type */
    const double *weights; /* [n] finite, >= 0; NULL means 1 */
    hf_metric metric;
    struct hf_filter filter;
    uint64_t seed, stream;
    int trials;        /* candidates of a step, 1 to HF_GREEDY_TRIALS */
    uint64_t room;     /* most bytes of workspace; 0: any number */
    int64_t upto;      /* steps until there are so many centroids or all q are 0 */
    double limit;      /* 2^hf_fixed_bits(n) */
    double *unit;      /* [1] in and out: a power of two */
    double *nearest;   /* [n] in and out: distances to the nearest of the centroids so far */
    int64_t *chosen;   /* [upto] in: the rows of the centroids so far; out: all */
    double *centroids; /* [upto, d] out: the new ones; NULL when not wanted */
    int64_t *count;    /* [1] in and out: how many there are */
};

static inline hf_status hf_greedy(hf_context *ctx, const struct hf_greedy_args *args) {
    return hf_run(ctx, HF_OP_GREEDY, args);
}

#endif
