/* SPDX-License-Identifier: Apache-2.0
 * The scheme of FT K-Means (Wu and others, 2024), for comparison with ours: each tile of VW rows by
 * TILE_K centroids has three checksums, those of its scores plain, weighted by column and weighted
 * by row, against products of the sums of its rows and of its centroids. Where they differ the
 * ratios of the differences are the place of the wrong score, which becomes what the checksum
 * lacks. A tile that this does not put right is computed again. */
#ifndef HF_ASSIGN_WEIGHTED_H
#define HF_ASSIGN_WEIGHTED_H

#include "ops/assign/host/centred.h"
#include "ops/assign/host/guard/guard_limit.h"
#include "ops/assign/host/guard/guard_tell.h"
#include "ops/assign/host/strike.h"
#include <math.h>
#include <string.h>

#define WEIGHTED_NEAR 0.25f /* a place this far from a whole number is none */

/* Of the rows from `slot` on: their sums [2][d_pad], plain and weighted by lane. */
ALWAYS_INLINE float *weighted_rows(const struct job *job, const struct worker *w, int slot) {
    return w->guard.row_sums + (int64_t)(slot / VW) * 2 * job->d_pad;
}

/* Of a group: the sums of its centroids [2][d_pad], plain and weighted by place. */
ALWAYS_INLINE float *weighted_group(const struct job *job, const struct pack *p, int64_t g) {
    return p->check.group_sums + g * 2 * job->d_pad;
}

/* What stands beside the sums of VW rows: what rounding may do to their checksums, how many there
 * are, and the sum of their lanes' weights. */
enum weighted_number { WEIGHTED_MOST, WEIGHTED_ROWS, WEIGHTED_LANES };

ALWAYS_INLINE float *weighted_note(const struct worker *w, int slot) { return w->guard.z + slot; }

