/* SPDX-License-Identifier: Apache-2.0
 * Tiles in float32: 2 x VW rows (lane = row) by TILE_K centroids, all scores in registers.
 *   packed rows       [panel][d][VW]
 *   packed centroids  [group][d][TILE_K] */
#ifndef HF_ASSIGN_TILE_F32_H
#define HF_ASSIGN_TILE_F32_H

#include "ops/assign/host/job.h"
#include "ops/assign/host/candidates.h"
#include <float.h>
#include "ops/assign/host/strike.h"
#include <math.h>
#include <string.h>

#define TILE_K (VREGS == 32 ? 12 : 6)
#define TILE_ROWS (2 * VW)
#define TILE_PAD VW /* x' and c' are padded with zeros to a multiple of this */
#define TILE_HAS_HALF 0
#define TILE_HAS_GUARD 1
#define TILE_HAS_SUMS 0
#define TILE_COARSE_UP 1 /* tile_coarse_value() is exact */
#define TILE_DEPTH 128   /* features summed in one chain: keeps the error bound small */

#include "ops/assign/host/guard/guard_tiles.h"

#if VREGS == 32
#define TILE_NAME "f32_32x12"
#define TILE_HAS_I16 1
#include "ops/assign/host/tile_i16.h"
#else
#define TILE_NAME "f32_16x6"
#define TILE_HAS_I16 0
#endif

/* Is the loss of each centroid measured? */
static int tile_measures(const struct job *job) { return job->i16; }

static float tile_most_share(const struct job *job) {
    (void)job;
    return FLT_MAX;
}

static double tile_dot_error(const struct job *job, int measured) {
    (void)measured;
#if TILE_HAS_I16
    if (job->i16)
        return i16_dot_error();
#endif
    const double d = (double)job->d;
    const double chain = d < TILE_DEPTH ? d : TILE_DEPTH;
    return (chain + d / TILE_DEPTH + 3) * 0x1p-24;
}

static size_t tile_row_bytes(const struct job *job) { return sizeof(float) * (size_t)job->d_pad; }

/* Of a row that stays packed. */
static size_t tile_packed_bytes(const struct job *job) {
    return sizeof(float) * (size_t)(job->i16 ? (job->d + 1) / 2 : job->d);
}

static size_t tile_group_bytes(const struct job *job) {
    return hf_align_up(sizeof(float) * TILE_K * (size_t)job->d);
}

static size_t tile_start_bytes(const struct job *job, int64_t groups) {
    return sizeof(float) * (job->i16 ? 2 : 1) * TILE_K * (size_t)groups;
}

/* Where the start of a slot's scores is. */
static int64_t tile_start_place(const struct job *job, int64_t slot) {
    return (job->i16 ? 2 : 1) * (slot / TILE_K) * TILE_K + slot % TILE_K;
}

static size_t tile_scratch_bytes(const struct job *job) {
    (void)job;
    return HF_ALIGN;
}

/* Rows are packed up to a multiple of this. */
static int tile_rows_least(const struct job *job) { return job->i16 ? VW : TILE_ROWS; }

/* Directions for k centroids: whole groups of TILE_K. */
static int tile_directions(int64_t k) { return k < 512 ? 36 : 60; }

static void tile_begin(void) {}

static void tile_end(void) {}

/* Centroid `slot` of a pack: c' [d] and its start score. */
static void tile_pack_centroid(const struct job *job, struct worker *w, struct pack *p,
                               int64_t slot, const float *c, float start) {
    (void)w;
#if TILE_HAS_I16
    if (job->i16) {
        i16_pack_centroid(job, p, slot, c, start);
        return;
    }
#endif
    char *base = (char *)p->tiles + (size_t)(slot / TILE_K) * tile_group_bytes(job);
    float *dst = (float *)base + slot % TILE_K;
    for (int64_t j = 0; j < job->d; j++)
        dst[j * TILE_K] = c[j];
    p->start[slot] = start;
}

