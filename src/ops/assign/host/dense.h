/* SPDX-License-Identifier: Apache-2.0
 * Keys (host/differences.h) of open rows and all centroids, for rows whose list of candidates would
 * be long or of which nothing is known. A tile is two vectors of rows (lane = row) by a few
 * centroids, with all sums in registers.
 *   rows       [tile][panel of VW rows][d][VW]   in own.x, instead of the block's packed rows
 *   centroids  [d][VW], one after another        in worker.rows
 * In float64 a vector has VDW lanes instead of VW. */
#ifndef HF_ASSIGN_DENSE_H
#define HF_ASSIGN_DENSE_H

#include "ops/assign/host/differences.h"
#include "ops/assign/host/guard/guard_slab.h"
#include <float.h>

#define DENSE_K (VREGS == 32 ? 12 : 5) /* centroids of a tile in float32 */
#define DENSE_ROWS (2 * VW)            /* its rows */
#define ROW_OF_ZEROS (-2.0)            /* see difference_is_zero() */
#define DENSE_K64 VDW
#define DENSE_ROWS64 (2 * VDW)
#define DENSE_BYTES(d_pad) (sizeof(float) * DENSE_ROWS * (size_t)(d_pad))

/* Cost model: nanoseconds to compare a row with all centroids, */
static double dense_row_ns(const struct job *job) {
    const double d = (double)job->d;
    const double k = ceil((double)job->k / DENSE_K) * DENSE_K;
    const double wide = difference_possible(job) ? 1 : job->a->metric == HF_EUCLIDEAN ? 2 : 1.2;
    const double feature = VREGS == 32 ? 0.0195 : 0.045;
    return k * wide * (feature * d + 0.15) + 0.3 * d + 10;
}

/* the same with a second look at its label, if the call is protected, */
static double dense_call_ns(const struct job *job) {
    const double again = !guard_checks(&job->guard, HF_FAULT_SETTLE) ? 1
                         : slab_serves(job)                          ? 1.1
                                                                     : 2;
    return dense_row_ns(job) * again;
}

/* and with one candidate alone. */
static double dense_pair_ns(const struct job *job) { return 20 + 0.3 * (double)job->d; }

/* Is it cheaper to compare open rows with all centroids than to send them through the filter again
 * and compare about 4 candidates? Open rows are few: all centroids take twice what they take where
 * many rows share them. Protected calls do the same: memory depends on it, and it is measured
 * before it is known whether a call is protected. */
static int dense_pays(const struct job *job) {
    return 2 * dense_row_ns(job) < tile_call_ns(job) + 40 + 4 * dense_pair_ns(job);
}

/* The rows of a call. */
struct dense {
    const int *slot; /* [count] of the block */
    int count;
    int collect; /* list candidates; else find the two least keys */
    int check;   /* of rows that have a label already, CANDIDATES_MAX + 1: there are more */
};

/* Keys of a tile. */
struct dense_keys {
    const void *key;  /* float [DENSE_K][DENSE_ROWS] or double [DENSE_K64][DENSE_ROWS64] */
    int row;          /* first row of the call, */
    int first, count; /* centroids live[first .. first + count) */
};

/* Pack VW rows from slot[first] on. Empty lanes become rows of zeros. */
static void dense_pack_panel_f32(const struct job *job, struct worker *w, const struct dense *q,
                                 int first) {
    float *dst = (float *)w->own.x + (int64_t)first * job->d_pad;
    for (int i = 0; i < VW; i++) {
        float *row = w->rows + i * job->d_pad;
        if (first + i < q->count)
            difference_row(job, w->block.row[q->slot[first + i]], row);
        else
            memset(row, 0, sizeof *row * (size_t)job->d_pad);
    }
    for (int64_t j = 0; j < job->d_pad; j += VW) {
        vf r[VW];
        UNROLL(16)
        for (int i = 0; i < VW; i++)
            r[i] = vf_load(w->rows + i * job->d_pad + j);
        vf_transpose(r);
        UNROLL(16)
        for (int i = 0; i < VW; i++)
            vf_store(dst + (j + i) * VW, r[i]);
    }
}

