/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/init/init.h"

#include "algo/kmeans/init/init_state.h"
#include "base/mem.h"
#include "base/rng.h"
#include <inttypes.h>
#include <string.h>

#define DRAWS 64 /* of random rows at once */

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

static hf_status initialise(struct hf_init_state *s) {
    if (s->args->init == HF_INIT_RANDOM)
        return fill_up(s);
    if (hf_init_core_rows(s->n, s->d, s->k, s->rows->dtype) > 0)
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

uint64_t hf_kmeans_init_device_bytes(const struct hf_rows *rows, const struct hf_init_args *args) {
    const struct hf_init_state s = {.rows = rows, .on_device = true};
    if (args->init == HF_INIT_RANDOM)
        return 0;
    const uint64_t core = hf_init_core_device_bytes(rows, args->k);
    const bool candidates =
        args->init == HF_INIT_KMEANS_PARALLEL && (core > 0 || hf_init_in_place(&s));
    return core + (candidates ? hf_init_parallel_device_bytes(rows->d, args->k) : 0);
}

uint64_t hf_kmeans_init_bytes(const struct hf_rows *rows, const struct hf_init_args *args) {
    uint64_t bytes = hf_init_state_bytes(rows->n, rows->d, args->k) + (uint64_t)rows->n / 8 + 1;
    if (args->init == HF_INIT_KMEANS_PARALLEL)
        bytes += hf_init_parallel_bytes(rows, args->k);
    if (args->init != HF_INIT_RANDOM)
        bytes += hf_init_core_bytes(rows, args->k);
    return bytes;
}
