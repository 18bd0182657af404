/* SPDX-License-Identifier: Apache-2.0
 * Tiles of signed bytes on AMX for rows of whole numbers. A row is shifted to the middle of each
 * column's range, so that it lies within -128..127 and is stored exactly. Centroids c' are rounded
 * to multiples q of one step for all of them; q has one byte, or two: 256 qh + ql. A tile has 64
 * features, twice those of bf16, at the same rate:
 *   packed rows       [panel of 16][step][16][16 rows][4]       int8
 *   packed centroids  [group][half][step][16 centroids][16][4]  int8, two: steps of qh, then of ql
 * with feature 16 t + l of a step in place 4 l + t. A score is x'.q - step |q|^2 / 2 in units of
 * the step, with the second term rounded to a whole number, so int32 sums are exact. They begin at
 * I8_ZERO: read as float32, their bits are positive, normal and in the order of the scores, and the
 * code for float32 finds the best two keys (host/scan_amx.h). The only errors that decide() must
 * know are the loss of each centroid, which is measured, and the last bits of a key. */
#ifndef HF_ASSIGN_TILE_I8_H
#define HF_ASSIGN_TILE_I8_H

#include "ops/assign/host/job.h"
#include <math.h>
#include <stdint.h>
#include <string.h>

#define TILE_I8_NAME "i8_32x32"
#define TILE_I8X2_NAME "i8x2_32x32"
#define I8_STEP 64        /* features of a tile */
#define I8_FEATURES 4096  /* with more, scores of one byte would overflow */
#define I8X2_STEPS 4      /* two bytes: two groups of more would not stay in the L1 cache */
#define I8_MOST 127       /* the largest number in a centroid, one byte */
#define I8X2_MOST 32639   /* 256 * 127 + 127 */
#define I8_REACH 508.0    /* components of centroids are cut off here */
#define I8_KEY 32         /* a start is off by half a step, a key by 31 */
#define I8_ZERO (1 << 30) /* where scores begin */
#define I8_SPAN ((1 << 30) - (1 << 24)) /* scores are nearer to it than that */
#define I8_EXCLUDED (I8_ZERO - I8_SPAN) /* score of an excluded centroid */

/* A key becomes float32 in two roundings, and decide() makes six; each may be four times what it
 * assumes, because step q may be twice as long as c'. */
#define I8_ROUNDINGS 32.0

/* Choose the step. most: the largest component of any centroid; reach: the most that |x'_j| add up
 * to. Two bytes use as many steps as scores have room for. */
static void i8_choose_step(struct job *job, double most, double reach) {
    const double room = 0.98 * I8_SPAN / (reach + (double)job->d * most / 2 + 1);
    job->i8_most = job->i8 == 1 ? I8_MOST : (int)fmax(I8_MOST, fmin(room, I8X2_MOST));
    job->i8_step = most > 0 ? (float)fmax(most / job->i8_most, 0x1p-60) : 1;
}

/* 64 whole numbers of 16 bits from the lanes of four vectors: a lane of `even` has those of vectors
 * 0 and 2 side by side, a lane of `odd` those of 1 and 3. */
struct i8_pairs {
    vi even, odd;
};

ALWAYS_INLINE struct i8_pairs i8_pair(const vi v[4]) {
    const __mmask32 upper = 0xaaaaaaaa;
    return (struct i8_pairs){
        _mm512_mask_blend_epi16(upper, v[0], _mm512_slli_epi32(v[2], 16)),
        _mm512_mask_blend_epi16(upper, v[1], _mm512_slli_epi32(v[3], 16)),
    };
}

/* The low bytes, lane by lane in the order of the four vectors, or the high ones (second). */
ALWAYS_INLINE vi i8_bytes(struct i8_pairs v, int second) {
    const __mmask64 odd = 0xaaaaaaaaaaaaaaaa;
    return second ? _mm512_mask_blend_epi8(odd, _mm512_srli_epi16(v.even, 8), v.odd)
                  : _mm512_mask_blend_epi8(odd, v.even, _mm512_slli_epi16(v.odd, 8));
}

ALWAYS_INLINE struct i8_pairs i8_plus(struct i8_pairs a, struct i8_pairs b) {
    return (struct i8_pairs){_mm512_add_epi16(a.even, b.even), _mm512_add_epi16(a.odd, b.odd)};
}

/* Sums of the products of four lanes each, modulo 2^32. */
ALWAYS_INLINE vi i8_products(struct i8_pairs a, struct i8_pairs b) {
    return _mm512_add_epi32(_mm512_madd_epi16(a.even, b.even), _mm512_madd_epi16(a.odd, b.odd));
}

