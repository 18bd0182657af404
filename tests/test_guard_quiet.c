/* SPDX-License-Identifier: Apache-2.0
 * Protection where nothing is wrong: fits of shapes and data that take rare paths of the checks
 * have the bits of unprotected ones, and nothing is confirmed. */
#include <holdfast/holdfast.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum kind { CLUSTERS, COPIES, NESTED, SHORT };

struct shape {
    enum kind kind;
    hf_dtype dtype;
    hf_metric metric;
    int64_t n, d, k;
    hf_skipping skipping;
};

static double uniform(uint64_t *state) {
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(*state >> 11) * 0x1p-53;
}

/* A value of row i: near one of 4 k places, one of 40 rows, or of a size that differs by row; of
 * SHORT, some rows are so short that their squares underflow. */
static double value(const struct shape *s, uint64_t *state, int64_t i, int64_t j) {
    const double v = 2 * uniform(state) - 1;
    uint64_t place = (uint64_t)(i % (s->kind == COPIES ? 40 : 4 * s->k)) * 977 + (uint64_t)j;
    const double at = 2 * uniform(&place) - 1;
    if (s->kind == COPIES)
        return at;
    if (s->kind == SHORT)
        return v * (i % 100 == 0 ? 1e-22 : 1);
    return (at + 0.01 * v) * (s->kind == NESTED ? (double)(1 << 3 * (i % 5)) : 1);
}

static void *make_rows(const struct shape *s) {
    const size_t values = (size_t)(s->n * s->d);
    uint64_t state = 7;
    double *wide = malloc(values * sizeof *wide);
    assert_non_null(wide);
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t j = 0; j < s->d; j++)
            wide[i * s->d + j] = value(s, &state, i, j);
    float *narrow = (float *)(void *)wide;
    for (size_t i = 0; s->dtype == HF_F32 && i < values; i++)
        narrow[i] = (float)wide[i];
    return wide;
}

static hf_kmeans_result fit(hf_context *ctx, const struct shape *s, void *rows, hf_guard guard) {
    const hf_array x = {.data = rows, .dtype = s->dtype, .rows = s->n, .cols = s->d};
    const hf_kmeans_opts opts = {.k = s->k,
                                 .init = HF_INIT_RANDOM,
                                 .seed = 3,
                                 .metric = s->metric,
                                 .max_iter = 4,
                                 .tol = -1,
                                 .empty = HF_EMPTY_KEEP,
                                 .skipping = s->skipping,
                                 .guard = guard};
    hf_kmeans_result r = {0};
    if (hf_kmeans_fit(ctx, &x, &opts, &r) != HF_OK)
        fail_msg("%s", hf_last_error(ctx));
    return r;
}

static void check_shape(const struct shape *s) {
    const hf_context_opts opts = {.device = "cpu", .threads = 2};
    hf_context *ctx = NULL;
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    void *rows = make_rows(s);
    hf_kmeans_result plain = fit(ctx, s, rows, HF_GUARD_OFF);
    hf_kmeans_result guarded = fit(ctx, s, rows, HF_GUARD_CORRECT);
    const size_t size = plain.centroids.dtype == HF_F64 ? sizeof(double) : sizeof(float);
    assert_memory_equal(plain.labels, guarded.labels, (size_t)s->n * sizeof *plain.labels);
    assert_memory_equal(plain.centroids.data, guarded.centroids.data, (size_t)(s->k * s->d) * size);
    assert_memory_equal(&plain.inertia, &guarded.inertia, sizeof plain.inertia);
    assert_int_equal(guarded.faults.confirmed, 0);
    assert_true(guarded.faults.checked > 0);
    hf_kmeans_result_clear(&plain);
    hf_kmeans_result_clear(&guarded);
    free(rows);
    hf_context_destroy(ctx);
}

static void check_shapes(const struct shape *shapes, size_t count) {
    for (size_t i = 0; i < count; i++)
        check_shape(&shapes[i]);
}

static void few_columns_many_clusters(void **state) {
    static const struct shape shapes[] = {
        {CLUSTERS, HF_F32, HF_EUCLIDEAN, 6000, 2, 1600, HF_SKIP_AUTO},
        {CLUSTERS, HF_F32, HF_EUCLIDEAN, 6000, 2, 1600, HF_SKIP_OFF},
        {CLUSTERS, HF_F64, HF_EUCLIDEAN, 5000, 3, 1600, HF_SKIP_ON},
        {NESTED, HF_F32, HF_EUCLIDEAN, 5000, 1, 1600, HF_SKIP_OFF},
        {CLUSTERS, HF_F32, HF_COSINE, 4000, 2, 300, HF_SKIP_AUTO},
    };
    (void)state;
    check_shapes(shapes, sizeof shapes / sizeof *shapes);
}

