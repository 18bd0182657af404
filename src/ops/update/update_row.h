/* SPDX-License-Identifier: Apache-2.0
 * The innermost piece of update, shared by update_simd.c and the fused update of assign_simd.c;
 * compiled once per instruction set.
 *
 * A float64 t of at most 2^51 becomes an integer by adding HF_RINT_MAGIC: the bits of the sum, less
 * those of HF_RINT_MAGIC, are rint(t). The scale is a power of two, so v * scale is exact and the
 * fused multiply-add rounds where the reference does; a product too small to be normal is rounded
 * to 0 by both. */
#ifndef HF_UPDATE_ROW_H
#define HF_UPDATE_ROW_H

#include "base/dtype.h"
#include "core/inject_hooks.h"
#include "device/host/isa.h"
#include "device/host/isa_load.h"
#include "ops/update/update.h"
#include <math.h>
#include <stdbool.h>

#define UPDATE_FETCH 128 /* sums of a cluster that are asked for; the rest the CPU sees coming */
#define UPDATE_MAGIC_BITS INT64_C(0x4338000000000000) /* those of HF_RINT_MAGIC */

/* A row that leaves the sums of cluster `from` for those of `to` (-1: none). */
struct update_row {
    const void *row; /* [d] */
    hf_dtype dtype;
    double factor; /* r_i of update.h */
    double weight; /* added to sums.weight, if the sums have weights */
    int32_t from, to;
};

/* Which sums a row changes. */
enum update_sides { UPDATE_FROM = 1, UPDATE_TO = 2, UPDATE_BOTH = 3 };

/* Is this the number of a cluster? -1 is none's; a number beyond all is a fault, whose row is in no
 * sums: those who check them see that, where a write beyond them would destroy other memory. */
ALWAYS_INLINE bool update_is(const struct hf_sums *s, int32_t cluster) {
    return (uint64_t)(uint32_t)cluster < (uint64_t)s->k;
}

/* The same as addresses: from and to are the first limbs of its old and new sums, or NULL. */
struct update_move {
    const void *row;
    const double *mult;
    int64_t *from;
    int64_t *to;
    int64_t limb_stride; /* elements from one limb to the next: k * d */
    double factor;
    double scale; /* 2^bits */
};

/* sum[0..n) += q, or -= q. */
ALWAYS_INLINE void update_add(int64_t *sum, vl q, bool take, int n) {
    const vl old = n == VDW ? vl_load(sum) : vl_load_n(sum, n);
    const vl now = take ? vl_sub(old, q) : vl_add(old, q);
    if (n == VDW)
        vl_store(sum, now);
    else
        vl_store_n(sum, now, n);
}

#ifdef HF_INJECT
/* A planted fault in what a row adds to n sums from feature j on (core/inject_hooks.h). */
static inline void strike_term(const void *row, int64_t j, int n, vl *q) {
    const struct hf_strike s = {.where = HF_REGISTER_TERM,
                                .worker = -1,
                                .lanes = 1,
                                .columns = n,
                                .stride = 1,
                                .row_at = row,
                                .first_row = -1,
                                .first_column = j,
                                .step = -1,
                                .value = q};
    if (hf_strikes(HF_REGISTER_TERM))
        hf_strike(&s);
}
#define STRIKE_TERM(row, j, n, q) strike_term(row, j, n, q)
#else
#define STRIKE_TERM(row, j, n, q) ((void)0)
#endif

/* Features j .. j + n - 1. */
ALWAYS_INLINE void update_step(const struct update_move *m, hf_dtype dtype, int limbs,
                               enum update_sides sides, int64_t j, int n) {
    const vd magic = vd_set1(HF_RINT_MAGIC);
    const vl magic_bits = vl_set1(UPDATE_MAGIC_BITS);
    const vd v = vd_mul(vd_load_as_n(m->row, dtype, j, n), vd_set1(m->factor));
    const vd mult = n == VDW ? vd_load(m->mult + j) : vd_load_n(m->mult + j, n);
    vd sum = vd_fma(v, mult, magic);
    vl q = vl_sub(vd_bits(sum), magic_bits);
    STRIKE_TERM(m->row, j, n, &q);
    if (sides & UPDATE_FROM)
        update_add(m->from + j, q, true, n);
    if (sides & UPDATE_TO)
        update_add(m->to + j, q, false, n);
    if (limbs == 1)
        return;
    const vd rest = vd_fma(v, mult, vd_sub(magic, sum));
    sum = vd_fma(rest, vd_set1(m->scale), magic);
    q = vl_sub(vd_bits(sum), magic_bits);
    if (sides & UPDATE_FROM)
        update_add(m->from + m->limb_stride + j, q, true, n);
    if (sides & UPDATE_TO)
        update_add(m->to + m->limb_stride + j, q, false, n);
}

ALWAYS_INLINE void update_span(const struct update_move *m, hf_dtype dtype, int limbs,
                               enum update_sides sides, int64_t begin, int64_t end) {
    const struct update_move own = *m; /* the sums cannot alias it */
    int64_t j = begin;
    for (; j + VDW <= end; j += VDW)
        update_step(&own, dtype, limbs, sides, j, VDW);
    if (j < end)
        update_step(&own, dtype, limbs, sides, j, (int)(end - j));
}