/* VW rows starting at slot `first`, x' as [VW][d_pad] in rows: transpose into the panel. */
static void tile_pack_panel(const struct job *job, struct worker *w, int first, const float *rows) {
#if TILE_HAS_I16
    if (job->i16) {
        i16_pack_panel(job, w, first, rows);
        return;
    }
#endif
    float *dst = (float *)w->block.x + (size_t)first * (size_t)job->d;
    for (int64_t j = 0; j < job->d; j += VW) {
        vf r[VW];
        UNROLL(16)
        for (int i = 0; i < VW; i++)
            r[i] = vf_load(rows + i * job->d_pad + j);
        vf_transpose(r);
        const int64_t left = job->d - j;
        if (left >= VW) {
            UNROLL(16)
            for (int i = 0; i < VW; i++)
                vf_store(dst + (j + i) * VW, r[i]);
            continue;
        }
        float tail[VW * VW];
        UNROLL(16)
        for (int i = 0; i < VW; i++)
            vf_store(tail + i * VW, r[i]);
        for (int64_t i = 0; i < left * VW; i++)
            dst[j * VW + i] = tail[i];
    }
}

ALWAYS_INLINE void tile_chain(vf *s0, vf *s1, const float *x, const float *y, const float *c,
                              int64_t depth) {
    for (int64_t j = 0; j < depth; j++) {
        const vf v = vf_load(x + j * VW);
        const vf w = vf_load(y + j * VW);
        STRIKE_STEP_BEGIN(s0, s1, TILE_K);
        UNROLL(12)
        for (int t = 0; t < TILE_K; t++) {
            const vf q = vf_set1(c[j * TILE_K + t]);
            s0[t] = vf_fma(v, q, s0[t]);
            s1[t] = vf_fma(w, q, s1[t]);
        }
        STRIKE_STEP_END(s0, s1, TILE_K, 0);
    }
}

ALWAYS_INLINE void tile_scores(vf s0[TILE_K], vf s1[TILE_K], const float *x, const float *c,
                               const float *start, int64_t d) {
    const float *y = x + d * VW;
    UNROLL(12)
    for (int t = 0; t < TILE_K; t++)
        s0[t] = s1[t] = vf_set1(start[t]);
    tile_chain(s0, s1, x, y, c, d < TILE_DEPTH ? d : TILE_DEPTH);
    for (int64_t j = TILE_DEPTH; j < d; j += TILE_DEPTH) {
        vf a0[TILE_K];
        vf a1[TILE_K];
        UNROLL(12)
        for (int t = 0; t < TILE_K; t++)
            a0[t] = a1[t] = vf_set1(0);
        tile_chain(a0, a1, x + j * VW, y + j * VW, c + j * TILE_K,
                   d - j < TILE_DEPTH ? d - j : TILE_DEPTH);
        UNROLL(12)
        for (int t = 0; t < TILE_K; t++) {
            s0[t] = vf_add(s0[t], a0[t]);
            s1[t] = vf_add(s1[t], a1[t]);
        }
    }
}

/* Tile i of packed rows. */
static const void *tile_at(const struct job *job, const void *packed, int i) {
    return (const float *)packed + (int64_t)i * TILE_ROWS * job->d;
}

/* Scores of a tile of packed rows against group g: out [TILE_K][TILE_ROWS]. */
static void tile_scores_out(const struct job *job, const void *x, const struct pack *p, int64_t g,
                            float *out) {
    vf s0[TILE_K];
    vf s1[TILE_K];
    tile_scores(s0, s1, x,
                (const float *)((const char *)p->tiles + (size_t)g * tile_group_bytes(job)),
                p->start + g * TILE_K, job->d);
    UNROLL(12)
    for (int t = 0; t < TILE_K; t++) {
        vf_store(out + t * TILE_ROWS, s0[t]);
        vf_store(out + t * TILE_ROWS + VW, s1[t]);
    }
}

ALWAYS_INLINE vf tile_coarse_value(vf v) { return v; }

/* VW coarse rows [d][VW] into their panel. */
static void tile_pack_coarse(const struct job *job, void *packed, int panel, const float *rows) {
    memcpy((float *)packed + (int64_t)panel * VW * job->d, rows,
           sizeof(float) * VW * (size_t)job->d);
}

