/* SPDX-License-Identifier: Apache-2.0
 * Verified moves: before a row goes from one cluster to another, float64 confirms that its new
 * centroid is nearer than the old one, or as near with a lower index (V1), and that the score by
 * which the filter chose it is its score within the bound (V2). A row that fails is compared with
 * all centroids in float64, and goes where that says. Where the centroids are known that its old
 * label was found for, the new one must not have been nearer among them (V3): else the row was kept
 * where it was by a wrong score, and centroids came from a wrong label. */
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
 * at most `share` of its size; and the same among the centroids before, or 0. */
struct guard_sums {
    double to, from, share;
    double had_to, had_from;
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
                               (double)(d / VW + 16) * 0x1p-24, 0, 0};
}

/* From the first `count` of the centroids `at`, or (4) from all. */
ALWAYS_INLINE struct guard_sums guard_sums_f64(const void *row, hf_dtype dtype,
                                               const void *const at[GUARD_OF], int count,
                                               hf_dtype c_dtype, int64_t d) {
    vd sum[GUARD_OF] = {vd_set1(0), vd_set1(0), vd_set1(0), vd_set1(0)};
    for (int64_t j = 0; j < d; j += VDW) {
        const int n = d - j < VDW ? (int)(d - j) : VDW;
        const vd v = vd_load_as_n(row, dtype, j, n);
        UNROLL(4)
        for (int i = 0; i < count; i++) {
            const vd difference = vd_sub(v, vd_load_as_n(at[i], c_dtype, j, n));
            sum[i] = vd_fma(difference, difference, sum[i]);
        }
    }
    return (struct guard_sums){vd_sum(sum[GUARD_TO]), vd_sum(sum[GUARD_FROM]),
                               (double)(d + 64) * 0x1p-52, vd_sum(sum[GUARD_HAD_TO]),
                               vd_sum(sum[GUARD_HAD_FROM])};
}

ALWAYS_INLINE struct guard_sums guard_sums_as(const struct job *job, const struct move *m,
                                              hf_dtype dtype) {
    const hf_array *c = &job->a->c;
    const int known = job->guard.before && m->from >= 0;
    const hf_array *old = known ? &job->a->before : c;
    const int32_t from = m->from < 0 ? m->to : m->from;
    const void *row = job_row(job, m->row);
    const void *const at[GUARD_OF] = {hf_array_row(c, m->to), hf_array_row(c, from),
                                      hf_array_row(old, m->to), hf_array_row(old, from)};
    if (c->dtype == HF_F32)
        return known ? guard_sums_f64(row, dtype, at, GUARD_OF, HF_F32, job->d)
                     : guard_sums_f64(row, dtype, at, 2, HF_F32, job->d);
    return known ? guard_sums_f64(row, dtype, at, GUARD_OF, HF_F64, job->d)
                 : guard_sums_f64(row, dtype, at, 2, HF_F64, job->d);
}

ALWAYS_INLINE struct guard_sums guard_narrow_as(const struct job *job, const struct move *m,
                                                hf_dtype dtype) {
    const void *row = job_row(job, m->row);
    const float *to = hf_array_row(&job->a->c, m->to);
    return m->from < 0 ? guard_sums_f32(row, dtype, to, NULL, job->d)
                       : guard_sums_f32(row, dtype, to, hf_array_row(&job->a->c, m->from), job->d);
}

static NOINLINE struct guard_sums guard_add_up_f32(const struct job *job, const struct move *m) {
    switch (job->a->x.dtype) {
    case HF_F16:
        return guard_narrow_as(job, m, HF_F16);
    case HF_BF16:
        return guard_narrow_as(job, m, HF_BF16);
    case HF_U8:
        return guard_narrow_as(job, m, HF_U8);
    default:
        return guard_narrow_as(job, m, HF_F32);
    }
}

