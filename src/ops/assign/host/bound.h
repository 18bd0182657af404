/* SPDX-License-Identifier: Apache-2.0
 * The error of the filter. docs/numerics/filter.md has the proof.
 *
 * The filter works on x' = fl((x - shift) * scale) and c' = fl((c - shift) * scale) in float32 and
 * computes the score t_k = x'.c'_k - |c'_k|^2 / 2, so that |x' - c'_k|^2 = |x'|^2 - 2 t_k (dot and
 * cosine: no half norm). With u = 2^-24:
 *   score     |t^_k - t_k| <= E(C) = eps (|x'| C + C^2 / 2) + eta   for |c'_k| <= C
 *   rounding  | |x' - c'_k| - scale |x - c_k| | <= D(C) = (1.02u + kappa) (|x'| + C) + tiny
 * eps is the relative error of the dot product (chain length times u; for split bf16 also the parts
 * left out) plus 8u for the arithmetic of the bound itself. kappa = (d + 8) 2^-52 covers the
 * reference's own rounding; eta and tiny cover underflow. */
#ifndef HF_ASSIGN_BOUND_H
#define HF_ASSIGN_BOUND_H

#include <float.h>
#include <stdint.h>

struct filter_bound {
    float eps;   /* 1.01 * (dot error) + 8u */
    float delta; /* 1.02u + kappa */
    float moved; /* at least how far storing a centroid moved it; 0: eps covers it */
    float share; /* the same for |c'_k| <= C, relative to C, or to SHARE_LEAST if that is more */
    float eta;   /* absolute error of a score: */
    float flush; /* this times (1 + C)^2, from underflow, */
    float fixed; /* and this */
    float tiny;  /* absolute error of x' and c' from underflow */
    float qerr;  /* relative error of the float32 |x'|^2 */
    float cmax;  /* at least |c'_k| of every centroid that is not excluded */
};

/* dot_error: error of the dot product, relative to |x'| |c'|. */
static inline struct filter_bound filter_bound_make(double dot_error, int64_t d, double cmax) {
    struct filter_bound b;
    b.eps = (float)(1.01 * dot_error + 8 * 0x1p-24);
    b.moved = 0;
    b.share = FLT_MAX;
    b.delta = (float)(1.02 * 0x1p-24 + (double)(d + 8) * 0x1p-52);
    b.flush = (float)((double)d * 0x1p-118);
    b.fixed = 0;
    b.eta = (float)((double)d * 0x1p-118 * (1 + cmax) * (1 + cmax));
    b.tiny = (float)((double)d * 0x1p-126);
    b.qerr = (float)((double)(d / 8 + 24) *
                     0x1p-24); /* chains of d / VW, then VW lanes; VW is 8 or 16 */
    b.cmax = (float)(cmax * (1 + 0x1p-20));
    return b;
}

/* Add an absolute error. */
static inline void filter_bound_add(struct filter_bound *b, float error) {
    b->fixed += error;
    b->eta += error;
}

#endif
