/* SPDX-License-Identifier: Apache-2.0
 * The problems are looked at, started from random rows and iterated together; other starts are
 * made one after the other. What ends them, the last labels and the check of the sums, is queued
 * for all before anything is waited for. What the device reports as an event (an empty cluster)
 * sends that problem back to be fitted alone from its start, so that results have the bits of
 * single fits. Only the inertia of an iteration, which is summed from the common origin, may differ
 * in its last digits. */
#include "algo/kmeans/together.h"
#include "algo/kmeans/check.h"
#include "algo/kmeans/fit.h"
#include "algo/kmeans/init/first_centroids.h"
#include "algo/kmeans/init/init.h"
#include "algo/kmeans/kmeans_api.h"
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/loop/clusters.h"
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/loop/finish.h"
#include "algo/kmeans/memory_plan.h"
#include "algo/kmeans/loop/mirror.h"
#include "algo/kmeans/loop/sizes.h"
#include "algo/kmeans/workspace.h"
#include "algo/kmeans/prepare.h"
#include "algo/kmeans/prepare_frame.h"
#include "algo/kmeans/restarts.h"
#include "base/clock.h"
#include "base/mem.h"
#include "core/array.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "ops/gather/gather.h"
#include "ops/inertia/inertia.h"
#include "ops/lloyd/lloyd.h"
#include <math.h>
#include <string.h>

#define FAR 4
#define FETCH_BYTES ((size_t)1 << 20) /* results of small problems that come to the host at once */
#define X_ALIGN 256                   /* rows elsewhere are copied */

struct together {
    hf_context *ctx;
    const hf_kmeans_opts *opts;
    int64_t count, n, k, d;
    hf_dtype dtype;
    void *owned;         /* a copy of the rows on the device, if one was made */
    hf_array x;          /* [count * n, d] on the device */
    hf_array *views;     /* [count] of x */
    struct hf_fit *fits; /* [count] */
    /* [count] problems one behind the other, as op lloyd wants them */
    void *block; /* host memory, owns what follows */
    double *mult, *unit, *tol, *total_square, *slack, *weight_mult, *shift;
    struct hf_lloyd_state *state;
    hf_kmeans_iteration *history; /* [count, max_iter] */
    hf_wide *inertia;             /* [count] */
    char *fetched;                /* FETCH_BYTES */
    void *device_block;           /* the device's memory, owns what follows */
    int32_t *labels;
    int32_t *none; /* [n] -1 */
    char *current, *previous;
    double *device_mult;
    struct hf_sums sums;
    struct hf_assign_stats *stats; /* of all */
    hf_wide *device_inertia;
};

/* How many problems from x[0] on lie one behind the other without gaps, `most` of them at most. */
static int64_t run_length(const struct together *t, const hf_array *x, int64_t most) {
    const size_t bytes = (size_t)(t->n * t->d) * hf_dtype_bytes(t->dtype);
    int64_t run = 0;
    while (run < most && hf_array_stride(&x[run]) == t->d &&
           (uintptr_t)x[run].data == (uintptr_t)x[0].data + (size_t)run * bytes)
        run++;
    return run > 0 ? run : 1;
}

/* May the rows be used where they are? */
static bool in_place(const struct together *t, const hf_array *x) {
    if ((uintptr_t)x[0].data % X_ALIGN != 0 || hf_array_stride(&x[0]) != t->d ||
        run_length(t, x, t->count) < t->count)
        return false;
    for (int64_t p = 0; p < t->count; p++)
        if (!t->ctx->device->owns(t->ctx->stream, x[p].data))
            return false;
    return true;
}

