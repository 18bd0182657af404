/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/predict.h"
#include "algo/kmeans/check.h"
#include "algo/kmeans/fit.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "ops/distance/distance.h"
#include "ops/inertia/inertia.h"
#include "ops/range/range.h"
#include "ops/reference.h"
#include <math.h>

#define CHUNK_BYTES ((uint64_t)64 << 20) /* most that a chunk of rows, or of distances, takes */

struct predict {
    hf_context *ctx;
    const struct hf_predict_args *args;
    struct hf_rows rows;
    int64_t panel;     /* most rows of a panel */
    void *block;       /* owns what follows */
    double *min, *max; /* [d] */
    double *shift;     /* [d] */
    double *median;    /* [d] */
    double *sample;    /* of hf_look_at_frame(), NULL where it needs none */
    uint8_t *bad;      /* [panel] */
    double *weights;   /* [panel] */
    double *out;       /* [panel, k], transform */
    struct hf_filter filter;
    bool whole;
    int64_t bad_rows;
    hf_wide sum;
    hf_transform_sink sink;
    void *user;
};

static void carve(struct predict *p, hf_carve *c, bool transform) {
    const struct hf_predict_args *a = p->args;
    const size_t d = (size_t)a->d * sizeof(double);
    const size_t panel = (size_t)p->panel;
    const size_t row = (size_t)a->d * hf_dtype_bytes(a->dtype);
    p->min = hf_carve_take(c, d);
    p->max = hf_carve_take(c, d);
    p->shift = hf_carve_take(c, d);
    p->median = hf_carve_take(c, d);
    p->sample = hf_carve_take(c, a->source || a->reader ? hf_frame_sample_bytes(a->n, a->d) : 0);
    p->bad = hf_carve_take(c, panel);
    p->rows.buffer = a->source ? hf_carve_take(c, (size_t)p->rows.chunk_rows * row) : NULL;
    p->weights = a->weights ? hf_carve_take(c, panel * sizeof(double)) : NULL;
    p->out =
        transform ? hf_carve_take(c, panel * (size_t)a->centroids.rows * sizeof(double)) : NULL;
}

