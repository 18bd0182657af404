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

/* and with one candidate alone. */
static double dense_pair_ns(const struct job *job) { return 20 + 0.3 * (double)job->d; }

/* Is it cheaper to compare open rows with all centroids than to send them through the filter again
 * and compare about 4 candidates? */
static int dense_pays(const struct job *job) {
    return dense_row_ns(job) < tile_call_ns(job) + 40 + 4 * dense_pair_ns(job);
}

/* The rows of a call. */
struct dense {
    const int *slot; /* [count] of the block */
    int count;
    int collect; /* list candidates; else find the two least keys */
};

/* Keys of a tile in float32, or in float64. */
struct dense_keys {
    const float *key;    /* [DENSE_K][DENSE_ROWS] */
    const double *key64; /* [DENSE_K64][DENSE_ROWS64] */
    int row;             /* first row of the call, */
    int first, count;    /* centroids live[first .. first + count) */
};

/* Pack VW rows from slot[first] on. Empty lanes become rows of zeros. */
static void dense_pack_panel(const struct job *job, struct worker *w, const struct dense *q,
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
static void dense_pack_centroids(const struct job *job, struct worker *w, int first, int count) {
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

ALWAYS_INLINE void dense_chain(vf s0[DENSE_K], vf s1[DENSE_K], const float *x, const float *y,
                               const float *c, int64_t depth) {
    UNROLL(12)
    for (int t = 0; t < DENSE_K; t++)
        s0[t] = s1[t] = vf_set1(0);
    for (int64_t j = 0; j < depth; j++) {
        const vf a = vf_load(x + j * VW);
        const vf b = vf_load(y + j * VW);
        UNROLL(12)
        for (int t = 0; t < DENSE_K; t++) {
            const vf q = vf_set1(c[j * VW + t]);
            const vf da = vf_sub(a, q);
            const vf db = vf_sub(b, q);
            s0[t] = vf_fma(da, da, s0[t]);
            s1[t] = vf_fma(db, db, s1[t]);
        }
    }
}

/* Squares of a tile of rows: out [DENSE_K][DENSE_ROWS]. */
static NOINLINE void dense_tile(const float *x, const float *c, int64_t d, int64_t d_pad,
                                float *out) {
    const float *y = x + d_pad * VW;
    for (int64_t j = 0; j < d; j += DENSE_DEPTH) {
        vf s0[DENSE_K];
        vf s1[DENSE_K];
        dense_chain(s0, s1, x + j * VW, y + j * VW, c + j * VW,
                    d - j < DENSE_DEPTH ? d - j : DENSE_DEPTH);
        UNROLL(12)
        for (int t = 0; t < DENSE_K; t++) {
            float *at = out + t * DENSE_ROWS;
            vf_store(at, j == 0 ? s0[t] : vf_add(vf_load(at), s0[t]));
            vf_store(at + VW, j == 0 ? s1[t] : vf_add(vf_load(at + VW), s1[t]));
        }
    }
}

/* The two least keys of each row so far, in best and next of the block. */
static void dense_best(const struct job *job, struct worker *w, const struct dense_keys *keys) {
    const struct block *b = &w->block;
    for (int i = keys->row; i < keys->row + DENSE_ROWS; i += VW) {
        vf best = vf_load(b->best + i);
        vf next = vf_load(b->next + i);
        vi arg = vi_load(b->arg + i);
        for (int t = 0; t < keys->count; t++) {
            const vf s = vf_load(keys->key + t * DENSE_ROWS + (i - keys->row));
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
static void dense_add(const struct job *job, struct worker *w, int slot, int32_t k) {
    int32_t *list = w->list + slot * CANDIDATES_MAX;
    if (w->listed[slot] == CANDIDATES_MAX) {
        exact_some(job, w, slot, list, CANDIDATES_MAX);
        w->listed[slot] = 0;
    }
    list[w->listed[slot]++] = k;
}

/* List centroids whose key is not above the row's cut, which is in best. */
static void dense_collect(const struct job *job, struct worker *w, const struct dense *q,
                          const struct dense_keys *keys) {
    for (int i = keys->row; i < keys->row + DENSE_ROWS; i += VW) {
        const vf cut = vf_load(w->block.best + i);
        for (int t = 0; t < keys->count; t++) {
            const vf key = vf_load(keys->key + t * DENSE_ROWS + (i - keys->row));
            uint32_t bits = vm_bits(vf_le(key, cut));
            for (; bits; bits &= bits - 1) {
                const int at = i + __builtin_ctz(bits);
                if (at < q->count && !w->decided[q->slot[at]])
                    dense_add(job, w, q->slot[at], job->live[keys->first + t]);
            }
        }
    }
}

static void dense_sweep(const struct job *job, struct worker *w, const struct dense *q) {
    float out[DENSE_K * DENSE_ROWS];
    for (int k = 0; k < job->n_live; k += DENSE_K) {
        const int count = job->n_live - k < DENSE_K ? job->n_live - k : DENSE_K;
        dense_pack_centroids(job, w, k, count);
        for (int row = 0; row < q->count; row += DENSE_ROWS) {
            dense_tile((const float *)w->own.x + (int64_t)row * job->d_pad, w->rows, job->d,
                       job->d_pad, out);
            STRIKE_DENSE(SQUARE, w, q, row, DENSE_ROWS, job->live + k, count, out);
            const struct dense_keys keys = {.key = out, .row = row, .first = k, .count = count};
            if (q->collect)
                dense_collect(job, w, q, &keys);
            else
                dense_best(job, w, &keys);
        }
    }
}

/* Write down what float32 decides. Cuts of the other rows go to best; returns how many they are. */
static int dense_conclude(const struct job *job, struct worker *w, const struct dense *q) {
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

static void dense_f32(const struct job *job, struct worker *w, struct dense *q) {
    struct block *b = &w->block;
    const int rows = (q->count + DENSE_ROWS - 1) / DENSE_ROWS * DENSE_ROWS;
    for (int i = 0; i < rows; i += VW) {
        dense_pack_panel(job, w, q, i);
        vf_store(b->best + i, vf_set1(INFINITY));
        vf_store(b->next + i, vf_set1(INFINITY));
        vi_store(b->arg + i, vi_set1(0));
    }
    dense_sweep(job, w, q);
    if (dense_conclude(job, w, q) == 0)
        return;
    q->collect = 1;
    dense_sweep(job, w, q);
}

/* ---- the same in float64; numbers of centroids are float64 too */

/* Pack VDW rows from slot[first] on, and note the error of their keys: see difference_error(); < 0
 * without a bound. */
static void dense_pack_panel64(const struct job *job, struct worker *w, const struct dense *q,
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

static void dense_pack_centroids64(const struct job *job, struct worker *w, int first, int count) {
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

ALWAYS_INLINE void dense_chain64(vd s[2][DENSE_K64], const double *x, const double *y,
                                 const double *c, int64_t depth, int euclidean) {
    UNROLL(8)
    for (int t = 0; t < DENSE_K64; t++)
        s[0][t] = s[1][t] = vd_set1(0);
    for (int64_t j = 0; j < depth; j++) {
        const vd a = vd_load(x + j * VDW);
        const vd b = vd_load(y + j * VDW);
        UNROLL(8)
        for (int t = 0; t < DENSE_K64; t++) {
            const vd q = vd_set1(c[j * VDW + t]);
            const vd da = vd_sub(a, q);
            const vd db = vd_sub(b, q);
            s[0][t] = euclidean ? vd_fma(da, da, s[0][t]) : vd_fma(a, q, s[0][t]);
            s[1][t] = euclidean ? vd_fma(db, db, s[1][t]) : vd_fma(b, q, s[1][t]);
        }
    }
}

/* Sums of a tile of rows: out [DENSE_K64][DENSE_ROWS64]. */
ALWAYS_INLINE void dense_tile64_as(const double *x, const double *c, const struct job *job,
                                   double *out, int euclidean) {
    const double *y = x + job->d_pad * VDW;
    const int64_t d = job->d;
    for (int64_t j = 0; j < d; j += DENSE_DEPTH) {
        vd s[2][DENSE_K64];
        dense_chain64(s, x + j * VDW, y + j * VDW, c + j * VDW,
                      d - j < DENSE_DEPTH ? d - j : DENSE_DEPTH, euclidean);
        UNROLL(8)
        for (int t = 0; t < DENSE_K64; t++) {
            double *at = out + t * DENSE_ROWS64;
            vd_store(at, j == 0 ? s[0][t] : vd_add(vd_load(at), s[0][t]));
            vd_store(at + VDW, j == 0 ? s[1][t] : vd_add(vd_load(at + VDW), s[1][t]));
        }
    }
}

static NOINLINE void dense_tile64(const struct job *job, const double *x, const double *c,
                                  double *out) {
    if (job->a->metric == HF_EUCLIDEAN)
        dense_tile64_as(x, c, job, out, 1);
    else
        dense_tile64_as(x, c, job, out, 0);
}

/* A sum of squares, or x.c, times this is the key of centroid k. */
static double dense_factor(const struct job *job, int32_t k) {
    const hf_metric metric = job->a->metric;
    return metric == HF_EUCLIDEAN ? 1 : metric == HF_DOT ? -1 : -job->c_inverse[k];
}

static void dense_best64(const struct job *job, struct worker *w, const struct dense_keys *keys) {
    for (int i = keys->row; i < keys->row + DENSE_ROWS64; i += VDW) {
        vd best = vd_load(w->key_best + i);
        vd next = vd_load(w->key_next + i);
        vd arg = vd_load(w->key_arg + i);
        for (int t = 0; t < keys->count; t++) {
            const int32_t k = job->live[keys->first + t];
            const vd key = vd_mul(vd_load(keys->key64 + t * DENSE_ROWS64 + (i - keys->row)),
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

static void dense_collect64(const struct job *job, struct worker *w, const struct dense *q,
                            const struct dense_keys *keys) {
    for (int i = keys->row; i < keys->row + DENSE_ROWS64 && i < q->count; i++) {
        const int slot = q->slot[i];
        for (int t = 0; t < keys->count && !w->decided[slot]; t++) {
            const int32_t k = job->live[keys->first + t];
            const double key =
                keys->key64[t * DENSE_ROWS64 + (i - keys->row)] * dense_factor(job, k);
            if (!(key > w->key_best[i]))
                dense_add(job, w, slot, k);
        }
    }
}

static void dense_sweep64(const struct job *job, struct worker *w, const struct dense *q) {
    double out[DENSE_K64 * DENSE_ROWS64];
    for (int k = 0; k < job->n_live; k += DENSE_K64) {
        const int count = job->n_live - k < DENSE_K64 ? job->n_live - k : DENSE_K64;
        dense_pack_centroids64(job, w, k, count);
        for (int row = 0; row < q->count; row += DENSE_ROWS64) {
            dense_tile64(job, (const double *)w->own.x + (int64_t)row * job->d_pad,
                         (const double *)(const void *)w->rows, out);
            STRIKE_DENSE(KEY, w, q, row, DENSE_ROWS64, job->live + k, count, out);
            const struct dense_keys keys = {.key64 = out, .row = row, .first = k, .count = count};
            if (q->collect)
                dense_collect64(job, w, q, &keys);
            else
                dense_best64(job, w, &keys);
        }
    }
}

static int dense_conclude64(const struct job *job, struct worker *w, const struct dense *q) {
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

static void dense_f64(const struct job *job, struct worker *w, struct dense *q) {
    const int rows = (q->count + DENSE_ROWS64 - 1) / DENSE_ROWS64 * DENSE_ROWS64;
    for (int i = 0; i < rows; i += VDW) {
        dense_pack_panel64(job, w, q, i);
        vd_store(w->key_best + i, vd_set1(INFINITY));
        vd_store(w->key_next + i, vd_set1(INFINITY));
        vd_store(w->key_arg + i, vd_set1(0));
    }
    dense_sweep64(job, w, q);
    if (dense_conclude64(job, w, q) == 0)
        return;
    q->collect = 1;
    dense_sweep64(job, w, q);
}

/* ---- */

/* Labels of the rows in these slots of the block. Its packed rows are overwritten. */
static void dense_settle(const struct job *job, struct worker *w, const int *slot, int count) {
    const int wide = job->difference == DIFFERENCE_F32 ? DENSE_ROWS : DENSE_ROWS64;
    const int most = (int)(w->dense_bytes / DENSE_BYTES(job->d_pad)) * wide;
    for (int done = 0; job->difference != DIFFERENCE_NONE && done < count; done += most) {
        struct dense q = {slot + done, count - done < most ? count - done : most, 0};
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
