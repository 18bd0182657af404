/* SPDX-License-Identifier: Apache-2.0
 * Many independent systems. Small ones run side by side, each on a context with one thread; where
 * one is large all go one after another with all threads. A solution does not depend on its
 * threads, so the bits are the same. */
#include "algo/relax/setup.h"
#include "algo/side_by_side.h"
#include "base/mem.h"
#include <string.h>

#define SIDE_BY_SIDE_ELEMENTS 500000 /* of a matrix; beyond that it keeps all threads busy */

struct batch {
    const struct hf_relax_system *system; /* their arrays: those of system 0 */
    const hf_relax_opts *opts;
    hf_relax_result *results; /* [count] */
};

static hf_status solve_one(void *user, hf_context *ctx, int64_t i) {
    const struct batch *b = user;
    const struct hf_relax_system one = {b->system->a + i, b->system->b + i, b->system->x + i};
    return hf_relax_solve_inside(ctx, &one, b->opts, &b->results[i]);
}

static hf_status check_batch(hf_context *ctx, const struct hf_relax_system *s, int64_t batch,
                             const hf_relax_opts *opts) {
    if (s->a == NULL || s->b == NULL || s->x == NULL || batch < 1)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "a batch needs matrices, b, x and at least one system (%lld given)",
                           (long long)batch);
    if (opts != NULL && (opts->progress != NULL || opts->max_seconds != 0))
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "progress and max_seconds are not available for a batch: solve the "
                           "systems one by one");
    return HF_OK;
}

/* Rows that cannot be counted are found by each system's own check. */
static int choose_workers(const hf_context *ctx, const hf_csr *a, int64_t batch) {
    for (int64_t i = 0; i < batch; i++)
        if (a[i].row_start != NULL && a[i].rows > 0 &&
            a[i].row_start[a[i].rows] > SIDE_BY_SIDE_ELEMENTS)
            return 1;
    return batch < ctx->threads ? (int)batch : ctx->threads;
}

static hf_status solve_batch(hf_context *ctx, const struct hf_relax_system *s, int64_t batch,
                             const hf_relax_opts *opts, hf_relax_result *results) {
    HF_TRY(check_batch(ctx, s, batch, opts));
    const int workers = hf_ctx_pool(ctx) != NULL ? choose_workers(ctx, s->a, batch) : 1;
    struct batch b = {.system = s, .opts = opts};
    const struct hf_problems problems = {
        .count = batch, .name = "system", .run = solve_one, .user = &b};
    size_t bytes;
    const bool sized = hf_mul_size(batch, (int64_t)sizeof *b.results, &bytes);
    b.results = sized ? hf_alloc_zero(bytes) : NULL;
    const hf_status status =
        b.results ? hf_problems_run(ctx, &problems, workers)
                  : hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for a batch of %lld systems",
                                (long long)batch);
    const bool wanted = status == HF_OK && results != NULL && b.results != NULL;
    if (wanted)
        memcpy(results, b.results, bytes);
    for (int64_t i = 0; !wanted && b.results != NULL && i < batch; i++)
        hf_relax_result_clear(&b.results[i]);
    hf_free(b.results);
    return status;
}

hf_status hf_relax_solve_batch(hf_context *ctx, const hf_csr *a, const hf_array *b,
                               const hf_array *x, int64_t batch, const hf_relax_opts *opts,
                               hf_relax_result *results) {
    if (ctx == NULL)
        return HF_E_ARG;
    if (!hf_ctx_enter(ctx))
        return HF_E_BUSY;
    const struct hf_relax_system system = {a, b, x};
    return hf_ctx_leave(ctx, solve_batch(ctx, &system, batch, opts, results));
}