#include "ops/assign/host/guard/weighted.h"

/* tile_argmax() and tile_collect() of a protected call. */
ALWAYS_INLINE void tile_guarded(const struct guard_sweep *s) {
    struct worker *w = s->w;
    const int64_t d = s->job->d;
    const int tiles = (w->block.rows + TILE_ROWS - 1) / TILE_ROWS;
    guard_clear(s);
    job_prefetch_plan(w, s->p->groups * tiles);
    for (int64_t g = 0; g < s->p->groups; g++) {
        const float *c =
            (const float *)((const char *)s->p->tiles + (size_t)g * tile_group_bytes(s->job));
        for (int i = 0; i < tiles; i++) {
            job_prefetch(w);
            vf s0[TILE_K];
            vf s1[TILE_K];
            STRIKE_TILE(w, s->p, i * TILE_ROWS, g * TILE_K);
            tile_scores(s0, s1, (const float *)w->block.x + (size_t)i * TILE_ROWS * (size_t)d, c,
                        s->p->start + g * TILE_K, d);
            STRIKE_TILE_END();
            STRIKE_SCORES(w, s->p, i * TILE_ROWS, g * TILE_K, s0, TILE_K);
            STRIKE_SCORES(w, s->p, i * TILE_ROWS + VW, g * TILE_K, s1, TILE_K);
            guard_scan(s, g, i * TILE_ROWS, s0);
            guard_scan(s, g, i * TILE_ROWS + VW, s1);
        }
    }
}

static NOINLINE void tile_argmax_guarded(const struct job *job, struct worker *w,
                                         const struct pack *p) {
    const struct guard_sweep s = {.job = job, .w = w, .p = p};
    do {
        tile_guarded(&s);
    } while (guard_conclude(&s));
}

static NOINLINE void tile_collect_guarded(const struct job *job, struct worker *w,
                                          const struct pack *p) {
    const struct guard_sweep s = {.job = job, .w = w, .p = p, .collect = 1};
    do {
        tile_guarded(&s);
    } while (guard_conclude(&s));
}

static NOINLINE void tile_argmax_bare(const struct job *job, struct worker *w,
                                      const struct pack *p) {
    const int64_t d = job->d;
    const int tiles = (w->block.rows + TILE_ROWS - 1) / TILE_ROWS;
    job_prefetch_plan(w, p->groups * tiles);
    for (int64_t g = 0; g < p->groups; g++) {
        const float *c =
            (const float *)((const char *)p->tiles + (size_t)g * tile_group_bytes(job));
        for (int i = 0; i < tiles; i++) {
            job_prefetch(w);
            vf s0[TILE_K];
            vf s1[TILE_K];
            STRIKE_TILE(w, p, i * TILE_ROWS, g * TILE_K);
            tile_scores(s0, s1, (const float *)w->block.x + (size_t)i * TILE_ROWS * (size_t)d, c,
                        p->start + g * TILE_K, d);
            STRIKE_TILE_END();
            STRIKE_SCORES(w, p, i * TILE_ROWS, g * TILE_K, s0, TILE_K);
            STRIKE_SCORES(w, p, i * TILE_ROWS + VW, g * TILE_K, s1, TILE_K);
            struct best_two a = best_load(&w->block, i * TILE_ROWS);
            UNROLL(12)
            for (int t = 0; t < TILE_K; t++)
                best_add(&a, s0[t], (int32_t)(g * TILE_K + t));
            best_store(&w->block, i * TILE_ROWS, &a);
            STRIKE_BEST(w, i * TILE_ROWS, g);
            struct best_two b = best_load(&w->block, i * TILE_ROWS + VW);
            UNROLL(12)
            for (int t = 0; t < TILE_K; t++)
                best_add(&b, s1[t], (int32_t)(g * TILE_K + t));
            best_store(&w->block, i * TILE_ROWS + VW, &b);
            STRIKE_BEST(w, i * TILE_ROWS + VW, g);
        }
    }
}

