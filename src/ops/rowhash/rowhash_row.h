/* SPDX-License-Identifier: Apache-2.0
 * The word of a row; compiled once per instruction set. It rounds before it makes integers, where
 * update does both in one addition. */
#ifndef HF_ROWHASH_ROW_H
#define HF_ROWHASH_ROW_H

#include "device/host/isa_load.h"
#include "ops/rowhash/rowhash.h"

/* What the words of all rows are made with. */
struct rowhash_rule {
    const double *mult;     /* [d] */
    const uint64_t *factor; /* [limbs, d + 1] */
    int64_t d;
    int limbs;
    double scale; /* 2^bits */
};

static inline struct rowhash_rule rowhash_rule_of(const struct hf_sums *s, const uint64_t *factor) {
    return (struct rowhash_rule){.mult = s->mult,
                                 .factor = factor,
                                 .d = s->d,
                                 .limbs = s->limbs,
                                 .scale = (double)(INT64_C(1) << s->bits)};
}

/* Whole numbers of at most 2^51 as integers; AVX2 cannot convert them. */
ALWAYS_INLINE vl rowhash_whole(vd whole) {
    return vl_sub(vd_bits(vd_add(whole, vd_set1(HF_RINT_MAGIC))), vd_bits(vd_set1(HF_RINT_MAGIC)));
}

/* A row. Callers pass a constant dtype. */
struct rowhash_row {
    const void *x; /* [d] */
    hf_dtype dtype;
    double times; /* r_i of update.h */
};

/* Terms of features j .. j + n - 1, n <= VDW. */
ALWAYS_INLINE vl rowhash_step(const struct rowhash_rule *r, struct rowhash_row row, int limbs,
                              int64_t j, int n) {
    const int64_t *factor = (const int64_t *)(const void *)r->factor + j;
    const vd v = vd_mul(vd_load_as_n(row.x, row.dtype, j, n), vd_set1(row.times));
    const vd mult = n == VDW ? vd_load(r->mult + j) : vd_load_n(r->mult + j, n);
    const vd t = vd_mul(v, mult);
    const vd high = vd_rint(t);
    const vl first = n == VDW ? vl_load(factor) : vl_load_n(factor, n);
    const vl sum = vl_mul(rowhash_whole(high), first);
    if (limbs == 1)
        return sum;
    factor += r->d + 1;
    const vd low = vd_rint(vd_mul(vd_sub(t, high), vd_set1(r->scale)));
    const vl second = n == VDW ? vl_load(factor) : vl_load_n(factor, n);
    return vl_add(sum, vl_mul(rowhash_whole(low), second));
}

ALWAYS_INLINE uint64_t rowhash_sum(const struct rowhash_rule *rule, struct rowhash_row row,
                                   int limbs) {
    const struct rowhash_rule r = *rule;
    vl sum[2] = {vl_set1(0), vl_set1(0)};
    int64_t j = 0;
    for (; j + 2 * VDW <= r.d; j += 2 * VDW) {
        sum[0] = vl_add(sum[0], rowhash_step(&r, row, limbs, j, VDW));
        sum[1] = vl_add(sum[1], rowhash_step(&r, row, limbs, j + VDW, VDW));
    }
    for (; j + VDW <= r.d; j += VDW)
        sum[0] = vl_add(sum[0], rowhash_step(&r, row, limbs, j, VDW));
    if (j < r.d)
        sum[1] = vl_add(sum[1], rowhash_step(&r, row, limbs, j, (int)(r.d - j)));
    return (uint64_t)vl_sum(vl_add(sum[0], sum[1]));
}

ALWAYS_INLINE uint64_t rowhash_limbs(const struct rowhash_rule *r, const void *x, hf_dtype dtype,
                                     double times) {
    const struct rowhash_row row = {x, dtype, times};
    return r->limbs == 1 ? rowhash_sum(r, row, 1) : rowhash_sum(r, row, 2);
}

/* Of a row's features; times: r_i of update.h. */
static inline uint64_t rowhash_features(const struct rowhash_rule *r, const void *x, hf_dtype dtype,
                                        double times) {
    switch (dtype) {
    case HF_F64:
        return rowhash_limbs(r, x, HF_F64, times);
    case HF_F16:
        return rowhash_limbs(r, x, HF_F16, times);
    case HF_BF16:
        return rowhash_limbs(r, x, HF_BF16, times);
    case HF_U8:
        return rowhash_limbs(r, x, HF_U8, times);
    default:
        return rowhash_limbs(r, x, HF_F32, times);
    }
}

#endif