/* 1, 2, 3, ... */
ALWAYS_INLINE vf weighted_lanes(void) {
    static const float lane[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
    return vf_load(lane);
}

/* The sums of a group's centroids, and of what their scores start from. */
static void weighted_pack_group(const struct job *job, struct worker *w, struct pack *p,
                                int64_t g) {
    struct guard_pack *c = &p->check;
    float *sum = weighted_group(job, p, g);
    double start[2] = {0, 0};
    memset(sum, 0, 2 * sizeof *sum * (size_t)job->d_pad);
    for (int t = 0; t < TILE_K; t++) {
        const int64_t slot = g * TILE_K + t;
        const int64_t k = slot >= p->count ? -1 : p->index ? p->index[slot] : slot;
        const int taken = k >= 0 && job->c_length[k] < OUT_OF_RANGE;
        c->one[slot] = taken ? 1 : 0;
        c->place[slot] = taken ? (float)(t + 1) : 0;
        if (!taken)
            continue;
        const double square = centred_row(job, w, k, w->rows);
        const double own = job->a->metric == HF_EUCLIDEAN ? (double)(float)(-square / 2) : 0;
        start[0] += own;
        start[1] += own * (t + 1);
        for (int64_t j = 0; j < job->d_pad; j++) {
            sum[j] += w->rows[j];
            sum[job->d_pad + j] += (float)(t + 1) * w->rows[j];
        }
    }
    c->group_starts[2 * g] = (float)start[0];
    c->group_starts[2 * g + 1] = (float)start[1];
}

struct weighted_making {
    struct job *job;
    struct pack *pack;
};

static void weighted_pack_range(void *user, int worker, int64_t begin, int64_t end) {
    const struct weighted_making *m = user;
    for (int64_t g = begin; g < end; g++)
        weighted_pack_group(m->job, &m->job->workers[worker], m->pack, g);
}

static void weighted_pack(struct job *job, struct pack *p, hf_pool *pool) {
    struct weighted_making making = {job, p};
    hf_parallel_for(pool, p->groups, 8, weighted_pack_range, &making);
}

/* How far rounding may move a checksum of a tile, by reach: the scores' roundings, as if they were
 * independent, and those of the sums. */
static float weighted_kappa(const struct job *job) {
    const double scores = (double)TILE_K * VW;
    const double m = tile_dot_error(job, 0) * 0x1p24;
    return (float)((6 * sqrt(2 * scores * m) + 8 * scores) * 0x1p-24);
}

/* Sums of VW rows that are in the filter's range. */
static void weighted_add_rows(const struct job *job, struct worker *w, int slot) {
    const struct block *b = &w->block;
    const float *x = (const float *)b->x + (int64_t)slot * job->d;
    float *sum = weighted_rows(job, w, slot);
    float parts[VW * VW];
    const vf count = vf_sub(weighted_lanes(), vf_set1((float)(b->rows - slot) + 0.5f));
    const vf zero = vf_set1(0);
    const vf reach = guard_threshold(job, b, slot, weighted_kappa(job));
    const vf near = vf_select(vf_lt(vf_load(b->norm2 + slot), vf_set1(FAR_ROW)), vf_set1(1), zero);
    const vf taken = vf_select(vf_lt(count, zero), near, zero);
    const vm in = vf_lt(zero, taken);
    float most[VW];
    for (int64_t j = 0; j < job->d; j += VW) {
        for (int i = 0; i < VW; i++)
            vf_store(parts + i * VW,
                     j + i < job->d ? vf_select(in, vf_load(x + (j + i) * VW), zero) : zero);
        vf_store(sum + j, sum_lanes(parts));
        for (int i = 0; i < VW; i++)
            vf_store(parts + i * VW, vf_mul(vf_load(parts + i * VW), weighted_lanes()));
        vf_store(sum + job->d_pad + j, sum_lanes(parts));
    }
    vf_store(w->guard.most + slot, taken);
    vf_store(most, vf_select(in, reach, zero));
    float *note = weighted_note(w, slot);
    note[WEIGHTED_MOST] = 0;
    for (int i = 0; i < VW; i++)
        note[WEIGHTED_MOST] = larger(most[i], note[WEIGHTED_MOST]);
    note[WEIGHTED_ROWS] = vf_sum(taken);
    note[WEIGHTED_LANES] = vf_sum(vf_mul(taken, weighted_lanes()));
}

static void weighted_begin(const struct job *job, struct worker *w) {
    for (int slot = 0; slot < w->block.rows; slot += VW)
        weighted_add_rows(job, w, slot);
}

/* By how much the three checksums of a tile differ: plain, by column, by row. */
ALWAYS_INLINE void weighted_differ(const struct guard_sweep *s, int64_t g, int slot,
                                   const vf f[TILE_K], float by[3]) {
    const struct guard_pack *c = &s->p->check;
    const int64_t pad = s->job->d_pad;
    const float *x = weighted_rows(s->job, s->w, slot);
    const float *y = weighted_group(s->job, s->p, g);
    const float *note = weighted_note(s->w, slot);
    const vf zero = vf_set1(0);
    const vm in = vf_lt(zero, vf_load(s->w->guard.most + slot));
    vf plain = zero;
    vf column = zero;
    vf product[3] = {zero, zero, zero};
    UNROLL(12)
    for (int t = 0; t < TILE_K; t++) {
        plain = vf_fma(f[t], vf_set1(c->one[g * TILE_K + t]), plain);
        column = vf_fma(f[t], vf_set1(c->place[g * TILE_K + t]), column);
    }
    for (int64_t j = 0; j < pad; j += VW) {
        product[0] = vf_fma(vf_load(x + j), vf_load(y + j), product[0]);
        product[1] = vf_fma(vf_load(x + j), vf_load(y + pad + j), product[1]);
        product[2] = vf_fma(vf_load(x + pad + j), vf_load(y + j), product[2]);
    }
    plain = vf_select(in, plain, zero);
    column = vf_select(in, column, zero);
    const float *start = c->group_starts + 2 * g;
    by[0] = vf_sum(vf_sub(plain, product[0])) - note[WEIGHTED_ROWS] * start[0];
    by[1] = vf_sum(vf_sub(column, product[1])) - note[WEIGHTED_ROWS] * start[1];
    by[2] = vf_sum(vf_sub(vf_mul(plain, weighted_lanes()), product[2])) -
            note[WEIGHTED_LANES] * start[0];
}

/* No more than rounding: a NaN is more. */
ALWAYS_INLINE int weighted_right(const struct worker *w, int slot, const float by[3]) {
    const float most = weighted_note(w, slot)[WEIGHTED_MOST];
    return fabsf(by[0]) <= most && fabsf(by[1]) <= TILE_K * most && fabsf(by[2]) <= VW * most;
}

/* The place of a wrong score: column + row * TILE_K; -1: not one alone. */
static int weighted_locate(const float *scores, const float by[3]) {
    int found = -1;
    int count = 0;
    for (int i = 0; i < TILE_K * VW; i++)
        if (!(fabsf(scores[i]) <= FLT_MAX)) {
            found = i / VW + i % VW * TILE_K;
            count++;
        }
    if (count > 0)
        return count == 1 ? found : -1;
    const float column = by[1] / by[0] - 1;
    const float row = by[2] / by[0] - 1;
    if (!(fabsf(column - rintf(column)) < WEIGHTED_NEAR &&
          fabsf(row - rintf(row)) < WEIGHTED_NEAR && column > -0.5f && row > -0.5f &&
          column < TILE_K - 0.5f && row < VW - 0.5f))
        return -1;
    return (int)rintf(column) + (int)rintf(row) * TILE_K;
}

/* The differences of scores in memory. */
static void weighted_look(const struct guard_sweep *s, int64_t g, int slot, const float *scores,
                          float by[3]) {
    vf f[TILE_K];
    for (int t = 0; t < TILE_K; t++)
        f[t] = vf_load(scores + t * VW);
    weighted_differ(s, g, slot, f, by);
}

/* A tile is wrong: its scores [TILE_K][VW] are put right. */
static NOINLINE void weighted_mend(const struct guard_sweep *s, int64_t g, int slot,
                                   float *scores) {
    struct worker *w = s->w;
    const struct job *job = s->job;
    float by[3];
    weighted_look(s, g, slot, scores, by);
    const int at = weighted_locate(scores, by);
    const int64_t row = at < 0 ? slot : slot + at / TILE_K;
    const int64_t k = g * TILE_K + (at < 0 ? 0 : at % TILE_K);
    w->guard.suspected++;
    if (at >= 0) {
        float *score = scores + at % TILE_K * VW + at / TILE_K;
        const float had = *score;
        *score = 0;
        weighted_look(s, g, slot, scores, by);
        *score = -by[0];
        weighted_look(s, g, slot, scores, by);
        if (weighted_right(w, slot, by)) {
            guard_tell(job, w, HF_FAULT_TILE, block_row(&w->block, (int)row),
                       s->p->index ? s->p->index[k] : (int32_t)k, HF_BEHAVIOUR_UNKNOWN);
            return;
        }
        *score = had;
    }
    float again[TILE_K * TILE_ROWS];
    uint32_t differ = 0;
    tile_scores_out(job, tile_at(job, w->block.x, slot / TILE_ROWS), s->p, g, again);
    for (int t = 0; t < TILE_K; t++) {
        const float *right = again + t * TILE_ROWS + slot % TILE_ROWS;
        differ |= vi_differ(vi_bits(vf_load(scores + t * VW)), vi_bits(vf_load(right)));
        memcpy(scores + t * VW, right, sizeof *right * VW);
    }
    if (differ)
        guard_tell(job, w, HF_FAULT_TILE, block_row(&w->block, slot), -1, HF_BEHAVIOUR_TRANSIENT);
    else
        w->guard.beyond++;
}

/* The scores of VW rows and a group, put right where they are wrong. */
ALWAYS_INLINE void weighted_check(const struct guard_sweep *s, int64_t g, int slot, vf f[TILE_K]) {
    float by[3];
    if (slot >= s->w->block.rows)
        return;
    weighted_differ(s, g, slot, f, by);
    s->w->guard.checked += !s->collect;
    if (__builtin_expect(weighted_right(s->w, slot, by), 1))
        return;
    float scores[TILE_K * VW];
    UNROLL(12)
    for (int t = 0; t < TILE_K; t++)
        vf_store(scores + t * VW, f[t]);
    weighted_mend(s, g, slot, scores);
    UNROLL(12)
    for (int t = 0; t < TILE_K; t++)
        f[t] = vf_load(scores + t * VW);
}

ALWAYS_INLINE void weighted_scan(const struct guard_sweep *s, int64_t g, int slot,
                                 const vf f[TILE_K]) {
    struct worker *w = s->w;
    struct best_two a = best_load(&w->block, slot);
    UNROLL(12)
    for (int t = 0; t < TILE_K; t++) {
        if (s->collect)
            candidates_add(w, s->p, slot, vm_bits(vf_le(a.best, f[t])), g * TILE_K + t);
        else
            best_add(&a, f[t], (int32_t)(g * TILE_K + t));
    }
    if (s->collect)
        return;
    best_store(&w->block, slot, &a);
    STRIKE_BEST(w, slot, g);
}

/* tile_argmax() and tile_collect() under this scheme. */
static NOINLINE void weighted_sweep(const struct job *job, struct worker *w, const struct pack *p,
                                    int collect) {
    const struct guard_sweep s = {.job = job, .w = w, .p = p, .collect = collect};
    const int tiles = (w->block.rows + TILE_ROWS - 1) / TILE_ROWS;
    weighted_begin(job, w);
    job_prefetch_plan(w, p->groups * tiles);
    for (int64_t g = 0; g < p->groups; g++) {
        const float *c =
            (const float *)((const char *)p->tiles + (size_t)g * tile_group_bytes(job));
        for (int i = 0; i < tiles; i++) {
            vf f[2][TILE_K];
            job_prefetch(w);
            STRIKE_TILE(w, p, i * TILE_ROWS, g * TILE_K);
            tile_scores(f[0], f[1], tile_at(job, w->block.x, i), c, p->start + g * TILE_K, job->d);
            STRIKE_TILE_END();
            STRIKE_SCORES(w, p, i * TILE_ROWS, g * TILE_K, f[0], TILE_K);
            STRIKE_SCORES(w, p, i * TILE_ROWS + VW, g * TILE_K, f[1], TILE_K);
            UNROLL(2)
            for (int panel = 0; panel < 2; panel++) {
                weighted_check(&s, g, i * TILE_ROWS + panel * VW, f[panel]);
                weighted_scan(&s, g, i * TILE_ROWS + panel * VW, f[panel]);
            }
        }
    }
}

#endif
