/* SPDX-License-Identifier: Apache-2.0
 * Many problems of one shape. Small ones run side by side, each on a context with one thread; large
 * ones one after another with all threads. A fit does not depend on its threads, so the bits are
 * the same. */
#include "algo/kmeans/check.h"
#include "algo/kmeans/fit.h"
#include "algo/kmeans/kmeans_api.h"
#include "algo/kmeans/together.h"
#include "algo/side_by_side.h"
#include "base/mem.h"
#include "guard/guard.h"
#include <string.h>

#define GROUP 4096            /* problems iterated together at most */
#define SIDE_BY_SIDE_WORK 5e8 /* n * k * d below which a fit cannot use all threads well */

struct batch {
    const hf_array *x;
    const hf_kmeans_opts *opts;
    hf_kmeans_result *fits; /* [count] */
    bool *done;             /* [count] fitted together, on a device */
};

static hf_status fit_one(void *user, hf_context *ctx, int64_t i) {
    const struct batch *b = user;
    hf_kmeans_opts opts = *b->opts;
    if (b->done[i])
        return HF_OK;
    opts.seed += (uint64_t)i;
    opts.warn = NULL;     /* it is for the caller's thread, */
    opts.on_fault = NULL; /* and so is this */
    return hf_fit_rows(ctx, &b->x[i], NULL, &opts, &b->fits[i]);
}

/* Op lloyd on many of them at once, and one after another what that leaves. */
static hf_status fit_together(hf_context *ctx, const struct batch *b, int64_t count) {
    for (int64_t i = 0; i < count; i += GROUP) {
        const struct hf_group group = {.x = b->x + i,
                                       .count = count - i < GROUP ? count - i : GROUP,
                                       .first = i,
                                       .fits = b->fits + i,
                                       .done = b->done + i};
        HF_TRY(hf_fit_together(ctx, b->opts, &group));
    }
    return HF_OK;
}

/* Threads share a CPU with one fit each; a device is shared by fits in one call. */
static hf_status run_batch(hf_context *ctx, struct batch *b, int64_t count) {
    const double work = (double)b->x->rows * (double)b->x->cols * (double)b->opts->k;
    const struct hf_problems problems = {
        .count = count, .name = "problem", .run = fit_one, .user = b};
    const bool together = !hf_ctx_is_host(ctx);
    const int most = work > SIDE_BY_SIDE_WORK || together ? 1 : ctx->threads;
    if (together)
        HF_TRY(fit_together(ctx, b, count));
    return hf_problems_run(ctx, &problems, count < most ? (int)count : most);
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
    size_t results;
    struct batch b = {.x = x, .opts = opts};
    const bool sized = hf_mul_size(batch, (int64_t)sizeof(*b.fits), &results);
    b.fits = sized ? hf_alloc_zero(results) : NULL;
    b.done = sized ? hf_alloc_zero((size_t)batch) : NULL;
    hf_status status = HF_OK;
    if (!b.fits || !b.done)
        status =
            hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for a batch of %lld fits", (long long)batch);
    else
        status = run_batch(ctx, &b, batch);
    if (status == HF_OK && b.fits)
        memcpy(fits, b.fits, results);
    for (int64_t i = 0; status != HF_OK && b.fits && i < batch; i++)
        hf_kmeans_result_clear(&b.fits[i]);
    hf_free(b.fits);
    hf_free(b.done);
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
