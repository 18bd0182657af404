/* SPDX-License-Identifier: Apache-2.0
 * Panels of 16 rows by halves of groups on AMX: 16 centroids with two bytes per component. Products
 * with the first and with the second byte have sums of their own; a score is 256 times the first
 * sum plus the second. */
#ifndef HF_ASSIGN_SWEEP_I8X2_H
#define HF_ASSIGN_SWEEP_I8X2_H

#include "ops/assign/host/scan_amx.h"

/* Floats in the sums of a half for one of the bytes, [HALF_K][VW]; those of the second byte lie
 * behind those of the first. */
#define I8X2_SUMS (HALF_K * VW)
#define I8X2_GROUP (2 * SCORES_STRIDE)

/* A panel times a group. */
struct i8x2_group {
    const char *x, *c;
    const float *start;
    float *to;     /* its sums; those of the halves lie SCORES_STRIDE apart */
    float *before; /* those of the group before; NULL: there is none */
};

/* A group while it is scanned. */
struct i8x2_scan {
    const struct tile_wait *wait;
    vf best[2]; /* largest keys of the centroids with even and odd places, or thresholds */
    vf next[2]; /* second largest */
};

/* Scores of 16 rows. */
ALWAYS_INLINE vf i8x2_score(const float *sums) {
    const vi high = vi_load((const int32_t *)(const void *)sums);
    const vi low = vi_load((const int32_t *)(const void *)(sums + I8X2_SUMS));
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_slli_epi32(high, 8), low));
}

ALWAYS_INLINE void i8x2_scan_begin(const struct sweep *s, struct i8x2_scan *l,
                                   const struct tile_wait *wait) {
    l->wait = wait;
    l->best[0] = l->best[1] = l->next[0] = l->next[1] = vf_set1(-FLT_MAX);
    if (s->collect && wait->scores)
        l->best[0] = vf_load(s->w->block.best + wait->slot);
}

/* Centroids [from, to) of a half of the group. */
ALWAYS_INLINE void i8x2_scan_at(const struct sweep *s, struct i8x2_scan *l, int half, int32_t from,
                                int32_t to) {
    const struct tile_wait *wait = l->wait;
    if (!wait->scores)
        return;
    const int32_t *places = tile_places;
    __asm__("" : "+r"(places)); /* else the compiler copies the constants to the stack */
    UNROLL_KNOWN(16)
    for (int32_t t = from; t < to; t++) {
        const vf score = i8x2_score(wait->scores + half * SCORES_STRIDE + t * VW);
        if (s->collect) {
            candidates_add(s->w, s->p, wait->slot, vm_bits(vf_le(l->best[0], score)),
                           wait->k + half * HALF_K + t);
            continue;
        }
        const int i = t % 2;
        const vf key = scan_key(score, vi_set1(places[half * HALF_K + t]));
        l->next[i] = vf_max(l->next[i], vf_min(l->best[i], key));
        l->best[i] = vf_max(l->best[i], key);
    }
    if (!s->collect) /* the compiler must not move this work from between these products */
        __asm__ volatile(""
                         : "+v"(l->best[0]), "+v"(l->best[1]), "+v"(l->next[0]), "+v"(l->next[1]));
}

ALWAYS_INLINE void i8x2_scan_end(const struct sweep *s, const struct i8x2_scan *l) {
    if (!s->collect && l->wait->scores)
        scan_merge(s->w, l->wait, l->best[0], l->best[1], vf_max(l->next[0], l->next[1]));
}

/* The first half has its sums in tile registers 0 and 1, the second in 2 and 3. */
ALWAYS_INLINE void i8x2_start(int half, const float *start) {
    if (half) {
        _tile_zero(2);
        _tile_loadd(3, start + I8X2_SUMS, 64);
    } else {
        _tile_zero(0);
        _tile_loadd(1, start, 64);
    }
}

/* Panels of one or two steps stay in tile registers 6 and 7 for all groups. */
ALWAYS_INLINE int i8x2_stays(int64_t steps) { return steps <= 2; }

ALWAYS_INLINE void i8x2_load_panel(const char *x, int64_t steps) {
    if (i8x2_stays(steps))
        _tile_loadd(6, x, 64);
    if (steps == 2)
        _tile_loadd(7, x + STEP_BYTES, 64);
}

/* Products of both bytes with the rows in register `x`, which must be a literal number. */
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

/* Store the sums of a half of the group at `sums`; NULL: there is none. */
ALWAYS_INLINE void i8x2_store(int half, float *sums) {
    if (sums && half) {
        _tile_stored(2, sums + SCORES_STRIDE, 64);
        _tile_stored(3, sums + SCORES_STRIDE + I8X2_SUMS, 64);
    } else if (sums) {
        _tile_stored(0, sums, 64);
        _tile_stored(1, sums + I8X2_SUMS, 64);
    }
}

/* Compute a group and scan `last`, the one before. A store right behind the last product that it
 * waits for would hold up what follows, so each half is stored behind the first products of the
 * next one. */
ALWAYS_INLINE void i8x2_group(const struct sweep *s, const struct i8x2_group *o,
                              const struct tile_wait *last) {
    const int64_t steps = s->high;
    const int32_t share = (int32_t)((HALF_K + steps - 1) / steps);
    struct i8x2_scan scan;
    i8x2_scan_begin(s, &scan, last);
    UNROLL(2)
    for (int half = 0; half < 2; half++) {
        i8x2_start(half, o->start);
        job_prefetch(s->w);
        UNROLL_KNOWN(4)
        for (int64_t i = 0; i < steps; i++) {
            const int32_t from = (int32_t)i * share;
            i8x2_step(o, half, i, steps);
            if (i == 0)
                i8x2_store(!half, half ? o->to : o->before);
            i8x2_scan_at(s, &scan, half, from < HALF_K ? from : HALF_K,
                         from + share < HALF_K ? from + share : HALF_K);
        }
    }
    i8x2_scan_end(s, &scan);
}

/* Scan the last group, without products beside. */
ALWAYS_INLINE void i8x2_finish(const struct sweep *s, const struct tile_wait *last) {
    struct i8x2_scan scan;
    i8x2_scan_begin(s, &scan, last);
    i8x2_scan_at(s, &scan, 0, 0, HALF_K);
    i8x2_scan_at(s, &scan, 1, 0, HALF_K);
    i8x2_scan_end(s, &scan);
}

/* Each panel is multiplied with two groups, which stay in the L1 cache for all panels. */
ALWAYS_INLINE void i8x2_sweep(const struct job *job, const struct sweep *s) {
    struct worker *w = s->w;
    const struct pack *p = s->p;
    const int64_t steps = s->high;
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
                i8x2_group(s, &o, &last);
                last = (struct tile_wait){o.to, i * VW, (int32_t)(g * TILE_K)};
                before = o.to;
                turn = !turn;
            }
        }
    }
    i8x2_store(1, before);
    i8x2_finish(s, &last);
}

/* Each number of steps has a loop of its own. */
#define I8X2_SHAPES(S) S(1) S(2) S(3) S(4)
#define I8X2_SHAPE(h)                                                                              \
    static NOINLINE void i8x2_argmax_##h(const struct job *job, struct worker *w,                  \
                                         const struct pack *p) {                                   \
        i8x2_sweep(job, &(struct sweep){.w = w, .p = p, .high = h});                               \
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
