/* SPDX-License-Identifier: Apache-2.0
 * k-means as a textbook has it, in float64, written apart from the library, and data to try. */
#ifndef KMEANS_BRUTE_H
#define KMEANS_BRUTE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/dtype.h"
#include "base/rng.h"
#include <holdfast/holdfast.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIT_OK(ctx, call)                                                                          \
    do {                                                                                           \
        const hf_status fit_ok_ = (call);                                                          \
        if (fit_ok_ != HF_OK)                                                                      \
            fail_msg("status %d: %s", (int)fit_ok_, hf_last_error(ctx));                           \
    } while (0)

/* A problem: rows in one of the data types, and the same values in float64. */
struct problem {
    hf_array x;
    double *x64; /* [n, d] */
    int64_t n, d;
};

static inline hf_context *open_context(int threads, uint64_t memory_bytes) {
    const hf_context_opts opts = {
        .device = "cpu", .threads = threads, .memory_bytes = memory_bytes};
    hf_context *ctx = NULL;
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    return ctx;
}

static inline void *must_alloc(size_t bytes) {
    void *p = malloc(bytes ? bytes : 1);
    assert_non_null(p);
    return p;
}

static inline void store_as(void *dst, hf_dtype dtype, int64_t i, double v) {
    switch (dtype) {
    case HF_F64:
        ((double *)dst)[i] = v;
        break;
    case HF_F16:
        ((uint16_t *)dst)[i] = hf_f32_to_f16((float)v);
        break;
    case HF_BF16:
        ((uint16_t *)dst)[i] = hf_f32_to_bf16((float)v);
        break;
    case HF_U8:
        ((uint8_t *)dst)[i] = (uint8_t)fmin(fmax(rint(v), 0), 255);
        break;
    default:
        ((float *)dst)[i] = (float)v;
        break;
    }
}

/* Values rounded to a type, with `gap` unused elements behind each row. */
static inline struct problem problem_from(const double *v, int64_t n, int64_t d, hf_dtype dtype,
                                          int64_t gap) {
    struct problem p = {.n = n, .d = d};
    const int64_t stride = d + gap;
    void *data = must_alloc((size_t)(n * stride) * 8);
    memset(data, 0xff, (size_t)(n * stride) * 8); /* the gaps hold NaN */
    p.x = hf_array_view(data, dtype, n, d);
    p.x.row_stride = stride;
    p.x64 = must_alloc((size_t)(n * d) * sizeof(double));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++) {
            store_as(data, dtype, i * stride + j, v[i * d + j]);
            p.x64[i * d + j] = hf_load_f64(data, dtype, i * stride + j);
        }
    return p;
}

static inline void problem_free(struct problem *p) {
    free(p->x.data);
    free(p->x64);
}

/* Blobs: `centers` normal clouds of spread 1 around points drawn with spread `far`. */
static inline double *blobs(uint64_t seed, int64_t n, int64_t d, int centers, double far) {
    struct hf_rng rng = {.seed = seed};
    double *c = must_alloc((size_t)(centers * d) * sizeof(double));
    double *v = must_alloc((size_t)(n * d) * sizeof(double));
    for (int64_t i = 0; i < centers * d; i++)
        c[i] = far * hf_rng_next_normal(&rng);
    for (int64_t i = 0; i < n; i++) {
        const int64_t from = (int64_t)(hf_rng_next(&rng) % (uint64_t)centers);
        for (int64_t j = 0; j < d; j++)
            v[i * d + j] = c[from * d + j] + hf_rng_next_normal(&rng);
    }
    free(c);
    return v;
}

/* At most `rows` rows of a file in the test data. */
static inline struct problem problem_open(hf_context *ctx, const char *name, int64_t rows) {
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", HF_TEST_DATA, name);
    hf_dataset *set = NULL;
    FIT_OK(ctx, hf_dataset_open(ctx, path, NULL, &set));
    const hf_array *a = hf_dataset_array(set);
    assert_non_null(a);
    const int64_t stride = a->row_stride ? a->row_stride : a->cols;
    const int64_t n = rows < a->rows ? rows : a->rows;
    double *v = must_alloc((size_t)(n * a->cols) * sizeof(double));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < a->cols; j++)
            v[i * a->cols + j] = hf_load_f64(a->data, a->dtype, i * stride + j);
    struct problem p = problem_from(v, n, a->cols, a->dtype, 0);
    free(v);
    hf_dataset_close(set);
    return p;
}