/* Centroids live[first ..) of a tile to w->rows [d_pad][VW]. */
static void dense_pack_centroids_f32(const struct job *job, struct worker *w, int first,
                                     int count) {
    for (int64_t j = 0; j < job->d; j += VW) {
        vf r[VW];
        UNROLL(16)
        for (int i = 0; i < VW; i++) {
            const float *c = hf_array_row(&job->a->c, job->live[first + (i < count ? i : 0)]);
            r[i] = difference_load(c + j, job->d - j);
        }
        vf_transpose(r);
        UNROLL(16)
        for (int i = 0; i < VW; i++)
            vf_store(w->rows + (j + i) * VW, r[i]);
    }
}

/* The two least keys of each row so far, in best and next of the block. */
static void dense_best_f32(const struct job *job, struct worker *w, const struct dense_keys *keys) {
    const struct block *b = &w->block;
    const float *key = keys->key;
    for (int i = keys->row; i < keys->row + DENSE_ROWS; i += VW) {
        vf best = vf_load(b->best + i);
        vf next = vf_load(b->next + i);
        vi arg = vi_load(b->arg + i);
        for (int t = 0; t < keys->count; t++) {
            const vf s = vf_load(key + t * DENSE_ROWS + (i - keys->row));
            const vm nearer = vf_lt(s, best);
            next = vf_min(next, vf_max(best, s));
            best = vf_min(best, s);
            arg = vi_select(nearer, vi_set1(job->live[keys->first + t]), arg);
        }
        vf_store(b->best + i, best);
        vf_store(b->next + i, next);
        vi_store(b->arg + i, arg);
    }
}

/* Add a candidate to the slot's list. A full list goes to float64. */
static void dense_add(const struct job *job, struct worker *w, const struct dense *q, int slot,
                      int32_t k) {
    int32_t *list = w->list + slot * CANDIDATES_MAX;
    if (w->decided[slot] && !q->check)
        return;
    if (q->check && w->listed[slot] >= CANDIDATES_MAX) {
        w->listed[slot] = CANDIDATES_MAX + 1;
        return;
    }
    if (w->listed[slot] == CANDIDATES_MAX) {
        exact_some(job, w, slot, list, CANDIDATES_MAX);
        w->listed[slot] = 0;
    }
    list[w->listed[slot]++] = k;
}

/* List centroids whose key is not above the row's cut, which is in best. */
static void dense_collect_f32(const struct job *job, struct worker *w, const struct dense *q,
                              const struct dense_keys *keys) {
    const float *all = keys->key;
    for (int i = keys->row; i < keys->row + DENSE_ROWS; i += VW) {
        const vf cut = vf_load(w->block.best + i);
        for (int t = 0; t < keys->count; t++) {
            const vf key = vf_load(all + t * DENSE_ROWS + (i - keys->row));
            uint32_t bits = vm_bits(vf_le(key, cut));
            for (; bits; bits &= bits - 1) {
                const int at = i + __builtin_ctz(bits);
                if (at < q->count)
                    dense_add(job, w, q, q->slot[at], job->live[keys->first + t]);
            }
        }
    }
}

/* Write down what float32 decides. Cuts of the other rows go to best; returns how many they are. */
static int dense_conclude_f32(const struct job *job, struct worker *w, const struct dense *q) {
    struct block *b = &w->block;
    int left = 0;
    for (int i = 0; i < q->count; i++) {
        const int slot = q->slot[i];
        const double cut = difference_cut(job, (double)b->best[i], job->difference_least);
        w->decided[slot] = (double)b->next[i] > cut;
        difference_others(job, w, slot, (double)(w->decided[slot] ? b->next[i] : b->best[i]));
        if (w->decided[slot]) {
            w->least[slot] = difference_upper(job, (double)b->best[i]);
            w->least_arg[slot] = b->arg[i];
            continue;
        }
        b->best[i] = (float)(cut * (1 + 0x1p-22)) + 0x1p-126f;
        left++;
    }
    return left;
}

