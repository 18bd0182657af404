/* SPDX-License-Identifier: Apache-2.0
 * The rounds of k-means|| where all rows lie in the memory of a device: what is known of them stays
 * there too. What comes out is what the rounds on the host choose. (Not for the cosine, where
 * seeding takes all distances below 0 for equal; op assign does not.) */
#include "algo/kmeans/init/init_state.h"
#include "base/mem.h"
#include "rows/resident.h"
#include "ops/greedy/greedy.h"
#include "ops/inertia/inertia.h"
#include "ops/spread/spread.h"
#include <inttypes.h>

struct rounds {
    struct hf_init_state *s;
    /* [n] each, one piece of the device's memory that begins with nearest: */
    double *nearest, *far; /* distance to the nearest candidate, and to that of the last round */
    int64_t *index;        /* the candidates */
    int32_t *label, *nearest_candidate; /* of all candidates so far; of the last round */
    int64_t count;                      /* candidates */
};

/* Bytes of a row in these. */
#define ROUNDS_ROW (2 * sizeof(double) + sizeof(int64_t) + 2 * sizeof(int32_t))

bool hf_init_rounds_can(const struct hf_init_state *s) {
    return s->on_device && hf_init_in_place(s) && s->args->metric != HF_COSINE &&
           s->trials <= HF_GREEDY_TRIALS &&
           (uint64_t)s->n * ROUNDS_ROW <= hf_ctx_room(s->rows->ctx);
}

static hf_status rounds_alloc(struct rounds *r) {
    const struct hf_init_state *s = r->s;
    const size_t n = (size_t)s->n;
    hf_carve carve = {NULL, 0};
    for (int pass = 0; pass < 2; pass++) {
        carve.used = 0;
        r->nearest = hf_carve_take(&carve, n * sizeof *r->nearest);
        r->far = hf_carve_take(&carve, n * sizeof *r->far);
        r->index = hf_carve_take(&carve, n * sizeof *r->index);
        r->label = hf_carve_take(&carve, n * sizeof *r->label);
        r->nearest_candidate = hf_carve_take(&carve, n * sizeof *r->nearest_candidate);
        if (pass == 0 && !(carve.base = hf_ctx_alloc(s->rows->ctx, carve.used)))
            return hf_ctx_fail(s->rows->ctx, HF_E_NOMEM,
                               "%s has no memory for the distances of %" PRId64 " rows: %zu bytes",
                               s->rows->ctx->name, s->n, carve.used);
    }
    return HF_OK;
}

/* The first candidate, and how far all rows are from it. */
static hf_status begin(struct rounds *r) {
    struct hf_init_state *s = r->s;
    hf_context *ctx = s->rows->ctx;
    HF_TRY(hf_ctx_fill(ctx, r->label, 0xff, (size_t)s->n * sizeof *r->label)); /* -1 */
    HF_TRY(hf_init_first_on_device(s, r->nearest, r->label));
    r->count = 1;
    return hf_ctx_copy(ctx, r->index, s->chosen, sizeof *s->chosen);
}

/* Take in the last `added` candidates, and draw others. *added: how many these are. */
static hf_status draw(struct rounds *r, int round, int64_t wanted, int64_t *added) {
    struct hf_init_state *s = r->s;
    const bool last = *added > 0;
    const struct hf_spread_args args = {.x = hf_array_view(NULL, s->rows->dtype, s->n, s->d),
                                        .weights = hf_init_weights(s),
                                        .far = last ? r->far : NULL,
                                        .nearest_candidate = last ? r->nearest_candidate : NULL,
                                        .first_label = (int32_t)(r->count - *added),
                                        .wanted = wanted,
                                        .seed = s->args->seed,
                                        .stream = hf_init_stream(s, HF_DRAW_ACCEPT + round),
                                        .limit = s->limit,
                                        .unit = &s->unit,
                                        .nearest = r->nearest,
                                        .label = r->label,
                                        .total = &s->total,
                                        .index = r->index + r->count, /* no row is drawn twice */
                                        .count = added};
    HF_TRY(hf_spread(s->rows->ctx, &args));
    r->count += *added;
    return HF_OK;
}

/* Which of the last `added` candidates is nearest to each row, and how far it is. */
static hf_status measure(struct rounds *r, int64_t added) {
    const struct hf_init_state *s = r->s;
    hf_context *ctx = s->rows->ctx;
    hf_wide unused = {.special = 0};
    struct hf_assign_stats stats = {0};
    const size_t bytes = (size_t)(added * s->d) * sizeof(double);
    double *c = hf_ctx_alloc(ctx, bytes);
    if (!c)
        return hf_ctx_fail(ctx, HF_E_NOMEM,
                           "%s has no memory for %" PRId64 " candidates of k-means||: use "
                           "kmeans++, which keeps none",
                           ctx->name, added);
    const hf_array candidates = hf_array_view(c, HF_F64, added, s->d);
    const struct hf_assign_args nearest = {.x = *s->rows->array,
                                           .c = candidates,
                                           .metric = HF_EUCLIDEAN,
                                           .exact = true,
                                           .filter = s->args->filter,
                                           .labels = r->nearest_candidate,
                                           .stats = &stats};
    const struct hf_inertia_args far = {.x = *s->rows->array,
                                        .c = candidates,
                                        .metric = HF_EUCLIDEAN,
                                        .labels = r->nearest_candidate,
                                        .distances = r->far,
                                        .sum = &unused};
    hf_status status = hf_init_gather(s, r->index + r->count - added, added, c);
    if (status == HF_OK)
        status = hf_ctx_fill(ctx, r->nearest_candidate, 0xff,
                             (size_t)s->n * sizeof *r->nearest_candidate); /* -1 */
    if (status == HF_OK)
        status = hf_assign(ctx, &nearest);
    if (status == HF_OK)
        status = hf_inertia(ctx, &far);
    hf_ctx_release(ctx, c);
    return status;
}

static hf_status make(struct rounds *r, int rounds, int64_t wanted) {
    struct hf_init_state *s = r->s;
    int64_t added = 0;
    HF_TRY(begin(r));
    for (int round = 0; round < rounds; round++) {
        HF_TRY(draw(r, round, wanted, &added));
        if (s->total == 0)
            return HF_OK;
        if (added > 0)
            HF_TRY(measure(r, added));
        HF_TRY(hf_init_progress(s, s->k * ((int64_t)round + 1) / ((int64_t)2 * rounds)));
    }
    return added > 0 ? draw(r, rounds, 0, &added) : HF_OK;
}

hf_status hf_init_rounds(struct hf_init_state *s, int rounds, int64_t wanted, int64_t **row,
                         int64_t *count) {
    hf_context *ctx = s->rows->ctx;
    struct rounds r = {.s = s};
    HF_TRY(rounds_alloc(&r));
    s->device_nearest = r.nearest;
    HF_TRY(make(&r, rounds, wanted));
    const size_t bytes = (size_t)r.count * sizeof **row;
    *count = r.count;
    *row = hf_alloc(bytes);
    if (!*row)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for %" PRId64 " candidates of k-means||",
                           r.count);
    HF_TRY(hf_ctx_copy(ctx, *row, r.index, bytes));
    return hf_ctx_copy(ctx, s->label, r.label, (size_t)s->n * sizeof *s->label);
}
