/* SPDX-License-Identifier: Apache-2.0
 * Panels of 16 rows by groups of 32 centroids on AMX, and the vector work on their scores
 * (host/scan_amx.h) between the products of later panels. */
#ifndef HF_ASSIGN_SWEEP_AMX_H
#define HF_ASSIGN_SWEEP_AMX_H

#include "ops/assign/host/sweep_i8x2.h"

#define PARTS_SCAN 2 /* centroids of each tile that are scanned after a step of long operands */

/* The operands of a panel times a group. */
struct tile_group {
    const char *x;      /* the panel */
    const char *c;      /* 16 centroids, then the other 16 */
    const float *start; /* of their scores */
};

/* A panel takes high + low turns. Each multiplies one step of the row's parts [xh | xl] with ch, or
 * with cl if there is a low step; both turns of a step follow each other. */
ALWAYS_INLINE int64_t turn_step(int64_t t, int64_t low) { return t < 2 * low ? t / 2 : t - low; }

ALWAYS_INLINE int turn_is_low(int64_t t, int64_t low) { return t < 2 * low && t % 2 != 0; }

/* What a turn multiplies: xl with ch, xh with ch, xh with cl. */
enum turn_kind { TURN_XL, TURN_HIGH, TURN_CL };

/* Even panels add up in tile registers 0 and 1, odd ones in 2 and 3. */
ALWAYS_INLINE void group_start(int odd, const float *start) {
    if (odd) {
        _tile_loadd(2, start, 64);
        _tile_loadd(3, start + 256, 64);
    } else {
        _tile_loadd(0, start, 64);
        _tile_loadd(1, start + 256, 64);
    }
}

ALWAYS_INLINE void group_store(int odd, float *scores) {
    if (odd) {
        _tile_stored(2, scores, 64);
        _tile_stored(3, scores + 256, 64);
    } else {
        _tile_stored(0, scores, 64);
        _tile_stored(1, scores + 256, 64);
    }
}

/* Turn t. If no tile has features of both parts (aligned), xl is multiplied with the same tiles of
 * ch as xh, so that each tile is loaded once. */
ALWAYS_INLINE void group_turn(const struct sweep *s, const struct tile_group *o, int odd,
                              int64_t t) {
    const int64_t step = s->aligned ? t / 3 : turn_step(t, s->low);
    const int kind = s->aligned ? (int)(t % 3) : turn_is_low(t, s->low) ? TURN_CL : TURN_HIGH;
    const int64_t c = (kind == TURN_CL ? s->high + step : step) * STEP_BYTES;
    const int64_t x = (kind == TURN_XL ? s->high / 2 + step : step) * STEP_BYTES;
    if (kind != TURN_HIGH || !s->aligned) {
        _tile_loadd(4, o->c + c, 64);
        _tile_loadd(5, o->c + (s->high + s->low) * STEP_BYTES + c, 64);
    }
    if (kind != TURN_CL)
        _tile_loadd(6, o->x + x, 64);
    if (odd) {
        TILE_ADD(s->i8, 2, 4, 6);
        TILE_ADD(s->i8, 3, 5, 6);
    } else {
        TILE_ADD(s->i8, 0, 4, 6);
        TILE_ADD(s->i8, 1, 5, 6);
    }
}

/* Multiply a panel with a group and scan the scores in *wait. A store right behind the last product
 * that it waits for would hold up what follows, so the scores of the panel before are stored (to
 * `before`) while this one is multiplied. */
ALWAYS_INLINE void tile_group(const struct sweep *s, struct tile_group o, int odd, float *before,
                              struct tile_scan *scan, const struct tile_wait *wait) {
    const int64_t turns = s->high + s->low;
    const int64_t store = turns > 3 ? 1 : 0;
    const int32_t share = scan_share(turns);
    scan_begin(s, scan, wait);
    /* else the compiler holds the address of each tile in a register */
    __asm__("" : "+r"(o.x), "+r"(o.c), "+r"(o.start));
    group_start(odd, o.start);
    job_prefetch(s->w);
    UNROLL_KNOWN(16)
    for (int64_t t = 0; t < turns; t++) {
        const int32_t from = (int32_t)t * share;
        group_turn(s, &o, odd, t);
        if (t == store && before)
            group_store(!odd, before);
        scan_at(s, scan, from < HALF_K ? from : HALF_K,
                from + share < HALF_K ? from + share : HALF_K);
    }
    scan_end(s, scan);
}

