/* SPDX-License-Identifier: Apache-2.0
 * From scores to labels: which rows the filter decides, and what is written for a row once decided.
 */
#ifndef HF_ASSIGN_SETTLE_H
#define HF_ASSIGN_SETTLE_H

#include "ops/assign/assign_exact.h"
#include "ops/update/update_row.h"
#include <float.h>

#define PLAIN_REACH 0x1p20f /* |x'| + |c'| up to which nothing is out of range */

/* What the filter knows of VW rows (assign_bound.h). */
struct verdict {
    float threshold[VW]; /* a centroid scoring less cannot be the nearest */
    float upper[VW];     /* distances in units of the data, bounds kept by the caller */
    float lower[VW];
    float least[VW];      /* at most the distance to any centroid */
    uint32_t near_enough; /* bit: the row is in the filter's range */
};

/* What storing a row and the centroids for the tiles did. */
struct stored {
    vf row, any;    /* errors of scores for |c'| and for |x'|, */
    vf moved;       /* or how far the tiles' row is from x', */
    vf apart, best; /* and what distances to any centroid are off, in the mean with the best one */
};

/* Half jobs with Euclidean distances score what is stored: its distances are right, and off from
 * those of x' and c' by how far these were moved. */
ALWAYS_INLINE int scores_stored(const struct job *job) {
    return TILE_HAS_HALF && job->half && job->a->metric == HF_EUCLIDEAN;
}

ALWAYS_INLINE struct stored judge_stored(const struct job *job, const struct pack *p,
                                         const struct block *b, int slot) {
    const vf zero = vf_set1(0);
    const vf moved = vf_set1(job->bound.moved);
    const vf loss = b->loss ? vf_load(b->loss + slot) : zero;
    (void)p;
#if TILE_HAS_HALF
    if (scores_stored(job)) {
        const vf best = _mm512_i32gather_ps(vi_load(b->arg + slot), p->lost, 4);
        const vf mean = vf_mul(vf_set1(0.5f), vf_add(moved, best));
        return (struct stored){zero, zero, loss, vf_add(loss, moved), vf_add(loss, mean)};
    }
#endif
    return (struct stored){loss, moved, zero, zero, zero};
}

/* own: at most |x' - c'| of the best. q_low: at most the square of the tiles' row. e0, d0: errors
 * with |c'| <= cmax. */
ALWAYS_INLINE void judge_bounds(const struct job *job, const struct block *b, int slot, vf q_low,
                                vf own, vf e0, vf d0, struct verdict *out) {
    const vf zero = vf_set1(0);
    const vf two = vf_set1(2);
    const vf unit = vf_set1(1 / job->scale);
    const vf low = vf_set1(1 - 0x1p-20f);
    const vf sight = vf_set1(OUT_OF_SIGHT);
    const vf most = vf_set1(FLT_MAX);
    const vf l2 = vf_sub(q_low, vf_mul(two, vf_add(vf_load(b->next + slot), e0)));
    const vf m2 = vf_sub(q_low, vf_mul(two, vf_add(vf_load(b->best + slot), e0)));
    const vf others = vf_min(vf_sub(vf_mul(vf_sqrt(vf_max(l2, zero)), low), d0), sight);
    const vf any = vf_min(vf_sub(vf_mul(vf_sqrt(vf_max(m2, zero)), low), d0), sight);
    vf_store(out->upper, vf_mul(vf_mul(own, vf_set1(1 + 0x1p-20f)), unit));
    vf_store(out->lower, vf_min(vf_mul(vf_max(others, zero), unit), most));
    vf_store(out->least, vf_min(vf_mul(vf_max(any, zero), unit), most));
}

