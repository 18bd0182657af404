/* SPDX-License-Identifier: Apache-2.0
 * k-means|| (Bahmani, Moseley, Vattani, Kumar, Vassilvitskii: Scalable k-means++, VLDB 2012): a few
 * rounds in which each row becomes a candidate with a chance in proportion to its potential, 3/4 k
 * expected a round; candidates, weighted with the rows nearest to them, are clustered by greedy
 * k-means++. Few passes over the data, whatever k is. */
#include "algo/kmeans/init/init_state.h"
#include "base/mem.h"
#include "base/rng.h"
#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define ROUNDS 5
#define GATHER_ROWS 4096
#define DRAW_ROWS 4096 /* of a worker, at once */

__extension__ typedef unsigned __int128 u128;

/* Rows that became candidates, the first centroid in front. */
struct pool {
    int64_t *row; /* [room], count in use */
    int64_t count, room;
};

/* The candidates as a problem of their own, on a device as float64 in its memory. */
struct nested {
    void *x; /* [count, d] F64 for float64 data, else F32, which holds the others exactly */
    bool on_device;
    double *weights; /* [count] of the rows nearest to each */
    double *nearest; /* [count] */
    int32_t *labels; /* [count] */
    struct hf_init_state state;
    const struct hf_init_state *outer;
};

static hf_status no_memory(const struct hf_init_state *s, int64_t candidates) {
    return hf_ctx_fail(s->rows->ctx, HF_E_NOMEM,
                       "no memory for %" PRId64
                       " candidates of k-means||: use kmeans++, which keeps none",
                       candidates);
}

static hf_status pool_add(const struct hf_init_state *s, struct pool *pool, int64_t row) {
    if (pool->count == pool->room) {
        const int64_t room = pool->room * 2 + 1024;
        int64_t *bigger = hf_alloc((size_t)room * sizeof *bigger);
        if (!bigger)
            return no_memory(s, room);
        if (pool->count)
            memcpy(bigger, pool->row, (size_t)pool->count * sizeof *bigger);
        hf_free(pool->row);
        pool->row = bigger;
        pool->room = room;
    }
    pool->row[pool->count++] = row;
    return HF_OK;
}

/* Candidates expected of a round. More of them cost more, and are no better: docs/benchmarks.md,
 * "Quality of the first centroids". */
static int64_t expected(int64_t k) { return k - k / 4; }

/* Rows are drawn one by one: more than eight roots of the mean above it come once in 1e12 at most
 * (Chernoff) where the mean is 1000 or more; 32 are for smaller ones. */
int64_t hf_init_round_most(int64_t k) {
    const double mean = (double)expected(k);
    return (int64_t)(mean + 8 * sqrt(mean)) + 32;
}

/* Does row i become a candidate? The chance is min(1, expected * potential / total), decided in
 * integers. */
static bool accepted(const struct hf_init_state *s, uint64_t stream, int64_t i) {
    const u128 wanted = (u128)hf_init_potential(s, i) * (u128)expected(s->k);
    if (wanted == 0 || wanted >= s->total)
        return wanted != 0;
    return (u128)hf_rng_bits(s->args->seed, stream, (uint64_t)i) * s->total < wanted << 64;
}

struct draw {
    const struct hf_init_state *s;
    uint64_t stream;
    uint64_t *bits; /* a bit for each row */
};

/* Whole words of 64 rows: ranges begin at multiples of DRAW_ROWS. */
static void draw_range(void *job, int worker, int64_t begin, int64_t end) {
    const struct draw *draw = job;
    (void)worker;
    for (int64_t i = begin; i < end; i++) {
        if (i % 64 == 0)
            draw->bits[i / 64] = 0;
        draw->bits[i / 64] |= (uint64_t)accepted(draw->s, draw->stream, i) << (i % 64);
    }
}

/* The rows that become candidates in a round, onto the pool. */
static hf_status draw_rows(struct hf_init_state *s, struct pool *pool, int round) {
    const int64_t words = (s->n + 63) / 64;
    struct draw draw = {s, hf_init_stream(s, HF_DRAW_ACCEPT + round),
                        hf_alloc((size_t)words * sizeof(uint64_t))};
    if (!draw.bits)
        return hf_ctx_fail(s->rows->ctx, HF_E_NOMEM,
                           "no memory for a bit for each of %" PRId64 " rows", s->n);
    hf_parallel_for(s->pool, s->n, DRAW_ROWS, draw_range, &draw);
    hf_status status = HF_OK;
    for (int64_t w = 0; w < words; w++)
        for (uint64_t left = draw.bits[w]; left && status == HF_OK && pool->count < INT32_MAX;
             left &= left - 1)
            status = pool_add(s, pool, w * 64 + __builtin_ctzll(left));
    hf_free(draw.bits);
    return status;
}