/* Neighbours in one copy, or, where the memory of two ends between them, one by one. */
static bool copy_all(struct together *t, const hf_array *x, char *to) {
    const size_t bytes = (size_t)(t->n * t->d) * hf_dtype_bytes(t->dtype);
    for (int64_t p = 0, run; p < t->count; p += run) {
        run = run_length(t, x + p, t->count - p);
        hf_array some = x[p];
        some.rows = run * t->n;
        if (hf_ctx_copy_rows(t->ctx, to + (size_t)p * bytes, &some) == HF_OK)
            continue;
        for (int64_t i = p; i < p + run; i++)
            if (run == 1 || hf_ctx_copy_rows(t->ctx, to + (size_t)i * bytes, &x[i]) != HF_OK)
                return false;
    }
    return true;
}

static bool take_views(struct together *t, const hf_array *x) {
    const size_t row = (size_t)t->d * hf_dtype_bytes(t->dtype);
    size_t bytes = 0;
    if (!hf_mul3_size(t->count * t->n, t->d, (int64_t)hf_dtype_bytes(t->dtype), &bytes) ||
        bytes > t->ctx->memory_bytes / 4)
        return false;
    t->views = hf_alloc((size_t)t->count * sizeof *t->views);
    t->fits = hf_alloc_zero((size_t)t->count * sizeof *t->fits);
    if (!t->views || !t->fits)
        return false;
    void *rows = x[0].data;
    if (!in_place(t, x)) {
        rows = t->owned = hf_ctx_alloc(t->ctx, bytes);
        if (!rows || !copy_all(t, x, rows))
            return false;
    }
    t->x = hf_array_view(rows, t->dtype, t->count * t->n, t->d);
    for (int64_t p = 0; p < t->count; p++)
        t->views[p] = hf_array_view((char *)rows + (size_t)(p * t->n) * row, t->dtype, t->n, t->d);
    return true;
}

/* The fit of one problem, up to where its rows are looked at. */
static hf_status open_fit(struct together *t, int64_t p, int64_t seed) {
    struct hf_fit *fit = &t->fits[p];
    struct hf_fit_problem *problem = &fit->problem;
    const struct hf_shape shape = {t->n, t->d, t->dtype};
    *fit = (struct hf_fit){
        .problem = {.ctx = t->ctx, .x = &t->views[p], .n_all = t->n, .k = t->k, .d = t->d}};
    problem->n = fit->data.panel_rows = fit->data.scan_rows = t->n;
    problem->dtype = t->dtype;
    problem->center_type = t->dtype == HF_F64 ? HF_F64 : HF_F32;
    HF_TRY(hf_check_opts(t->ctx, t->opts, &shape, &problem->opts));
    problem->opts.seed += (uint64_t)seed;
    return HF_OK;
}

static hf_status prepare_all(struct together *t, int64_t first) {
    for (int64_t p = 0; p < t->count; p++)
        HF_TRY(open_fit(t, p, first + p));
    return hf_prepare_joint(t->fits, t->count, &t->x);
}

/* How long the bulk of a problem's rows is at most about another origin than its own; 0: that is
 * not known. */
static double length_about(const struct hf_fit_problem *problem, const struct hf_frame *frame,
                           const struct hf_columns *columns, const double *origin) {
    double apart = 0;
    if (frame->filter.length == 0)
        return 0;
    for (int64_t f = 0; f < problem->d; f++)
        apart += (columns->shift[f] - origin[f]) * (columns->shift[f] - origin[f]);
    return frame->filter.length / frame->filter.scale + sqrt(apart);
}

/* One filter for all: about the middle of their origins, for the longest rows. */
static void share_filter(struct together *t) {
    double largest = 0;
    for (int64_t f = 0; f < t->d; f++) {
        t->shift[f] = 0;
        for (int64_t p = 0; p < t->count; p++)
            t->shift[f] += t->fits[p].columns.shift[f] / (double)t->count;
    }
    double longest = 0;
    for (int64_t p = 0; p < t->count; p++) {
        const struct hf_fit *fit = &t->fits[p];
        largest =
            fmax(largest, hf_filter_reach(t->d, fit->columns.min, fit->columns.max, t->shift));
        longest = fmax(longest, length_about(&fit->problem, &fit->frame, &fit->columns, t->shift));
    }
    for (int64_t p = 0; p < t->count; p++)
        hf_prepare_filter(&t->fits[p], t->shift, hf_frame_scale(longest, largest), longest);
}