ALWAYS_INLINE void judge(const struct job *job, const struct pack *p, const struct block *b,
                         int slot, struct verdict *out) {
    const struct filter_bound *f = &job->bound;
    const struct stored s = judge_stored(job, p, b, slot);
    const vf q = vf_load(b->norm2 + slot);
    const vf best = vf_load(b->best + slot);
    const vf eps = vf_set1(f->eps);
    const vf delta = vf_set1(f->delta);
    const vf tiny = vf_set1(f->tiny);
    const vf cmax = vf_set1(f->cmax);
    const vf half = vf_set1(0.5f);
    const vf two = vf_set1(2);
    const vf zero = vf_set1(0);
    const vf x_up = vf_mul(q, vf_set1(1 + f->qerr));
    const vf norm = vf_mul(vf_sqrt(x_up), vf_set1(1 + 0x1p-10f));
    const vf q_up = vf_fma(s.moved, vf_fma(two, norm, s.moved), x_up);
    /* With |c'| <= cmax. Dot and cosine have no half norms, but C^2 / 2 stays: where float32 loses
     * a tiny |x'|^2 it alone keeps the rows open. */
    const vf eta = vf_set1(f->eta);
    const vf e0 = vf_fma(eps, vf_fma(vf_mul(cmax, half), cmax, vf_mul(norm, cmax)),
                         vf_fma(s.row, cmax, vf_fma(norm, s.any, eta)));
    const vf d0 = vf_add(vf_fma(delta, vf_add(norm, cmax), tiny), s.apart);
    const vf u0 = vf_max(vf_sub(q_up, vf_mul(two, vf_sub(best, e0))), zero);
    /* no centroid longer than |x'| + (distance to the best) can be as near as the best */
    const vf reach = vf_fma(vf_set1(4), d0, vf_mul(vf_sqrt(u0), vf_set1(1 + 0x1p-10f)));
    const vf c = job->a->metric == HF_EUCLIDEAN ? vf_min(cmax, vf_add(norm, reach)) : cmax;
    const vf any = vf_min(s.any, vf_mul(vf_set1(f->share), c));
    const vf e = vf_fma(eps, vf_fma(vf_mul(c, half), c, vf_mul(norm, c)),
                        vf_fma(s.row, c, vf_fma(norm, any, eta)));
    const vf d = vf_add(vf_fma(delta, vf_add(norm, c), tiny), s.best);
    const vf root = vf_sqrt(vf_max(vf_sub(q_up, vf_mul(two, vf_sub(best, e))), zero));
    vf margin = vf_mul(two, vf_add(e, vf_fma(root, d, vf_mul(d, d))));
    if (job->a->metric != HF_EUCLIDEAN)
        margin = vf_mul(two, vf_fma(vf_mul(vf_set1(4), delta), vf_mul(norm, cmax), e));
    vf_store(out->threshold, vf_sub(best, vf_mul(margin, vf_set1(1 + 0x1p-10f))));
    if (job->a->bounds) {
        const vf x_low = vf_mul(q, vf_set1(1 - f->qerr));
        const vf q_low = vf_sub(x_low, vf_mul(vf_mul(two, norm), s.moved));
        judge_bounds(job, b, slot, q_low, vf_add(root, d), e0, d0, out);
    }
    out->near_enough = vm_bits(vf_lt(reach, vf_set1(FAR_ROW))) &
                       vm_bits(vf_lt(q, vf_set1(FAR_ROW))) & vm_bits(vf_lt(vf_set1(LOST), best));
}

static void settle_weighted(const struct job *job, struct worker *w, const struct move *m) {
    const struct hf_assign_args *a = job->a;
    const double weight = a->weights ? a->weights[m->row] : 1;
    const void *row = job_row(job, m->row);
    update_move_row(&w->sums, row, a->x.dtype,
                    update_row_factor(a->metric, weight, row, a->x.dtype, job->d), weight, m->from,
                    m->to);
}

/* A worker's own sums are 0 when it begins to need them. */
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

/* Bring the rows that wait into the sums. Sums are asked for a row ahead: many are in the L2 cache
 * at best. */
static NOINLINE void settle_moves(const struct job *job, struct worker *w) {
    const struct hf_assign_args *a = job->a;
    const struct hf_sums *s = &w->sums;
    const bool light = update_is_light(s, a->x.dtype, a->metric, a->weights);
    if (w->n_moves > 0 && !w->has_sums)
        settle_begin(job, w);
    for (int m = 0; m < w->n_moves; m++) {
        const struct move *v = &w->moves[m];
        if (m + 1 < w->n_moves)
            update_fetch(s, v[1].from, v[1].to);
        if (light)
            update_move_light(s, job_row(job, v->row), v->from, v->to);
        else
            settle_weighted(job, w, v);
    }
    w->n_moves = 0;
}

/* A new label. The row may have left the caches, or never been there: it is asked for now and used
 * later. */