/* Where the candidates lie: in the memory of the device if all rows do. */
static double *candidates_alloc(const struct hf_init_state *s, size_t bytes) {
    return hf_init_in_place(s) ? hf_ctx_alloc(s->rows->ctx, bytes) : hf_alloc(bytes);
}

static void candidates_free(const struct hf_init_state *s, double *c) {
    if (hf_init_in_place(s))
        hf_ctx_release(s->rows->ctx, c);
    else
        hf_free(c);
}

/* One round: more candidates, and what they change. */
static hf_status sample(struct hf_init_state *s, struct pool *pool, int round) {
    const int64_t before = pool->count;
    HF_TRY(draw_rows(s, pool, round));
    const int64_t added = pool->count - before;
    if (added == 0)
        return HF_OK;
    size_t bytes;
    double *c = hf_mul3_size(added, s->d, sizeof *c, &bytes) ? candidates_alloc(s, bytes) : NULL;
    if (!c)
        return no_memory(s, added);
    hf_status status = hf_init_gather(s, pool->row + before, added, c);
    if (status == HF_OK)
        status = hf_init_commit(s, c, added, (int32_t)before);
    candidates_free(s, c);
    for (int64_t i = before; i < pool->count && status == HF_OK; i++)
        hf_init_take(s, pool->row[i]);
    if (status == HF_OK)
        hf_init_refine(s);
    return status;
}

/* Candidates [count, d] in the type of nested->x. */
static hf_status gather(const struct hf_init_state *s, const struct pool *pool, struct nested *in) {
    if (in->on_device)
        return hf_init_gather(s, pool->row, pool->count, in->x);
    double *part = hf_alloc((size_t)GATHER_ROWS * (size_t)s->d * sizeof *part);
    if (!part)
        return no_memory(s, pool->count);
    assert(in->x);
    hf_status status = HF_OK;
    for (int64_t first = 0; first < pool->count && status == HF_OK; first += GATHER_ROWS) {
        const int64_t left = pool->count - first;
        const int64_t rows = left < GATHER_ROWS ? left : GATHER_ROWS;
        status = hf_init_gather(s, pool->row + first, rows, part);
        for (int64_t i = 0; i < rows * s->d && status == HF_OK; i++) {
            if (s->rows->dtype == HF_F64)
                ((double *)in->x)[first * s->d + i] = part[i];
            else
                ((float *)in->x)[first * s->d + i] = (float)part[i];
        }
    }
    hf_free(part);
    return status;
}

static hf_status nested_alloc(const struct hf_init_state *s, int64_t count, struct nested *in) {
    size_t bytes;
    in->on_device = s->on_device && hf_init_in_place(s);
    const size_t size = in->on_device || s->rows->dtype == HF_F64 ? 8 : 4;
    if (hf_mul3_size(count, s->d, (int64_t)size, &bytes))
        in->x = in->on_device ? hf_ctx_alloc(s->rows->ctx, bytes) : hf_alloc(bytes);
    in->weights = hf_alloc_zero((size_t)count * sizeof *in->weights);
    in->nearest = hf_alloc((size_t)count * sizeof *in->nearest);
    in->labels = hf_alloc((size_t)count * sizeof *in->labels);
    return in->x && in->weights && in->nearest && in->labels ? HF_OK : no_memory(s, count);
}

static void nested_free(const struct hf_init_state *s, struct nested *in) {
    if (in->on_device)
        hf_ctx_release(s->rows->ctx, in->x);
    else
        hf_free(in->x);
    hf_free(in->weights);
    hf_free(in->nearest);
    hf_free(in->labels);
}

/* The rounds are the first half of the work, the candidates the second. */
static int nested_progress(void *user, int64_t done, int64_t total) {
    const struct nested *in = user;
    const struct hf_init_args *a = in->outer->args;
    return a->progress ? a->progress(a->progress_user, (total + done) / 2, total) : 0;
}

