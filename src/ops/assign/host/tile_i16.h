/* SPDX-License-Identifier: Apache-2.0
 * Tiles in int16 with AVX-512 VNNI: 2 x VW rows by TILE_K centroids as in host/tile_f32.h, at twice
 * the rate, because each instruction computes two products per lane. Each row is scaled by a power
 * of two of its own to a length of 2^14 to 2^15. Centroids share one scale or, if their lengths
 * differ much, have one each. int32 sums are exact and cannot overflow (Cauchy-Schwarz), so the
 * only error is that of rounding to integers. Features j and j + h, h = ceil(d / 2), share a lane:
 *   packed rows       [panel][h][VW][2]      int16
 *   packed centroids  [group][h][TILE_K][2]  int16 */
#ifndef HF_ASSIGN_TILE_I16_H
#define HF_ASSIGN_TILE_I16_H

#include "ops/assign/host/job.h"
#include "ops/assign/host/candidates.h"
#include "ops/assign/host/guard/guard_tiles.h"
#include "ops/assign/host/strike.h"
#include <math.h>

#define I16_NAME "i16_32x12"
#define I16_BITS 14        /* rows and the longest centroid are at least 2^I16_BITS long */
#define I16_LEAST (-60.0f) /* exponent of the length that the scale of shorter rows assumes */
#define I16_MEASURE 32     /* with so many features it pays to measure the loss of each row */
#define I16_WHOLE 2048     /* up to so many features rounding does not change whole numbers */
#define VNNI __attribute__((target("avx512vnni")))

static int64_t i16_pairs(const struct job *job) { return (job->d + 1) / 2; }

/* A score has three roundings: conversion, scale and start. Rounding to integers is not part of it,
 * but of block.loss and bound.moved. */
static double i16_dot_error(void) { return 4 * 0x1p-24; }

/* The scale of centroids with a length of at most cmax. */
static float i16_centroid_scale(double cmax) {
    int e = 0;
    if (!(cmax > 0x1p-60))
        return 0x1p60f;
    (void)frexp(cmax * (1 + 0x1p-10), &e); /* < 2^e */
    return (float)ldexp(1, I16_BITS + 1 - e);
}

/* VW values to integers; *loss += the squared differences, in parts. */
ALWAYS_INLINE vi i16_round(vf v, vd *loss) {
    const vi whole = _mm512_cvtps_epi32(v);
    *loss = vd_add_squares(*loss, vf_sub(v, _mm512_cvtepi32_ps(whole)));
    return whole;
}

/* Each lane's low half from a, its high half from b. */
ALWAYS_INLINE vi i16_join(vi a, vi b) {
    return _mm512_mask_blend_epi16(0xaaaaaaaau, a, _mm512_slli_epi32(b, 16));
}

/* The first n values at p, zeros behind them. */
ALWAYS_INLINE vf i16_load(const float *p, int64_t n) {
    const uint32_t lanes = n < 0 ? 0 : n < VW ? (1u << n) - 1 : 0xffff;
    return _mm512_maskz_loadu_ps((vm)lanes, p);
}

/* What scores of a group start from, and behind these what 1 in each stored centroid stands for. */
static float *i16_start(const struct pack *p, int64_t g) { return p->start + g * 2 * TILE_K; }

static void i16_pack_centroid(const struct job *job, struct pack *p, int64_t slot, const float *c,
                              float start) {
    const int64_t pairs = i16_pairs(job);
    int32_t *dst = (int32_t *)p->tiles + slot / TILE_K * pairs * TILE_K + slot % TILE_K;
    const float s = job->i16_own ? i16_centroid_scale((double)p->length[slot]) : job->i16_scale;
    const vf scale = vf_set1(s);
    vd loss = vd_set1(0);
    for (int64_t j = 0; j < pairs; j += VW) {
        const int64_t left = pairs - j < VW ? pairs - j : VW;
        const vf x = i16_load(c + j, left);
        const vf y = i16_load(c + j + pairs, job->d - j - pairs);
        int32_t lanes[VW];
        vi_store(lanes,
                 i16_join(i16_round(vf_mul(x, scale), &loss), i16_round(vf_mul(y, scale), &loss)));
        for (int64_t i = 0; i < left; i++)
            dst[(j + i) * TILE_K] = lanes[i];
    }
    float *const place = i16_start(p, slot / TILE_K) + slot % TILE_K;
    place[0] = start;
    place[TILE_K] = 1 / s;
    p->loss[slot] = (float)(sqrt(vd_sum(loss)) / s * (1 + 0x1p-20));
}