static NOINLINE void settle_change(const struct job *job, struct worker *w, int64_t i,
                                   int32_t label) {
    const struct hf_assign_args *a = job->a;
    const int32_t old = a->labels[i];
    a->labels[i] = label;
    w->stats.changed++;
    if (!a->sums)
        return;
    const char *row = job_row(job, i);
    const size_t bytes = hf_dtype_bytes(a->x.dtype) * (size_t)job->d;
    for (size_t at = 0; at < bytes && at < MOVES_FETCH; at += HF_ALIGN)
        __builtin_prefetch(row + at);
    w->moves[w->n_moves++] = (struct move){i, old, label};
    if (w->n_moves == MOVES_MAX)
        settle_moves(job, w);
}

/* Row i has this label now. */
ALWAYS_INLINE void settle_row(const struct job *job, struct worker *w, int64_t i, int32_t label) {
    if (job->a->labels[i] != label)
        settle_change(job, w, i, label);
}

/* The filter does not see the later ones of equal centroids: a row of the first has them at its own
 * distance. */
static void settle_bounds(const struct job *job, int64_t i, int32_t label, float upper,
                          float lower) {
    if (job->a->bounds) {
        job->a->bounds->upper[i] = upper;
        job->a->bounds->lower[i] = job->c_twin[label] ? 0 : lower;
    }
}

/* A row that stays open until enough of them have come together. */
static void leave_open(struct worker *w, int64_t row, float threshold, float lower) {
    const struct open_row o = {row, threshold, lower};
    w->open[w->n_open++] = o;
}

/* Are VW rows in sequence? Queues are not sorted: each one counts. */
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
    for (; changed; changed &= changed - 1)
        settle_change(job, w, first + __builtin_ctz(changed),
                      b->arg[slot + __builtin_ctz(changed)]);
}

/* VW rows in sequence that are plainly decided, where nothing else is asked for: judge() with the
 * largest margin there can be, r_b <= |x'| + |c'_b|, of what is stored where that is scored. false:
 * nothing was done. */
ALWAYS_INLINE int settle_plain(const struct job *job, struct worker *w, int slot) {
    const struct filter_bound *f = &job->bound;
    const struct block *b = &w->block;
    const vf best = vf_load(b->best + slot);
    const vf cmax = vf_set1(f->cmax);
    const vf q = vf_mul(vf_load(b->norm2 + slot), vf_set1(1 + f->qerr));
    const vf norm = vf_mul(vf_sqrt(q), vf_set1(1 + 0x1p-10f));
    const float apart = scores_stored(job) ? f->moved : 0; /* in distances, else in scores */
    const vf flat = vf_fma(norm, vf_set1(f->moved - apart), vf_set1(f->eta));
    const vf loss = b->loss ? vf_load(b->loss + slot) : vf_set1(0);
    const vf e = vf_fma(vf_set1(f->eps), vf_fma(vf_set1(f->cmax * 0.5f), cmax, vf_mul(norm, cmax)),
                        vf_fma(loss, cmax, flat));
    const vf reach = vf_add(norm, vf_add(cmax, vf_set1(apart)));
    const vf d = vf_fma(vf_set1(f->delta), reach, vf_set1(f->tiny + apart));
    const vf margin = vf_mul(vf_set1(2), vf_add(e, vf_fma(reach, d, vf_mul(d, d))));
    const vf threshold = vf_sub(best, vf_mul(margin, vf_set1(1 + 0x1p-9f)));
    const uint32_t clear = vm_bits(vf_lt(vf_load(b->next + slot), threshold)) &
                           vm_bits(vf_lt(reach, vf_set1(PLAIN_REACH))) &
                           vm_bits(vf_lt(vf_set1(LOST), best));
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
    if ((clear & v->near_enough) != all || !in_sequence(b, slot))
        return 0;
    const int32_t *labels = job->a->labels + first;
    settle_labels(job, w, slot);
    const struct hf_assign_bounds *bounds = job->a->bounds;
    for (int i = 0; job->any_twin && bounds && i < VW; i++)
        settle_bounds(job, first + i, labels[i], v->upper[i], v->lower[i]);
    if (!job->any_twin && bounds) {
        vf_store(bounds->upper + first, vf_load(v->upper));
        vf_store(bounds->lower + first, vf_load(v->lower));
    }
    return 1;
}

