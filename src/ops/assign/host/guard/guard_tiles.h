/* SPDX-License-Identifier: Apache-2.0
 * Protected tiles: beside the best two scores of each row, or its candidates, they sum the scores,
 * alternately + and -, less the checksums of the centroids, and keep the largest score of even and
 * of odd columns apart. guard_conclude() compares these with thresholds and with the best two. A
 * suspect row loses what was found: its best score becomes NaN, so that nothing decides it and it
 * ends as an open row that float64 compares with all centroids. */
#ifndef HF_ASSIGN_GUARD_TILES_H
#define HF_ASSIGN_GUARD_TILES_H

#include "ops/assign/host/candidates.h"
#include "ops/assign/host/guard/guard_limit.h"
#include "ops/assign/host/guard/guard_tell.h"
#include "ops/assign/host/guard/guard_untested.h"
#include "ops/assign/host/guard/guard_words.h"
#include "ops/assign/host/strike.h"
#include <math.h>

/* A pack without its checksums, for passes that are not tested. */
static const struct pack *guard_bare(const struct pack *p, struct pack *bare) {
    *bare = *p;
    bare->start = p->check.start;
    bare->groups = (p->count + TILE_K - 1) / TILE_K;
    return bare;
}

/* What a worker had counted before a pass. */
struct guard_before {
    int suspects;
    uint64_t more, suspected, checked;
};

/* Sums begin with minus the starts of the centroids. */
static void guard_clear(const struct guard_sweep *s) {
    struct worker *w = s->w;
    const vf low = vf_set1(-FLT_MAX);
    for (int slot = 0; slot < w->block.rows; slot += VW) {
        for (int q = 0; q < s->p->check.tests; q++)
            vf_store(guard_z(w, q, slot), vf_set1(s->p->check.begin[q]));
        vf_store(w->guard.most + slot, low);
        vf_store(w->guard.most + w->block.capacity + slot, low);
        vi_store(w->guard.place + slot, vi_set1(-1));
    }
}

/* Add the scores of a group, alternately + and -, in pairs. */
ALWAYS_INLINE void guard_add(struct worker *w, int64_t q, int slot, const vf f[TILE_K]) {
    float *z = guard_z(w, q, slot);
    vf sum[TILE_K / 2];
    UNROLL(6)
    for (int t = 0; t < TILE_K / 2; t++)
        sum[t] = vf_sub(f[2 * t], f[2 * t + 1]);
    UNROLL(6)
    for (int t = 1; t < TILE_K / 2; t++)
        sum[0] = vf_add(sum[0], sum[t]);
    vf_store(z, vf_add(vf_load(z), sum[0]));
}

/* The largest scores of even and of odd columns. */
ALWAYS_INLINE void guard_keep(struct worker *w, int slot, const vf f[TILE_K]) {
    float *even = w->guard.most + slot;
    float *odd = even + w->block.capacity;
    vf a = vf_load(even);
    vf b = vf_load(odd);
    UNROLL(6)
    for (int t = 0; t < TILE_K; t += 2) {
        a = vf_max(a, f[t]);
        b = vf_max(b, f[t + 1]);
    }
    vf_store(even, a);
    vf_store(odd, b);
}

/* best_add() with a second index, kept apart as -1 - k. */
ALWAYS_INLINE void guard_best_add(struct best_two *p, vi *again, vf score, int32_t k) {
    const vm better = vf_lt(p->best, score);
    p->next = vf_max(p->next, vf_min(p->best, score));
    p->best = vf_max(p->best, score);
    p->arg = vi_select(better, vi_set1(k), p->arg);
    *again = vi_select(better, vi_set1(-1 - k), *again);
}

/* Sums of a group with columns of checksums of other groups. */
static void guard_add_foreign(const struct guard_sweep *s, int64_t g, int slot,
                              const float *scores) {
    const struct guard_pack *c = &s->p->check;
    for (int t = 0; t < TILE_K; t++) {
        const int64_t k = g * TILE_K + t;
        const int check = c->role[k] >= GUARD_CHECK;
        float *z = guard_z(s->w, check ? c->role[k] - GUARD_CHECK : g / c->groups_each, slot);
        const float part = check ? -c->factor[k] : c->part[k];
        vf_store(z, vf_fma(vf_load(scores + t * VW), vf_set1(part), vf_load(z)));
    }
}

/* guard_scan() of a group whose slots are not all centroids, from its scores [TILE_K][VW]. There
 * are one or two in a pack, so this stays out of the tiles' code. */
