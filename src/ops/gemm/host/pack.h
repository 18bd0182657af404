/* SPDX-License-Identifier: Apache-2.0
 * Panels: the lines (rows of op(A), columns of op(B)) of one tile, unit by unit side by side, in
 * the type computed in, zeros where there is no line. */
#ifndef HF_GEMM_PACK_H
#define HF_GEMM_PACK_H

#include "ops/gemm/host/job.h"

/* The lines of a panel: element p of line i is element i * line + p * step of src. */
struct strip {
    const char *src;
    hf_dtype dtype;
    int64_t line, step;
    int lines;     /* at most `width` */
    int64_t depth; /* products */
};

ALWAYS_INLINE float load_f32(const char *src, hf_dtype dtype, int64_t i) {
    float f = 0;
    if (dtype == HF_F32) {
        memcpy(&f, src + i * 4, sizeof f);
    } else {
        uint16_t h = 0;
        memcpy(&h, src + i * 2, sizeof h);
        if (dtype == HF_F16)
            return _cvtsh_ss(h);
        const uint32_t bits = (uint32_t)h << 16;
        memcpy(&f, &bits, sizeof f);
    }
    return f;
}

/* Two neighbours of a sum, as int16: unit q of a line. */
ALWAYS_INLINE int32_t load_pair(const struct strip *s, int i, int64_t q) {
    const int8_t *const at = (const int8_t *)s->src + i * s->line + 2 * q * s->step;
    const uint16_t first = (uint16_t)(int16_t)at[0];
    const uint16_t second = 2 * q + 1 < s->depth ? (uint16_t)(int16_t)at[s->step] : 0;
    return (int32_t)(first | (uint32_t)second << 16);
}

ALWAYS_INLINE uint32_t load_unit(const struct strip *s, hf_dtype dtype, int i, int64_t q) {
    uint32_t unit = 0;
    if (dtype == HF_I8)
        return (uint32_t)load_pair(s, i, q);
    const float f = load_f32(s->src, dtype, i * s->line + q * s->step);
    memcpy(&unit, &f, sizeof unit);
    return unit;
}

/* VW neighbouring units of a line whose products are neighbours too. */
ALWAYS_INLINE vf load_units(const char *src, hf_dtype dtype, int64_t q) {
    switch (dtype) {
    case HF_I8:
        return vf_from_i8_pairs((const int8_t *)src + 2 * q);
    case HF_F16:
        return vf_from_f16((const uint16_t *)src + q);
    case HF_BF16:
        return vf_from_bf16((const uint16_t *)src + q);
    default:
        return vf_load((const float *)src + q);
    }
}

/* Any strides, any depth: units [q, end). */
ALWAYS_INLINE void pack_each(const struct strip *s, hf_dtype dtype, int width, uint32_t *dst,
                             const int64_t range[2]) {
    for (int64_t q = range[0]; q < range[1]; q++) {
        for (int i = 0; i < s->lines; i++)
            dst[q * width + i] = load_unit(s, dtype, i, q);
        for (int i = s->lines; i < width; i++)
            dst[q * width + i] = 0;
    }
}

/* Units [q, q + VW) of lines [g, g + VW), as far as the panel has them. */
ALWAYS_INLINE void turn_32(const struct strip *s, hf_dtype dtype, int g, int64_t q, int width,
                           uint32_t *dst) {
    const int count = width - g < VW ? width - g : VW;
    const int64_t bytes = dtype == HF_I8 ? 1 : dtype == HF_F32 ? 4 : 2;
    float turned[VW * VW];
    vf r[VW];
    UNROLL(16)
    for (int i = 0; i < VW; i++)
        r[i] = g + i < s->lines ? load_units(s->src + (g + i) * s->line * bytes, dtype, q)
                                : vf_set1(0);
    vf_transpose(r);
    UNROLL(16)
    for (int i = 0; i < VW; i++)
        vf_store(turned + i * VW, r[i]);
    for (int i = 0; i < VW; i++)
        memcpy(dst + (q + i) * width + g, turned + i * VW, (size_t)count * sizeof *dst);
}

/* Lines whose products are neighbours are turned, VW units of VW lines at a time. */
ALWAYS_INLINE void pack_turned(const struct strip *s, hf_dtype dtype, int width, uint32_t *dst) {
    const int64_t units = dtype == HF_I8 ? s->depth / 2 : s->depth;
    const int64_t all = dtype == HF_I8 ? (s->depth + 1) / 2 : s->depth;
    const int64_t whole = units / VW * VW;
    for (int64_t q = 0; q < whole; q += VW) {
        turn_32(s, dtype, 0, q, width, dst);
        if (width > VW)
            turn_32(s, dtype, VW, q, width, dst);
    }
    pack_each(s, dtype, width, dst, (const int64_t[2]){whole, all});
}

/* Lines that are neighbours are copied, a unit of all of them at a time. */
ALWAYS_INLINE void pack_copied(const struct strip *s, hf_dtype dtype, int width, uint32_t *dst) {
    for (int64_t p = 0; p < s->depth; p++) {
        float out[2 * VW];
        const char *const at = s->src + p * s->step * (dtype == HF_F32 ? 4 : 2);
        if (dtype == HF_F32) {
            memcpy(out, at, (size_t)width * 4);
        } else {
            uint16_t half[2 * VW] = {0};
            memcpy(half, at, (size_t)width * 2);
            for (int g = 0; g < width; g += VW)
                vf_store(out + g, load_units((const char *)half, dtype, g));
        }
        memcpy(dst + p * width, out, (size_t)width * sizeof *dst);
    }
}