/* Each panel is multiplied with two groups while it is in the L1 cache; if one group is left, two
 * panels are. A panel is scanned two panels later, when its stores are done. */
ALWAYS_INLINE void tile_sweep(const struct job *job, const struct sweep *s) {
    struct worker *w = s->w;
    const struct pack *p = s->p;
    const int64_t high = s->high;
    const int panels = (w->block.rows + TILE_ROWS - 1) / TILE_ROWS * 2;
    const int64_t group = 2 * (high + s->low) * STEP_BYTES;
    float *scores = (float *)(void *)((char *)w->scratch + tile_parts_bytes(job));
    struct tile_wait wait[2] = {{NULL, 0, 0}, {NULL, 0, 0}};
    struct tile_scan scan;
    float *before = NULL;
    int turn = 0;
    scan_places(&scan, s->known);
    job_prefetch_plan(w, p->groups * panels);
    for (int64_t g = 0; g < p->groups;) {
        const int pair = g + 1 < p->groups;
        struct tile_group o = {w->block.x, (const char *)p->tiles + group * g, p->start + g * 512};
        for (int i = 0; i < panels; i += 2 - pair) {
            UNROLL(2)
            for (int odd = 0; odd < 2; odd++) {
                struct tile_group at = o;
                if (odd && pair) {
                    at.c += group;
                    at.start += 512;
                } else if (odd) {
                    at.x += high * STEP_BYTES;
                }
                tile_group(s, at, odd, before, &scan, &wait[0]);
                before = scores + turn * SCORES_STRIDE;
                turn = turn == 2 ? 0 : turn + 1;
                wait[0] = wait[1];
                wait[1] = (struct tile_wait){before, (i + (pair ? 0 : odd)) * VW,
                                             (int32_t)((g + (pair ? odd : 0)) * TILE_K)};
            }
            o.x += (2 - pair) * high * STEP_BYTES;
        }
        g += 1 + pair;
    }
    if (before)
        group_store(1, before);
    tile_finish(s, &wait[0]);
    tile_finish(s, &wait[1]);
}

/* Steps [begin, end) of 32 rows by 32 centroids. */
struct tile_part {
    int64_t begin, end;
    const float *from[2]; /* of each panel: what its sums start from, */
    float *to[2];         /* and where they go */
    float *before;        /* sums of the second panel of the part before; NULL: none */
    struct tile_wait wait[2];
};

/* Centroids of the next group, prefetched into the L2 cache. */
struct tile_prefetch {
    const char *at;
    size_t step; /* bytes each time */
};

ALWAYS_INLINE void tile_fetch(struct tile_prefetch *next) {
    for (size_t i = 0; i < next->step; i += HF_ALIGN)
        __builtin_prefetch(next->at + i, 0, 2);
    next->at += next->step;
}

/* The first step. Sums of a panel are stored behind products of the other one: see tile_group(). */
ALWAYS_INLINE void tile_part_begin(const struct tile_operands *o, const struct tile_part *t) {
    group_start(0, t->from[0]);
    tile_load_centroids(o, t->begin);
    _tile_stream_loadd(6, o->x + t->begin * STEP_BYTES, 64);
    tile_products_x(o);
    if (t->before)
        group_store(1, t->before);
    group_start(1, t->from[1]);
    _tile_stream_loadd(7, o->y + t->begin * STEP_BYTES, 64);
    tile_products_y(o);
}

/* Centroids [from, from + PARTS_SCAN) of two panels. */
ALWAYS_INLINE void scan_two(const struct sweep *s, struct tile_scan scan[2], int32_t from) {
    scan_at(s, &scan[0], from, from + PARTS_SCAN);
    scan_at(s, &scan[1], from, from + PARTS_SCAN);
}

/* Rows are loaded as a stream, which leaves the centroids in the L1 cache. */
ALWAYS_INLINE void tile_block_part(const struct sweep *s, const struct tile_operands *o,
                                   const struct tile_part *t, struct tile_prefetch *next) {
    struct tile_scan scan[2];
    scan_places(&scan[0], 0);
    scan_places(&scan[1], 0);
    int32_t from = 0;
    tile_part_begin(o, t);
    /* not before: of a block of one tile the second panel was stored only now */
    scan_begin(s, &scan[0], &t->wait[0]);
    scan_begin(s, &scan[1], &t->wait[1]);
    UNROLL_KNOWN(8)
    for (int64_t i = t->begin; i < t->end; i++) {
        if (i > t->begin) {
            _tile_stream_loadd(6, o->x + i * STEP_BYTES, 64);
            _tile_stream_loadd(7, o->y + i * STEP_BYTES, 64);
            tile_products(o, i);
        }
        if (i < o->low)
            tile_products(o, o->high + i);
        if (from < HALF_K) {
            scan_two(s, scan, from);
            from += PARTS_SCAN;
        }
        job_prefetch(s->w);
        tile_fetch(next);
    }
    for (; from < HALF_K; from += PARTS_SCAN)
        scan_two(s, scan, from);
    group_store(0, t->to[0]);
    scan_end(s, &scan[0]);
    scan_end(s, &scan[1]);
}

