/* SPDX-License-Identifier: Apache-2.0
 * sample: rows that stand for many, drawn half in proportion to their weight and half in proportion
 * to weight * distance, where distance is that to some centre (lightweight coresets: Bachem, Lucic,
 * Krause, KDD 2018). Draws are stratified and depend on nothing but the arguments. */
#ifndef HF_SAMPLE_H
#define HF_SAMPLE_H

#include "core/run.h"

/* In each half, row i has the integer q_i = rint(v_i unit), unit the power of two, 2^1023 at most,
 * that lets all of them add up to at most 2^61 (hf_fixed_bits()), v_i = weight_i or weight_i *
 * distance_i; where all of them are 0, all q_i and unit are 1. Draw j of the half is the first row
 * where the running sum of the q exceeds ((j + u_j) total) / count, u_j in [0, 1) of
 * hf_rng_bits(seed, stream + half, j). */
struct hf_sample_args {
    hf_array x;             /* [n, d] any data type; only for `rows` */
    const double *weights;  /* [n] finite, >= 0; NULL means 1 */
    const double *distance; /* [n] >= 0 */
    int64_t count;          /* draws of a half, 1 to 2^31 */
    uint64_t seed, stream;
    int64_t *index;         /* [2, count] out: the rows drawn, ascending in each half */
    double *drawn_distance; /* [2, count] out: their distances; NULL when not wanted */
    double *weight; /* [2, count] out: what makes sums over them unbiased, hf_sample_weight(); NULL
                       when not wanted */
    double *sums;   /* [2] out: total / unit of both halves: the sums of the weights, and of
                       weight * distance */
    void *rows;     /* [2, count, d] out: these rows of x; NULL when not wanted */
};

/* Row i is drawn rows * (w / sums[0] + w drawn_distance / sums[1]) / 2 times on average; w over
 * that. */
static inline double hf_sample_weight(const double *sums, double drawn_distance, double rows) {
    const double by_distance = sums[1] > 0 ? drawn_distance / sums[1] : 1 / sums[0];
    return 2 / (rows * (1 / sums[0] + by_distance));
}

static inline hf_status hf_sample(hf_context *ctx, const struct hf_sample_args *args) {
    return hf_run(ctx, HF_OP_SAMPLE, args);
}

#endif