/* After tile_argmax over all centroids: decide the rows of the block or leave them open. */
static void settle_block(const struct job *job, struct worker *w) {
    struct block *b = &w->block;
    const int fine = !scores_stored(job) || job->i8 == 2;
    const int plain = fine && !job->a->bounds;
    for (int slot = 0; slot < b->rows; slot += VW) {
        struct verdict v;
        const int count = b->rows - slot < VW ? b->rows - slot : VW;
        if (plain && count == VW && settle_plain(job, w, slot))
            continue;
        judge(job, &job->all, b, slot, &v);
        if (count == VW && settle_all(job, w, slot, &v))
            continue;
        for (int i = 0; i < count; i++) {
            const int s = slot + i;
            const int known = (int)(v.near_enough >> i & 1);
            if (known && (!job->exact || b->next[s] < v.threshold[i])) {
                settle_row(job, w, block_row(b, s), b->arg[s]);
                settle_bounds(job, block_row(b, s), b->arg[s], v.upper[i], v.lower[i]);
            } else {
                leave_open(w, block_row(b, s), known ? v.threshold[i] : -INFINITY,
                           known && job->a->bounds ? v.least[i] : 0);
            }
        }
    }
    b->rows = 0;
}

/* Slot s = slot + i after tile_argmax over the moved centroids. A row whose own one stayed keeps it
 * unless a moved one may have come nearer. The others know how near the moved ones are, their own
 * among them, and their bound how near those are that stayed. false: it must look at all. */
ALWAYS_INLINE int settle_moved(const struct job *job, struct worker *w, int slot, int i,
                               const struct verdict *v) {
    const struct block *b = &w->block;
    const int s = slot + i;
    const int64_t row = block_row(b, s);
    const int32_t label = job->a->labels[row];
    const struct hf_assign_bounds *bounds = job->a->bounds;
    const float lower = bounds->lower[row];
    if (!(v->near_enough >> i & 1) || label < 0)
        return 0;
    if (!(bounds->drift[label] > 0)) {
        if (!(bounds->upper[row] < v->least[i]))
            return 0;
        settle_bounds(job, row, label, bounds->upper[row], smaller(lower, v->least[i]));
        return 1;
    }
    if (!(b->next[s] < v->threshold[i] && v->upper[i] < lower))
        return 0;
    const int32_t nearest = job->moved.index[b->arg[s]];
    settle_row(job, w, row, nearest);
    settle_bounds(job, row, nearest, v->upper[i], smaller(lower, v->lower[i]));
    return 1;
}

/* settle_moved() of VW rows in sequence, all within the filter's range; what becomes of a row is
 * the same in both. false: nothing was done. */
ALWAYS_INLINE int settle_moved_all(const struct job *job, struct worker *w, int slot,
                                   const struct verdict *v) {
    const struct block *b = &w->block;
    const struct hf_assign_bounds *bounds = job->a->bounds;
    const uint32_t all = (uint32_t)((1u << VW) - 1);
    const int64_t first = block_row(b, slot);
    if (job->any_twin || v->near_enough != all || !in_sequence(b, slot))
        return 0;
    const vi label = vi_load(job->a->labels + first);
    if (vi_negative(label))
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
    vf_store(bounds->upper + first, vf_select(decided, own, upper));
    vf_store(bounds->lower + first, vf_select(decided, others, lower));
    w->stats.partial += __builtin_popcount(vm_bits(decided));
    uint32_t nearer = vm_bits(decided) & vm_bits(moved);
    for (; nearer; nearer &= nearer - 1) {
        const int i = __builtin_ctz(nearer);
        settle_row(job, w, first + i, job->moved.index[b->arg[slot + i]]);
    }
    uint32_t left = ~vm_bits(decided) & all;
    for (; left; left &= left - 1)
        w->full[w->n_full++] = first + __builtin_ctz(left);
    return 1;
}

/* After tile_argmax over the moved centroids: rows that must look at all are queued. */
static void settle_partial(const struct job *job, struct worker *w) {
    struct block *b = &w->block;
    for (int slot = 0; slot < b->rows; slot += VW) {
        struct verdict v;
        judge(job, &job->moved, b, slot, &v);
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