/* Scores of group g wait for two panels from slot `slot` on; g < 0: none do. */
ALWAYS_INLINE void tile_waits(const float *scores, int slot, int64_t g, struct tile_wait wait[2]) {
    for (int i = 0; i < 2; i++)
        wait[i] = (struct tile_wait){g < 0 ? NULL : scores + i * SCORES_STRIDE, slot + i * VW,
                                     (int32_t)(g * TILE_K)};
}

/* Where the sums of both panels of tile i go, and where they start: at what the part before left.
 */
ALWAYS_INLINE void tile_sums(struct tile_part *t, const struct pack *p, int64_t g, float *scores,
                             int i) {
    for (int panel = 0; panel < 2; panel++) {
        t->to[panel] = scores + (2 * i + panel) * SCORES_STRIDE;
        t->from[panel] = t->begin == 0 ? p->start + g * 512 : t->to[panel];
    }
    tile_waits(t->to[0], i * TILE_ROWS, t->begin == 0 ? g - 1 : -1, t->wait);
}

/* The same if the centroids of a group do not fit into the L1 cache next to the rows. Their steps
 * are split into parts: one part stays in the cache while it is multiplied with all rows of the
 * block, whose sums so far wait in memory. */
ALWAYS_INLINE void tile_sweep_parts(const struct job *job, const struct sweep *s, int64_t parts) {
    struct worker *w = s->w;
    const struct pack *p = s->p;
    const int64_t high = s->high;
    const int tiles = (w->block.rows + TILE_ROWS - 1) / TILE_ROWS;
    const size_t group = 2 * (size_t)(high + s->low) * STEP_BYTES;
    const size_t steps = (size_t)(tiles * high);
    float *scores = (float *)(void *)((char *)w->scratch + tile_parts_bytes(job));
    struct tile_part t = {.before = NULL};
    struct tile_prefetch next = {NULL, hf_align_up((group + steps - 1) / steps)};
    job_prefetch_plan(w, p->groups * tiles * high);
    for (int64_t turn = 0; turn < p->groups * parts; turn++) {
        const int64_t g = turn / parts;
        t.begin = turn % parts * high / parts;
        t.end = (turn % parts + 1) * high / parts;
        if (t.begin == 0)
            next.at = (const char *)p->tiles + group * (size_t)(g + 1);
        for (int i = 0; i < tiles; i++) {
            const char *x = (const char *)w->block.x + (size_t)(2 * high * i) * STEP_BYTES;
            const struct tile_operands o = tile_operands_at(x, p, g, high, s->low, s->i8);
            tile_sums(&t, p, g, scores, i);
            tile_block_part(s, &o, &t, &next);
            t.before = t.to[1];
        }
    }
    if (t.before)
        group_store(1, t.before);
    for (int i = 0; t.before && i < tiles; i++) {
        tile_waits(scores + 2 * i * SCORES_STRIDE, i * TILE_ROWS, p->groups - 1, t.wait);
        tile_finish(s, &t.wait[0]);
        tile_finish(s, &t.wait[1]);
    }
}

/* Does no tile have features of both parts? */
static int tile_aligned(const struct job *job) {
    return tile_parts(job) == 2 && job->d % STEP == 0 && tile_low_steps(job) > 0;
}

/* Numbers of high and low steps, and aligned, with a loop of their own: it has no branches, so the
 * CPU begins the next panel before this one is done. */
#define TILE_SHAPES(S)                                                                             \
    S(1, 0, 0)                                                                                     \
    S(1, 1, 0)                                                                                     \
    S(2, 0, 0)                                                                                     \
    S(2, 1, 0)                                                                                     \
    S(2, 1, 1) S(3, 0, 0) S(3, 3, 0) S(4, 0, 0) S(4, 2, 0) S(4, 2, 1) S(4, 4, 0) S(8, 4, 1)
