/* SPDX-License-Identifier: Apache-2.0
 * From rows of any type to x' = fl((x - shift) * scale) in float32, gathered by number. */
#ifndef HF_ASSIGN_GATHER_H
#define HF_ASSIGN_GATHER_H

#include "ops/assign/assign_job.h"
#include <string.h>

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
    vf x;
    if (dtype == HF_F32)
        x = vf_load(p);
    else if (dtype == HF_F16)
        x = vf_from_f16(p);
    else if (dtype == HF_BF16)
        x = vf_from_bf16(p);
    else
        x = vf_from_u8(p);
    return vf_mul(vf_sub(x, vf_load(shift)), scale);
}

/* One row to out [d_pad], zeros behind d; returns |x'|^2. dtype is a constant where this is inlined. */
ALWAYS_INLINE float gather_row_as(const struct job *job, const char *row, hf_dtype dtype, float *out) {
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
    }
    return vf_sum(sum);
}

static float gather_row(const struct job *job, int64_t i, float *out) {
    const hf_array *x = &job->a->x;
    const char *row = hf_array_row(x, i);
    switch (x->dtype) {
    case HF_F32:
        return gather_row_as(job, row, HF_F32, out);
    case HF_F64:
        return gather_row_as(job, row, HF_F64, out);
    case HF_F16:
        return gather_row_as(job, row, HF_F16, out);
    case HF_BF16:
        return gather_row_as(job, row, HF_BF16, out);
    default:
        return gather_row_as(job, row, HF_U8, out);
    }
}

#endif
