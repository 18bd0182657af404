/* SPDX-License-Identifier: Apache-2.0
 * Clusters that lose all their rows: what each policy does, and which rows never fill one. */
#include "kmeans_brute.h"

/* Three centroids among the rows, the others far away. */
static hf_array far_start(const struct problem *p, double *start, int64_t k) {
    for (int64_t i = 0; i < k * p->d; i++)
        start[i] = i < 3 * p->d ? p->x64[i] : 1e3 + (double)i;
    return hf_array_view(start, HF_F64, k, p->d);
}

/* After one iteration from centroids most of which have no rows, the i-th empty cluster holds the
 * i-th farthest row. */
static void relocates(int64_t n, int64_t d, int64_t k) {
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(6, n, d, 10, 6);
    double *start = must_alloc((size_t)(k * d) * sizeof(double));
    bool *taken = must_alloc((size_t)n);
    memset(taken, 0, (size_t)n);
    struct problem p = problem_from(v, n, d, HF_F32, 0);
    const hf_array given = far_start(&p, start, k);
    const hf_kmeans_opts o = {.k = k, .init = HF_INIT_GIVEN, .centroids = &given, .max_iter = 1};
    hf_kmeans_result r = fit_ok(ctx, &p, &o);
    assert_int_equal(r.history[0].empty, k - 3);
    for (int64_t e = 3; e < k; e++) {
        int64_t farthest = -1;
        double most = -1;
        for (int64_t i = 0; i < n; i++) {
            double distance;
            brute_label(HF_EUCLIDEAN, p.x64 + i * d, start, 3, d, &distance);
            if (!taken[i] && distance > most) {
                most = distance;
                farthest = i;
            }
        }
        taken[farthest] = true;
        for (int64_t j = 0; j < d; j++)
            assert_true(fabs((double)((float *)r.centroids.data)[e * d + j] -
                             p.x64[farthest * d + j]) <= 0x1p-22 * fabs(p.x64[farthest * d + j]));
    }
    hf_kmeans_result_clear(&r);
    problem_free(&p);
    free(taken);
    free(start);
    free(v);
    hf_context_destroy(ctx);
}

/* Few columns: all rows move at once; many: one or two at a time. */
static void relocation(void **state) {
    (void)state;
    relocates(500, 3, 12);
    relocates(60, 12000, 8);
    relocates(40, 40000, 5);
}

static void empty_clusters(void **state) {
    (void)state;
    enum { N = 500, D = 3, K = 12 };
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(6, N, D, 10, 6);
    struct problem p = problem_from(v, N, D, HF_F32, 0);
    double start[K * D];
    const hf_array given = far_start(&p, start, K);
    hf_kmeans_opts o = {.k = K, .init = HF_INIT_GIVEN, .centroids = &given, .max_iter = 0};
    hf_kmeans_result r = fit_ok(ctx, &p, &o);
    int64_t count[K] = {0};
    for (int i = 0; i < N; i++)
        count[r.labels[i]]++;
    for (int l = 0; l < K; l++)
        assert_true(count[l] > 0);
    hf_kmeans_result_clear(&r);

    o.empty = HF_EMPTY_SPLIT;
    o.tol = -1;
    r = fit_ok(ctx, &p, &o);
    memset(count, 0, sizeof(count));
    for (int i = 0; i < N; i++)
        count[r.labels[i]]++;
    for (int l = 0; l < K; l++)
        assert_true(count[l] > 0);
    hf_kmeans_result_clear(&r);

    o.empty = HF_EMPTY_KEEP;
    r = fit_ok(ctx, &p, &o);
    for (int i = 3 * D; i < K * D; i++)
        assert_true(((float *)r.centroids.data)[i] == (float)start[i]);
    assert_int_equal(r.history[r.iterations - 1].empty, K - 3);
    hf_kmeans_result_clear(&r);

    o.empty = HF_EMPTY_ERROR;
    memset(&r, 0x5a, sizeof(r));
    assert_int_equal(hf_kmeans_fit(ctx, &p.x, &o, &r), HF_E_DATA);
    assert_non_null(strstr(hf_last_error(ctx), "cluster 3 "));
    assert_non_null(strstr(hf_last_error(ctx), "iteration 1"));
    assert_int_equal(((unsigned char *)&r)[0], 0x5a);
    problem_free(&p);
    free(v);
    hf_context_destroy(ctx);
}

