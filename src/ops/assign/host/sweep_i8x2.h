/* SPDX-License-Identifier: Apache-2.0
 * Panels of 16 rows by halves of groups, 16 centroids of two bytes a component, on AMX. The
 * products with either byte have sums of their own; a score is 256 times the one and the other. */
#ifndef HF_ASSIGN_SWEEP_I8X2_H
#define HF_ASSIGN_SWEEP_I8X2_H

#include "ops/assign/host/scan_amx.h"

/* A half's sums: of first bytes, then of second ones, [HALF_K][VW] each. */
#define I8X2_SUMS (HALF_K * VW)
#define I8X2_GROUP (2 * SCORES_STRIDE)

/* A panel times a group. */
struct i8x2_group {
    const char *x, *c;
    const float *start;
    float *to;     /* where its sums go, those of the halves SCORES_STRIDE apart, */
    float *before; /* and those of the group before; NULL: none */
};

/* Best keys of the centroids with even and odd places; thresholds where candidates are wanted. */
struct i8x2_scan {
    vf best[2], next[2];
};

/* Scores of 16 rows. */
ALWAYS_INLINE vf i8x2_score(const float *sums) {
    const vi high = vi_load((const int32_t *)(const void *)sums);
    const vi low = vi_load((const int32_t *)(const void *)(sums + I8X2_SUMS));
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 8), low));
}

ALWAYS_INLINE void i8x2_scan_begin(struct i8x2_scan *l, const struct worker *w, int collect,
                                   const struct tile_wait *wait) {
    l->best[0] = l->best[1] = l->next[0] = l->next[1] = vf_set1(-FLT_MAX);
    if (collect && wait->scores)
        l->best[0] = vf_load(w->block.best + wait->slot);
}

/* Centroids [from, to) of a half of the group that waits. */
ALWAYS_INLINE void i8x2_scan_at(struct worker *w, const struct pack *p, int collect,
                                struct i8x2_scan *l, const struct tile_wait *wait, int half,
                                int32_t from, int32_t to) {
    if (!wait->scores)
        return;
    const int32_t *places = tile_places;
    __asm__("" : "+r"(places)); /* else the constants are kept on the stack */
    UNROLL_KNOWN(16)
    for (int32_t t = from; t < to; t++) {
        const vf score = i8x2_score(wait->scores + half * SCORES_STRIDE + t * VW);
        if (collect) {
            candidates_add(w, p, wait->slot, vm_bits(vf_le(l->best[0], score)),
                           wait->k + half * HALF_K + t);
            continue;
        }
        const int i = t % 2;
        const vf key = scan_key(score, vi_set1(places[half * HALF_K + t]));
        l->next[i] = vf_max(l->next[i], vf_min(l->best[i], key));
        l->best[i] = vf_max(l->best[i], key);
    }
    if (!collect) /* the work stays where it is, between these products */
        __asm__ volatile(""
                         : "+v"(l->best[0]), "+v"(l->best[1]), "+v"(l->next[0]), "+v"(l->next[1]));
}

ALWAYS_INLINE void i8x2_scan_end(struct worker *w, int collect, const struct i8x2_scan *l,
                                 const struct tile_wait *wait) {
    if (!collect && wait->scores)
        scan_merge(w, wait, l->best[0], l->best[1], vf_max(l->next[0], l->next[1]));
}

/* Sums of a half: tile registers 0 and 1, of the other one 2 and 3. */
ALWAYS_INLINE void i8x2_start(int half, const float *start) {
    if (half) {
        _tile_zero(2);
        _tile_loadd(3, start + I8X2_SUMS, 64);
    } else {
        _tile_zero(0);
        _tile_loadd(1, start, 64);
    }
}

/* Panels of one or two steps stay in tile registers 6 and 7 while they meet groups. */
ALWAYS_INLINE int i8x2_stays(int64_t steps) { return steps <= 2; }

ALWAYS_INLINE void i8x2_load_panel(const char *x, int64_t steps) {
    if (i8x2_stays(steps))
        _tile_loadd(6, x, 64);
    if (steps == 2)
        _tile_loadd(7, x + STEP_BYTES, 64);
}

/* Products of both bytes with the rows in register `x`; the compiler wants to see its number. */
#define I8X2_PRODUCTS(half, x)                                                                     \
    do {                                                                                           \
        if (half) {                                                                                \
            _tile_dpbssd(2, 4, x);                                                                 \
            _tile_dpbssd(3, 5, x);                                                                 \
        } else {                                                                                   \
            _tile_dpbssd(0, 4, x);                                                                 \
            _tile_dpbssd(1, 5, x);                                                                 \
        }                                                                                          \
    } while (0)

