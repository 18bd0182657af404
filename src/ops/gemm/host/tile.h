/* SPDX-License-Identifier: Apache-2.0
 * Tiles: the sums of one block, TILE_M rows by two vectors, each lane a chain by itself. */
#ifndef HF_GEMM_TILE_H
#define HF_GEMM_TILE_H

#include "ops/gemm/host/job.h"

/* a [units][TILE_M], b [units][2 VW]; the sums go to total [TILE_M][2 VW], or are added to it. */
static void tile_f32(const float *a, const float *b, int64_t units, float *total, bool add) {
    vf sum[TILE_M][2];
    UNROLL(14)
    for (int i = 0; i < TILE_M; i++)
        sum[i][0] = sum[i][1] = vf_set1(0);
    for (int64_t p = 0; p < units; p++) {
        const vf b0 = vf_load(b + p * 2 * VW), b1 = vf_load(b + p * 2 * VW + VW);
        UNROLL(14)
        for (int i = 0; i < TILE_M; i++) {
            const vf x = vf_set1(a[p * TILE_M + i]);
            sum[i][0] = vf_fma(x, b0, sum[i][0]);
            sum[i][1] = vf_fma(x, b1, sum[i][1]);
        }
    }
    UNROLL(14)
    for (int i = 0; i < TILE_M; i++)
        UNROLL(2)
    for (int v = 0; v < 2; v++) {
        float *const at = total + (2 * i + v) * VW;
        vf_store(at, add ? vf_add(vf_load(at), sum[i][v]) : sum[i][v]);
    }
}

static void tile_f64(const double *a, const double *b, int64_t units, double *total, bool add) {
    vd sum[TILE_M][2];
    UNROLL(14)
    for (int i = 0; i < TILE_M; i++)
        sum[i][0] = sum[i][1] = vd_set1(0);
    for (int64_t p = 0; p < units; p++) {
        const vd b0 = vd_load(b + p * 2 * VDW), b1 = vd_load(b + p * 2 * VDW + VDW);
        UNROLL(14)
        for (int i = 0; i < TILE_M; i++) {
            const vd x = vd_set1(a[p * TILE_M + i]);
            sum[i][0] = vd_fma(x, b0, sum[i][0]);
            sum[i][1] = vd_fma(x, b1, sum[i][1]);
        }
    }
    UNROLL(14)
    for (int i = 0; i < TILE_M; i++)
        UNROLL(2)
    for (int v = 0; v < 2; v++) {
        double *const at = total + (2 * i + v) * VDW;
        vd_store(at, add ? vd_add(vd_load(at), sum[i][v]) : sum[i][v]);
    }
}

/* Each unit is a pair of int16, whose products and their sum fit into int32. */
static void tile_i32(const int32_t *a, const int32_t *b, int64_t units, int32_t *total, bool add) {
    vi sum[TILE_M][2];
    UNROLL(14)
    for (int i = 0; i < TILE_M; i++)
        sum[i][0] = sum[i][1] = vi_set1(0);
    for (int64_t p = 0; p < units; p++) {
        const vi b0 = vi_load(b + p * 2 * VW), b1 = vi_load(b + p * 2 * VW + VW);
        UNROLL(14)
        for (int i = 0; i < TILE_M; i++) {
            const vi x = vi_set1(a[p * TILE_M + i]);
            sum[i][0] = vi_add(sum[i][0], vi_dot_i16(x, b0));
            sum[i][1] = vi_add(sum[i][1], vi_dot_i16(x, b1));
        }
    }
    UNROLL(14)
    for (int i = 0; i < TILE_M; i++)
        UNROLL(2)
    for (int v = 0; v < 2; v++) {
        int32_t *const at = total + (2 * i + v) * VW;
        vi_store(at, add ? vi_add(vi_load(at), sum[i][v]) : sum[i][v]);
    }
}

/* The blocks of the job's depth, in order, for the tile of these panels. */
static void tile_blocks(const struct gemm_job *job, const char *a, const char *b, void *total) {
    const int64_t unit = unit_bytes(job);
    for (int64_t p = 0; p < job->depth; p += HF_GEMM_BLOCK) {
        const int64_t units = units_of(job, hf_min64(HF_GEMM_BLOCK, job->depth - p));
        const void *const x = a + units_of(job, p) * TILE_M * unit;
        const void *const y = b + units_of(job, p) * job->tile_n * unit;
        const bool add = job->first + p > 0;
        if (job->in == HF_F64)
            tile_f64(x, y, units, total, add);
        else if (job->in == HF_I32)
            tile_i32(x, y, units, total, add);
        else
            tile_f32(x, y, units, total, add);
    }
}

#endif
