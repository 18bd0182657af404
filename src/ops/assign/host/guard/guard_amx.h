/* SPDX-License-Identifier: Apache-2.0
 * The row test of AMX tiles: the scores of a row, alternately + and -, against the product of the
 * packed row with one column, the sum of the centroids as their tiles store them, with the same
 * signs. That product is computed with vectors, another unit than the tiles. */
#ifndef HF_ASSIGN_GUARD_AMX_H
#define HF_ASSIGN_GUARD_AMX_H

#include "ops/assign/host/centred.h"
#include "ops/assign/host/guard/guard_limit.h"
#include "ops/assign/host/guard/guard_tell.h"
#include "ops/assign/host/guard/guard_words.h"
#include "ops/assign/host/tile_amx.h"
#include <string.h>

/* Add the scores [TILE_K][VW] of VW rows and the group of centroid k. */
ALWAYS_INLINE void guard_amx_add(struct worker *w, const struct pack *p, const float *scores,
                                 int slot, int32_t k) {
    float *z = guard_z(w, 0, slot);
    uint32_t in = p->check.in[k / TILE_K];
    vf sum = vf_load(z);
    if (in == UINT32_MAX) {
        vf part[4];
        UNROLL(4)
        for (int i = 0; i < 4; i++)
            part[i] = vf_sub(vf_load(scores + 2 * i * VW), vf_load(scores + (2 * i + 1) * VW));
        UNROLL(12)
        for (int t = 8; t < TILE_K; t += 2)
            part[t / 2 % 4] = vf_add(
                part[t / 2 % 4], vf_sub(vf_load(scores + t * VW), vf_load(scores + (t + 1) * VW)));
        vf_store(z, vf_add(sum, vf_add(vf_add(part[0], part[1]), vf_add(part[2], part[3]))));
        return;
    }
    for (; in; in &= in - 1) { /* the others are excluded, or padding */
        const int t = __builtin_ctz(in);
        const vf score = vf_load(scores + t * VW);
        sum = t % 2 ? vf_sub(sum, score) : vf_add(sum, score);
    }
    vf_store(z, sum);
}

/* The product of VW packed rows from `slot` on with the column. */
static NOINLINE vf guard_amx_product(const struct job *job, const struct pack *p,
                                     const struct block *b, int slot) {
    const int64_t words = tile_steps(job) * (STEP / 2);
    const int32_t *at = (const int32_t *)b->x + slot * words;
    const float *weight = p->check.weight;
    const __m512i high = _mm512_set1_epi32(-65536);
    vf sum[4] = {vf_set1(0), vf_set1(0), vf_set1(0), vf_set1(0)};
    for (int64_t i = 0; i < words; i += 2) {
        UNROLL(2)
        for (int t = 0; t < 2; t++) {
            const __m512i pair = _mm512_loadu_si512(at + (i + t) * VW);
            const vf even = _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16));
            const vf odd = _mm512_castsi512_ps(_mm512_and_si512(pair, high));
            sum[2 * t] = vf_fma(even, vf_set1(weight[2 * (i + t)]), sum[2 * t]);
            sum[2 * t + 1] = vf_fma(odd, vf_set1(weight[2 * (i + t) + 1]), sum[2 * t + 1]);
        }
    }
    return vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3]));
}

/* What the column is made of: sums of the centroids of some slots. */
struct guard_amx_part {
    double *high, *low; /* [d_pad] their parts */
    double starts;
};

/* sum [VW] += sign * v */
ALWAYS_INLINE void guard_amx_put(double *sum, vf v, double sign) {
    const vd s = vd_set1(sign);
    const __m256 low = _mm512_castps512_ps256(v);
    const __m256 high = _mm512_extractf32x8_ps(v, 1);
    vd_store(sum, vd_fma(s, _mm512_cvtps_pd(low), vd_load(sum)));
    vd_store(sum + VDW, vd_fma(s, _mm512_cvtps_pd(high), vd_load(sum + VDW)));
}

