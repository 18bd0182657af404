/* SPDX-License-Identifier: Apache-2.0
 * Tiles of signed bytes on AMX for rows of whole numbers. A row x', less how far the middle of each
 * column's range is from the filter's origin, lies within -128..127 and is stored as it is; c' is
 * rounded to whole multiples q of one step for all centroids, of one byte or of two: 256 qh + ql.
 * A tile has 64 features, twice those of bf16, at the same rate:
 *   packed rows       [panel of 16][step][16][16 rows][4]       int8
 *   packed centroids  [group][half][step][16 centroids][16][4]  int8, two: steps of qh, then of ql
 * with feature 16 t + l of a step in place 4 l + t. A score is x'.q - step |q|^2 / 2, the latter
 * rounded to a whole number, and counts in steps. int32 sums are exact in the end. They begin at
 * I8_ZERO, so that as bits of float32 they are positive, normal, and in the order of the scores: in
 * these bits the code for float32 finds keys, best and second best (assign_look_amx.h). What is
 * measured for each centroid, how far step q is from c', and the key's end is all that judge() has
 * to know. */
#ifndef HF_ASSIGN_TILE_I8_H
#define HF_ASSIGN_TILE_I8_H

#include "ops/assign/assign_job.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

#define TILE_I8_NAME "i8_32x32"
#define TILE_I8X2_NAME "i8x2_32x32"
#define I8_STEP 64        /* features of a tile */
#define I8_FEATURES 4096  /* with no more the scores of one byte fit */
#define I8X2_STEPS 4      /* of two bytes: two groups of more would not stay in the L1 cache */
#define I8_MOST 127       /* the largest number in a centroid, one byte */
#define I8X2_MOST 32639   /* 256 * 127 + 127 */
#define I8_REACH 508.0    /* components of centroids further away are stored nearer */
#define I8_KEY 32         /* a start is off by half a step, a key by 31 */
#define I8_ZERO (1 << 30) /* where scores begin */
#define I8_SPAN ((1 << 30) - (1 << 24)) /* scores are nearer to it than that */
#define I8_LOST (I8_ZERO - I8_SPAN)     /* score of a centroid that is never picked */

/* A key becomes float32 in two roundings, and six are for judge(); each is of up to four times what
 * it reckons with, as step q may be twice as long as c'. */
#define I8_ROUNDINGS 32.0

/* What one in a stored centroid stands for, the largest component of any being `most`. Of two bytes
 * as many of them as scores have room for, where |x'_j| add up to `reach` at most. */
static void i8_choose_step(struct job *job, double most, double reach) {
    const double room = 0.98 * I8_SPAN / (reach + (double)job->d * most / 2 + 1);
    job->i8_most = job->i8 == 1 ? I8_MOST : (int)fmax(I8_MOST, fmin(room, I8X2_MOST));
    job->i8_step = most > 0 ? (float)fmax(most / job->i8_most, 0x1p-60) : 1;
}

ALWAYS_INLINE vi i8_low_byte(vi v) { return _mm512_and_si512(v, vi_set1(255)); }

/* Four vectors of whole numbers, side by side in each lane. */
ALWAYS_INLINE vi i8_join(const vi v[4]) {
    vi bytes = i8_low_byte(v[0]);
    bytes = _mm512_or_si512(bytes, _mm512_slli_epi32(i8_low_byte(v[1]), 8));
    bytes = _mm512_or_si512(bytes, _mm512_slli_epi32(i8_low_byte(v[2]), 16));
    return _mm512_or_si512(bytes, _mm512_slli_epi32(v[3], 24));
}

/* 64 features of a centroid in a tile; two: those of its second byte lie `low` bytes further on. */
ALWAYS_INLINE void i8_store(const vi q[4], char *tile, size_t low) {
    vi high[4];
    if (low == 0) {
        _mm512_storeu_si512(tile, i8_join(q));
        return;
    }
    UNROLL(4)
    for (int t = 0; t < 4; t++)
        high[t] = _mm512_srai_epi32(_mm512_add_epi32(q[t], vi_set1(128)), 8);
    _mm512_storeu_si512(tile, i8_join(high));
    _mm512_storeu_si512(tile + low, i8_join(q));
}

/* Centroid `slot` of a pack: c' [d_pad]. What a row's bytes differ from x' by is taken from its
 * start; sums of that wrap around, as those of the tiles do. */