static size_t center_bytes(const struct together *t) {
    return (size_t)(t->k * t->d) * hf_dtype_bytes(t->fits[0].problem.center_type);
}

/* Elements of the sums of a problem. */
static int64_t sum_cells(const struct together *t) { return t->sums.limbs * t->k * t->d; }

static void carve_host(struct together *t, hf_carve *c) {
    const size_t count = (size_t)t->count, d = (size_t)t->d;
    const int max_iter = t->fits[0].problem.opts.max_iter;
    t->mult = hf_carve_take(c, count * d * sizeof(double));
    t->unit = hf_carve_take(c, count * d * sizeof(double));
    t->shift = hf_carve_take(c, d * sizeof(double));
    double **const each[] = {&t->tol, &t->total_square, &t->slack, &t->weight_mult};
    for (int i = 0; i < 4; i++)
        *each[i] = hf_carve_take(c, count * sizeof(double));
    t->state = hf_carve_take(c, count * sizeof *t->state);
    t->inertia = hf_carve_take(c, count * sizeof *t->inertia);
    t->history = hf_carve_take(c, count * (size_t)max_iter * sizeof *t->history);
    t->fetched = hf_carve_take(c, FETCH_BYTES);
}

static void carve_device(struct together *t, hf_carve *c) {
    const size_t count = (size_t)t->count, n = (size_t)t->n;
    t->labels = hf_mirror_take(c, count * n * sizeof(int32_t));
    t->none = hf_mirror_take(c, n * sizeof(int32_t));
    t->current = hf_mirror_take(c, count * center_bytes(t));
    t->previous = hf_mirror_take(c, count * center_bytes(t));
    t->device_mult = hf_mirror_take(c, count * (size_t)t->d * sizeof(double));
    t->sums.mult = t->device_mult;
    t->sums.sum = hf_mirror_take(c, count * (size_t)sum_cells(t) * sizeof(int64_t));
    t->sums.count = hf_mirror_take(c, count * (size_t)t->k * sizeof(int64_t));
    t->stats = hf_mirror_take(c, sizeof *t->stats);
    t->device_inertia = hf_mirror_take(c, count * sizeof *t->device_inertia);
}

static bool take_blocks(struct together *t) {
    hf_carve host = {0}, device = {0};
    t->sums = t->fits[0].centers.sums;
    carve_host(t, &host);
    carve_device(t, &device);
    t->block = hf_alloc(host.used);
    t->device_block = hf_ctx_alloc(t->ctx, device.used);
    host = (hf_carve){.base = t->block};
    device = (hf_carve){.base = t->device_block};
    if (!t->block || !t->device_block)
        return false;
    carve_host(t, &host);
    carve_device(t, &device);
    return true;
}

/* All that a fit needs which starts and ends here: what becomes its result's. */
static hf_status take_results(struct together *t, struct hf_fit *fit) {
    fit->centers.best = hf_alloc(center_bytes(t));
    fit->labels.host = hf_alloc((size_t)t->n * sizeof(int32_t));
    fit->outcome.sizes = hf_alloc((size_t)t->k * sizeof(int64_t));
    fit->data.rows.chunk_rows = t->n;
    fit->memory.held_bytes = hf_prepared_bytes(&fit->problem, &fit->weights, &fit->data);
    return fit->centers.best && fit->labels.host && fit->outcome.sizes
               ? HF_OK
               : hf_ctx_fail(t->ctx, HF_E_NOMEM, "no memory for results");
}

/* Random rows of all problems. Their type is that of the centroids, or narrower: nothing is
 * rounded, and all are finite. */
