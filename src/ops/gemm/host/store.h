/* SPDX-License-Identifier: Apache-2.0
 * From sums to C: alpha, beta, the type of C. */
#ifndef HF_GEMM_STORE_H
#define HF_GEMM_STORE_H

#include "ops/gemm/host/job.h"

#include <math.h>

/* far: to memory past the caches, or it would be read before it is overwritten; out is aligned. */
ALWAYS_INLINE void put(float *out, vf v, bool far) {
#if HF_ISA_TILES
    if (far) {
        _mm512_stream_ps(out, v);
        return;
    }
#endif
    (void)far;
    vf_store(out, v);
}

/* out = alpha sum + beta c for a row of a tile; each NaN becomes the same one. */
ALWAYS_INLINE void finish_f32(const hf_gemm_args *args, const float *sum, const float *c,
                              float *out, bool far) {
    const vf alpha = vf_set1((float)args->alpha), beta = vf_set1((float)args->beta);
    UNROLL(2)
    for (int v = 0; v < 2 * VW; v += VW) {
        const vf s = vf_load(sum + v);
        const vf r = c != NULL ? vf_fma(alpha, s, vf_mul(beta, vf_load(c + v))) : vf_mul(alpha, s);
        put(out + v, vf_select(vf_ne(r, r), vf_set1(NAN), r), far);
    }
}

ALWAYS_INLINE void finish_f64(const hf_gemm_args *args, const double *sum, const double *c,
                              double *out) {
    const vd alpha = vd_set1(args->alpha), beta = vd_set1(args->beta);
    UNROLL(2)
    for (int v = 0; v < 2 * VDW; v += VDW) {
        const vd s = vd_load(sum + v);
        const vd r = c != NULL ? vd_fma(alpha, s, vd_mul(beta, vd_load(c + v))) : vd_mul(alpha, s);
        vd_store(out + v, vd_select(vd_ne(r, r), vd_set1((double)NAN), r));
    }
}

ALWAYS_INLINE void finish_i32(const hf_gemm_args *args, const int32_t *sum, const int32_t *c,
                              int32_t *out) {
    const uint32_t alpha = (uint32_t)(int32_t)args->alpha, beta = (uint32_t)(int32_t)args->beta;
    for (int j = 0; j < 2 * VW; j++)
        out[j] = (int32_t)(alpha * (uint32_t)sum[j] + (c != NULL ? beta * (uint32_t)c[j] : 0));
}

/* Round to nearest even; a NaN is quiet already. */
ALWAYS_INLINE uint16_t bf16_of(float f) {
    uint32_t bits = 0;
    memcpy(&bits, &f, sizeof bits);
    return f != f ? 0x7fc0 : (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* A row of a C of 16 bits; its `count` elements lie in the first of old. */
ALWAYS_INLINE void finish_half(const hf_gemm_args *args, const float *sum, const uint16_t *old,
                               uint16_t *out) {
    float c[2 * VW];
    const bool f16 = args->dtype_c == HF_F16;
    for (int v = 0; old != NULL && v < 2 * VW; v += VW)
        vf_store(c + v, f16 ? vf_from_f16(old + v) : vf_from_bf16(old + v));
    finish_f32(args, sum, old != NULL ? c : NULL, c, false);
    for (int v = 0; f16 && v < 2 * VW; v += VW)
        vf_to_f16(out + v, vf_load(c + v));
    for (int j = 0; !f16 && j < 2 * VW; j++)
        out[j] = bf16_of(c[j]);
}

ALWAYS_INLINE void finish_row(const hf_gemm_args *args, const void *sum, const void *c, void *out,
                              bool far) {
    switch (args->dtype_c) {
    case HF_F64:
        finish_f64(args, sum, c, out);
        break;
    case HF_I32:
        finish_i32(args, sum, c, out);
        break;
    case HF_F32:
        finish_f32(args, sum, c, out, far);
        break;
    default:
        finish_half(args, sum, c, out);
    }
}

/* Rows [begin, end) of the tile at (row, col) of C get its sums `total` [TILE_M][tile_n]. Every
 * element that is written passes here. */
static void store_rows(const struct gemm_job *job, const char *total, int64_t row, int64_t col,
                       int64_t begin, int64_t end) {
    const hf_gemm_args *const args = job->args;
    const int64_t bytes = (int64_t)hf_dtype_bytes(args->dtype_c);
    const int64_t line = job->tile_n * unit_bytes(job);
    const int64_t rows = hf_min64(end, job->row + job->rows - row);
    const int64_t cols = hf_min64(job->tile_n, job->col + job->cols - col);
    char *c = job->c + ((row + begin) * args->ldc + col) * bytes;
    total += begin * line;
    for (int64_t i = begin; i < rows; i++, c += args->ldc * bytes, total += line) {
        _Alignas(HF_ALIGN) char part[2 * VW * 4] = {0};
        if (cols == job->tile_n) {
            finish_row(args, total, args->beta != 0 ? c : NULL, c, job->far);
            continue;
        }
        if (args->beta != 0)
            memcpy(part, c, (size_t)(cols * bytes));
        finish_row(args, total, args->beta != 0 ? part : NULL, part, false);
        memcpy(c, part, (size_t)(cols * bytes));
    }
}

/* Up to `rows` further ones of a tile whose sums are to be stored. */
static void store_more(const struct gemm_job *job, struct unstored *u, int64_t rows) {
    const int64_t end = hf_min64(u->next + rows, TILE_M);
    if (u->total == NULL)
        return;
    store_rows(job, u->total, u->row, u->col, u->next, end);
    u->next = end;
    if (end == TILE_M)
        u->total = NULL;
}

#endif
