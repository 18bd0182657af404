/* SPDX-License-Identifier: Apache-2.0
 * Blocks of 32 rows by 32 centroids on AMX, and the vector work on their scores, which goes on
 * between the products of later blocks. Best scores are found as keys: the last bits of a score
 * give way to the centroid's place in its block, so that one maximum finds both. */
#ifndef HF_ASSIGN_SWEEP_AMX_H
#define HF_ASSIGN_SWEEP_AMX_H

#include "ops/assign/assign_tile_amx.h"
#include <float.h>

#define TERNARY_KEY 0xea /* (a & b) | c */
#define LAG_STEPS 4      /* high steps from which on a lag pays */
#define LAG_TILES 2      /* blocks of rows that are too few for a lag */
#define PARTS_LOOK 4     /* centroids whose scores are looked at after a step of long operands */

static const int32_t tile_places[TILE_K] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                            11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
                                            22, 23, 24, 25, 26, 27, 28, 29, 30, 31};

/* A block of scores that waits for its vector work. */
struct tile_wait {
    const float *scores; /* [TILE_K][TILE_ROWS]; NULL: none */
    int slot;            /* first row of the block */
    int32_t k;           /* first centroid */
};

/* A waiting block that is looked at, two panels of 16 rows. */
struct tile_look {
    struct tile_wait wait;
    const int32_t *places;
    vf best[2]; /* largest keys so far, or the thresholds of candidates */
    vf next[2]; /* second largest */
};

ALWAYS_INLINE struct tile_look look_begin(const struct worker *w, int collect,
                                          const struct tile_wait *wait) {
    const float *best = w->block.best + wait->slot;
    const vf least = vf_set1(-FLT_MAX);
    struct tile_look l = {*wait, tile_places, {least, least}, {least, least}};
    if (collect) {
        l.best[0] = vf_load(best);
        l.best[1] = vf_load(best + VW);
    }
    __asm__("" : "+r"(l.places)); /* else 32 constants are kept on the stack */
    return l;
}

/* Scores of 16 rows as keys. */
ALWAYS_INLINE vf look_key(const float *scores, vi place) {
    return _mm512_castsi512_ps(_mm512_ternarylogic_epi32(_mm512_castps_si512(vf_load(scores)),
                                                         vi_set1(-TILE_K), place, TERNARY_KEY));
}

/* Centroids [from, to) of the block: best two of each row, or candidates. */
ALWAYS_INLINE void look_at(const struct job *job, struct worker *w, const struct pack *p,
                           int collect, struct tile_look *l, int32_t from, int32_t to) {
    if (!l->wait.scores)
        return;
    UNROLL_KNOWN(8)
    for (int32_t t = from; t < to; t++) {
        const float *row = l->wait.scores + t * TILE_ROWS;
        if (collect) {
            const uint64_t bits = vm_bits(vf_le(l->best[0], vf_load(row))) |
                                  (uint64_t)vm_bits(vf_le(l->best[1], vf_load(row + VW))) << VW;
            pick_candidates(job, w, p, l->wait.slot, bits, l->wait.k + t);
            continue;
        }
        const vi place = vi_set1(l->places[t]);
        UNROLL(2)
        for (int i = 0; i < 2; i++) {
            const vf key = look_key(row + i * VW, place);
            l->next[i] = vf_max(l->next[i], vf_min(l->best[i], key));
            l->best[i] = vf_max(l->best[i], key);
        }
    }
    if (!collect) /* the work stays where it is, between these products */
        __asm__ volatile(""
                         : "+v"(l->best[0]), "+v"(l->best[1]), "+v"(l->next[0]), "+v"(l->next[1]));
}

/* The block's best two become those of its rows where they are better. */
ALWAYS_INLINE void look_end(struct worker *w, int collect, const struct tile_look *l) {
    if (collect || !l->wait.scores)
        return;
    UNROLL(2)
    for (int i = 0; i < 2; i++) {
        const int slot = l->wait.slot + i * VW;
        struct pick pick = pick_load(&w->block, slot);
        const vm better = vf_lt(pick.best, l->best[i]);
        const vi arg = _mm512_ternarylogic_epi32(
            _mm512_castps_si512(l->best[i]), vi_set1(TILE_K - 1), vi_set1(l->wait.k), TERNARY_KEY);
        pick.next = vf_max(pick.next, vf_max(l->next[i], vf_min(pick.best, l->best[i])));
        pick.best = vf_max(pick.best, l->best[i]);
        pick.arg = vi_select(better, arg, pick.arg);
        pick_store(&w->block, slot, &pick);
    }
}