/* Greedy k-means++ on the candidates; s gets what it chose. */
static hf_status cluster(struct hf_init_state *s, const struct pool *pool, struct nested *in) {
    HF_TRY(nested_alloc(s, pool->count, in));
    HF_TRY(gather(s, pool, in));
    for (int64_t i = 0; i < s->n; i++)
        if ((uint64_t)s->label[i] < (uint64_t)pool->count) /* -1: all overflow; others: a fault */
            in->weights[s->label[i]] += hf_init_weight(s, i);
    const hf_dtype dtype = in->on_device || s->rows->dtype == HF_F64 ? HF_F64 : HF_F32;
    const hf_array x = hf_array_view(in->x, dtype, pool->count, s->d);
    const struct hf_rows rows = {.ctx = s->rows->ctx,
                                 .array = &x,
                                 .n = pool->count,
                                 .d = s->d,
                                 .dtype = dtype,
                                 .chunk_rows = pool->count};
    struct hf_init_args args = *s->args;
    args.weights = in->weights;
    args.device_weights = NULL;
    args.nearest = in->nearest;
    args.labels = in->labels;
    args.progress = nested_progress;
    args.progress_user = in;
    in->outer = s;
    HF_TRY(hf_init_open(&in->state, &rows, &args, HF_DRAW_NESTED, s->centroids));
    const hf_status status = hf_init_plus(&in->state);
    s->count = in->state.count;
    assert(pool->row);
    for (int64_t t = 0; t < s->count && status == HF_OK; t++)
        s->chosen[t] = pool->row[in->state.chosen[t]];
    s->labelled = false; /* s->label counts the candidates */
    hf_init_close(&in->state);
    return status;
}

/* The candidates are the centroids: there are fewer than k. */
static hf_status adopt(struct hf_init_state *s, const struct pool *pool) {
    assert(pool->row);
    memcpy(s->chosen, pool->row, (size_t)pool->count * sizeof *s->chosen);
    s->count = pool->count;
    return hf_init_gather(s, s->chosen, s->count, s->centroids);
}

/* The first centroid and the rounds on the host. */
static hf_status rounds(struct hf_init_state *s, struct pool *pool) {
    hf_init_open_pool(s);
    HF_TRY(hf_init_first(s));
    HF_TRY(pool_add(s, pool, s->chosen[0]));
    for (int round = 0; round < ROUNDS && s->total > 0; round++) {
        HF_TRY(sample(s, pool, round));
        HF_TRY(hf_init_progress(s, s->k * ((int64_t)round + 1) / ((int64_t)2 * ROUNDS)));
    }
    return HF_OK;
}

static hf_status run(struct hf_init_state *s, struct pool *pool) {
    if (hf_init_rounds_can(s))
        HF_TRY(hf_init_rounds(s, ROUNDS, expected(s->k), &pool->row, &pool->count));
    else
        HF_TRY(rounds(s, pool));
    if (pool->count < s->k)
        return adopt(s, pool);
    struct nested in = {0};
    const hf_status status = cluster(s, pool, &in);
    nested_free(s, &in);
    return status;
}

/* Leaves fewer than k where the candidates are fewer, or lie on fewer points: s->nearest or
 * s->device_nearest then holds the distances to all of these. */
hf_status hf_init_parallel(struct hf_init_state *s) {
    struct pool pool = {0};
    const hf_status status = run(s, &pool);
    hf_free(pool.row);
    return status;
}

/* The candidates in float64. */
uint64_t hf_init_parallel_device_bytes(int64_t d, int64_t k) {
    return ((uint64_t)expected(k) * ROUNDS + 1) * (uint64_t)d * sizeof(double);
}

uint64_t hf_init_parallel_bytes(const struct hf_rows *rows, int64_t k) {
    const uint64_t round = (uint64_t)expected(k);
    const uint64_t all = round * ROUNDS + 1;
    const uint64_t size = rows->dtype == HF_F64 ? 8 : 4; /* on a device its limit counts them */
    const uint64_t d = (uint64_t)rows->d;
    const uint64_t nested = all * (d * size + 20) + hf_init_state_bytes((int64_t)all, rows->d, k);
    const uint64_t sampled = all * 8 + round * d * 8;
    return all * 16 + (nested > sampled ? nested : sampled);
}
