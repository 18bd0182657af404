/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/check.h"
#include "algo/kmeans/checkpoint.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/kernel.h"
#include "rows/host_view.h"
#include "ops/reference.h"
#include <math.h>

#define DEFAULT_MAX_ITER 300
#define DEFAULT_EVERY 10

static hf_status check_shape(hf_context *ctx, const char *what, int64_t rows, int64_t cols,
                             int64_t stride, hf_dtype dtype) {
    if (rows < 1 || cols < 1)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "%s: %lld rows and %lld columns: at least one of each is needed", what,
                           (long long)rows, (long long)cols);
    if (stride != 0 && stride < cols)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "%s: row_stride %lld is less than the %lld columns; 0 means no gaps",
                           what, (long long)stride, (long long)cols);
    size_t bytes;
    if (!hf_mul3_size(rows, stride ? stride : cols, (int64_t)hf_dtype_bytes(dtype), &bytes) ||
        bytes > INT64_MAX)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "%s: %lld rows of %lld elements overflow the address space", what,
                           (long long)rows, (long long)(stride ? stride : cols));
    return HF_OK;
}

static bool is_data_type(hf_dtype dtype) {
    return dtype > HF_DTYPE_NONE && dtype <= HF_I32 && (HF_DT_DATA & HF_DT(dtype));
}

static bool is_known_type(hf_dtype dtype) { return dtype == HF_I32 || is_data_type(dtype); }

hf_status hf_check_rows(hf_context *ctx, const hf_array *x, const hf_source *source,
                        struct hf_shape *shape) {
    if ((x != NULL) == (source != NULL))
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "the data must be given once: as an array or as a source");
    if (x && !x->data)
        return hf_ctx_fail(ctx, HF_E_ARG, "the data array has no memory (data is NULL)");
    if (source && !source->read)
        return hf_ctx_fail(ctx, HF_E_ARG, "the data source has no read function");
    shape->n = x ? x->rows : source->rows;
    shape->d = x ? x->cols : source->cols;
    shape->dtype = x ? x->dtype : source->dtype;
    if (!is_data_type(shape->dtype))
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "data of type %s cannot be clustered: give f32, f64, f16, bf16 or u8",
                           hf_dtype_name(shape->dtype));
    return check_shape(ctx, "data", shape->n, shape->d, x ? x->row_stride : 0, shape->dtype);
}

hf_status hf_check_centroids(hf_context *ctx, const hf_array *c, int64_t k, int64_t d) {
    if (!c || !c->data)
        return hf_ctx_fail(ctx, HF_E_ARG, "no centroids were given");
    if (!is_known_type(c->dtype))
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "given centroids: of type %s where f32, f64, f16, bf16, u8 or i32 is "
                           "needed",
                           hf_dtype_name(c->dtype));
    HF_TRY(check_shape(ctx, "given centroids", c->rows, c->cols, c->row_stride, c->dtype));
    if (c->cols != d)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "given centroids: %lld column%s, but the rows of the data have %lld: "
                           "give centroids of as many columns",
                           (long long)c->cols, c->cols == 1 ? "" : "s", (long long)d);
    if (k >= 0 && c->rows != k)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "given centroids: %lld of them for %lld clusters: set k to their number",
                           (long long)c->rows, (long long)k);
    if (c->rows > INT32_MAX)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "given centroids: %lld, but at most 2147483647 are possible",
                           (long long)c->rows);
    for (int64_t j = 0; j < c->rows; j++) {
        const int64_t f = hf_first_not_finite(hf_array_row(c, j), c->dtype, d);
        if (f < d)
            return hf_ctx_fail(ctx, HF_E_DATA,
                               "given centroids: row %lld, column %lld (counted from 0) is NaN "
                               "or infinite: give finite numbers",
                               (long long)j, (long long)f);
    }
    return HF_OK;
}

