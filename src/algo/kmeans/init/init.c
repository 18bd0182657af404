/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/init/init.h"

#include "algo/kmeans/init/init_state.h"
#include "base/mem.h"
#include "base/rng.h"
#include "ops/gather/gather.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

#define POOL_ROWS 16384 /* fewer are not worth threads */
#define POOL_THREADS 8
#define DRAWS 64 /* of random rows at once */

#define STREAM_OF_INIT ((uint64_t)0x494e4954 << 32)

uint64_t hf_init_stream(const struct hf_init_state *s, int use) {
    return STREAM_OF_INIT + (uint64_t)s->args->restart * 32 + (uint64_t)(use + s->nested);
}

hf_status hf_init_progress(const struct hf_init_state *s, int64_t done) {
    const struct hf_init_args *a = s->args;
    if (a->progress && a->progress(a->progress_user, done, s->k) != 0)
        return hf_ctx_fail(s->rows->ctx, HF_E_CANCELLED,
                           "stopped by the caller while choosing the initial centroids");
    return HF_OK;
}

int hf_init_trials(int64_t k) { return 2 + (int)log((double)k); }

static void layout(struct hf_init_state *s, hf_carve *carve) {
    const size_t k = (size_t)s->k;
    const size_t trials = (size_t)s->trials;
    s->chosen = hf_carve_take(carve, k * sizeof *s->chosen);
    s->block = hf_carve_take(carve, (size_t)s->blocks * sizeof *s->block);
    s->drawn = hf_carve_take(carve, trials * sizeof *s->drawn);
    s->candidate = hf_carve_take(carve, trials * (size_t)s->d * sizeof *s->candidate);
    s->gain = hf_carve_take(carve, trials * sizeof *s->gain);
    s->reach = hf_carve_take(carve, k * sizeof *s->reach);
    s->between = hf_carve_take(carve, HF_REACH_ROWS * trials * sizeof *s->between);
    s->pairs = hf_carve_take(carve, (size_t)hf_init_pairs_room(s) * sizeof *s->pairs);
}

static size_t measure(struct hf_init_state *s, int64_t n, int64_t d, int64_t k) {
    s->n = n;
    s->d = d;
    s->k = k;
    s->trials = hf_init_trials(k);
    s->blocks = (n + HF_SEED_BLOCK - 1) / HF_SEED_BLOCK;
    hf_carve carve = {NULL, 0};
    layout(s, &carve);
    return carve.used;
}

size_t hf_init_state_bytes(int64_t n, int64_t d, int64_t k) {
    struct hf_init_state s = {0};
    return measure(&s, n, d, k);
}

hf_status hf_init_open(struct hf_init_state *s, const struct hf_rows *rows,
                       const struct hf_init_args *args, int nested, double *centroids) {
    *s = (struct hf_init_state){.rows = rows,
                                .args = args,
                                .nested = nested,
                                .centroids = centroids,
                                .nearest = args->nearest,
                                .label = args->labels,
                                .labelled = true,
                                .pool = hf_ctx_is_host(rows->ctx) ? rows->ctx->stream : NULL};
    const size_t bytes = measure(s, rows->n, rows->d, args->k);
    s->memory = hf_alloc(bytes);
    if (!s->memory)
        return hf_ctx_fail(rows->ctx, HF_E_NOMEM,
                           "no memory to initialise %" PRId64 " centroids: %zu bytes are needed",
                           args->k, bytes);
    hf_carve carve = {s->memory, 0};
    layout(s, &carve);
    return HF_OK;
}

void hf_init_close(struct hf_init_state *s) {
    if (s->own_pool)
        hf_pool_destroy(s->pool);
    hf_ctx_release(s->rows->ctx, s->away);
    s->away = NULL;
    hf_free(s->memory);
    s->memory = NULL;
}

/* Without threads the loops are as right, and slow. */
void hf_init_open_pool(struct hf_init_state *s) {
    const int threads = s->rows->ctx->threads;
    if (s->pool || s->n < POOL_ROWS || threads < 2)
        return;
    s->pool = hf_pool_create(threads < POOL_THREADS ? threads : POOL_THREADS);
    s->own_pool = s->pool != NULL;
}

bool hf_init_in_place(const struct hf_init_state *s) {
    const struct hf_rows *rows = s->rows;
    if (!rows->array || rows->dropped_count > 0)
        return false;
    return rows->ctx->device->owns(rows->ctx->stream, rows->array->data) || s->nested != 0 ||
           hf_ctx_is_host(rows->ctx);
}

hf_status hf_init_gather(const struct hf_init_state *s, const int64_t *index, int64_t count,
                         double *dst) {
    const struct hf_rows *rows = s->rows;
    if (!hf_init_in_place(s))
        return hf_rows_gather(rows, index, count, dst);
    const struct hf_gather_args args = {
        .x = *rows->array, .index = index, .count = count, .type = HF_F64, .out = dst};
    return count > 0 ? hf_gather(rows->ctx, &args) : HF_OK;
}

