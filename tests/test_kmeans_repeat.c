/* SPDX-License-Identifier: Apache-2.0
 * Repeatable means the same bits: for any number of threads, any chunk, any place of the data,
 * with or without skipping, alone or in a batch. */
#include "kmeans_brute.h"

/* Rows of a problem, handed out on demand. */
static hf_status read_rows(void *user, int64_t first, int64_t count, void *dst, char *message,
                           size_t message_bytes) {
    (void)message;
    (void)message_bytes;
    const struct problem *p = user;
    const size_t row = (size_t)p->d * hf_dtype_bytes(p->x.dtype);
    for (int64_t i = 0; i < count; i++)
        memcpy((char *)dst + (size_t)i * row,
               (const char *)p->x.data +
                   (size_t)((first + i) * p->x.row_stride) * hf_dtype_bytes(p->x.dtype),
               row);
    return HF_OK;
}

static hf_source source_of(struct problem *p) {
    return (hf_source){
        .rows = p->n, .cols = p->d, .dtype = p->x.dtype, .read = read_rows, .user = p};
}

static struct problem some_blobs(uint64_t seed, int64_t n, int64_t d, hf_dtype dtype, int64_t gap) {
    double *v = blobs(seed, n, d, 12, 3);
    struct problem p = problem_from(v, n, d, dtype, gap);
    free(v);
    return p;
}

static hf_kmeans_result fit_with(const struct problem *p, const hf_kmeans_opts *o, int threads,
                                 uint64_t memory) {
    hf_context *ctx = open_context(threads, memory);
    hf_kmeans_result r = {0};
    FIT_OK(ctx, hf_kmeans_fit(ctx, &p->x, o, &r));
    hf_context_destroy(ctx);
    return r;
}

static void threads_and_memory(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F32, HF_F64, HF_U8, HF_BF16};
    const int threads[] = {2, 7, 3};
    for (int t = 0; t < 4; t++)
        for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++) {
            struct problem p = some_blobs(1, 9000, 10, types[t], 0);
            float *w = must_alloc(9000 * sizeof(float));
            for (int i = 0; i < 9000; i++)
                w[i] = (float)(i % 5) * 0.3f;
            const hf_array weights = hf_array_view(w, HF_F32, 9000, 1);
            const hf_kmeans_opts o = {.k = 30,
                                      .metric = (hf_metric)metric,
                                      .seed = 4,
                                      .n_init = 2,
                                      .weights = t % 2 ? &weights : NULL};
            hf_kmeans_result one = fit_with(&p, &o, 1, 0);
            for (int i = 0; i < 3; i++) {
                hf_kmeans_result other = fit_with(&p, &o, threads[i], i == 1 ? 4 << 20 : 0);
                assert_same_fit(&one, &other);
                hf_kmeans_result_clear(&other);
            }
            hf_kmeans_result_clear(&one);
            free(w);
            problem_free(&p);
        }
}

/* A source, read within a limit, against the array. */
static void compare_source(struct problem *p, const hf_kmeans_opts *o, uint64_t limit,
                           bool in_parts) {
    const hf_source source = source_of(p);
    hf_kmeans_result whole = fit_with(p, o, 2, 0);
    hf_context *ctx = open_context(2, limit);
    hf_kmeans_result r = {0};
    FIT_OK(ctx, hf_kmeans_fit_source(ctx, &source, o, &r));
    assert_same_fit(&whole, &r);
    assert_true(!in_parts || r.chunk_rows < p->n / 2);
    hf_kmeans_result_clear(&r);
    hf_kmeans_result_clear(&whole);
    hf_context_destroy(ctx);
}