hf_status hf_check_seeds(hf_context *ctx, const hf_array *c, int64_t k, int64_t d) {
    if (!c->data || c->dtype != HF_F64 || c->rows != k || c->cols != d)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "the place for the first centroids is %lld x %lld of type %s: give "
                           "memory for %lld x %lld of f64",
                           (long long)c->rows, (long long)c->cols, hf_dtype_name(c->dtype),
                           (long long)k, (long long)d);
    return check_shape(ctx, "the first centroids", c->rows, c->cols, c->row_stride, c->dtype);
}

hf_status hf_check_weights(hf_context *ctx, const hf_array *w, int64_t n) {
    if (!w)
        return HF_OK;
    if (!w->data || !is_known_type(w->dtype))
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "given weights: of type %s where f32, f64, f16, bf16, u8 or i32 is "
                           "needed",
                           w->data ? hf_dtype_name(w->dtype) : "NULL");
    HF_TRY(check_shape(ctx, "given weights", w->rows, w->cols, w->row_stride, w->dtype));
    if (w->rows != n || w->cols != 1)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "given weights: of shape [%lld, %lld], but the data have %lld rows: "
                           "they must be [%lld, 1]",
                           (long long)w->rows, (long long)w->cols, (long long)n, (long long)n);
    bool some = false;
    for (int64_t i = 0; i < n; i++) {
        const double v = hf_load_f64(hf_array_row(w, i), w->dtype, 0);
        if (!(v >= 0) || isinf(v))
            return hf_ctx_fail(
                ctx, HF_E_DATA,
                "given weights: number %lld (counted from 0) is %g: all must be finite and "
                "not negative",
                (long long)i, v);
        some |= v > 0;
    }
    return some ? HF_OK
                : hf_ctx_fail(ctx, HF_E_DATA,
                              "given weights: all are zero, at least one must not be");
}

hf_status hf_check_metric(hf_context *ctx, hf_metric metric, hf_precision precision) {
    if ((unsigned)metric > HF_DOT)
        return hf_ctx_fail(ctx, HF_E_ARG, "unknown metric %d", (int)metric);
    if ((unsigned)precision > HF_FAST)
        return hf_ctx_fail(ctx, HF_E_ARG, "unknown precision %d", (int)precision);
    return HF_OK;
}

static hf_status check_choices(hf_context *ctx, const hf_kmeans_opts *o) {
    const struct {
        const char *name;
        unsigned value, last;
    } choices[] = {{"init", (unsigned)o->init, HF_INIT_GIVEN},
                   {"policy for empty clusters", (unsigned)o->empty, HF_EMPTY_ERROR},
                   {"storage of the centroids", (unsigned)o->store, HF_CENTROIDS_SAME},
                   {"skipping", (unsigned)o->skipping, HF_SKIP_ON},
                   {"policy for NaN", (unsigned)o->nan, HF_NAN_DROP}};
    for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++)
        if (choices[i].value > choices[i].last)
            return hf_ctx_fail(ctx, HF_E_ARG, "unknown %s %u: the header lists 0 to %u",
                               choices[i].name, choices[i].value, choices[i].last);
    if (o->n_init < 0 || o->max_iter < 0)
        return hf_ctx_fail(
            ctx, HF_E_ARG,
            "n_init (%d) and max_iter (%d) must not be negative; 0 means the default", o->n_init,
            o->max_iter);
    if (isnan(o->tol))
        return hf_ctx_fail(ctx, HF_E_ARG, "tol is NaN: give a number, 0 for the default of 1e-4");
    return HF_OK;
}