static NOINLINE void guard_scan_mixed(const struct guard_sweep *s, int64_t g, int slot,
                                      const float *scores) {
    struct worker *w = s->w;
    const struct guard_pack *c = &s->p->check;
    const int64_t k = g * TILE_K;
    const int real = (int)(s->p->count - k < TILE_K ? s->p->count - k : TILE_K);
    float *z = guard_z(w, g / c->groups_each, slot);
    float *most = w->guard.most + slot;
    vf kept[2] = {vf_load(most), vf_load(most + w->block.capacity)};
    vf sum[2] = {vf_load(z), vf_set1(0)};
    struct best_two a = best_load(&w->block, slot);
    vi again = vi_load(w->guard.place + slot);
    for (int t = 0; t < real; t++) {
        const vf f = vf_load(scores + t * VW);
        if (s->collect)
            candidates_add(w, s->p, slot, vm_bits(vf_le(a.best, f)), k + t);
        else
            guard_best_add(&a, &again, f, (int32_t)(k + t));
        kept[t % 2] = vf_max(kept[t % 2], f);
    }
    if (!s->collect) {
        best_store(&w->block, slot, &a);
        vi_store(w->guard.place + slot, again);
        STRIKE_BEST(w, slot, g);
    }
    vf_store(most, kept[0]);
    vf_store(most + w->block.capacity, kept[1]);
    if (c->mixed[g] == GUARD_FOREIGN) {
        guard_add_foreign(s, g, slot, scores);
        return;
    }
    for (int t = 0; t < TILE_K; t++)
        sum[t % 2] = vf_fma(vf_load(scores + t * VW), vf_set1(c->part[k + t]), sum[t % 2]);
    vf_store(z, vf_add(sum[0], sum[1]));
}

/* The scores of VW rows and a group: the best two of each row or candidates, and the sums. */
ALWAYS_INLINE void guard_scan(const struct guard_sweep *s, int64_t g, int slot,
                              const vf f[TILE_K]) {
    struct worker *w = s->w;
    const int64_t k = g * TILE_K;
    if (s->p->check.mixed[g] != GUARD_PURE) {
        float scores[TILE_K * VW];
        UNROLL(12)
        for (int t = 0; t < TILE_K; t++)
            vf_store(scores + t * VW, f[t]);
        guard_scan_mixed(s, g, slot, scores);
        return;
    }
    struct best_two a = best_load(&w->block, slot);
    vi again = vi_load(w->guard.place + slot);
    UNROLL(12)
    for (int t = 0; t < TILE_K; t++) {
        if (s->collect)
            candidates_add(w, s->p, slot, vm_bits(vf_le(a.best, f[t])), k + t);
        else
            guard_best_add(&a, &again, f[t], (int32_t)(k + t));
    }
    if (!s->collect) {
        best_store(&w->block, slot, &a);
        vi_store(w->guard.place + slot, again);
        STRIKE_BEST(w, slot, g);
    }
    guard_add(w, g / s->p->check.groups_each, slot, f);
    if (!s->collect)
        guard_keep(w, slot, f);
}

/* Bits of the rows from `slot` on whose sums are beyond the threshold. */
ALWAYS_INLINE uint32_t guard_beyond(const struct guard_sweep *s, int slot) {
    const vf t = guard_threshold(s->job, &s->w->block, slot, s->job->guard.kappa);
    uint32_t right = (uint32_t)((1u << VW) - 1);
    for (int q = 0; q < s->p->check.tests; q++) {
        const vf z = vf_load(guard_z(s->w, q, slot));
        right &= guard_within(z, t);
    }
    return ~right & (uint32_t)((1u << VW) - 1);
}

/* Bits of the rows whose best two scores are not those of the columns: the best is the larger of
 * both maxima, and the second best is at least the lesser. */
ALWAYS_INLINE uint32_t guard_wrong_best(const struct guard_sweep *s, int slot) {
    const struct block *b = &s->w->block;
    const vf even = vf_load(s->w->guard.most + slot);
    const vf odd = vf_load(s->w->guard.most + b->capacity + slot);
    const vf best = vf_load(b->best + slot);
    const vf next = vf_load(b->next + slot);
    const vf most = vf_max(even, odd);
    const vf least = vf_min(even, odd);
    return ~(vm_bits(vf_le(most, best)) & vm_bits(vf_le(best, most)) & vm_bits(vf_le(least, next)) &
             vm_bits(vf_le(next, best))) &
           (uint32_t)((1u << VW) - 1);
}

/* Bits of the rows whose best is no centroid of the pack, not the one that was kept apart, or in an
 * odd place although the largest score of even ones is larger, or the other way round. */
ALWAYS_INLINE uint32_t guard_wrong_index(const struct guard_sweep *s, int slot) {
    const vi arg = vi_load(s->w->block.arg + slot);
    const vf even = vf_load(s->w->guard.most + slot);
    const vf odd = vf_load(s->w->guard.most + s->w->block.capacity + slot);
    const uint32_t is_odd = vi_odd(arg);
    const vi other = vi_sub(vi_set1(-1), vi_load(s->w->guard.place + slot));
    const uint32_t outside = vi_beyond(arg, (int32_t)s->p->count) | vi_differ(arg, other);
    return outside | (is_odd & vm_bits(vf_lt(odd, even))) | (~is_odd & vm_bits(vf_lt(even, odd)));
}

