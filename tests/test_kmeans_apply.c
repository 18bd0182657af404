/* SPDX-License-Identifier: Apache-2.0
 * Centroids that are given: of any type, to a fit and to predict and transform; what these do with
 * rows of NaN, weights and progress; and the sizes of clusters. */
#include "kmeans_brute.h"

enum { N = 900, D = 5, K = 7 };

static const hf_dtype all_types[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8, HF_I32};

/* Whole numbers from 0 to 100, which every type has. */
static double *whole_numbers(uint64_t seed, int64_t count) {
    double *v = blobs(seed, count, 1, 9, 9);
    for (int64_t i = 0; i < count; i++)
        v[i] = fmin(fmax(rint(v[i] + 50), 0), 100);
    return v;
}

/* K centroids of a type, with a gap of two elements behind each. */
static hf_array centroids_of(const double *v, hf_dtype dtype) {
    hf_array c = hf_array_view(must_alloc(K * (D + 2) * sizeof(double)), dtype, K, D);
    c.row_stride = D + 2;
    for (int64_t j = 0; j < K; j++)
        for (int64_t f = 0; f < D; f++)
            hf_store_f64(c.data, dtype, j * c.row_stride + f, v[j * D + f]);
    return c;
}

static void starts_of_every_type(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    double *v = whole_numbers(1, N * D);
    struct problem p = problem_from(v, N, D, HF_F32, 0);
    const hf_source source = {.rows = N, .cols = D, .dtype = HF_F32, .read = read_f32, .user = &p};
    hf_array x[2] = {p.x, p.x};
    hf_kmeans_result want = {0};
    for (size_t t = 0; t < sizeof all_types / sizeof *all_types; t++) {
        hf_array c = centroids_of(v, all_types[t]);
        const hf_kmeans_opts o = {
            .k = K, .init = HF_INIT_GIVEN, .centroids = &c, .tol = -1, .max_iter = 9};
        hf_kmeans_result r = fit_ok(ctx, &p, &o);
        hf_kmeans_result many[2] = {{0}};
        if (t == 0)
            want = fit_ok(ctx, &p, &o);
        assert_same_fit(&want, &r);
        hf_kmeans_result_clear(&r);
        FIT_OK(ctx, hf_kmeans_fit_source(ctx, &source, &o, &r));
        assert_same_fit(&want, &r);
        hf_kmeans_result_clear(&r);
        FIT_OK(ctx, hf_kmeans_fit_batch(ctx, x, 2, &o, many));
        for (int i = 0; i < 2; i++) {
            assert_same_fit(&want, &many[i]);
            hf_kmeans_result_clear(&many[i]);
        }
        free(c.data);
    }
    hf_kmeans_result_clear(&want);
    problem_free(&p);
    free(v);
    hf_context_destroy(ctx);
}

static int take_distances(void *user, int64_t first, int64_t count, const double *distances) {
    memcpy((double *)user + first * K, distances, (size_t)(count * K) * sizeof *distances);
    return 0;
}

static void centroids_of_every_type(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    double *v = whole_numbers(2, N * D);
    struct problem p = problem_from(v, N, D, HF_U8, 1);
    int32_t want[N], labels[N];
    double far[N], want_far[N], inertia, want_inertia = 0;
    double *table = must_alloc(sizeof(double) * N * K);
    double *want_table = must_alloc(sizeof(double) * N * K);
    for (size_t t = 0; t < sizeof all_types / sizeof *all_types; t++)
        for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++) {
            hf_array wide = centroids_of(v, HF_F64);
            hf_array c = centroids_of(v, all_types[t]);
            const hf_metric m = (hf_metric)metric;
            FIT_OK(ctx, hf_kmeans_predict(ctx, &p.x, NULL, &wide, m, HF_EXACT, NULL, want, want_far,
                                          &want_inertia));
            FIT_OK(ctx, hf_kmeans_predict(ctx, &p.x, NULL, &c, m, HF_EXACT, NULL, labels, far,
                                          &inertia));
            assert_memory_equal(labels, want, sizeof want);
            assert_memory_equal(far, want_far, sizeof want_far);
            assert_true(inertia == want_inertia);
            FIT_OK(ctx, hf_kmeans_transform(ctx, &p.x, NULL, &wide, m, take_distances, want_table));
            FIT_OK(ctx, hf_kmeans_transform(ctx, &p.x, NULL, &c, m, take_distances, table));
            assert_memory_equal(table, want_table, sizeof(double) * N * K);
            free(wide.data);
            free(c.data);
        }
    free(table);
    free(want_table);
    problem_free(&p);
    free(v);
    hf_context_destroy(ctx);
}

