/* SPDX-License-Identifier: Apache-2.0
 * The public calls: check, work, hand over. Outputs are written at the very end, when nothing can
 * fail, but for those of predict, which are as long as the data. */
#include "algo/kmeans/kmeans_api.h"
#include "algo/kmeans/check.h"
#include "algo/kmeans/init/first_centroids.h"
#include "algo/kmeans/loop/clusters.h"
#include "algo/kmeans/loop/finish.h"
#include "algo/kmeans/workspace.h"
#include "algo/kmeans/panel_rows.h"
#include "algo/kmeans/predict.h"
#include "algo/kmeans/prepare.h"
#include "algo/kmeans/restarts.h"
#include "base/clock.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/array.h"
#include "rows/resident.h"
#include "guard/guard.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t count_found(const struct hf_fit_problem *problem, const struct hf_restart *best) {
    const struct hf_history *h = &best->history;
    return problem->k - (h->count > 0 ? h->it[h->count - 1].empty : 0);
}

static int compare_doubles(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* What is known of the columns is not needed any more: their deviations go over the units. */
static hf_column_note note_widest(const struct hf_fit_problem *problem,
                                  const struct hf_columns *columns) {
    double *deviation = columns->unit;
    int64_t widest = 0;
    for (int64_t f = 0; f < problem->d; f++) {
        deviation[f] = sqrt(columns->variance[f]);
        widest = deviation[f] > deviation[widest] ? f : widest;
    }
    hf_column_note note = {.column = widest,
                           .min = columns->min[widest],
                           .max = columns->max[widest],
                           .deviation = deviation[widest]};
    qsort(deviation, (size_t)problem->d, sizeof *deviation, compare_doubles);
    note.typical = deviation[(problem->d - 1) / 2];
    return note;
}

void hf_fit_move_result(struct hf_fit *fit, struct hf_restart *best, hf_kmeans_result *result) {
    const struct hf_fit_problem *problem = &fit->problem;
    hf_expand_labels(problem, &fit->data, &fit->labels);
    for (int i = 0; i < best->history.count; i++)
        best->history.it[i].inertia = hf_inertia_given(&fit->weights, best->history.it[i].inertia);
    *result =
        (hf_kmeans_result){.n = problem->n_all,
                           .k = problem->k,
                           .d = problem->d,
                           .centroids = hf_centers(problem, fit->centers.best),
                           .labels = fit->labels.host,
                           .sizes = fit->outcome.sizes,
                           .inertia = best->inertia,
                           .iterations = best->history.count,
                           .restart = best->number,
                           .stop = best->stop,
                           .converged = best->stop == HF_STOP_LABELS || best->stop == HF_STOP_TOL,
                           .clusters_found = count_found(problem, best),
                           .rows_dropped = problem->n_all - problem->n,
                           .checkpoints_failed = fit->saves.failed,
                           .widest = note_widest(problem, &fit->columns),
                           .history = best->history.it,
                           .seconds_init = fit->outcome.seconds_init,
                           .seconds_iterate = fit->outcome.seconds_iterate,
                           .seconds_finish = fit->outcome.seconds_finish,
                           .workspace_bytes = fit->memory.held_bytes + problem->ctx->workspace_peak,
                           .chunk_rows = hf_min64(fit->data.rows.chunk_rows, problem->n),
                           .checks = problem->ctx->guard.covered};
    memcpy(result->kernel_assign, fit->outcome.kernel_assign, sizeof(result->kernel_assign));
    snprintf(result->guard, sizeof result->guard, "%s", hf_guard_in_force(problem->ctx));
    memcpy(result->kernel_update, fit->outcome.kernel_update, sizeof(result->kernel_update));
    fit->centers.best = NULL;
    fit->labels.host = NULL;
    fit->outcome.sizes = NULL;
    best->history.it = NULL;
}

hf_status hf_fit_begin(struct hf_fit *fit) {
    struct hf_fit_problem *problem = &fit->problem;
    const double begin = hf_now_s();
    HF_TRY(hf_resident_take(problem->ctx, &problem->x, &problem->source, &fit->data.resident));
    hf_fit_panels(problem, &fit->data);
    HF_TRY(hf_prepare(fit));
    fit->outcome.seconds_init = hf_now_s() - begin;
    return hf_fit_workspace(fit);
}

/* Where rows are fewer than clusters, some of these have none, whatever is done about it. */
static void warn_of_empty(const struct hf_fit_problem *problem, const hf_kmeans_result *r) {
    const hf_kmeans_opts *o = &problem->opts;
    hf_error text;
    if (!o->warn || !r->converged || r->clusters_found == r->k)
        return;
    (void)hf_fail(&text, HF_OK,
                  "only %lld of %lld clusters have rows: there may be no more different rows; ask "
                  "for fewer clusters",
                  (long long)r->clusters_found, (long long)r->k);
    o->warn(o->warn_user, text.text);
}

/* again: rows changed on the device in the first attempt, and came there again. */
static hf_status fit_checked(struct hf_fit *fit, bool again, hf_kmeans_result *result) {
    const double begin = hf_now_s();
    struct hf_restart best = {.number = -1};
    hf_status status = hf_fit_begin(fit);
    fit->doubted = fit->data.resident.origin && hf_guard_retries(fit->problem.ctx, status);
    if (status == HF_OK)
        status = hf_restarts(fit, &best);
    if (status == HF_OK && again)
        hf_guard_repaired(fit->problem.ctx, HF_FAULT_TRANSIENT, 0);
    if (status == HF_E_CORRUPT && fit->doubted && again)
        hf_guard_lost(fit->problem.ctx, HF_FAULT_KIND_UNKNOWN);
    hf_guard_counts faults = {0};
    if (status == HF_OK)
        status = hf_guard_read(fit->problem.ctx, &faults);
    if (status == HF_OK) {
        hf_fit_move_result(fit, &best, result);
        result->faults = faults;
        warn_of_empty(&fit->problem, result);
        result->seconds_total = hf_now_s() - begin;
    }
    hf_free(best.history.it);
    hf_fit_free(fit);
    return status;
}

/* The first centroids of the first restart; centroids [k, d] F64. */
static hf_status seed_checked(struct hf_fit *fit, const hf_array *centroids) {
    const struct hf_fit_problem *problem = &fit->problem;
    const int64_t step = centroids->row_stride ? centroids->row_stride : problem->d;
    hf_status status = hf_check_seeds(problem->ctx, centroids, problem->k, problem->d);
    if (status == HF_OK)
        status = hf_fit_begin(fit);
    if (status == HF_OK)
        status = hf_fit_start(fit, 0);
    for (int64_t j = 0; status == HF_OK && j < problem->k; j++) {
        const hf_array from = hf_centers(problem, fit->centers.current);
        hf_to_f64((double *)centroids->data + j * step, hf_array_row(&from, j), from.dtype,
                  problem->d);
    }
    hf_fit_free(fit);
    return status;
}

/* Either a whole fit, or its first centroids alone. */
struct wanted {
    hf_kmeans_result *result;
    const hf_array *seeds;
};

static hf_status run_fit(hf_context *ctx, const hf_array *x, const hf_source *source,
                         const hf_kmeans_opts *opts, const struct wanted *wanted) {
    struct hf_shape shape;
    struct hf_host_args on_host = {0};
    struct hf_fit fit = {.problem = {.ctx = ctx, .x = x, .source = source}};
    hf_kmeans_opts seen = opts ? *opts : (hf_kmeans_opts){0};
    hf_status status = hf_check_rows(ctx, x, source, &shape);
    if (status == HF_OK)
        status = hf_host_args_open(ctx, &seen.centroids, &seen.weights, &on_host);
    if (status == HF_OK)
        status = hf_check_opts(ctx, opts ? &seen : NULL, &shape, &fit.problem.opts);
    if (status == HF_OK)
        status = hf_guard_begin(ctx, seen.guard, seen.on_fault, seen.on_fault_user);
    if (status == HF_OK) {
        fit.problem.n_all = shape.n;
        fit.problem.d = shape.d;
        fit.problem.k = seen.k;
        fit.problem.dtype = shape.dtype;
        fit.problem.center_type = shape.dtype == HF_F64 ? HF_F64 : HF_F32;
        const struct hf_fit_problem problem = fit.problem;
        status = wanted->seeds ? seed_checked(&fit, wanted->seeds)
                               : fit_checked(&fit, false, wanted->result);
        if (fit.doubted && !wanted->seeds) {
            fit = (struct hf_fit){.problem = problem};
            status = fit_checked(&fit, true, wanted->result);
        }
    }
    hf_host_args_close(&on_host);
    return status;
}

hf_status hf_fit_rows(hf_context *ctx, const hf_array *x, const hf_source *source,
                      const hf_kmeans_opts *opts, hf_kmeans_result *result) {
    if (!result)
        return hf_ctx_fail(ctx, HF_E_ARG, "there is no place for the result (fit is NULL)");
    return run_fit(ctx, x, source, opts, &(struct wanted){.result = result});
}

hf_status hf_kmeans_fit(hf_context *ctx, const hf_array *x, const hf_kmeans_opts *opts,
                        hf_kmeans_result *fit) {
    if (!ctx)
        return HF_E_ARG;
    if (!hf_ctx_enter(ctx))
        return HF_E_BUSY;
    return hf_ctx_leave(ctx, hf_fit_rows(ctx, x, NULL, opts, fit));
}

hf_status hf_kmeans_fit_source(hf_context *ctx, const hf_source *source, const hf_kmeans_opts *opts,
                               hf_kmeans_result *fit) {
    if (!ctx)
        return HF_E_ARG;
    if (!hf_ctx_enter(ctx))
        return HF_E_BUSY;
    return hf_ctx_leave(ctx, hf_fit_rows(ctx, NULL, source, opts, fit));
}

hf_status hf_kmeans_seed(hf_context *ctx, const hf_array *x, const hf_source *source,
                         const hf_kmeans_opts *opts, const hf_array *centroids) {
    if (!ctx)
        return HF_E_ARG;
    if (!centroids)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "there is no place for the first centroids (centroids is NULL)");
    if (!hf_ctx_enter(ctx))
        return HF_E_BUSY;
    return hf_ctx_leave(ctx, run_fit(ctx, x, source, opts, &(struct wanted){.seeds = centroids}));
}