/* The sum farthest from 0, or one that is no number. */
static float guard_worst(const struct guard_sweep *s, int slot) {
    float worst = 0;
    for (int q = 0; q < s->p->check.tests; q++) {
        const float z = *guard_z(s->w, q, slot);
        worst = fabsf(z) <= fabsf(worst) ? worst : z;
    }
    return worst;
}

/* Rows that a check suspects: noted for a verdict, and nothing of them is believed. */
static NOINLINE void guard_suspect(const struct guard_sweep *s, int slot, uint32_t bits,
                                   enum hf_fault fault) {
    struct worker *w = s->w;
    struct block *b = &w->block;
    for (; bits; bits &= bits - 1) {
        const int at = slot + __builtin_ctz(bits);
        if (at >= b->rows)
            return;
        struct guard_suspect *suspect =
            guard_suspect_row(s->job, w, at, at % TILE_ROWS, s->p != &s->job->all, fault);
        if (suspect) {
            suspect->best = b->best[at];
            suspect->next = b->next[at];
            suspect->z = guard_worst(s, at);
        }
        if (s->collect) {
            w->listed[at] = GUARD_LISTED;
        } else {
            b->best[at] = NAN;
            b->arg[at] = 0;
        }
    }
}

static void guard_pack_again(struct job *job, struct worker *w, const struct pack *p);

/* So many rows are not suspect by themselves: the centroids are packed again, and the pass with
 * what was known before begins anew. */
static NOINLINE void guard_begin_again(const struct guard_sweep *s,
                                       const struct guard_before *was) {
    struct worker *w = s->w;
    struct block *b = &w->block;
    w->guard.suspects = was->suspects;
    w->guard.more = was->more;
    w->guard.suspected = was->suspected;
    w->guard.checked = was->checked;
    for (int slot = 0; slot < b->rows && !s->collect; slot += VW) {
        vf_store(b->best + slot, vf_set1(-FLT_MAX));
        vf_store(b->next + slot, vf_set1(-FLT_MAX));
        vi_store(b->arg + slot, vi_set1(0));
    }
    for (int slot = 0; slot < b->rows && s->collect; slot++)
        w->listed[slot] = (int32_t)(w->guard.listed[slot] = 0);
    guard_pack_again((struct job *)(uintptr_t)s->job, w, s->p);
}

/* After the last group. Rows too long for the filter are in nobody's hands: they stay open. 1: the
 * pass must be made again. */
static int guard_conclude(const struct guard_sweep *s) {
    struct worker *w = s->w;
    const struct guard_before was = {w->guard.suspects, w->guard.more, w->guard.suspected,
                                     w->guard.checked};
    const struct guard *g = &s->job->guard;
    const int rows = guard_checks(g, HF_FAULT_ROWS);
    const int best = guard_checks(g, HF_FAULT_BEST) && !s->collect;
    const int index = guard_checks(g, HF_FAULT_INDEX) && !s->collect;
    const int operand = g->words;
    int bad = 0;
    if (w->guard.replay)
        return 0;
    for (int slot = 0; slot < w->block.rows; slot += VW) {
        const vf norm2 = vf_load(w->block.norm2 + slot);
        const vf wanted = s->collect ? vf_load(w->block.best + slot) : vf_set1(0);
        /* lanes behind the last row hold what was there before */
        const int left = w->block.rows - slot;
        const uint32_t there = left < VW ? (1u << left) - 1 : (uint32_t)((1u << VW) - 1);
        const uint32_t open = vm_bits(vf_lt(wanted, vf_set1(INFINITY))) & there;
        const uint32_t near = vm_bits(vf_lt(norm2, vf_set1(FAR_ROW))) & open;
        const uint32_t beyond = rows ? guard_beyond(s, slot) & near : 0;
        /* a row that met excluded centroids alone stays open whatever its best is */
        const uint32_t met =
            near & vm_bits(vf_lt(vf_set1(EXCLUDED), vf_load(w->block.best + slot)));
        const uint32_t other = best ? guard_wrong_best(s, slot) & met & ~beyond : 0;
        const uint32_t where = index ? guard_wrong_index(s, slot) & met & ~other & ~beyond : 0;
        const uint32_t words = operand ? guard_wrong_words(s->job, &w->block, slot) & open : 0;
        if (!s->collect)
            w->guard.checked += (uint64_t)(left < VW ? left : VW);
        if (__builtin_expect((beyond | other | where | words) != 0, 0)) {
            bad += __builtin_popcount(beyond & ~words);
            guard_suspect(s, slot, words, HF_FAULT_OPERAND);
            guard_suspect(s, slot, beyond & ~words, HF_FAULT_ROWS);
            guard_suspect(s, slot, other & ~words, HF_FAULT_BEST);
            guard_suspect(s, slot, where & ~words, HF_FAULT_INDEX);
        }
    }
    const int again = bad > GUARD_MANY && bad > w->block.rows / 4 && !w->guard.again;
    w->guard.again = again;
    if (again)
        guard_begin_again(s, &was);
    return again;
}

#endif
