/* SPDX-License-Identifier: Apache-2.0
 * Many independent systems. Small ones run side by side, each on a context with one thread; where
 * one is large all go one after another with all threads. A solution does not depend on its
 * threads, so the bits are the same. */
#include "algo/relax/setup.h"

#include "base/mem.h"
#include "base/parallel.h"
#include <string.h>

#define LEAST_MEMORY ((uint64_t)1 << 20) /* that a context can be given */
#define SIDE_BY_SIDE_ELEMENTS 500000     /* of a matrix; beyond that it keeps all threads busy */

struct batch {
    const struct hf_relax_system *system; /* their arrays: those of system 0 */
    const hf_relax_opts *opts;
    hf_context **ctx;         /* [workers] */
    hf_relax_result *results; /* [count] */
    hf_status *status;        /* [count] */
    hf_error *errors;         /* [workers] of the lowest system that failed there */
    int64_t *failed;          /* [workers] that system, or -1 */
};

static void solve_range(void *user, int worker, int64_t begin, int64_t end) {
    struct batch *b = user;
    for (int64_t i = begin; i < end; i++) {
        const struct hf_relax_system one = {b->system->a + i, b->system->b + i, b->system->x + i};
        b->status[i] = hf_relax_solve_inside(b->ctx[worker], &one, b->opts, &b->results[i]);
        if (b->status[i] != HF_OK && (b->failed[worker] < 0 || i < b->failed[worker])) {
            b->failed[worker] = i;
            b->errors[worker] = b->ctx[worker]->error;
        }
    }
}

static hf_status run_side_by_side(hf_context *ctx, struct batch *b, int workers, int64_t count) {
    const uint64_t share = ctx->memory_bytes / (uint64_t)workers;
    const hf_context_opts opts = {.device = hf_context_device(ctx),
                                  .threads = 1,
                                  .memory_bytes = share < LEAST_MEMORY ? LEAST_MEMORY : share};
    hf_status status = HF_OK;
    for (int w = 0; w < workers && status == HF_OK; w++)
        status = hf_context_create(&b->ctx[w], &opts);
    hf_pool *pool = status == HF_OK ? hf_pool_create(workers) : NULL;
    if (pool != NULL)
        hf_parallel_for(pool, count, 1, solve_range, b);
    else
        status = hf_ctx_fail(ctx, status == HF_OK ? HF_E_NOMEM : status,
                             "no memory or threads for %d systems side by side", workers);
    hf_pool_destroy(pool);
    for (int w = 0; w < workers; w++)
        hf_context_destroy(b->ctx[w]);
    return status;
}

/* The failure of the lowest system, whichever worker met it. */
static hf_status first_failure(hf_context *ctx, const struct batch *b, int workers) {
    int lowest = -1;
    for (int w = 0; w < workers; w++)
        if (b->failed[w] >= 0 && (lowest < 0 || b->failed[w] < b->failed[lowest]))
            lowest = w;
    if (lowest < 0)
        return HF_OK;
    const hf_error why = b->errors[lowest]; /* may be the context's own text */
    return hf_ctx_fail(ctx, b->status[b->failed[lowest]], "system %lld of the batch: %s",
                       (long long)b->failed[lowest], why.text);
}

static hf_status run_batch(hf_context *ctx, struct batch *b, int workers, int64_t count) {
    for (int w = 0; w < workers; w++)
        b->failed[w] = -1;
    if (workers > 1) {
        HF_TRY(run_side_by_side(ctx, b, workers, count));
    } else {
        b->ctx[0] = ctx;
        for (int64_t i = 0; i < count && b->failed[0] < 0; i++)
            solve_range(b, 0, i, i + 1);
    }
    return first_failure(ctx, b, workers);
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
    size_t result_bytes, status_bytes;
    struct batch b = {.system = s, .opts = opts};
    const bool sized = hf_mul_size(batch, (int64_t)sizeof *b.results, &result_bytes) &&
                       hf_mul_size(batch, (int64_t)sizeof *b.status, &status_bytes);
    b.results = sized ? hf_alloc_zero(result_bytes) : NULL;
    b.status = sized ? hf_alloc_zero(status_bytes) : NULL;
    b.ctx = hf_alloc_zero((size_t)workers *
                          sizeof(hf_context *)); /* NOLINT(bugprone-sizeof-expression) */
    b.errors = hf_alloc_zero((size_t)workers * sizeof *b.errors);
    b.failed = hf_alloc_zero((size_t)workers * sizeof *b.failed);
    hf_status status = HF_OK;
    if (!b.results || !b.status || !b.ctx || !b.errors || !b.failed)
        status =
            hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for a batch of %lld systems", (long long)batch);
    else
        status = run_batch(ctx, &b, workers, batch);
    const bool wanted = status == HF_OK && results != NULL && b.results != NULL;
    if (wanted)
        memcpy(results, b.results, result_bytes);
    for (int64_t i = 0; !wanted && b.results != NULL && i < batch; i++)
        hf_relax_result_clear(&b.results[i]);
    hf_free(b.results);
    hf_free(b.status);
    hf_free(b.ctx);
    hf_free(b.errors);
    hf_free(b.failed);
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
