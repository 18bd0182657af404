/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/side_by_side.h"
#include "base/mem.h"
#include "base/parallel.h"

#define LEAST_MEMORY ((uint64_t)1 << 20) /* that a context can be given */

/* What a thread needs, and the lowest problem that failed there. */
struct lane {
    hf_context *ctx;
    hf_status status; /* HF_OK: none failed */
    int64_t failed;
    hf_error why;
};

struct batch {
    const struct hf_problems *problems;
    struct lane *lane; /* [workers] */
};

static void run_one(const struct hf_problems *problems, struct lane *lane, int64_t i) {
    const hf_status status = problems->run(problems->user, lane->ctx, i);
    if (status != HF_OK && (lane->status == HF_OK || i < lane->failed)) {
        lane->status = status;
        lane->failed = i;
        lane->why = lane->ctx->error;
    }
}

static void run_range(void *job, int worker, int64_t begin, int64_t end) {
    const struct batch *b = job;
    for (int64_t i = begin; i < end; i++)
        run_one(b->problems, &b->lane[worker], i);
}

static hf_status run_side_by_side(hf_context *ctx, struct batch *b, int workers) {
    const uint64_t share = ctx->memory_bytes / (uint64_t)workers;
    const hf_context_opts opts = {.device = hf_context_device(ctx),
                                  .threads = 1,
                                  .memory_bytes = share < LEAST_MEMORY ? LEAST_MEMORY : share};
    hf_status status = HF_OK;
    for (int w = 0; w < workers && status == HF_OK; w++)
        status = hf_context_create(&b->lane[w].ctx, &opts);
    hf_pool *pool = status == HF_OK ? hf_pool_create(workers) : NULL;
    if (pool)
        hf_parallel_for(pool, b->problems->count, 1, run_range, b);
    else
        status =
            hf_ctx_fail(ctx, status == HF_OK ? HF_E_NOMEM : status,
                        "no memory or threads for %d %ss side by side", workers, b->problems->name);
    hf_pool_destroy(pool);
    for (int w = 0; w < workers; w++)
        hf_context_destroy(b->lane[w].ctx);
    return status;
}

static hf_status first_failure(hf_context *ctx, const struct batch *b, int workers) {
    const struct lane *lowest = NULL;
    for (int w = 0; w < workers; w++)
        if (b->lane[w].status != HF_OK && (!lowest || b->lane[w].failed < lowest->failed))
            lowest = &b->lane[w];
    if (!lowest)
        return HF_OK;
    return hf_ctx_fail(ctx, lowest->status, "%s %lld of the batch: %s", b->problems->name,
                       (long long)lowest->failed, lowest->why.text);
}

hf_status hf_problems_run(hf_context *ctx, const struct hf_problems *problems, int workers) {
    struct batch b = {problems, hf_alloc_zero((size_t)workers * sizeof(struct lane))};
    hf_status status = HF_OK;
    if (!b.lane)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for %d threads", workers);
    if (workers > 1) {
        status = run_side_by_side(ctx, &b, workers);
    } else {
        b.lane->ctx = ctx;
        for (int64_t i = 0; i < problems->count && b.lane->status == HF_OK; i++)
            run_one(problems, b.lane, i);
    }
    if (status == HF_OK)
        status = first_failure(ctx, &b, workers);
    hf_free(b.lane);
    return status;
}