ALWAYS_INLINE void update_span_limbs(const struct update_move *m, hf_dtype dtype, int limbs,
                                     int64_t begin, int64_t end) {
    if (m->from && m->to)
        update_span(m, dtype, limbs, UPDATE_BOTH, begin, end);
    else if (m->to)
        update_span(m, dtype, limbs, UPDATE_TO, begin, end);
    else if (m->from)
        update_span(m, dtype, limbs, UPDATE_FROM, begin, end);
}

ALWAYS_INLINE void update_span_dtype(const struct update_move *m, hf_dtype dtype, int limbs,
                                     int64_t begin, int64_t end) {
    if (limbs == 1)
        update_span_limbs(m, dtype, 1, begin, end);
    else
        update_span_limbs(m, dtype, 2, begin, end);
}

/* Features [begin, end) of update_move_row(), without count and weight. from != to. */
static inline void update_move_features(const struct hf_sums *s, const struct update_row *r,
                                        int64_t begin, int64_t end) {
    const struct update_move m = {.row = r->row,
                                  .mult = s->mult,
                                  .from = update_is(s, r->from) ? s->sum + r->from * s->d : NULL,
                                  .to = update_is(s, r->to) ? s->sum + r->to * s->d : NULL,
                                  .limb_stride = s->k * s->d,
                                  .factor = r->factor,
                                  .scale = (double)(INT64_C(1) << s->bits)};
    switch (r->dtype) {
    case HF_F64:
        update_span_dtype(&m, HF_F64, s->limbs, begin, end);
        break;
    case HF_F16:
        update_span_dtype(&m, HF_F16, s->limbs, begin, end);
        break;
    case HF_BF16:
        update_span_dtype(&m, HF_BF16, s->limbs, begin, end);
        break;
    case HF_U8:
        update_span_dtype(&m, HF_U8, s->limbs, begin, end);
        break;
    default:
        update_span_dtype(&m, HF_F32, s->limbs, begin, end);
        break;
    }
}

/* Count and weight of update_move_row(). from != to. */
static inline void update_move_count(const struct hf_sums *s, double weight, int32_t from,
                                     int32_t to) {
    if (update_is(s, from))
        s->count[from]--;
    if (update_is(s, to))
        s->count[to]++;
    if (!s->weight)
        return;
    const double t = weight * s->weight_mult;
    const double high = rint(t);
    const int64_t q[HF_MAX_LIMBS] = {(int64_t)high,
                                     (int64_t)rint((t - high) * (double)(INT64_C(1) << s->bits))};
    for (int l = 0; l < HF_MAX_LIMBS && l < s->limbs; l++) {
        if (update_is(s, from))
            s->weight[l * s->k + from] -= q[l];
        if (update_is(s, to))
            s->weight[l * s->k + to] += q[l];
    }
}

/* Move one row between the sums. */
static inline void update_move_row(const struct hf_sums *s, const struct update_row *r) {
    if (r->from == r->to)
        return;
    update_move_features(s, r, 0, s->d);
    update_move_count(s, r->weight, r->from, r->to);
}

/* May update_move_light() move these rows? */
static inline bool update_is_light(const struct hf_sums *s, hf_dtype dtype, hf_metric metric,
                                   const double *weights) {
    return dtype == HF_F32 && metric != HF_COSINE && s->limbs == 1 && !weights && !s->weight;
}

/* update_move_row() of a float32 row of factor 1, one limb and no weights. */
ALWAYS_INLINE void update_move_light(const struct hf_sums *s, const void *row, int32_t from,
                                     int32_t to) {
    const struct update_move m = {.row = row,
                                  .mult = s->mult,
                                  .from = update_is(s, from) ? s->sum + from * s->d : NULL,
                                  .to = update_is(s, to) ? s->sum + to * s->d : NULL,
                                  .factor = 1};
    update_span_limbs(&m, HF_F32, 1, 0, s->d);
    if (update_is(s, from))
        s->count[from]--;
    if (update_is(s, to))
        s->count[to]++;
}

/* Prefetch the first sums of two clusters (-1: none). */
static inline void update_fetch(const struct hf_sums *s, int32_t from, int32_t to) {
    const int64_t most = s->d < UPDATE_FETCH ? s->d : UPDATE_FETCH;
    for (int64_t j = 0; j < most; j += HF_ALIGN / 8) {
        if (update_is(s, from))
            __builtin_prefetch(s->sum + from * s->d + j, 1);
        if (update_is(s, to))
            __builtin_prefetch(s->sum + to * s->d + j, 1);
    }
}

/* r_i of update.h for a row of d elements. weight is 1 if there are no weights. */
static inline double update_row_factor(hf_metric metric, double weight, const void *row,
                                       hf_dtype dtype, int64_t d) {
    if (metric != HF_COSINE)
        return weight;
    double square[64];
    double sum = 0;
    for (int64_t j = 0; j < d; j += 64) {
        const int64_t n = d - j < 64 ? d - j : 64;
        hf_to_f64(square, (const char *)row + (size_t)j * hf_dtype_bytes(dtype), dtype, n);
        for (int64_t i = 0; i < n; i++)
            square[i] *= square[i];
        for (int64_t i = 0; i < n; i++)
            sum += square[i];
    }
    return sum > 0 ? weight / sqrt(sum) : 0;
}

#endif