/* More clusters than distinct rows, in every metric and policy: it ends, and soon. */
static void nothing_to_relocate(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    double v[40 * 2];
    for (int i = 0; i < 80; i++)
        v[i] = i / 2 % 3 + 1 + i % 2;
    struct problem p = problem_from(v, 40, 2, HF_F32, 0);
    for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++)
        for (int empty = HF_EMPTY_RELOCATE; empty <= HF_EMPTY_KEEP; empty++) {
            const hf_kmeans_opts o = {
                .k = 9, .metric = (hf_metric)metric, .empty = (hf_empty)empty, .tol = -1};
            hf_kmeans_result r = fit_ok(ctx, &p, &o);
            if (metric == HF_EUCLIDEAN && empty != HF_EMPTY_SPLIT)
                assert_true(r.stop == HF_STOP_LABELS && r.inertia == 0);
            hf_kmeans_result_clear(&r);
        }
    problem_free(&p);
    hf_context_destroy(ctx);
}

/* Rows of weight 0 alone do not make a cluster. */
static void weightless_cluster(void **state) {
    (void)state;
    enum { N = 90, D = 2, K = 4 };
    hf_context *ctx = open_context(1, 0);
    double *v = blobs(7, N, D, 1, 0);
    float w[N];
    for (int i = 0; i < N; i++) {
        w[i] = i < 30 ? 0 : 1;
        v[i * D] += i < 30 ? 100 : 0;
    }
    struct problem p = problem_from(v, N, D, HF_F32, 0);
    const hf_array weights = hf_array_view(w, HF_F32, N, 1);
    double start[K * D];
    for (int l = 0; l < K; l++)
        memcpy(start + l * D, p.x64 + (l == 0 ? 0 : 29 + l) * D, D * sizeof(double));
    const hf_array given = hf_array_view(start, HF_F64, K, D);
    const hf_kmeans_opts o = {
        .k = K, .init = HF_INIT_GIVEN, .centroids = &given, .weights = &weights, .tol = -1};
    hf_kmeans_result r = fit_ok(ctx, &p, &o);
    assert_int_equal(r.history[0].empty, 1);
    for (int l = 0; l < K; l++) {
        double weight = 0;
        for (int i = 0; i < N; i++)
            weight += r.labels[i] == l ? (double)w[i] : 0;
        assert_true(weight > 0);
    }
    hf_kmeans_result_clear(&r);
    problem_free(&p);
    free(v);
    hf_context_destroy(ctx);
}

/* Clusters of equal rows: their halves would lie off the data, so empty clusters stay. */
static void nothing_to_split(void **state) {
    (void)state;
    enum { N = 120, K = 5 };
    hf_context *ctx = open_context(2, 0);
    double v[N * 2] = {0};
    for (int i = 0; i < 80; i++) {
        v[2 * i] = i % 2 ? 1 : 10;
        v[2 * i + 1] = i % 2 ? 10 : 3;
    }
    struct problem p = problem_from(v, N, 2, HF_F32, 0);
    double start[K * 2] = {10, 3, 10, 3, 1, 10, 0, 0, 1, 10};
    const hf_array given = hf_array_view(start, HF_F64, K, 2);
    for (int metric = HF_EUCLIDEAN; metric <= HF_COSINE; metric++) {
        hf_kmeans_opts o = {.k = K,
                            .metric = (hf_metric)metric,
                            .init = HF_INIT_GIVEN,
                            .centroids = &given,
                            .empty = HF_EMPTY_SPLIT,
                            .tol = -1};
        hf_kmeans_result r = fit_ok(ctx, &p, &o);
        o.empty = HF_EMPTY_KEEP;
        hf_kmeans_result q = fit_ok(ctx, &p, &o);
        assert_true(r.inertia == q.inertia);
        assert_true(metric == HF_COSINE || r.inertia == 0);
        assert_int_equal(r.stop, HF_STOP_LABELS);
        assert_memory_equal(r.centroids.data, q.centroids.data, K * 2 * sizeof(float));
        hf_kmeans_result_clear(&q);
        hf_kmeans_result_clear(&r);
    }
    problem_free(&p);
    hf_context_destroy(ctx);
}

/* The fullest cluster has rows of one value: the one that is split is another. Cosine: both halves
 * are directions. */
