/* SPDX-License-Identifier: Apache-2.0
 * What a fit promises besides its labels: stops, means, weights, storage; and that predict and
 * transform agree with it. */
#include "kmeans_brute.h"

/* Centroid j is the mean of its rows, to the rounding of its storage and of the sums. */
static void check_means(const struct problem *p, const hf_kmeans_result *r) {
    const double unit = r->centroids.dtype == HF_F64 ? 0x1p-44 : 0x1p-23;
    for (int64_t l = 0; l < r->k; l++)
        for (int64_t f = 0; f < p->d; f++) {
            long double sum = 0;
            double largest = 0;
            int64_t count = 0;
            for (int64_t i = 0; i < p->n; i++) {
                largest = fmax(largest, fabs(p->x64[i * p->d + f]));
                if (r->labels[i] != l)
                    continue;
                sum += (long double)p->x64[i * p->d + f];
                count++;
            }
            assert_true(count > 0);
            const double c = hf_load_f64(r->centroids.data, r->centroids.dtype, l * p->d + f);
            assert_true(fabs(c - (double)(sum / (long double)count)) <= unit * largest);
        }
}

static void inertia_falls_and_centroids_are_means(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F32, HF_F64, HF_F16};
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(1, 3000, 12, 10, 2);
    for (int t = 0; t < 3; t++) {
        struct problem p = problem_from(v, 3000, 12, types[t], 0);
        const hf_kmeans_opts o = {.k = 16, .init = HF_INIT_RANDOM, .tol = -1, .seed = 2};
        hf_kmeans_result r = fit_ok(ctx, &p, &o);
        assert_int_equal(r.stop, HF_STOP_LABELS);
        assert_int_equal(r.converged, 1);
        assert_int_equal(r.history[0].changed, 3000);
        for (int i = 1; i < r.iterations; i++)
            assert_true(r.history[i].inertia <= r.history[i - 1].inertia * (1 + 1e-9));
        assert_int_equal(r.history[r.iterations - 1].changed, 0);
        assert_true(r.history[r.iterations - 1].shift == 0);
        assert_true(fabs(r.history[r.iterations - 1].inertia - r.inertia) <= 1e-9 * r.inertia);
        check_means(&p, &r);
        hf_kmeans_result_clear(&r);
        problem_free(&p);
    }
    free(v);
    hf_context_destroy(ctx);
}

static void one_cluster_and_one_each(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(2, 50, 4, 3, 9);
    struct problem p = problem_from(v, 50, 4, HF_F64, 0);
    hf_kmeans_opts o = {.k = 1};
    hf_kmeans_result r = fit_ok(ctx, &p, &o);
    check_means(&p, &r);
    assert_int_equal(r.iterations, 2);
    hf_kmeans_result_clear(&r);
    for (int init = HF_INIT_KMEANSPP; init <= HF_INIT_RANDOM; init++) {
        o = (hf_kmeans_opts){.k = 50, .init = (hf_init)init, .seed = 3};
        r = fit_ok(ctx, &p, &o);
        assert_true(r.inertia == 0);
        hf_kmeans_result_clear(&r);
    }
    problem_free(&p);
    free(v);
    hf_context_destroy(ctx);
}

static void stops(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(3, 4000, 8, 20, 1);
    struct problem p = problem_from(v, 4000, 8, HF_F32, 0);
    hf_kmeans_opts o = {.k = 30, .seed = 1, .max_iter = 3, .tol = -1};
    hf_kmeans_result r = fit_ok(ctx, &p, &o);
    assert_int_equal(r.stop, HF_STOP_MAX_ITER);
    assert_int_equal(r.iterations, 3);
    hf_kmeans_result_clear(&r);
    /* the first iteration whose shift is at most tol * mean variance, as scikit-learn has it */
    o = (hf_kmeans_opts){.k = 30, .seed = 1, .tol = 1e-3};
    r = fit_ok(ctx, &p, &o);
    assert_int_equal(r.stop, HF_STOP_TOL);
    double variance = 0;
    for (int64_t j = 0; j < 8; j++) {
        double sum = 0;
        double square = 0;
        for (int64_t i = 0; i < 4000; i++)
            sum += p.x64[i * 8 + j] / 4000;
        for (int64_t i = 0; i < 4000; i++)
            square += (p.x64[i * 8 + j] - sum) * (p.x64[i * 8 + j] - sum) / 4000;
        variance += square / 8;
    }
    for (int i = 0; i < r.iterations; i++)
        assert_int_equal(r.history[i].shift <= 1e-3 * variance, i == r.iterations - 1);
    hf_kmeans_result_clear(&r);
    problem_free(&p);
    free(v);
    hf_context_destroy(ctx);
}