/* Ends of a fit that have the sizes from its sums, and those that count labels. */
static void sizes(void **state) {
    (void)state;
    hf_context *ctx = open_context(3, 0);
    double *v = blobs(3, 5000, D, 30, 2);
    v[77 * D + 2] = v[4000 * D] = NAN;
    struct problem p = problem_from(v, 5000, D, HF_F32, 0);
    float *w = must_alloc(5000 * sizeof(float));
    for (int i = 0; i < 5000; i++)
        w[i] = (float)(i % 3);
    const hf_array weights = hf_array_view(w, HF_F32, 5000, 1);
    const hf_kmeans_opts ends[] = {{.k = 20, .tol = -1},
                                   {.k = 20, .max_iter = 2},
                                   {.k = 20, .max_iter = 2, .n_init = 4, .init = HF_INIT_RANDOM},
                                   {.k = 20, .max_iter = 3, .weights = &weights},
                                   {.k = 1500, .max_iter = 2, .init = HF_INIT_RANDOM},
                                   {.k = 3, .tol = 0.5, .precision = HF_FAST}};
    for (size_t e = 0; e < sizeof ends / sizeof *ends; e++) {
        hf_kmeans_opts o = ends[e];
        hf_kmeans_result r = {0};
        int64_t total = 0;
        o.nan = HF_NAN_DROP;
        FIT_OK(ctx, hf_kmeans_fit(ctx, &p.x, &o, &r));
        check_sizes(&r);
        for (int64_t j = 0; j < r.k; j++)
            total += r.sizes[j];
        assert_int_equal(total, 4998);
        hf_kmeans_result_clear(&r);
        assert_null(r.sizes);
    }
    free(w);
    problem_free(&p);
    free(v);
    hf_context_destroy(ctx);
}

/* ---- rows of NaN */

#define BAD(i) ((i) % 50 == 3 || (i) == N - 1)

/* A problem with bad rows, another without them, and weights of the first. */
struct holes {
    struct problem all, clean;
    float w[N], clean_w[N];
    hf_array c;
};

static void open_holes(struct holes *h, double *v) {
    double *kept = must_alloc(N * D * sizeof(double));
    int64_t n = 0;
    h->c = centroids_of(v + 10 * D, HF_F64);
    for (int64_t i = 0; i < N; i++) {
        h->w[i] = (float)(i % 4);
        if (BAD(i)) {
            v[i * D + i % D] = i % 2 ? NAN : INFINITY;
            continue;
        }
        h->clean_w[n] = h->w[i];
        memcpy(kept + n++ * D, v + i * D, D * sizeof(double));
    }
    h->all = problem_from(v, N, D, HF_F32, 0);
    h->clean = problem_from(kept, n, D, HF_F32, 0);
    free(kept);
}

static void close_holes(struct holes *h) {
    problem_free(&h->all);
    problem_free(&h->clean);
    free(h->c.data);
}

static void expect_expanded(const struct holes *h, const int32_t *labels, const double *far,
                            const int32_t *want, const double *want_far) {
    for (int64_t i = 0, at = 0; i < N; i++) {
        assert_int_equal(labels[i], BAD(i) ? -1 : want[at]);
        assert_true(BAD(i) ? isnan(far[i]) : far[i] == want_far[at]);
        at += !BAD(i);
        assert_true(at <= h->clean.n);
    }
}

static void dropped_rows(void **state) {
    (void)state;
    double *v = blobs(4, N, D, 9, 3);
    struct holes h;
    int32_t want[N], labels[N];
    double want_far[N], far[N], want_inertia = 0, inertia = 0, weight = 0, want_weight = 0;
    int64_t size[K], want_size[K], gone = 0;
    open_holes(&h, v);
    const hf_array weights = hf_array_view(h.w, HF_F32, N, 1);
    const hf_array clean = hf_array_view(h.clean_w, HF_F32, h.clean.n, 1);
    const hf_source source = {
        .rows = N, .cols = D, .dtype = HF_F32, .read = read_f32, .user = &h.all};
    for (int precision = HF_EXACT; precision <= HF_FAST; precision++)
        for (int form = 0; form < 3; form++) {
            hf_context *ctx = open_context(2, form == 2 ? 1 << 20 : 0);
            hf_predict_opts o = {.precision = (hf_precision)precision, .weights = &clean};
            hf_prediction out = {want, want_far, &want_inertia, &want_weight, want_size, &gone};
            FIT_OK(ctx, hf_kmeans_predict_with(ctx, &h.clean.x, NULL, &h.c, &o, &out));
            assert_int_equal(gone, 0);
            o.nan = HF_NAN_DROP;
            o.weights = &weights;
            out = (hf_prediction){labels, far, &inertia, &weight, size, &gone};
            FIT_OK(ctx, hf_kmeans_predict_with(ctx, form ? NULL : &h.all.x, form ? &source : NULL,
                                               &h.c, &o, &out));
            assert_int_equal(gone, N - h.clean.n);
            assert_true(inertia == want_inertia && weight == want_weight && weight > 0);
            assert_memory_equal(size, want_size, sizeof size);
            expect_expanded(&h, labels, far, want, want_far);
            o.nan = HF_NAN_ERROR;
            assert_int_equal(hf_kmeans_predict_with(ctx, &h.all.x, NULL, &h.c, &o, &out),
                             HF_E_DATA);
            assert_non_null(strstr(hf_last_error(ctx), "row 3, column 3"));
            hf_context_destroy(ctx);
        }
    close_holes(&h);
    free(v);
}