static void splits_what_differs(void **state) {
    (void)state;
    enum { N = 90 };
    hf_context *ctx = open_context(2, 0);
    double v[N * 2];
    for (int i = 0; i < N; i++) {
        v[2 * i] = i < 60 ? 8 : cos(1 + i * 0.01);
        v[2 * i + 1] = i < 60 ? 1 : 20 * sin(1 + i * 0.01);
    }
    struct problem p = problem_from(v, N, 2, HF_F32, 0);
    double start[6] = {8, 1, 0, 20, -99, -99};
    const hf_array given = hf_array_view(start, HF_F64, 3, 2);
    for (int metric = HF_EUCLIDEAN; metric <= HF_COSINE; metric++)
        for (int max_iter = 1; max_iter < 10; max_iter += 8) {
            const hf_kmeans_opts o = {.k = 3,
                                      .metric = (hf_metric)metric,
                                      .init = HF_INIT_GIVEN,
                                      .centroids = &given,
                                      .empty = HF_EMPTY_SPLIT,
                                      .max_iter = max_iter,
                                      .tol = -1};
            hf_kmeans_result r = fit_ok(ctx, &p, &o);
            const float *c = r.centroids.data;
            int64_t count[3] = {0};
            for (int i = 0; i < N; i++)
                count[r.labels[i]]++;
            assert_int_equal(count[0], 60);
            assert_true(count[1] > 0 && count[2] > 0);
            for (int l = 0; metric == HF_COSINE && l < 3; l++)
                assert_true(fabs(hypot((double)c[2 * l], (double)c[2 * l + 1]) - 1) < 1e-6);
            hf_kmeans_result_clear(&r);
        }
    problem_free(&p);
    hf_context_destroy(ctx);
}

/* Halves of centroids at the end of float16's range are no infinities. */
static void halves_stay_in_range(void **state) {
    (void)state;
    enum { N = 60 };
    hf_context *ctx = open_context(2, 0);
    double v[N * 2];
    for (int i = 0; i < N; i++) {
        v[2 * i] = i % 8 ? 65504 : 65472;
        v[2 * i + 1] = i % 9 ? -65504 : -65440;
    }
    struct problem p = problem_from(v, N, 2, HF_F16, 0);
    double start[6] = {65504, -65504, 1, 1, -2, 3};
    const hf_array given = hf_array_view(start, HF_F64, 3, 2);
    const hf_kmeans_opts o = {.k = 3,
                              .metric = HF_DOT,
                              .init = HF_INIT_GIVEN,
                              .centroids = &given,
                              .store = HF_CENTROIDS_SAME,
                              .empty = HF_EMPTY_SPLIT,
                              .max_iter = 1,
                              .tol = -1};
    hf_kmeans_result r = fit_ok(ctx, &p, &o);
    assert_true(isfinite(r.inertia));
    double *c = centers64(&r.centroids);
    for (int i = 0; i < 6; i++)
        assert_true(fabs(c[i]) <= 65504);
    free(c);
    hf_kmeans_result_clear(&r);
    problem_free(&p);
    hf_context_destroy(ctx);
}

/* The cosine: how many rows of each cluster have a direction. */
static void count_directed(const struct problem *p, const hf_kmeans_result *r, int64_t *count) {
    memset(count, 0, (size_t)r->k * sizeof(int64_t));
    for (int64_t i = 0; i < p->n; i++) {
        double square = 0;
        for (int64_t j = 0; j < p->d; j++)
            square += p->x64[i * p->d + j] * p->x64[i * p->d + j];
        count[r->labels[i]] += square > 0;
    }
}

/* Rows of zeros are at distance 1 from all centroids, farther than any other row here. None takes
 * an empty cluster, and the last row with a direction stays in its own. */
static void zeros_are_not_relocated(void **state) {
    (void)state;
    enum { N = 40, K = 5 };
    hf_context *ctx = open_context(2, 0);
    double v[N * 2] = {0};
    float w[N];
    double start[K * 2] = {1, 0, 0, 1};
    const hf_array given = hf_array_view(start, HF_F64, K, 2);
    const hf_array weights = hf_array_view(w, HF_F32, N, 1);
    for (int i = 0; i < N; i++)
        w[i] = (float)(1 + i % 3);
    for (int i = 0; i < 20; i++) {
        v[2 * i] = cos(1.2 * i / 19);
        v[2 * i + 1] = sin(1.2 * i / 19);
    }
    struct problem p = problem_from(v, N, 2, HF_F32, 0);
    for (int weighted = 0; weighted < 2; weighted++) {
        const hf_kmeans_opts o = {.k = K,
                                  .metric = HF_COSINE,
                                  .init = HF_INIT_GIVEN,
                                  .centroids = &given,
                                  .weights = weighted ? &weights : NULL,
                                  .tol = -1};
        hf_kmeans_result r = fit_ok(ctx, &p, &o);
        int64_t count[K];
        count_directed(&p, &r, count);
        for (int l = 0; l < K; l++)
            assert_true(count[l] > 0);
        assert_int_equal(r.stop, HF_STOP_LABELS);
        assert_int_equal(r.history[r.iterations - 1].empty, 0);
        hf_kmeans_result_clear(&r);
    }
    problem_free(&p);
    hf_context_destroy(ctx);
}

