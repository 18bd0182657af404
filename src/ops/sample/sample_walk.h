/* SPDX-License-Identifier: Apache-2.0
 * A half of sample.h, one piece of the rows after the other: hf_sample_look() at all pieces,
 * hf_sample_scale(), hf_sample_count() all, hf_sample_begin(), hf_sample_step() through the rows of
 * all. */
#ifndef HF_SAMPLE_WALK_H
#define HF_SAMPLE_WALK_H

#include "base/fixed.h"
#include "base/rng.h"
#include "ops/sample/sample.h"
#include "ops/seed/seed.h"
#include <float.h>
#include <math.h>

__extension__ typedef unsigned __int128 hf_u128;

/* Rows in sequence. */
struct hf_sample_piece {
    const double *weights;  /* [rows], NULL means 1 */
    const double *distance; /* [rows] */
    int64_t rows;
};

struct hf_sample_walk {
    int half;              /* 0: by weight, 1: by weight * distance */
    int64_t draws;         /* of the half */
    uint64_t seed, stream; /* as in hf_sample_args */
    double most;           /* largest v */
    bool flat;             /* all v are too small for a unit */
    double unit, limit;
    uint64_t total;
    int64_t drawn;   /* draws that are made */
    uint64_t sum;    /* of the rows that are passed */
    uint64_t target; /* of the next draw */
};

static inline void hf_sample_look(struct hf_sample_walk *w, const struct hf_sample_piece *p) {
    for (int64_t i = 0; i < p->rows; i++) {
        const double weight = p->weights ? p->weights[i] : 1;
        if (weight > 0)
            w->most = fmax(w->most, w->half ? weight * p->distance[i] : weight);
    }
}

/* n: rows of all pieces. */
static inline void hf_sample_scale(struct hf_sample_walk *w, int64_t n) {
    const int bits = hf_fixed_bits(n);
    w->limit = ldexp(1, bits);
    w->unit = hf_fixed_mult(bits, hf_fixed_exponent(fmin(w->most, DBL_MAX)));
    w->flat = hf_seed_quantum(w->most, 1, w->unit, w->limit) == 0;
    if (w->flat)
        w->unit = 1;
}

static inline uint64_t hf_sample_quantum(const struct hf_sample_walk *w,
                                         const struct hf_sample_piece *p, int64_t i) {
    const double weight = p->weights ? p->weights[i] : 1;
    if (w->flat)
        return 1;
    return hf_seed_quantum(w->half ? p->distance[i] : 1, weight, w->unit, w->limit);
}

static inline void hf_sample_count(struct hf_sample_walk *w, const struct hf_sample_piece *p) {
    for (int64_t i = 0; i < p->rows; i++)
        w->total += hf_sample_quantum(w, p, i);
}

/* hf_sample_args.sums of the half. */
static inline double hf_sample_sum(const struct hf_sample_walk *w) {
    return w->flat && w->half ? 0 : (double)w->total / w->unit;
}

static inline uint64_t hf_sample_target(const struct hf_sample_walk *w, int64_t draw) {
    const uint64_t bits = hf_rng_bits(w->seed, w->stream + (uint64_t)w->half, (uint64_t)draw);
    const hf_u128 start = (hf_u128)(uint64_t)draw * w->total;
    return (uint64_t)((start + (uint64_t)((hf_u128)bits * w->total >> 64)) / (uint64_t)w->draws);
}

static inline void hf_sample_begin(struct hf_sample_walk *w) {
    w->drawn = 0;
    w->sum = 0;
    w->target = hf_sample_target(w, 0);
}

/* Pass row i of the piece, the next one; how often it is drawn: draws w->drawn - that to w->drawn.
 */
static inline int64_t hf_sample_step(struct hf_sample_walk *w, const struct hf_sample_piece *p,
                                     int64_t i) {
    const int64_t before = w->drawn;
    w->sum += hf_sample_quantum(w, p, i);
    while (w->drawn < w->draws && w->target < w->sum)
        w->target = hf_sample_target(w, ++w->drawn);
    return w->drawn - before;
}

#endif
