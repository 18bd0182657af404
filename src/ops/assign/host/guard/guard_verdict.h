/* SPDX-License-Identifier: Apache-2.0
 * Verdicts: a row that a check suspects has its label from float64 by now. The tiles compute it
 * once more, in the same lane of the same worker. Its bits tell a fault from rounding without
 * another threshold: the unit is deterministic, so other bits are a fault that went away, and the
 * same bits are rounding unless no rounding can be so large. */
#ifndef HF_ASSIGN_GUARD_VERDICT_H
#define HF_ASSIGN_GUARD_VERDICT_H

#include "ops/assign/host/guard/guard_open.h"
#include "ops/assign/host/guard/guard_prepare.h"
#include "ops/assign/host/prepare.h"
#include "ops/assign/host/start.h"

#define GUARD_BEYOND 2.5 /* the threshold, by the largest sum of the sample, */
#define GUARD_RANGE 16   /* but at least this part of the largest threshold */

/* The centroids were packed again: it was a fault if that changed a word. */
static void guard_tell_pack(const struct job *job, struct worker *w, const struct pack *p,
                            uint32_t before) {
    w->slot64 = -1;
    w->guard.suspected++;
    if (guard_sum_pack(job, p) == before)
        w->guard.beyond++;
    else if (job->guard.share > 1) /* rows that were not tested have been compared with it */
        guard_tell_lost(job, w, HF_FAULT_PACK, -1);
    else
        guard_tell(job, w, HF_FAULT_PACK, -1, -1, HF_BEHAVIOUR_UNKNOWN);
}

#if TILE_HAS_GUARD
/* Pack the centroids and their checksums again. What is right stays as it is, so other workers may
 * go on reading; one worker at a time does it. */
static NOINLINE void guard_pack_again(struct job *job, struct worker *w, const struct pack *p) {
    struct guard_making making = {job, p == &job->all ? &job->all : &job->moved};
    const int worker = (int)(w - job->workers);
    while (atomic_exchange_explicit(&job->guard.packing, 1, memory_order_acquire)) {
    }
    const uint32_t before = guard_sum_pack(job, p);
    for (int64_t slot = 0; slot < p->groups * TILE_K; slot++)
        if (p->check.role[slot] < GUARD_CHECK)
            pack_slot(job, w, making.pack, slot);
    guard_make_test(&making, worker, 0, p->check.tests);
    atomic_store_explicit(&job->guard.packing, 0, memory_order_release);
    guard_tell_pack(job, w, p, before);
}

static int guard_same_bits(float a, float b) {
    uint32_t bits[2];
    memcpy(&bits[0], &a, sizeof a);
    memcpy(&bits[1], &b, sizeof b);
    return bits[0] == bits[1];
}

/* No rounding is as large as this sum (docs/numerics/guard.md). */
static int guard_impossible(const struct guard_sweep *s, int slot, float z) {
    float t[VW];
    const double columns = (double)(s->p->check.groups_each * TILE_K);
    const float kappa = guard_kappa_impossible(columns, tile_dot_error(s->job, 0));
    vf_store(t, guard_threshold(s->job, &s->w->block, slot - slot % VW, kappa));
    return !(fabsf(z) <= t[slot % VW]);
}

/* What the second computation says. */
static enum hf_behaviour guard_behaviour(const struct guard_sweep *s,
                                         const struct guard_suspect *from, int *rounding) {
    const struct block *b = &s->w->block;
    const int at = from->lane;
    const int first = at - at % VW;
    const uint32_t bit = 1u << (at % VW);
    const float z = guard_worst(s, at);
    *rounding = 0;
    if (from->fault == HF_FAULT_OPERAND) {
        if (!(guard_wrong_words(s->job, b, first) & bit))
            return HF_BEHAVIOUR_TRANSIENT;
        return guard_words_of(s->job, b, at) == from->words ? HF_BEHAVIOUR_PERMANENT
                                                            : HF_BEHAVIOUR_INTERMITTENT;
    }
    const int rows = (guard_beyond(s, first) & bit) != 0;
    const int best = ((guard_wrong_best(s, first) | guard_wrong_index(s, first)) & bit) != 0;
    const int same = guard_same_bits(z, from->z) && guard_same_bits(b->best[at], from->best) &&
                     guard_same_bits(b->next[at], from->next) && b->arg[at] == from->arg;
    if (!rows && !best)
        return HF_BEHAVIOUR_TRANSIENT;
    if (!same)
        return HF_BEHAVIOUR_INTERMITTENT;
    *rounding = !best && from->fault == HF_FAULT_ROWS && !guard_impossible(s, at, z);
    return HF_BEHAVIOUR_PERMANENT;
}

