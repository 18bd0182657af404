/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cases/data_case.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "ops/reference.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#define DTYPES 5
#define TAILS 40
#define SEED 20 /* of hf_data_pick() */

enum { COLUMN_OF = 20, SITE, COPY, FACTOR, PLACE, PROTOTYPE, LENGTH }; /* its purposes here */

static const char *const kind_names[HF_DATA_KINDS] = {
    "normal", "blobs",       "whole",       "offset",    "scales",    "exponents",
    "zeros",  "outlier-1e4", "outlier-1e8", "sentinels", "lognormal", "cauchy",
    "column", "decades",     "nested",      "copies",    "spikes",    "far-centroid"};
static const hf_dtype dtypes[DTYPES] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};

/* Large enough for many ranges of rows, for sums that are split by feature, and by cluster. */
static const struct hf_data_shape large[] = {
    {HF_DATA_BLOBS, HF_F32, 3000, 40, 64, 0, 0},    {HF_DATA_OFFSET, HF_F32, 2100, 20, 33, 3, 1},
    {HF_DATA_BLOBS, HF_F64, 900, 17, 200, 0, 0},    {HF_DATA_WHOLE, HF_U8, 5000, 33, 70, 0, 0},
    {HF_DATA_NORMAL, HF_F16, 1500, 150, 300, 0, 0}, {HF_DATA_NORMAL, HF_F32, 1400, 700, 400, 0, 0},
    {HF_DATA_BLOBS, HF_BF16, 9000, 6000, 20, 0, 0}, {HF_DATA_NORMAL, HF_F32, 5000, 300, 2, 0, 0}};

int64_t hf_data_pick(int64_t id, int purpose, int64_t count) {
    return (int64_t)hf_rng_below(SEED, (uint64_t)purpose, (uint64_t)id, (uint64_t)count);
}

bool hf_data_case(int64_t id, struct hf_data_shape *shape) {
    const int64_t kinds = (int64_t)HF_DATA_KINDS * DTYPES;
    const int64_t larges = (int64_t)(sizeof large / sizeof large[0]);
    if (id < DTYPES) {
        *shape = (struct hf_data_shape){HF_DATA_NORMAL, dtypes[id], 1, 1, 1, 0, 0};
        return true;
    }
    id -= DTYPES;
    if (id < TAILS) {
        *shape = (struct hf_data_shape){.kind = (enum hf_data_kind)hf_data_pick(id, 0, 3),
                                        .dtype = dtypes[id % DTYPES],
                                        .n = 1 + hf_data_pick(id, 1, 40),
                                        .k = 1 + hf_data_pick(id, 2, 20),
                                        .d = id + 1,
                                        .gap = hf_data_pick(id, 3, 4),
                                        .offset = hf_data_pick(id, 4, 8)};
        return true;
    }
    id -= TAILS;
    if (id < kinds) {
        *shape = (struct hf_data_shape){.kind = (enum hf_data_kind)(id / DTYPES),
                                        .dtype = dtypes[id % DTYPES],
                                        .n = 60 + hf_data_pick(id, 1, 300),
                                        .k = 2 + hf_data_pick(id, 2, 30),
                                        .d = 5 + hf_data_pick(id, 5, 60),
                                        .gap = hf_data_pick(id, 3, 2) * 5,
                                        .offset = hf_data_pick(id, 4, 4)};
        return true;
    }
    id -= kinds;
    if (id < larges)
        *shape = large[id];
    return id < larges;
}

int64_t hf_data_batch(int64_t id, int purpose, int64_t n) {
    const int64_t wish = 1 + hf_data_pick(id, purpose, 12);
    return n % wish == 0 ? wish : hf_data_pick(id, purpose, 2) ? n : 1;
}

const char *hf_data_kind_name(enum hf_data_kind kind) { return kind_names[kind]; }

