/* SPDX-License-Identifier: Apache-2.0
 * Many problems of one shape. Small ones run side by side, each on a context with one thread; large
 * ones one after another with all threads. A fit does not depend on its threads, so the bits are
 * the same. */
#include "algo/kmeans/check.h"
#include "algo/kmeans/fit.h"
#include "algo/kmeans/kmeans_api.h"
#include "algo/kmeans/together.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "guard/guard.h"
#include <stdbool.h>
#include <string.h>

#define LEAST_MEMORY ((uint64_t)1 << 20) /* that a context can be given */
#define GROUP 4096                       /* problems iterated together at most */
#define SIDE_BY_SIDE_WORK 5e8 /* n * k * d below which a fit cannot use all threads well */

struct batch {
    const hf_array *x;
    const hf_kmeans_opts *opts;
    bool together;    /* try op lloyd on many of them at once */
    hf_context **ctx; /* [workers] */
    hf_kmeans_result *fits;
    hf_status *status; /* [count] */
    bool *done;        /* [count] fitted together, on a device */
    hf_error *errors;  /* [workers] of the lowest problem that failed there */
    int64_t *failed;   /* [workers] that problem, or -1 */
};

static void fit_one(const struct batch *b, int worker, int64_t i) {
    hf_kmeans_opts opts = *b->opts;
    opts.seed += (uint64_t)i;
    opts.warn = NULL;     /* it is for the caller's thread, */
    opts.on_fault = NULL; /* and so is this */
    b->status[i] = hf_fit_rows(b->ctx[worker], &b->x[i], NULL, &opts, &b->fits[i]);
    if (b->status[i] != HF_OK && (b->failed[worker] < 0 || i < b->failed[worker])) {
        b->failed[worker] = i;
        b->errors[worker] = b->ctx[worker]->error;
    }
}

static void fit_range(void *job, int worker, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i++)
        fit_one(job, worker, i);
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
    if (pool)
        hf_parallel_for(pool, count, 1, fit_range, b);
    else
        status = hf_ctx_fail(ctx, status == HF_OK ? HF_E_NOMEM : status,
                             "no memory or threads for %d fits side by side", workers);
    hf_pool_destroy(pool);
    for (int w = 0; w < workers; w++)
        hf_context_destroy(b->ctx[w]);
    return status;
}

/* The failure of the lowest problem, whichever worker met it. */
static hf_status first_failure(hf_context *ctx, const struct batch *b, int workers) {
    int lowest = -1;
    for (int w = 0; w < workers; w++)
        if (b->failed[w] >= 0 && (lowest < 0 || b->failed[w] < b->failed[lowest]))
            lowest = w;
    if (lowest < 0)
        return HF_OK;
    const hf_error why = b->errors[lowest]; /* may be the context's own text */
    return hf_ctx_fail(ctx, b->status[b->failed[lowest]], "problem %lld of the batch: %s",
                       (long long)b->failed[lowest], why.text);
}

static hf_status run_batch(hf_context *ctx, struct batch *b, int workers, int64_t count) {
    hf_status status = HF_OK;
    for (int w = 0; w < workers; w++)
        b->failed[w] = -1;
    if (workers > 1) {
        status = run_side_by_side(ctx, b, workers, count);
    } else {
        b->ctx[0] = ctx;
        for (int64_t i = 0; b->together && i < count && status == HF_OK; i += GROUP) {
            const struct hf_group group = {.x = b->x + i,
                                           .count = count - i < GROUP ? count - i : GROUP,
                                           .first = i,
                                           .fits = b->fits + i,
                                           .done = b->done + i};
            status = hf_fit_together(ctx, b->opts, &group);
        }
        for (int64_t i = 0; i < count && status == HF_OK && b->failed[0] < 0; i++)
            if (!b->done[i])
                fit_one(b, 0, i);
    }
    return status == HF_OK ? first_failure(ctx, b, workers) : status;
}