/* Put feature j of a slot. */
static void i16_put(const struct job *job, struct pack *p, int64_t slot, int64_t j, int value) {
    const int64_t pairs = i16_pairs(job);
    int16_t *dst = (int16_t *)p->tiles;
    const int64_t pair = slot / TILE_K * pairs + j % pairs;
    dst[(pair * TILE_K + slot % TILE_K) * 2 + (j >= pairs)] = (int16_t)value;
}

/* Squared differences that rounding makes to a row times s, in VW parts. */
static void i16_measure(const struct job *job, const float *x, float s, float *parts) {
    vf sum = vf_set1(0);
    for (int64_t j = 0; j < job->d_pad; j += VW) {
        const vf v = vf_mul(vf_load(x + j), vf_set1(s));
        const vf off = vf_sub(v, _mm512_cvtepi32_ps(_mm512_cvtps_epi32(v)));
        sum = vf_fma(off, off, sum);
    }
    vf_store(parts, sum);
}

/* How far rounding moved VW rows, to block.loss. w->parts has sums of squares in units of each row;
 * with few features, where measuring costs more than it saves, the loss is the most it can be. */
static void i16_note_loss(const struct job *job, struct worker *w, int first, vf unit) {
    vf most = vf_set1(0.5f * sqrtf((float)job->d) * (1 + 0x1p-20f));
    if (job->whole && job->d <= I16_WHOLE)
        most = vf_set1(0);
    else if (job->d >= I16_MEASURE) {
        most = vf_min(most, vf_mul(vf_sqrt(sum_parts(w)), vf_set1(1 + 0x1p-8f)));
    }
    vf_store(w->block.loss + first, vf_mul(vf_mul(most, unit), vf_set1(1 + 0x1p-7f)));
}

/* Pack VW rows from slot `first` on; norm2 is known. Reads up to 2 VW floats behind the last row.
 */
