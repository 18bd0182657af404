/* SPDX-License-Identifier: Apache-2.0
 * rowhash: one word for each row, linear in what op update adds for it, so that the words of the
 * rows of a cluster add up to the same word of its sums. It shares no code with update: a fault of
 * one is seen by the other. */
#ifndef HF_ROWHASH_H
#define HF_ROWHASH_H

#include "ops/update/update.h"

/* hash[i] = sum over limbs l and features j of factor[l * (d + 1) + j] * q_ij[l], and, where the
 * sums have weights, factor[l * (d + 1) + d] * (limb l of the row's weight), modulo 2^64; q_ij[l]
 * are the limbs of update.h. Factors are odd: a single wrong word of the sums is never missed. */
struct hf_rowhash_args {
    hf_array x; /* [n, d] any data type */
    hf_metric metric;
    const double *weights;      /* [n], NULL means 1 */
    const struct hf_sums *sums; /* scales, limbs and whether there are weights; not its contents */
    const uint64_t *factor;     /* [limbs, d + 1] odd */
    uint64_t *hash;             /* [n] out */
};

static inline hf_status hf_rowhash(hf_context *ctx, const struct hf_rowhash_args *args) {
    return hf_run(ctx, HF_OP_ROWHASH, args);
}

#endif
