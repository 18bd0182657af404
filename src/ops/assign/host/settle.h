/* SPDX-License-Identifier: Apache-2.0
 * From scores to labels: which rows the filter decides, and what is written for a row once decided.
 */
#ifndef HF_ASSIGN_SETTLE_H
#define HF_ASSIGN_SETTLE_H

#include "ops/assign/host/differences.h"
#include "ops/assign/host/guard/guard_labels.h"
#include "ops/assign/host/guard/guard_limit.h"
#include "ops/assign/host/guard/guard_moves.h"
#include "ops/assign/host/guard/guard_near.h"
#include "ops/assign/host/strike.h"
#include "ops/update/update_row.h"
#include <float.h>

#define REACH_ROUNDS 6      /* at most, of a few operations each */
#define PLAIN_REACH 0x1p20f /* |x'| + |c'| up to which nothing is out of range */

/* What the filter knows of VW rows (host/bound.h). */
struct verdict {
    float threshold[VW]; /* a centroid scoring less cannot be the nearest */
    /* Distances in units of the data, only if the caller has bounds: */
    float upper[VW];   /* at least that to the best centroid */
    float lower[VW];   /* at most that to any other */
    float least[VW];   /* at most that to any centroid */
    uint32_t in_range; /* bit i: row i is in the filter's range */
};

/* Are scores exact for the stored rows and centroids? In half jobs with Euclidean distances they
 * are. Distances then are off by how far storing moved x' and c'. */
ALWAYS_INLINE int scores_stored(const struct job *job) {
    return TILE_HAS_HALF && job->half && job->a->metric == HF_EUCLIDEAN;
}

/* What is known of VW rows and their best scores. */
struct scored {
    vf norm;        /* at least |x'| */
    vf q_up;        /* at least the squared length of the row that is scored, */
    vf q_low;       /* at most that */
    vf best;        /* score */
    vf loss;        /* how far storing moved the row, */
    vf best_loss;   /* and the best centroid (stored scores) */
    vf best_length; /* at least |c'| of the best */
    vf reach;       /* at least the distance to the best, and so to the nearest: length_longest() */
};

ALWAYS_INLINE struct scored load_scored(const struct job *job, const struct pack *p,
                                        const struct block *b, int slot) {
    const struct filter_bound *f = &job->bound;
    const vf two = vf_set1(2);
    const vf q = vf_load(b->norm2 + slot);
    const vf x_up = vf_mul(q, vf_set1(1 + f->qerr));
    const vi arg = vi_load(b->arg + slot);
    struct scored r;
    r.norm = vf_mul(vf_sqrt(x_up), vf_set1(1 + 0x1p-10f));
    r.best = vf_load(b->best + slot);
    r.loss = b->loss ? vf_load(b->loss + slot) : vf_set1(0);
    /* a protected call does not lean on one word of memory */
    r.best_length =
        TILE_HAS_GUARD && job->guard.scores ? vf_set1(f->cmax) : vf_gather(p->length, arg);
    r.best_loss = scores_stored(job) ? vf_gather(p->loss, arg) : vf_set1(0);
    const vf moved = scores_stored(job) ? r.loss : vf_set1(0);
    r.q_up = vf_fma(moved, vf_fma(two, r.norm, moved), x_up);
    r.q_low = vf_sub(vf_mul(q, vf_set1(1 - f->qerr)), vf_mul(vf_mul(two, r.norm), moved));
    return r;
}

/* The most that storing moved a centroid with |c'| <= c. */
ALWAYS_INLINE vf storing_error(const struct job *job, vf c) {
    const struct filter_bound *f = &job->bound;
    return vf_min(vf_set1(f->moved), vf_mul(vf_set1(f->share), vf_max(c, vf_set1(SHARE_LEAST))));
}