static hf_status check_batch(hf_context *ctx, const hf_array *x, int64_t batch,
                             const hf_kmeans_opts *opts, const hf_kmeans_result *fits) {
    if (!x || !opts || !fits || batch < 1)
        return hf_ctx_fail(
            ctx, HF_E_ARG,
            "a batch needs data, options, a place for results and at least one problem "
            "(%lld given)",
            (long long)batch);
    if (opts->checkpoint || opts->resume || opts->progress || opts->digest)
        return hf_ctx_fail(
            ctx, HF_E_ARG,
            "checkpoint, resume, progress and digest are not available for a batch: fit the "
            "problems one by one");
    for (int64_t i = 1; i < batch; i++)
        if (x[i].rows != x[0].rows || x[i].cols != x[0].cols || x[i].dtype != x[0].dtype)
            return hf_ctx_fail(
                ctx, HF_E_ARG,
                "problem %lld of the batch is [%lld, %lld] %s, problem 0 is [%lld, %lld] "
                "%s: all must be of one shape and type",
                (long long)i, (long long)x[i].rows, (long long)x[i].cols, hf_dtype_name(x[i].dtype),
                (long long)x[0].rows, (long long)x[0].cols, hf_dtype_name(x[0].dtype));
    struct hf_shape shape;
    hf_kmeans_opts full;
    HF_TRY(hf_check_rows(ctx, &x[0], NULL, &shape));
    HF_TRY(hf_check_opts(ctx, opts, &shape, &full));
    return hf_guard_begin(ctx, opts->guard, NULL, NULL);
}

/* Arguments are checked and can be read by the host. */
static hf_status fit_all(hf_context *ctx, const hf_array *x, int64_t batch,
                         const hf_kmeans_opts *opts, hf_kmeans_result *fits) {
    const double work = (double)x->rows * (double)x->cols * (double)opts->k;
    int workers = batch < ctx->threads ? (int)batch : ctx->threads;
    workers = work > SIDE_BY_SIDE_WORK || workers < 1 ? 1 : workers;
    size_t results;
    size_t states;
    /* Threads share a CPU with one fit each; a device is shared by fits in one call. */
    struct batch b = {.x = x, .opts = opts, .together = !hf_ctx_is_host(ctx)};
    workers = b.together ? 1 : workers;
    const bool sized = hf_mul_size(batch, (int64_t)sizeof(*b.fits), &results) &&
                       hf_mul_size(batch, (int64_t)sizeof(*b.status), &states);
    b.fits = sized ? hf_alloc_zero(results) : NULL;
    b.status = sized ? hf_alloc_zero(states) : NULL;
    b.done = sized ? hf_alloc_zero((size_t)batch) : NULL;
    b.ctx = hf_alloc_zero((size_t)workers *
                          sizeof(hf_context *)); /* NOLINT(bugprone-sizeof-expression) */
    b.errors = hf_alloc_zero((size_t)workers * sizeof(*b.errors));
    b.failed = hf_alloc_zero((size_t)workers * sizeof(*b.failed));
    hf_status status = HF_OK;
    if (!b.fits || !b.status || !b.done || !b.ctx || !b.errors || !b.failed)
        status =
            hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for a batch of %lld fits", (long long)batch);
    else
        status = run_batch(ctx, &b, workers, batch);
    if (status == HF_OK && b.fits)
        memcpy(fits, b.fits, results);
    for (int64_t i = 0; status != HF_OK && b.fits && i < batch; i++)
        hf_kmeans_result_clear(&b.fits[i]);
    hf_free(b.fits);
    hf_free(b.status);
    hf_free(b.done);
    hf_free(b.ctx);
    hf_free(b.errors);
    hf_free(b.failed);
    return status;
}

static hf_status fit_batch(hf_context *ctx, const hf_array *x, int64_t batch,
                           const hf_kmeans_opts *opts, hf_kmeans_result *fits) {
    hf_kmeans_opts seen = opts ? *opts : (hf_kmeans_opts){0};
    struct hf_host_args on_host = {0};
    hf_status status = hf_host_args_open(ctx, &seen.centroids, &seen.weights, &on_host);
    if (status == HF_OK)
        status = check_batch(ctx, x, batch, opts ? &seen : NULL, fits);
    if (status == HF_OK)
        status = fit_all(ctx, x, batch, &seen, fits);
    hf_host_args_close(&on_host);
    return status;
}

hf_status hf_kmeans_fit_batch(hf_context *ctx, const hf_array *x, int64_t batch,
                              const hf_kmeans_opts *opts, hf_kmeans_result *fits) {
    if (!ctx)
        return HF_E_ARG;
    if (!hf_ctx_enter(ctx))
        return HF_E_BUSY;
    return hf_ctx_leave(ctx, fit_batch(ctx, x, batch, opts, fits));
}