static void tile_best_two(const struct job *job, struct worker *w, const struct pack *p,
                          int tested) {
#if TILE_HAS_I16
    if (job->i16) {
        (tested ? i16_argmax_guarded : job->i16_own ? i16_argmax_own : i16_argmax_all)(job, w, p);
        return;
    }
#endif
    if (tested)
        tile_argmax_guarded(job, w, p);
    else if (job->guard.weighted)
        weighted_sweep(job, w, p, 0);
    else
        tile_argmax_bare(job, w, p);
}

/* Scores of all rows of the block and all centroids of the pack: the best two of each row. */
static void tile_argmax(const struct job *job, struct worker *w, const struct pack *p) {
    const int tested = job->guard.scores && guard_tests(job, w);
    struct pack bare;
    if (job->guard.scores && !tested)
        p = guard_bare(p, &bare);
    tile_best_two(job, w, p, tested);
    if (job->guard.share > 1 && !tested)
        guard_untested(job, w, p);
}

/* The same scores: centroids that reach the row's threshold (block.best) become candidates. */
static void tile_collect(const struct job *job, struct worker *w, const struct pack *p) {
#if TILE_HAS_I16
    if (job->i16) {
        i16_collect(job, w, p);
        return;
    }
#endif
    if (job->guard.scores) {
        tile_collect_guarded(job, w, p);
        return;
    }
    if (job->guard.weighted) {
        weighted_sweep(job, w, p, 1);
        return;
    }
    const int64_t d = job->d;
    const int tiles = (w->block.rows + TILE_ROWS - 1) / TILE_ROWS;
    for (int64_t g = 0; g < p->groups; g++) {
        const float *c =
            (const float *)((const char *)p->tiles + (size_t)g * tile_group_bytes(job));
        for (int i = 0; i < tiles; i++) {
            vf s0[TILE_K];
            vf s1[TILE_K];
            STRIKE_TILE(w, p, i * TILE_ROWS, g * TILE_K);
            tile_scores(s0, s1, (const float *)w->block.x + (size_t)i * TILE_ROWS * (size_t)d, c,
                        p->start + g * TILE_K, d);
            STRIKE_TILE_END();
            STRIKE_SCORES(w, p, i * TILE_ROWS, g * TILE_K, s0, TILE_K);
            STRIKE_SCORES(w, p, i * TILE_ROWS + VW, g * TILE_K, s1, TILE_K);
            const vf low0 = vf_load(w->block.best + i * TILE_ROWS);
            const vf low1 = vf_load(w->block.best + i * TILE_ROWS + VW);
            UNROLL(12)
            for (int t = 0; t < TILE_K; t++) {
                const uint64_t bits0 = vm_bits(vf_le(low0, s0[t]));
                const uint64_t bits1 = vm_bits(vf_le(low1, s1[t]));
                candidates_add(w, p, i * TILE_ROWS, bits0 | bits1 << VW, g * TILE_K + t);
            }
        }
    }
}

/* Cost model: nanoseconds of a row, fitted to one core at about 3.3 GHz (AVX-512) and one with AVX2
 * at about 3.4 GHz: in plain tiles, */
static double tile_row_ns(const struct hf_assign_args *a) {
    const double d = (double)a->x.cols;
    const double k = ceil((double)a->c.rows / TILE_K) * TILE_K;
#if VREGS == 32
    return k * (0.0088 * d + 0.065) + 0.08 * d + 3.5;
#else
    return k * (0.021 * d + 0.12) + 0.15 * d + 5;
#endif
}

/* of the tiles of this job, */
static double tile_call_ns(const struct job *job) {
#if TILE_HAS_I16
    if (job->i16)
        return i16_row_ns(job->a);
#endif
    return tile_row_ns(job->a);
}

/* and with directions. */
static double tile_project_ns(const struct hf_assign_args *a) {
    const double d = (double)a->x.cols;
    const double k = (double)a->c.rows;
    const double p = tile_directions(a->c.rows);
#if VREGS == 32
    return (d + k) * p * 0.0088 + 0.15 * k + 0.5 * d + 100;
#else
    return (d + k) * p * 0.021 + 0.3 * k + 0.8 * d + 100;
#endif
}

#endif
