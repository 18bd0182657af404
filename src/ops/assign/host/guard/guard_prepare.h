/* SPDX-License-Identifier: Apache-2.0
 * Once per protected call: which checks it makes, their memory, and the checksums of the centroids.
 * A checksum is the sum of some centroids, alternately + and -. It is a column of the pack like a
 * centroid, in a place that these leave free, so that its score is a product of the same tile. It
 * is made from the centroids of the call, not from the pack that it checks. */
#ifndef HF_ASSIGN_GUARD_PREPARE_H
#define HF_ASSIGN_GUARD_PREPARE_H

#include "ops/assign/host/centred.h"
#include "ops/assign/host/guard/guard_slab.h"
#include "ops/assign/host/job.h"
#include <math.h>
#include <string.h>

#define GUARD_HALF_BITS 10 /* of a checksum in int16: its low column has so many */
#define GUARD_LONGER 4     /* longer centroids than so many medians are in no checksum */
#define GUARD_EXPONENTS 64 /* lengths from 2^-64 on are told apart */

/* Columns of a checksum: int16 needs two for its digits. */
static int guard_columns_each(const struct job *job) { return job->i16 ? 2 : 1; }

/* Columns that a pack of `count` centroids keeps free for checksums. */
static int64_t guard_room(const struct job *job, int64_t count) {
    return TILE_HAS_GUARD ? guard_columns(count, guard_columns_each(job)) : 0;
}

/* What the call asks for. A call without a slot can tell nobody. */
static void guard_begin_call(struct job *job, const struct hf_call *call) {
    struct guard *g = &job->guard;
    const struct hf_assign_args *a = call->args;
    g->share = 1;
    if (!call->slot || call->scheme == HF_SCHEME_OFF || call->checks == 0)
        return;
    g->checks = call->checks;
    g->slot = call->slot;
    g->kernel = call->kernel;
    g->correct = call->scheme != HF_SCHEME_DETECT;
    g->labels = guard_checks(g, HF_FAULT_OPEN);
    g->root = sqrt((double)a->x.cols);
    g->scores =
        (TILE_HAS_GUARD && (guard_checks(g, HF_FAULT_ROWS) || guard_checks(g, HF_FAULT_BEST))) ||
        (TILE_HAS_SUMS && !job->i8 && !job->project && guard_checks(g, HF_FAULT_ROWS));
    g->weighted = TILE_HAS_GUARD && !job->i16 && !job->project && guard_checks(g, HF_FAULT_TILE);
    g->before = a->exact && a->before.data && guard_checks(g, HF_FAULT_MOVES);
    g->turn = (uint32_t)a->turn;
    if (call->scheme == HF_SCHEME_SAMPLED || (g->before && a->turn > 0))
        g->share = GUARD_SHARE;
    if (g->share > 1 && a->turn == 0) /* calls that count no turns take another share each, too */
        g->turn = (uint32_t)(__atomic_load_n(&call->slot->checked, __ATOMIC_RELAXED) >> GUARD_RUN);
    g->words = (g->scores || g->share > 1) && guard_checks(g, HF_FAULT_OPERAND);
}

static void guard_carve_pack(hf_carve *carve, const struct job *job, struct guard_pack *c,
                             int64_t count) {
    const size_t groups = (size_t)((count + guard_room(job, count) + TILE_K - 1) / TILE_K);
#if TILE_HAS_SUMS
    c->in = hf_carve_take(carve, sizeof(uint32_t) * groups);
    c->weight = hf_carve_take(carve, sizeof(float) * STEP * (size_t)tile_steps(job));
    c->begin = hf_carve_take(carve, sizeof(float) * GUARD_TESTS);
    c->column = hf_carve_take(carve, sizeof(double) * 2 * GUARD_TESTS * (size_t)job->d_pad);
    return;
#endif
    c->start = hf_carve_take(carve, tile_start_bytes(job, (int64_t)groups));
    c->role = hf_carve_take(carve, groups * TILE_K);
    c->mixed = hf_carve_take(carve, groups);
    c->factor = hf_carve_take(carve, sizeof(float) * groups * TILE_K);
    c->group_sums = hf_carve_take(carve, 2 * sizeof(float) * groups * (size_t)job->d_pad);
    c->group_starts = hf_carve_take(carve, 2 * sizeof(float) * groups);
    c->one = hf_carve_take(carve, sizeof(float) * groups * TILE_K);
    c->place = hf_carve_take(carve, sizeof(float) * groups * TILE_K);
    c->part = hf_carve_take(carve, sizeof(float) * groups * TILE_K);
    c->begin = hf_carve_take(carve, sizeof(float) * GUARD_TESTS);
    c->column = hf_carve_take(carve, sizeof(double) * GUARD_TESTS * (size_t)job->d_pad);
}

