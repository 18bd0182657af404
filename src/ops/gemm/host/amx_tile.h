/* SPDX-License-Identifier: Apache-2.0
 * Tiles of AMX: 32 x 32 sums in four registers of 16 x 16. A step adds 32 products of bfloat16 to a
 * sum: those with even numbers as a chain of fused multiply-adds from 0, those with odd ones as
 * another, then the sum of the two; subnormal numbers count as 0. Of int8 it adds 64, exactly. */
#ifndef HF_GEMM_AMX_TILE_H
#define HF_GEMM_AMX_TILE_H

#include "ops/gemm/host/job.h"

#define REGISTER_BYTES 1024 /* 16 rows of 64 */
#define STEP_BYTES INT64_C(2048)
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

/* What the second cache is asked for while a tile is summed, or the sums would wait for memory. */
struct ahead {
    char *to;         /* where the sums of this tile go: 32 rows, */
    int64_t line;     /* so many bytes apart */
    char *totals;     /* sums so far of the next tile, 32 rows of 128 bytes; NULL: there are none */
    const char *next; /* a share of the next panel of B: 128 bytes of each step */
};

/* Before step s: two rows of each. */
ALWAYS_INLINE void ask(const struct ahead *ahead, int64_t s) {
    __builtin_prefetch(ahead->next + s * STEP_BYTES, 0, 2);
    __builtin_prefetch(ahead->next + s * STEP_BYTES + 64, 0, 2);
    for (int64_t row = 2 * s; s < TILE_M / 2 && row < 2 * s + 2; row++) {
        __builtin_prefetch(ahead->to + row * ahead->line, 1, 2);
        __builtin_prefetch(ahead->to + row * ahead->line + 64, 1, 2);
        if (ahead->totals != NULL) {
            __builtin_prefetch(ahead->totals + row * TOTAL_STRIDE, 1, 2);
            __builtin_prefetch(ahead->totals + row * TOTAL_STRIDE + 64, 1, 2);
        }
    }
}

/* Steps of a [step][TILE_M][TILE_STEP] and b [step][TILE_STEP][TILE_N32]. A panel of B stays in the
 * first cache while those of A pass through. */
#define STEPS(name, multiply)                                                                      \
    static void name(const char *a, const char *b, int64_t steps, const struct ahead *ahead) {     \
        for (int64_t s = 0; s < steps; s++, a += STEP_BYTES, b += STEP_BYTES) {                    \
            _tile_loadd(6, b, TOTAL_STRIDE);                                                       \
            _tile_stream_loadd(4, a, 64);                                                          \
            _tile_loadd(7, b + 64, TOTAL_STRIDE);                                                  \
            _tile_stream_loadd(5, a + REGISTER_BYTES, 64);                                         \
            ask(ahead, s);                                                                         \
            multiply(0, 4, 6);                                                                     \
            multiply(1, 4, 7);                                                                     \
            multiply(2, 5, 6);                                                                     \
            multiply(3, 5, 7);                                                                     \
        }                                                                                          \
    }
STEPS(steps_bf16, _tile_dpbf16ps)
STEPS(steps_i8, _tile_dpbssd)
#undef STEPS

static struct ahead ahead_of(const struct gemm_job *job, int64_t i, int64_t j, char *total) {
    const int64_t place = i % job->band, across = tiles_across(job);
    const int64_t size = (int64_t)hf_dtype_bytes(job->args->dtype_c);
    const int64_t row = job->row + i * TILE_M, col = job->col + j * TILE_N32;
    struct ahead ahead = {.to = job->c + (row * job->args->ldc + col) * size,
                          .line = job->args->ldc * size};
    ahead.next = job->pack_b + hf_min64(j + 1, across - 1) * panel_bytes(job, TILE_N32) +
                 place % (STEP_BYTES / 128) * 128;
    if (job->totals == NULL)
        return ahead;
    const bool below = place + 1 < job->band && i + 1 < tiles_down(job);
    const int64_t tile = below ? (i + 1) * across + j : (i - place) * across + j + 1;
    ahead.totals = job->totals + tile * TILE_M * TOTAL_STRIDE;
    if (!is_last(job)) {
        ahead.to = total;
        ahead.line = TOTAL_STRIDE;
    }
    return ahead;
}

/* All products of the job's depth, for tile (i, j) of the group. */
static void tile_blocks(const struct gemm_job *job, int64_t i, int64_t j, void *total) {
    const char *const a = job->pack_a + i * panel_bytes(job, TILE_M);
    const char *const b = job->pack_b + j * panel_bytes(job, job->tile_n);
    const int64_t steps = units_of(job, job->depth) / TILE_STEP;
    const struct ahead ahead = ahead_of(job, i, j, total);
    load_sums(total, job->first > 0);
    if (job->in == HF_I32)
        steps_i8(a, b, steps, &ahead);
    else
        steps_bf16(a, b, steps, &ahead);
    store_sums(total);
}

#endif
