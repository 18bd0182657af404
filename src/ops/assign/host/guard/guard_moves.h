/* SPDX-License-Identifier: Apache-2.0
 * Verified moves: before a row goes from one cluster to another, float64 confirms that its new
 * centroid is nearer than the old one, or as near with a lower index (V1), and that the score by
 * which the filter chose it is its score within the bound (V2). A row that fails is compared with
 * all centroids in float64, and goes where that says. */
#ifndef HF_ASSIGN_GUARD_MOVES_H
#define HF_ASSIGN_GUARD_MOVES_H

#include "ops/assign/host/centred.h"
#include "ops/assign/host/exact.h"
#include "ops/assign/host/gather.h"
#include "ops/assign/host/guard/guard_batch.h"
#include "ops/assign/host/strike.h"
#include <float.h>
#include <math.h>

/* The label of a row by reference distances to all centroids. */
static NOINLINE int32_t guard_nearest(const struct job *job, struct worker *w, int64_t row) {
    double least = INFINITY;
    int32_t nearest = INT32_MAX;
    exact_load(job, w, row);
    w->slot64 = -1;
    for (int done = 0; done < job->n_live; done += CHAINS) {
        const int more = job->n_live - done < CHAINS ? job->n_live - done : CHAINS;
        const void *c[CHAINS];
        double sum[CHAINS];
        for (int i = 0; i < CHAINS; i++)
            c[i] = hf_array_row(&job->a->c, job->live[done + (i < more ? i : 0)]);
        exact_sums(job, w->x64, c, sum);
        for (int i = 0; i < more; i++) {
            const int32_t k = job->live[done + i];
            const double d = exact_distance(job, w, k, sum[i]);
            if (d < least || (d == least && k < nearest)) {
                least = d;
                nearest = k;
            }
        }
    }
    return nearest == INT32_MAX ? 0 : nearest;
}

/* Squared distances of a row from the centroid that it moves to and from its old one, each wrong by
 * at most `share` of its size. */
struct guard_sums {
    double to, from, share;
};

/* In float32, for rows and centroids that are exact there. from NULL: there was none. */
ALWAYS_INLINE struct guard_sums guard_sums_f32(const void *row, hf_dtype dtype, const float *to,
                                               const float *from, int64_t d) {
    const size_t size = gather_bytes(dtype);
    const char *x = row;
    vf a = vf_set1(0), b = a, c = a, e = a;
    int64_t j = 0;
    for (; j + 2 * VW <= d; j += 2 * VW) {
        const vf v = gather_raw(x + (size_t)j * size, dtype);
        const vf w = gather_raw(x + (size_t)(j + VW) * size, dtype);
        a = guard_add_square(a, v, vf_load(to + j));
        c = guard_add_square(c, w, vf_load(to + j + VW));
        b = from ? guard_add_square(b, v, vf_load(from + j)) : b;
        e = from ? guard_add_square(e, w, vf_load(from + j + VW)) : e;
    }
    for (; j < d; j += VW) {
        const int n = d - j < VW ? (int)(d - j) : VW;
        double tail[VW] = {0};
        memcpy(tail, x + (size_t)j * size, (size_t)n * size);
        const vf v = gather_raw(tail, dtype);
        a = guard_add_square(a, v, n < VW ? vf_load_n(to + j, n) : vf_load(to + j));
        if (from)
            b = guard_add_square(b, v, n < VW ? vf_load_n(from + j, n) : vf_load(from + j));
    }
    return (struct guard_sums){(double)vf_sum(vf_add(a, c)), (double)vf_sum(vf_add(b, e)),
                               (double)(d / VW + 16) * 0x1p-24};
}

ALWAYS_INLINE struct guard_sums guard_sums_f64(const void *row, hf_dtype dtype, const void *to,
                                               const void *from, hf_dtype c_dtype, int64_t d) {
    vd sum[2] = {vd_set1(0), vd_set1(0)};
    for (int64_t j = 0; j < d; j += VDW) {
        const int n = d - j < VDW ? (int)(d - j) : VDW;
        const vd v = vd_load_as_n(row, dtype, j, n);
        const vd a = vd_sub(v, vd_load_as_n(to, c_dtype, j, n));
        const vd b = vd_sub(v, vd_load_as_n(from, c_dtype, j, n));
        sum[0] = vd_fma(a, a, sum[0]);
        sum[1] = vd_fma(b, b, sum[1]);
    }
    return (struct guard_sums){vd_sum(sum[0]), vd_sum(sum[1]), (double)(d + 64) * 0x1p-52};
}