static void any_chunk(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F32, HF_F64, HF_F16, HF_U8};
    for (int t = 0; t < 4; t++) {
        struct problem p = some_blobs(2, 40000, 24, types[t], 2);
        hf_array start = hf_array_view(p.x64, HF_F64, 20, 24);
        hf_kmeans_opts o = {.k = 20, .init = HF_INIT_GIVEN, .centroids = &start, .max_iter = 12};
        const uint64_t small[] = {1 << 20, 3 << 19};
        for (int i = 0; i < 2; i++)
            compare_source(&p, &o, small[i], types[t] != HF_U8);
        o.centroids = NULL;
        for (int init = HF_INIT_KMEANSPP; init <= HF_INIT_RANDOM; init++) {
            o.init = (hf_init)init;
            compare_source(&p, &o, 0, false);
            compare_source(&p, &o, 5 << 20, t < 2 && init != HF_INIT_RANDOM);
        }
        problem_free(&p);
    }
}

/* Rows from memory, and in chunks from a source. */
static void predict_in_any_memory(struct problem *p, const hf_array *centroids) {
    const hf_source source = source_of(p);
    const size_t bytes = (size_t)p->n * sizeof(int32_t);
    int32_t *want = must_alloc(bytes), *labels = must_alloc(bytes);
    for (int i = 0; i < 2; i++) {
        hf_context *ctx = open_context(1 + i, i ? (uint64_t)16 << 20 : 0);
        FIT_OK(ctx, hf_kmeans_predict(ctx, i ? NULL : &p->x, i ? &source : NULL, centroids,
                                      HF_EUCLIDEAN, HF_FAST, NULL, i ? labels : want, NULL, NULL));
        hf_context_destroy(ctx);
    }
    assert_memory_equal(want, labels, bytes);
    free(want);
    free(labels);
}

/* The same of labels that are not exact: the kernel that made them and the rows that bounds decided
 * are the same too, or the fit is refused. */
static void fast_in_any_memory(void **state) {
    (void)state;
    const int64_t n = 40000, d = 128;
    struct hf_rng rng = {.seed = 12};
    double *v = must_alloc((size_t)(n * d) * sizeof(double));
    for (int64_t i = 0; i < n * d; i++)
        v[i] = (double)(hf_rng_next(&rng) % 2); /* the first labels have many ties */
    struct problem p = problem_from(v, n, d, HF_F32, 0);
    free(v);
    const hf_source source = source_of(&p);
    const hf_kmeans_opts o = {
        .k = 80, .init = HF_INIT_RANDOM, .max_iter = 8, .tol = -1, .precision = HF_FAST};
    const uint64_t limits[] = {0, (uint64_t)28 << 20, (uint64_t)20 << 20, (uint64_t)6 << 20};
    hf_kmeans_result want = fit_with(&p, &o, 1, 0);
    for (int i = 0; i < 4; i++) {
        hf_context *ctx = open_context(1 + i, limits[i]);
        hf_kmeans_result r = {0};
        if (i == 3) {
            assert_int_equal(hf_kmeans_fit_source(ctx, &source, &o, &r), HF_E_NOMEM);
            assert_non_null(strstr(hf_last_error(ctx), "exact labels"));
        } else {
            FIT_OK(ctx, hf_kmeans_fit_source(ctx, &source, &o, &r));
            assert_same_fit(&want, &r);
            assert_string_equal(want.kernel_assign, r.kernel_assign);
            for (int t = 0; t < r.iterations; t++)
                assert_int_equal(want.history[t].rows_skipped, r.history[t].rows_skipped);
            assert_true(i < 2 || r.chunk_rows < p.n / 2);
        }
        hf_kmeans_result_clear(&r);
        hf_context_destroy(ctx);
    }
    predict_in_any_memory(&p, &want.centroids);
    hf_kmeans_result_clear(&want);
    problem_free(&p);
}

