/* SPDX-License-Identifier: Apache-2.0
 * Each problem is prepared, started and finished as a fit of its own; only the iterations are made
 * together. What the device reports as an event (an empty cluster) sends that problem back to be
 * fitted alone from its start, so that results have the bits of single fits. Only the inertia of an
 * iteration, which is summed from the common origin, may differ in its last digits. */
#include "algo/kmeans/together.h"
#include "algo/kmeans/check.h"
#include "algo/kmeans/fit.h"
#include "base/clock.h"
#include "base/mem.h"
#include "core/array.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "ops/lloyd/lloyd.h"
#include <math.h>
#include <string.h>

#define FAR 4

struct together {
    hf_context *ctx;
    const hf_kmeans_opts *opts;
    int64_t count, n, k, d;
    hf_dtype dtype;
    void *x;             /* [count, n, d] on the device, owned */
    hf_array *views;     /* [count] of x */
    struct hf_fit *fits; /* [count] */
    /* [count] problems one behind the other, as op lloyd wants them; host memory */
    void *block;
    int32_t *labels;
    char *current, *previous;
    double *mult, *unit, *tol, *total_square, *slack, *weight_mult, *shift;
    struct hf_lloyd_state *state;
    hf_kmeans_iteration *history; /* [count, max_iter] */
    struct hf_sums sums;
};

static bool take_views(struct together *t, const hf_array *x) {
    const size_t row = (size_t)t->d * hf_dtype_bytes(t->dtype);
    size_t bytes = 0;
    if (!hf_mul3_size(t->count * t->n, t->d, (int64_t)hf_dtype_bytes(t->dtype), &bytes) ||
        bytes > t->ctx->memory_bytes / 4)
        return false;
    t->views = hf_alloc((size_t)t->count * sizeof *t->views);
    t->fits = hf_alloc_zero((size_t)t->count * sizeof *t->fits);
    t->x = hf_ctx_alloc(t->ctx, bytes);
    if (!t->views || !t->fits || !t->x)
        return false;
    for (int64_t p = 0; p < t->count; p++) {
        void *to = (char *)t->x + (size_t)(p * t->n) * row;
        t->views[p] = hf_array_view(to, t->dtype, t->n, t->d);
        if (hf_ctx_copy_rows(t->ctx, to, &x[p]) != HF_OK)
            return false;
    }
    return true;
}

/* The fit of one problem, up to its first centroids. */
static hf_status begin(struct together *t, int64_t p, int64_t seed) {
    struct hf_fit *fit = &t->fits[p];
    const struct hf_shape shape = {t->n, t->d, t->dtype};
    *fit = (struct hf_fit){.ctx = t->ctx, .x = &t->views[p], .n_all = t->n, .k = t->k, .d = t->d};
    fit->dtype = t->dtype;
    fit->center_type = t->dtype == HF_F64 ? HF_F64 : HF_F32;
    HF_TRY(hf_check_opts(t->ctx, t->opts, &shape, &fit->opts));
    fit->opts.seed += (uint64_t)seed;
    HF_TRY(hf_fit_begin(fit));
    return hf_fit_start(fit, 0);
}

/* One filter for all: about the middle of the means, over all ranges. */
static void share_filter(struct together *t) {
    double largest = 0;
    for (int64_t f = 0; f < t->d; f++) {
        double mean = 0;
        for (int64_t p = 0; p < t->count; p++)
            mean += t->fits[p].col.mean[f] / (double)t->count;
        t->shift[f] = t->opts->metric == HF_EUCLIDEAN ? mean : 0;
    }
    for (int64_t p = 0; p < t->count; p++) {
        const struct hf_columns *col = &t->fits[p].col;
        largest = fmax(largest, hf_filter_reach(t->d, col->min, col->max, t->shift));
    }
    for (int64_t p = 0; p < t->count; p++)
        hf_prepare_filter(&t->fits[p], t->shift, hf_filter_scale(largest));
}

static void carve(struct together *t, hf_carve *c) {
    const size_t count = (size_t)t->count, k = (size_t)t->k, d = (size_t)t->d;
    const size_t centers = count * k * d * hf_dtype_bytes(t->fits[0].center_type);
    const int max_iter = t->fits[0].opts.max_iter;
    t->labels = hf_carve_take(c, count * (size_t)t->n * sizeof(int32_t));
    t->current = hf_carve_take(c, centers);
    t->previous = hf_carve_take(c, centers);
    t->mult = hf_carve_take(c, count * d * sizeof(double));
    t->unit = hf_carve_take(c, count * d * sizeof(double));
    t->shift = hf_carve_take(c, d * sizeof(double));
    double **const each[] = {&t->tol, &t->total_square, &t->slack, &t->weight_mult};
    for (int i = 0; i < 4; i++)
        *each[i] = hf_carve_take(c, count * sizeof(double));
    t->state = hf_carve_take(c, count * sizeof *t->state);
    t->history = hf_carve_take(c, count * (size_t)max_iter * sizeof *t->history);
    t->sums.sum = hf_carve_take(c, count * (size_t)t->sums.limbs * k * d * sizeof(int64_t));
    t->sums.count = hf_carve_take(c, count * k * sizeof(int64_t));
}

