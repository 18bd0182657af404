/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define TO_F64_LANES 8 /* side by side */

const char *hf_dtype_name(hf_dtype dtype) {
    switch (dtype) {
    case HF_F32:
        return "f32";
    case HF_F64:
        return "f64";
    case HF_F16:
        return "f16";
    case HF_BF16:
        return "bf16";
    case HF_U8:
        return "u8";
    case HF_I32:
        return "i32";
    case HF_I8:
        return "i8";
    case HF_DTYPE_NONE:
        break;
    }
    return "none";
}

size_t hf_dtype_bytes(hf_dtype dtype) {
    switch (dtype) {
    case HF_F64:
        return 8;
    case HF_F32:
    case HF_I32:
        return 4;
    case HF_F16:
    case HF_BF16:
        return 2;
    case HF_U8:
    case HF_I8:
        return 1;
    case HF_DTYPE_NONE:
        break;
    }
    return 0;
}

static uint32_t bits_of(float f) {
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

float hf_f16_to_f32(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16;
    const uint32_t rest = h & 0x7fff;
    if (rest >= 0x7c00) /* Inf, NaN */
        return float_of(sign | 0x7f800000 | (rest & 0x3ff) << 13);
    if (rest >= 0x0400) /* the exponent's bias grows from 15 to 127 */
        return float_of(sign | ((rest << 13) + ((127 - 15) << 23)));
    return float_of(sign | bits_of((float)rest * 0x1p-24f));
}

uint16_t hf_f32_to_f16(float f) {
    const uint32_t bits = bits_of(f);
    const uint16_t sign = (uint16_t)(bits >> 16 & 0x8000);
    const uint32_t rest = bits & 0x7fffffff;
    if (rest > 0x7f800000) /* a NaN stays one, and quiet */
        return (uint16_t)(sign | 0x7e00 | (rest >> 13 & 0x3ff));
    if (rest >= 0x477ff000) /* from 65520 on, half way above the largest, all becomes Inf */
        return (uint16_t)(sign | 0x7c00);
    if (rest < 0x38800000) { /* subnormal: adding 2^-1 rounds to a multiple of 2^-24 */
        const float rounded = float_of(rest) + 0.5f;
        return (uint16_t)(sign | (bits_of(rounded) - bits_of(0.5f)));
    }
    const uint32_t odd = rest >> 13 & 1;
    return (uint16_t)(sign | ((rest - ((127 - 15) << 23) + 0xfff + odd) >> 13));
}

float hf_bf16_to_f32(uint16_t b) { return float_of((uint32_t)b << 16); }

uint16_t hf_f32_to_bf16(float f) {
    const uint32_t bits = bits_of(f);
    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

double hf_load_f64(const void *data, hf_dtype dtype, int64_t i) {
    switch (dtype) {
    case HF_F32:
        return (double)((const float *)data)[i];
    case HF_F64:
        return ((const double *)data)[i];
    case HF_F16:
        return (double)hf_f16_to_f32(((const uint16_t *)data)[i]);
    case HF_BF16:
        return (double)hf_bf16_to_f32(((const uint16_t *)data)[i]);
    case HF_U8:
        return (double)((const uint8_t *)data)[i];
    case HF_I32:
        return (double)((const int32_t *)data)[i];
    case HF_I8:
        return (double)((const int8_t *)data)[i];
    case HF_DTYPE_NONE:
        break;
    }
    return (double)NAN;
}

void hf_to_f64(double *dst, const void *src, hf_dtype dtype, int64_t count) {
    if (dtype == HF_F64) {
        memcpy(dst, src, (size_t)count * sizeof *dst);
        return;
    }
    if (dtype == HF_F32) { /* the common case, for the compiler to vectorise */
        const float *const f = src;
        int64_t i = 0;
        for (; i + TO_F64_LANES <= count; i += TO_F64_LANES)
            for (int l = 0; l < TO_F64_LANES; l++)
                dst[i + l] = (double)f[i + l];
        for (; i < count; i++)
            dst[i] = (double)f[i];
        return;
    }
    for (int64_t i = 0; i < count; i++)
        dst[i] = hf_load_f64(src, dtype, i);
}

/* v as float32 with the last bit set when inexact ("round to odd"): rounding that again to 16 bits
 * gives the same as rounding v at once (Boldo and Melquiond 2008). */
static float to_odd_f32(double v) {
    const float f = (float)v;
    if ((double)f == v || isnan(v))
        return f;
    uint32_t bits = bits_of(f);
    if (fabs((double)f) > fabs(v))
        bits--;
    return float_of(bits | 1);
}

int64_t hf_first_not_finite(const void *data, hf_dtype dtype, int64_t count) {
    const float *single = data;
    const double *wide = data;
    for (int64_t begin = 0; begin < count; begin += 64) {
        const int64_t end = count - begin < 64 ? count : begin + 64;
        int beyond = dtype != HF_F32 && dtype != HF_F64;
        for (int64_t i = begin; dtype == HF_F32 && i < end; i++) /* no way out: it takes vectors */
            beyond |= !(fabsf(single[i]) <= FLT_MAX);
        for (int64_t i = begin; dtype == HF_F64 && i < end; i++)
            beyond |= !(fabs(wide[i]) <= DBL_MAX);
        for (int64_t i = begin; beyond && i < end; i++)
            if (!isfinite(hf_load_f64(data, dtype, i)))
                return i;
    }
    return count;
}

double hf_round_to(double v, hf_dtype dtype) {
    switch (dtype) {
    case HF_F32:
        return (double)(float)v;
    case HF_F16:
        return (double)hf_f16_to_f32(hf_f32_to_f16(to_odd_f32(v)));
    case HF_BF16:
        return (double)hf_bf16_to_f32(hf_f32_to_bf16(to_odd_f32(v)));
    default:
        return v;
    }
}

void hf_store_f64(void *data, hf_dtype dtype, int64_t i, double v) {
    switch (dtype) {
    case HF_F32:
        ((float *)data)[i] = (float)v;
        break;
    case HF_F64:
        ((double *)data)[i] = v;
        break;
    case HF_F16:
        ((uint16_t *)data)[i] = hf_f32_to_f16((float)v);
        break;
    case HF_BF16:
        ((uint16_t *)data)[i] = hf_f32_to_bf16((float)v);
        break;
    case HF_U8:
        ((uint8_t *)data)[i] = (uint8_t)v;
        break;
    case HF_I32:
        ((int32_t *)data)[i] = (int32_t)v;
        break;
    case HF_I8:
        ((int8_t *)data)[i] = (int8_t)v;
        break;
    default:
        break;
    }
}
