/* SPDX-License-Identifier: Apache-2.0
 * Exact means exact: every label is the brute force's, on real and on nasty data. */
#include "kmeans_rows.h"

#include "algo/kmeans/workspace.h"
#include "algo/kmeans/prepare.h"
#include "algo/kmeans/scan.h"
#include "ops/moments/moments.h"

static const char *const files[] = {"digits-64d/digits.csv.gz", "geo-cities/latlon_f32.npy",
                                    "sift5k-128d/sift5k_base.fvecs",
                                    "fashion-mnist/t10k-images-idx3-ubyte.gz"};

static void fit_and_check(hf_context *ctx, const struct problem *p, const hf_kmeans_opts *o) {
    hf_kmeans_result r = {0};
    FIT_OK(ctx, hf_kmeans_fit(ctx, &p->x, o, &r));
    check_result(p, o, &r);
    hf_kmeans_result_clear(&r);
}

static void real_data_any_init(void **state) {
    (void)state;
    const int64_t rows[] = {2000, 20000, 5000, 1500};
    hf_context *ctx = open_context(2, 0);
    for (int f = 0; f < 4; f++) {
        struct problem p = problem_open(ctx, files[f], rows[f]);
        for (int init = HF_INIT_KMEANSPP; init <= HF_INIT_RANDOM; init++) {
            const hf_kmeans_opts o = {.k = 24, .init = (hf_init)init, .seed = 3, .max_iter = 12};
            fit_and_check(ctx, &p, &o);
        }
        problem_free(&p);
    }
    hf_context_destroy(ctx);
}

/* The first k distinct rows, every `step`. */
static double *rows_as_centers(const struct problem *p, int64_t k, int64_t step) {
    double *c = must_alloc((size_t)(k * p->d) * sizeof(double));
    for (int64_t j = 0; j < k; j++)
        memcpy(c + j * p->d, p->x64 + j * step * p->d, (size_t)p->d * sizeof(double));
    return c;
}

/* The whole way, iteration by iteration, is that of the brute force. Whole-number data have
 * exact sums in both, so the centroids must agree to the bit; cities agree in every label. */
static void real_data_same_path(void **state) {
    (void)state;
    const int64_t rows[] = {1797, 8000, 3000, 800};
    hf_context *ctx = open_context(2, 0);
    for (int f = 0; f < 4; f++) {
        struct problem p = problem_open(ctx, files[f], rows[f]);
        const int64_t k = 12;
        double *c = rows_as_centers(&p, k, p.n / k);
        const hf_array start = hf_array_view(must_alloc((size_t)(k * p.d) * 8), HF_F64, k, p.d);
        memcpy(start.data, c, (size_t)(k * p.d) * 8);
        const hf_kmeans_opts o = {
            .k = k, .init = HF_INIT_GIVEN, .centroids = &start, .max_iter = 40, .tol = -1};
        hf_kmeans_result r = {0};
        FIT_OK(ctx, hf_kmeans_fit(ctx, &p.x, &o, &r));
        int32_t *labels = must_alloc((size_t)p.n * sizeof(int32_t));
        const int iterations = brute_lloyd(&p, c, k, HF_F32, 40, labels);
        assert_int_equal(r.iterations, iterations);
        if (r.stop == HF_STOP_LABELS)
            assert_memory_equal(r.labels, labels, (size_t)p.n * sizeof(int32_t));
        for (int64_t i = 0; f != 1 && i < k * p.d; i++)
            assert_true((double)((float *)r.centroids.data)[i] == c[i]);
        check_result(&p, &o, &r);
        hf_kmeans_result_clear(&r);
        free(labels);
        free(start.data);
        free(c);
        problem_free(&p);
    }
    hf_context_destroy(ctx);
}

static void every_type_metric_and_stride(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(7, 700, 19, 9, 6);
    for (int64_t i = 0; i < 700 * 19; i++)
        v[i] = v[i] * 4 + 60;
    for (int t = 0; t < 5; t++)
        for (int gap = 0; gap <= 3; gap += 3)
            for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++) {
                struct problem p = problem_from(v, 700, 19, types[t], gap);
                const hf_kmeans_opts o = {
                    .k = 13, .metric = (hf_metric)metric, .seed = 5, .max_iter = 25};
                fit_and_check(ctx, &p, &o);
                problem_free(&p);
            }
    free(v);
    hf_context_destroy(ctx);
}

static void check_values(const double *v, int64_t n, int64_t d, int64_t k) {
    const hf_dtype types[] = {HF_F32, HF_F64};
    hf_context *ctx = open_context(2, 0);
    for (int t = 0; t < 2; t++)
        for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++)
            for (int init = HF_INIT_KMEANSPP; init <= HF_INIT_RANDOM; init++) {
                struct problem p = problem_from(v, n, d, types[t], 0);
                const hf_kmeans_opts o = {.k = k,
                                          .metric = (hf_metric)metric,
                                          .init = (hf_init)init,
                                          .seed = 11,
                                          .max_iter = 15};
                fit_and_check(ctx, &p, &o);
                problem_free(&p);
            }
    hf_context_destroy(ctx);
}