static hf_status start_random(struct together *t, int64_t *row) {
    for (int64_t p = 0; p < t->count; p++) {
        struct hf_fit *fit = &t->fits[p];
        const struct hf_init_args args = {.k = t->k,
                                          .init = HF_INIT_RANDOM,
                                          .seed = fit->problem.opts.seed,
                                          .weights = hf_start_weights(&fit->weights),
                                          .filter = fit->frame.filter};
        HF_TRY(take_results(t, fit));
        HF_TRY(hf_kmeans_init_random(&fit->data.rows, &args, row + p * t->k));
        for (int64_t j = 0; j < t->k; j++)
            row[p * t->k + j] += p * t->n;
    }
    const struct hf_gather_args args = {.x = t->x,
                                        .index = row,
                                        .count = t->count * t->k,
                                        .type = t->fits[0].problem.center_type,
                                        .out = t->current};
    return hf_gather(t->ctx, &args);
}

/* One after the other; given centroids are those of all. */
static hf_status start_each(struct together *t) {
    const size_t centers = center_bytes(t);
    for (int64_t p = 0; p < t->count; p++) {
        struct hf_fit *fit = &t->fits[p];
        const bool again = p > 0 && fit->problem.opts.init == HF_INIT_GIVEN;
        const void *from = t->current;
        if (again) {
            HF_TRY(take_results(t, fit));
        } else {
            HF_TRY(hf_fit_workspace(fit));
            HF_TRY(hf_fit_start(fit, 0));
            from = fit->centers.current;
        }
        HF_TRY(hf_ctx_copy(t->ctx, t->current + (size_t)p * centers, from, centers));
    }
    return HF_OK;
}

static hf_status start(struct together *t) {
    size_t rows = 0;
    if (t->opts->init != HF_INIT_RANDOM)
        return start_each(t);
    int64_t *row = hf_mul3_size(t->count, t->k, sizeof *row, &rows) ? hf_alloc(rows) : NULL;
    const hf_status status =
        row ? start_random(t, row) : hf_ctx_fail(t->ctx, HF_E_NOMEM, "no memory for random rows");
    hf_free(row);
    return status;
}

/* What each problem iterates with, side by side. */
static hf_status gather(struct together *t) {
    hf_context *ctx = t->ctx;
    const size_t columns = (size_t)t->d * sizeof(double);
    const size_t labels = (size_t)(t->count * t->n) * sizeof(int32_t);
    const size_t sums = (size_t)(t->count * sum_cells(t)) * sizeof(int64_t);
    share_filter(t);
    memset(t->state, 0, (size_t)t->count * sizeof *t->state);
    for (int64_t p = 0; p < t->count; p++) {
        const struct hf_fit *fit = &t->fits[p];
        memcpy(t->unit + p * t->d, fit->columns.unit, columns);
        memcpy(t->mult + p * t->d, fit->columns.mult, columns);
        t->tol[p] = fit->frame.tol;
        t->total_square[p] = fit->frame.total_square;
        t->slack[p] = fit->frame.slack;
        t->weight_mult[p] = fit->centers.sums.weight_mult;
    }
    HF_TRY(hf_ctx_copy(ctx, t->device_mult, t->mult, (size_t)t->count * columns));
    HF_TRY(hf_ctx_fill(ctx, t->labels, 0xff, labels));
    HF_TRY(hf_ctx_fill(ctx, t->none, 0xff, (size_t)t->n * sizeof(int32_t)));
    HF_TRY(hf_ctx_fill(ctx, t->sums.sum, 0, sums));
    HF_TRY(hf_ctx_fill(ctx, t->stats, 0, sizeof *t->stats));
    HF_TRY(hf_ctx_fill(ctx, t->device_inertia, 0, (size_t)t->count * sizeof(hf_wide)));
    return hf_ctx_fill(ctx, t->sums.count, 0, (size_t)(t->count * t->k) * sizeof(int64_t));
}