/* A block that nothing is computed beside. */
ALWAYS_INLINE void tile_finish(const struct job *job, struct worker *w, const struct pack *p,
                               int collect, const struct tile_wait *wait) {
    struct tile_look l = look_begin(w, collect, wait);
    look_at(job, w, p, collect, &l, 0, TILE_K);
    look_end(w, collect, &l);
}

/* Where the operands of a block and those of the panel before it lie. */
struct tile_turn {
    const char *x;       /* first panel */
    const char *y[2];    /* second panel of the block before, of this one */
    const char *c, *e;   /* centroids */
    const float *start;  /* of their scores */
    float *before, *out; /* scores of the block before (NULL: none) and of this one (NULL: none) */
};

/* Turns t of high + low: a step of xh xl with ch, and with cl where there is a low step. */
ALWAYS_INLINE int64_t turn_step(int64_t t, int64_t low) { return t < 2 * low ? t / 2 : t - low; }

ALWAYS_INLINE int turn_is_low(int64_t t, int64_t low) { return t < 2 * low && t % 2 != 0; }

ALWAYS_INLINE void turn_store(float *out) {
    const int stride = TILE_ROWS * sizeof(float);
    _tile_stored(1, out + 16, stride);
    _tile_stored(3, out + 16 * TILE_ROWS + 16, stride);
}

/* The second panel is `lag` turns behind the first: when the scores of one panel are stored, the
 * products of the other keep the unit busy. Its last turns are the first ones of the next block. */
ALWAYS_INLINE void tile_block(const struct job *job, struct worker *w, const struct pack *p,
                              int collect, const struct tile_turn *o, int64_t high, int64_t low,
                              int64_t lag, const struct tile_wait *wait) {
    const int64_t turns = high + low;
    const int32_t share = (int32_t)((TILE_K + 2 * turns - 1) / (2 * turns));
    const int stride = TILE_ROWS * sizeof(float);
    struct tile_look look = look_begin(w, collect, wait);
    UNROLL_KNOWN(16)
    for (int64_t t = 0; t < turns; t++) {
        const int64_t s = turn_step(t, low);
        const int64_t tile = (turn_is_low(t, low) ? high + s : s) * STEP_BYTES;
        const int32_t from = (int32_t)(2 * t) * share;
        if (t == lag && !o->out)
            break;
        if (t == 0) {
            _tile_loadd(0, o->start, 64);
            _tile_loadd(2, o->start + 256, 64);
        }
        if (!turn_is_low(t, low))
            _tile_loadd(6, o->x + s * STEP_BYTES, 64);
        _tile_loadd(4, o->c + tile, 64);
        _tile_loadd(5, o->e + tile, 64);
        _tile_dpbf16ps(0, 4, 6);
        _tile_dpbf16ps(2, 5, 6);
        look_at(job, w, p, collect, &look, from < TILE_K ? from : TILE_K,
                from + share < TILE_K ? from + share : TILE_K);
        if (t == lag) {
            _tile_loadd(1, o->start, 64);
            _tile_loadd(3, o->start + 256, 64);
        }
        if (!turn_is_low(t, low) || t == lag)
            _tile_loadd(7, o->y[t >= lag] + s * STEP_BYTES, 64);
        _tile_dpbf16ps(1, 4, 7);
        _tile_dpbf16ps(3, 5, 7);
        look_at(job, w, p, collect, &look, from + share < TILE_K ? from + share : TILE_K,
                from + 2 * share < TILE_K ? from + 2 * share : TILE_K);
        if (t == lag - 1 && o->before)
            turn_store(o->before);
        if (t == turns - 1) {
            _tile_stored(0, o->out, stride);
            _tile_stored(2, o->out + 16 * TILE_ROWS, stride);
        }
        if (!turn_is_low(t, low))
            job_prefetch(w);
    }
    if (lag == 0)
        turn_store(o->out);
    look_end(w, collect, &look);
}

