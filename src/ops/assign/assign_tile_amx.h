/* SPDX-License-Identifier: Apache-2.0
 * Tiles on AMX: 32 rows by 32 centroids, float32 split into bf16 parts. x' = xh + xl + rest, the
 * same for c', and x'.c' ~ (xh + xl).ch + xh.cl; data that are whole numbers have no xl. The parts
 * of a row lie end to end, [xh | xl], so that only their end is padded to 32; a tile of 32 of them
 * meets the tiles of [ch | ch] ("high") and, as far as xh reaches, of [cl | cl] ("low"):
 *   packed rows       [panel of 16][step][16 pairs of features][16 rows][2]      bf16
 *   packed centroids  [group][half][high steps, then low steps][16 centroids][32] bf16
 * A result tile is [16 centroids][16 rows], lane = row as in the float32 tiles. */
#ifndef HF_ASSIGN_TILE_AMX_H
#define HF_ASSIGN_TILE_AMX_H

#include "ops/assign/assign_job.h"
#include "ops/assign/assign_pick.h"
#include <string.h>

#define TILE_K 32
#define TILE_ROWS 32
#define TILE_PAD 32      /* x' and c' are padded with zeros to a multiple of this */
#define STEP 32          /* bf16 features of a tile */
#define STEP_BYTES 1024  /* of a tile */
#define SCORES (4 * 256) /* of a 32 x 32 block */

/* Tile registers: 0-3 scores, 4-5 centroids, 6-7 rows; all 16 rows of 64 bytes. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t colsb[16];
    uint8_t rows[16];
} tile_config __attribute__((aligned(64))) = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

static void tile_begin(void) { _tile_loadconfig(&tile_config); }

static void tile_end(void) { _tile_release(); }

/* Parts of a row: its high half, and what that leaves. */
static int tile_parts(const struct job *job) { return job->whole ? 1 : 2; }

static int64_t tile_steps(const struct job *job) {
    return (tile_parts(job) * job->d + STEP - 1) / STEP;
}

static int64_t tile_low_steps(const struct job *job) { return (job->d + STEP - 1) / STEP; }

static int64_t tile_all_steps(const struct job *job) {
    return tile_steps(job) + tile_low_steps(job);
}

/* Parts left out: rest of c' (2^-18) and, for split rows, rest of x' and xl.cl, each at most 2^-18
 * of |x'||c'|. A step adds 32 products in chains of 16 and one to the total; twice that covers any
 * order. */
static double tile_dot_error(const struct job *job) {
    const double chain = 2 * (18.0 + (double)tile_all_steps(job));
    return (job->whole ? 1.02 : 3.06) * 0x1p-18 + 1.02 * chain * 0x1p-24;
}

static size_t tile_row_bytes(const struct job *job) {
    return (size_t)tile_steps(job) * STEP_BYTES / 16;
}

static size_t tile_group_bytes(const struct job *job) {
    return 2 * (size_t)tile_all_steps(job) * STEP_BYTES;
}

/* A start tile [16][16] for every 16 centroids. */
static size_t tile_start_bytes(const struct job *job, int64_t groups) {
    (void)job;
    return 2 * STEP_BYTES * (size_t)groups;
}

/* bf16 values of one row of parts: both parts and what the last store of 32 runs over. */
static int64_t tile_parts_stride(const struct job *job) { return (tile_steps(job) + 1) * STEP; }

/* 16 rows of parts, and two blocks of scores. */
static size_t tile_scratch_bytes(const struct job *job) {
    return 16 * sizeof(uint16_t) * (size_t)tile_parts_stride(job) + 2 * SCORES * sizeof(float);
}

ALWAYS_INLINE __m512 tile_widen(__m256i bf16) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bf16), 16));
}

/* high[j] = bf16 of x[j], for d up to a multiple of 32 values. */
static void tile_high(const float *x, int64_t d, uint16_t *high) {
    for (int64_t j = 0; j < d; j += STEP)
        _mm512_storeu_si512(high + j,
                            (__m512i)_mm512_cvtne2ps_pbh(vf_load(x + j + 16), vf_load(x + j)));
}