static void i16_pack_panel(const struct job *job, struct worker *w, int first, const float *rows) {
    const int64_t pairs = i16_pairs(job);
    char *dst = (char *)w->block.x + (size_t)first * (size_t)pairs * 4;
    const vf length = vf_mul(vf_sqrt(vf_load(w->block.norm2 + first)), vf_set1(1 + 0x1p-9f));
    const vf e = _mm512_max_ps(_mm512_getexp_ps(length), vf_set1(I16_LEAST));
    const vf scale = _mm512_scalef_ps(vf_set1(1), vf_sub(vf_set1(I16_BITS), e));
    const vf unit = _mm512_scalef_ps(vf_set1(1), vf_sub(e, vf_set1(I16_BITS)));
    float of_row[VW];
    vf_store(of_row, scale);
    vf_store(w->block.unit + first, unit);
    const vi turn =
        _mm512_add_epi32(vi_set1((int32_t)pairs),
                         _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
    for (int64_t j = 0; j < pairs; j += VW) {
        const int64_t left = pairs - j < VW ? pairs - j : VW;
        vf r[VW];
        UNROLL(16)
        for (int i = 0; i < VW; i++) {
            const float *x = rows + i * job->d_pad + j;
            const vf s = vf_set1(of_row[i]);
            const vi a = _mm512_cvtps_epi32(vf_mul(vf_load(x), s));
            /* a load that spans two recent stores would wait for both */
            const vi b = job->d <= VW ? _mm512_permutexvar_epi32(turn, a)
                                      : _mm512_cvtps_epi32(vf_mul(vf_load(x + pairs), s));
            r[i] = _mm512_castsi512_ps(i16_join(a, b));
        }
        vf_transpose(r);
        for (int64_t i = 0; i < left; i++)
            _mm512_storeu_ps(dst + (j + i) * HF_ALIGN, r[i]);
    }
    for (int i = 0; job->d >= I16_MEASURE && i < VW; i++)
        i16_measure(job, rows + i * job->d_pad, of_row[i], w->parts + i * VW);
    i16_note_loss(job, w, first, unit);
}

/* sum += products of pairs. In assembly, because gcc 12 copies every sum of the intrinsic to
 * memory. */
static inline __attribute__((always_inline)) VNNI void i16_add(vi *sum, vi x, vi c) {
    __asm__("vpdpwssd %2, %1, %0" : "+v"(*sum) : "v"(x), "v"(c));
}

/* The operands of one panel of rows, or two, and a group. */
struct i16_operands {
    const char *x;
    const int32_t *c;
    const float *start; /* i16_start() */
    int64_t pairs;
    vf unit[2]; /* of each panel: what 1 in a sum stands for; own: of its rows alone */
};

/* Scores of the first panel, with `both` of two. own: centroids have a scale each. */
static inline __attribute__((always_inline)) VNNI void
i16_scores(vf f[2][TILE_K], const struct i16_operands *o, int own, int both) {
    const char *x = o->x;
    const int32_t *c = o->c;
    const float *start = o->start;
    const int64_t pairs = o->pairs;
    const char *y = x + pairs * HF_ALIGN;
    vi s0[TILE_K];
    vi s1[TILE_K];
    UNROLL(12)
    for (int t = 0; t < TILE_K; t++)
        s0[t] = s1[t] = vi_set1(0);
    int64_t j = 0;
    do { /* pairs > 0 */
        const vi v = _mm512_loadu_si512(x + j * HF_ALIGN);
        const vi w = both ? _mm512_loadu_si512(y + j * HF_ALIGN) : v;
        STRIKE_STEP_BEGIN(s0, both ? s1 : NULL, TILE_K);
        UNROLL(12)
        for (int t = 0; t < TILE_K; t++) {
            const vi q = vi_set1(c[j * TILE_K + t]);
            i16_add(&s0[t], v, q);
            if (both)
                i16_add(&s1[t], w, q);
        }
        STRIKE_STEP_END(s0, both ? s1 : NULL, TILE_K, 1);
    } while (++j < pairs);
    UNROLL(12)
    for (int t = 0; t < TILE_K; t++) {
        vf a = _mm512_cvtepi32_ps(s0[t]);
        vf b = both ? _mm512_cvtepi32_ps(s1[t]) : a;
        if (own) {
            a = vf_mul(a, vf_set1(start[TILE_K + t]));
            b = vf_mul(b, vf_set1(start[TILE_K + t]));
        }
        f[0][t] = vf_fma(a, o->unit[0], vf_set1(start[t]));
        if (both)
            f[1][t] = vf_fma(b, o->unit[1], vf_set1(start[t]));
    }
}

/* A pass of the block's rows over a pack. */
struct i16_sweep {
    struct worker *w;
    const struct pack *p;
    int collect;                     /* list candidates; else find the best two */
    int own;                         /* centroids have a scale each */
    const struct guard_sweep *guard; /* NULL: the call is not protected */
};

/* Scores of a panel: the best two of each row, or candidates. */
ALWAYS_INLINE void i16_scan(const struct i16_sweep *s, int slot, int64_t k, const vf f[TILE_K]) {
    struct worker *w = s->w;
    if (s->guard) {
        guard_scan(s->guard, k / TILE_K, slot, f);
        return;
    }
    struct best_two a = best_load(&w->block, slot);
    UNROLL(12)
    for (int t = 0; t < TILE_K; t++) {
        if (s->collect)
            candidates_add(w, s->p, slot, vm_bits(vf_le(a.best, f[t])), k + t);
        else
            best_add(&a, f[t], (int32_t)(k + t));
    }
    if (!s->collect) {
        best_store(&w->block, slot, &a);
        STRIKE_BEST(w, slot, k / TILE_K);
    }
}

/* Group g and the rows from `slot` on, of one panel or both. */
static inline __attribute__((always_inline)) VNNI void
i16_tile(const struct job *job, const struct i16_sweep *s, int64_t g, int slot, int both) {
    const struct block *b = &s->w->block;
    const int64_t pairs = i16_pairs(job);
    const vf unit = vf_set1(s->own ? 1 : 1 / job->i16_scale);
    struct i16_operands o = {.x = (const char *)b->x + (int64_t)slot * pairs * 4,
                             .c = (const int32_t *)s->p->tiles + g * pairs * TILE_K,
                             .start = i16_start(s->p, g),
                             .pairs = pairs};
    vf f[2][TILE_K];
    UNROLL(2)
    for (int i = 0; i <= both; i++)
        o.unit[i] = vf_mul(vf_load(b->unit + slot + i * VW), unit);
    STRIKE_TILE(s->w, s->p, slot, g * TILE_K);
    i16_scores(f, &o, s->own, both);
    STRIKE_TILE_END();
    UNROLL(2)
    for (int i = 0; i <= both; i++) {
        STRIKE_SCORES(s->w, s->p, slot + i * VW, g * TILE_K, f[i], TILE_K);
        i16_scan(s, slot + i * VW, g * TILE_K, f[i]);
    }
}

/* tile_argmax() and tile_collect(). The last tile may have one panel. */
static inline __attribute__((always_inline)) VNNI void i16_sweep(const struct job *job,
                                                                 const struct i16_sweep *s) {
    const int rows = s->w->block.rows;
    if (s->guard)
        guard_clear(s->guard);
    job_prefetch_plan(s->w, s->p->groups * ((rows + TILE_ROWS - 1) / TILE_ROWS));
    for (int64_t g = 0; g < s->p->groups; g++) {
        for (int slot = 0; slot < rows; slot += TILE_ROWS) {
            job_prefetch(s->w);
            if (rows - slot > VW)
                i16_tile(job, s, g, slot, 1);
            else
                i16_tile(job, s, g, slot, 0);
        }
    }
}

static VNNI NOINLINE void i16_argmax_own(const struct job *job, struct worker *w,
                                         const struct pack *p) {
    i16_sweep(job, &(struct i16_sweep){.w = w, .p = p, .own = 1});
}

static VNNI NOINLINE void i16_argmax_all(const struct job *job, struct worker *w,
                                         const struct pack *p) {
    i16_sweep(job, &(struct i16_sweep){.w = w, .p = p});
}

/* Of a protected call. */
static inline __attribute__((always_inline)) VNNI void
i16_guarded(const struct job *job, struct worker *w, const struct pack *p, int collect) {
    const struct guard_sweep guard = {.job = job, .w = w, .p = p, .collect = collect};
    do {
        if (job->i16_own)
            i16_sweep(job, &(struct i16_sweep){.w = w, .p = p, .own = 1, .guard = &guard});
        else
            i16_sweep(job, &(struct i16_sweep){.w = w, .p = p, .guard = &guard});
    } while (guard_conclude(&guard));
}

static VNNI NOINLINE void i16_argmax_guarded(const struct job *job, struct worker *w,
                                             const struct pack *p) {
    i16_guarded(job, w, p, 0);
}

static VNNI NOINLINE void i16_collect_guarded(const struct job *job, struct worker *w,
                                              const struct pack *p) {
    i16_guarded(job, w, p, 1);
}

static VNNI NOINLINE void i16_collect_own(const struct job *job, struct worker *w,
                                          const struct pack *p) {
    i16_sweep(job, &(struct i16_sweep){.w = w, .p = p, .collect = 1, .own = 1});
}

static VNNI NOINLINE void i16_collect_all(const struct job *job, struct worker *w,
                                          const struct pack *p) {
    i16_sweep(job, &(struct i16_sweep){.w = w, .p = p, .collect = 1});
}

static void i16_collect(const struct job *job, struct worker *w, const struct pack *p) {
    if (job->guard.scores) {
        i16_collect_guarded(job, w, p);
        return;
    }
    (job->i16_own ? i16_collect_own : i16_collect_all)(job, w, p);
}

/* Cost model: nanoseconds of a row. */
static double i16_row_ns(const struct hf_assign_args *a) {
    const double d = (double)a->x.cols;
    const double k = ceil((double)a->c.rows / TILE_K) * TILE_K;
    return k * (0.0046 * d + 0.085) + 0.09 * d + 6;
}

#endif