/* The vector work on a block is done two blocks later: its stores are on their way until then. */
ALWAYS_INLINE void tile_sweep(const struct job *job, struct worker *w, const struct pack *p,
                              int collect, int64_t high, int64_t low, int64_t lag) {
    const int tiles = (w->block.rows + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t steps = high + low;
    float *scores = (float *)(void *)((char *)w->scratch + tile_parts_bytes(job));
    struct tile_wait wait[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
    const struct tile_wait none = {NULL, 0, 0};
    int turn = 0;
    job_prefetch_plan(w, p->groups * tiles * high);
    for (int64_t g = 0; g < p->groups; g++) {
        const char *c = (const char *)p->tiles + (size_t)(2 * steps * g) * STEP_BYTES;
        struct tile_turn o = {NULL, {NULL, NULL}, c, c + steps * STEP_BYTES, p->start + g * 512,
                              NULL, NULL};
        for (int i = 0; i < tiles; i++) {
            const char *x = (const char *)w->block.x + (size_t)(2 * high * i) * STEP_BYTES;
            o.x = x;
            o.y[1] = x + high * STEP_BYTES;
            o.y[0] = i > 0 ? o.y[1] - 2 * high * STEP_BYTES : o.y[1];
            o.out = scores + turn * SCORES_STRIDE;
            turn = turn == 2 ? 0 : turn + 1;
            tile_block(job, w, p, collect, &o, high, low, lag, &wait[0]);
            wait[0] = wait[1];
            wait[1] = (struct tile_wait){o.out, i * TILE_ROWS, (int32_t)(g * TILE_K)};
            o.before = o.out;
        }
        o.y[0] = o.y[1];
        o.out = NULL;
        if (lag > 0)
            tile_block(job, w, p, collect, &o, high, low, lag, &none);
    }
    tile_finish(job, w, p, collect, &wait[0]);
    tile_finish(job, w, p, collect, &wait[1]);
}

/* Steps [begin, end) on 32 rows by 32 centroids, tile registers 0-3 loaded. Rows pass by and leave
 * the centroids in the L1 cache. */
ALWAYS_INLINE void tile_block_part(const struct job *job, struct worker *w, const struct pack *p,
                                   const struct tile_operands *o, int64_t begin, int64_t end,
                                   float *out, const struct tile_wait *wait) {
    const int64_t steps = end - begin;
    const int32_t share =
        (int32_t)(steps < TILE_K / PARTS_LOOK ? (TILE_K + steps - 1) / steps : PARTS_LOOK);
    struct tile_look look = look_begin(w, 0, wait);
    int32_t from = 0;
    UNROLL_KNOWN(8)
    for (int64_t s = begin; s < end; s++) {
        _tile_stream_loadd(6, o->x + s * STEP_BYTES, 64);
        _tile_stream_loadd(7, o->y + s * STEP_BYTES, 64);
        tile_products(o, s);
        if (s < o->low)
            tile_products(o, o->high + s);
        if (from < TILE_K) {
            const int32_t to = from + share < TILE_K ? from + share : TILE_K;
            look_at(job, w, p, 0, &look, from, to);
            from = to;
        }
        job_prefetch(w);
    }
    tile_store_scores(out);
    look_end(w, 0, &look);
}

/* Call i of `calls` on a group: its share of the next group's centroids is fetched. */
ALWAYS_INLINE void tile_fetch_next(const struct tile_operands *o, int64_t calls, int64_t i) {
    const size_t bytes = 2 * (size_t)(o->high + o->low) * STEP_BYTES;
    const size_t each = hf_align_up(bytes / (size_t)calls + HF_ALIGN);
    const char *next = o->c + bytes + each * (size_t)i;
    for (size_t at = 0; at < each; at += HF_ALIGN)
        __builtin_prefetch(next + at, 0, 2);
}

/* The same where a group's centroids do not stay in the L1 cache next to the rows: a part of their
 * steps does while all rows of the block pass by. The sums so far wait in memory. */
ALWAYS_INLINE void tile_sweep_parts(const struct job *job, struct worker *w, const struct pack *p,
                                    int64_t high, int64_t low, int64_t parts) {
    const int tiles = (w->block.rows + TILE_ROWS - 1) / TILE_ROWS;
    float *scores = (float *)(void *)((char *)w->scratch + tile_parts_bytes(job));
    const struct tile_wait none = {NULL, 0, 0};
    job_prefetch_plan(w, p->groups * tiles * high);
    for (int64_t turn = 0; turn < p->groups * parts; turn++) {
        const int64_t g = turn / parts;
        const int64_t begin = turn % parts * high / parts;
        const int64_t end = (turn % parts + 1) * high / parts;
        for (int i = 0; i < tiles; i++) {
            float *out = scores + i * SCORES_STRIDE;
            const char *x = (const char *)w->block.x + (size_t)(2 * high * i) * STEP_BYTES;
            const struct tile_operands o = tile_operands_at(x, p, g, high, low);
            tile_fetch_next(&o, tiles * parts, turn % parts * tiles + i);
            if (begin == 0) {
                const struct tile_wait wait = {out, i * TILE_ROWS, (int32_t)((g - 1) * TILE_K)};
                tile_load_start(p, g);
                tile_block_part(job, w, p, &o, 0, end, out, g > 0 ? &wait : &none);
            } else {
                tile_load_scores(out);
                tile_block_part(job, w, p, &o, begin, end, out, &none);
            }
        }
    }
    for (int i = 0; p->groups > 0 && i < tiles; i++) {
        const struct tile_wait wait = {scores + i * SCORES_STRIDE, i * TILE_ROWS,
                                       (int32_t)((p->groups - 1) * TILE_K)};
        tile_finish(job, w, p, 0, &wait);
    }
}

/* Turns between the panels where that pays: blocks of few turns have no time to lose. */
ALWAYS_INLINE int64_t lag_of(int64_t high) { return high >= LAG_STEPS ? high / 2 : 0; }

/* Panels that begin with different steps add up in different orders: not where scores decide
 * labels, or bounds tell them. Few rows do not pay for the turns that only one panel has. */
static int64_t tile_lag(const struct job *job, const struct worker *w) {
    const int shows = !job->a->exact || job->a->bounds;
    return shows || w->block.rows <= LAG_TILES * TILE_ROWS ? 0 : lag_of(tile_steps(job));
}

/* Numbers of steps that get a loop of their own: without its branches the next block begins while
 * this one is still at work. */
#define TILE_SHAPES(S) S(1, 0) S(1, 1) S(2, 0) S(2, 1) S(3, 0) S(3, 3) S(4, 0) S(4, 2) S(8, 4)
#define TILE_SHAPE(h, l)                                                                           \
    static NOINLINE void tile_argmax_##h##_##l(const struct job *job, struct worker *w,            \
                                               const struct pack *p) {                             \
        if (lag_of(h) > 0 && tile_lag(job, w) > 0)                                                 \
            tile_sweep(job, w, p, 0, h, l, lag_of(h));                                             \
        else                                                                                       \
            tile_sweep(job, w, p, 0, h, l, 0);                                                     \
    }
TILE_SHAPES(TILE_SHAPE)
#undef TILE_SHAPE

static NOINLINE void tile_argmax_any(const struct job *job, struct worker *w,
                                     const struct pack *p) {
    tile_sweep(job, w, p, 0, tile_steps(job), tile_low_steps(job), tile_lag(job, w));
}

/* No low steps to ask for: half jobs and whole numbers */
static NOINLINE void tile_argmax_high(const struct job *job, struct worker *w, const struct pack *p,
                                      int64_t parts) {
    tile_sweep_parts(job, w, p, tile_steps(job), 0, parts);
}

static NOINLINE void tile_argmax_parts(const struct job *job, struct worker *w,
                                       const struct pack *p, int64_t parts) {
    tile_sweep_parts(job, w, p, tile_steps(job), tile_low_steps(job), parts);
}

static void tile_argmax(const struct job *job, struct worker *w, const struct pack *p) {
    const int64_t high = tile_steps(job);
    const int64_t low = tile_low_steps(job);
#define TILE_SHAPE(h, l)                                                                           \
    if (high == h && low == l) {                                                                   \
        tile_argmax_##h##_##l(job, w, p);                                                          \
        return;                                                                                    \
    }
    TILE_SHAPES(TILE_SHAPE)
#undef TILE_SHAPE
    const int64_t parts = tile_splits(high, low);
    if (parts > 1 && low == 0)
        tile_argmax_high(job, w, p, parts);
    else if (parts > 1)
        tile_argmax_parts(job, w, p, parts);
    else
        tile_argmax_any(job, w, p);
}

static void tile_collect(const struct job *job, struct worker *w, const struct pack *p) {
    tile_sweep(job, w, p, 1, tile_steps(job), tile_low_steps(job), tile_lag(job, w));
}

#endif