/* An integer weight is that many copies of the row. */
static void weights_are_copies(void **state) {
    (void)state;
    enum { N = 700, D = 5, K = 8 };
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(4, N, D, 6, 4);
    for (int i = 0; i < N * D; i++)
        v[i] = rint(v[i] * 8);
    int32_t w[N];
    int64_t copies = 0;
    for (int i = 0; i < N; i++)
        copies += w[i] = i % 4 + (i < K);
    double *many = must_alloc((size_t)(copies * D) * sizeof(double));
    int64_t at = 0;
    for (int i = 0; i < N; i++)
        for (int c = 0; c < w[i]; c++)
            memcpy(many + at++ * D, v + i * D, D * sizeof(double));
    struct problem p = problem_from(v, N, D, HF_F32, 0);
    struct problem q = problem_from(many, copies, D, HF_F32, 0);
    const hf_array weights = hf_array_view(w, HF_I32, N, 1);
    const hf_array start = hf_array_view(v, HF_F64, K, D);
    hf_kmeans_opts o = {.k = K, .init = HF_INIT_GIVEN, .centroids = &start, .tol = -1};
    hf_kmeans_result b = fit_ok(ctx, &q, &o);
    o.weights = &weights;
    hf_kmeans_result a = fit_ok(ctx, &p, &o);
    assert_true(a.inertia == b.inertia);
    assert_memory_equal(a.centroids.data, b.centroids.data, K * D * sizeof(float));
    at = 0;
    for (int i = 0; i < N; i++)
        for (int c = 0; c < w[i]; c++)
            assert_int_equal(a.labels[i], b.labels[at++]);
    hf_kmeans_result_clear(&a);
    hf_kmeans_result_clear(&b);
    problem_free(&p);
    problem_free(&q);
    free(many);
    free(v);
    hf_context_destroy(ctx);
}

/* Of n_init restarts the best is kept: each alone is not better. */
static void restarts_keep_the_best(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(5, 600, 2, 25, 8);
    struct problem p = problem_from(v, 600, 2, HF_F32, 0);
    double best = INFINITY;
    int best_restart = 0;
    for (int n = 1; n <= 6; n++) {
        const hf_kmeans_opts o = {.k = 25, .init = HF_INIT_RANDOM, .n_init = n, .seed = 2};
        hf_kmeans_result r = fit_ok(ctx, &p, &o);
        assert_true(r.inertia <= best);
        best_restart = r.inertia < best ? n - 1 : best_restart;
        assert_int_equal(r.restart, best_restart);
        best = r.inertia;
        hf_kmeans_result_clear(&r);
    }
    assert_true(best_restart > 0);
    problem_free(&p);
    free(v);
    hf_context_destroy(ctx);
}

/* No filter sees centroids as far as these; the nearer of them is not the first. */
static void centroids_out_of_sight(void **state) {
    (void)state;
    enum { N = 64, D = 4, K = 2 };
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(9, N, D, 3, 1);
    const double start[K * D] = {2e30, 0, 0, 0, 1e30};
    const hf_array given = hf_array_view((void *)(uintptr_t)start, HF_F64, K, D);
    struct problem p = problem_from(v, N, D, HF_F32, 0);
    for (int mode = HF_SKIP_AUTO; mode <= HF_SKIP_ON; mode++) {
        const hf_kmeans_opts o = {.k = K,
                                  .init = HF_INIT_GIVEN,
                                  .centroids = &given,
                                  .max_iter = 1,
                                  .empty = HF_EMPTY_KEEP,
                                  .skipping = (hf_skipping)mode};
        hf_kmeans_result r = fit_ok(ctx, &p, &o);
        for (int i = 0; i < N; i++)
            assert_int_equal(r.labels[i], 1);
        hf_kmeans_result_clear(&r);
    }
    problem_free(&p);
    free(v);
    hf_context_destroy(ctx);
}