static void nothing_is_left(void **state) {
    (void)state;
    hf_context *ctx = open_context(1, 0);
    float x[2 * D], c[D] = {0};
    int32_t labels[2] = {5, 5};
    double inertia = 1, far[2] = {0};
    int64_t size[1] = {7}, gone = 0;
    for (int i = 0; i < 2 * D; i++)
        x[i] = NAN;
    const hf_array rows = hf_array_view(x, HF_F32, 2, D);
    const hf_array centroids = hf_array_view(c, HF_F32, 1, D);
    const hf_predict_opts o = {.nan = HF_NAN_DROP};
    const hf_prediction out = {labels, far, &inertia, NULL, size, &gone};
    FIT_OK(ctx, hf_kmeans_predict_with(ctx, &rows, NULL, &centroids, &o, &out));
    assert_true(labels[0] == -1 && labels[1] == -1 && isnan(far[1]) && inertia == 0);
    assert_true(size[0] == 0 && gone == 2);
    const hf_predict_opts odd = {.nan = (hf_nan)9};
    assert_int_equal(hf_kmeans_predict_with(ctx, &rows, NULL, &centroids, &odd, &out), HF_E_ARG);
    assert_non_null(strstr(hf_last_error(ctx), "NaN 9"));
    hf_context_destroy(ctx);
}

static void distances_of_dropped_rows(void **state) {
    (void)state;
    double *v = blobs(5, N, D, 9, 3);
    double *table = must_alloc(sizeof(double) * N * K);
    double *want = must_alloc(sizeof(double) * N * K);
    struct holes h;
    open_holes(&h, v);
    for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++) {
        hf_context *ctx = open_context(2, 1 << 20);
        const hf_predict_opts o = {.metric = (hf_metric)metric, .nan = HF_NAN_DROP, .user = table};
        FIT_OK(ctx,
               hf_kmeans_transform(ctx, &h.clean.x, NULL, &h.c, o.metric, take_distances, want));
        FIT_OK(ctx, hf_kmeans_transform_with(ctx, &h.all.x, NULL, &h.c, &o, take_distances));
        for (int64_t i = 0, at = 0; i < N; i++) {
            for (int64_t j = 0; j < K; j++)
                assert_true(BAD(i) ? isnan(table[i * K + j])
                                   : table[i * K + j] == want[at * K + j]);
            at += !BAD(i);
        }
        hf_context_destroy(ctx);
    }
    close_holes(&h);
    free(table);
    free(want);
    free(v);
}

/* ---- progress */

struct seen {
    int64_t done, total, stop_at;
    int calls;
};

static int note(void *user, int64_t done, int64_t total) {
    struct seen *s = user;
    assert_true(done > s->done && done <= total && (s->calls == 0 || total == s->total));
    s->done = done;
    s->total = total;
    s->calls++;
    return done >= s->stop_at;
}

static void progress(void **state) {
    (void)state;
    hf_context *ctx = open_context(1, 1 << 20);
    double *v = blobs(6, 200000, 2, 9, 3);
    struct problem p = problem_from(v, 200000, 2, HF_F32, 0);
    const hf_source source = {
        .rows = p.n, .cols = 2, .dtype = HF_F32, .read = read_f32, .user = &p};
    hf_array c = hf_array_view(v, HF_F64, 3, 2);
    int32_t *labels = must_alloc((size_t)p.n * sizeof *labels);
    struct seen seen = {.stop_at = INT64_MAX};
    const hf_predict_opts o = {.progress = note, .user = &seen};
    const hf_prediction out = {.labels = labels};
    FIT_OK(ctx, hf_kmeans_predict_with(ctx, NULL, &source, &c, &o, &out));
    assert_true(seen.calls >= 4 && seen.done == seen.total && seen.total == 2 * p.n);
    seen = (struct seen){.stop_at = p.n + 1};
    assert_int_equal(hf_kmeans_predict_with(ctx, NULL, &source, &c, &o, &out), HF_E_CANCELLED);
    assert_true(seen.done < seen.total);
    problem_free(&p);
    free(labels);
    free(v);
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(starts_of_every_type),
                                       cmocka_unit_test(centroids_of_every_type),
                                       cmocka_unit_test(sizes),
                                       cmocka_unit_test(dropped_rows),
                                       cmocka_unit_test(nothing_is_left),
                                       cmocka_unit_test(distances_of_dropped_rows),
                                       cmocka_unit_test(progress)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
