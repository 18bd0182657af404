/* SPDX-License-Identifier: Apache-2.0
 * For rows with many features: bounds of scores from a few directions rule out most centroids, and
 * only the others are scored (docs/numerics/filter-directions.md). V [d, p] spans most of the
 * centroids. With y close to V^T x', z close to V^T c' and the lengths of what they leave,
 * |x' - V y| and |c' - V z|,
 *   x'.c' <= y.z + |x' - V y| |c' - V z| + slack |x'| |c'|
 * The lengths become one more feature of the coarse rows and centroids, so the tiles compute an
 * upper bound of each score from p + 1 features. */
#ifndef HF_ASSIGN_PROJECT_H
#define HF_ASSIGN_PROJECT_H

#include "ops/assign/host/basis.h"
#include "ops/assign/host/settle.h"
#include <float.h>

#define COMPARE_WORTH 8 /* one score costs about what the tiles need for so many centroids */
#define PROJECT_LIST 32 /* centroids of a row that wait to be scored */

/* A tile of rows, from upper bounds to the best two scores. */
struct project_tile {
    int slot;                              /* first row of the block */
    float cut[TILE_ROWS];                  /* centroids below it are ruled out */
    float slack[TILE_ROWS];                /* error of an upper bound */
    float ruled_out[TILE_ROWS];            /* largest bound of those */
    int32_t old[TILE_ROWS];                /* the label that came in, or -1 */
    int32_t first[TILE_ROWS];              /* centroid with the largest bound */
    float bound[TILE_ROWS];                /* that bound */
    int32_t list[TILE_ROWS][PROJECT_LIST]; /* centroids to score */
    int count[TILE_ROWS];
};

/* Coordinates of all rows of the block: w->y [tiles][basis slots][TILE_ROWS]. */
static void project_rows(const struct job *job, struct worker *w) {
    const struct pack *basis = &job->basis.directions;
    const int tiles = (w->block.rows + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t slots = basis->groups * TILE_K;
    job_prefetch_plan(w, basis->groups * tiles);
    for (int64_t g = 0; g < basis->groups; g++) {
        for (int i = 0; i < tiles; i++) {
            job_prefetch(w);
            tile_scores_out(job, tile_at(job, w->block.x, i), basis, g,
                            w->y + ((int64_t)i * slots + g * TILE_K) * TILE_ROWS);
        }
    }
}

/* Turn the coordinates of VW rows into packed coarse rows. Also computes the slack of each. */
static void project_panel(const struct job *job, struct worker *w, int slot, const float *y,
                          float *slack) {
    const struct basis *b = &job->basis;
    const vf q = vf_mul(vf_load(w->block.norm2 + slot), vf_set1(1 + job->bound.qerr));
    const vf zero = vf_set1(0);
    vf left = zero; /* |y|^2 - 2 y.(V^T x') */
    vf loss = zero; /* square of what storing y moved it */
    for (int j = 0; j < b->p; j++) {
        const vf exact = vf_load(y + j * TILE_ROWS);
        const vf stored = tile_coarse_value(exact);
        const vf off = vf_sub(stored, exact);
        left = vf_fma(stored, vf_sub(off, exact), left);
        loss = vf_fma(off, off, loss);
        vf_store(w->coarse_row + j * VW, stored);
    }
    const vf rest = vf_max(vf_add(vf_fma(q, vf_set1(b->rest_slack), q), left), zero);
    const vf length = vf_mul(vf_sqrt(rest), vf_set1((1 + 0x1p-20f) * TILE_COARSE_UP));
    vf_store(w->coarse_row + b->p * VW, tile_coarse_value(vf_add(length, vf_set1(b->tiny))));
    tile_pack_coarse(b->coarse_job, w->coarse, slot / VW, w->coarse_row);
    const vf cmax = vf_set1(job->bound.cmax);
    const vf norm = vf_mul(vf_sqrt(q), vf_set1(1 + 0x1p-20f));
    const vf per_length = vf_fma(vf_mul(cmax, vf_set1(0.5f)), cmax, vf_mul(norm, cmax));
    const vf moved = vf_mul(vf_sqrt(loss), vf_set1(1 + 0x1p-7f));
    vf_store(slack, vf_add(vf_fma(vf_set1(b->slack), per_length, vf_set1(job->bound.eta)),
                           vf_fma(moved, cmax, vf_mul(norm, vf_set1(b->loss_most)))));
}

/* Upper bounds of all scores of tile i to w->scores [all slots][TILE_ROWS]. Also finds the centroid
 * with the largest one of each row. */
static void project_bounds(const struct job *job, struct worker *w, int i,
                           struct project_tile *to) {
    const struct basis *b = &job->basis;
    vf best[2] = {vf_set1(-FLT_MAX), vf_set1(-FLT_MAX)};
    vi at[2] = {vi_set1(0), vi_set1(0)};
    for (int64_t g = 0; g < b->coarse.groups; g++) {
        float *out = w->scores + g * TILE_K * TILE_ROWS;
        tile_scores_out(b->coarse_job, tile_at(b->coarse_job, w->coarse, i), &b->coarse, g, out);
        for (int t = 0; t < TILE_K; t++) {
            for (int h = 0; h < 2; h++) {
                const vf score = vf_load(out + t * TILE_ROWS + h * VW);
                at[h] = vi_select(vf_lt(best[h], score), vi_set1((int32_t)(g * TILE_K + t)), at[h]);
                best[h] = vf_max(best[h], score);
            }
        }
    }
    vi_store(to->first, at[0]);
    vi_store(to->first + VW, at[1]);
    vf_store(to->bound, best[0]);
    vf_store(to->bound + VW, best[1]);
}

/* The float32 score of a slot and a centroid, with d / VW + 8 roundings. */
static float project_score(const struct job *job, const struct worker *w, int slot, int32_t k) {
    const float *x = w->rows + (int64_t)slot * job->d_pad;
    const float *c = job->basis.c32 + (int64_t)k * job->d_pad;
    vf sum[4] = {vf_set1(0), vf_set1(0), vf_set1(0), vf_set1(0)};
    int64_t j = 0;
    for (; j + 4 * VW <= job->d_pad; j += 4 * VW) {
        UNROLL(4)
        for (int i = 0; i < 4; i++)
            sum[i] = vf_fma(vf_load(x + j + i * VW), vf_load(c + j + i * VW), sum[i]);
    }
    for (; j < job->d_pad; j += VW)
        sum[0] = vf_fma(vf_load(x + j), vf_load(c + j), sum[0]);
    return vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3]))) + job->basis.start[k];
}