/* Skipping on, off and auto; it must also have skipped something, or the test says nothing. */
static void skipping_changes_nothing(void **state) {
    (void)state;
    const int64_t shapes[][3] = {{8000, 2, 60}, {8000, 24, 25}, {3000, 6, 300}, {500, 40, 2}};
    for (int s = 0; s < 4; s++)
        for (int t = 0; t < 2; t++) {
            struct problem p = some_blobs(3, shapes[s][0], shapes[s][1], t ? HF_F64 : HF_F32, 0);
            hf_kmeans_opts o = {
                .k = shapes[s][2], .seed = 8, .tol = -1, .max_iter = 60, .skipping = HF_SKIP_OFF};
            hf_kmeans_result off = fit_with(&p, &o, 2, 0);
            int64_t skipped[3] = {0, 0, 0};
            for (int mode = HF_SKIP_AUTO; mode <= HF_SKIP_ON; mode++) {
                o.skipping = (hf_skipping)mode;
                hf_kmeans_result r = fit_with(&p, &o, 2, 0);
                assert_same_fit(&off, &r);
                for (int i = 0; i < r.iterations; i++)
                    skipped[mode] += r.history[i].rows_skipped + r.history[i].rows_partial;
                hf_kmeans_result_clear(&r);
            }
            assert_int_equal(skipped[HF_SKIP_OFF], 0);
            assert_true(skipped[HF_SKIP_ON] > p.n);
            /* of two clusters both move, and looking at both is never dearer than bounds */
            assert_true(skipped[HF_SKIP_AUTO] > 0 || o.k == 2);
            check_result(&p, &o, &off);
            hf_kmeans_result_clear(&off);
            problem_free(&p);
        }
}

/* Many rows, clusters and iterations: the queues of the skipping kernel fill, drain and mix rows
 * that looked at all centroids with rows that looked at the moved ones. */
static void skipping_on_cities(void **state) {
    (void)state;
    hf_context *ctx = open_context(1, 0);
    struct problem p = problem_open(ctx, "geo-cities/latlon_f32.npy", INT64_MAX);
    hf_context_destroy(ctx);
    hf_kmeans_opts o = {.k = 1024,
                        .init = HF_INIT_RANDOM,
                        .seed = 3,
                        .tol = -1,
                        .max_iter = 36,
                        .skipping = HF_SKIP_OFF};
    hf_kmeans_result off = fit_with(&p, &o, 2, 0);
    o.skipping = HF_SKIP_ON;
    for (int threads = 1; threads <= 2; threads++) {
        hf_kmeans_result on = fit_with(&p, &o, threads, 0);
        int64_t skipped = 0;
        assert_same_fit(&off, &on);
        for (int i = 0; i < on.iterations; i++)
            skipped += on.history[i].rows_skipped + on.history[i].rows_partial;
        assert_true(skipped > p.n);
        hf_kmeans_result_clear(&on);
    }
    hf_kmeans_result_clear(&off);
    problem_free(&p);
}

/* Rows with NaN or Inf are left out: as if they had never been there. */
static void dropped_rows(void **state) {
    (void)state;
    const int64_t n = 3000;
    const int64_t d = 7;
    double *v = blobs(4, n, d, 8, 5);
    double *clean = must_alloc((size_t)(n * d) * sizeof(double));
    double *w = must_alloc((size_t)n * sizeof(double));
    double *clean_w = must_alloc((size_t)n * sizeof(double));
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        w[i] = 1 + (double)(i % 4);
        if (i % 97 == 0 || (i > 500 && i < 640) || i == n - 1) {
            v[i * d + i % d] = i % 2 ? NAN : -INFINITY;
            continue;
        }
        memcpy(clean + kept * d, v + i * d, (size_t)d * sizeof(double));
        clean_w[kept++] = w[i];
    }
    const hf_array weights = hf_array_view(w, HF_F64, n, 1);
    const hf_array clean_weights = hf_array_view(clean_w, HF_F64, kept, 1);
    for (int t = 0; t < 2; t++) {
        struct problem p = problem_from(v, n, d, t ? HF_F64 : HF_F32, 1);
        struct problem q = problem_from(clean, kept, d, t ? HF_F64 : HF_F32, 0);
        hf_kmeans_opts o = {.k = 9, .seed = 2, .nan = HF_NAN_DROP, .weights = &weights};
        hf_kmeans_result dirty = fit_with(&p, &o, 2, 0);
        hf_context *ctx = open_context(2, 4 << 20);
        const hf_source source = source_of(&p);
        hf_kmeans_result read = {0};
        FIT_OK(ctx, hf_kmeans_fit_source(ctx, &source, &o, &read));
        assert_same_fit(&dirty, &read);
        o.weights = &clean_weights;
        o.nan = HF_NAN_ERROR;
        hf_kmeans_result r = fit_with(&q, &o, 2, 0);
        assert_int_equal(dirty.rows_dropped, n - kept);
        assert_int_equal(dirty.iterations, r.iterations);
        assert_true(dirty.inertia == r.inertia);
        int64_t at = 0;
        for (int64_t i = 0; i < n; i++) {
            const bool bad = i % 97 == 0 || (i > 500 && i < 640) || i == n - 1;
            assert_int_equal(dirty.labels[i], bad ? -1 : r.labels[at]);
            at += !bad;
        }
        hf_kmeans_result_clear(&dirty);
        hf_kmeans_result_clear(&read);
        hf_kmeans_result_clear(&r);
        hf_context_destroy(ctx);
        problem_free(&p);
        problem_free(&q);
    }
    free(v);
    free(clean);
    free(w);
    free(clean_w);
}