static void dense_begin_panel_f32(const struct job *job, struct worker *w, const struct dense *q,
                                  int first) {
    dense_pack_panel_f32(job, w, q, first);
    vf_store(w->block.best + first, vf_set1(INFINITY));
    vf_store(w->block.next + first, vf_set1(INFINITY));
    vi_store(w->block.arg + first, vi_set1(0));
}

/* ---- the same in float64; numbers of centroids are float64 too */

/* Pack VDW rows from slot[first] on, and note the error of their keys: see difference_error(); < 0
 * without a bound. */
static void dense_pack_panel_f64(const struct job *job, struct worker *w, const struct dense *q,
                                 int first) {
    double *dst = (double *)w->own.x + (int64_t)first * job->d_pad;
    double *rows = (double *)(void *)w->rows;
    for (int i = 0; i < VDW; i++) {
        double *row = rows + i * job->d_pad;
        memset(row, 0, sizeof *row * (size_t)job->d_pad);
        if (first + i >= q->count)
            continue;
        gather_wide(row, job_row(job, w->block.row[q->slot[first + i]]), job->a->x.dtype, job->d);
        const double norm = job->a->metric == HF_EUCLIDEAN ? 0 : difference_norm(row, job->d);
        w->key_error[first + i] = difference_bounded(job, norm) ? difference_error(job, norm)
                                  : norm == 0 && difference_is_zero(row, job->d) ? ROW_OF_ZEROS
                                                                                 : -1;
    }
    for (int64_t j = 0; j < job->d_pad; j += VDW) {
        vd r[VDW];
        UNROLL(8)
        for (int i = 0; i < VDW; i++)
            r[i] = vd_load(rows + i * job->d_pad + j);
        vd_transpose(r);
        UNROLL(8)
        for (int i = 0; i < VDW; i++)
            vd_store(dst + (j + i) * VDW, r[i]);
    }
}

static void dense_pack_centroids_f64(const struct job *job, struct worker *w, int first,
                                     int count) {
    double *dst = (double *)(void *)w->rows;
    for (int64_t j = 0; j < job->d; j += VDW) {
        const int n = job->d - j < VDW ? (int)(job->d - j) : VDW;
        vd r[VDW];
        UNROLL(8)
        for (int i = 0; i < VDW; i++) {
            const void *c = hf_array_row(&job->a->c, job->live[first + (i < count ? i : 0)]);
            r[i] = job->a->c.dtype == HF_F32 ? vd_load_as_n(c, HF_F32, j, n)
                                             : vd_load_as_n(c, HF_F64, j, n);
        }
        vd_transpose(r);
        UNROLL(8)
        for (int i = 0; i < VDW; i++)
            vd_store(dst + (j + i) * VDW, r[i]);
    }
}

/* A sum of squares, or x.c, times this is the key of centroid k. */
static double dense_factor(const struct job *job, int32_t k) {
    const hf_metric metric = job->a->metric;
    return metric == HF_EUCLIDEAN ? 1 : metric == HF_DOT ? -1 : -job->c_inverse[k];
}

static void dense_best_f64(const struct job *job, struct worker *w, const struct dense_keys *keys) {
    const double *all = keys->key;
    for (int i = keys->row; i < keys->row + DENSE_ROWS64; i += VDW) {
        vd best = vd_load(w->key_best + i);
        vd next = vd_load(w->key_next + i);
        vd arg = vd_load(w->key_arg + i);
        for (int t = 0; t < keys->count; t++) {
            const int32_t k = job->live[keys->first + t];
            const vd key = vd_mul(vd_load(all + t * DENSE_ROWS64 + (i - keys->row)),
                                  vd_set1(dense_factor(job, k)));
            const vdm nearer = vd_lt(key, best);
            next = vd_min(next, vd_max(best, key));
            best = vd_min(best, key);
            arg = vd_select(nearer, vd_set1((double)k), arg);
        }
        vd_store(w->key_best + i, best);
        vd_store(w->key_next + i, next);
        vd_store(w->key_arg + i, arg);
    }
}