/* Most centroids equal an earlier one, and packs of moved ones hold such alone. */
static void equal_centroids(void **state) {
    static const struct shape shapes[] = {
        {COPIES, HF_F64, HF_EUCLIDEAN, 9000, 2, 280, HF_SKIP_AUTO},
        {COPIES, HF_F64, HF_EUCLIDEAN, 9000, 2, 280, HF_SKIP_ON},
        {COPIES, HF_F32, HF_EUCLIDEAN, 6000, 40, 100, HF_SKIP_ON},
    };
    (void)state;
    check_shapes(shapes, sizeof shapes / sizeof *shapes);
}

/* Rows that the filter leaves open meet all centroids, twice. */
static void open_rows(void **state) {
    static const struct shape shapes[] = {
        {NESTED, HF_F32, HF_EUCLIDEAN, 6000, 20, 90, HF_SKIP_OFF},
        {NESTED, HF_F64, HF_EUCLIDEAN, 5000, 12, 60, HF_SKIP_AUTO},
        {NESTED, HF_F32, HF_DOT, 5000, 12, 60, HF_SKIP_OFF},
    };
    (void)state;
    check_shapes(shapes, sizeof shapes / sizeof *shapes);
}

static void short_rows(void **state) {
    static const struct shape shapes[] = {
        {SHORT, HF_F32, HF_COSINE, 2000, 16, 16, HF_SKIP_AUTO},
        {SHORT, HF_F32, HF_DOT, 2000, 40, 80, HF_SKIP_AUTO},
        {SHORT, HF_F64, HF_COSINE, 2000, 16, 16, HF_SKIP_AUTO},
    };
    (void)state;
    check_shapes(shapes, sizeof shapes / sizeof *shapes);
}

/* The last vector of a row has few values, or none in its second half. */
static void ends_of_rows(void **state) {
    static const struct shape shapes[] = {
        {NESTED, HF_F64, HF_EUCLIDEAN, 2000, 33, 300, HF_SKIP_AUTO},
        {CLUSTERS, HF_F64, HF_EUCLIDEAN, 2000, 36, 100, HF_SKIP_OFF},
        {CLUSTERS, HF_F64, HF_EUCLIDEAN, 2000, 47, 100, HF_SKIP_AUTO},
        {NESTED, HF_F32, HF_EUCLIDEAN, 2000, 36, 100, HF_SKIP_OFF},
    };
    (void)state;
    check_shapes(shapes, sizeof shapes / sizeof *shapes);
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return;
    assert_int_equal(setenv("HF_KERNEL_ASSIGN", "assign_f32_16x6_avx2", 1), 0);
    check_shapes(shapes, sizeof shapes / sizeof *shapes);
    assert_int_equal(unsetenv("HF_KERNEL_ASSIGN"), 0);
#endif
}

/* Sums of weights, too, are made twice under this scheme; light clusters have sums of their own. */
static void light_clusters_made_twice(void **state) {
    static const struct shape s = {CLUSTERS, HF_F32, HF_EUCLIDEAN, 500, 64, 500, HF_SKIP_AUTO};
    (void)state;
    hf_context *ctx = NULL;
    const hf_context_opts device = {.device = "cpu", .threads = 2};
    assert_int_equal(hf_context_create(&ctx, &device), HF_OK);
    float *rows = make_rows(&s);
    double *weights = malloc((size_t)s.n * sizeof *weights);
    for (int64_t i = 0; i < s.n; i++)
        weights[i] = i % 2 ? 1 : 1e-30;
    const hf_array x = {.data = rows, .dtype = s.dtype, .rows = s.n, .cols = s.d};
    const hf_array weighed = {.data = weights, .dtype = HF_F64, .rows = s.n, .cols = 1};
    hf_kmeans_opts opts = {.k = s.k,
                           .init = HF_INIT_RANDOM,
                           .max_iter = 2,
                           .empty = HF_EMPTY_KEEP,
                           .weights = &weighed,
                           .guard = HF_GUARD_OFF};
    hf_kmeans_result plain = {0}, twice = {0};
    assert_int_equal(hf_kmeans_fit(ctx, &x, &opts, &plain), HF_OK);
    opts.guard = HF_GUARD_WEIGHTED;
    const hf_status status = hf_kmeans_fit(ctx, &x, &opts, &twice);
    if (status == HF_OK)
        assert_memory_equal(plain.centroids.data, twice.centroids.data,
                            (size_t)(s.k * s.d) * sizeof(float));
    else /* of an instruction set without such tiles */
        assert_int_equal(status, HF_E_UNSUPPORTED);
    hf_kmeans_result_clear(&plain);
    hf_kmeans_result_clear(&twice);
    hf_context_destroy(ctx);
    free(weights);
    free(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_columns_many_clusters),
        cmocka_unit_test(equal_centroids),
        cmocka_unit_test(open_rows),
        cmocka_unit_test(short_rows),
        cmocka_unit_test(ends_of_rows),
        cmocka_unit_test(light_clusters_made_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
