/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/predict.h"
#include "algo/kmeans/check.h"
#include "algo/kmeans/fit.h"
#include "algo/kmeans/guard/distances.h"
#include "algo/kmeans/panel_rows.h"
#include "algo/kmeans/prepare_frame.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "guard/guard.h"
#include "ops/distance/distance.h"
#include "ops/inertia/inertia.h"
#include "ops/range/range.h"
#include "ops/reference.h"
#include <math.h>
#include <string.h>

#define CHUNK_BYTES ((uint64_t)64 << 20) /* most that a chunk of rows, or of distances, takes */
#define REPORT_WORK 4e9                  /* n * k * d between two calls of a progress function, */
#define REPORT_ROWS ((int64_t)4096)      /* and rows at least, for the centroids are packed anew */

struct predict {
    hf_context *ctx;
    const struct hf_predict_args *args;
    struct hf_rows rows;
    int64_t panel;     /* most rows of a panel */
    void *block;       /* owns what follows */
    double *min, *max; /* [d] */
    double *shift;     /* [d] */
    double *median;    /* [d] */
    double *sample;    /* of hf_frame_measure(), NULL where it needs none */
    uint8_t *bad;      /* [panel] */
    double *weights;   /* [panel] */
    double *out;       /* [panel, k], transform */
    struct hf_filter filter;
    bool whole;
    int64_t bad_rows;
    int64_t *dropped; /* [room] owned; the first dropped_count are rows that take no part */
    int64_t dropped_count, room;
    void *buffer;      /* owned, for rows of an array without those */
    int64_t raw, past; /* the row that weights go on from, dropped rows before it */
    int64_t visits, visits_all;
    hf_wide sum;
    double weight; /* of the rows so far, where rows have weights */
    hf_transform_sink sink;
    struct hf_distance_book book; /* that distances are checked with */
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
    const bool away = a->source || a->resident->reader || a->opts.nan == HF_NAN_DROP;
    p->sample = hf_carve_take(c, away ? hf_frame_sample_bytes(a->n, a->d) : 0);
    p->bad = hf_carve_take(c, panel);
    const bool buffered = a->source && !a->resident->reader;
    p->rows.buffer = buffered ? hf_carve_take(c, (size_t)p->rows.chunk_rows * row) : NULL;
    p->weights = a->opts.weights ? hf_carve_take(c, panel * sizeof(double)) : NULL;
    p->out =
        transform ? hf_carve_take(c, panel * (size_t)a->centroids.rows * sizeof(double)) : NULL;
}

/* Rows between two calls of the progress function: some tens of milliseconds of work on a CPU.
 * Where the labels may depend on panels these stay as they are, and on a device, which needs long
 * ones. */
static int64_t rows_of_report(const struct hf_predict_args *a) {
    const int64_t rows = (int64_t)(REPORT_WORK / ((double)a->centroids.rows * (double)a->d));
    return rows < REPORT_ROWS ? REPORT_ROWS : rows;
}