/* Of the call. It is taken whether the call is protected or not: who measures does not know. */
static void guard_carve(hf_carve *carve, struct job *job) {
    struct guard *g = &job->guard;
    g->buckets = (job->n >> GUARD_BUCKET) + 1;
    g->bucket = hf_carve_take(carve, sizeof(uint64_t) * (size_t)g->buckets);
    g->who = hf_carve_take(carve, sizeof(int32_t) * (size_t)g->buckets);
    slab_carve(carve, job, &g->slab);
    if (!TILE_HAS_GUARD && !TILE_HAS_SUMS)
        return;
    guard_carve_pack(carve, job, &job->all.check, job->all.count);
    guard_carve_pack(carve, job, &job->moved.check, job->moved.count);
}

static void guard_carve_worker(hf_carve *carve, const struct job *job, struct worker *w,
                               size_t open) {
    const size_t rows = sizeof(float) * (size_t)job->block_rows;
    w->guard.listed = hf_carve_take(carve, sizeof(uint32_t) * open);
    if (!TILE_HAS_GUARD && !TILE_HAS_SUMS)
        return;
    w->guard.z = hf_carve_take(carve, rows * GUARD_TESTS);
    w->guard.most = hf_carve_take(carve, rows * 2);
    w->guard.place = hf_carve_take(carve, rows);
    w->guard.row_sums = hf_carve_take(carve, rows / VW * 2 * (size_t)job->d_pad);
}

#if TILE_HAS_GUARD
/* The pack whose checksums are made. */
struct guard_making {
    struct job *job;
    struct pack *pack;
};

/* The number of the centroid in a slot that is in a checksum, or -1. */
static int64_t guard_centroid(const struct job *job, const struct pack *p, int64_t slot) {
    const int64_t k = slot >= p->count ? -1 : p->index ? p->index[slot] : slot;
    return k >= 0 && job->c_length[k] < job->guard.longest ? k : -1;
}

/* c' of a slot as its tile stores it, added to the column or subtracted. */
static void guard_add_centroid(const struct job *job, const struct pack *p, int64_t slot,
                               const float *c, double *column) {
    const double sign = slot % 2 ? -1 : 1;
    float scale = 0;
#if TILE_HAS_I16
    if (job->i16)
        scale = job->i16_own ? i16_centroid_scale((double)p->length[slot]) : job->i16_scale;
#endif
    (void)p;
    for (int64_t j = 0; j < job->d; j++) {
        const double stored = scale > 0 ? (double)(rintf(c[j] * scale) / scale) : (double)c[j];
        column[j] += sign * stored;
    }
}

#if TILE_HAS_I16
/* A checksum as two columns of whole numbers: 2^GUARD_HALF_BITS high + low. */
static void guard_store_i16(const struct job *job, struct pack *p, int64_t slot,
                            const double *column) {
    double square = 0;
    int e = 0;
    for (int64_t j = 0; j < job->d; j++)
        square += column[j] * column[j];
    (void)frexp(sqrt(square), &e);
    /* the longer column is at most 2^15 long, so its sums stay within int32 */
    const double scale = square > 0 ? ldexp(1, I16_BITS + GUARD_HALF_BITS - e) : 1;
    const float unit = job->i16_own ? 1 : job->i16_scale;
    const double half = ldexp(1, GUARD_HALF_BITS);
    for (int64_t j = 0; j < job->d; j++) {
        const double all = rint(column[j] * scale);
        const double high = rint(all / half);
        i16_put(job, p, slot, j, (int)high);
        i16_put(job, p, slot + 1, j, (int)(all - high * half));
    }
    for (int i = 0; i < 2; i++) {
        float *start = i16_start(p, (slot + i) / TILE_K) + (slot + i) % TILE_K;
        start[0] = 0;
        start[TILE_K] = 1;
        p->check.factor[slot + i] = (float)((i == 0 ? half : 1) * (double)unit / scale);
    }
}
#endif

