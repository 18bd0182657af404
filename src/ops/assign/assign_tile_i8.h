/* SPDX-License-Identifier: Apache-2.0
 * Tiles of signed bytes on AMX for rows of whole numbers. x', which is x less the middle of its
 * column's range, lies within -128..127 and is stored as it is; c' is rounded to whole multiples q
 * of one step for all centroids. A tile has 64 features, twice those of bf16, at the same rate:
 *   packed rows       [panel of 16][step][16][16 rows][4]       int8
 *   packed centroids  [group][half][step][16 centroids][16][4]  int8
 * with feature 16 t + l of a step in place 4 l + t. A score is x'.q - step |q|^2 / 2, the latter
 * rounded to a whole number, and counts in steps. int32 sums are exact. They begin at I8_ZERO, so
 * that as bits of float32 they are positive, normal, and in the order of the scores: in these bits
 * the code for float32 finds keys, best and second best (assign_sweep_amx.h). What is measured for
 * each centroid, how far step q is from c', is all that judge() has to know beside i8_eta(). */
#ifndef HF_ASSIGN_TILE_I8_H
#define HF_ASSIGN_TILE_I8_H

#include "ops/assign/assign_job.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

#define TILE_I8_NAME "i8_32x32"
#define I8_STEP 64                  /* features of a tile */
#define I8_FEATURES 4096            /* with no more scores stay within 2^28 of 0 */
#define I8_STEP_MOST 4.0            /* likewise; centroids further away are stored nearer */
#define I8_ZERO (1 << 29)           /* where scores begin */
#define I8_LOST (I8_ZERO - I8_SPAN) /* score of a centroid that is never picked */
#define I8_SPAN (1 << 28)

/* What one in a stored centroid stands for, the largest component of any being `most`. */
static float i8_step_of(double most) {
    return most > 0 ? (float)fmin(fmax(most / 127, 0x1p-60), I8_STEP_MOST) : 1;
}

/* Absolute error of a score: the start is off by half a step, a key by 31, the conversion to
 * float32 by two roundings. Six more are for judge(), to which step q, up to twice as long as c',
 * is not known. */
static float i8_eta(const struct job *job) {
    const double step = (double)job->i8_step;
    const double most = (double)job->d * (128 * 127 + step * 127 * 127 / 2);
    return (float)(step * (32 + 0x1p-21 * most));
}

ALWAYS_INLINE vi i8_low_byte(vi v) { return _mm512_and_si512(v, vi_set1(255)); }

/* Four vectors of whole numbers, side by side in each lane. */
ALWAYS_INLINE vi i8_join(const vi v[4]) {
    vi bytes = i8_low_byte(v[0]);
    bytes = _mm512_or_si512(bytes, _mm512_slli_epi32(i8_low_byte(v[1]), 8));
    bytes = _mm512_or_si512(bytes, _mm512_slli_epi32(i8_low_byte(v[2]), 16));
    return _mm512_or_si512(bytes, _mm512_slli_epi32(v[3], 24));
}

ALWAYS_INLINE double i8_lanes(vf v) {
    float lane[VW];
    double sum = 0;
    vf_store(lane, v);
    for (int i = 0; i < VW; i++)
        sum += (double)lane[i];
    return sum;
}

/* Centroid `slot` of a pack: c' [d_pad]. Lanes of |q|^2 stay whole, below 2^24. */
static void i8_pack_centroid(const struct job *job, struct pack *p, int64_t slot, const float *c,
                             float start) {
    const int64_t steps = job->d_pad / I8_STEP;
    char *tile = (char *)p->tiles + (size_t)(slot / 16 * steps) * 1024 + (size_t)(slot % 16) * 64;
    const vf step = vf_set1(job->i8_step);
    const vf up = vf_set1(1 / job->i8_step);
    const vf most = vf_set1(127);
    vf lost = vf_set1(0);
    vf square = lost;
    for (int64_t s = 0; s < steps; s++) {
        vi q[4];
        UNROLL(4)
        for (int t = 0; t < 4; t++) {
            const vf v = vf_load(c + s * I8_STEP + t * VW);
            const vf at = vf_max(vf_min(vf_mul(v, up), most), vf_sub(vf_set1(0), most));
            q[t] = _mm512_cvtps_epi32(at);
            const vf whole = _mm512_cvtepi32_ps(q[t]);
            const vf off = _mm512_fnmadd_ps(whole, step, v);
            square = vf_fma(whole, whole, square);
            lost = vf_fma(off, off, lost);
        }
        _mm512_storeu_si512(tile + s * 1024, i8_join(q));
    }
    const double half = (double)job->i8_step / 2 * i8_lanes(square);
    const int32_t begin = start > LOST ? I8_ZERO - (int32_t)rint(half) : I8_LOST;
    p->lost[slot] = (float)(sqrt(i8_lanes(lost)) * (1 + 0x1p-14)) + sqrtf((float)job->d) * 0x1p-62f;
    for (int i = 0; i < 16; i++)
        memcpy(p->start + slot * 16 + i, &begin, sizeof begin);
}

/* 16 rows starting at slot `first`, x' as [16][d_pad] in rows, zeros behind d. */
static void i8_pack_panel(const struct job *job, struct worker *w, int first, const float *rows) {
    const int64_t steps = job->d_pad / I8_STEP;
    char *dst = (char *)w->block.x + (size_t)(first / 16 * steps) * 1024;
    for (int64_t s = 0; s < steps; s++) {
        vf r[16];
        UNROLL(16)
        for (int i = 0; i < 16; i++) {
            vi x[4];
            UNROLL(4)
            for (int t = 0; t < 4; t++)
                x[t] = _mm512_cvtps_epi32(vf_load(rows + i * job->d_pad + s * I8_STEP + t * VW));
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

/* Before the tiles collect: thresholds as bits that no score above them is below. Two roundings of
 * 2^-24 and one of 1 are paid for. */
static void i8_thresholds(const struct job *job, struct block *b) {
    const vf up = vf_set1(1 / job->i8_step);
    const vf span = vf_set1(I8_SPAN);
    for (int slot = 0; slot < b->rows; slot += VW) {
        vf v = vf_mul(vf_load(b->best + slot), up);
        const vm high = vf_lt(span, v);
        v = vf_max(vf_min(v, span), vf_sub(vf_set1(0), span));
        v = vf_sub(v, vf_set1(128));
        const vi bits = _mm512_add_epi32(_mm512_cvtps_epi32(v), vi_set1(I8_ZERO));
        vf_store(b->best + slot, vf_select(high, vf_set1(INFINITY), _mm512_castsi512_ps(bits)));
    }
}

#endif