ALWAYS_INLINE struct guard_sums guard_sums_as(const struct job *job, const struct move *m,
                                              hf_dtype dtype, int wide) {
    const hf_array *c = &job->a->c;
    const void *row = job_row(job, m->row);
    const void *to = hf_array_row(c, m->to);
    const void *from = m->from < 0 ? NULL : hf_array_row(c, m->from);
    if (!wide)
        return from ? guard_sums_f32(row, dtype, to, from, job->d)
                    : guard_sums_f32(row, dtype, to, NULL, job->d);
    from = from ? from : to;
    return c->dtype == HF_F32 ? guard_sums_f64(row, dtype, to, from, HF_F32, job->d)
                              : guard_sums_f64(row, dtype, to, from, HF_F64, job->d);
}

static NOINLINE struct guard_sums guard_add_up_f32(const struct job *job, const struct move *m) {
    switch (job->a->x.dtype) {
    case HF_F16:
        return guard_sums_as(job, m, HF_F16, 0);
    case HF_BF16:
        return guard_sums_as(job, m, HF_BF16, 0);
    case HF_U8:
        return guard_sums_as(job, m, HF_U8, 0);
    default:
        return guard_sums_as(job, m, HF_F32, 0);
    }
}

static NOINLINE struct guard_sums guard_add_up_f64(const struct job *job, const struct move *m) {
    switch (job->a->x.dtype) {
    case HF_F64:
        return guard_sums_as(job, m, HF_F64, 1);
    case HF_F16:
        return guard_sums_as(job, m, HF_F16, 1);
    case HF_BF16:
        return guard_sums_as(job, m, HF_BF16, 1);
    case HF_U8:
        return guard_sums_as(job, m, HF_U8, 1);
    default:
        return guard_sums_as(job, m, HF_F32, 1);
    }
}

/* Do sums say that `to` is nearer? */
static inline int guard_is_clear(const struct move *m, const struct guard_sums *s) {
    return m->from < 0 || s->to < s->from * (1 - 2 * s->share);
}

/* float32 where it is enough: no near tie, nothing that underflows. */
static inline struct guard_sums guard_add_up(const struct job *job, const struct move *m) {
    if (job->a->x.dtype != HF_F64 && job->a->c.dtype == HF_F32) {
        const struct guard_sums s = guard_add_up_f32(job, m);
        if (s.to > 0x1p-80 && s.to < 0x1p100 && guard_is_clear(m, &s))
            return s;
    }
    return guard_add_up_f64(job, m);
}

/* V1 by the reference: is `to` the nearer one of two? */
static int guard_nearer(const struct job *job, struct worker *w, const struct move *m,
                        double *sum_to) {
    const int32_t to = m->to;
    const int32_t from = m->from < 0 ? m->to : m->from;
    const void *c[CHAINS];
    double sum[CHAINS];
    exact_load(job, w, m->row);
    w->slot64 = -1;
    for (int i = 0; i < CHAINS; i++)
        c[i] = hf_array_row(&job->a->c, i == 0 ? to : from);
    exact_sums(job, w->x64, c, sum);
    const double d_to = exact_distance(job, w, to, sum[0]);
    const double d_from = exact_distance(job, w, from, sum[1]);
    *sum_to = sum[0];
    return d_to < d_from || (d_to == d_from && to <= from);
}

/* V2: how far the filter's score may be from the true one. norm: |x'|. No function of the library
 * is called: every row that moves comes here. */
static inline double guard_score_bound(const struct job *job, double norm, double c) {
    const struct filter_bound *f = &job->bound;
    const double cmax = (double)f->cmax;
    const double u = 0x1p-24;
    const double moved = (double)f->moved;
    const double share = (double)f->share * (c > (double)SHARE_LEAST ? c : (double)SHARE_LEAST);
    double e = (double)f->eps * (norm * c + c * c / 2) + (double)f->eta;
    e += norm * (share < moved ? share : moved);
    e += 4 * u * (norm * c + c * c); /* storing x' and c' in float32 */
    if (job->i16)
        e += 0.5 * job->guard.root * 0x1p-14 * (1 + 0x1p-6) * norm * c;
    if (job->guard.scores)
        e += (double)job->guard.width * (norm * cmax + cmax * cmax / 2);
    return e * (1 + 0x1p-6);
}

/* V1 and, as far as the filter chose it, V2 of a row: its score, at most `slack` from the true one,
 * and its length. */
struct guard_view {
    int nearer;
    double score, norm, slack;
};

static struct guard_view guard_look(const struct job *job, struct worker *w, const struct move *m) {
    const double scale = (double)job->scale;
    struct guard_view v = {.nearer = 1};
    double sum;
    if (job->a->metric == HF_EUCLIDEAN) {
        const struct guard_sums s = guard_add_up(job, m);
        const double square = s.to * scale * scale;
        const double own = (double)m->norm2;
        const double qerr = (double)job->bound.qerr;
        /* near ties, and what is no number, are for the reference */
        if (!guard_is_clear(m, &s))
            v.nearer = !(s.to > s.from * (1 + 2 * s.share)) && guard_nearer(job, w, m, &sum);
        v.norm = sqrt(own * (1 + qerr));
        v.score = (own - square) / 2;
        v.slack = own * (qerr + 0x1p-21) + square * s.share;
        return v;
    }
    v.nearer = guard_nearer(job, w, m, &sum);
    v.norm = hf_reference_norm(w->x64, job->d) * scale;
    v.score = sum * scale * centred_factor(job, m->to);
    return v;
}

