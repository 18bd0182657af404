/* SPDX-License-Identifier: Apache-2.0
 * Tiles on AMX: 32 rows by 32 centroids, float32 split into bf16 parts. x' = xh + xl + rest, the same for
 * c', and x'.c' ~ xh.ch + xl.ch + xh.cl; data that are whole numbers have no xl. The parts are laid end to
 * end as one deep dot product, so that only its end is padded to 32:
 *   packed rows       [panel of 16][step][16 pairs of features][16 rows][2]  bf16, parts xh, xl, xh
 *   packed centroids  [group][2][step][16 centroids][32 features]            bf16, parts ch, ch, cl
 * A result tile is [16 centroids][16 rows], lane = row as in the float32 tiles. */
#ifndef HF_ASSIGN_TILE_AMX_H
#define HF_ASSIGN_TILE_AMX_H

#include "ops/assign/assign_job.h"
#include "ops/assign/assign_pick.h"
#include <string.h>

#define TILE_K 32
#define TILE_ROWS 32
#define STEP 32                /* bf16 features of a tile */
#define STEP_BYTES 1024        /* of a tile */
#define SCORES (4 * 256)       /* of a 32 x 32 block */

/* Tile registers: 0-3 scores, 4-5 centroids, 6-7 rows; all 16 rows of 64 bytes. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t colsb[16];
    uint8_t rows[16];
} tile_config __attribute__((aligned(64))) = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

static void tile_begin(void) {
    _tile_loadconfig(&tile_config);
}

static void tile_end(void) {
    _tile_release();
}

static int tile_parts(const struct job *job) {
    return job->whole ? 2 : 3;
}

static int64_t tile_depth(const struct job *job) {
    return tile_parts(job) * job->d;
}

static int64_t tile_steps(const struct job *job) {
    return (tile_depth(job) + STEP - 1) / STEP;
}

/* Parts left out: rest of c' (2^-18) and, for split rows, rest of x' and xl.cl, each at most 2^-18 of
 * |x'||c'|. A step adds 32 products in chains of 16 and one to the total; twice that covers any order. */
static double tile_dot_error(const struct job *job) {
    const double chain = 2 * (18.0 + (double)tile_steps(job));
    return (job->whole ? 1.02 : 3.06) * 0x1p-18 + 1.02 * chain * 0x1p-24;
}

static size_t tile_row_bytes(const struct job *job) {
    return (size_t)tile_steps(job) * STEP_BYTES / 16;
}

static size_t tile_group_bytes(const struct job *job) {
    return 2 * (size_t)tile_steps(job) * STEP_BYTES;
}

/* A start tile [16][16] for every 16 centroids. */
static size_t tile_start_bytes(const struct job *job, int64_t groups) {
    (void)job;
    return 2 * STEP_BYTES * (size_t)groups;
}

/* One row of parts per row of a panel, and two blocks of scores. */
static size_t tile_scratch_bytes(const struct job *job) {
    return 16 * sizeof(uint16_t) * STEP * (size_t)tile_steps(job) + 2 * SCORES * sizeof(float);
}

/* hi[i] + lo[i] ~ x[i]: bf16 parts of count values. */
static void tile_split(const float *x, int64_t count, uint16_t *hi, uint16_t *lo) {
    for (int64_t j = 0; j < count; j += 16) {
        const int64_t left = count - j;
        const __mmask16 m = left >= 16 ? 0xffff : (__mmask16)((1u << left) - 1);
        const __m512 v = _mm512_maskz_loadu_ps(m, x + j);
        const __m256i h = (__m256i)_mm512_cvtneps_pbh(v);
        const __m512 back = _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
        _mm256_mask_storeu_epi16(hi + j, m, h);
        if (lo)
            _mm256_mask_storeu_epi16(lo + j, m, (__m256i)_mm512_cvtneps_pbh(_mm512_sub_ps(v, back)));
    }
}

/* The parts of one vector [d] end to end, zeros up to the last tile. The last part is hi or lo. */
static void tile_lay_parts(const struct job *job, const float *x, int last_is_lo, uint16_t *row) {
    const int64_t d = job->d;
    uint16_t *last = row + (tile_parts(job) - 1) * d;
    uint16_t *lo = last_is_lo ? last : job->whole ? NULL : row + d;
    tile_split(x, d, row, lo);
    if (lo != row + d && tile_parts(job) == 3)
        memcpy(row + d, row, sizeof(uint16_t) * (size_t)d);
    if (!last_is_lo)
        memcpy(last, row, sizeof(uint16_t) * (size_t)d);
    const int64_t room = tile_steps(job) * STEP;
    memset(row + tile_depth(job), 0, sizeof(uint16_t) * (size_t)(room - tile_depth(job)));
}

/* Centroid `slot` of a pack: c' [d] and its start score. */
static void tile_pack_centroid(const struct job *job, struct worker *w, struct pack *p, int64_t slot,
                               const float *c, float start) {
    const int64_t steps = tile_steps(job);
    uint16_t *parts = w->scratch;
    tile_lay_parts(job, c, 1, parts);
    char *tile = (char *)p->tiles + (size_t)(slot / 16 * steps) * STEP_BYTES + (size_t)(slot % 16) * 64;
    for (int64_t s = 0; s < steps; s++)
        memcpy(tile + s * STEP_BYTES, parts + s * STEP, 64);
    for (int i = 0; i < 16; i++)
        p->start[slot * 16 + i] = start;
}

