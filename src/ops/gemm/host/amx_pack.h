/* SPDX-License-Identifier: Apache-2.0
 * Panels for AMX. A step is 16 units (of two bfloat16 or four int8) of 32 lines: of op(A) line by
 * line, of op(B) unit by unit; zeros where there is nothing. */
#ifndef HF_GEMM_AMX_PACK_H
#define HF_GEMM_AMX_PACK_H

#include "ops/gemm/host/job.h"

#define LINES 32
#define STEP_UNITS (TILE_STEP * LINES)

/* The lines of a panel: element p of line i is element i * line + p * step of src. */
struct strip {
    const char *src;
    int64_t line, step;
    int lines;     /* at most LINES */
    int64_t depth; /* products */
    bool i8;
};

/* Unit q of line i, of which some products may not be there. */
ALWAYS_INLINE uint32_t load_unit(const struct strip *s, int64_t i, int64_t q) {
    const int each = s->i8 ? 4 : 2, bits = 32 / each;
    uint32_t unit = 0;
    for (int e = 0; e < each && q * each + e < s->depth; e++) {
        const int64_t at = i * s->line + (q * each + e) * s->step;
        uint16_t half = 0;
        if (s->i8)
            half = (uint8_t)s->src[at];
        else
            memcpy(&half, s->src + at * 2, sizeof half);
        unit |= (uint32_t)half << bits * e;
    }
    return unit;
}

/* A step from unit q on, line by line: products of a line are neighbours, and all there. */
ALWAYS_INLINE void step_by_line(const struct strip *s, int64_t q, uint32_t *dst) {
    const int64_t line = s->line * (s->i8 ? 1 : 2);
    for (int i = 0; i < s->lines; i++)
        memcpy(dst + i * TILE_STEP, s->src + i * line + q * 4, 64);
    memset(dst + s->lines * TILE_STEP, 0, (size_t)(LINES - s->lines) * 64);
}

/* A step unit by unit: lines are neighbours, and all there. */
ALWAYS_INLINE void step_by_unit(const struct strip *s, int64_t q, uint32_t *dst) {
    for (int u = 0; u < TILE_STEP; u++) {
        if (s->i8) {
            const uint8_t *const at = (const uint8_t *)s->src + 4 * (q + u) * s->step;
            for (int i = 0; i < LINES; i++)
                dst[u * LINES + i] = at[i] | (uint32_t)at[i + s->step] << 8 |
                                     (uint32_t)at[i + 2 * s->step] << 16 |
                                     (uint32_t)at[i + 3 * s->step] << 24;
            continue;
        }
        uint16_t low[LINES], high[LINES];
        memcpy(low, s->src + 4 * (q + u) * s->step, sizeof low);
        memcpy(high, s->src + (4 * (q + u) + 2) * s->step, sizeof high);
        for (int i = 0; i < LINES; i++)
            dst[u * LINES + i] = low[i] | (uint32_t)high[i] << 16;
    }
}

/* [rows][cols] becomes [cols][rows]; both are multiples of 16. */
ALWAYS_INLINE void turn(const uint32_t *src, int rows, int cols, uint32_t *dst) {
    for (int i = 0; i < rows; i += VW)
        for (int j = 0; j < cols; j += VW) {
            vf r[VW];
            UNROLL(16)
            for (int t = 0; t < VW; t++)
                r[t] = vf_load((const float *)(const void *)(src + (i + t) * cols + j));
            vf_transpose(r);
            UNROLL(16)
            for (int t = 0; t < VW; t++)
                vf_store((float *)(void *)(dst + (j + t) * rows + i), r[t]);
        }
}

/* A step from unit q on, as A or as B wants it. */
static void pack_step(const struct strip *s, bool of_a, int64_t q, uint32_t *dst) {
    const int64_t end = (q + TILE_STEP) * (s->i8 ? 4 : 2);
    _Alignas(64) uint32_t other[STEP_UNITS];
    if (s->step == 1 && end <= s->depth) {
        step_by_line(s, q, of_a ? dst : other);
        if (!of_a)
            turn(other, LINES, TILE_STEP, dst);
    } else if (s->line == 1 && s->lines == LINES && end <= s->depth) {
        step_by_unit(s, q, of_a ? other : dst);
        if (of_a)
            turn(other, TILE_STEP, LINES, dst);
    } else {
        for (int i = 0; i < LINES; i++)
            for (int u = 0; u < TILE_STEP; u++)
                dst[of_a ? i * TILE_STEP + u : u * LINES + i] =
                    i < s->lines ? load_unit(s, i, q + u) : 0;
    }
}

/* The panel of tile `tile` of the group: of rows of op(A), or of columns of op(B). Every word that
 * is multiplied passes here once each time it is staged. */
static void pack_panel(const struct gemm_job *job, bool of_a, int64_t tile) {
    const struct hf_gemm_view *v = of_a ? &job->a : &job->b;
    const int64_t line = (of_a ? job->row : job->col) + tile * LINES;
    const int64_t end = of_a ? job->row + job->rows : job->col + job->cols;
    struct strip s = {.depth = job->depth, .i8 = v->dtype == HF_I8};
    s.line = of_a ? v->row : v->col;
    s.step = of_a ? v->col : v->row;
    s.lines = (int)hf_min64(LINES, end - line);
    s.src = (const char *)v->data + (line * s.line + job->first * s.step) * (s.i8 ? 1 : 2);
    char *const dst = (of_a ? job->pack_a : job->pack_b) + tile * panel_bytes(job, LINES);
    for (int64_t q = 0; q < units_of(job, job->depth); q += TILE_STEP)
        pack_step(&s, of_a, q, (uint32_t *)(void *)dst + q * LINES);
}

#endif