/* E(C): the error of scores of centroids with |c'| <= c. */
ALWAYS_INLINE vf score_error(const struct job *job, const struct scored *r, vf c) {
    const struct filter_bound *f = &job->bound;
    const vf half = vf_set1(job->a->metric == HF_EUCLIDEAN ? 0.5f : 0);
    const vf length = vf_fma(vf_mul(c, half), c, vf_mul(r->norm, c));
    const vf one = vf_add(c, vf_set1(1));
    const vf eta = vf_fma(vf_mul(vf_set1(f->flush), one), one, vf_set1(f->fixed));
    const vf e = vf_fma(vf_set1(f->eps), length, eta);
    if (scores_stored(job))
        return e;
    return vf_add(e, vf_fma(r->loss, c, vf_mul(r->norm, storing_error(job, c))));
}

/* D(C): the error of their distances. best: the mean of that of one and of the best one. */
ALWAYS_INLINE vf distance_error(const struct job *job, const struct scored *r, vf c, int best) {
    const struct filter_bound *f = &job->bound;
    const vf d = vf_fma(vf_set1(f->delta), vf_add(r->norm, c), vf_set1(f->tiny));
    if (!scores_stored(job))
        return d;
    const vf any = storing_error(job, c);
    const vf mean = vf_mul(vf_set1(0.5f), vf_add(any, r->best_loss));
    return vf_add(d, vf_add(r->loss, best ? mean : any));
}

/* How far a fault may move one score and not be noticed (docs/numerics/guard.md); 0 where not all
 * scores are tested. Where many centroids lie in few columns that is more than most gaps between
 * scores, and all rows would stay open; a fault that passes there is left to checks of moves. */
ALWAYS_INLINE vf guard_width(const struct job *job, vf norm) {
    if (!job->guard.scores || job->guard.share > 1 || slab_serves(job))
        return vf_set1(0);
    return vf_fma(vf_set1(job->guard.width), guard_reach(job, norm), vf_set1(job->bound.eta));
}

/* At least the lengths of the nearest centroid and of the best. The distance to the best is at most
 * |x'| + |c'|, and the nearest is no farther. */
ALWAYS_INLINE vf length_first(const struct job *job, const struct scored *r) {
    const struct filter_bound *f = &job->bound;
    const vf cmax = vf_set1(f->cmax);
    if (job->a->metric != HF_EUCLIDEAN || (scores_stored(job) && !(f->share < 0x1p-6f)))
        return cmax;
    const vf twice = vf_fma(vf_set1(2), r->norm, r->best_length);
    return vf_min(cmax, vf_fma(twice, vf_set1(1 + 0x1p-3f), vf_set1(8 * f->tiny)));
}

/* The same after a few rounds, each with the bounds of the one before. That helps rows close to the
 * origin if some centroids are far away. Sets r->reach. */
ALWAYS_INLINE vf length_longest(const struct job *job, struct scored *r) {
    const vf wider = vf_set1(1 + 0x1p-10f);
    vf c = length_first(job, r);
    vf open = c; /* of rows that go on; 0 if the last round did not halve it */
    r->reach = vf_set1(0);
    for (int round = 0; round < REACH_ROUNDS && vm_bits(vf_lt(vf_set1(0), open)); round++) {
        const vf e = vf_add(score_error(job, r, c), guard_width(job, r->norm));
        const vf d = distance_error(job, r, c, 0);
        const vf u = vf_max(vf_sub(r->q_up, vf_mul(vf_set1(2), vf_sub(r->best, e))), vf_set1(0));
        const vf far = vf_fma(vf_set1(4), d, vf_mul(vf_sqrt(u), wider));
        const vm goes_on = vf_lt(vf_set1(0), open);
        r->reach = vf_select(goes_on, far, r->reach);
        if (job->a->metric != HF_EUCLIDEAN)
            break;
        const vf less = vf_min(c, vf_add(r->norm, far));
        c = vf_select(goes_on, less, c);
        open = vf_select(vf_lt(less, vf_mul(open, vf_set1(0.5f))), less, vf_set1(0));
    }
    return c;
}

/* Bounds on distances from scores. own: at least |x' - c'| of the best. Centroids longer than c are
 * far from the row because of their length alone. */