static void project_compare(const struct job *job, struct worker *w, int slot, int32_t k) {
    struct block *b = &w->block;
    const float score = project_score(job, w, slot, k);
    w->compared++;
    if (score > b->best[slot]) {
        b->next[slot] = b->best[slot];
        b->best[slot] = score;
        b->arg[slot] = k;
    } else if (score > b->next[slot]) {
        b->next[slot] = score;
    }
}

/* Prefetch c' of a centroid that will be scored. */
static void project_fetch(const struct job *job, int32_t k) {
    const char *c = (const char *)(job->basis.c32 + (int64_t)k * job->d_pad);
    const size_t bytes = sizeof(float) * (size_t)job->d_pad;
    for (size_t at = 0; at < bytes; at += HF_ALIGN)
        __builtin_prefetch(c + at, 0, 2);
}

/* Each row is scored with its old label first. -1: it has none that the filter knows. */
static void project_begin(const struct job *job, struct worker *w, struct project_tile *t) {
    struct block *b = &w->block;
    for (int i = 0; i < TILE_ROWS; i++) {
        const int slot = t->slot + i;
        b->best[slot] = b->next[slot] = -FLT_MAX;
        b->arg[slot] = 0;
        t->count[i] = 0;
        t->old[i] = slot < b->rows ? job->a->labels[b->row[slot]] : -1;
        if (t->old[i] >= 0 && !(job->c_length[t->old[i]] < OUT_OF_RANGE))
            t->old[i] = -1;
        if (t->old[i] >= 0)
            project_fetch(job, t->old[i]);
    }
}

/* What the best score so far of VW rows rules out. For rows out of the filter's range and for empty
 * slots that is everything. */