/* Step s of `steps`. */
ALWAYS_INLINE void i8x2_step(const struct i8x2_group *o, int half, int64_t s, int64_t steps) {
    const char *c = o->c + (2 * half * steps + s) * STEP_BYTES;
    if (!i8x2_stays(steps))
        _tile_loadd(6, o->x + s * STEP_BYTES, 64);
    _tile_loadd(4, c, 64);
    _tile_loadd(5, c + steps * STEP_BYTES, 64);
    if (i8x2_stays(steps) && s == 1)
        I8X2_PRODUCTS(half, 7);
    else
        I8X2_PRODUCTS(half, 6);
}

/* Sums of a half of the group that begins at `sums`; NULL: there is none. */
ALWAYS_INLINE void i8x2_store(int half, float *sums) {
    if (sums && half) {
        _tile_stored(2, sums + SCORES_STRIDE, 64);
        _tile_stored(3, sums + SCORES_STRIDE + I8X2_SUMS, 64);
    } else if (sums) {
        _tile_stored(0, sums, 64);
        _tile_stored(1, sums + I8X2_SUMS, 64);
    }
}

/* The sums of a half are stored behind the first products of the next one, and looked at during
 * those of the one after that: `last`, the group before, waits for it. */
ALWAYS_INLINE void i8x2_group(struct worker *w, const struct pack *p, int collect,
                              const struct i8x2_group *o, int64_t steps,
                              const struct tile_wait *last) {
    const int32_t share = (int32_t)((HALF_K + steps - 1) / steps);
    struct i8x2_scan scan;
    i8x2_scan_begin(&scan, w, collect, last);
    UNROLL(2)
    for (int half = 0; half < 2; half++) {
        i8x2_start(half, o->start);
        job_prefetch(w);
        UNROLL_KNOWN(4)
        for (int64_t s = 0; s < steps; s++) {
            const int32_t from = (int32_t)s * share;
            i8x2_step(o, half, s, steps);
            if (s == 0)
                i8x2_store(!half, half ? o->to : o->before);
            i8x2_scan_at(w, p, collect, &scan, last, half, from < HALF_K ? from : HALF_K,
                         from + share < HALF_K ? from + share : HALF_K);
        }
    }
    i8x2_scan_end(w, collect, &scan, last);
}

/* A group that nothing is computed beside. */
ALWAYS_INLINE void i8x2_finish(struct worker *w, const struct pack *p, int collect,
                               const struct tile_wait *last) {
    struct i8x2_scan scan;
    i8x2_scan_begin(&scan, w, collect, last);
    i8x2_scan_at(w, p, collect, &scan, last, 0, 0, HALF_K);
    i8x2_scan_at(w, p, collect, &scan, last, 1, 0, HALF_K);
    i8x2_scan_end(w, collect, &scan, last);
}

/* A panel meets two groups while these are in the L1 cache. */
ALWAYS_INLINE void i8x2_sweep(const struct job *job, struct worker *w, const struct pack *p,
                              int collect, int64_t steps) {
    const int panels = (w->block.rows + VW - 1) / VW;
    const int64_t group = 4 * steps * STEP_BYTES;
    float *sums = (float *)(void *)((char *)w->scratch + tile_parts_bytes(job));
    struct tile_wait last = {NULL, 0, 0};
    float *before = NULL;
    int turn = 0;
    job_prefetch_plan(w, 2 * p->groups * panels);
    for (int64_t pair = 0; pair < p->groups; pair += 2) {
        const int64_t end = pair + 2 < p->groups ? pair + 2 : p->groups;
        for (int i = 0; i < panels; i++) {
            const char *x = (const char *)w->block.x + i * steps * STEP_BYTES;
            i8x2_load_panel(x, steps);
            for (int64_t g = pair; g < end; g++) {
                const struct i8x2_group o = {x, (const char *)p->tiles + group * g,
                                             p->start + g * 512, sums + turn * I8X2_GROUP, before};
                i8x2_group(w, p, collect, &o, steps, &last);
                last = (struct tile_wait){o.to, i * VW, (int32_t)(g * TILE_K)};
                before = o.to;
                turn = !turn;
            }
        }
    }
    i8x2_store(1, before);
    i8x2_finish(w, p, collect, &last);
}

/* Each number of steps has a loop of its own. */
#define I8X2_SHAPES(S) S(1) S(2) S(3) S(4)
#define I8X2_SHAPE(h)                                                                              \
    static NOINLINE void i8x2_argmax_##h(const struct job *job, struct worker *w,                  \
                                         const struct pack *p) {                                   \
        i8x2_sweep(job, w, p, 0, h);                                                               \
    }
I8X2_SHAPES(I8X2_SHAPE)
#undef I8X2_SHAPE

static void i8x2_argmax(const struct job *job, struct worker *w, const struct pack *p) {
#define I8X2_SHAPE(h)                                                                              \
    if (tile_steps(job) == h)                                                                      \
        i8x2_argmax_##h(job, w, p);
    I8X2_SHAPES(I8X2_SHAPE)
#undef I8X2_SHAPE
}

#endif