ALWAYS_INLINE void decide_bounds(const struct job *job, const struct block *b, int slot,
                                 const struct scored *r, vf own, struct verdict *out) {
    const vf zero = vf_set1(0);
    const vf two = vf_set1(2);
    const vf unit = vf_set1(1 / job->scale);
    const vf low = vf_set1(1 - 0x1p-20f);
    const vf most = vf_set1(FLT_MAX);
    const vf cmax = vf_set1(job->bound.cmax);
    const vf c = vf_min(cmax, vf_fma(vf_set1(4), r->reach, r->norm));
    const vf e = vf_add(score_error(job, r, c), guard_width(job, r->norm));
    const vf d = distance_error(job, r, c, 0);
    const vf beyond = vf_mul(vf_sub(c, r->norm), low);
    const vf sight = vf_select(vf_lt(c, cmax), vf_sub(beyond, d), vf_set1(OUT_OF_SIGHT));
    const vf l2 = vf_sub(r->q_low, vf_mul(two, vf_add(vf_load(b->next + slot), e)));
    const vf m2 = vf_sub(r->q_low, vf_mul(two, vf_add(r->best, e)));
    const vf others = vf_min(vf_sub(vf_mul(vf_sqrt(vf_max(l2, zero)), low), d), sight);
    const vf any = vf_min(vf_sub(vf_mul(vf_sqrt(vf_max(m2, zero)), low), d), sight);
    vf_store(out->upper, vf_mul(vf_mul(own, vf_set1(1 + 0x1p-20f)), unit));
    vf_store(out->lower, vf_min(vf_mul(vf_max(others, zero), unit), most));
    vf_store(out->least, vf_min(vf_mul(vf_max(any, zero), unit), most));
}

/* The verdict on VW rows from their best two scores (docs/numerics/filter.md). */
ALWAYS_INLINE void decide(const struct job *job, const struct pack *p, const struct block *b,
                          int slot, struct verdict *out) {
    const struct filter_bound *f = &job->bound;
    struct scored r = load_scored(job, p, b, slot);
    const vf two = vf_set1(2);
    const vf c = length_longest(job, &r);
    const vf e = score_error(job, &r, c);
    const vf d = distance_error(job, &r, c, 1);
    const vf fault = guard_width(job, r.norm);
    const vf least_best = vf_sub(r.best, vf_add(e, fault));
    const vf root = vf_sqrt(vf_max(vf_sub(r.q_up, vf_mul(two, least_best)), vf_set1(0)));
    vf margin = vf_mul(two, vf_add(e, vf_fma(root, d, vf_mul(d, d))));
    if (job->a->metric != HF_EUCLIDEAN)
        margin = vf_mul(two, vf_fma(vf_set1(4 * f->delta), vf_mul(r.norm, c), e));
    margin = vf_add(margin, fault);
    vf_store(out->threshold, vf_sub(r.best, vf_mul(margin, vf_set1(1 + 0x1p-10f))));
    if (job->a->bounds)
        decide_bounds(job, b, slot, &r, vf_add(root, d), out);
    const vf q = vf_load(b->norm2 + slot);
    const vf least = vf_set1(job->a->metric == HF_EUCLIDEAN ? -1 : LEAST_ROW);
    out->in_range = vm_bits(vf_lt(r.reach, vf_set1(FAR_ROW))) &
                    vm_bits(vf_lt(q, vf_set1(FAR_ROW))) & vm_bits(vf_lt(least, q)) &
                    vm_bits(vf_lt(vf_set1(EXCLUDED), r.best));
}

static void settle_weighted(const struct job *job, struct worker *w, const struct move *m) {
    const struct hf_assign_args *a = job->a;
    const double weight = a->weights ? a->weights[m->row] : 1;
    const void *row = job_row(job, m->row);
    const struct update_row r = {.row = row,
                                 .dtype = a->x.dtype,
                                 .factor =
                                     update_row_factor(a->metric, weight, row, a->x.dtype, job->d),
                                 .weight = weight,
                                 .from = m->from,
                                 .to = m->to};
    update_move_row(&w->sums, &r);
}

/* Clear a worker's own sums before their first use. */
static void settle_begin(const struct job *job, struct worker *w) {
    const struct hf_sums *s = &w->sums;
    w->has_sums = 1;
    if (s->sum == job->a->sums->sum)
        return;
    memset(s->sum, 0, sizeof(int64_t) * (size_t)(s->k * s->d * s->limbs));
    memset(s->count, 0, sizeof(int64_t) * (size_t)s->k);
    if (s->weight)
        memset(s->weight, 0, sizeof(int64_t) * (size_t)(s->k * s->limbs));
}

