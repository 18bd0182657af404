/* SPDX-License-Identifier: Apache-2.0
 * Tiles of AMX: 32 x 32 sums in four registers of 16 x 16. A step adds 32 products of bfloat16 to a
 * sum: those with even numbers as a chain of fused multiply-adds from 0, those with odd ones as
 * another, then the sum of the two; subnormal numbers count as 0. Of int8 it adds 64, exactly. */
#ifndef HF_GEMM_AMX_TILE_H
#define HF_GEMM_AMX_TILE_H

#include "ops/gemm/host/store.h"

#define REGISTER_BYTES 1024 /* 16 rows of 64 */
#define STEP_BYTES INT64_C(2048)
#define LINE_BYTES INT64_C(64) /* of a cache */
#define TOTAL_STRIDE (TILE_N32 * 4)

/* All eight registers have 16 rows of 64 bytes. */
static const struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t colsb[16];
    uint8_t rows[16];
} tile_config __attribute__((aligned(64))) = {
    1, 0, {0}, {64, 64, 64, 64, 64, 64, 64, 64}, {16, 16, 16, 16, 16, 16, 16, 16}};

static void tile_begin(void) { _tile_loadconfig(&tile_config); }
static void tile_end(void) { _tile_release(); }

/* Registers 0 .. 3 are the sums, upper half first; 4 and 5 are A's, 6 and 7 B's. */
ALWAYS_INLINE void load_sums(const char *total, bool add) {
    if (!add) {
        _tile_zero(0);
        _tile_zero(1);
        _tile_zero(2);
        _tile_zero(3);
        return;
    }
    _tile_loadd(0, total, TOTAL_STRIDE);
    _tile_loadd(1, total + 64, TOTAL_STRIDE);
    _tile_loadd(2, total + 16 * TOTAL_STRIDE, TOTAL_STRIDE);
    _tile_loadd(3, total + 16 * TOTAL_STRIDE + 64, TOTAL_STRIDE);
}

ALWAYS_INLINE void store_sums(char *total) {
    _tile_stored(0, total, TOTAL_STRIDE);
    _tile_stored(1, total + 64, TOTAL_STRIDE);
    _tile_stored(2, total + 16 * TOTAL_STRIDE, TOTAL_STRIDE);
    _tile_stored(3, total + 16 * TOTAL_STRIDE + 64, TOTAL_STRIDE);
}

/* What is done while a tile is summed, since a multiplication takes 16 cycles: the second cache is
 * asked for what follows, and the first, or it would wait; and the tile before is stored. */
struct beside {
    const struct gemm_job *job;
    struct unstored *before;
    const char *sums;         /* of the next tile, for the first cache; NULL: there are none */
    const char *b, *a;        /* a share of B's next panel, and A's next one, */
    int64_t b_lines, a_lines; /* of so many cache lines a step */
    char *to;                 /* where the sums of this tile go, 32 rows; NULL: they stay near, */
    int64_t row;              /* so many bytes apart */
};

/* Before step s. */
ALWAYS_INLINE void beside_step(const struct beside *w, int64_t s) {
    const char *const b = w->b + s * w->b_lines * LINE_BYTES;
    const char *const a = w->a + s * w->a_lines * LINE_BYTES;
    for (int64_t l = 0; l < w->b_lines; l++)
        __builtin_prefetch(b + l * LINE_BYTES, 0, 2);
    for (int64_t l = 0; l < w->a_lines; l++)
        __builtin_prefetch(a + l * LINE_BYTES, 0, 2);
    store_more(w->job, w->before, 2);
    for (int64_t l = 0; w->sums != NULL && s < TILE_M / 2 && l < 4; l++)
        __builtin_prefetch(w->sums + (4 * s + l) * LINE_BYTES, 0, 3);
    for (int64_t row = 2 * s; w->to != NULL && s < TILE_M / 2 && row < 2 * s + 2; row++) {
        __builtin_prefetch(w->to + row * w->row, 1, 2);
        __builtin_prefetch(w->to + row * w->row + LINE_BYTES, 1, 2);
    }
}

