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
                            hf_dtype c_type, int64_t j) {
    const vd a = vd_load_as(x, x_type, j);
    if (kind == CHAIN_SQUARE)
        return vd_mul(a, a);
    const vd b = vd_load_as(c, c_type, j);
    if (kind == CHAIN_PRODUCT)
        return vd_mul(a, b);
    const vd diff = vd_sub(a, b);
    return vd_mul(diff, diff);
}

/* CHAIN_ROWS rows of one type. */
struct chain_rows {
    const void *const *row;
    hf_dtype dtype;
};

/* Add the terms of features j .. j + VDW - 1 to the sums of all rows. CHAIN_SQUARE ignores c. */
ALWAYS_INLINE void chain_step(vd sum[CHAIN_GROUPS], enum chain_kind kind, struct chain_rows x,
                              struct chain_rows c, int64_t j) {
    UNROLL(CHAIN_GROUPS) for (int g = 0; g < CHAIN_GROUPS; g++) {
        vd term[VDW];
        UNROLL(VDW) for (int r = 0; r < VDW; r++) {
            const int row = g * VDW + r;
            const void *centre = kind == CHAIN_SQUARE ? NULL : c.row[row];
            term[r] = chain_term(kind, x.row[row], x.dtype, centre, c.dtype, j);
        }
        vd_transpose(term);
        UNROLL(VDW) for (int r = 0; r < VDW; r++) sum[g] = vd_add(sum[g], term[r]);
    }
}

ALWAYS_INLINE void chain_gather_as(double *dst, const void *const *x, hf_dtype dtype, int64_t j,
                                   int n) {
    for (int r = 0; r < CHAIN_ROWS; r++)
        vd_store(dst + r * VDW, vd_load_as_n(x[r], dtype, j, n));
}

/* Features j .. j + n - 1 of every row as float64 [CHAIN_ROWS][VDW], n <= VDW, filled up with 0 */
NOINLINE static void chain_gather(double *dst, const void *const *x, hf_dtype dtype, int64_t j,
                                  int n) {
    switch (dtype) {
    case HF_F64:
        chain_gather_as(dst, x, HF_F64, j, n);
        break;
    case HF_F16:
        chain_gather_as(dst, x, HF_F16, j, n);
        break;
    case HF_BF16:
        chain_gather_as(dst, x, HF_BF16, j, n);
        break;
    case HF_U8:
        chain_gather_as(dst, x, HF_U8, j, n);
        break;
    default:
        chain_gather_as(dst, x, HF_F32, j, n);
        break;
    }
}

/* Add the terms of the last features j .. d - 1, fewer than VDW, to out. One copy of this code
 * serves all pairs of types. A missing feature adds +0, which changes no sum, because none is ever
 * -0. */
NOINLINE static void chain_tail(double out[CHAIN_ROWS], enum chain_kind kind, struct chain_rows x,
                                struct chain_rows c, int64_t j, int64_t d) {
    double x_buffer[CHAIN_ROWS * VDW];
    double c_buffer[CHAIN_ROWS * VDW];
    const void *x_row[CHAIN_ROWS];
    const void *c_row[CHAIN_ROWS];
    vd sum[CHAIN_GROUPS];
    chain_gather(x_buffer, x.row, x.dtype, j, (int)(d - j));
    if (kind != CHAIN_SQUARE)
        chain_gather(c_buffer, c.row, c.dtype, j, (int)(d - j));
    for (int r = 0; r < CHAIN_ROWS; r++) {
        x_row[r] = x_buffer + r * VDW;
        c_row[r] = c_buffer + r * VDW;
    }
    const struct chain_rows x64 = {x_row, HF_F64};
    const struct chain_rows c64 = {c_row, HF_F64};
    UNROLL(CHAIN_GROUPS) for (int g = 0; g < CHAIN_GROUPS; g++) sum[g] = vd_load(out + g * VDW);
    if (kind == CHAIN_SQUARE)
        chain_step(sum, CHAIN_SQUARE, x64, c64, 0);
    else if (kind == CHAIN_PRODUCT)
        chain_step(sum, CHAIN_PRODUCT, x64, c64, 0);
    else
        chain_step(sum, CHAIN_DIFFERENCE, x64, c64, 0);
    UNROLL(CHAIN_GROUPS) for (int g = 0; g < CHAIN_GROUPS; g++) vd_store(out + g * VDW, sum[g]);
}

/* out[r] = ordered sum of the terms of x[r] and c[r], r < CHAIN_ROWS. Rows may repeat. */
ALWAYS_INLINE void chain_sums(double out[CHAIN_ROWS], enum chain_kind kind, struct chain_rows x,
                              struct chain_rows c, int64_t d) {
    vd sum[CHAIN_GROUPS];
    UNROLL(CHAIN_GROUPS) for (int g = 0; g < CHAIN_GROUPS; g++) sum[g] = vd_set1(0);
    int64_t j = 0;
    for (; j + VDW <= d; j += VDW)
        chain_step(sum, kind, x, c, j);
    UNROLL(CHAIN_GROUPS) for (int g = 0; g < CHAIN_GROUPS; g++) vd_store(out + g * VDW, sum[g]);
    if (j < d)
        chain_tail(out, kind, x, c, j, d);
}

ALWAYS_INLINE void chain_squares_as(double out[CHAIN_ROWS], const void *const *x, hf_dtype dtype,
                                    int64_t d) {
    const struct chain_rows rows = {x, dtype};
    chain_sums(out, CHAIN_SQUARE, rows, rows, d);
}

/* Ordered sums of squares of CHAIN_ROWS rows of any data type. */
static inline void chain_squares(double out[CHAIN_ROWS], const void *const *x, hf_dtype dtype,
                                 int64_t d) {
    switch (dtype) {
    case HF_F64:
        chain_squares_as(out, x, HF_F64, d);
        break;
    case HF_F16:
        chain_squares_as(out, x, HF_F16, d);
        break;
    case HF_BF16:
        chain_squares_as(out, x, HF_BF16, d);
        break;
    case HF_U8:
        chain_squares_as(out, x, HF_U8, d);
        break;
    default:
        chain_squares_as(out, x, HF_F32, d);
        break;
    }
}

#endif