/* Bring waiting rows [begin, end) into the sums. Those of the next row are prefetched, because few
 * of them are in the L1 cache. */
static void settle_sums(const struct job *job, struct worker *w, int begin, int end) {
    const struct hf_assign_args *a = job->a;
    const struct hf_sums *s = &w->sums;
    const bool light = update_is_light(s, a->x.dtype, a->metric, a->weights);
    if (!w->has_sums)
        settle_begin(job, w);
    for (int m = begin; m < end; m++) {
        const struct move *v = &w->moves[m];
        if (m + 1 < end)
            update_fetch(s, v[1].from, v[1].to);
        if (light)
            update_move_light(s, job_row(job, v->row), v->from, v->to);
        else
            settle_weighted(job, w, v);
    }
}

/* Rows that wait are verified, and those that do move go into the sums while they are at hand. */
static NOINLINE void settle_moves(const struct job *job, struct worker *w) {
    const int verify = guard_checks(&job->guard, HF_FAULT_MOVES);
    for (int at = 0; at < w->n_moves; at += VW) {
        const int count = w->n_moves - at < VW ? w->n_moves - at : VW;
        const int end = verify ? guard_moves(job, w, at, count) : at + count;
        if (job->a->sums && at < end)
            settle_sums(job, w, at, end);
    }
    w->n_moves = 0;
}

/* A new label, whose score the filter found for a row of this |x'|^2; NaN: it did not decide. The
 * row may not be in a cache, so it is prefetched now and used later. */
static NOINLINE void settle_change(const struct job *job, struct worker *w, int64_t i,
                                   int32_t label, float score, float norm2) {
    const struct hf_assign_args *a = job->a;
    const int32_t old = a->labels[i];
    a->labels[i] = label;
    STRIKE_ONE(LABEL, i, -1, &a->labels[i], &old);
    w->stats.changed++;
    if (!a->sums && !guard_checks(&job->guard, HF_FAULT_MOVES))
        return;
    job_fetch_row(job, i, MOVES_FETCH);
    w->moves[w->n_moves++] = (struct move){i, old, label, score, norm2};
    STRIKE_ONE(MOVE, i, -1, &w->moves[w->n_moves - 1].to, NULL);
    if (w->n_moves == MOVES_MAX)
        settle_moves(job, w);
}

/* Row i has this label now. */
ALWAYS_INLINE void settle_row(const struct job *job, struct worker *w, int64_t i, int32_t label,
                              float score, float norm2) {
    guard_note_label(job, w, i, label);
    if (job->a->labels[i] != label)
        settle_change(job, w, i, label, score, norm2);
}

/* The filter excludes later ones of equal centroids. A row of the first one has another centroid at
 * the same distance, so its lower bound is 0. */
static void settle_bounds(const struct job *job, struct worker *w, int64_t i, int32_t label,
                          float upper, float lower) {
    if (job->a->bounds)
        w->guard.bounds +=
            hf_bounds_put(job->a->bounds, i, upper, job->has_equal[label] ? 0 : lower);
}

/* Write the bounds of VW rows. */
ALWAYS_INLINE void settle_bounds_all(const struct job *job, struct worker *w, int64_t first,
                                     vf upper, vf lower) {
    const struct hf_assign_bounds *b = job->a->bounds;
    const vi had = vi_add(vi_bits(vf_load(b->upper + first)), vi_bits(vf_load(b->lower + first)));
    const vi more = vi_sub(vi_add(vi_bits(upper), vi_bits(lower)), had);
    vi_store(w->guard.bound_lanes, vi_add(vi_load(w->guard.bound_lanes), more));
    vf_store(b->upper + first, upper);
    vf_store(b->lower + first, lower);
}