#endif

#if TILE_HAS_SUMS
/* Pack the centroids and their column again, as guard_pack_again() of other tiles. */
static NOINLINE void guard_pack_again(struct job *job, struct worker *w, const struct pack *p) {
    struct pack *pack = p == &job->all ? &job->all : &job->moved;
    while (atomic_exchange_explicit(&job->guard.packing, 1, memory_order_acquire)) {
    }
    const uint32_t before = guard_sum_pack(job, p);
    for (int64_t slot = 0; slot < p->groups * TILE_K; slot++)
        pack_slot(job, w, pack, slot);
    guard_amx_make(job, pack, NULL, (int)(w - job->workers));
    atomic_store_explicit(&job->guard.packing, 0, memory_order_release);
    guard_tell_pack(job, w, p, before);
}
#endif

/* All rows of one tile become row `row`, and its scores are computed. */
static struct guard_sweep guard_replay(const struct job *job, struct worker *w,
                                       const struct guard_suspect *s) {
    struct block *b = &w->block;
    const struct guard_sweep sweep = {.job = job, .w = w, .p = s->moved ? &job->moved : &job->all};
    b->rows = TILE_ROWS;
    for (int i = 0; i < TILE_ROWS; i++)
        b->row[i] = s->row;
    load_block(job, w);
    best_clear(b);
    w->guard.replay = 1;
    tile_argmax(job, w, sweep.p);
    w->guard.replay = 0;
    return sweep;
}

/* At the end of a worker's rows. */
static NOINLINE void guard_verdicts(const struct job *job, struct worker *w) {
    int faults = 0;
    for (int i = 0; i < w->guard.suspects; i++) {
        const struct guard_suspect *from = &w->guard.suspect[i];
        int rounding;
        const struct guard_sweep s = guard_replay(job, w, from);
        const enum hf_behaviour behaviour = guard_behaviour(&s, from, &rounding);
        faults += !rounding;
        if (rounding)
            w->guard.beyond++;
        else
            guard_tell_suspect(job, w, from, behaviour);
    }
    /* of so many at once the rest is what the first ones are */
    if (faults > 0)
        w->guard.confirmed += w->guard.more;
    else
        w->guard.beyond += w->guard.more;
    w->guard.repaired += faults > 0 && job->guard.correct ? w->guard.more : 0;
    w->guard.more = 0;
    w->guard.suspects = 0;
    w->block.rows = 0;
}

/* Rounding of this data: the sums of some rows from all over them give the threshold. A fault here
 * widens it, and the margin with it, to the largest one at most. */
static void guard_calibrate(struct job *job) {
    float largest = 0;
    struct worker *w = &job->workers[0];
    if (!job->guard.scores || job->guard.share > 1 || !job->usable || job->n < GUARD_CALIBRATE ||
        !guard_checks(&job->guard, HF_FAULT_ROWS))
        return;
    tile_begin();
    const struct block *b = sample_scores(job, GUARD_SAMPLE);
    tile_end();
    for (int slot = 0; slot < b->rows; slot++) {
        float one[VW];
        vf_store(one, guard_threshold(job, b, slot - slot % VW, 1));
        for (int q = 0; q < job->all.check.tests; q++)
            largest = larger(fabsf(*guard_z(w, q, slot)) / one[slot % VW], largest);
    }
    w->block.rows = 0;
    const double most = guard_kappa_most(job);
    const double kappa = fmax((double)largest * GUARD_BEYOND, most / GUARD_RANGE);
    guard_set_kappa(job, kappa < most ? kappa : most);
}

