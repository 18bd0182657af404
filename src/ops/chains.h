/* SPDX-License-Identifier: Apache-2.0
 * Float64 sums over the features of a row, features in order, for a block of rows at once; compiled
 * once per instruction set. The terms are computed with lane = feature, turned by a small
 * transpose, and added with lane = row: the order of the additions is that of the reference, and
 * CHAIN_GROUPS vectors of sums hide the latency of an addition. */
#ifndef HF_CHAINS_H
#define HF_CHAINS_H

#include "device/host/isa_load.h"

#define CHAIN_GROUPS 2
#define CHAIN_ROWS (CHAIN_GROUPS * VDW)

enum chain_kind {
    CHAIN_DIFFERENCE, /* (x_j - c_j)^2 */
    CHAIN_PRODUCT,    /* x_j * c_j */
    CHAIN_SQUARE      /* x_j^2; c is not looked at */
};

ALWAYS_INLINE vd chain_term(enum chain_kind kind, const void *x, hf_dtype x_type, const void *c,
                            hf_dtype c_type, int64_t j, int n) {
    const vd a = vd_load_as_n(x, x_type, j, n);
    if (kind == CHAIN_SQUARE)
        return vd_mul(a, a);
    const vd b = vd_load_as_n(c, c_type, j, n);
    if (kind == CHAIN_PRODUCT)
        return vd_mul(a, b);
    const vd diff = vd_sub(a, b);
    return vd_mul(diff, diff);
}

/* Terms of features j .. j + n - 1 onto the sums of all rows. A missing feature adds +0, which
 * changes no sum: none of them is ever -0. */
ALWAYS_INLINE void chain_step(vd sum[CHAIN_GROUPS], enum chain_kind kind, const void *const *x,
                              hf_dtype x_type, const void *const *c, hf_dtype c_type, int64_t j,
                              int n) {
    UNROLL(CHAIN_GROUPS) for (int g = 0; g < CHAIN_GROUPS; g++) {
        vd term[VDW];
        UNROLL(VDW) for (int r = 0; r < VDW; r++) {
            const int row = g * VDW + r;
            const void *centre = kind == CHAIN_SQUARE ? NULL : c[row];
            term[r] = chain_term(kind, x[row], x_type, centre, c_type, j, n);
        }
        vd_transpose(term);
        UNROLL(VDW) for (int r = 0; r < VDW; r++) sum[g] = vd_add(sum[g], term[r]);
    }
}

/* out[r] = ordered sum of the terms of x[r] and c[r], r < CHAIN_ROWS. Rows may repeat. */
ALWAYS_INLINE void chain_sums(double out[CHAIN_ROWS], enum chain_kind kind, const void *const *x,
                              hf_dtype x_type, const void *const *c, hf_dtype c_type, int64_t d) {
    vd sum[CHAIN_GROUPS];
    UNROLL(CHAIN_GROUPS) for (int g = 0; g < CHAIN_GROUPS; g++) sum[g] = vd_set1(0);
    int64_t j = 0;
    for (; j + VDW <= d; j += VDW)
        chain_step(sum, kind, x, x_type, c, c_type, j, VDW);
    if (j < d)
        chain_step(sum, kind, x, x_type, c, c_type, j, (int)(d - j));
    UNROLL(CHAIN_GROUPS) for (int g = 0; g < CHAIN_GROUPS; g++) vd_store(out + g * VDW, sum[g]);
}

/* Ordered sums of squares of CHAIN_ROWS rows of any data type. */
static inline void chain_squares(double out[CHAIN_ROWS], const void *const *x, hf_dtype dtype,
                                 int64_t d) {
    switch (dtype) {
    case HF_F64:
        chain_sums(out, CHAIN_SQUARE, x, HF_F64, x, HF_F64, d);
        break;
    case HF_F16:
        chain_sums(out, CHAIN_SQUARE, x, HF_F16, x, HF_F16, d);
        break;
    case HF_BF16:
        chain_sums(out, CHAIN_SQUARE, x, HF_BF16, x, HF_BF16, d);
        break;
    case HF_U8:
        chain_sums(out, CHAIN_SQUARE, x, HF_U8, x, HF_U8, d);
        break;
    default:
        chain_sums(out, CHAIN_SQUARE, x, HF_F32, x, HF_F32, d);
        break;
    }
}

#endif