/* The same of pairs of bytes. */
ALWAYS_INLINE void pack_pairs(const struct strip *s, int width, uint32_t *dst) {
    for (int64_t q = 0; q < s->depth / 2; q++) {
        const uint8_t *const at = (const uint8_t *)s->src + 2 * q * s->step;
        const uint8_t *const next = at + s->step;
        for (int i = 0; i < width; i++)
            dst[q * width + i] = (uint32_t)(int32_t)(int8_t)at[i] & 0xffff;
        for (int i = 0; i < width; i++)
            dst[q * width + i] |= (uint32_t)(int32_t)(int8_t)next[i] << 16;
    }
    pack_each(s, HF_I8, width, dst, (const int64_t[2]){s->depth / 2, (s->depth + 1) / 2});
}

ALWAYS_INLINE void pack_as(const struct strip *s, hf_dtype dtype, int width, uint32_t *dst) {
    const int64_t units = dtype == HF_I8 ? (s->depth + 1) / 2 : s->depth;
    if (s->step == 1)
        pack_turned(s, dtype, width, dst);
    else if (s->lines < width || s->line != 1)
        pack_each(s, dtype, width, dst, (const int64_t[2]){0, units});
    else if (dtype == HF_I8)
        pack_pairs(s, width, dst);
    else
        pack_copied(s, dtype, width, dst);
}

ALWAYS_INLINE void pack_32(const struct strip *s, int width, void *dst) {
    switch (s->dtype) {
    case HF_I8:
        pack_as(s, HF_I8, width, dst);
        break;
    case HF_F16:
        pack_as(s, HF_F16, width, dst);
        break;
    case HF_BF16:
        pack_as(s, HF_BF16, width, dst);
        break;
    default:
        pack_as(s, HF_F32, width, dst);
    }
}

/* turn_32() of float64. */
ALWAYS_INLINE void turn_64(const struct strip *s, int g, int64_t q, int width, double *dst) {
    const int count = width - g < VDW ? width - g : VDW;
    const double *const src = (const double *)(const void *)s->src + q;
    double turned[VDW * VDW];
    vd r[VDW];
    UNROLL(8)
    for (int i = 0; i < VDW; i++)
        r[i] = g + i < s->lines ? vd_load(src + (g + i) * s->line) : vd_set1(0);
    vd_transpose(r);
    UNROLL(8)
    for (int i = 0; i < VDW; i++)
        vd_store(turned + i * VDW, r[i]);
    for (int i = 0; i < VDW; i++)
        memcpy(dst + (q + i) * width + g, turned + i * VDW, (size_t)count * sizeof *dst);
}

ALWAYS_INLINE void pack_64(const struct strip *s, int width, double *dst) {
    const double *const src = (const double *)(const void *)s->src;
    const int64_t whole = s->step == 1 ? s->depth / VDW * VDW : 0;
    for (int64_t q = 0; q < whole; q += VDW) {
        turn_64(s, 0, q, width, dst);
        if (width > VDW)
            turn_64(s, VDW, q, width, dst);
    }
    for (int64_t q = whole; q < s->depth; q++) {
        if (s->line == 1 && s->lines == width) {
            memcpy(dst + q * width, src + q * s->step, (size_t)width * sizeof *dst);
            continue;
        }
        for (int i = 0; i < width; i++)
            dst[q * width + i] = i < s->lines ? src[i * s->line + q * s->step] : 0;
    }
}

/* The panel of tile `tile` of the group: of rows of op(A), or of columns of op(B). Every word that
 * is multiplied passes here once each time it is staged. */
static void pack_panel(const struct gemm_job *job, bool of_a, int64_t tile, char *to) {
    const int width = of_a ? TILE_M : job->tile_n;
    const struct hf_gemm_view *v = of_a ? &job->a : &job->b;
    const int64_t line = (of_a ? job->row : job->col) + tile * width;
    const int64_t end = of_a ? job->row + job->rows : job->col + job->cols;
    struct strip s = {.dtype = v->dtype, .depth = job->depth};
    s.line = of_a ? v->row : v->col;
    s.step = of_a ? v->col : v->row;
    s.lines = (int)hf_min64(width, end - line);
    s.src = (const char *)v->data +
            (line * s.line + job->first * s.step) * (int64_t)hf_dtype_bytes(v->dtype);
    if (job->in == HF_F64)
        of_a ? pack_64(&s, TILE_M, (double *)(void *)to)
             : pack_64(&s, TILE_N64, (double *)(void *)to);
    else
        of_a ? pack_32(&s, TILE_M, to) : pack_32(&s, TILE_N32, to);
}

#define PACK_RUN 1

/* Those of `count` tiles, one after the other. */
static void pack_panels(const struct gemm_job *job, bool of_a, int64_t tile, int64_t count,
                        char *to) {
    const int64_t bytes = panel_bytes(job, of_a ? TILE_M : job->tile_n);
    for (int64_t t = 0; t < count; t++)
        pack_panel(job, of_a, tile + t, to + t * bytes);
}

#endif