static void huge_offset(void **state) {
    (void)state;
    double *v = blobs(1, 1500, 8, 1, 0);
    for (int64_t i = 0; i < 1500 * 8; i++)
        v[i] += 1e4;
    check_values(v, 1500, 8, 20);
    free(v);
}

static void columns_of_all_scales(void **state) {
    (void)state;
    double *v = blobs(2, 1200, 9, 5, 4);
    for (int64_t i = 0; i < 1200; i++)
        for (int64_t j = 0; j < 9; j++)
            v[i * 9 + j] *= pow(10, -20 + 5 * (double)j);
    check_values(v, 1200, 9, 14);
    free(v);
}

/* 256 values a column, where float64 begins to lack every other whole number. */
static void bytes_far_out(void **state) {
    (void)state;
    const int64_t n = 900, d = 160;
    double *v = must_alloc((size_t)(n * d) * sizeof(double));
    for (int64_t i = 0; i < n * d; i++) {
        const int64_t step = (i / d % 30 * 37 + i % d * 11 + i * i % 23) % 256;
        v[i] = 0x1p53 + (double)(step <= 127 ? step - 127 : (step - 127) / 2 * 2);
    }
    for (int64_t f = 0; f < d; f++)
        v[f] = 0x1p53 - 127;
    for (int64_t f = 0; f < d; f++)
        v[d + f] = 0x1p53 + 128;
    check_values(v, n, d, 40);
    free(v);
}

/* Few distinct rows, many times: ties everywhere, and more clusters than distinct rows. */
static void duplicated(void **state) {
    (void)state;
    double *few = blobs(3, 10, 5, 3, 3);
    double *v = must_alloc(600 * 5 * sizeof(double));
    for (int64_t i = 0; i < 600; i++)
        memcpy(v + i * 5, few + (i * 7 % 10) * 5, 5 * sizeof(double));
    check_values(v, 600, 5, 8);
    check_values(v, 600, 5, 16);
    free(v);
    free(few);
}

/* A grid: most rows lie at the same distance from several centroids. */
static void ties(void **state) {
    (void)state;
    double *v = must_alloc(900 * 2 * sizeof(double));
    for (int64_t i = 0; i < 900; i++) {
        v[i * 2] = (double)(i % 30);
        v[i * 2 + 1] = (double)(i / 30);
    }
    check_values(v, 900, 2, 9);
    check_values(v, 900, 2, 225);
    free(v);
}

static void tiny_and_huge_values(void **state) {
    (void)state;
    double *v = blobs(4, 500, 6, 4, 5);
    const double scales[] = {1e-30, 1e30, 1e-36};
    for (int s = 0; s < 3; s++) {
        double *w = must_alloc(500 * 6 * sizeof(double));
        for (int64_t i = 0; i < 500 * 6; i++)
            w[i] = v[i] * scales[s];
        check_values(w, 500, 6, 7);
        free(w);
    }
    free(v);
}

static void edge_shapes(void **state) {
    (void)state;
    const int64_t shapes[][3] = {{1, 1, 1},  {1, 40, 1},   {2, 1, 2},   {7, 3, 1},   {7, 3, 7},
                                 {33, 1, 5}, {64, 17, 64}, {5, 300, 3}, {257, 2, 16}};
    hf_context *ctx = open_context(2, 0);
    for (size_t s = 0; s < sizeof(shapes) / sizeof(shapes[0]); s++) {
        const int64_t n = shapes[s][0];
        const int64_t d = shapes[s][1];
        double *v = blobs(s, n, d, 3, 4);
        for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++) {
            struct problem p = problem_from(v, n, d, HF_F32, 0);
            const hf_kmeans_opts o = {.k = shapes[s][2], .metric = (hf_metric)metric, .seed = 1};
            fit_and_check(ctx, &p, &o);
            problem_free(&p);
        }
        free(v);
    }
    hf_context_destroy(ctx);
}

static void weighted(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(8, 900, 4, 6, 5);
    struct problem p = problem_from(v, 900, 4, HF_F32, 0);
    float *w = must_alloc(900 * sizeof(float));
    struct hf_rng rng = {.seed = 9};
    for (int i = 0; i < 900; i++)
        w[i] = i % 11 == 0 ? 0 : (float)exp(3 * hf_rng_next_normal(&rng));
    const hf_array weights = hf_array_view(w, HF_F32, 900, 1);
    for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++) {
        const hf_kmeans_opts o = {.k = 10, .metric = (hf_metric)metric, .weights = &weights};
        fit_and_check(ctx, &p, &o);
    }
    free(w);
    free(v);
    problem_free(&p);
    hf_context_destroy(ctx);
}

