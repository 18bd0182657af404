/* SPDX-License-Identifier: Apache-2.0
 * Time one op on the caller's own arrays, wherever they lie: what benchmarks against other
 * libraries need. */
#include "algo/kmeans/predict.h"
#include "base/mem.h"
#include "core/kernel.h"
#include "rows/host_view.h"
#include "ops/assign/assign.h"
#include "ops/range/range.h"
#include <holdfast/dev.h>
#include <math.h>
#include <string.h>

struct own {
    hf_context *ctx;
    struct hf_assign_args args;
    double *column; /* [3, d] min, max, shift */
    uint8_t *bad;   /* [n] */
    struct hf_assign_stats *stats;
};

static hf_status take_memory(struct own *o) {
    const hf_array *x = &o->args.x;
    o->column = hf_alloc(3 * (size_t)x->cols * sizeof(double));
    o->bad = hf_ctx_alloc(o->ctx, (size_t)x->rows);
    o->stats = hf_ctx_alloc(o->ctx, sizeof *o->stats);
    if (!o->column || !o->bad || !o->stats)
        return hf_ctx_fail(o->ctx, HF_E_NOMEM, "no memory to time %lld rows", (long long)x->rows);
    return hf_ctx_fill(o->ctx, o->stats, 0, sizeof *o->stats);
}

/* The filter that predict would choose. */
static hf_status choose_filter(struct own *o, const hf_array *c) {
    const int64_t d = o->args.x.cols;
    double *min = o->column, *max = min + d, *shift = max + d;
    bool whole = true;
    int64_t bad_rows = 0;
    for (int64_t f = 0; f < d; f++) {
        min[f] = INFINITY;
        max[f] = -INFINITY;
    }
    const struct hf_range_args range = {.x = o->args.x,
                                        .min = min,
                                        .max = max,
                                        .whole = &whole,
                                        .row_bad = o->bad,
                                        .bad_rows = &bad_rows};
    HF_TRY(hf_range(o->ctx, &range));
    if (bad_rows > 0)
        return hf_ctx_fail(o->ctx, HF_E_DATA, "%lld rows hold NaN or Inf", (long long)bad_rows);
    o->args.filter = hf_predict_filter(o->args.metric, c, min, max, whole, shift);
    return HF_OK;
}

/* Calls of a sample follow each other without the host, as in a loop: what starting the first costs
 * is spread over them. */
static hf_status time_rounds(struct own *o, const hf_dev_rounds *timed) {
    hf_context *ctx = o->ctx;
    const struct hf_kernel *kernel = NULL;
    for (int r = -1; r < timed->rounds; r++) { /* the first warms up */
        HF_TRY(hf_ctx_fill(ctx, o->args.labels, 0xFF, (size_t)o->args.x.rows * sizeof(int32_t)));
        HF_TRY(ctx->device->mark(ctx->stream, 0));
        for (int i = 0; i < timed->calls; i++)
            HF_TRY(hf_queue(ctx, HF_OP_ASSIGN, &o->args, &kernel));
        HF_TRY(ctx->device->mark(ctx->stream, 1)); /* right behind the last */
        const double span = ctx->device->span(ctx->stream);
        if (span < 0)
            return hf_ctx_fail(ctx, HF_E_DEVICE, "timing: %s",
                               ctx->device->error_text(ctx->stream));
        if (r >= 0)
            timed->seconds[r] = span / timed->calls;
    }
    return HF_OK;
}

hf_status hf_dev_time_assign(hf_context *ctx, const hf_array *x, const hf_array *centroids,
                             int metric, int exact, int32_t *labels, hf_dev_rounds *timed) {
    struct own o = {.ctx = ctx,
                    .args = {.x = *x,
                             .c = *centroids,
                             .metric = (hf_metric)metric,
                             .exact = exact != 0,
                             .labels = labels}};
    if (timed->rounds < 1 || timed->calls < 1)
        return hf_ctx_fail(ctx, HF_E_ARG, "%d rounds of %d calls cannot be timed", timed->rounds,
                           timed->calls);
    hf_array copy;
    const hf_array *seen = centroids;
    void *owned = NULL;
    struct hf_assign_stats stats = {0};
    hf_status status = take_memory(&o);
    o.args.stats = o.stats;
    if (status == HF_OK)
        status = hf_host_view(ctx, &seen, "centroids", &copy, &owned);
    if (status == HF_OK)
        status = choose_filter(&o, seen);
    if (status == HF_OK)
        status = time_rounds(&o, timed);
    if (status == HF_OK)
        status = hf_ctx_copy(ctx, &stats, o.stats, sizeof stats);
    if (status == HF_OK) {
        strncpy(timed->kernel, ctx->last_kernel[HF_OP_ASSIGN]->name, 63);
        timed->kernel[63] = '\0';
        timed->rechecked = stats.rechecked / ((int64_t)(timed->rounds + 1) * timed->calls);
    }
    hf_free(owned);
    hf_free(o.column);
    hf_ctx_release(ctx, o.bad);
    hf_ctx_release(ctx, o.stats);
    return status;
}