static uint64_t at_most(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Memory, all of it before the first row is read. */
static hf_status take_memory(struct predict *p, bool transform) {
    const struct hf_predict_args *a = p->args;
    const uint64_t share = at_most(p->ctx->memory_bytes / 4, CHUNK_BYTES);
    const uint64_t row = (uint64_t)a->d * hf_dtype_bytes(a->dtype);
    const uint64_t width = 1 + (a->opts.weights ? sizeof(double) : 0) +
                           (transform ? (uint64_t)a->centroids.rows * sizeof(double) : 0);
    const bool rigid = hf_memory_is_rigid(p->ctx, a->opts.precision);
    p->panel = hf_panel_most(p->ctx, a->opts.precision, a->d, a->dtype);
    p->panel = hf_min64(p->panel, rigid ? a->n : (int64_t)(share / width));
    if (a->opts.progress && hf_ctx_is_host(p->ctx) && !rigid) /* a device is soon done */
        p->panel = hf_min64(p->panel, rows_of_report(a));
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
                               .reader = a->resident->reader,
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
    if (hf_ctx_hold(p->ctx, c.used))
        hf_workspace_trim(p->ctx, hf_workspace_room(p->ctx));
    return HF_OK;
}

static void give_memory_back(struct predict *p) {
    p->ctx->held_bytes = 0;
    hf_free(p->block);
    hf_free(p->dropped);
    hf_free(p->buffer);
}

static hf_status report(struct predict *p, int64_t rows) {
    const hf_predict_opts *o = &p->args->opts;
    p->visits += rows;
    if (o->progress && o->progress(o->user, p->visits, p->visits_all))
        return hf_ctx_fail(p->ctx, HF_E_CANCELLED, "stopped as the progress function asked");
    return HF_OK;
}

static hf_status drop_row(struct predict *p, int64_t row) {
    if (p->dropped_count == p->room) {
        const int64_t room = p->room ? 2 * p->room : 1024;
        int64_t *more = hf_alloc((size_t)room * sizeof *more);
        if (!more)
            return hf_ctx_fail(p->ctx, HF_E_NOMEM, "no memory for a list of %lld dropped rows",
                               (long long)room);
        if (p->room > 0)
            memcpy(more, p->dropped, (size_t)p->room * sizeof *more);
        hf_free(p->dropped);
        p->dropped = more;
        p->room = room;
    }
    p->dropped[p->dropped_count++] = row;
    return HF_OK;
}

/* Ranges of the columns, and p->bad; a bad row is an error unless such rows are dropped. */
static hf_status check_rows(struct predict *p, const hf_array *panel, int64_t first, bool *some) {
    const int64_t before = p->bad_rows;
    const struct hf_range_args args = {.x = *panel,
                                       .min = p->min,
                                       .max = p->max,
                                       .whole = &p->whole,
                                       .row_bad = p->bad,
                                       .bad_rows = &p->bad_rows};
    HF_TRY(hf_run(p->ctx, HF_OP_RANGE, &args));
    *some = p->bad_rows > before;
    if (!*some || p->args->opts.nan == HF_NAN_DROP)
        return HF_OK;
    int64_t i = 0;
    while (i + 1 < panel->rows && !p->bad[i])
        i++;
    return hf_bad_row(p->ctx, panel, i, first, "repair it, or leave such rows out (HF_NAN_DROP)");
}

static hf_status range_panel(void *job, const hf_array *panel, int64_t first) {
    struct predict *p = job;
    bool some = false;
    HF_TRY(check_rows(p, panel, first, &some));
    for (int64_t i = 0; some && i < panel->rows; i++)
        if (p->bad[i])
            HF_TRY(drop_row(p, first + i));
    return report(p, panel->rows);
}

/* The second pass is of the rows that are left. Those of an array in place need a buffer then. */
static hf_status leave_out(struct predict *p) {
    const struct hf_predict_args *a = p->args;
    struct hf_resident *resident = a->resident;
    p->rows.n = a->n - p->dropped_count;
    p->visits_all -= p->dropped_count;
    if (p->dropped_count == 0 || p->rows.n == 0)
        return HF_OK;
    if (a->x && a->x == &resident->array)
        return hf_resident_drop(p->ctx, resident, p->dropped, p->dropped_count);
    p->rows.dropped = p->dropped;
    p->rows.dropped_count = p->dropped_count;
    if (p->rows.reader || p->rows.buffer)
        return HF_OK;
    const uint64_t row = (uint64_t)a->d * hf_dtype_bytes(a->dtype);
    const uint64_t room = p->ctx->memory_bytes - p->ctx->held_bytes;
    if (!hf_memory_is_rigid(p->ctx, a->opts.precision))
        p->panel = hf_min64(p->panel, (int64_t)(at_most(room / 2, CHUNK_BYTES) / row));
    p->panel = p->panel < 1 ? 1 : p->panel;
    p->rows.chunk_rows = p->panel;
    const uint64_t bytes = (uint64_t)p->panel * row;
    p->rows.buffer = p->buffer = bytes <= room ? hf_alloc(bytes) : NULL;
    if (!p->buffer)
        return hf_ctx_fail(p->ctx, HF_E_NOMEM,
                           "no memory for %lld rows without those that are left out; raise "
                           "memory_bytes (%llu)",
                           (long long)p->panel, (unsigned long long)p->ctx->memory_bytes);
    p->ctx->held_bytes += bytes;
    hf_workspace_trim(p->ctx, hf_workspace_room(p->ctx));
    return HF_OK;
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
    const bool euclidean = p->args->opts.metric == HF_EUCLIDEAN;
    struct hf_bulk bulk = {.median = p->median};
    HF_TRY(hf_frame_measure(&p->rows, p->sample, p->shift, &bulk));
    hf_frame_origin(&bulk, euclidean, p->args->d, p->shift);
    const double largest = hf_filter_reach(p->args->d, p->min, p->max, p->shift);
    const double length = hf_bulk_length(&bulk, euclidean);
    p->filter.scale = hf_frame_scale(length, largest);
    p->filter.length = length * p->filter.scale;
    p->filter.whole = p->whole && largest <= 256;
    return HF_OK;
}

/* The weights of the next `count` rows that take part. */
static void take_weights(struct predict *p, int64_t count) {
    const hf_array *w = p->args->opts.weights;
    for (int64_t i = 0; i < count; p->raw++) {
        if (p->past < p->dropped_count && p->dropped[p->past] == p->raw)
            p->past++;
        else
            p->weight += p->weights[i++] = hf_load_f64(hf_array_row(w, p->raw), w->dtype, 0);
    }
}

static hf_status count(struct predict *p, const int32_t *labels, int64_t rows) {
    int64_t *sizes = p->args->out.sizes;
    const uint32_t k = (uint32_t)p->args->centroids.rows;
    for (int64_t i = 0; sizes && i < rows; i++) {
        if ((uint32_t)labels[i] >= k)
            return hf_ctx_fail(p->ctx, HF_E_CORRUPT,
                               "a label lies outside 0..%u: the machine or a kernel computes "
                               "wrongly",
                               k - 1);
        sizes[labels[i]]++;
    }
    return HF_OK;
}

/* A call of op inertia, which gives the same bits by each kernel. */
struct measuring {
    struct predict *p;
    const struct hf_inertia_args *args;
    const struct hf_kernel *twin;
    hf_wide sum; /* of this panel */
};

static hf_status run_inertia(void *user, int turn) {
    struct measuring *m = user;
    hf_context *ctx = m->p->ctx;
    struct hf_inertia_args args = *m->args;
    args.sum = &m->sum;
    m->sum = (hf_wide){.special = 0};
    if (turn == 1)
        m->twin = hf_guard_twin(ctx, HF_OP_INERTIA, ctx->last_kernel[HF_OP_INERTIA], &args);
    return turn % 2 ? hf_run_kernel(ctx, HF_OP_INERTIA, m->twin, &args) : hf_inertia(ctx, &args);
}

static uint64_t sign_inertia(const void *user) {
    const struct measuring *m = user;
    const struct hf_inertia_args *a = m->args;
    const double sum = hf_wide_value(&m->sum);
    const size_t bytes = (size_t)a->x.rows * sizeof(double);
    return hf_guard_sign(&sum, sizeof sum) +
           (a->distances ? 3 * hf_guard_sign_by(hf_ctx_pool(m->p->ctx), a->distances, bytes) : 0);
}

/* Distances of a panel, their sum added to that of all: twice where the call makes the check. */
static hf_status measure(struct predict *p, const struct hf_inertia_args *args) {
    struct measuring m = {.p = p, .args = args};
    const struct hf_repeated work = {.fault = HF_FAULT_INERTIA,
                                     .run = run_inertia,
                                     .sign = sign_inertia,
                                     .what = "the distances of rows to their centroids",
                                     .host_only = true};
    HF_TRY(hf_guard_repeat(p->ctx, &work, &m));
    hf_wide_merge(args->sum, &m.sum);
    return HF_OK;
}

static hf_status predict_panel(void *job, const hf_array *panel, int64_t first) {
    struct predict *p = job;
    const struct hf_predict_args *a = p->args;
    const hf_prediction *out = &a->out;
    struct hf_assign_stats stats = {0};
    int32_t *labels = out->labels + first;
    for (int64_t i = 0; i < panel->rows; i++)
        labels[i] = -1;
    if (p->weights)
        take_weights(p, panel->rows);
    const struct hf_assign_args assign = {.x = *panel,
                                          .c = a->centroids,
                                          .metric = a->opts.metric,
                                          .exact = a->opts.precision == HF_EXACT,
                                          .filter = p->filter,
                                          .labels = labels,
                                          .stats = &stats};
    HF_TRY(hf_assign(p->ctx, &assign));
    HF_TRY(count(p, labels, panel->rows));
    if (!out->distances && !out->inertia)
        return report(p, panel->rows);
    const struct hf_inertia_args inertia = {.x = *panel,
                                            .c = a->centroids,
                                            .metric = a->opts.metric,
                                            .weights = p->weights,
                                            .labels = labels,
                                            .distances =
                                                out->distances ? out->distances + first : NULL,
                                            .sum = &p->sum};
    HF_TRY(measure(p, &inertia));
    return report(p, panel->rows);
}

static void no_range(struct predict *p) {
    for (int64_t f = 0; f < p->args->d; f++) {
        p->min[f] = INFINITY;
        p->max[f] = -INFINITY;
    }
    p->whole = true;
}

/* Outputs of the rows that took part -> outputs of all rows. */
static void expand(const struct predict *p) {
    const hf_prediction *out = &p->args->out;
    int64_t from = p->rows.n;
    int64_t skip = p->dropped_count;
    for (int64_t i = p->args->n; i-- > 0 && skip > 0;) {
        const bool dropped = p->dropped[skip - 1] == i;
        skip -= dropped;
        from -= !dropped;
        out->labels[i] = dropped ? -1 : out->labels[from];
        if (out->distances)
            out->distances[i] = dropped ? NAN : out->distances[from];
    }
}

/* The outputs are the caller's, once the rows are known to be usable: a second set of them would
 * cost more than the chunks. */
static hf_status predict_all(struct predict *p) {
    const struct hf_predict_args *a = p->args;
    p->visits_all = 2 * a->n;
    no_range(p);
    HF_TRY(hf_panels_each(&p->rows, p->panel, range_panel, p));
    HF_TRY(leave_out(p));
    if (a->out.sizes)
        memset(a->out.sizes, 0, (size_t)a->centroids.rows * sizeof(int64_t));
    if (p->rows.n > 0) {
        p->filter =
            hf_predict_filter(a->opts.metric, &a->centroids, p->min, p->max, p->whole, p->shift);
        HF_TRY(use_frame(p));
        HF_TRY(hf_panels_each(&p->rows, p->panel, predict_panel, p));
    }
    expand(p);
    return HF_OK;
}

hf_status hf_predict(hf_context *ctx, const struct hf_predict_args *args) {
    struct predict p = {.ctx = ctx, .args = args};
    hf_status status = take_memory(&p, false);
    if (status == HF_OK)
        status = predict_all(&p);
    if (status == HF_OK && args->out.inertia)
        *args->out.inertia = hf_wide_value(&p.sum);
    if (status == HF_OK && args->out.weight)
        *args->out.weight = args->opts.weights ? p.weight : (double)p.rows.n;
    if (status == HF_OK && args->out.rows_dropped)
        *args->out.rows_dropped = p.dropped_count;
    give_memory_back(&p);
    return status;
}

static hf_status transform_panel(void *job, const hf_array *panel, int64_t first) {
    struct predict *p = job;
    const struct hf_predict_args *a = p->args;
    const int64_t k = a->centroids.rows;
    bool some = false;
    HF_TRY(check_rows(p, panel, first, &some));
    const struct hf_distance_args args = {.x = *panel,
                                          .c = a->centroids,
                                          .metric = a->opts.metric,
                                          .root = a->opts.metric == HF_EUCLIDEAN,
                                          .out = p->out};
    HF_TRY(hf_distance(p->ctx, &args));
    const struct hf_distance_check check = {.x = panel,
                                            .c = &a->centroids,
                                            .metric = a->opts.metric,
                                            .out = p->out,
                                            .bad = some ? p->bad : NULL,
                                            .first = first};
    HF_TRY(hf_distance_book_check(p->ctx, &p->book, &check));
    for (int64_t i = 0; some && i < panel->rows; i++)
        for (int64_t j = 0; p->bad[i] && j < k; j++)
            p->out[i * k + j] = NAN;
    if (p->sink(a->opts.user, first, panel->rows, p->out))
        return hf_ctx_fail(p->ctx, HF_E_CANCELLED, "stopped at row %lld, as the receiver asked",
                           (long long)first);
    return report(p, panel->rows);
}

hf_status hf_transform(hf_context *ctx, const struct hf_predict_args *args,
                       hf_transform_sink sink) {
    struct predict p = {.ctx = ctx, .args = args, .visits_all = args->n, .sink = sink};
    hf_status status = take_memory(&p, true);
    if (status == HF_OK)
        status = hf_distance_book_open(ctx, &args->centroids, args->opts.metric, &p.book);
    if (status == HF_OK) {
        no_range(&p);
        status = hf_panels_each(&p.rows, p.panel, transform_panel, &p);
    }
    hf_distance_book_close(&p.book);
    give_memory_back(&p);
    return status;
}