/* Many clusters and few, with bounds and without. */
static int every_row_and_size(hf_context *ctx, const struct problem *p) {
    int rows = 0;
    for (int way = 0; way < 4; way++) {
        const hf_kmeans_opts o = {.k = way / 2 ? 64 : 1024,
                                  .init = HF_INIT_RANDOM,
                                  .skipping = way % 2 ? HF_SKIP_ON : HF_SKIP_OFF,
                                  .seed = 6,
                                  .max_iter = 6};
        rows = every_row(ctx, p, &o);
    }
    return rows;
}

/* One to three columns: blobs, so far apart that few bits tell them, side by side, a lattice; and
 * cities. */
static void narrow_rows(void **state) {
    (void)state;
    const double steps[] = {0.03, 1.3, 4};
    hf_context *ctx = open_context(2, 0);
    struct problem cities = problem_open(ctx, files[1], 3000);
    const int rows = every_row_and_size(ctx, &cities);
    problem_free(&cities);
    for (int64_t d = 1; d <= 3; d++)
        for (int kind = 0; kind < 3; kind++) {
            double *v = blobs(21, 3000, d, 64, kind == 0 ? 1000 : 10);
            for (int64_t i = 0; kind == 2 && i < 3000 * d; i++)
                v[i] = rint(v[i] / steps[d - 1]);
            struct problem p = problem_from(v, 3000, d, HF_F32, 0);
            every_row_and_size(ctx, &p);
            problem_free(&p);
            free(v);
        }
    print_message("%d rows of op assign\n", rows);
    assert_true(rows > 0);
    hf_context_destroy(ctx);
}

/* Means and variances of op moments, whatever the fit took them from. */
static void moments_again(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    const size_t column = (size_t)problem->d * sizeof(double);
    double *own = must_alloc(7 * column);
    struct hf_scan s = {.fit = fit,
                        .sum = (int64_t *)(void *)own,
                        .sum_square = (int64_t *)(void *)(own + 2 * problem->d),
                        .middle = own + 4 * problem->d,
                        .mult = own + 5 * problem->d,
                        .mult_square = own + 6 * problem->d};
    hf_scan_plan_moments(&s);
    const struct hf_moments_args args = {.x = *problem->x,
                                         .shift = s.middle,
                                         .bits = hf_fixed_bits(problem->n),
                                         .mult = s.mult,
                                         .mult_square = s.mult_square,
                                         .sum = s.sum,
                                         .sum_square = s.sum_square};
    assert_int_equal(hf_moments(problem->ctx, &args), HF_OK);
    hf_scan_take_moments(&s);
    free(own);
}

/* Whole numbers are added up while their ranges are found, as far as that is exact: not one bit of
 * what is known of the columns changes. */
static void moments_of_whole_numbers(void **state) {
    (void)state;
    const double reach[] = {1, 255, 60000, 3e6};
    hf_context *ctx = open_context(2, 0);
    for (int c = 0; c < 16; c++) {
        const int64_t n = 700, d = 9;
        double *v = blobs((uint64_t)c + 31, n, d, 5, 3);
        for (int64_t i = 0; i < n * d; i++) {
            v[i] = i % d == 3 ? 7 : rint(v[i] * reach[c % 4] / 8);
            v[i] += i % d == 5 ? reach[c % 4] : 0;
        }
        if (c >= 12)
            v[n] += 0.5; /* op moments it is */
        struct problem p = problem_from(v, n, d, c % 8 < 4 ? HF_F32 : HF_F64, 0);
        struct hf_fit fit = {.problem = {.ctx = ctx,
                                         .x = &p.x,
                                         .opts = {.k = 3},
                                         .n_all = n,
                                         .k = 3,
                                         .d = d,
                                         .dtype = p.x.dtype,
                                         .center_type = HF_F64},
                             .data = {.panel_rows = 256, .scan_rows = 256}};
        assert_int_equal(hf_prepare(&fit), HF_OK);
        assert_int_equal(fit.columns.whole, c < 12);
        double found[18];
        memcpy(found, fit.columns.mean, sizeof found / 2);
        memcpy(found + d, fit.columns.variance, sizeof found / 2);
        moments_again(&fit);
        assert_memory_equal(found, fit.columns.mean, sizeof found / 2);
        assert_memory_equal(found + d, fit.columns.variance, sizeof found / 2);
        hf_fit_free(&fit);
        problem_free(&p);
        free(v);
    }
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(real_data_any_init),
                                       cmocka_unit_test(real_data_same_path),
                                       cmocka_unit_test(every_type_metric_and_stride),
                                       cmocka_unit_test(huge_offset),
                                       cmocka_unit_test(columns_of_all_scales),
                                       cmocka_unit_test(bytes_far_out),
                                       cmocka_unit_test(duplicated),
                                       cmocka_unit_test(ties),
                                       cmocka_unit_test(tiny_and_huge_values),
                                       cmocka_unit_test(edge_shapes),
                                       cmocka_unit_test(weighted),
                                       cmocka_unit_test(narrow_rows),
                                       cmocka_unit_test(moments_of_whole_numbers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