/* Checksum q, item q of a loop. */
static void guard_make_test(void *user, int worker, int64_t begin, int64_t end) {
    const struct guard_making *making = user;
    struct job *job = making->job;
    struct pack *p = making->pack;
    struct worker *w = &job->workers[worker];
    for (int64_t q = begin; q < end; q++) {
        double *column = p->check.column + q * job->d_pad;
        double starts = 0;
        memset(column, 0, sizeof *column * (size_t)job->d_pad);
        const int64_t first = q * p->check.groups_each * TILE_K;
        for (int64_t i = 0; i < p->check.groups_each * TILE_K; i++) {
            const int64_t k = guard_centroid(job, p, first + i);
            if (k < 0)
                continue;
            const double square = centred_row(job, w, k, w->rows);
            if (job->a->metric == HF_EUCLIDEAN)
                starts += (i % 2 ? -1 : 1) * (double)(float)(-square / 2);
            guard_add_centroid(job, p, first + i, w->rows, column);
        }
        p->check.begin[q] = (float)-starts;
        const int64_t slot = p->count + q * guard_columns_each(job);
#if TILE_HAS_I16
        if (job->i16) {
            guard_store_i16(job, p, slot, column);
            continue;
        }
#endif
        for (int64_t j = 0; j < job->d_pad; j++)
            w->rows[j] = (float)column[j];
        tile_pack_centroid(job, w, p, slot, w->rows, 0);
        p->check.factor[slot] = 1;
    }
}

/* What slot `slot` makes of its group; q: the checksum that it is a column of, or -1. */
static void guard_mix(struct guard_pack *c, int64_t slot, int64_t q) {
    uint8_t *mixed = &c->mixed[slot / TILE_K];
    const uint8_t foreign = q >= 0 && q != slot / TILE_K / c->groups_each;
    const uint8_t kind = foreign                        ? GUARD_FOREIGN
                         : c->role[slot] == GUARD_SCORE ? GUARD_PURE
                                                        : GUARD_PARTS;
    *mixed = kind > *mixed ? kind : *mixed;
    c->part[slot] = c->role[slot] == GUARD_NONE ? 0 : slot % 2 ? -1 : 1;
}

/* The checksums of a pack, once its centroids are packed. */
static void guard_pack(struct job *job, struct pack *p, hf_pool *pool) {
    struct guard_pack *c = &p->check;
    const int64_t slots = p->groups * TILE_K;
    const int each = guard_columns_each(job);
    c->tests = 0;
    c->groups_each = 1;
    if (p->count == 0)
        return;
    const int64_t room = (slots - p->count) / each;
    const int64_t wanted = 1 + p->count / GUARD_COLUMNS;
    const int64_t least = room < wanted ? room : wanted;
    const int64_t most = least < GUARD_TESTS ? least : GUARD_TESTS;
    c->groups_each = (p->groups + most - 1) / most;
    c->tests = (int)((p->groups + c->groups_each - 1) / c->groups_each);
    memset(c->mixed, 0, (size_t)p->groups);
    for (int64_t slot = 0; slot < slots; slot++) {
        const int64_t q = (slot - p->count) / each;
        const int check = slot >= p->count && q < c->tests;
        c->role[slot] = (uint8_t)(check                               ? GUARD_CHECK + q
                                  : guard_centroid(job, p, slot) >= 0 ? GUARD_SCORE
                                                                      : GUARD_NONE);
        guard_mix(c, slot, check ? q : -1);
    }
    struct guard_making making = {job, p};
    hf_parallel_for(pool, c->tests, 1, guard_make_test, &making);
    memcpy(c->start, p->start, tile_start_bytes(job, p->groups));
    for (int64_t slot = p->count; slot < slots; slot++) {
        c->part[slot] = c->role[slot] >= GUARD_CHECK ? -c->factor[slot] : 0;
        c->start[tile_start_place(job, slot)] = EXCLUDED;
    }
}

#endif

/* The largest threshold of the row test, in units of |x'| cmax + cmax^2 / 2: if m roundings a score
 * are independent, it is passed once in 10^7 times (docs/numerics/guard.md). */
static double guard_kappa_most(const struct job *job) {
    const double m = tile_dot_error(job, TILE_HAS_SUMS) * 0x1p24;
    const double columns = (double)(job->all.check.groups_each * TILE_K);
    return 6 * 0x1p-24 * sqrt(2 * columns * m);
}

static void guard_set_kappa(struct job *job, double kappa) {
    job->guard.kappa = (float)(kappa * (1 + 0x1p-10));
    job->guard.width = job->guard.share > 1 ? 0 : 2 * job->guard.kappa * (1 + 0x1p-10f);
}