static uint64_t at_most(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Memory, all of it before the first row is read. */
static hf_status take_memory(struct predict *p, bool transform) {
    const struct hf_predict_args *a = p->args;
    const uint64_t share = at_most(p->ctx->memory_bytes / 4, CHUNK_BYTES);
    const uint64_t row = (uint64_t)a->d * hf_dtype_bytes(a->dtype);
    const uint64_t width = 1 + (a->weights ? sizeof(double) : 0) +
                           (transform ? (uint64_t)a->centroids.rows * sizeof(double) : 0);
    const bool rigid = hf_memory_is_rigid(p->ctx, a->precision);
    p->panel = hf_panel_most(p->ctx, a->precision, a->d, a->dtype);
    p->panel = hf_min64(p->panel, rigid ? a->n : (int64_t)(share / width));
    p->panel = hf_min64(p->panel < 1 ? 1 : p->panel, a->n);
    int64_t chunk = a->source ? (int64_t)at_most(share / row, (uint64_t)a->n) : p->panel;
    if (rigid) /* whole panels */
        chunk = chunk < p->panel ? p->panel : chunk / p->panel * p->panel;
    p->rows = (struct hf_rows){.ctx = p->ctx,
                               .array = a->x,
                               .source = a->source,
                               .n = a->n,
                               .d = a->d,
                               .dtype = a->dtype,
                               .reader = a->reader,
                               .chunk_rows = chunk < 1 ? 1 : chunk};
    hf_carve c = {0};
    carve(p, &c, transform);
    if (c.used > p->ctx->memory_bytes)
        return hf_ctx_fail(p->ctx, HF_E_NOMEM,
                           "predicting needs %llu bytes beside data, labels, distances and "
                           "centroids, but memory_bytes allows %llu: raise it%s",
                           (unsigned long long)c.used, (unsigned long long)p->ctx->memory_bytes,
                           rigid ? ", or ask for exact labels" : "");
    c = (hf_carve){.base = p->block = hf_alloc(c.used)};
    if (!p->block)
        return hf_ctx_fail(p->ctx, HF_E_NOMEM,
                           "the system gave no memory for %llu bytes of a chunk",
                           (unsigned long long)c.used);
    carve(p, &c, transform);
    if (hf_ctx_is_host(p->ctx)) {
        p->ctx->held_bytes = c.used; /* kernels get what remains */
        hf_workspace_trim(p->ctx, hf_workspace_room(p->ctx));
    }
    return HF_OK;
}

static void give_memory_back(struct predict *p) {
    p->ctx->held_bytes = 0;
    hf_free(p->block);
}

static hf_status range_panel(void *job, const hf_array *panel, int64_t first) {
    struct predict *p = job;
    const struct hf_range_args args = {.x = *panel,
                                       .min = p->min,
                                       .max = p->max,
                                       .whole = &p->whole,
                                       .row_bad = p->bad,
                                       .bad_rows = &p->bad_rows};
    HF_TRY(hf_run(p->ctx, HF_OP_RANGE, &args));
    if (p->bad_rows == 0)
        return HF_OK;
    int64_t i = 0;
    while (i + 1 < panel->rows && !p->bad[i])
        i++;
    return hf_bad_row(p->ctx, panel, i, first, "repair it or leave the row out");
}

struct hf_filter hf_predict_filter(hf_metric metric, const hf_array *centroids, const double *min,
                                   const double *max, bool whole, double *shift) {
    const hf_array *c = centroids;
    for (int64_t f = 0; f < c->cols; f++) {
        double mean = 0;
        for (int64_t j = 0; j < c->rows; j++)
            mean += hf_load_f64(hf_array_row(c, j), c->dtype, f) / (double)c->rows;
        mean = whole ? rint(mean) : mean;
        shift[f] = metric == HF_EUCLIDEAN ? mean : 0;
    }
    const double largest = hf_filter_reach(c->cols, min, max, shift);
    const bool bytes = whole && hf_filter_bytes(c->cols, min, max);
    return (struct hf_filter){.shift = metric == HF_EUCLIDEAN ? shift : NULL,
                              .scale = hf_filter_scale(largest),
                              .whole = whole && largest <= 256,
                              .least = bytes ? min : NULL,
                              .most = bytes ? max : NULL};
}

/* The same filter about the bulk of the rows, where that is elsewhere. */
static hf_status use_frame(struct predict *p) {
    const bool euclidean = p->args->metric == HF_EUCLIDEAN;
    struct hf_bulk bulk = {.median = p->median};
    HF_TRY(hf_look_at_frame(&p->rows, p->sample, p->shift, &bulk));
    hf_choose_origin(&bulk, euclidean, p->args->d, p->shift);
    const double largest = hf_filter_reach(p->args->d, p->min, p->max, p->shift);
    const double length = hf_bulk_length(&bulk, euclidean);
    p->filter.scale = hf_choose_scale(length, largest);
    p->filter.length = length * p->filter.scale;
    p->filter.whole = p->whole && largest <= 256;
    return HF_OK;
}

static hf_status predict_panel(void *job, const hf_array *panel, int64_t first) {
    struct predict *p = job;
    const struct hf_predict_args *a = p->args;
    struct hf_assign_stats stats = {0};
    int32_t *labels = a->labels + first;
    for (int64_t i = 0; i < panel->rows; i++) {
        labels[i] = -1;
        if (a->weights)
            p->weights[i] = hf_load_f64(hf_array_row(a->weights, first + i), a->weights->dtype, 0);
    }
    const struct hf_assign_args assign = {.x = *panel,
                                          .c = a->centroids,
                                          .metric = a->metric,
                                          .exact = a->precision == HF_EXACT,
                                          .filter = p->filter,
                                          .labels = labels,
                                          .stats = &stats};
    HF_TRY(hf_assign(p->ctx, &assign));
    if (!a->distances && !a->inertia)
        return HF_OK;
    const struct hf_inertia_args inertia = {.x = *panel,
                                            .c = a->centroids,
                                            .metric = a->metric,
                                            .weights = p->weights,
                                            .labels = labels,
                                            .distances = a->distances ? a->distances + first : NULL,
                                            .sum = &p->sum};
    return hf_inertia(p->ctx, &inertia);
}

/* The outputs are the caller's, once the rows are known to be usable: a second set of them would
 * cost more than the chunks. */
static hf_status predict_all(struct predict *p) {
    for (int64_t f = 0; f < p->args->d; f++) {
        p->min[f] = INFINITY;
        p->max[f] = -INFINITY;
    }
    p->whole = true;
    HF_TRY(hf_panels_each(&p->rows, p->panel, range_panel, p));
    const struct hf_predict_args *a = p->args;
    p->filter = hf_predict_filter(a->metric, &a->centroids, p->min, p->max, p->whole, p->shift);
    HF_TRY(use_frame(p));
    return hf_panels_each(&p->rows, p->panel, predict_panel, p);
}

hf_status hf_predict(hf_context *ctx, const struct hf_predict_args *args) {
    struct predict p = {.ctx = ctx, .args = args};
    hf_status status = take_memory(&p, false);
    if (status == HF_OK)
        status = predict_all(&p);
    if (status == HF_OK && args->inertia)
        *args->inertia = hf_wide_value(&p.sum);
    give_memory_back(&p);
    return status;
}

static hf_status transform_panel(void *job, const hf_array *panel, int64_t first) {
    struct predict *p = job;
    HF_TRY(range_panel(job, panel, first));
    const struct hf_distance_args args = {.x = *panel,
                                          .c = p->args->centroids,
                                          .metric = p->args->metric,
                                          .root = p->args->metric == HF_EUCLIDEAN,
                                          .out = p->out};
    HF_TRY(hf_distance(p->ctx, &args));
    if (p->sink(p->user, first, panel->rows, p->out))
        return hf_ctx_fail(p->ctx, HF_E_CANCELLED, "stopped at row %lld, as the receiver asked",
                           (long long)first);
    return HF_OK;
}

hf_status hf_transform(hf_context *ctx, const struct hf_predict_args *args, hf_transform_sink sink,
                       void *user) {
    struct predict p = {.ctx = ctx, .args = args, .sink = sink, .user = user};
    hf_status status = take_memory(&p, true);
    for (int64_t f = 0; status == HF_OK && f < args->d; f++) {
        p.min[f] = INFINITY;
        p.max[f] = -INFINITY;
    }
    if (status == HF_OK)
        status = hf_panels_each(&p.rows, p.panel, transform_panel, &p);
    give_memory_back(&p);
    return status;
}