static void stored_as_the_data(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F16, HF_BF16};
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(8, 800, 6, 9, 5);
    for (int t = 0; t < 2; t++) {
        struct problem p = problem_from(v, 800, 6, types[t], 0);
        const hf_kmeans_opts o = {.k = 11, .store = HF_CENTROIDS_SAME, .seed = 4};
        hf_kmeans_result r = fit_ok(ctx, &p, &o);
        for (int i = 0; i < 11 * 6; i++) {
            const double c = (double)((float *)r.centroids.data)[i];
            assert_true(c == hf_round_to(c, types[t]));
        }
        hf_kmeans_result_clear(&r);
        problem_free(&p);
    }
    free(v);
    hf_context_destroy(ctx);
}

static void directions_have_length_one(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(9, 800, 6, 9, 5);
    memset(v + 6 * 13, 0, 6 * sizeof(double)); /* a row without direction */
    struct problem p = problem_from(v, 800, 6, HF_F64, 0);
    const hf_kmeans_opts o = {.k = 7, .metric = HF_COSINE, .tol = -1, .seed = 4};
    hf_kmeans_result r = fit_ok(ctx, &p, &o);
    for (int l = 0; l < 7; l++) {
        double square = 0;
        for (int j = 0; j < 6; j++)
            square += pow(((double *)r.centroids.data)[l * 6 + j], 2);
        assert_true(fabs(square - 1) < 1e-14);
    }
    for (int i = 1; i < r.iterations; i++)
        assert_true(r.history[i].inertia <= r.history[i - 1].inertia + 1e-9);
    hf_kmeans_result_clear(&r);
    problem_free(&p);
    free(v);
    hf_context_destroy(ctx);
}

struct received {
    double *all;
    int64_t k, next;
    int64_t stop_at; /* row; -1: never */
};

static int receive(void *user, int64_t first, int64_t count, const double *distances) {
    struct received *r = user;
    assert_int_equal(first, r->next);
    r->next += count;
    memcpy(r->all + first * r->k, distances, (size_t)(count * r->k) * sizeof(double));
    return r->stop_at >= 0 && r->next > r->stop_at;
}

static void predict_and_transform(void **state) {
    (void)state;
    enum { N = 3000, D = 9, K = 14 };
    double *v = blobs(10, N, D, 12, 3);
    struct problem p = problem_from(v, N, D, HF_F32, 0);
    const hf_source source = {.rows = N, .cols = D, .dtype = HF_F32, .read = read_f32, .user = &p};
    int32_t *labels = must_alloc(N * sizeof(int32_t));
    double *distances = must_alloc(N * sizeof(double));
    struct received got = {.all = must_alloc(N * K * sizeof(double)), .k = K};
    for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++)
        for (int streamed = 0; streamed < 2; streamed++) {
            hf_context *ctx = open_context(2, streamed ? 1 << 20 : 0);
            hf_context *big = open_context(2, 0);
            const hf_kmeans_opts o = {.k = K, .metric = (hf_metric)metric, .seed = 1};
            hf_kmeans_result r = fit_ok(big, &p, &o);
            const hf_array *x = streamed ? NULL : &p.x;
            const hf_source *s = streamed ? &source : NULL;
            double inertia;
            FIT_OK(ctx, hf_kmeans_predict(ctx, x, s, &r.centroids, o.metric, HF_EXACT, NULL, labels,
                                          distances, &inertia));
            assert_memory_equal(labels, r.labels, N * sizeof(int32_t));
            assert_true(fabs(inertia - r.inertia) <= 1e-13 * fabs(r.inertia));
            got.next = 0;
            got.stop_at = -1;
            FIT_OK(ctx, hf_kmeans_transform(ctx, x, s, &r.centroids, o.metric, receive, &got));
            assert_int_equal(got.next, N);
            double *c = centers64(&r.centroids);
            for (int i = 0; i < N; i++)
                for (int l = 0; l < K; l++) {
                    double d = brute_distance(o.metric, p.x64 + i * D, c + l * D, D);
                    if (l == labels[i])
                        assert_true(d == distances[i]);
                    d = metric == HF_EUCLIDEAN ? sqrt(d) : d;
                    assert_true(got.all[i * K + l] == d);
                }
            got.next = 0;
            got.stop_at = 0;
            assert_int_equal(hf_kmeans_transform(ctx, x, s, &r.centroids, o.metric, receive, &got),
                             HF_E_CANCELLED);
            free(c);
            hf_kmeans_result_clear(&r);
            hf_context_destroy(ctx);
            hf_context_destroy(big);
        }
    free(got.all);
    free(distances);
    free(labels);
    problem_free(&p);
    free(v);
}