static bool gather(struct together *t) {
    const size_t d = (size_t)t->d,
                 centers = (size_t)t->k * d * hf_dtype_bytes(t->fits[0].center_type);
    t->sums = t->fits[0].sums;
    hf_carve c = {0};
    carve(t, &c);
    c = (hf_carve){.base = t->block = hf_alloc_zero(c.used)};
    if (!t->block)
        return false;
    carve(t, &c);
    t->sums.mult = t->mult;
    share_filter(t);
    for (int64_t p = 0; p < t->count; p++) {
        const struct hf_fit *fit = &t->fits[p];
        memcpy(t->current + (size_t)p * centers, fit->current, centers);
        memcpy(t->mult + p * t->d, fit->col.mult, d * sizeof(double));
        memcpy(t->unit + p * t->d, fit->col.unit, d * sizeof(double));
        t->tol[p] = fit->tol;
        t->total_square[p] = fit->total_square;
        t->slack[p] = fit->slack;
        t->weight_mult[p] = fit->sums.weight_mult;
    }
    for (int64_t i = 0; i < t->count * t->n; i++)
        t->labels[i] = -1;
    return true;
}

static struct hf_lloyd_args joint_args(struct together *t) {
    struct hf_fit *fit = &t->fits[0];
    struct hf_lloyd_args args = {.x = hf_array_view(t->x, t->dtype, t->count * t->n, t->d),
                                 .batch = t->count,
                                 .exact = fit->opts.precision == HF_EXACT,
                                 .filter = fit->filter,
                                 .rule = hf_fit_rule(fit),
                                 .empty = fit->opts.empty,
                                 .skipping = fit->opts.skipping,
                                 .count = fit->opts.max_iter,
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

/* Bring what the iterations left into the problem's own fit, and end it as any other. */
static hf_status finish(struct together *t, int64_t p, double each, hf_kmeans_result *result) {
    struct hf_fit *fit = &t->fits[p];
    const struct hf_lloyd_state *s = &t->state[p];
    const int64_t cells = t->k * t->d, limbs = t->sums.limbs;
    const size_t centers = (size_t)cells * hf_dtype_bytes(fit->center_type);
    struct hf_restart run = {.iteration = s->iterations, .stop = (hf_stop)s->stop};
    if (run.stop == HF_STOP_NONE)
        run.stop = HF_STOP_MAX_ITER;
    run.history.count = run.history.room = s->iterations;
    run.history.it = hf_alloc((size_t)s->iterations * sizeof(hf_kmeans_iteration));
    if (!run.history.it)
        return hf_ctx_fail(t->ctx, HF_E_NOMEM, "no memory for a history");
    memcpy(run.history.it, t->history + p * fit->opts.max_iter,
           (size_t)s->iterations * sizeof(hf_kmeans_iteration));
    for (int i = 0; i < s->iterations; i++)
        run.history.it[i].seconds = each;
    memcpy(fit->current, t->current + (size_t)p * centers, centers);
    memcpy(fit->labels, t->labels + p * t->n, (size_t)t->n * sizeof(int32_t));
    memcpy(fit->sums.sum, t->sums.sum + p * limbs * cells, (size_t)(limbs * cells) * 8);
    memcpy(fit->sums.count, t->sums.count + p * t->k, (size_t)t->k * 8);
    hf_note_kernel(fit, HF_OP_LLOYD, fit->kernel_assign);
    hf_note_kernel(fit, HF_OP_LLOYD, fit->kernel_update);
    hf_status status = hf_finish(fit, false, true, &run.inertia);
    if (status == HF_OK) {
        memcpy(fit->best, fit->current, centers);
        fit->seconds_iterate = each * s->iterations;
        hf_fit_hand_over(fit, &run, result);
        result->seconds_total = fit->seconds_init + fit->seconds_iterate + fit->seconds_finish;
    }
    hf_free(run.history.it);
    return status;
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
    int32_t most = 1;
    for (int64_t p = 0; p < t->count; p++)
        most = t->state[p].iterations > most ? t->state[p].iterations : most;
    const double each = (hf_now_s() - begin) / most;
    for (int64_t p = 0; p < t->count; p++) {
        if (t->state[p].stop >= HF_LLOYD_EMPTY || t->state[p].iterations == 0)
            continue;
        HF_TRY(finish(t, p, each, &fits[p]));
        done[p] = true;
    }
    return HF_OK;
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
        if (fit->sums.limbs != t->fits[0].sums.limbs || fit->n != t->n)
            return false;
        double spread = 0;
        double apart = 0;
        for (int64_t f = 0; f < t->d; f++) {
            spread = fmax(spread, fit->col.max[f] - fit->col.min[f]);
            apart = fmax(apart, fabs(fit->col.mean[f] - t->fits[0].col.mean[f]));
        }
        if (apart > FAR * spread)
            return false;
    }
    return true;
}

hf_status hf_fit_together(hf_context *ctx, const hf_array *x, int64_t count,
                          const hf_kmeans_opts *opts, int64_t first, hf_kmeans_result *fits,
                          bool *done) {
    struct together t = {.ctx = ctx,
                         .opts = opts,
                         .count = count,
                         .n = x->rows,
                         .k = opts->k,
                         .d = x->cols,
                         .dtype = x->dtype};
    hf_status status = HF_OK;
    if (hf_ctx_is_host(ctx) || opts->weights || opts->n_init > 1 || !short_enough(&t) ||
        !take_views(&t, x))
        goto out;
    for (int64_t p = 0; p < count && status == HF_OK; p++)
        status = begin(&t, p, first + p);
    /* a problem that cannot be prepared fails again, and says so, when it is fitted alone */
    if (status == HF_OK && alike(&t) && gather(&t))
        status = iterate(&t, fits, done);
    else
        status = HF_OK;
out:
    for (int64_t p = 0; t.fits && p < count; p++)
        if (t.fits[p].ctx)
            hf_fit_free(&t.fits[p]);
    hf_ctx_release(ctx, t.x);
    hf_free(t.block);
    hf_free(t.views);
    hf_free(t.fits);
    return status;
}
