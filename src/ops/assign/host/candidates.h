/* SPDX-License-Identifier: Apache-2.0
 * What the tiles do with scores: find the best two of each row, or list the candidates that reach
 * its threshold. Lane = row. */
#ifndef HF_ASSIGN_CANDIDATES_H
#define HF_ASSIGN_CANDIDATES_H

#include "ops/assign/host/job.h"
#include "ops/assign/host/strike.h"

/* Best, second best and argument of VW rows. Ties keep the first. */
struct best_two {
    vf best, next;
    vi arg;
};

ALWAYS_INLINE struct best_two best_load(const struct block *b, int slot) {
    const struct best_two p = {vf_load(b->best + slot), vf_load(b->next + slot),
                               vi_load(b->arg + slot)};
    return p;
}

ALWAYS_INLINE void best_store(struct block *b, int slot, const struct best_two *p) {
    vf_store(b->best + slot, p->best);
    vf_store(b->next + slot, p->next);
    vi_store(b->arg + slot, p->arg);
}

ALWAYS_INLINE void best_add(struct best_two *p, vf score, int32_t k) {
    const vm better = vf_lt(p->best, score);
    p->next = vf_max(p->next, vf_min(p->best, score));
    p->best = vf_max(p->best, score);
    p->arg = vi_select(better, vi_set1(k), p->arg);
}

/* A list longer than CANDIDATES_MAX only counts as too long. */
static NOINLINE void candidates_add_some(struct worker *w, const struct pack *p, int slot,
                                         uint64_t bits, int64_t k) {
    const int32_t centroid = p->index ? p->index[k] : (int32_t)k;
    for (; bits; bits &= bits - 1) {
        const int lane = slot + __builtin_ctzll(bits);
        if (lane >= w->block.rows)
            return;
        if (w->listed[lane] < CANDIDATES_MAX) {
            w->list[lane * CANDIDATES_MAX + w->listed[lane]] = centroid;
            w->guard.listed[lane] += (uint32_t)centroid;
            STRIKE_ONE(CANDIDATE, block_row(&w->block, lane), centroid,
                       &w->list[lane * CANDIDATES_MAX + w->listed[lane]], NULL);
        }
        w->listed[lane] += w->listed[lane] <= CANDIDATES_MAX;
    }
}

/* bits: which rows from `slot` on may have centroid k of the pack as their nearest. */
ALWAYS_INLINE void candidates_add(struct worker *w, const struct pack *p, int slot, uint64_t bits,
                                  int64_t k) {
    if (__builtin_expect(bits != 0, 0) && k < p->count)
        candidates_add_some(w, p, slot, bits, k);
}

#endif
