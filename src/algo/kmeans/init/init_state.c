/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/init/init_state.h"
#include "base/mem.h"
#include "ops/gather/gather.h"
#include <inttypes.h>
#include <math.h>

#define POOL_ROWS 16384 /* fewer are not worth threads */
#define POOL_THREADS 8
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
                                .pool = hf_ctx_pool(rows->ctx)};
    /* A device makes whole steps and rounds by itself, for each wait of the host takes as long as
     * much of a step does; the CPU makes them here, where it skips rows. */
    s->on_device = !hf_ctx_is_host(rows->ctx);
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
    hf_ctx_release(s->rows->ctx, s->device_nearest);
    s->device_nearest = NULL;
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
           !s->on_device;
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