/* Cities: latitude, longitude and population, which is up to 1e5 times as wide. */
static inline struct problem cities_with_population(hf_context *ctx, int64_t rows) {
    struct problem place = problem_open(ctx, "geo-cities/latlon_f32.npy", rows);
    struct problem people = problem_open(ctx, "geo-cities/population_i32.npy", rows);
    assert_true(place.d == 2 && people.d == 1 && place.n == people.n);
    double *v = must_alloc((size_t)place.n * 3 * sizeof(double));
    for (int64_t i = 0; i < place.n; i++) {
        memcpy(v + i * 3, place.x64 + i * 2, 2 * sizeof(double));
        v[i * 3 + 2] = people.x64[i];
    }
    const struct problem p = problem_from(v, place.n, 3, HF_F32, 0);
    free(v);
    problem_free(&place);
    problem_free(&people);
    return p;
}

/* d(x, c) as the header of the public API words it. */
static inline double brute_distance(hf_metric metric, const double *x, const double *c, int64_t d) {
    double sum = 0;
    double xx = 0;
    double cc = 0;
    for (int64_t j = 0; j < d; j++) {
        const double diff = x[j] - c[j];
        sum += metric == HF_EUCLIDEAN ? diff * diff : x[j] * c[j];
        xx += x[j] * x[j];
        cc += c[j] * c[j];
    }
    if (metric == HF_EUCLIDEAN)
        return sum;
    if (metric == HF_DOT)
        return -sum;
    const double norm = sqrt(xx) * sqrt(cc);
    return sqrt(xx) == 0 || sqrt(cc) == 0 ? 1 : 1 - sum / norm;
}

/* The lowest index of the least distance. */
static inline int32_t brute_label(hf_metric metric, const double *x, const double *c, int64_t k,
                                  int64_t d, double *distance) {
    int32_t best = 0;
    double least = INFINITY;
    for (int64_t j = 0; j < k; j++) {
        const double v = brute_distance(metric, x, c + j * d, d);
        if (v < least) {
            least = v;
            best = (int32_t)j;
        }
    }
    *distance = least;
    return best;
}

static inline double *centers64(const hf_array *c) {
    double *v = must_alloc((size_t)(c->rows * c->cols) * sizeof(double));
    hf_to_f64(v, c->data, c->dtype, c->rows * c->cols);
    return v;
}

/* Labels, inertia and counts of a result hold together, by brute force. */
static inline void check_result(const struct problem *p, const hf_kmeans_opts *o,
                                const hf_kmeans_result *r) {
    double *c = centers64(&r->centroids);
    long double inertia = 0;
    long double size = 0;
    double heaviest = 0;
    double largest = 0;
    int64_t wrong = 0;
    assert_int_equal(r->n, p->n);
    assert_int_equal(r->centroids.rows, o->k);
    for (int64_t i = 0; i < p->n; i++) {
        double distance;
        const int32_t label = brute_label(o->metric, p->x64 + i * p->d, c, o->k, p->d, &distance);
        const double w = o->weights ? hf_load_f64(o->weights->data, o->weights->dtype, i) : 1;
        wrong += label != r->labels[i];
        inertia += (long double)w * (long double)distance;
        size += fabsl((long double)w * (long double)distance);
        heaviest = fmax(heaviest, w);
        for (int64_t j = 0; j < p->d; j++)
            largest = fmax(largest, fabs(p->x64[i * p->d + j]));
    }
    assert_int_equal(wrong, 0);
    /* one rounding a product, one of the sum, and a term of hf_wide is off by 2^-87 of its bound */
    const double bound = 8 * ((double)p->d * largest * largest + 1) * heaviest;
    assert_true(fabsl(inertia - (long double)r->inertia) <=
                size * 0x1p-50L + (long double)p->n * (long double)bound * 0x1p-86L);
    assert_true(r->iterations >= 1);
    free(c);
}