static void batch_is_single_fits(void **state) {
    (void)state;
    enum { COUNT = 9 };
    struct problem p[COUNT];
    hf_array x[COUNT];
    hf_kmeans_result r[COUNT];
    for (int i = 0; i < COUNT; i++) {
        p[i] = some_blobs(10 + (uint64_t)i, 400, 5, HF_F32, i % 2);
        x[i] = p[i].x;
    }
    const int threads[] = {1, 4};
    for (int t = 0; t < 2; t++) {
        hf_context *ctx = open_context(threads[t], 0);
        const hf_kmeans_opts o = {.k = 6, .seed = 40};
        FIT_OK(ctx, hf_kmeans_fit_batch(ctx, x, COUNT, &o, r));
        for (int i = 0; i < COUNT; i++) {
            hf_kmeans_opts single = o;
            single.seed += (uint64_t)i;
            hf_kmeans_result alone = fit_with(&p[i], &single, 2, 0);
            assert_same_fit(&alone, &r[i]);
            hf_kmeans_result_clear(&alone);
            hf_kmeans_result_clear(&r[i]);
        }
        /* all or nothing: problem 5 has a NaN */
        float *bad = (float *)x[5].data + 3;
        const float was = *bad;
        *bad = NAN;
        memset(r, 0x5a, sizeof(r));
        assert_int_equal(hf_kmeans_fit_batch(ctx, x, COUNT, &o, r), HF_E_DATA);
        assert_non_null(strstr(hf_last_error(ctx), "problem 5"));
        for (size_t i = 0; i < sizeof(r); i++)
            assert_int_equal(((const unsigned char *)r)[i], 0x5a);
        *bad = was;
        hf_context_destroy(ctx);
    }
    for (int i = 0; i < COUNT; i++)
        problem_free(&p[i]);
}

static hf_kmeans_result fit_given(struct problem *p, hf_array *start) {
    const hf_kmeans_opts o = {
        .k = start->rows, .init = HF_INIT_GIVEN, .centroids = start, .tol = -1, .max_iter = 80};
    return fit_with(p, &o, 2, 0);
}

/* Another order of rows gives the same centroids and, in that order, the same labels, and so do
 * columns: whole numbers, whose sums are the same in any order. */