/* Two directions and no other: nothing is left for the other clusters, and the fit ends. */
static void more_clusters_than_directions(void **state) {
    (void)state;
    enum { N = 120 };
    hf_context *ctx = open_context(2, 0);
    double v[N * 2] = {0};
    for (int i = 0; i < 80; i++)
        v[2 * i + i % 2] = 10;
    for (int all = 0; all < 2; all++) {
        struct problem p = problem_from(v + (all ? 160 : 0), all ? 40 : N, 2, HF_F32, 0);
        for (int init = HF_INIT_KMEANSPP; init <= HF_INIT_RANDOM; init++) {
            const hf_kmeans_opts o = {
                .k = 5, .metric = HF_COSINE, .init = (hf_init)init, .tol = -1, .seed = 3};
            hf_kmeans_result r = fit_ok(ctx, &p, &o);
            assert_int_equal(r.stop, HF_STOP_LABELS);
            assert_true(r.iterations <= 5);
            assert_true(r.inertia == 40);
            hf_kmeans_result_clear(&r);
        }
        problem_free(&p);
    }
    hf_context_destroy(ctx);
}

/* Half of the rows are zeros: starts are drawn from the others, whatever draws them, with weights
 * and in chunks; the zeros do not change how good the clusters are. */
static void zeros_are_no_starts(void **state) {
    (void)state;
    enum { N = 2000, D = 6, K = 30 };
    hf_context *ctx = open_context(2, 0);
    hf_context *small = open_context(2, 1 << 20);
    double *v = blobs(14, N, D, 40, 3);
    float *w = must_alloc(N * sizeof(float));
    for (int i = 0; i < N; i++) {
        w[i] = (float)(1 + i % 2);
        if (i % 2 == 1)
            memset(v + (size_t)i * D, 0, D * sizeof(double));
    }
    struct problem p = problem_from(v, N, D, HF_F32, 0);
    const hf_array weights = hf_array_view(w, HF_F32, N, 1);
    const hf_source source = {.rows = N, .cols = D, .dtype = HF_F32, .read = read_f32, .user = &p};
    for (int init = HF_INIT_KMEANSPP; init <= HF_INIT_RANDOM; init++)
        for (int weighted = 0; weighted < 2; weighted++) {
            const hf_kmeans_opts o = {.k = K,
                                      .metric = HF_COSINE,
                                      .init = (hf_init)init,
                                      .weights = weighted ? &weights : NULL,
                                      .empty = HF_EMPTY_ERROR,
                                      .max_iter = 1,
                                      .seed = 5};
            hf_kmeans_result r = fit_ok(ctx, &p, &o);
            hf_kmeans_result q = {0};
            int64_t count[K];
            count_directed(&p, &r, count);
            for (int l = 0; l < K; l++)
                assert_true(count[l] > 0);
            FIT_OK(small, hf_kmeans_fit_source(small, &source, &o, &q));
            assert_memory_equal(r.labels, q.labels, N * sizeof(int32_t));
            hf_kmeans_result_clear(&r);
            hf_kmeans_result_clear(&q);
        }
    problem_free(&p);
    free(w);
    free(v);
    hf_context_destroy(ctx);
    hf_context_destroy(small);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(empty_clusters),
                                       cmocka_unit_test(relocation),
                                       cmocka_unit_test(nothing_to_relocate),
                                       cmocka_unit_test(weightless_cluster),
                                       cmocka_unit_test(nothing_to_split),
                                       cmocka_unit_test(splits_what_differs),
                                       cmocka_unit_test(halves_stay_in_range),
                                       cmocka_unit_test(zeros_are_not_relocated),
                                       cmocka_unit_test(more_clusters_than_directions),
                                       cmocka_unit_test(zeros_are_no_starts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