/* 16 rows starting at slot `first`, x' as [16][d_pad] in rows. */
static void tile_pack_panel(const struct job *job, struct worker *w, int first, const float *rows) {
    const int64_t steps = tile_steps(job);
    uint16_t *parts = w->scratch; /* [16][steps * STEP] */
    for (int i = 0; i < 16; i++)
        tile_lay_parts(job, rows + i * job->d_pad, 0, parts + i * steps * STEP);
    char *dst = (char *)w->x + (size_t)(first / 16 * steps) * STEP_BYTES;
    for (int64_t s = 0; s < steps; s++) {
        vf r[16];
        UNROLL(16)
        for (int i = 0; i < 16; i++)
            r[i] = vf_load((const float *)(parts + (i * steps + s) * STEP));
        vf_transpose(r);
        UNROLL(16)
        for (int i = 0; i < 16; i++)
            vf_store((float *)(dst + s * STEP_BYTES) + i * 16, r[i]);
    }
}

/* Scores of 32 rows against the 32 centroids of a group: out [2 centroid halves][2 row halves][16][16]. */
ALWAYS_INLINE void tile_scores(const char *x, const char *c, const float *start, int64_t steps, float *out) {
    const char *y = x + steps * STEP_BYTES;
    const char *e = c + steps * STEP_BYTES;
    _tile_loadd(0, start, 64);
    _tile_loadd(1, start, 64);
    _tile_loadd(2, start + 256, 64);
    _tile_loadd(3, start + 256, 64);
    for (int64_t s = 0; s < steps; s++) {
        _tile_loadd(4, c + s * STEP_BYTES, 64);
        _tile_loadd(6, x + s * STEP_BYTES, 64);
        _tile_loadd(5, e + s * STEP_BYTES, 64);
        _tile_loadd(7, y + s * STEP_BYTES, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
    }
    _tile_stored(0, out, 64);
    _tile_stored(1, out + 256, 64);
    _tile_stored(2, out + 512, 64);
    _tile_stored(3, out + 768, 64);
}

ALWAYS_INLINE void tile_pick(struct worker *w, const float *scores, int slot, int64_t k) {
    for (int half = 0; half < 2; half++) {
        struct pick best = pick_load(&w->block, slot + 16 * half);
        for (int c = 0; c < 2; c++) {
            UNROLL(16)
            for (int t = 0; t < 16; t++)
                pick_score(&best, vf_load(scores + (2 * c + half) * 256 + 16 * t), (int32_t)(k + 16 * c + t));
        }
        pick_store(&w->block, slot + 16 * half, &best);
    }
}

ALWAYS_INLINE void tile_filter(const struct job *job, struct worker *w, const struct pack *p,
                               const float *scores, int slot, int64_t k) {
    const vf low0 = vf_load(w->block.best + slot);
    const vf low1 = vf_load(w->block.best + slot + 16);
    for (int t = 0; t < 32; t++) {
        const float *row = scores + t / 16 * 512 + t % 16 * 16;
        const uint64_t bits0 = vm_bits(vf_le(low0, vf_load(row)));
        const uint64_t bits1 = vm_bits(vf_le(low1, vf_load(row + 256)));
        pick_candidates(job, w, p, slot, bits0 | bits1 << 16, k + t);
    }
}

/* The vector work on one block of scores runs while the tiles make the next. */
ALWAYS_INLINE void tile_sweep(const struct job *job, struct worker *w, const struct pack *p, int collect) {
    const int64_t steps = tile_steps(job);
    const int tiles = (w->block.rows + TILE_ROWS - 1) / TILE_ROWS;
    float *scores = (float *)((char *)w->scratch + tile_scratch_bytes(job)) - 2 * SCORES;
    int64_t last_group = -1;
    int last_tile = 0;
    int side = 0;
    for (int64_t g = 0; g < p->groups; g++) {
        for (int i = 0; i < tiles; i++) {
            tile_scores((const char *)w->x + (size_t)i * TILE_ROWS * tile_row_bytes(job),
                        (const char *)p->tiles + (size_t)g * tile_group_bytes(job), p->start + g * 512,
                        steps, scores + side * SCORES);
            side ^= 1;
            if (last_group >= 0 && collect)
                tile_filter(job, w, p, scores + side * SCORES, last_tile * TILE_ROWS, last_group * TILE_K);
            else if (last_group >= 0)
                tile_pick(w, scores + side * SCORES, last_tile * TILE_ROWS, last_group * TILE_K);
            last_group = g;
            last_tile = i;
        }
    }
    side ^= 1;
    if (last_group >= 0 && collect)
        tile_filter(job, w, p, scores + side * SCORES, last_tile * TILE_ROWS, last_group * TILE_K);
    else if (last_group >= 0)
        tile_pick(w, scores + side * SCORES, last_tile * TILE_ROWS, last_group * TILE_K);
}

static void tile_argmax(const struct job *job, struct worker *w, const struct pack *p) {
    tile_sweep(job, w, p, 0);
}

static void tile_collect(const struct job *job, struct worker *w, const struct pack *p) {
    tile_sweep(job, w, p, 1);
}

#endif