/* Leave a row open until enough of them have come together. */
static void leave_open(struct worker *w, int64_t row, float threshold, float lower) {
    const struct open_row o = {
        row, threshold, lower, {guard_fold_row(row), guard_fold_threshold(threshold)}};
    w->open[w->n_open++] = o;
    STRIKE_ONE(THRESHOLD, row, -1, &w->open[w->n_open - 1].threshold, NULL);
    STRIKE_ONE(OPEN, row, -1, &w->open[w->n_open - 1].row, NULL);
}

/* Are VW rows in sequence? Queues are not sorted, so it compares each one. */
ALWAYS_INLINE int in_sequence(const struct block *b, int slot) {
    const int64_t *row = b->row + slot;
    int64_t off = 0;
    if (b->first >= 0)
        return 1;
    UNROLL(16)
    for (int i = 1; i < VW; i++)
        off |= row[i] - row[0] - i;
    return off == 0;
}

/* The labels of VW rows in sequence. */
ALWAYS_INLINE void settle_labels(const struct job *job, struct worker *w, int slot) {
    const struct block *b = &w->block;
    const int64_t first = block_row(b, slot);
    uint32_t changed = vi_differ(vi_load(b->arg + slot), vi_load(job->a->labels + first));
    guard_note_labels(job, w, first, vi_load(b->arg + slot));
    for (; changed; changed &= changed - 1) {
        const int s = slot + __builtin_ctz(changed);
        settle_change(job, w, first + __builtin_ctz(changed), b->arg[s], b->best[s], b->norm2[s]);
    }
}

/* The margin of VW rows by length_first(), for centroids whose lengths differ much. */
ALWAYS_INLINE vf settle_margin(const struct job *job, const struct block *b, int slot, vf *reach) {
    const struct scored r = load_scored(job, &job->all, b, slot);
    const vf c = length_first(job, &r);
    const vf d = distance_error(job, &r, c, 0);
    *reach = vf_add(r.norm, c);
    return vf_mul(vf_set1(2), vf_add(score_error(job, &r, c), vf_fma(*reach, d, vf_mul(d, d))));
}

/* The fast path if the caller has no bounds: VW rows in sequence that the largest possible margin
 * decides, with |x'| + |c'| for the distance to the best. false: nothing was done. */
ALWAYS_INLINE int settle_plain(const struct job *job, struct worker *w, int slot) {
    const struct filter_bound *f = &job->bound;
    const struct block *b = &w->block;
    const vf best = vf_load(b->best + slot);
    const vf cmax = vf_set1(f->cmax);
    const vf q = vf_mul(vf_load(b->norm2 + slot), vf_set1(1 + f->qerr));
    const vf norm = vf_mul(vf_sqrt(q), vf_set1(1 + 0x1p-10f));
    /* how far storing moved centroids is an error of distances or, else, of scores */
    const float apart = scores_stored(job) ? f->moved : 0;
    const vf fixed = vf_fma(norm, vf_set1(f->moved - apart), vf_set1(f->eta));
    const vf loss = b->loss ? vf_load(b->loss + slot) : vf_set1(0);
    const vf e = vf_fma(vf_set1(f->eps), vf_fma(vf_set1(f->cmax * 0.5f), cmax, vf_mul(norm, cmax)),
                        vf_fma(loss, cmax, fixed));
    vf reach = vf_add(norm, vf_add(cmax, vf_set1(apart)));
    const vf d = vf_fma(vf_set1(f->delta), reach, vf_set1(f->tiny + apart));
    vf margin = vf_mul(vf_set1(2), vf_add(e, vf_fma(reach, d, vf_mul(d, d))));
    if (job->differ && job->a->metric == HF_EUCLIDEAN && !scores_stored(job))
        margin = settle_margin(job, b, slot, &reach);
    margin = vf_add(margin, guard_width(job, norm));
    const vf threshold = vf_sub(best, vf_mul(margin, vf_set1(1 + 0x1p-9f)));
    const uint32_t clear = vm_bits(vf_lt(vf_load(b->next + slot), threshold)) &
                           vm_bits(vf_lt(reach, vf_set1(PLAIN_REACH))) &
                           vm_bits(vf_lt(vf_set1(EXCLUDED), best));
    if (clear != (uint32_t)((1u << VW) - 1) || !in_sequence(b, slot))
        return 0;
    settle_labels(job, w, slot);
    return 1;
}

