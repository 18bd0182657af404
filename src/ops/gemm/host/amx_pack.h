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

/* So many steps of a line, or panels of neighbouring lines, are packed before the next: memory
 * gives neighbours at once. */
#define PACK_RUN 4

/* Steps from unit q on, line by line: products of a line are neighbours, and all there. */
ALWAYS_INLINE void steps_by_line(const struct strip *s, int64_t q, int steps, uint32_t *dst) {
    const int64_t line = s->line * (s->i8 ? 1 : 2);
    for (int i = 0; i < s->lines; i++)
        for (int t = 0; t < steps; t++)
            memcpy(dst + t * STEP_UNITS + i * TILE_STEP,
                   s->src + i * line + (q + t * TILE_STEP) * 4, 64);
    for (int t = 0; t < steps; t++)
        memset(dst + t * STEP_UNITS + s->lines * TILE_STEP, 0,
               (size_t)(LINES - s->lines) * TILE_STEP * sizeof *dst);
}

/* [0, 32, 1, 33, ... 15, 47]: which of two lots of 32 numbers come first, one of each in turn. */
static const uint16_t in_turn[LINES]
    __attribute__((aligned(64))) = {0, 32, 1, 33, 2,  34, 3,  35, 4,  36, 5,  37, 6,  38, 7,  39,
                                    8, 40, 9, 41, 10, 42, 11, 43, 12, 44, 13, 45, 14, 46, 15, 47};

/* A unit of 32 neighbouring lines. */
ALWAYS_INLINE void unit_of_lines(const struct strip *s, const char *at, uint32_t *dst) {
    if (s->i8) {
        const uint8_t *const x = (const uint8_t *)at;
        for (int i = 0; i < LINES; i++)
            dst[i] = x[i] | (uint32_t)x[i + s->step] << 8 | (uint32_t)x[i + 2 * s->step] << 16 |
                     (uint32_t)x[i + 3 * s->step] << 24;
        return;
    }
    const __m512i low = _mm512_loadu_si512(at), high = _mm512_loadu_si512(at + 2 * s->step);
    const __m512i first = _mm512_load_si512(in_turn);
    const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(LINES / 2));
    _mm512_storeu_si512(dst, _mm512_permutex2var_epi16(low, first, high));
    _mm512_storeu_si512(dst + LINES / 2, _mm512_permutex2var_epi16(low, second, high));
}

/* A step unit by unit, of so many panels that lie `next` units apart: lines are neighbours, and all
 * there. */
ALWAYS_INLINE void steps_by_unit(const struct strip *s, int64_t q, int panels, int64_t next,
                                 uint32_t *dst) {
    const int64_t bytes = LINES * (s->i8 ? 1 : 2);
    for (int u = 0; u < TILE_STEP; u++)
        for (int p = 0; p < panels; p++)
            unit_of_lines(s, s->src + 4 * (q + u) * s->step + p * bytes,
                          dst + p * next + u * LINES);
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

/* Steps from unit q on, at most PACK_RUN, as A or as B wants them. */
static void pack_steps(const struct strip *s, bool of_a, int64_t q, int steps, uint32_t *dst) {
    const int64_t end = (q + steps * TILE_STEP) * (s->i8 ? 4 : 2);
    _Alignas(64) uint32_t other[PACK_RUN * STEP_UNITS];
    if (s->step == 1 && end <= s->depth) {
        steps_by_line(s, q, steps, of_a ? dst : other);
        for (int t = 0; !of_a && t < steps; t++)
            turn(other + t * STEP_UNITS, LINES, TILE_STEP, dst + t * STEP_UNITS);
        return;
    }
    for (int t = 0; t < steps; t++, q += TILE_STEP, dst += STEP_UNITS) {
        if (s->line == 1 && s->lines == LINES && (q + TILE_STEP) * (s->i8 ? 4 : 2) <= s->depth) {
            steps_by_unit(s, q, 1, 0, of_a ? other : dst);
            if (of_a)
                turn(other, TILE_STEP, LINES, dst);
            continue;
        }
        for (int i = 0; i < LINES; i++)
            for (int u = 0; u < TILE_STEP; u++)
                dst[of_a ? i * TILE_STEP + u : u * LINES + i] =
                    i < s->lines ? load_unit(s, i, q + u) : 0;
    }
}

static struct strip strip_of(const struct gemm_job *job, bool of_a, int64_t tile) {
    const struct hf_gemm_view *v = of_a ? &job->a : &job->b;
    const int64_t line = (of_a ? job->row : job->col) + tile * LINES;
    const int64_t end = of_a ? job->row + job->rows : job->col + job->cols;
    struct strip s = {.depth = job->depth, .i8 = v->dtype == HF_I8};
    s.line = of_a ? v->row : v->col;
    s.step = of_a ? v->col : v->row;
    s.lines = (int)hf_min64(LINES, end - line);
    s.src = (const char *)v->data + (line * s.line + job->first * s.step) * (s.i8 ? 1 : 2);
    return s;
}

/* The panels of `count` tiles of the group from `tile` on to `to`: of rows of op(A), or of columns
 * of op(B). Every word that is multiplied passes here once each time it is staged. */
static void pack_panels(const struct gemm_job *job, bool of_a, int64_t tile, int64_t count,
                        char *to) {
    const int64_t units = units_of(job, job->depth), bytes = panel_bytes(job, LINES);
    const struct strip s = strip_of(job, of_a, tile), last = strip_of(job, of_a, tile + count - 1);
    const int64_t whole = job->depth / ((s.i8 ? 4 : 2) * TILE_STEP) * TILE_STEP;
    const bool together =
        !of_a && s.line == 1 && s.step != 1 && last.lines == LINES && count == PACK_RUN;
    uint32_t *const first = (uint32_t *)(void *)to;
    for (int64_t q = 0; together && q < whole; q += TILE_STEP)
        steps_by_unit(&s, q, PACK_RUN, bytes / 4, first + q * LINES);
    for (int64_t t = tile; t < tile + count; t++) {
        const struct strip one = strip_of(job, of_a, t);
        uint32_t *const dst = (uint32_t *)(void *)(to + (t - tile) * bytes);
        for (int64_t q = together ? whole : 0, steps; q < units; q += steps * TILE_STEP) {
            steps = q < whole ? hf_min64(PACK_RUN, (whole - q) / TILE_STEP) : 1;
            pack_steps(&one, of_a, q, (int)steps, dst + q * LINES);
        }
    }
}

#endif