static void dense_collect_f64(const struct job *job, struct worker *w, const struct dense *q,
                              const struct dense_keys *keys) {
    const double *all = keys->key;
    for (int i = keys->row; i < keys->row + DENSE_ROWS64 && i < q->count; i++) {
        const int slot = q->slot[i];
        for (int t = 0; t < keys->count && (q->check || !w->decided[slot]); t++) {
            const int32_t k = job->live[keys->first + t];
            const double key = all[t * DENSE_ROWS64 + (i - keys->row)] * dense_factor(job, k);
            if (!(key > w->key_best[i]))
                dense_add(job, w, q, slot, k);
        }
    }
}

static int dense_conclude_f64(const struct job *job, struct worker *w, const struct dense *q) {
    int left = 0;
    for (int i = 0; i < q->count; i++) {
        const int slot = q->slot[i];
        const double best = w->key_best[i];
        const double error = w->key_error[i];
        if (error == ROW_OF_ZEROS) {
            w->decided[slot] = 1;
            w->least_arg[slot] = 0;
            continue;
        }
        const double cut = error >= 0 ? difference_cut(job, best, error) : INFINITY;
        w->decided[slot] = w->key_next[i] > cut;
        difference_others(job, w, slot, w->decided[slot] ? w->key_next[i] : best);
        if (w->decided[slot]) {
            w->least[slot] = difference_upper(job, best);
            w->least_arg[slot] = (int32_t)w->key_arg[i];
            continue;
        }
        w->key_best[i] = cut;
        left++;
    }
    return left;
}

static void dense_begin_panel_f64(const struct job *job, struct worker *w, const struct dense *q,
                                  int first) {
    dense_pack_panel_f64(job, w, q, first);
    vd_store(w->key_best + first, vd_set1(INFINITY));
    vd_store(w->key_next + first, vd_set1(INFINITY));
    vd_store(w->key_arg + first, vd_set1(0));
}

/* ---- what both have in common */

#define STRIKE_DENSE_AS(...) STRIKE_DENSE(__VA_ARGS__) /* its arguments may be macros */

#define REAL_BITS 32
#define DENSE_TILE DENSE_K
#define DENSE_VALUE SQUARE
#include "device/host/isa_real.h"
#include "ops/assign/host/dense_sweep.h"
#undef REAL_BITS
#define REAL_BITS 64
#define DENSE_TILE DENSE_K64
#define DENSE_VALUE KEY
#include "device/host/isa_real.h"
#include "ops/assign/host/dense_sweep.h"

/* Labels of the rows in these slots of the block. Its packed rows are overwritten. */
static void dense_settle(const struct job *job, struct worker *w, const int *slot, int count) {
    const int wide = job->difference == DIFFERENCE_F32 ? DENSE_ROWS : DENSE_ROWS64;
    const int most = (int)(w->dense_bytes / DENSE_BYTES(job->d_pad)) * wide;
    for (int done = 0; job->difference != DIFFERENCE_NONE && done < count; done += most) {
        struct dense q = {slot + done, count - done < most ? count - done : most, 0, 0};
        for (int i = 0; i < q.count; i++)
            w->listed[q.slot[i]] = 0;
        if (job->difference == DIFFERENCE_F32)
            dense_f32(job, w, &q);
        else
            dense_f64(job, w, &q);
    }
    for (int i = 0; i < count; i++) {
        const int s = slot[i];
        w->stats.pairs += job->n_live;
        if (job->difference == DIFFERENCE_NONE)
            exact_all(job, w, s);
        else if (!w->decided[s])
            exact_some(job, w, s, w->list + s * CANDIDATES_MAX, w->listed[s]);
        if (w->least_arg[s] == INT32_MAX)
            exact_all(job, w, s);
    }
}

#endif