/* The filter's answer may differ, but never by more than rounding of float32 allows. */
static void fast_is_close(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(11, 5000, 16, 20, 1);
    struct problem p = problem_from(v, 5000, 16, HF_F32, 0);
    const hf_kmeans_opts o = {.k = 20, .precision = HF_FAST, .seed = 3};
    hf_kmeans_result r = {0};
    FIT_OK(ctx, hf_kmeans_fit(ctx, &p.x, &o, &r));
    double *c = centers64(&r.centroids);
    for (int64_t i = 0; i < p.n; i++) {
        double least;
        brute_label(HF_EUCLIDEAN, p.x64 + i * 16, c, 20, 16, &least);
        const double own = brute_distance(HF_EUCLIDEAN, p.x64 + i * 16, c + r.labels[i] * 16, 16);
        assert_true(own <= least + 1e-3);
    }
    free(c);
    hf_kmeans_result_clear(&r);
    problem_free(&p);
    free(v);
    hf_context_destroy(ctx);
}

static void take_warning(void *user, const char *text) {
    char *kept = user;
    assert_string_equal(kept, ""); /* one is enough */
    snprintf(kept, 200, "%s", text);
}

static void fewer_points_than_clusters(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(13, 400, 3, 4, 5);
    for (int points = 3; points <= 400; points += 397) {
        for (int64_t i = points; i < 400; i++)
            memcpy(v + i * 3, v + i % points * 3, 3 * sizeof(double));
        struct problem p = problem_from(v, 400, 3, HF_F32, 0);
        for (int at = 0; at < 9; at++) {
            char text[200] = "";
            const hf_kmeans_opts o = {.k = 5,
                                      .init = (hf_init)(at % 3),
                                      .empty = (hf_empty)(at / 3),
                                      .warn = take_warning,
                                      .warn_user = text};
            hf_kmeans_result r = fit_ok(ctx, &p, &o);
            assert_int_equal(r.clusters_found, points == 3 ? 3 : 5);
            assert_true((text[0] != 0) == (points == 3));
            assert_true(points > 3 || strstr(text, "only 3 of 5 clusters have rows"));
            hf_kmeans_result_clear(&r);
        }
        problem_free(&p);
        free(v);
        v = blobs(13, 400, 3, 4, 5);
    }
    free(v);
    hf_context_destroy(ctx);
}

/* Memory that changes under a fit, as a faulty machine would do it: one bit of one row. */
static int flip_a_bit(void *user, int restart, int iteration, const hf_kmeans_iteration *it,
                      int64_t done, int64_t total) {
    (void)restart;
    (void)it;
    (void)done;
    (void)total;
    if (iteration == 2)
        *(uint32_t *)user ^= 1u << 18;
    return 0;
}

static void changed_memory_is_noticed(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(12, 2000, 8, 12, 2);
    for (int skipping = HF_SKIP_OFF; skipping <= HF_SKIP_ON; skipping++)
        for (int row = 0; row < 2000; row += 371) {
            struct problem p = problem_from(v, 2000, 8, HF_F32, 0);
            const hf_kmeans_opts o = {.k = 12,
                                      .init = HF_INIT_RANDOM,
                                      .tol = -1,
                                      .skipping = (hf_skipping)skipping,
                                      .progress = flip_a_bit,
                                      .progress_user = (float *)p.x.data + row * 8 + 3};
            hf_kmeans_result r = {0};
            assert_int_equal(hf_kmeans_fit(ctx, &p.x, &o, &r), HF_E_CORRUPT);
            assert_null(r.labels);
            problem_free(&p);
        }
    free(v);
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(inertia_falls_and_centroids_are_means),
                                       cmocka_unit_test(one_cluster_and_one_each),
                                       cmocka_unit_test(stops),
                                       cmocka_unit_test(weights_are_copies),
                                       cmocka_unit_test(restarts_keep_the_best),
                                       cmocka_unit_test(centroids_out_of_sight),
                                       cmocka_unit_test(stored_as_the_data),
                                       cmocka_unit_test(directions_have_length_one),
                                       cmocka_unit_test(predict_and_transform),
                                       cmocka_unit_test(fast_is_close),
                                       cmocka_unit_test(fewer_points_than_clusters),
                                       cmocka_unit_test(changed_memory_is_noticed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