static NOINLINE void project_cut(const struct job *job, const struct worker *w,
                                 struct project_tile *t, int from) {
    struct verdict v;
    decide(job, &job->all, &w->block, t->slot + from, &v);
    for (int i = 0; i < VW; i++) {
        const int known = t->slot + from + i < w->block.rows && (v.in_range >> i & 1);
        t->cut[from + i] = known ? v.threshold[i] - t->slack[from + i] : INFINITY;
    }
}

/* The old label of each row, then the best by the bounds unless that is ruled out by now. */
static void project_first(const struct job *job, struct worker *w, struct project_tile *t) {
    const int rows = w->block.rows - t->slot < TILE_ROWS ? w->block.rows - t->slot : TILE_ROWS;
    for (int i = 0; i < rows; i++)
        if (t->old[i] >= 0)
            project_compare(job, w, t->slot + i, t->old[i]);
    project_cut(job, w, t, 0);
    project_cut(job, w, t, VW);
    for (int i = 0; i < rows; i++) {
        t->first[i] = t->first[i] < job->k ? t->first[i] : 0; /* a bound may be NaN */
        if (t->old[i] < 0 || (t->first[i] != t->old[i] && t->bound[i] >= t->cut[i]))
            project_compare(job, w, t->slot + i, t->first[i]);
    }
    project_cut(job, w, t, 0);
    project_cut(job, w, t, VW);
}

static void project_flush(const struct job *job, struct worker *w, struct project_tile *t, int i) {
    for (int c = 0; c < t->count[i]; c++)
        project_compare(job, w, t->slot + i, t->list[i][c]);
    t->count[i] = 0;
}

static NOINLINE void project_note(const struct job *job, struct worker *w, struct project_tile *t,
                                  uint64_t bits, int32_t k) {
    for (; bits; bits &= bits - 1) {
        const int i = __builtin_ctzll(bits);
        if (k == t->first[i] || k == t->old[i])
            continue;
        project_fetch(job, k);
        t->list[i][t->count[i]++] = k;
        if (t->count[i] == PROJECT_LIST)
            project_flush(job, w, t, i);
    }
}

/* Score the centroids that the bounds do not rule out. */
static void project_rest(const struct job *job, struct worker *w, struct project_tile *t) {
    const vf low = vf_set1(-FLT_MAX);
    const vf cut[2] = {vf_load(t->cut), vf_load(t->cut + VW)};
    vf most[2] = {low, low};
    for (int64_t k = 0; k < job->k; k++) {
        const vf a = vf_load(w->scores + k * TILE_ROWS);
        const vf b = vf_load(w->scores + k * TILE_ROWS + VW);
        const vm in_a = vf_le(cut[0], a);
        const vm in_b = vf_le(cut[1], b);
        const uint64_t bits = vm_bits(in_a) | (uint64_t)vm_bits(in_b) << VW;
        if (__builtin_expect(bits != 0, 0))
            project_note(job, w, t, bits, (int32_t)k);
        most[0] = vf_max(most[0], vf_select(in_a, low, a));
        most[1] = vf_max(most[1], vf_select(in_b, low, b));
    }
    vf_store(t->ruled_out, most[0]);
    vf_store(t->ruled_out + VW, most[1]);
    for (int i = 0; i < TILE_ROWS && t->slot + i < w->block.rows; i++) {
        const int slot = t->slot + i;
        project_flush(job, w, t, i);
        w->block.next[slot] = fmaxf(w->block.next[slot], t->ruled_out[i] + t->slack[i]);
    }
}

/* The best score of each row of the block, and the second best or an upper bound of it. */
static void project_argmax(const struct job *job, struct worker *w) {
    const int64_t slots = job->basis.directions.groups * TILE_K;
    project_rows(job, w);
    for (int i = 0; i * TILE_ROWS < w->block.rows; i++) {
        struct project_tile t;
        t.slot = i * TILE_ROWS;
        const float *y = w->y + (int64_t)i * slots * TILE_ROWS;
        project_begin(job, w, &t);
        project_panel(job, w, t.slot, y, t.slack);
        project_panel(job, w, t.slot + VW, y + VW, t.slack + VW);
        project_bounds(job, w, i, &t);
        project_first(job, w, &t);
        project_rest(job, w, &t);
    }
}

#endif