/* Steps of a [step][TILE_M][TILE_STEP] and b [step][TILE_STEP][TILE_N32]. A panel of B stays in the
 * first cache while those of A pass through. */
#define STEPS(name, multiply)                                                                      \
    static void name(const char *a, const char *b, int64_t steps, const struct beside *beside) {   \
        for (int64_t s = 0; s < steps; s++, a += STEP_BYTES, b += STEP_BYTES) {                    \
            _tile_loadd(6, b, TOTAL_STRIDE);                                                       \
            _tile_stream_loadd(4, a, 64);                                                          \
            _tile_loadd(7, b + 64, TOTAL_STRIDE);                                                  \
            _tile_stream_loadd(5, a + REGISTER_BYTES, 64);                                         \
            beside_step(beside, s);                                                                \
            multiply(0, 4, 6);                                                                     \
            multiply(1, 4, 7);                                                                     \
            multiply(2, 5, 6);                                                                     \
            multiply(3, 5, 7);                                                                     \
        }                                                                                          \
    }
STEPS(steps_bf16, _tile_dpbf16ps)
STEPS(steps_i8, _tile_dpbssd)
#undef STEPS

/* Cache lines a step of the share of one tile of `tiles`; 0: others have it all. */
static int64_t share(int64_t tile, int64_t tiles) {
    const int64_t lines = ceil_div(STEP_BYTES / LINE_BYTES, tiles);
    return tile * lines * LINE_BYTES < STEP_BYTES ? lines : 0;
}

/* Where units of a range begin in a panel. */
static int64_t offset_of(const struct gemm_job *job, int64_t product) {
    return units_of(job, product) / TILE_STEP * STEP_BYTES;
}

static struct beside beside_of(const struct gemm_job *job, struct area *area,
                               const struct pass *pass, int64_t steps) {
    const int64_t bytes = panel_bytes(job, TILE_M), size = hf_dtype_bytes(job->args->dtype_c);
    const int64_t row = job->row + pass->i * TILE_M, col = job->col + pass->j * TILE_N32;
    const int64_t i = pass->i - area->top;
    const bool below = pass->i + 1 < area->bottom, ends = ends_range(job, pass);
    const int64_t after = ends ? 0 : offset_of(job, pass->first + job->pass);
    struct beside w = {.job = job, .before = &area->before};
    w.b_lines = share(i, area->bottom - area->top);
    w.b = job->pack_b + hf_min64(ends ? pass->j + 1 : pass->j, tiles_across(job) - 1) * bytes +
          after + i * w.b_lines * steps * LINE_BYTES;
    /* A's panels stay in the second cache: the first column of tiles fetches them. */
    const bool fetches = !job->own_a && pass->j == area->left && (below || !ends);
    w.a_lines = fetches ? STEP_BYTES / LINE_BYTES : 0;
    w.a = area->a + (below ? i + 1 : 0) * bytes + (below ? offset_of(job, pass->first) : after);
    if (below ? pass->first > 0 : !ends)
        w.sums = below ? pass->from + tile_bytes(job) : area->own;
    if (!ends || (is_last(job) && job->far))
        return w;
    w.to = is_last(job) ? job->c + (row * job->args->ldc + col) * size : pass->to;
    w.row = is_last(job) ? job->args->ldc * size : TOTAL_STRIDE;
    return w;
}

static void tile_blocks(const struct gemm_job *job, struct area *area, const struct pass *pass) {
    const int64_t at = offset_of(job, pass->first), bytes = panel_bytes(job, TILE_M);
    const char *const a = area->a + (pass->i - area->top) * bytes + at;
    const char *const b = job->pack_b + pass->j * bytes + at;
    const int64_t depth = hf_min64(job->pass, job->depth - pass->first);
    const int64_t steps = units_of(job, depth) / TILE_STEP;
    const struct beside beside = beside_of(job, area, pass, steps);
    load_sums(pass->from, job->first + pass->first > 0);
    if (job->in == HF_I32)
        steps_i8(a, b, steps, &beside);
    else
        steps_bf16(a, b, steps, &beside);
    store_more(job, &area->before, TILE_M); /* their sums may lie where these go */
    store_sums(pass->to);
}

#endif