/* The common case: VW rows in sequence, all decided. false: nothing was done. */
ALWAYS_INLINE int settle_all(const struct job *job, struct worker *w, int slot,
                             const struct verdict *v) {
    const struct block *b = &w->block;
    const uint32_t all = (uint32_t)((1u << VW) - 1);
    const uint32_t clear =
        job->exact ? vm_bits(vf_lt(vf_load(b->next + slot), vf_load(v->threshold))) : all;
    const int64_t first = block_row(b, slot);
    if ((clear & v->in_range) != all || !in_sequence(b, slot))
        return 0;
    const int32_t *labels = job->a->labels + first;
    settle_labels(job, w, slot);
    const struct hf_assign_bounds *bounds = job->a->bounds;
    for (int i = 0; job->any_equal && bounds && i < VW; i++)
        settle_bounds(job, w, first + i, labels[i], v->upper[i], v->lower[i]);
    if (!job->any_equal && bounds)
        settle_bounds_all(job, w, first, vf_load(v->upper), vf_load(v->lower));
    return 1;
}

/* A row that the filter decided, where the call looks at each: if it is not right beyond doubt,
 * float64 against all centroids says what is. */
static NOINLINE void settle_near(const struct job *job, struct worker *w, int s, int i,
                                 struct verdict *v) {
    struct block *b = &w->block;
    const int64_t row = block_row(b, s);
    const int32_t had = b->arg[s];
    if (guard_near(job, w, row, had, v->upper[i], v->lower[i])) {
        v->lower[i] *= NEAR_SHRINK;
        return;
    }
    b->arg[s] = guard_nearest(job, w, row);
    b->best[s] = NAN; /* no score stands for it */
    v->upper[i] = FLT_MAX;
    v->lower[i] = 0;
    w->guard.suspected++;
    if (b->arg[s] == had)
        w->guard.beyond++;
    else
        guard_tell(job, w, HF_FAULT_ROWS, row, had, HF_BEHAVIOUR_UNKNOWN);
}

/* After tile_argmax over all centroids: decide the rows of the block or leave them open. */
static void settle_block(const struct job *job, struct worker *w) {
    struct block *b = &w->block;
    const int fine = !scores_stored(job) || job->i8 == 2;
    const int single = job->guard.near && job->exact; /* rows are looked at one by one */
    const int plain = fine && !job->a->bounds && !single;
    for (int slot = 0; slot < b->rows; slot += VW) {
        struct verdict v;
        const int count = b->rows - slot < VW ? b->rows - slot : VW;
        if (plain && count == VW && settle_plain(job, w, slot))
            continue;
        decide(job, &job->all, b, slot, &v);
        if (count == VW && !single && settle_all(job, w, slot, &v))
            continue;
        for (int i = 0; i < count; i++) {
            const int s = slot + i;
            const int known = (int)(v.in_range >> i & 1);
            if (known && (!job->exact || b->next[s] < v.threshold[i])) {
                if (single)
                    settle_near(job, w, s, i, &v);
                settle_row(job, w, block_row(b, s), b->arg[s], b->best[s], b->norm2[s]);
                settle_bounds(job, w, block_row(b, s), b->arg[s], v.upper[i], v.lower[i]);
            } else {
                /* NaN: suspect, INFINITY and its like: out of range */
                const float nothing = b->best[s] == b->best[s] ? -INFINITY : NAN;
                leave_open(w, block_row(b, s), known ? v.threshold[i] : nothing,
                           known && job->a->bounds && !single ? v.least[i] : 0);
            }
        }
    }
    b->rows = 0;
}

/* Slot s = slot + i after tile_argmax over the moved centroids. If the row's own centroid stayed,
 * it remains the nearest unless a moved one may have come nearer. If it moved, the filter knows the
 * nearest of the moved ones, and the lower bound holds for those that stayed. false: the row must
 * be compared with all centroids. */