/* low[j] = bf16 of what high[j] leaves of x[j]. */
static void tile_low(const float *x, int64_t d, uint16_t *low) {
    for (int64_t j = 0; j < d; j += STEP) {
        const vf a = vf_load(x + j);
        const vf b = vf_load(x + j + 16);
        const __m512i high = (__m512i)_mm512_cvtne2ps_pbh(b, a);
        const vf rest_a = vf_sub(a, tile_widen(_mm512_castsi512_si256(high)));
        const vf rest_b = vf_sub(b, tile_widen(_mm512_extracti64x4_epi64(high, 1)));
        _mm512_storeu_si512(low + j, (__m512i)_mm512_cvtne2ps_pbh(rest_b, rest_a));
    }
}

/* What lies behind the parts of a row up to the end of its last tile must be 0, not what was there
 * before. */
static void tile_clear_end(const struct job *job, uint16_t *row) {
    const int64_t used = tile_parts(job) * job->d;
    memset(row + used, 0, sizeof(uint16_t) * (size_t)(tile_steps(job) * STEP - used));
}

/* Centroid `slot` of a pack: c' [d_pad] and its start score. */
static void tile_pack_centroid(const struct job *job, struct worker *w, struct pack *p,
                               int64_t slot, const float *c, float start) {
    const int64_t high = tile_steps(job);
    const int64_t low = tile_low_steps(job);
    uint16_t *parts = w->scratch;
    char *tile = (char *)p->tiles + (size_t)(slot / 16 * (high + low)) * STEP_BYTES +
                 (size_t)(slot % 16) * 64;
    tile_high(c, job->d, parts);
    if (tile_parts(job) == 2)
        tile_high(c, job->d, parts + job->d);
    tile_clear_end(job, parts);
    for (int64_t s = 0; s < high; s++)
        memcpy(tile + s * STEP_BYTES, parts + s * STEP, 64);
    tile_low(c, job->d, parts);
    if (tile_parts(job) == 2) /* xl.cl where it comes for free: on the tile that xh and xl share */
        tile_low(c, job->d, parts + job->d);
    tile_clear_end(job, parts);
    for (int64_t s = 0; s < low; s++)
        memcpy(tile + (high + s) * STEP_BYTES, parts + s * STEP, 64);
    for (int i = 0; i < 16; i++)
        p->start[slot * 16 + i] = start;
}

/* 16 rows starting at slot `first`, x' as [16][d_pad] in rows. */
static void tile_pack_panel(const struct job *job, struct worker *w, int first, const float *rows) {
    const int64_t steps = tile_steps(job);
    const int64_t stride = tile_parts_stride(job);
    uint16_t *parts = w->scratch; /* [16][stride] */
    for (int i = 0; i < 16; i++) {
        tile_high(rows + i * job->d_pad, job->d, parts + i * stride);
        if (tile_parts(job) == 2)
            tile_low(rows + i * job->d_pad, job->d, parts + i * stride + job->d);
        tile_clear_end(job, parts + i * stride);
    }
    char *dst = (char *)w->x + (size_t)(first / 16 * steps) * STEP_BYTES;
    for (int64_t s = 0; s < steps; s++) {
        vf r[16];
        UNROLL(16)
        for (int i = 0; i < 16; i++)
            r[i] = vf_load((const float *)(const void *)(parts + i * stride + s * STEP));
        vf_transpose(r);
        UNROLL(16)
        for (int i = 0; i < 16; i++)
            vf_store((float *)(void *)(dst + s * STEP_BYTES) + i * 16, r[i]);
    }
}

/* A 32 x 32 block of scores that waits for its vector work. */
struct tile_wait {
    const float *scores; /* [2 centroid halves][2 row halves][16][16]; NULL: none */
    int slot;            /* first row of the block */
    int64_t k;           /* first centroid */
};

/* Vector work on centroids [from, to) of a waiting block: best two of each row, or candidates. */
ALWAYS_INLINE void tile_digest(const struct job *job, struct worker *w, const struct pack *p,
                               int collect, const struct tile_wait *wait, struct pick pick[2],
                               int from, int to) {
    for (int t = from; t < to; t++) {
        const float *row = wait->scores + t / 16 * 512 + t % 16 * 16;
        const vf a = vf_load(row);
        const vf b = vf_load(row + 256);
        if (collect) {
            const uint64_t bits =
                vm_bits(vf_le(pick[0].best, a)) | (uint64_t)vm_bits(vf_le(pick[1].best, b)) << 16;
            pick_candidates(job, w, p, wait->slot, bits, wait->k + t);
        } else {
            pick_score(&pick[0], a, (int32_t)(wait->k + t));
            pick_score(&pick[1], b, (int32_t)(wait->k + t));
        }
    }
}

