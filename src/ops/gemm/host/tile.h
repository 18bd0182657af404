/* SPDX-License-Identifier: Apache-2.0
 * Tiles: the sums of one block, TILE_M rows by two vectors, each lane a chain by itself. */
#ifndef HF_GEMM_TILE_H
#define HF_GEMM_TILE_H

#include "ops/gemm/host/job.h"

/* A block of a tile: a [units][TILE_M] and b [units][2 vectors], whose sums go to total
 * [TILE_M][2 vectors] or are added to it; with `narrow` those of the second vector are 0. */
struct block {
    const void *a, *b;
    int64_t units;
    void *total;
    bool narrow;
};

ALWAYS_INLINE void sums_f32(const struct block *block, bool add, int vectors) {
    const float *const a = block->a, *const b = block->b;
    float *const total = block->total;
    vf sum[TILE_M][2];
    UNROLL(14)
    for (int i = 0; i < TILE_M; i++)
        sum[i][0] = sum[i][1] = vf_set1(0);
    for (int64_t p = 0; p < block->units; p++) {
        vf y[2];
        UNROLL(2)
        for (int v = 0; v < vectors; v++)
            y[v] = vf_load(b + (2 * p + v) * VW);
        UNROLL(14)
        for (int i = 0; i < TILE_M; i++) {
            const vf x = vf_set1(a[p * TILE_M + i]);
            UNROLL(2)
            for (int v = 0; v < vectors; v++)
                sum[i][v] = vf_fma(x, y[v], sum[i][v]);
        }
    }
    UNROLL(28)
    for (int t = 0; t < 2 * TILE_M; t++) {
        float *const at = total + t * VW;
        const vf v = sum[t / 2][t % 2];
        vf_store(at, add ? vf_add(vf_load(at), v) : v);
    }
}

static void tile_f32(const struct block *block, bool add) {
    if (block->narrow)
        sums_f32(block, add, 1);
    else
        sums_f32(block, add, 2);
}

ALWAYS_INLINE void sums_f64(const struct block *block, bool add, int vectors) {
    const double *const a = block->a, *const b = block->b;
    double *const total = block->total;
    vd sum[TILE_M][2];
    UNROLL(14)
    for (int i = 0; i < TILE_M; i++)
        sum[i][0] = sum[i][1] = vd_set1(0);
    for (int64_t p = 0; p < block->units; p++) {
        vd y[2];
        UNROLL(2)
        for (int v = 0; v < vectors; v++)
            y[v] = vd_load(b + (2 * p + v) * VDW);
        UNROLL(14)
        for (int i = 0; i < TILE_M; i++) {
            const vd x = vd_set1(a[p * TILE_M + i]);
            UNROLL(2)
            for (int v = 0; v < vectors; v++)
                sum[i][v] = vd_fma(x, y[v], sum[i][v]);
        }
    }
    UNROLL(28)
    for (int t = 0; t < 2 * TILE_M; t++) {
        double *const at = total + t * VDW;
        const vd v = sum[t / 2][t % 2];
        vd_store(at, add ? vd_add(vd_load(at), v) : v);
    }
}

static void tile_f64(const struct block *block, bool add) {
    if (block->narrow)
        sums_f64(block, add, 1);
    else
        sums_f64(block, add, 2);
}

/* Each unit is a pair of int16, whose products and their sum fit into int32. */
ALWAYS_INLINE void sums_i32(const struct block *block, bool add, int vectors) {
    const int32_t *const a = block->a, *const b = block->b;
    int32_t *const total = block->total;
    vi sum[TILE_M][2];
    UNROLL(14)
    for (int i = 0; i < TILE_M; i++)
        sum[i][0] = sum[i][1] = vi_set1(0);
    for (int64_t p = 0; p < block->units; p++) {
        vi y[2];
        UNROLL(2)
        for (int v = 0; v < vectors; v++)
            y[v] = vi_load(b + (2 * p + v) * VW);
        UNROLL(14)
        for (int i = 0; i < TILE_M; i++) {
            const vi x = vi_set1(a[p * TILE_M + i]);
            UNROLL(2)
            for (int v = 0; v < vectors; v++)
                sum[i][v] = vi_add(sum[i][v], vi_dot_i16(x, y[v]));
        }
    }
    UNROLL(28)
    for (int t = 0; t < 2 * TILE_M; t++) {
        int32_t *const at = total + t * VW;
        const vi v = sum[t / 2][t % 2];
        vi_store(at, add ? vi_add(vi_load(at), v) : v);
    }
}

static void tile_i32(const struct block *block, bool add) {
    if (block->narrow)
        sums_i32(block, add, 1);
    else
        sums_i32(block, add, 2);
}

/* What a worker does before and after its tiles. */
static void tile_begin(void) {}
static void tile_end(void) {}

/* The blocks of the job's depth, in order: all of it is one pass. */
static void tile_blocks(const struct gemm_job *job, struct area *area, const struct pass *pass) {
    const int64_t tile_n = job->tile_n;
    const char *const a = area->a + (pass->i - area->top) * panel_bytes(job, TILE_M);
    const char *const b = job->pack_b + pass->j * panel_bytes(job, tile_n);
    struct block block = {.total = pass->to, .narrow = job->cols - pass->j * tile_n <= tile_n / 2};
    for (int64_t p = 0; p < job->depth; p += HF_GEMM_BLOCK) {
        const bool add = job->first + p > 0;
        block.units = units_of(job, hf_min64(HF_GEMM_BLOCK, job->depth - p));
        block.a = a + units_of(job, p) * TILE_M * unit_bytes(job);
        block.b = b + units_of(job, p) * tile_n * unit_bytes(job);
        if (job->in == HF_F64)
            tile_f64(&block, add);
        else if (job->in == HF_I32)
            tile_i32(&block, add);
        else
            tile_f32(&block, add);
    }
}

#endif