/* Unless it is taken, or its weight is of the other kind. */
static void take_row(struct hf_init_state *s, uint8_t *taken, int64_t row, int zero) {
    const uint8_t bit = (uint8_t)(1u << (row % 8));
    if ((taken[row / 8] & bit) || (hf_init_weight(s, row) == 0) != zero)
        return;
    taken[row / 8] |= bit;
    s->chosen[s->count++] = row;
}

/* Go on with rows that are not taken yet, in a random order; those of weight 0 come last. taken is
 * a bit for each row. */
static void choose_rest(struct hf_init_state *s, uint8_t *taken) {
    const uint64_t stream = hf_init_stream(s, HF_DRAW_REST);
    for (int zero = 0; zero < 2; zero++) {
        for (int64_t i = 0, some; i < s->n && s->count < s->k; i += some) {
            uint64_t next[DRAWS];
            some = s->k - s->count < s->n - i ? s->k - s->count : s->n - i;
            some = some < DRAWS ? some : DRAWS;
            hf_rng_permute_some(s->args->seed, stream, (uint64_t)s->n, (uint64_t)i, some, next);
            for (int64_t j = 0; j < some; j++)
                take_row(s, taken, (int64_t)next[j], zero);
        }
    }
}

/* Numbers of rows not chosen yet, until there are k. */
static hf_status number_rest(struct hf_init_state *s) {
    uint8_t *taken = hf_alloc_zero((size_t)s->n / 8 + 1);
    if (!taken)
        return hf_ctx_fail(s->rows->ctx, HF_E_NOMEM,
                           "no memory for a bit for each of %" PRId64 " rows", s->n);
    for (int64_t t = 0; t < s->count; t++)
        taken[s->chosen[t] / 8] |= (uint8_t)(1u << (s->chosen[t] % 8));
    choose_rest(s, taken);
    hf_free(taken);
    return HF_OK;
}

/* Fill up with rows not chosen yet. */
static hf_status fill_up(struct hf_init_state *s) {
    const int64_t first = s->count;
    if (first == s->k)
        return HF_OK;
    HF_TRY(number_rest(s));
    HF_TRY(hf_init_gather(s, s->chosen + first, s->k - first, s->centroids + first * s->d));
    return hf_init_progress(s, s->k);
}

hf_status hf_init_seeds(struct hf_init_state *s) {
    if (s->args->init != HF_INIT_KMEANS_PARALLEL)
        return hf_init_plus(s);
    HF_TRY(hf_init_parallel(s));
    return hf_init_greedy(s);
}

bool hf_kmeans_init_from_core(const struct hf_rows *rows, int64_t k) {
    return hf_init_core_rows(rows->n, rows->d, k, rows->dtype) > 0;
}

static hf_status initialise(struct hf_init_state *s) {
    if (s->args->init == HF_INIT_RANDOM)
        return fill_up(s);
    if (hf_kmeans_init_from_core(s->rows, s->k))
        HF_TRY(hf_init_core(s));
    else
        HF_TRY(hf_init_seeds(s));
    return fill_up(s);
}

hf_status hf_kmeans_init(const struct hf_rows *rows, const struct hf_init_args *args,
                         double *centroids) {
    struct hf_init_state s;
    HF_TRY(hf_init_open(&s, rows, args, 0, centroids));
    const hf_status status = initialise(&s);
    hf_init_close(&s);
    return status;
}

hf_status hf_kmeans_init_random(const struct hf_rows *rows, const struct hf_init_args *args,
                                int64_t *row) {
    struct hf_init_state s = {
        .rows = rows, .args = args, .n = rows->n, .d = rows->d, .k = args->k, .chosen = row};
    return number_rest(&s);
}

uint64_t hf_kmeans_init_away_bytes(const struct hf_rows *rows, const struct hf_init_args *args) {
    const struct hf_init_state s = {.rows = rows};
    if (hf_ctx_is_host(rows->ctx) || args->init == HF_INIT_RANDOM)
        return 0;
    const uint64_t core = hf_init_core_away_bytes(rows, args->k);
    const bool candidates =
        args->init == HF_INIT_KMEANS_PARALLEL && (core > 0 || hf_init_in_place(&s));
    return core + (candidates ? hf_init_parallel_away_bytes(rows->d, args->k) : 0);
}

uint64_t hf_kmeans_init_bytes(const struct hf_rows *rows, const struct hf_init_args *args) {
    uint64_t bytes = hf_init_state_bytes(rows->n, rows->d, args->k) + (uint64_t)rows->n / 8 + 1;
    if (args->init == HF_INIT_KMEANS_PARALLEL)
        bytes += hf_init_parallel_bytes(rows, args->k);
    if (args->init != HF_INIT_RANDOM)
        bytes += hf_init_core_bytes(rows, args->k);
    return bytes;
}