static struct hf_lloyd_args joint_args(struct together *t) {
    struct hf_fit *fit = &t->fits[0];
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_lloyd_args args = {.x = t->x,
                                 .batch = t->count,
                                 .exact = problem->opts.precision == HF_EXACT,
                                 .filter = fit->frame.filter,
                                 .rule = hf_fit_rule(problem, &fit->columns),
                                 .empty = problem->opts.empty,
                                 .skipping = problem->opts.skipping,
                                 .count = problem->opts.max_iter,
                                 .tol = t->tol,
                                 .total_square = t->total_square,
                                 .slack = t->slack,
                                 .weight_mult = t->weight_mult,
                                 .sums = &t->sums,
                                 .labels = t->labels,
                                 .current = t->current,
                                 .previous = t->previous,
                                 .state = t->state,
                                 .history = t->history};
    args.rule.unit = t->unit;
    return args;
}

static bool is_done(const struct together *t, int64_t p) {
    return t->state[p].stop < HF_LLOYD_EMPTY && t->state[p].iterations > 0;
}

/* Rows of the ops that end a problem, planned for the first of them. */
struct enders {
    const struct hf_kernel *update, *assign, *inertia;
};

/* Queue the end of a problem, as hf_finish() has it: all rows are taken out of its sums, then get
 * the labels of its centroids, and the inertia. */
static hf_status queue_end(struct together *t, int64_t p, struct enders *with) {
    struct hf_fit *fit = &t->fits[p];
    const struct hf_fit_problem *problem = &fit->problem;
    int32_t *labels = t->labels + p * t->n;
    const hf_array c =
        hf_array_view(t->current + (size_t)p * center_bytes(t), problem->center_type, t->k, t->d);
    struct hf_sums sums = t->sums;
    sums.mult += p * t->d;
    sums.weight_mult = t->weight_mult[p];
    sums.sum += p * sum_cells(t);
    sums.count += p * t->k;
    const struct hf_update_args out = {.x = t->views[p],
                                       .metric = problem->opts.metric,
                                       .old_labels = labels,
                                       .labels = t->none,
                                       .sums = &sums};
    const struct hf_assign_args nearest = {.x = t->views[p],
                                           .c = c,
                                           .metric = problem->opts.metric,
                                           .exact = problem->opts.precision == HF_EXACT,
                                           .filter = fit->frame.filter,
                                           .labels = labels,
                                           .stats = t->stats};
    const struct hf_inertia_args far = {.x = t->views[p],
                                        .c = c,
                                        .metric = problem->opts.metric,
                                        .labels = labels,
                                        .sum = t->device_inertia + p};
    HF_TRY(hf_queue(t->ctx, HF_OP_UPDATE, &out, &with->update));
    HF_TRY(hf_queue(t->ctx, HF_OP_ASSIGN, &nearest, &with->assign));
    return hf_queue(t->ctx, HF_OP_INERTIA, &far, &with->inertia);
}

/* Where results of a problem go. */
static void *place_of_labels(const struct hf_fit *fit) { return fit->labels.host; }
static void *place_of_centers(const struct hf_fit *fit) { return fit->centers.best; }

/* `bytes` of each problem to the host, of small ones many at a time. */
static hf_status fetch(struct together *t, const void *from, size_t bytes,
                       void *(*place)(const struct hf_fit *fit)) {
    const int64_t most = bytes < FETCH_BYTES ? (int64_t)(FETCH_BYTES / bytes) : 1;
    for (int64_t p = 0; p < t->count; p += most) {
        const int64_t some = hf_min64(most, t->count - p);
        const char *at = (const char *)from + (size_t)p * bytes;
        char *to = some > 1 ? t->fetched : place(&t->fits[p]);
        HF_TRY(hf_ctx_copy(t->ctx, to, at, (size_t)some * bytes));
        for (int64_t i = 0; some > 1 && i < some; i++)
            memcpy(place(&t->fits[p + i]), to + (size_t)i * bytes, bytes);
    }
    return HF_OK;
}