/* Where a few centroids are far longer than the others, sums of scores round to what they are, and
 * show nothing of the others. So checksums are of those up to GUARD_LONGER times the median. */
static void guard_leave_long(struct job *job) {
    struct guard *g = &job->guard;
    int count[2 * GUARD_EXPONENTS + 1] = {0};
    int below = 0;
    int e = 0;
    for (int64_t k = 0; k < job->k; k++)
        if (job->c_length[k] < OUT_OF_RANGE) {
            (void)frexp(job->c_length[k], &e);
            count[(e < -GUARD_EXPONENTS ? -GUARD_EXPONENTS : e) + GUARD_EXPONENTS]++;
            below++;
        }
    below /= 2;
    for (e = 0; e < 2 * GUARD_EXPONENTS && below >= count[e]; e++)
        below -= count[e];
    g->longest = fmin(ldexp(GUARD_LONGER, e - GUARD_EXPONENTS), OUT_OF_RANGE);
    g->cmax = smaller(g->cmax, (float)(g->longest * (1 + 0x1p-10)));
}

/* What the words of an array add up to, modulo 2^32. */
static uint32_t guard_add_words(const void *data, size_t bytes) {
    const int32_t *at = data;
    int32_t lanes[VW];
    vi sum[4] = {vi_set1(0), vi_set1(0), vi_set1(0), vi_set1(0)};
    size_t left = bytes / sizeof *at;
    for (; left >= 4 * VW; left -= 4 * VW, at += 4 * VW) {
        UNROLL(4)
        for (int i = 0; i < 4; i++)
            sum[i] = vi_add(sum[i], vi_load(at + i * VW));
    }
    vi_store(lanes, vi_add(vi_add(sum[0], sum[1]), vi_add(sum[2], sum[3])));
    uint32_t all = 0;
    for (int i = 0; i < VW; i++)
        all += (uint32_t)lanes[i];
    for (size_t i = 0; i < left; i++)
        all += (uint32_t)at[i];
    return all;
}

/* The same of a pack, as long as nothing is written to it: one wrong word is always seen. */
static uint32_t guard_sum_pack(const struct job *job, const struct pack *p) {
    const size_t slots = sizeof(float) * TILE_K * (size_t)p->groups;
    const size_t starts = tile_start_bytes(job, p->groups);
    uint32_t sum = guard_add_words(p->tiles, tile_group_bytes(job) * (size_t)p->groups) +
                   guard_add_words(p->start, starts) + guard_add_words(p->length, slots);
    if (p->loss)
        sum += guard_add_words(p->loss, slots);
    return p->check.start ? sum + guard_add_words(p->check.start, starts) : sum;
}

/* Are packs looked at as a whole? In iterations, which are made again then; labels that come from
 * nothing have the row test. */
static int guard_sums_packs(const struct job *job) {
    return (job->guard.share > 1 || job->guard.before) && guard_checks(&job->guard, HF_FAULT_PACK);
}

/* Checksums of the centroids, and the threshold. */
static void guard_sum_scores(struct job *job, hf_pool *pool) {
#if TILE_HAS_GUARD
    guard_pack(job, &job->all, pool);
    guard_pack(job, &job->moved, pool);
#elif TILE_HAS_SUMS
    guard_amx_make(job, &job->all, pool, 0);
    guard_amx_make(job, &job->moved, pool, 0);
#endif
    if (guard_checks(&job->guard, HF_FAULT_ROWS))
        guard_set_kappa(job, guard_kappa_most(job));
}

static void guard_pack_all(struct job *job, hf_pool *pool) {
    struct guard *g = &job->guard;
    g->longest = OUT_OF_RANGE;
    g->cmax = job->bound.cmax;
    if (g->scores && job->differ)
        guard_leave_long(job);
    memset(g->bucket, 0, sizeof *g->bucket * (size_t)g->buckets);
    memset(g->who, 0, sizeof *g->who * (size_t)g->buckets);
    if (slab_serves(job) && job->difference != DIFFERENCE_NONE)
        slab_make(job);
#if TILE_HAS_GUARD
    if (g->weighted && job->usable) {
        weighted_pack(job, &job->all, pool);
        weighted_pack(job, &job->moved, pool);
    }
#endif
    if (g->scores && job->usable)
        guard_sum_scores(job, pool);
    job->all.check.words = guard_sums_packs(job) ? guard_sum_pack(job, &job->all) : 0;
    job->moved.check.words = guard_sums_packs(job) ? guard_sum_pack(job, &job->moved) : 0;
}

#endif