/* Tiles on 32 rows by 32 centroids; meanwhile the vector units digest the block made before. */
ALWAYS_INLINE void tile_block(const struct job *job, struct worker *w, const struct pack *p,
                              int collect, const char *x, const char *c, const float *start,
                              float *out, const struct tile_wait *wait) {
    const int64_t high = tile_steps(job);
    const int64_t low = tile_low_steps(job);
    const char *y = x + high * STEP_BYTES;
    const char *e = c + (high + low) * STEP_BYTES;
    const int share = wait->scores ? (int)((TILE_K + high - 1) / high) : 0;
    struct pick pick[2] = {pick_load(&w->block, wait->slot), pick_load(&w->block, wait->slot + 16)};
    _tile_loadd(0, start, 64);
    _tile_loadd(1, start, 64);
    _tile_loadd(2, start + 256, 64);
    _tile_loadd(3, start + 256, 64);
    for (int64_t s = 0; s < high; s++) {
        _tile_loadd(4, c + s * STEP_BYTES, 64);
        _tile_loadd(6, x + s * STEP_BYTES, 64);
        _tile_loadd(5, e + s * STEP_BYTES, 64);
        _tile_loadd(7, y + s * STEP_BYTES, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        if (s < low) {
            _tile_loadd(4, c + (high + s) * STEP_BYTES, 64);
            _tile_loadd(5, e + (high + s) * STEP_BYTES, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 4, 7);
            _tile_dpbf16ps(2, 5, 6);
            _tile_dpbf16ps(3, 5, 7);
        }
        const int from = (int)s * share;
        if (from < TILE_K)
            tile_digest(job, w, p, collect, wait, pick, from,
                        from + share < TILE_K ? from + share : TILE_K);
        job_prefetch(w);
    }
    _tile_stored(0, out, 64);
    _tile_stored(1, out + 256, 64);
    _tile_stored(2, out + 512, 64);
    _tile_stored(3, out + 768, 64);
    if (share && !collect) {
        pick_store(&w->block, wait->slot, &pick[0]);
        pick_store(&w->block, wait->slot + 16, &pick[1]);
    }
}

ALWAYS_INLINE void tile_sweep(const struct job *job, struct worker *w, const struct pack *p,
                              int collect) {
    const int tiles = (w->block.rows + TILE_ROWS - 1) / TILE_ROWS;
    float *scores = (float *)(void *)((char *)w->scratch + tile_scratch_bytes(job)) - 2 * SCORES;
    struct tile_wait wait = {NULL, 0, 0};
    job_prefetch_plan(w, p->groups * tiles * tile_steps(job));
    for (int64_t g = 0; g < p->groups; g++) {
        for (int i = 0; i < tiles; i++) {
            float *out = wait.scores == scores ? scores + SCORES : scores;
            tile_block(job, w, p, collect,
                       (const char *)w->x + (size_t)i * TILE_ROWS * tile_row_bytes(job),
                       (const char *)p->tiles + (size_t)g * tile_group_bytes(job),
                       p->start + g * 512, out, &wait);
            wait = (struct tile_wait){out, i * TILE_ROWS, g * TILE_K};
        }
    }
    if (!wait.scores)
        return;
    struct pick pick[2] = {pick_load(&w->block, wait.slot), pick_load(&w->block, wait.slot + 16)};
    tile_digest(job, w, p, collect, &wait, pick, 0, TILE_K);
    if (collect)
        return;
    pick_store(&w->block, wait.slot, &pick[0]);
    pick_store(&w->block, wait.slot + 16, &pick[1]);
}

static void tile_argmax(const struct job *job, struct worker *w, const struct pack *p) {
    tile_sweep(job, w, p, 0);
}

static void tile_collect(const struct job *job, struct worker *w, const struct pack *p) {
    tile_sweep(job, w, p, 1);
}

#endif