#define TILE_SHAPE(h, l, t)                                                                        \
    static NOINLINE void tile_argmax_##h##_##l##_##t(const struct job *job, struct worker *w,      \
                                                     const struct pack *p) {                       \
        tile_sweep(                                                                                \
            job, &(struct sweep){.w = w, .p = p, .high = h, .low = l, .aligned = t, .known = 1});  \
    }
TILE_SHAPES(TILE_SHAPE)
#undef TILE_SHAPE

static NOINLINE void tile_argmax_any(const struct job *job, struct worker *w,
                                     const struct pack *p) {
    tile_sweep(
        job, &(struct sweep){.w = w, .p = p, .high = tile_steps(job), .low = tile_low_steps(job)});
}

/* Half jobs and whole numbers: no low steps, which is known here. */
static NOINLINE void tile_argmax_high(const struct job *job, struct worker *w, const struct pack *p,
                                      int64_t parts) {
    tile_sweep_parts(job, &(struct sweep){.w = w, .p = p, .high = tile_steps(job)}, parts);
}

static NOINLINE void tile_argmax_parts(const struct job *job, struct worker *w,
                                       const struct pack *p, int64_t parts) {
    const struct sweep s = {.w = w, .p = p, .high = tile_steps(job), .low = tile_low_steps(job)};
    tile_sweep_parts(job, &s, parts);
}

/* Numbers of steps of bytes with a loop of their own. */
#define I8_SHAPES(S) S(2) S(3) S(4)
#define I8_SHAPE(h)                                                                                \
    static NOINLINE void i8_argmax_##h(const struct job *job, struct worker *w,                    \
                                       const struct pack *p) {                                     \
        tile_sweep(job, &(struct sweep){.w = w, .p = p, .high = h, .known = 1, .i8 = 1});          \
    }
I8_SHAPES(I8_SHAPE)
#undef I8_SHAPE

static NOINLINE void i8_argmax_any(const struct job *job, struct worker *w, const struct pack *p) {
    tile_sweep(job, &(struct sweep){.w = w, .p = p, .high = tile_steps(job), .i8 = 1});
}

static NOINLINE void i8_argmax_parts(const struct job *job, struct worker *w, const struct pack *p,
                                     int64_t parts) {
    tile_sweep_parts(job, &(struct sweep){.w = w, .p = p, .high = tile_steps(job), .i8 = 1}, parts);
}

/* Sums that wait in memory cost more than centroids that rows push out of the L1 cache, so there
 * are as few parts as possible. */
static void i8_argmax(const struct job *job, struct worker *w, const struct pack *p) {
    const int64_t steps = tile_steps(job);
#define I8_SHAPE(h)                                                                                \
    if (steps == h) {                                                                              \
        i8_argmax_##h(job, w, p);                                                                  \
        return;                                                                                    \
    }
    I8_SHAPES(I8_SHAPE)
#undef I8_SHAPE
    if (tile_splits(steps, 0) > 1)
        i8_argmax_parts(job, w, p, (2 * steps * STEP_BYTES + SPLIT_BYTES - 1) / SPLIT_BYTES);
    else
        i8_argmax_any(job, w, p);
}

static void tile_argmax_bare(const struct job *job, struct worker *w, const struct pack *p) {
    if (job->i8) {
        (job->i8 == 2 ? i8x2_argmax : i8_argmax)(job, w, p);
        i8_scores(job, &w->block);
        return;
    }
    const int64_t high = tile_steps(job);
    const int64_t low = tile_low_steps(job);
    const int aligned = tile_aligned(job);
#define TILE_SHAPE(h, l, t)                                                                        \
    if (high == h && low == l && aligned == t) {                                                   \
        tile_argmax_##h##_##l##_##t(job, w, p);                                                    \
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

static NOINLINE void i8_collect(const struct job *job, struct worker *w, const struct pack *p) {
    i8_thresholds(job, &w->block);
    if (job->i8 == 2)
        i8x2_sweep(job, &(struct sweep){.w = w, .p = p, .collect = 1, .high = tile_steps(job)});
    else
        tile_sweep(job,
                   &(struct sweep){.w = w, .p = p, .collect = 1, .high = tile_steps(job), .i8 = 1});
}

static void tile_collect_bare(const struct job *job, struct worker *w, const struct pack *p) {
    if (job->i8) {
        i8_collect(job, w, p);
        return;
    }
    tile_sweep(
        job,
        &(struct sweep){
            .w = w, .p = p, .collect = 1, .high = tile_steps(job), .low = tile_low_steps(job)});
}

#include "ops/assign/host/guard/guard_amx_pass.h"

#endif