/* The sizes are those that the labels have. */
static inline void check_sizes(const hf_kmeans_result *r) {
    int64_t *left = must_alloc((size_t)r->k * sizeof(int64_t));
    memcpy(left, r->sizes, (size_t)r->k * sizeof(int64_t));
    for (int64_t i = 0; i < r->n; i++)
        if (r->labels[i] >= 0)
            left[r->labels[i]]--;
    for (int64_t j = 0; j < r->k; j++)
        if (left[j] != 0)
            fail_msg("cluster %d: its size is %lld, %lld off", (int)j, (long long)r->sizes[j],
                     (long long)left[j]);
    free(left);
}

static inline void assert_same_fit(const hf_kmeans_result *a, const hf_kmeans_result *b) {
    const size_t bytes = hf_dtype_bytes(a->centroids.dtype);
    assert_int_equal(a->n, b->n);
    assert_int_equal(a->iterations, b->iterations);
    assert_int_equal(a->restart, b->restart);
    assert_int_equal(a->stop, b->stop);
    assert_int_equal(a->centroids.dtype, b->centroids.dtype);
    check_sizes(a);
    check_sizes(b);
    assert_memory_equal(&a->inertia, &b->inertia, sizeof(double));
    assert_memory_equal(a->labels, b->labels, (size_t)a->n * sizeof(int32_t));
    assert_memory_equal(a->centroids.data, b->centroids.data, (size_t)(a->k * a->d) * bytes);
    for (int i = 0; i < a->iterations; i++) {
        assert_memory_equal(&a->history[i].inertia, &b->history[i].inertia, sizeof(double));
        assert_memory_equal(&a->history[i].shift, &b->history[i].shift, sizeof(double));
        assert_int_equal(a->history[i].changed, b->history[i].changed);
        assert_int_equal(a->history[i].empty, b->history[i].empty);
    }
}

/* Lloyd from given centroids (float64 copies of what is stored) until no label changes; sums in
 * long double. Returns the iterations, as scikit-learn counts them; fails on an empty cluster. */
static inline int brute_lloyd(const struct problem *p, double *c, int64_t k, hf_dtype stored,
                              int max_iter, int32_t *labels) {
    long double *sum = must_alloc((size_t)(k * p->d) * sizeof(long double));
    int64_t *count = must_alloc((size_t)k * sizeof(int64_t));
    int iteration = 0;
    for (int64_t i = 0; i < p->n; i++)
        labels[i] = -1;
    for (int64_t changed = 1; changed > 0 && iteration < max_iter; iteration++) {
        changed = 0;
        memset(count, 0, (size_t)k * sizeof(int64_t));
        for (int64_t i = 0; i < k * p->d; i++)
            sum[i] = 0;
        for (int64_t i = 0; i < p->n; i++) {
            double distance;
            const int32_t label =
                brute_label(HF_EUCLIDEAN, p->x64 + i * p->d, c, k, p->d, &distance);
            changed += label != labels[i];
            labels[i] = label;
            count[label]++;
            for (int64_t j = 0; j < p->d; j++)
                sum[label * p->d + j] += (long double)p->x64[i * p->d + j];
        }
        for (int64_t l = 0; l < k; l++) {
            assert_true(count[l] > 0);
            for (int64_t j = 0; j < p->d; j++)
                c[l * p->d + j] =
                    hf_round_to((double)(sum[l * p->d + j] / (long double)count[l]), stored);
        }
    }
    free(sum);
    free(count);
    return iteration;
}

/* A fit that must succeed and hold together. */
static inline hf_kmeans_result fit_ok(hf_context *ctx, const struct problem *p,
                                      const hf_kmeans_opts *o) {
    hf_kmeans_result r = {0};
    FIT_OK(ctx, hf_kmeans_fit(ctx, &p->x, o, &r));
    check_result(p, o, &r);
    check_sizes(&r);
    return r;
}

/* Rows of a float32 problem without gaps, for a source. */
static inline hf_status read_f32(void *user, int64_t first, int64_t count, void *dst, char *message,
                                 size_t message_bytes) {
    (void)message;
    (void)message_bytes;
    const struct problem *p = user;
    memcpy(dst, (const float *)p->x.data + first * p->d, (size_t)(count * p->d) * sizeof(float));
    return HF_OK;
}

#endif