/* Add the centroid of a slot to a part, as its tile stores it. */
static void guard_amx_take(const struct job *job, struct worker *w, int64_t k, double sign,
                           struct guard_amx_part *part) {
    float *c = w->rows;
    double square = centred_row(job, w, k, c);
    if (job->half)
        (void)tile_loss(c, job->d, &square);
    if (job->a->metric == HF_EUCLIDEAN)
        part->starts += sign * (double)(float)(-square / 2);
    for (int64_t j = 0; j < job->d_pad; j += VW) { /* zeros behind d */
        const vf v = vf_load(c + j);
        const vf high = tile_widen((__m256i)_mm512_cvtneps_pbh(v));
        guard_amx_put(part->high + j, high, sign);
        guard_amx_put(part->low + j, tile_widen((__m256i)_mm512_cvtneps_pbh(vf_sub(v, high))),
                      sign);
    }
}

/* The number of the centroid in a slot that is in the sums, or -1. */
static int64_t guard_amx_centroid(const struct job *job, const struct pack *p, int64_t slot) {
    const int64_t k = slot >= p->count ? -1 : p->index ? p->index[slot] : slot;
    return k >= 0 && job->c_length[k] < job->guard.longest ? k : -1;
}

/* Parts [begin, end) of GUARD_TESTS of a pack. */
struct guard_amx_making {
    struct job *job;
    struct pack *pack;
    double starts[GUARD_TESTS];
};

static void guard_amx_make_part(void *user, int worker, int64_t begin, int64_t end) {
    struct guard_amx_making *making = user;
    struct job *job = making->job;
    struct pack *p = making->pack;
    const int64_t each = (p->groups + GUARD_TESTS - 1) / GUARD_TESTS;
    for (int64_t q = begin; q < end; q++) {
        double *column = p->check.column + 2 * q * job->d_pad;
        struct guard_amx_part part = {column, column + job->d_pad, 0};
        memset(column, 0, 2 * sizeof *column * (size_t)job->d_pad);
        for (int64_t g = q * each; g < (q + 1) * each && g < p->groups; g++) {
            p->check.in[g] = 0;
            for (int t = 0; t < TILE_K; t++) {
                const int64_t k = guard_amx_centroid(job, p, g * TILE_K + t);
                if (k < 0)
                    continue;
                p->check.in[g] |= 1u << t;
                guard_amx_take(job, &job->workers[worker], k, t % 2 ? -1 : 1, &part);
            }
        }
        making->starts[q] = part.starts;
    }
}

/* The column by places of a packed row, [xh | xl]: as far as there are low tiles, they are
 * multiplied with it, too. */
static void guard_amx_weigh(const struct job *job, struct pack *p) {
    const int64_t low = tile_low_steps(job) * STEP;
    const int64_t places = tile_parts(job) * job->d;
    for (int64_t f = 0; f < tile_steps(job) * STEP; f++) {
        const int64_t j = f < job->d ? f : f - job->d;
        double sum = 0;
        for (int q = 0; f < places && q < GUARD_TESTS; q++) {
            const double *column = p->check.column + 2 * q * job->d_pad;
            sum += column[j] + (f < low ? column[job->d_pad + j] : 0);
        }
        p->check.weight[f] = (float)sum;
    }
}

/* The column of a pack; pool NULL: by worker `worker` alone. */
static void guard_amx_make(struct job *job, struct pack *p, hf_pool *pool, int worker) {
    struct guard_amx_making making = {.job = job, .pack = p};
    double starts = 0;
    p->check.tests = 1;
    p->check.groups_each = p->groups;
    if (pool)
        hf_parallel_for(pool, GUARD_TESTS, 1, guard_amx_make_part, &making);
    else
        guard_amx_make_part(&making, worker, 0, GUARD_TESTS);
    for (int q = 0; q < GUARD_TESTS; q++)
        starts += making.starts[q];
    p->check.begin[0] = (float)-starts;
    guard_amx_weigh(job, p);
}

#endif