void hf_kmeans_result_clear(hf_kmeans_result *fit) {
    if (!fit)
        return;
    hf_free(fit->centroids.data);
    hf_free(fit->labels);
    hf_free(fit->sizes);
    hf_free(fit->history);
    memset(fit, 0, sizeof(*fit));
}

/* Outputs that lie on the device are written on the host first. */
static hf_status predict_outputs(hf_context *ctx, struct hf_predict_args *args) {
    int32_t *const labels = args->out.labels;
    double *const distances = args->out.distances;
    const bool labels_on_device = ctx->device->owns(ctx->stream, labels);
    const bool distances_on_device = ctx->device->owns(ctx->stream, distances);
    const size_t n = (size_t)args->n;
    void *own_labels = labels_on_device ? hf_alloc(n * sizeof(int32_t)) : NULL;
    void *own_distances = distances_on_device ? hf_alloc(n * sizeof(double)) : NULL;
    hf_status status = HF_OK;
    if ((labels_on_device && !own_labels) || (distances_on_device && !own_distances))
        status = hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for %lld labels", (long long)args->n);
    args->out.labels = labels_on_device ? own_labels : labels;
    args->out.distances = distances_on_device ? own_distances : distances;
    if (status == HF_OK)
        status = hf_predict(ctx, args);
    if (status == HF_OK && labels_on_device)
        status = hf_ctx_copy(ctx, labels, own_labels, n * sizeof(int32_t));
    if (status == HF_OK && distances_on_device)
        status = hf_ctx_copy(ctx, distances, own_distances, n * sizeof(double));
    hf_free(own_labels);
    hf_free(own_distances);
    return status;
}