static void i8_pack_centroid(const struct job *job, struct pack *p, int64_t slot, const float *c,
                             float start) {
    const int64_t steps = job->d_pad / I8_STEP;
    char *tile =
        (char *)p->tiles + (size_t)(slot / 16 * steps * job->i8) * 1024 + (size_t)(slot % 16) * 64;
    const size_t low = job->i8 == 2 ? (size_t)steps * 1024 : 0;
    const vf step = vf_set1(job->i8_step);
    const vf up = vf_set1(1 / job->i8_step);
    const vf most = vf_set1((float)job->i8_most);
    vf lost = vf_set1(0);
    vi beside = vi_set1(0);
    vd square = vd_set1(0);
    for (int64_t s = 0; s < steps; s++) {
        vi q[4];
        UNROLL(4)
        for (int t = 0; t < 4; t++) {
            const int64_t j = s * I8_STEP + t * VW;
            const vf v = vf_load(c + j);
            const vf at = vf_max(vf_min(vf_mul(v, up), most), vf_sub(vf_set1(0), most));
            q[t] = _mm512_cvtps_epi32(at);
            const vf whole = _mm512_cvtepi32_ps(q[t]);
            const vf off = vf_fnma(whole, step, v);
            const vi by = _mm512_cvtps_epi32(vf_load(job->i8_off + j));
            lost = vf_fma(off, off, lost);
            beside = _mm512_add_epi32(beside, _mm512_mullo_epi32(q[t], by));
            square = vd_add_squares(square, whole);
        }
        i8_store(q, tile + s * 1024, low);
    }
    const int64_t half = (int64_t)rint((double)job->i8_step / 2 * vd_sum(square));
    const int64_t score = I8_ZERO - half - _mm512_reduce_add_epi32(beside);
    const int32_t begin = start > LOST ? (int32_t)(uint32_t)score : I8_LOST;
    p->lost[slot] = sqrtf(vf_sum(lost)) * (1 + 0x1p-14f) + sqrtf((float)job->d) * 0x1p-62f;
    vf_store(p->start + slot * VW, _mm512_castsi512_ps(vi_set1(begin)));
}

/* 16 rows starting at slot `first`, x' as [16][d_pad] in rows. Behind d both are zeros. */
static void i8_pack_panel(const struct job *job, struct worker *w, int first, const float *rows) {
    const int64_t steps = job->d_pad / I8_STEP;
    char *dst = (char *)w->block.x + (size_t)(first / 16 * steps) * 1024;
    for (int64_t s = 0; s < steps; s++) {
        vf r[16];
        UNROLL(16)
        for (int i = 0; i < 16; i++) {
            vi x[4];
            UNROLL(4)
            for (int t = 0; t < 4; t++) {
                const int64_t j = s * I8_STEP + t * VW;
                x[t] = _mm512_cvtps_epi32(
                    vf_add(vf_load(rows + i * job->d_pad + j), vf_load(job->i8_off + j)));
            }
            r[i] = _mm512_castsi512_ps(i8_join(x));
        }
        vf_transpose(r);
        UNROLL(16)
        for (int i = 0; i < 16; i++)
            vf_store((float *)(void *)(dst + s * 1024) + i * 16, r[i]);
    }
}

/* Keys to scores. */
ALWAYS_INLINE void i8_score(const struct job *job, float *key) {
    const vi bits = vi_load((const int32_t *)(const void *)key);
    const vf score =
        vf_mul(_mm512_cvtepi32_ps(_mm512_sub_epi32(bits, vi_set1(I8_ZERO))), vf_set1(job->i8_step));
    const vf lost = _mm512_castsi512_ps(vi_set1(I8_LOST + 32));
    vf_store(key, vf_select(vf_lt(vf_load(key), lost), vf_set1(LOST), score));
}

/* After the tiles: best and next are scores again. */
static void i8_scores(const struct job *job, struct block *b) {
    for (int slot = 0; slot < b->rows; slot += VW) {
        i8_score(job, b->best + slot);
        i8_score(job, b->next + slot);
    }
}

/* Before the tiles collect: thresholds as bits that no score above them is below. Three roundings
 * of 2^-24 and one of 1 are paid for. */
static void i8_thresholds(const struct job *job, struct block *b) {
    const vf up = vf_set1(1 / job->i8_step);
    const vf span = vf_set1(I8_SPAN);
    for (int slot = 0; slot < b->rows; slot += VW) {
        vf v = vf_mul(vf_load(b->best + slot), up);
        const vm high = vf_lt(span, v);
        v = vf_max(vf_min(v, span), vf_sub(vf_set1(0), span));
        v = vf_sub(v, vf_set1(256));
        const vi bits = _mm512_add_epi32(_mm512_cvtps_epi32(v), vi_set1(I8_ZERO));
        vf_store(b->best + slot, vf_select(high, vf_set1(INFINITY), _mm512_castsi512_ps(bits)));
    }
}

#endif
