/* SPDX-License-Identifier: Apache-2.0
 * Read rows of any type, by number, as x' = fl((x - shift) * scale) in float32. */
#ifndef HF_ASSIGN_GATHER_H
#define HF_ASSIGN_GATHER_H

#include "base/dtype.h"
#include "device/host/isa_load.h"
#include "ops/assign/host/job.h"
#include <string.h>

ALWAYS_INLINE void gather_wide_as(double *restrict dst, const void *row, hf_dtype dtype,
                                  int64_t d) {
    int64_t j = 0;
    for (; j + VDW <= d; j += VDW)
        vd_store(dst + j, vd_load_as(row, dtype, j));
    if (j == d)
        return;
    double last[VDW];
    vd_store(last, vd_load_as_n(row, dtype, j, (int)(d - j)));
    memcpy(dst + j, last, sizeof *dst * (size_t)(d - j));
}

/* A row of any type to float64, exactly: hf_to_f64() is compiled for any machine and has short
 * vectors. */
static void gather_wide(double *restrict dst, const void *row, hf_dtype dtype, int64_t d) {
    switch (dtype) {
    case HF_F64:
        memcpy(dst, row, sizeof *dst * (size_t)d);
        break;
    case HF_F16:
        gather_wide_as(dst, row, HF_F16, d);
        break;
    case HF_BF16:
        gather_wide_as(dst, row, HF_BF16, d);
        break;
    case HF_U8:
        gather_wide_as(dst, row, HF_U8, d);
        break;
    default:
        gather_wide_as(dst, row, HF_F32, d);
        break;
    }
}

/* VW elements at p as float32; any type but float64. */
ALWAYS_INLINE vf gather_raw(const void *p, hf_dtype dtype) {
    if (dtype == HF_F16)
        return vf_from_f16(p);
    if (dtype == HF_BF16)
        return vf_from_bf16(p);
    if (dtype == HF_U8)
        return vf_from_u8(p);
    return vf_load(p);
}

/* hf_dtype_bytes() is a call, too dear for each vector. */
ALWAYS_INLINE size_t gather_bytes(hf_dtype dtype) {
    return dtype == HF_F64 ? 8 : dtype == HF_F32 ? 4 : dtype == HF_U8 ? 1 : 2;
}

/* VW elements at p as float32, less shift, times scale; one rounding (two for float64 data). */
ALWAYS_INLINE vf gather_convert(const void *p, hf_dtype dtype, const float *shift, vf scale) {
    if (dtype == HF_F64) {
        double centred[VW];
        const double *x = p;
        UNROLL(4)
        for (int i = 0; i < VW; i += VDW)
            vd_store(centred + i, vd_sub(vd_load(x + i), vd_from_f32(shift + i)));
        float scale_lanes[VW];
        vf_store(scale_lanes, scale);
        const vd s = vd_set1((double)scale_lanes[0]);
        UNROLL(4)
        for (int i = 0; i < VW; i += VDW)
            vd_store(centred + i, vd_mul(vd_load(centred + i), s));
        return vf_from_f64(centred);
    }
    return vf_mul(vf_sub(gather_raw(p, dtype), vf_load(shift)), scale);
}

/* One row to out [d_pad], zeros behind d. Returns |x'|^2 in VW parts. Callers pass a constant
 * dtype. */
ALWAYS_INLINE vf gather_row(const struct job *job, const char *row, hf_dtype dtype, float *out) {
    const size_t size = hf_dtype_bytes(dtype);
    const vf scale = vf_set1(job->scale);
    vf sum = vf_set1(0);
    int64_t j = 0;
    for (; j + VW <= job->d; j += VW) {
        const vf x = gather_convert(row + (size_t)j * size, dtype, job->shift + j, scale);
        vf_store(out + j, x);
        sum = vf_fma(x, x, sum);
    }
    if (j < job->d) {
        double tail[VW] = {0}; /* room for VW elements of any type */
        memcpy(tail, row + (size_t)j * size, (size_t)(job->d - j) * size);
        float lanes[VW];
        vf_store(lanes, gather_convert(tail, dtype, job->shift + j, scale));
        for (int64_t i = job->d - j; i < VW; i++)
            lanes[i] = 0;
        const vf x = vf_load(lanes);
        vf_store(out + j, x);
        sum = vf_fma(x, x, sum);
        j += VW;
    }
    for (; j < job->d_pad; j += VW)
        vf_store(out + j, vf_set1(0));
    return sum;
}

/* Slots [slot, slot + VW) of the block to rows [VW, d_pad], zeros for empty slots. |x'|^2 of each
 * goes to norm2. */
ALWAYS_INLINE void gather_panel_as(const struct job *job, struct worker *w, int slot, float *rows,
                                   hf_dtype dtype) {
    const struct block *b = &w->block;
    const int left = b->rows - slot;
    const int count = left < 0 ? 0 : left < VW ? left : VW;
    for (int i = 0; i < count; i++)
        vf_store(w->parts + i * VW, gather_row(job, job_row(job, block_row(b, slot + i)), dtype,
                                               rows + i * job->d_pad));
    if (count < VW) {
        const size_t empty = (size_t)(VW - count);
        memset(w->parts + count * VW, 0, sizeof(float) * VW * empty);
        memset(rows + count * job->d_pad, 0, sizeof(float) * (size_t)job->d_pad * empty);
    }
    vf_store(b->norm2 + slot, sum_parts(w));
}

static void gather_panel(const struct job *job, struct worker *w, int slot, float *rows) {
    switch (job->a->x.dtype) {
    case HF_F32:
        gather_panel_as(job, w, slot, rows, HF_F32);
        break;
    case HF_F64:
        gather_panel_as(job, w, slot, rows, HF_F64);
        break;
    case HF_F16:
        gather_panel_as(job, w, slot, rows, HF_F16);
        break;
    case HF_BF16:
        gather_panel_as(job, w, slot, rows, HF_BF16);
        break;
    default:
        gather_panel_as(job, w, slot, rows, HF_U8);
        break;
    }
}

#endif