/* Seconds of a problem: of an iteration, and of what was queued for its end. */
struct shares {
    double iteration, end;
};

/* A result of what a problem ended with, which its fit has. */
static hf_status finish(struct together *t, int64_t p, struct shares each,
                        hf_kmeans_result *result) {
    struct hf_fit *fit = &t->fits[p];
    const struct hf_lloyd_state *s = &t->state[p];
    struct hf_restart run = {.iteration = s->iterations, .stop = (hf_stop)s->stop};
    const double begin = hf_now_s();
    if (run.stop == HF_STOP_NONE)
        run.stop = HF_STOP_MAX_ITER;
    run.inertia = hf_wide_value(&t->inertia[p]);
    run.history.count = run.history.room = s->iterations;
    run.history.it = hf_alloc((size_t)s->iterations * sizeof(hf_kmeans_iteration));
    if (!run.history.it)
        return hf_ctx_fail(t->ctx, HF_E_NOMEM, "no memory for a history");
    memcpy(run.history.it, t->history + p * fit->problem.opts.max_iter,
           (size_t)s->iterations * sizeof(hf_kmeans_iteration));
    for (int i = 0; i < s->iterations; i++)
        run.history.it[i].seconds = each.iteration;
    const hf_status status = hf_count_labels(&fit->problem, &fit->labels, &fit->outcome);
    if (status == HF_OK) {
        fit->outcome.seconds_iterate = each.iteration * s->iterations;
        fit->outcome.seconds_finish = each.end + hf_now_s() - begin;
        hf_fit_move_result(fit, &run, result);
        result->seconds_total =
            fit->outcome.seconds_init + fit->outcome.seconds_iterate + fit->outcome.seconds_finish;
    }
    hf_free(run.history.it);
    return status;
}

/* Nothing may be left in the sums of those that were ended. */
static hf_status check_sums(struct together *t) {
    const size_t sums = (size_t)sum_cells(t) * sizeof(int64_t), counts = (size_t)t->k * 8;
    bool sums_empty = false;
    bool counts_empty = false;
    for (int64_t p = 0; p < t->count; p++)
        if (!is_done(t, p)) {
            HF_TRY(hf_ctx_fill(t->ctx, t->sums.sum + p * sum_cells(t), 0, sums));
            HF_TRY(hf_ctx_fill(t->ctx, t->sums.count + p * t->k, 0, counts));
        }
    HF_TRY(hf_ctx_is_zero(t->ctx, t->sums.sum, (size_t)t->count * sums, &sums_empty));
    HF_TRY(hf_ctx_is_zero(t->ctx, t->sums.count, (size_t)t->count * counts, &counts_empty));
    return sums_empty && counts_empty ? HF_OK : hf_sums_are_wrong(&t->fits[0].problem);
}

static hf_status finish_all(struct together *t, double iteration, hf_kmeans_result *fits,
                            bool *done) {
    const double begin = hf_now_s();
    struct enders with = {0};
    for (int64_t p = 0; p < t->count; p++)
        if (is_done(t, p))
            HF_TRY(queue_end(t, p, &with));
    HF_TRY(check_sums(t));
    HF_TRY(fetch(t, t->labels, (size_t)t->n * sizeof(int32_t), place_of_labels));
    HF_TRY(fetch(t, t->current, center_bytes(t), place_of_centers));
    HF_TRY(hf_ctx_copy(t->ctx, t->inertia, t->device_inertia, (size_t)t->count * sizeof(hf_wide)));
    const struct shares each = {iteration, (hf_now_s() - begin) / (double)t->count};
    for (int64_t p = 0; p < t->count; p++) {
        struct hf_fit *fit = &t->fits[p];
        if (!is_done(t, p))
            continue;
        hf_note_kernel(&fit->problem, HF_OP_LLOYD, fit->outcome.kernel_assign);
        hf_note_kernel(&fit->problem, HF_OP_LLOYD, fit->outcome.kernel_update);
        HF_TRY(finish(t, p, each, &fits[p]));
        done[p] = true;
    }
    return HF_OK;
}