void hf_data_name(struct hf_case *c, const struct hf_data_shape *s, const char *fmt, ...) {
    int used = snprintf(c->name, sizeof c->name, "%s n=%lld k=%lld d=%lld %s", kind_names[s->kind],
                        (long long)s->n, (long long)s->k, (long long)s->d, hf_dtype_name(s->dtype));
    if (s->gap || s->offset)
        used += snprintf(c->name + used, sizeof c->name - (size_t)used, " gap=%lld offset=%lld",
                         (long long)s->gap, (long long)s->offset);
    va_list list;
    va_start(list, fmt);
    vsnprintf(c->name + used, sizeof c->name - (size_t)used, fmt, list);
    va_end(list);
}

/* Decades that an element of the type may span on either side of 1 */
static double decades(hf_dtype dtype, double wish) {
    const double most = dtype == HF_F64 ? 140 : dtype == HF_F16 ? 4 : 30;
    return wish < most ? wish : most;
}

/* N(0, 1), the same for the same numbers. */
static double normal_at(int purpose, int64_t row, int64_t j) {
    struct hf_rng at = {.seed = SEED,
                        .stream = (uint64_t)purpose << 32 | (uint64_t)row,
                        .counter = 2 * (uint64_t)j};
    return hf_rng_next_normal(&at);
}

/* The kinds that tables hold; z is N(0, 1). */
static double messy(struct hf_rng *rng, const struct hf_data_shape *s, double z, int64_t i,
                    int64_t j) {
    const bool column = j == hf_data_pick(s->d, COLUMN_OF, s->d);
    switch (s->kind) {
    case HF_DATA_OUTLIER_1E4:
        return column && i == s->n / 2 ? 1e4 : z;
    case HF_DATA_OUTLIER_1E8:
        return column && i == s->n / 2 ? 1e8 : z;
    case HF_DATA_SENTINELS:
        return column && i * 37 % 50 == 11 ? -9999 : z;
    case HF_DATA_LOGNORMAL:
        return exp(2 * z);
    case HF_DATA_CAUCHY:
        return z / hf_rng_next_normal(rng);
    case HF_DATA_COLUMN:
        return column ? 1e5 * z : z;
    case HF_DATA_DECADES:
        return z * pow(10, 6 * hf_rng_unit(SEED, FACTOR, (uint64_t)j) - 3);
    case HF_DATA_NESTED:
        return z + 1e4 * normal_at(SITE, hf_data_pick(i, SITE, 32), j);
    case HF_DATA_COPIES:
        return i % 10 ? normal_at(PROTOTYPE, hf_data_pick(i, COPY, 50), j) : z;
    case HF_DATA_SPIKES:
        return i % 29 == 3 && j == hf_data_pick(i, PLACE, s->d) ? 6e4 : z;
    default:
        return z;
    }
}

double hf_data_far(double length, int64_t j) {
    return (j % 2 ? -length : length) * (1 + (double)(j % 5) / 8);
}

double hf_data_value(struct hf_rng *rng, const struct hf_data_shape *s, int64_t i, int64_t j) {
    const double z = hf_rng_next_normal(rng);
    if (s->kind >= HF_DATA_MESSY)
        return messy(rng, s, z, i, j);
    switch (s->kind) {
    case HF_DATA_BLOBS:
        return z + (double)((i + 3 * j) % 4 * 10);
    case HF_DATA_WHOLE:
        return (double)(hf_rng_next(rng) % 5);
    case HF_DATA_OFFSET:
        return 1e4 + z;
    case HF_DATA_SCALES: {
        const double at = s->d > 1 ? 2 * (double)j / (double)(s->d - 1) - 1 : 0;
        return z * pow(10, decades(s->dtype, 20) * at);
    }
    case HF_DATA_EXPONENTS:
        return z * pow(10, decades(s->dtype, 140) * (2 * hf_rng_next_unit(rng) - 1));
    case HF_DATA_ZEROS:
        if (i % 3 == 0)
            return hf_rng_next(rng) % 2 ? 0.0 : -0.0;
        return j % 3 ? z : j % 2 ? fabs(z) : -fabs(z);
    default:
        return z;
    }
}

