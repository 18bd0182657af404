/* SPDX-License-Identifier: Apache-2.0
 * Labels between the code that decides them and memory. Each row that is done adds its label, times
 * an odd number of its own, to the sum of its bucket; at the end of the call the labels that stand
 * in memory must give the same sums. One wrong, stale or misplaced label, and one row that was
 * forgotten or done twice, is always seen: its term is not 0 modulo 2^64. */
#ifndef HF_ASSIGN_GUARD_LABELS_H
#define HF_ASSIGN_GUARD_LABELS_H

#include "ops/assign/host/guard/guard_tell.h"
#include "ops/assign/host/job.h"
#include <string.h>

#define GUARD_SEVERAL (-1)     /* workers: see guard.who */
#define GUARD_WORD 0x9e3779b1u /* odd, so that numbers of rows below 2^31 differ */

/* The number of a row: odd. */
ALWAYS_INLINE uint32_t guard_weight(int64_t i) {
    return (2 * (uint32_t)(uint64_t)i + 1) * GUARD_WORD;
}

/* The number and the threshold of an open row as they are compared when it is settled. */
static inline uint32_t guard_fold_row(int64_t row) {
    return (uint32_t)(uint64_t)row * GUARD_WORD + (uint32_t)((uint64_t)row >> 32);
}

static inline uint32_t guard_fold_threshold(float threshold) {
    uint32_t bits;
    memcpy(&bits, &threshold, sizeof bits);
    return bits;
}

/* The term of a row: its label begins with -1. */
ALWAYS_INLINE uint64_t guard_term(int64_t i, int32_t label) {
    return (uint64_t)guard_weight(i) * (uint64_t)((int64_t)label + 2);
}

/* The worker that decided all rows of a bucket; -1: there were several. */
static inline int32_t guard_bucket_worker(const struct job *job, int64_t bucket) {
    const int32_t who = job->guard.who[bucket];
    return who == GUARD_SEVERAL ? -1 : who - 1;
}

/* Give the sum of a worker to its bucket and go on with another. */
static NOINLINE void guard_flush(const struct job *job, struct worker *w, int64_t to) {
    struct guard_block *g = &w->guard;
    const uint64_t sum = g->sum + (uint64_t)vl_sum(vl_load(g->lanes));
    if (sum != 0) {
        const int32_t me = (int32_t)(w - job->workers) + 1;
        int32_t nobody = 0;
        __atomic_add_fetch(job->guard.bucket + g->at, sum, __ATOMIC_RELAXED);
        if (!__atomic_compare_exchange_n(job->guard.who + g->at, &nobody, me, 0, __ATOMIC_RELAXED,
                                         __ATOMIC_RELAXED) &&
            nobody != me)
            __atomic_store_n(job->guard.who + g->at, GUARD_SEVERAL, __ATOMIC_RELAXED);
    }
    vl_store(g->lanes, vl_set1(0));
    g->sum = 0;
    g->at = to;
}

/* Row i is done: this is its label. */
ALWAYS_INLINE void guard_note_label(const struct job *job, struct worker *w, int64_t i,
                                    int32_t label) {
    if (!job->guard.labels)
        return;
    if (w->guard.at != i >> GUARD_BUCKET)
        guard_flush(job, w, i >> GUARD_BUCKET);
    w->guard.sum += guard_term(i, label);
}

/* A row that was done has another label after all. */
static inline void guard_correct_label(const struct job *job, struct worker *w, int64_t i,
                                       int32_t from, int32_t to) {
    if (!job->guard.labels)
        return;
    if (w->guard.at != i >> GUARD_BUCKET)
        guard_flush(job, w, i >> GUARD_BUCKET);
    w->guard.sum += guard_term(i, to) - guard_term(i, from);
}

/* The terms of VW rows from `first` on. */
ALWAYS_INLINE vl guard_terms(int64_t first, vi label) {
    static const uint32_t ahead[16] = {
        0,
        2 * GUARD_WORD,
        4 * GUARD_WORD,
        6 * GUARD_WORD,
        8 * GUARD_WORD,
        10 * GUARD_WORD,
        12 * GUARD_WORD,
        14 * GUARD_WORD,
        16 * GUARD_WORD,
        18 * GUARD_WORD,
        20 * GUARD_WORD,
        22 * GUARD_WORD,
        24 * GUARD_WORD,
        26 * GUARD_WORD,
        28 * GUARD_WORD,
        30 * GUARD_WORD,
    };
    const vi weight = vi_add(vi_set1((int32_t)guard_weight(first)),
                             vi_load((const int32_t *)(const void *)ahead));
    return vi_mul_pairs(vi_add(label, vi_set1(2)), weight);
}

/* VW rows from `first` on are done. */
ALWAYS_INLINE void guard_note_labels(const struct job *job, struct worker *w, int64_t first,
                                     vi label) {
    if (!job->guard.labels)
        return;
    if (first >> GUARD_BUCKET != (first + VW - 1) >> GUARD_BUCKET) {
        int32_t each[VW];
        vi_store(each, label);
        for (int i = 0; i < VW; i++)
            guard_note_label(job, w, first + i, each[i]);
        return;
    }
    if (w->guard.at != first >> GUARD_BUCKET)
        guard_flush(job, w, first >> GUARD_BUCKET);
    vl_store(w->guard.lanes, vl_add(vl_load(w->guard.lanes), guard_terms(first, label)));
}

/* Of these rows those with a bit are done, with the labels that they have. */
static inline void guard_note_kept(const struct job *job, struct worker *w, int64_t first,
                                   uint32_t bits) {
    const int32_t *label = job->a->labels + first;
    if (!job->guard.labels)
        return;
    if (bits == (uint32_t)((1u << VW) - 1)) {
        guard_note_labels(job, w, first, vi_load(label));
        return;
    }
    for (; bits; bits &= bits - 1) {
        const int i = __builtin_ctz(bits);
        guard_note_label(job, w, first + i, label[i]);
    }
}

/* What the labels in memory add up to, of a bucket. */
static uint64_t guard_sum_labels(const struct job *job, int64_t bucket) {
    const int64_t begin = bucket << GUARD_BUCKET;
    const int64_t most = begin + (INT64_C(1) << GUARD_BUCKET);
    const int64_t end = most < job->n ? most : job->n;
    vl sum = vl_set1(0);
    int64_t i = begin;
    for (; i + VW <= end; i += VW)
        sum = vl_add(sum, guard_terms(i, vi_load(job->a->labels + i)));
    uint64_t all = (uint64_t)vl_sum(sum);
    for (; i < end; i++)
        all += guard_term(i, job->a->labels[i]);
    return all;
}

#endif