hf_status hf_check_opts(hf_context *ctx, const hf_kmeans_opts *opts, const struct hf_shape *shape,
                        hf_kmeans_opts *full) {
    if (!opts)
        return hf_ctx_fail(ctx, HF_E_ARG, "no options were given: at least k must be set");
    if (opts->k < 1 || opts->k > shape->n || opts->k > INT32_MAX)
        return hf_ctx_fail(
            ctx, HF_E_ARG,
            "k = %lld for the %lld row%s of the data: the number of clusters must be "
            "from 1 to the number of rows, and at most 2147483647",
            (long long)opts->k, (long long)shape->n, shape->n == 1 ? "" : "s");
    HF_TRY(hf_check_metric(ctx, opts->metric, opts->precision));
    HF_TRY(check_choices(ctx, opts));
    if (opts->init == HF_INIT_GIVEN)
        HF_TRY(hf_check_centroids(ctx, opts->centroids, opts->k, shape->d));
    else if (opts->centroids)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "centroids were given but init says to choose them: set init to "
                           "HF_INIT_GIVEN or centroids to NULL");
    if (opts->store == HF_CENTROIDS_SAME && shape->dtype != HF_F16 && shape->dtype != HF_BF16)
        return hf_ctx_fail(ctx, HF_E_ARG, "HF_CENTROIDS_SAME needs f16 or bf16 data, these are %s",
                           hf_dtype_name(shape->dtype));
    HF_TRY(hf_check_weights(ctx, opts->weights, shape->n));
    *full = *opts;
    full->n_init = opts->n_init == 0 || opts->init == HF_INIT_GIVEN ? 1 : opts->n_init;
    full->max_iter = opts->max_iter ? opts->max_iter : DEFAULT_MAX_ITER;
    full->checkpoint_every = opts->checkpoint_every ? opts->checkpoint_every : DEFAULT_EVERY;
    if (opts->checkpoint_every < 0)
        full->checkpoint_every = HF_CHECKPOINT_NEVER;
    return HF_OK;
}

hf_status hf_bad_row(hf_context *ctx, const hf_array *chunk, int64_t i, int64_t first,
                     const char *remedy) {
    void *scratch = hf_alloc((size_t)chunk->cols * hf_dtype_bytes(chunk->dtype));
    const void *row = NULL;
    if (!scratch || hf_host_row(ctx, chunk, i, scratch, &row) != HF_OK) {
        hf_free(scratch);
        return hf_ctx_fail(ctx, HF_E_DATA, "row %lld of the data holds NaN or Inf: %s",
                           (long long)(first + i), remedy);
    }
    const int64_t column = hf_first_not_finite(row, chunk->dtype, chunk->cols - 1);
    const double v = hf_load_f64(row, chunk->dtype, column);
    hf_free(scratch);
    return hf_ctx_fail(
        ctx, HF_E_DATA, "row %lld, column %lld of the data (counted from 0) is %s: %s",
        (long long)(first + i), (long long)column, isnan(v) ? "NaN" : "infinite", remedy);
}

hf_status hf_host_args_open(hf_context *ctx, const hf_array **centroids, const hf_array **weights,
                            struct hf_host_args *b) {
    HF_TRY(hf_host_view(ctx, centroids, "centroids", &b->centroids, &b->owned[0]));
    return hf_host_view(ctx, weights, "weights", &b->weights, &b->owned[1]);
}

hf_status hf_widen_centroids(hf_context *ctx, const hf_array **centroids, struct hf_host_args *b) {
    const hf_array *c = *centroids;
    if (c->dtype == HF_F32 || c->dtype == HF_F64)
        return HF_OK;
    const hf_dtype wide = c->dtype == HF_I32 ? HF_F64 : HF_F32;
    size_t bytes;
    void *copy = hf_mul3_size(c->rows, c->cols, (int64_t)hf_dtype_bytes(wide), &bytes)
                     ? hf_alloc(bytes)
                     : NULL;
    if (!copy)
        return hf_ctx_fail(ctx, HF_E_NOMEM, "no memory for a copy of the centroids");
    for (int64_t j = 0; j < c->rows; j++)
        for (int64_t f = 0; f < c->cols; f++)
            hf_store_f64(copy, wide, j * c->cols + f, hf_load_f64(hf_array_row(c, j), c->dtype, f));
    const hf_array view = hf_array_view(copy, wide, c->rows, c->cols);
    hf_free(b->owned[0]); /* what c may have lain in */
    b->owned[0] = copy;
    b->centroids = view;
    *centroids = &b->centroids;
    return HF_OK;
}

void hf_host_args_close(struct hf_host_args *b) {
    hf_free(b->owned[0]);
    hf_free(b->owned[1]);
}