hf_array hf_data_rows(struct hf_rng *rng, struct hf_case *c, const struct hf_data_shape *s) {
    const size_t size = hf_dtype_bytes(s->dtype);
    const int64_t stride = s->d + s->gap;
    const size_t count = (size_t)(s->offset + (s->n - 1) * stride + s->d);
    hf_array x = hf_array_view(NULL, s->dtype, s->n, s->d);
    x.row_stride = s->gap ? stride : hf_data_pick(s->n, 6, 2) * stride;
    char *data = hf_case_alloc(c, count * size, false);
    if (!data)
        return x;
    x.data = data + (size_t)s->offset * size;
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t j = 0; j < s->d; j++) {
            double v = hf_data_value(rng, s, i, j);
            if (s->dtype == HF_U8)
                v = fmin(fmax(rint(v * 3 + 20), 0), 255);
            if (s->dtype == HF_F16)
                v = fmin(fmax(v, -6e4), 6e4);
            hf_store_f64(x.data, s->dtype, i * stride + j, v);
        }
    return x;
}

hf_array hf_data_centroids(struct hf_rng *rng, struct hf_case *c, const struct hf_data_shape *s,
                           const hf_array *x, hf_dtype dtype) {
    hf_array m = hf_array_view(NULL, dtype, s->k, s->d);
    m.data = hf_case_alloc(c, (size_t)(s->k * s->d) * hf_dtype_bytes(dtype), false);
    if (!m.data)
        return m;
    for (int64_t l = 0; l < s->k; l++) {
        const void *a = hf_array_row(x, (int64_t)(hf_rng_next(rng) % (uint64_t)s->n));
        const void *b = hf_array_row(x, (int64_t)(hf_rng_next(rng) % (uint64_t)s->n));
        for (int64_t j = 0; j < s->d; j++) {
            const double va = hf_load_f64(a, x->dtype, j);
            const double vb = hf_load_f64(b, x->dtype, j);
            hf_store_f64(m.data, dtype, l * s->d + j, l % 2 ? va : (va + vb) / 2);
        }
    }
    const double length = s->dtype == HF_F16 ? 3e4 : hf_data_pick(s->n, LENGTH, 2) ? 1e5 : 1e30;
    for (int64_t j = 0; s->kind == HF_DATA_FAR && j < s->d; j++)
        hf_store_f64(m.data, dtype, s->k / 2 * s->d + j, hf_data_far(length, j));
    return m;
}

int32_t *hf_data_labels(struct hf_rng *rng, struct hf_case *c, int64_t count, int64_t k,
                        bool with_none) {
    int32_t *labels = hf_case_alloc(c, (size_t)count * sizeof *labels, false);
    for (int64_t i = 0; labels && i < count; i++) {
        const bool none = with_none && hf_rng_next(rng) % 8 == 0;
        labels[i] = none ? -1 : (int32_t)(hf_rng_next(rng) % (uint64_t)k);
    }
    return labels;
}

double *hf_data_weights(struct hf_rng *rng, struct hf_case *c, int64_t count) {
    double *weights = hf_case_alloc(c, (size_t)count * sizeof *weights, false);
    for (int64_t i = 0; weights && i < count; i++)
        weights[i] = hf_rng_next(rng) % 8 ? 10 * hf_rng_next_unit(rng) : 0;
    return weights;
}

double hf_data_max_abs(const hf_array *x, int64_t j) {
    const int64_t begin = j < 0 ? 0 : j;
    const int64_t end = j < 0 ? x->cols : j + 1;
    double max = 0;
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t col = begin; col < end; col++)
            max = fmax(max, fabs(hf_load_f64(hf_array_row(x, i), x->dtype, col)));
    return max;
}
