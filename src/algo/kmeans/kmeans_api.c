/* SPDX-License-Identifier: Apache-2.0
 * The public calls: check, work, hand over. Outputs are written at the very end, when nothing can
 * fail. */
#include "algo/kmeans/check.h"
#include "algo/kmeans/fit.h"
#include "algo/kmeans/predict.h"
#include "base/clock.h"
#include "base/mem.h"
#include <string.h>

/* Move what a finished fit holds into the result. */
static void hand_over(struct hf_fit *fit, struct hf_restart *best, hf_kmeans_result *result) {
    hf_expand_labels(fit);
    *result =
        (hf_kmeans_result){.n = fit->n_all,
                           .k = fit->k,
                           .d = fit->d,
                           .centroids = hf_centers(fit, fit->best),
                           .labels = fit->labels,
                           .inertia = best->inertia,
                           .iterations = best->history.count,
                           .restart = best->number,
                           .stop = best->stop,
                           .converged = best->stop == HF_STOP_LABELS || best->stop == HF_STOP_TOL,
                           .rows_dropped = fit->n_all - fit->n,
                           .history = best->history.it,
                           .seconds_init = fit->seconds_init,
                           .seconds_iterate = fit->seconds_iterate,
                           .seconds_finish = fit->seconds_finish,
                           .workspace_bytes = fit->held_bytes + fit->ctx->workspace_peak,
                           .chunk_rows = hf_min64(fit->rows.chunk_rows, fit->n),
                           .guard = "none"};
    memcpy(result->kernel_assign, fit->kernel_assign, sizeof(result->kernel_assign));
    memcpy(result->kernel_update, fit->kernel_update, sizeof(result->kernel_update));
    fit->best = NULL;
    fit->labels = NULL;
    best->history.it = NULL;
}

static hf_status fit_rows(hf_context *ctx, const hf_array *x, const hf_source *source,
                          const hf_kmeans_opts *opts, hf_kmeans_result *result) {
    const double begin = hf_now_s();
    if (!ctx)
        return HF_E_ARG;
    if (!result)
        return hf_ctx_fail(ctx, HF_E_ARG, "there is no place for the result (fit is NULL)");
    struct hf_shape shape;
    struct hf_fit fit = {.ctx = ctx, .x = x, .source = source};
    struct hf_restart best = {.number = -1};
    HF_TRY(hf_check_rows(ctx, x, source, &shape));
    HF_TRY(hf_check_opts(ctx, opts, &shape, &fit.opts));
    fit.n_all = shape.n;
    fit.d = shape.d;
    fit.k = opts->k;
    fit.dtype = shape.dtype;
    fit.center_type = shape.dtype == HF_F64 ? HF_F64 : HF_F32;
    hf_status status = hf_prepare(&fit);
    fit.seconds_init = hf_now_s() - begin;
    if (status == HF_OK)
        status = hf_fit_workspace(&fit);
    if (status == HF_OK)
        status = hf_restarts(&fit, &best);
    if (status == HF_OK) {
        hand_over(&fit, &best, result);
        result->seconds_total = hf_now_s() - begin;
    }
    hf_free(best.history.it);
    hf_fit_free(&fit);
    return status;
}

hf_status hf_kmeans_fit(hf_context *ctx, const hf_array *x, const hf_kmeans_opts *opts,
                        hf_kmeans_result *fit) {
    return fit_rows(ctx, x, NULL, opts, fit);
}

hf_status hf_kmeans_fit_source(hf_context *ctx, const hf_source *source, const hf_kmeans_opts *opts,
                               hf_kmeans_result *fit) {
    return fit_rows(ctx, NULL, source, opts, fit);
}

void hf_kmeans_result_clear(hf_kmeans_result *fit) {
    if (!fit)
        return;
    hf_free(fit->centroids.data);
    hf_free(fit->labels);
    hf_free(fit->history);
    memset(fit, 0, sizeof(*fit));
}

/* NOLINTBEGIN(readability-non-const-parameter): outputs, written behind args */
hf_status hf_kmeans_predict(hf_context *ctx, const hf_array *x, const hf_source *source,
                            const hf_array *centroids, hf_metric metric, hf_precision precision,
                            const hf_array *weights, int32_t *labels, double *distances,
                            double *inertia) {
    if (!ctx)
        return HF_E_ARG;
    if (!labels)
        return hf_ctx_fail(ctx, HF_E_ARG, "there is no place for the labels (labels is NULL)");
    struct hf_shape shape;
    HF_TRY(hf_check_rows(ctx, x, source, &shape));
    HF_TRY(hf_check_metric(ctx, metric, precision));
    HF_TRY(hf_check_centroids(ctx, centroids, -1, shape.d));
    HF_TRY(hf_check_weights(ctx, weights, shape.n));
    const struct hf_predict_args args = {.x = x,
                                         .source = source,
                                         .n = shape.n,
                                         .d = shape.d,
                                         .dtype = shape.dtype,
                                         .centroids = *centroids,
                                         .metric = metric,
                                         .precision = precision,
                                         .weights = weights,
                                         .labels = labels,
                                         .distances = distances,
                                         .inertia = inertia};
    return hf_predict(ctx, &args);
}
/* NOLINTEND(readability-non-const-parameter) */

hf_status hf_kmeans_transform(hf_context *ctx, const hf_array *x, const hf_source *source,
                              const hf_array *centroids, hf_metric metric, hf_transform_sink sink,
                              void *user) {
    if (!ctx)
        return HF_E_ARG;
    if (!sink)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "there is no function to take the distances (sink is NULL)");
    struct hf_shape shape;
    HF_TRY(hf_check_rows(ctx, x, source, &shape));
    HF_TRY(hf_check_metric(ctx, metric, HF_EXACT));
    HF_TRY(hf_check_centroids(ctx, centroids, -1, shape.d));
    const struct hf_predict_args args = {.x = x,
                                         .source = source,
                                         .n = shape.n,
                                         .d = shape.d,
                                         .dtype = shape.dtype,
                                         .centroids = *centroids,
                                         .metric = metric};
    return hf_transform(ctx, &args, sink, user);
}

const char *hf_stop_text(hf_stop stop) {
    switch (stop) {
    case HF_STOP_NONE:
        return "not stopped";
    case HF_STOP_LABELS:
        return "no label changed";
    case HF_STOP_TOL:
        return "moved less than tol";
    case HF_STOP_MAX_ITER:
        return "reached max_iter";
    case HF_STOP_CANCELLED:
        return "cancelled";
    }
    return "unknown";
}
