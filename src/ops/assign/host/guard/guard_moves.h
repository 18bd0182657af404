/* SPDX-License-Identifier: Apache-2.0
 * Verified moves: before a row goes from one cluster to another, float64 confirms that its new
 * centroid is nearer than the old one, or as near with a lower index (V1), and that the score by
 * which the filter chose it is its score within the bound (V2). A row that fails is compared with
 * all centroids in float64, and goes where that says. */
#ifndef HF_ASSIGN_GUARD_MOVES_H
#define HF_ASSIGN_GUARD_MOVES_H

#include "ops/assign/host/centred.h"
#include "ops/assign/host/exact.h"
#include "ops/assign/host/guard/guard_labels.h"
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

/* Sums over the columns of a row, as it is stored: of its square, shifted (x' = that * scale), and
 * of its squared differences from two centroids. */
struct guard_sums {
    double row, to, from;
};

ALWAYS_INLINE struct guard_sums guard_sums_as(const struct job *job, const struct move *m,
                                              hf_dtype dtype, hf_dtype c_dtype) {
    const void *x = job_row(job, m->row);
    const void *ct = hf_array_row(&job->a->c, m->to);
    const void *cf = hf_array_row(&job->a->c, m->from < 0 ? m->to : m->from);
    vd sum[3] = {vd_set1(0), vd_set1(0), vd_set1(0)};
    int64_t j = 0;
    for (; j + VDW <= job->d; j += VDW) {
        const vd v = vd_load_as(x, dtype, j);
        const vd own = vd_sub(v, vd_from_f32(job->shift + j));
        const vd a = vd_sub(v, vd_load_as(ct, c_dtype, j));
        const vd b = vd_sub(v, vd_load_as(cf, c_dtype, j));
        sum[0] = vd_fma(own, own, sum[0]);
        sum[1] = vd_fma(a, a, sum[1]);
        sum[2] = vd_fma(b, b, sum[2]);
    }
    struct guard_sums s = {vd_sum(sum[0]), vd_sum(sum[1]), vd_sum(sum[2])};
    for (; j < job->d; j++) {
        const double v = hf_load_f64(x, dtype, j);
        const double own = v - (double)job->shift[j];
        const double a = v - hf_load_f64(ct, c_dtype, j);
        const double b = v - hf_load_f64(cf, c_dtype, j);
        s.row += own * own;
        s.to += a * a;
        s.from += b * b;
    }
    return s;
}

ALWAYS_INLINE struct guard_sums guard_sums_of(const struct job *job, const struct move *m,
                                              hf_dtype dtype) {
    return job->a->c.dtype == HF_F32 ? guard_sums_as(job, m, dtype, HF_F32)
                                     : guard_sums_as(job, m, dtype, HF_F64);
}

static NOINLINE struct guard_sums guard_add_up(const struct job *job, const struct move *m) {
    switch (job->a->x.dtype) {
    case HF_F64:
        return guard_sums_of(job, m, HF_F64);
    case HF_F16:
        return guard_sums_of(job, m, HF_F16);
    case HF_BF16:
        return guard_sums_of(job, m, HF_BF16);
    case HF_U8:
        return guard_sums_of(job, m, HF_U8);
    default:
        return guard_sums_of(job, m, HF_F32);
    }
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

/* V2: how far the filter's score may be from the true one. norm: |x'|. */
static double guard_score_bound(const struct job *job, double norm, double c) {
    const struct filter_bound *f = &job->bound;
    const double cmax = (double)f->cmax;
    const double u = 0x1p-24;
    double e = (double)f->eps * (norm * c + c * c / 2) + (double)f->eta;
    e += norm * fmin((double)f->moved, (double)f->share * fmax(c, (double)SHARE_LEAST));
    e += 4 * u * (norm * c + c * c); /* storing x' and c' in float32 */
    if (job->i16)
        e += 0.5 * sqrt((double)job->d) * 0x1p-14 * (1 + 0x1p-6) * norm * c;
    if (job->guard.scores)
        e += (double)job->guard.width * (norm * cmax + cmax * cmax / 2);
    return e * (1 + 0x1p-6);
}

/* V1 and, as far as the filter chose it, V2 of a row: its score and length in float64. */
struct guard_view {
    int nearer;
    double score, norm;
};

static struct guard_view guard_look(const struct job *job, struct worker *w, const struct move *m) {
    const double scale = (double)job->scale;
    struct guard_view v = {.nearer = 1};
    double sum;
    if (job->a->metric == HF_EUCLIDEAN) {
        const struct guard_sums s = guard_add_up(job, m);
        const double share = (double)(job->d + 64) * 0x1p-52;
        /* near ties, and what is no number, are for the reference */
        if (m->from >= 0 && !(s.to < s.from * (1 - 2 * share)))
            v.nearer = !(s.to > s.from * (1 + 2 * share)) && guard_nearer(job, w, m, &sum);
        v.norm = sqrt(s.row) * scale;
        v.score = (s.row - s.to) * scale * scale / 2;
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
    const struct guard_view v = guard_look(job, w, m);
    if (!v.nearer && job->exact)
        return 0;
    /* the filter did not choose it, or by a score of stored rows, or of a very short one */
    if (m->score != m->score || (TILE_HAS_HALF && job->half) || !(v.norm > 0x1p-50))
        return 1;
    return c < OUT_OF_RANGE &&
           fabs(v.score - (double)m->score) <= guard_score_bound(job, v.norm, c);
}

/* The bounds of a row are those of another label: they decide nothing. */
static void guard_forget_bounds(const struct job *job, int64_t i) {
    if (job->a->bounds) {
        job->a->bounds->upper[i] = FLT_MAX;
        job->a->bounds->lower[i] = 0;
    }
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
    labels[m->row] = right;
    guard_forget_bounds(job, m->row);
    guard_tell(job, w, HF_FAULT_MOVES, m->row, m->to, HF_BEHAVIOUR_UNKNOWN);
    m->to = right;
    w->stats.changed -= right == m->from;
    return right != m->from;
}

/* Verify the rows that wait to be moved; those that stay where they were go. */
static void guard_moves(const struct job *job, struct worker *w) {
    int kept = 0;
    if (!guard_checks(&job->guard, HF_FAULT_MOVES))
        return;
    for (int i = 0; i < w->n_moves; i++) {
        struct move m = w->moves[i];
        if (m.from < -1 || m.from >= job->k) { /* it came in so: nobody knows its sums */
            guard_tell_lost(job, w, HF_FAULT_MOVES, m.row);
            continue;
        }
        w->guard.checked++;
        if (guard_confirms(job, w, &m) || guard_refuse(job, w, &m))
            w->moves[kept++] = m;
    }
    w->n_moves = kept;
}

#endif