static hf_status check_predict(hf_context *ctx, const struct hf_predict_args *args,
                               struct hf_shape *shape) {
    const hf_predict_opts *o = &args->opts;
    HF_TRY(hf_check_rows(ctx, args->x, args->source, shape));
    HF_TRY(hf_check_metric(ctx, o->metric, o->precision));
    HF_TRY(hf_guard_begin(ctx, o->guard, o->on_fault, o->on_fault_user));
    if ((unsigned)o->nan > HF_NAN_DROP)
        return hf_ctx_fail(ctx, HF_E_ARG, "unknown policy for NaN %u: the header lists 0 to %u",
                           (unsigned)o->nan, (unsigned)HF_NAN_DROP);
    return HF_OK;
}

/* What the checks of a call found. */
static hf_status tell_guard(hf_context *ctx, const hf_predict_opts *o) {
    hf_guard_counts faults;
    HF_TRY(hf_guard_read(ctx, &faults));
    if (o->faults)
        *o->faults = faults;
    if (o->scheme)
        snprintf(o->scheme, 16, "%s", hf_guard_in_force(ctx));
    if (o->checks)
        *o->checks = ctx->guard.covered;
    return HF_OK;
}

/* Check and stage what predict and transform have in common, then run one of them. */
static hf_status predict_checked(hf_context *ctx, const struct hf_predict_args *given,
                                 const hf_array *centroids, hf_transform_sink sink) {
    struct hf_predict_args args = *given; /* rows on the device are there for this call alone */
    struct hf_shape shape;
    struct hf_resident resident = {0};
    struct hf_host_args on_host = {0};
    hf_status status = check_predict(ctx, &args, &shape);
    if (status == HF_OK)
        status = hf_host_args_open(ctx, &centroids, &args.opts.weights, &on_host);
    if (status == HF_OK)
        status = hf_check_centroids(ctx, centroids, -1, shape.d);
    if (status == HF_OK)
        status = hf_check_weights(ctx, args.opts.weights, shape.n);
    if (status == HF_OK)
        status = hf_widen_centroids(ctx, &centroids, &on_host);
    if (status == HF_OK)
        status = hf_resident_take(ctx, &args.x, &args.source, &resident);
    if (status == HF_OK) {
        args.resident = &resident;
        args.n = shape.n;
        args.d = shape.d;
        args.dtype = shape.dtype;
        args.centroids = *centroids;
        status = sink ? hf_transform(ctx, &args, sink) : predict_outputs(ctx, &args);
    }
    if (status == HF_OK)
        status = tell_guard(ctx, &args.opts);
    hf_resident_clear(ctx, &resident);
    hf_host_args_close(&on_host);
    return status;
}

