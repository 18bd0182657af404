/* SPDX-License-Identifier: Apache-2.0
 * The vector work on the scores of AMX tiles: it finds the best two scores of each row, or lists
 * candidates. It runs between the tile products of later panels, so that both units are busy. Best
 * scores are found as keys: the place of the centroid in its group replaces the last bits of the
 * score, so that one maximum finds both. */
#ifndef HF_ASSIGN_SCAN_AMX_H
#define HF_ASSIGN_SCAN_AMX_H

#include "ops/assign/host/guard/guard_amx.h"
#include "ops/assign/host/strike.h"
#include "ops/assign/host/tile_amx.h"
#include <float.h>

#define TERNARY_KEY 0xea /* (a & b) | c */
#define HALF_K 16        /* centroids of a tile */

static const int32_t tile_places[TILE_K] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                            11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                            22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

/* A pass of the block's rows over a pack. Functions are inlined with most of it constant. */
struct sweep {
    struct worker *w;
    const struct pack *p;
    int collect;       /* list candidates; else find the best two */
    int64_t high, low; /* steps (host/tile_amx.h) */
    int aligned;       /* no tile has features of both parts of a row */
    int known;         /* high and low are constants */
    int i8;            /* tiles of bytes */
};

/* Scores of a panel and a group that wait to be scanned. */
struct tile_wait {
    const float *scores; /* [TILE_K][VW]; NULL: none */
    int slot;            /* first row of the panel */
    int32_t k;           /* first centroid */
};

/* The same while it is scanned. Both tiles of a group are scanned side by side; centroids of the
 * second one have the places of the first until scan_end(). */
struct tile_scan {
    struct tile_wait wait;
    int known;             /* place[] is set */
    const int32_t *places; /* [HALF_K] */
    vi place[HALF_K];      /* the same in registers; only if each use knows its index */
    vf best[2];            /* of each tile: largest keys so far, or the thresholds of candidates */
    vf next[2];            /* second largest */
};

ALWAYS_INLINE void scan_places(struct tile_scan *l, int known) {
    l->known = known;
    l->places = tile_places;
    __asm__("" : "+r"(l->places)); /* else the compiler copies the constants to the stack */
    UNROLL(16)
    for (int i = 0; known && i < HALF_K; i++) {
        l->place[i] = vi_set1(i);
        __asm__("" : "+v"(l->place[i]));
    }
}

ALWAYS_INLINE void scan_begin(const struct sweep *s, struct tile_scan *l,
                              const struct tile_wait *wait) {
    l->wait = *wait;
    l->best[0] = l->best[1] = l->next[0] = l->next[1] = vf_set1(-FLT_MAX);
    if (s->collect)
        l->best[0] = vf_load(s->w->block.best + wait->slot);
    STRIKE_SCORES(s->w, s->p, wait->slot, wait->k, wait->scores, TILE_K);
    if (s->w->guard.sums && wait->scores)
        guard_amx_add(s->w, s->p, wait->scores, wait->slot, wait->k);
}

/* Scores of 16 rows as keys. */
ALWAYS_INLINE vf scan_key(vf score, vi place) {
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(score),
                                                         vi_set1(-TILE_K), place, TERNARY_KEY));
}

/* Centroids [from, to) of both tiles. */
ALWAYS_INLINE void scan_at(const struct sweep *s, struct tile_scan *l, int32_t from, int32_t to) {
    if (!l->wait.scores)
        return;
    UNROLL_KNOWN(16)
    for (int32_t t = from; t < to; t++) {
        const vi place = l->known ? l->place[t] : vi_set1(l->places[t]);
        UNROLL(2)
        for (int i = 0; i < 2; i++) {
            const float *row = l->wait.scores + (i * HALF_K + t) * VW;
            if (s->collect) {
                candidates_add(s->w, s->p, l->wait.slot, vm_bits(vf_le(l->best[0], vf_load(row))),
                               l->wait.k + i * HALF_K + t);
                continue;
            }
            const vf key = scan_key(vf_load(row), place);
            l->next[i] = vf_max(l->next[i], vf_min(l->best[i], key));
            l->best[i] = vf_max(l->best[i], key);
        }
    }
    if (!s->collect) /* the compiler must not move this work from between these products */
        __asm__ volatile(""
                         : "+v"(l->best[0]), "+v"(l->best[1]), "+v"(l->next[0]), "+v"(l->next[1]));
}

/* Merge the best keys of two parts of a group, and the second best of both, into the best two of
 * the rows. */
ALWAYS_INLINE void scan_merge(struct worker *w, const struct tile_wait *wait, vf one, vf other,
                              vf second) {
    struct best_two b = best_load(&w->block, wait->slot);
    const vf best = vf_max(one, other);
    const vf next = vf_max(second, vf_min(one, other));
    const vm better = vf_lt(b.best, best);
    const vi arg = _mm512_ternarylogic_epi32(_mm512_castps_si512(best), vi_set1(TILE_K - 1),
                                             vi_set1(wait->k), TERNARY_KEY);
    b.next = vf_max(b.next, vf_max(next, vf_min(b.best, best)));
    b.best = vf_max(b.best, best);
    b.arg = vi_select(better, arg, b.arg);
    best_store(&w->block, wait->slot, &b);
    if (w->guard.sums) { /* the best once more, and its index, kept apart as -1 - arg */
        int32_t *place = w->guard.place + wait->slot;
        float *most = w->guard.most + wait->slot;
        vi_store(place, vi_select(better, vi_sub(vi_set1(-1), arg), vi_load(place)));
        vf_store(most, vf_max(vf_load(most), best));
    }
    STRIKE_BEST(w, wait->slot, wait->k / TILE_K);
}

ALWAYS_INLINE void scan_end(const struct sweep *s, const struct tile_scan *l) {
    if (s->collect || !l->wait.scores)
        return;
    const vf other =
        _mm512_castsi512_ps(_mm512_or_si512(_mm512_castps_si512(l->best[1]), vi_set1(HALF_K)));
    scan_merge(s->w, &l->wait, l->best[0], other, vf_max(l->next[0], l->next[1]));
}

/* Centroids of each tile to scan after each of `turns` products, so that the last one ends it. */
ALWAYS_INLINE int32_t scan_share(int64_t turns) { return (int32_t)((HALF_K + turns - 1) / turns); }

/* The last panels, without products beside. */
ALWAYS_INLINE void tile_finish(const struct sweep *s, const struct tile_wait *wait) {
    struct tile_scan l;
    scan_places(&l, 0);
    scan_begin(s, &l, wait);
    scan_at(s, &l, 0, HALF_K);
    scan_end(s, &l);
}

#endif