/* Labels of a bucket that do not add up: float64 says which one is wrong, and the sum how: a label
 * that was stored wrongly has its row in the sums of the clusters already, a row that was forgotten
 * has not. */
static NOINLINE void guard_repair_bucket(const struct job *job, int64_t bucket, uint64_t lacks) {
    struct worker *w = &job->workers[0];
    struct hf_event event = {
        .finding = {.fault = HF_FAULT_OPEN, .unit = guard_bucket_worker(job, bucket)}};
    const int64_t begin = bucket << GUARD_BUCKET;
    const int64_t most = begin + (INT64_C(1) << GUARD_BUCKET);
    const int64_t end = most < job->n ? most : job->n;
    int32_t *labels = job->a->labels;
    w->guard.suspected++;
    for (int64_t i = begin; i < end && job->exact; i++) {
        const int32_t had = labels[i];
        const int32_t right = guard_nearest(job, w, i);
        const uint64_t stored = guard_term(i, right) - guard_term(i, had);
        if (lacks == stored && right != had) {
            event.behaviour = guard_store(job, i, right);
            event.finding.row = i;
            event.finding.column = had;
            guard_tell_event(job, w, event);
            return;
        }
        if (lacks + guard_term(i, had) != 0 && lacks != guard_term(i, had))
            continue;
        if (lacks + guard_term(i, had) == 0 && right != had)
            settle_change(job, w, i, right, NAN, 0);
        guard_forget_bounds(job, w, i);
        event.finding.row = i;
        event.finding.column = had;
        guard_tell_event(job, w, event);
        return;
    }
    guard_tell_lost(job, w, HF_FAULT_OPEN, begin);
}

static void guard_check_buckets(void *user, int worker, int64_t begin, int64_t end) {
    struct job *job = user;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        job->guard.bucket[i] -= guard_sum_labels(job, i);
}

/* After the last row: are packs what they were? */
static void guard_check_packs(struct job *job) {
    const struct pack *pack[] = {&job->all, &job->moved};
    for (int i = 0; i < 2 && guard_sums_packs(job); i++)
        if (guard_sum_pack(job, pack[i]) != pack[i]->check.words)
            guard_tell_lost(job, &job->workers[0], HF_FAULT_PACK, -1);
}

/* After the last row: do labels in memory add up to what was decided? */
static void guard_check_labels(struct job *job, hf_pool *pool) {
    if (!job->guard.labels)
        return;
    for (int i = 0; i < job->n_workers; i++)
        guard_flush(job, &job->workers[i], 0);
    hf_parallel_for(pool, job->guard.buckets, 1, guard_check_buckets, job);
    for (int64_t i = 0; i < job->guard.buckets; i++)
        if (job->guard.bucket[i] != 0)
            guard_repair_bucket(job, i, job->guard.bucket[i]);
    settle_moves(job, &job->workers[0]);
}

/* What the workers' rows add to the sum of the bounds. */
static void guard_sum_bounds(const struct job *job) {
    const struct hf_assign_bounds *b = job->a->bounds;
    for (int i = 0; b && b->sum && i < job->n_workers; i++) {
        const struct guard_block *g = &job->workers[i].guard;
        *b->sum += g->bounds;
        for (int lane = 0; lane < VW; lane++)
            *b->sum += (uint32_t)g->bound_lanes[lane];
    }
}

/* Counters of all workers to the slot, and the call itself: hf_run() looks whether it happened. */
static void guard_count(const struct job *job) {
    struct hf_slot *slot = job->guard.slot;
    if (slot)
        hf_slot_add(&slot->checked, 1);
    for (int i = 0; slot && i < job->n_workers; i++) {
        const struct guard_block *g = &job->workers[i].guard;
        hf_slot_add(&slot->checked, g->checked);
        hf_slot_add(&slot->suspected, g->suspected);
        hf_slot_add(&slot->confirmed, g->confirmed);
        hf_slot_add(&slot->repaired, g->repaired);
        hf_slot_add(&slot->beyond, g->beyond);
    }
}

#endif