static hf_status iterate(struct together *t, hf_kmeans_result *fits, bool *done) {
    const struct hf_lloyd_args args = joint_args(t);
    const struct hf_kernel *kernel = NULL;
    if (hf_plan(t->ctx, HF_OP_LLOYD, &args, &kernel, NULL) != HF_OK ||
        (kernel->traits & HF_TRAIT_REFERENCE))
        return HF_OK;
    const double begin = hf_now_s();
    const hf_status status = hf_lloyd_run(t->ctx, &args);
    if (status != HF_OK)
        return status == HF_E_NOMEM ? HF_OK : status;
    HF_TRY(hf_verify(t->ctx));
    int32_t most = 1;
    for (int64_t p = 0; p < t->count; p++)
        most = t->state[p].iterations > most ? t->state[p].iterations : most;
    const double each = (hf_now_s() - begin) / most;
    return finish_all(t, each, fits, done);
}

/* Do the histories of all problems take little memory? */
static bool short_enough(const struct together *t) {
    size_t bytes = 0;
    const int64_t max_iter = t->opts->max_iter ? t->opts->max_iter : 300;
    return hf_mul3_size(t->count, max_iter, (int64_t)sizeof(hf_kmeans_iteration), &bytes) &&
           bytes <= t->ctx->memory_bytes / 16;
}

/* Problems whose sums have another form, that lost rows, or that lie far from each other (measured
 * by their own spread) do not go together: they have one filter and one origin. */
static bool alike(const struct together *t) {
    for (int64_t p = 0; p < t->count; p++) {
        const struct hf_fit *fit = &t->fits[p];
        if (fit->centers.sums.limbs != t->fits[0].centers.sums.limbs || fit->problem.n != t->n)
            return false;
        double spread = 0;
        double apart = 0;
        for (int64_t f = 0; f < t->d; f++) {
            spread = fmax(spread, fit->columns.max[f] - fit->columns.min[f]);
            apart = fmax(apart, fabs(fit->columns.mean[f] - t->fits[0].columns.mean[f]));
        }
        if (apart > FAR * spread)
            return false;
    }
    return true;
}

hf_status hf_fit_together(hf_context *ctx, const hf_kmeans_opts *opts,
                          const struct hf_group *group) {
    const hf_array *x = group->x;
    const int64_t count = group->count;
    struct together t = {.ctx = ctx,
                         .opts = opts,
                         .count = count,
                         .n = x->rows,
                         .k = opts->k,
                         .d = x->cols,
                         .dtype = x->dtype};
    const double begin = hf_now_s();
    hf_status status = HF_OK;
    if (opts->weights || opts->n_init > 1 || !short_enough(&t) || !take_views(&t, x))
        goto out;
    /* a problem that cannot be prepared fails again, and says so, when it is fitted alone */
    if (prepare_all(&t, group->first) == HF_OK && alike(&t) && take_blocks(&t) &&
        start(&t) == HF_OK && gather(&t) == HF_OK) {
        for (int64_t p = 0; p < count; p++)
            t.fits[p].outcome.seconds_init = (hf_now_s() - begin) / (double)count;
        status = iterate(&t, group->fits, group->done);
    }
out:
    for (int64_t p = 0; t.fits && p < count; p++)
        if (t.fits[p].problem.ctx)
            hf_fit_free(&t.fits[p]);
    hf_ctx_release(ctx, t.device_block);
    hf_ctx_release(ctx, t.owned);
    hf_free(t.block);
    hf_free(t.views);
    hf_free(t.fits);
    return status;
}