/* What step s of x' needs added to become bytes. */
ALWAYS_INLINE struct i8_pairs i8_off_at(const struct job *job, int64_t s) {
    const int32_t *off = job->i8_off + s * 2 * VW;
    return (struct i8_pairs){vi_load(off), vi_load(off + VW)};
}

/* Store that, given as one float32 per column up to d_pad. Its magnitude is at most about 256. */
static void i8_store_off(const struct job *job, const float *off) {
    for (int64_t j = 0; j < job->d_pad; j += I8_STEP) {
        vi v[4];
        UNROLL(4)
        for (int t = 0; t < 4; t++)
            v[t] = _mm512_cvtps_epi32(vf_load(off + j + t * VW));
        const struct i8_pairs pairs = i8_pair(v);
        vi_store(job->i8_off + j / 2, pairs.even);
        vi_store(job->i8_off + j / 2 + VW, pairs.odd);
    }
}

/* 64 features of a centroid to a tile; two bytes: the low ones go `low` bytes further on. */
ALWAYS_INLINE void i8_store(struct i8_pairs q, char *tile, size_t low) {
    const vi half = _mm512_set1_epi16(128);
    _mm512_storeu_si512(tile + low, i8_bytes(q, 0));
    if (low > 0)
        _mm512_storeu_si512(tile, i8_bytes(i8_plus(q, (struct i8_pairs){half, half}), 1));
}

/* Centroid `slot` of a pack: c' [d_pad]. Rows in bytes are x' + off, so off.q is subtracted from
 * the start. Its sum may wrap around, as those of the tiles do. */
static void i8_pack_centroid(const struct job *job, struct pack *p, int64_t slot, const float *c,
                             float start) {
    const int64_t steps = job->d_pad / I8_STEP;
    char *tile =
        (char *)p->tiles + (size_t)(slot / 16 * steps * job->i8) * 1024 + (size_t)(slot % 16) * 64;
    const size_t low = job->i8 == 2 ? (size_t)steps * 1024 : 0;
    const vf step = vf_set1(job->i8_step);
    const vf up = vf_set1(1 / job->i8_step);
    const vf most = vf_set1((float)job->i8_most);
    vf loss = vf_set1(0);
    vi beside = vi_set1(0);
    vl square = vl_set1(0);
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
            loss = vf_fma(off, off, loss);
        }
        const struct i8_pairs pairs = i8_pair(q);
        const vi squares = i8_products(pairs, pairs); /* of four each: these are below 2^32 */
        square = vl_add(square, _mm512_and_si512(squares, vl_set1(UINT32_MAX)));
        square = vl_add(square, _mm512_srli_epi64(squares, 32));
        beside = _mm512_add_epi32(beside, i8_products(pairs, i8_off_at(job, s)));
        i8_store(pairs, tile + s * 1024, low);
    }
    const int64_t half = (int64_t)rint((double)job->i8_step / 2 * (double)vl_sum(square));
    const int64_t score = I8_ZERO - half - _mm512_reduce_add_epi32(beside);
    const int32_t begin = start > EXCLUDED ? (int32_t)(uint32_t)score : I8_EXCLUDED;
    p->loss[slot] = sqrtf(vf_sum(loss)) * (1 + 0x1p-14f) + sqrtf((float)job->d) * 0x1p-62f;
    vf_store(p->start + slot * VW, _mm512_castsi512_ps(vi_set1(begin)));
}

/* 16 rows starting at slot `first`, x' as [16][d_pad] in rows. Behind d, x' and off are zeros. */
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
                x[t] = _mm512_cvtps_epi32(vf_load(rows + i * job->d_pad + j));
            }
            r[i] = _mm512_castsi512_ps(i8_bytes(i8_plus(i8_pair(x), i8_off_at(job, s)), 0));
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
    const vf loss = _mm512_castsi512_ps(vi_set1(I8_EXCLUDED + 32));
    vf_store(key, vf_select(vf_lt(vf_load(key), loss), vf_set1(EXCLUDED), score));
}

/* After the tiles: best and next are scores again. */
static void i8_scores(const struct job *job, struct block *b) {
    for (int slot = 0; slot < b->rows; slot += VW) {
        i8_score(job, b->best + slot);
        i8_score(job, b->next + slot);
    }
}

/* Before the tiles collect candidates: turn thresholds into bits like those of scores. They are
 * lowered by more than three roundings of 2^-24 and one of 1. */
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