static NOINLINE struct guard_sums guard_add_up_f64(const struct job *job, const struct move *m) {
    switch (job->a->x.dtype) {
    case HF_F64:
        return guard_sums_as(job, m, HF_F64);
    case HF_F16:
        return guard_sums_as(job, m, HF_F16);
    case HF_BF16:
        return guard_sums_as(job, m, HF_BF16);
    case HF_U8:
        return guard_sums_as(job, m, HF_U8);
    default:
        return guard_sums_as(job, m, HF_F32);
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

/* How much nearer than `from` a row is to `to` among the centroids before, as cosine or as inner
 * product: more than 0 beyond doubt. */
static double guard_was_steeper(const struct job *job, struct worker *w, const struct move *m) {
    const int32_t k[2] = {m->to, m->from};
    double product[2];
    double size = 0;
    exact_load(job, w, m->row);
    w->slot64 = -1;
    for (int i = 0; i < 2; i++) {
        const void *c = hf_array_row(&job->a->before, k[i]);
        const hf_dtype dtype = job->a->before.dtype;
        vd sum = vd_set1(0);
        vd square = sum;
        for (int64_t j = 0; j < job->d; j += VDW) {
            const int n = job->d - j < VDW ? (int)(job->d - j) : VDW;
            const vd v = vd_load_as_n(c, dtype, j, n);
            sum = vd_fma(vd_load_as_n(w->x64, HF_F64, j, n), v, sum);
            square = vd_fma(v, v, square);
        }
        const double length = sqrt(vd_sum(square));
        product[i] = job->a->metric == HF_DOT ? vd_sum(sum) : vd_sum(sum) / length;
        size += job->a->metric == HF_DOT ? length : 1;
    }
    return product[0] - product[1] -
           (double)(job->d + 64) * 0x1p-50 * size * hf_reference_norm(w->x64, job->d);
}

/* V1 and, as far as the filter chose it, V2 of a row: its score, at most `slack` from the true one,
 * and its length. */
struct guard_view {
    int nearer, early; /* early: V3 */
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
        v.early = s.had_to < s.had_from * (1 - 2 * s.share) && s.had_from > 0x1p-500 &&
                  s.had_from < 0x1p500;
        return v;
    }
    v.nearer = guard_nearer(job, w, m, &sum);
    v.early = job->guard.before && m->from >= 0 && guard_was_steeper(job, w, m) > 0;
    v.norm = hf_reference_norm(w->x64, job->d) * scale;
    v.score = sum * scale * centred_factor(job, m->to);
    return v;
}

/* Does float64 confirm the move? *early: 1 if it should have been made in the call before. */
static int guard_confirms(const struct job *job, struct worker *w, const struct move *m,
                          int *early) {
    if (m->to < 0 || m->to >= job->k || job->a->labels[m->row] != m->to)
        return 0;
    const double c = job->c_length[m->to];
    if (m->from < 0 && m->score != m->score) /* neither V1 nor V2 applies */
        return 1;
    const struct guard_view v = guard_look(job, w, m);
    if (!v.nearer && job->exact)
        return 0;
    *early = v.early;
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

/* Verify moves [begin, begin + count), at most VW; those that stay where they were go. Returns
 * where the others end. */
static int guard_verify(const struct job *job, struct worker *w, int begin, int count) {
    uint32_t early = 0;
    const uint32_t right =
        guard_batches(job) ? guard_batch_confirms(job, w->moves + begin, count, &early) : 0;
    int end = begin;
    if (right == (uint32_t)((1u << count) - 1) && early == 0)
        return begin + count;
    for (int i = 0; i < count; i++) {
        struct move m = w->moves[begin + i];
        if (m.from < -1 || m.from >= job->k) { /* it came in so: nobody knows its sums */
            guard_tell_lost(job, w, HF_FAULT_MOVES, m.row);
            continue;
        }
        int soon = (int)(early >> i & 1);
        if (!(right >> i & 1) && !guard_confirms(job, w, &m, &soon) && !guard_refuse(job, w, &m))
            continue;
        if (soon)
            guard_tell_lost(job, w, HF_FAULT_MOVES, m.row);
        w->moves[end++] = m;
    }
    return end;
}

/* The same, with the rows of the moves behind them on their way to the L1 cache. */
static int guard_moves(const struct job *job, struct worker *w, int begin, int count) {
    w->guard.checked += (uint64_t)count;
    for (int ahead = begin + VW; ahead < begin + 2 * VW && ahead < w->n_moves; ahead++)
        guard_fetch(job, &w->moves[ahead]);
    return guard_verify(job, w, begin, count);
}

#endif