static hf_status predict_rows(hf_context *ctx, const struct hf_predict_args *args,
                              const hf_array *centroids, hf_transform_sink sink) {
    if (!hf_ctx_enter(ctx))
        return HF_E_BUSY;
    return hf_ctx_leave(ctx, predict_checked(ctx, args, centroids, sink));
}

hf_status hf_kmeans_predict_with(hf_context *ctx, const hf_array *x, const hf_source *source,
                                 const hf_array *centroids, const hf_predict_opts *opts,
                                 const hf_prediction *out) {
    if (!ctx)
        return HF_E_ARG;
    if (!out || !out->labels)
        return hf_ctx_fail(ctx, HF_E_ARG, "there is no place for the labels (labels is NULL)");
    struct hf_predict_args args = {
        .x = x, .source = source, .opts = opts ? *opts : (hf_predict_opts){0}, .out = *out};
    return predict_rows(ctx, &args, centroids, NULL);
}

hf_status hf_kmeans_predict(hf_context *ctx, const hf_array *x, const hf_source *source,
                            const hf_array *centroids, hf_metric metric, hf_precision precision,
                            const hf_array *weights, int32_t *labels, double *distances,
                            double *inertia) {
    const hf_predict_opts opts = {.metric = metric, .precision = precision, .weights = weights};
    const hf_prediction out = {.labels = labels, .distances = distances, .inertia = inertia};
    return hf_kmeans_predict_with(ctx, x, source, centroids, &opts, &out);
}

hf_status hf_kmeans_transform_with(hf_context *ctx, const hf_array *x, const hf_source *source,
                                   const hf_array *centroids, const hf_predict_opts *opts,
                                   hf_transform_sink sink) {
    if (!ctx)
        return HF_E_ARG;
    if (!sink)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "there is no function to take the distances (sink is NULL)");
    struct hf_predict_args args = {
        .x = x, .source = source, .opts = opts ? *opts : (hf_predict_opts){0}};
    args.opts.weights = NULL;
    return predict_rows(ctx, &args, centroids, sink);
}

hf_status hf_kmeans_transform(hf_context *ctx, const hf_array *x, const hf_source *source,
                              const hf_array *centroids, hf_metric metric, hf_transform_sink sink,
                              void *user) {
    const hf_predict_opts opts = {.metric = metric, .user = user};
    return hf_kmeans_transform_with(ctx, x, source, centroids, &opts, sink);
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