/* Does float64 confirm the move? */
static int guard_confirms(const struct job *job, struct worker *w, const struct move *m) {
    if (m->to < 0 || m->to >= job->k || job->a->labels[m->row] != m->to)
        return 0;
    const double c = job->c_length[m->to];
    if (m->from < 0 && m->score != m->score) /* neither V1 nor V2 applies */
        return 1;
    const struct guard_view v = guard_look(job, w, m);
    if (!v.nearer && job->exact)
        return 0;
    /* the filter did not choose it, or by a score of stored rows, or of a very short one */
    if (m->score != m->score || (TILE_HAS_HALF && job->half) || !(v.norm > 0x1p-50))
        return 1;
    return c < OUT_OF_RANGE &&
           fabs(v.score - (double)m->score) <= guard_score_bound(job, v.norm, c) + v.slack;
}

/* The bounds of a row are those of another label: they decide nothing. */
static void guard_forget_bounds(const struct job *job, struct worker *w, int64_t i) {
    if (job->a->bounds)
        w->guard.bounds += hf_bounds_put(job->a->bounds, i, FLT_MAX, 0);
}

/* Store the right label of a row where a wrong one stands: first as it was stored, which tells how
 * the fault behaves, and then so that it stays right. */
static enum hf_behaviour guard_store(const struct job *job, int64_t row, int32_t right) {
    volatile int32_t *label = job->a->labels + row;
    const int32_t had = *label;
    *label = right;
    STRIKE_ONE(LABEL, row, -1, job->a->labels + row, &had);
    const int32_t stands = *label;
    *label = right;
    return stands == right ? HF_BEHAVIOUR_TRANSIENT
           : stands == had ? HF_BEHAVIOUR_PERMANENT
                           : HF_BEHAVIOUR_INTERMITTENT;
}

/* A move that float64 does not confirm. Returns whether the row moves all the same, maybe to
 * another cluster. */
static NOINLINE int guard_refuse(const struct job *job, struct worker *w, struct move *m) {
    int32_t *labels = job->a->labels;
    const int32_t right = guard_nearest(job, w, m->row);
    w->guard.suspected++;
    if (right == m->to && right == labels[m->row]) {
        w->guard.beyond++;
        return 1;
    }
    /* if one of both is right, it is what was added to the sum of labels */
    if (right != m->to && right != labels[m->row])
        guard_correct_label(job, w, m->row, m->to, right);
    /* the store may be what is wrong: else what was decided, and there is nothing to repeat */
    const enum hf_behaviour stored = guard_store(job, m->row, right);
    guard_forget_bounds(job, w, m->row);
    guard_tell(job, w, HF_FAULT_MOVES, m->row, m->to,
               right == m->to ? stored : HF_BEHAVIOUR_UNKNOWN);
    m->to = right;
    w->stats.changed -= right == m->from;
    return right != m->from;
}

/* Verify moves; those that stay where they were go. Returns how many are left, at `to`. */
static int guard_verify(const struct job *job, struct worker *w, int from, int count, int to) {
    const uint32_t right =
        guard_batches(job) ? guard_batch_confirms(job, w->moves + from, count) : 0;
    for (int i = 0; i < count; i++) {
        struct move m = w->moves[from + i];
        if (m.from < -1 || m.from >= job->k) { /* it came in so: nobody knows its sums */
            guard_tell_lost(job, w, HF_FAULT_MOVES, m.row);
            continue;
        }
        if ((right >> i & 1) || guard_confirms(job, w, &m) || guard_refuse(job, w, &m))
            w->moves[to++] = m;
    }
    return to;
}

/* Verify the rows that wait to be moved. */
static void guard_moves(const struct job *job, struct worker *w) {
    int kept = 0;
    if (w->n_moves == 0 || !guard_checks(&job->guard, HF_FAULT_MOVES))
        return;
    const size_t c_bytes = hf_row_bytes(&job->a->c);
    w->guard.checked += (uint64_t)w->n_moves;
    for (int i = 0; i < w->n_moves; i += VW) {
        for (int ahead = i + VW; ahead < i + 2 * VW && ahead < w->n_moves; ahead++)
            guard_fetch(job, &w->moves[ahead], c_bytes);
        kept = guard_verify(job, w, i, w->n_moves - i < VW ? w->n_moves - i : VW, kept);
    }
    w->n_moves = kept;
}

#endif