ALWAYS_INLINE int settle_moved(const struct job *job, struct worker *w, int slot, int i,
                               const struct verdict *v) {
    const struct block *b = &w->block;
    const int s = slot + i;
    const int64_t row = block_row(b, s);
    const int32_t label = job->a->labels[row];
    const struct hf_assign_bounds *bounds = job->a->bounds;
    const float lower = bounds->lower[row];
    const int near = job->guard.near;
    const float shrink = near ? NEAR_SHRINK : 1;
    if (!(v->in_range >> i & 1) || (uint32_t)label >= (uint32_t)job->k)
        return 0;
    if (!(bounds->drift[label] > 0)) {
        const float least = smaller(lower, v->least[i]) * shrink;
        if (!(bounds->upper[row] < v->least[i]) ||
            (near && !guard_near(job, w, row, label, bounds->upper[row], least)))
            return 0;
        guard_note_label(job, w, row, label);
        settle_bounds(job, w, row, label, bounds->upper[row], least);
        return 1;
    }
    if (!(b->next[s] < v->threshold[i] && v->upper[i] < lower))
        return 0;
    const int32_t nearest = job->moved.index[b->arg[s]];
    const float others = smaller(lower, v->lower[i]) * shrink;
    if (near && !guard_near(job, w, row, nearest, v->upper[i], others))
        return 0;
    settle_row(job, w, row, nearest, b->best[s], b->norm2[s]);
    settle_bounds(job, w, row, nearest, v->upper[i], others);
    return 1;
}

/* settle_moved() of VW rows in sequence, all in the filter's range, with the same results. false:
 * nothing was done. */
ALWAYS_INLINE int settle_moved_all(const struct job *job, struct worker *w, int slot,
                                   const struct verdict *v) {
    const struct block *b = &w->block;
    const struct hf_assign_bounds *bounds = job->a->bounds;
    const uint32_t all = (uint32_t)((1u << VW) - 1);
    const int64_t first = block_row(b, slot);
    if (job->any_equal || job->guard.near || v->in_range != all || !in_sequence(b, slot))
        return 0;
    const vi label = vi_load(job->a->labels + first);
    if (vi_beyond(label, (int32_t)job->k)) /* -1, or a fault */
        return 0;
    const vf upper = vf_load(bounds->upper + first);
    const vf lower = vf_load(bounds->lower + first);
    const vf least = vf_load(v->least);
    const vm moved = vf_lt(vf_set1(0), vf_gather(bounds->drift, label));
    const vm clear = vf_lt(vf_load(b->next + slot), vf_load(v->threshold));
    const vf known = vf_select(clear, vf_load(v->upper), vf_set1(INFINITY));
    const vf own = vf_select(moved, known, upper);
    const vm decided = vf_lt(own, vf_select(moved, lower, least));
    const vf others = vf_min(lower, vf_select(moved, vf_load(v->lower), least));
    settle_bounds_all(job, w, first, vf_select(decided, own, upper),
                      vf_select(decided, others, lower));
    w->stats.partial += __builtin_popcount(vm_bits(decided));
    guard_note_kept(job, w, first, vm_bits(decided) & ~vm_bits(moved));
    uint32_t nearer = vm_bits(decided) & vm_bits(moved);
    for (; nearer; nearer &= nearer - 1) {
        const int i = __builtin_ctz(nearer);
        settle_row(job, w, first + i, job->moved.index[b->arg[slot + i]], b->best[slot + i],
                   b->norm2[slot + i]);
    }
    uint32_t left = ~vm_bits(decided) & all;
    for (; left; left &= left - 1)
        w->full[w->n_full++] = first + __builtin_ctz(left);
    return 1;
}

/* After tile_argmax over the moved centroids: decide the rows of the block, or queue them for all
 * centroids. */
static void settle_partial(const struct job *job, struct worker *w) {
    struct block *b = &w->block;
    for (int slot = 0; slot < b->rows; slot += VW) {
        struct verdict v;
        decide(job, &job->moved, b, slot, &v);
        const int count = b->rows - slot < VW ? b->rows - slot : VW;
        if (count == VW && settle_moved_all(job, w, slot, &v))
            continue;
        for (int i = 0; i < count; i++) {
            if (settle_moved(job, w, slot, i, &v))
                w->stats.partial++;
            else
                w->full[w->n_full++] = block_row(b, slot + i);
        }
    }
    b->rows = 0;
}

#endif