static void rows_and_columns_permuted(void **state) {
    (void)state;
    enum { N = 2000, D = 6, K = 11 };
    double *v = blobs(5, N, D, 9, 20);
    for (int i = 0; i < N * D; i++)
        v[i] = rint(v[i] * 3 + 100);
    double *rows = must_alloc(N * D * sizeof(double));
    double *cols = must_alloc(N * D * sizeof(double));
    for (int i = 0; i < N; i++)
        for (int j = 0; j < D; j++) {
            rows[i * D + j] = v[(i * 7 % N) * D + j];
            cols[i * D + j] = v[i * D + (j + 2) % D];
        }
    struct problem a = problem_from(v, N, D, HF_F32, 0);
    struct problem b = problem_from(rows, N, D, HF_F32, 0);
    struct problem c = problem_from(cols, N, D, HF_F32, 0);
    double start[K * D];
    double turned[K * D];
    for (int l = 0; l < K; l++)
        for (int j = 0; j < D; j++) {
            start[l * D + j] = v[(l * 150 + 3) * D + j];
            turned[l * D + j] = v[(l * 150 + 3) * D + (j + 2) % D];
        }
    hf_array s = hf_array_view(start, HF_F64, K, D);
    hf_array t = hf_array_view(turned, HF_F64, K, D);
    hf_kmeans_result plain = fit_given(&a, &s);
    hf_kmeans_result by_row = fit_given(&b, &s);
    hf_kmeans_result by_col = fit_given(&c, &t);
    assert_int_equal(plain.stop, HF_STOP_LABELS);
    assert_int_equal(by_row.iterations, plain.iterations);
    assert_int_equal(by_col.iterations, plain.iterations);
    assert_true(by_row.inertia == plain.inertia);
    assert_memory_equal(by_row.centroids.data, plain.centroids.data, K * D * sizeof(float));
    for (int i = 0; i < N; i++) {
        assert_int_equal(by_row.labels[i], plain.labels[i * 7 % N]);
        assert_int_equal(by_col.labels[i], plain.labels[i]);
    }
    const float *p0 = plain.centroids.data;
    const float *p1 = by_col.centroids.data;
    for (int l = 0; l < K; l++)
        for (int j = 0; j < D; j++)
            assert_true(p1[l * D + j] == p0[l * D + (j + 2) % D]);
    hf_kmeans_result_clear(&plain);
    hf_kmeans_result_clear(&by_row);
    hf_kmeans_result_clear(&by_col);
    problem_free(&a);
    problem_free(&b);
    problem_free(&c);
    free(v);
    free(rows);
    free(cols);
}

/* Another order of the clusters gives the same clusters. No ties here: those go by the order. */
static void clusters_permuted(void **state) {
    (void)state;
    enum { N = 2000, D = 6, K = 11 };
    struct problem p = some_blobs(6, N, D, HF_F64, 0);
    double start[K * D];
    double mirrored[K * D];
    for (int l = 0; l < K; l++)
        for (int j = 0; j < D; j++)
            mirrored[(K - 1 - l) * D + j] = start[l * D + j] = p.x64[(l * 150 + 3) * D + j];
    hf_array s = hf_array_view(start, HF_F64, K, D);
    hf_array m = hf_array_view(mirrored, HF_F64, K, D);
    hf_kmeans_result a = fit_given(&p, &s);
    hf_kmeans_result b = fit_given(&p, &m);
    assert_int_equal(a.iterations, b.iterations);
    assert_true(a.inertia == b.inertia);
    for (int i = 0; i < N; i++)
        assert_int_equal(b.labels[i], K - 1 - a.labels[i]);
    for (int l = 0; l < K; l++)
        assert_memory_equal((double *)b.centroids.data + (K - 1 - l) * D,
                            (double *)a.centroids.data + l * D, D * sizeof(double));
    hf_kmeans_result_clear(&a);
    hf_kmeans_result_clear(&b);
    problem_free(&p);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(threads_and_memory),
                                       cmocka_unit_test(any_chunk),
                                       cmocka_unit_test(fast_in_any_memory),
                                       cmocka_unit_test(skipping_changes_nothing),
                                       cmocka_unit_test(dropped_rows),
                                       cmocka_unit_test(batch_is_single_fits),
                                       cmocka_unit_test(rows_and_columns_permuted),
                                       cmocka_unit_test(clusters_permuted),
                                       cmocka_unit_test(skipping_on_cities)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
