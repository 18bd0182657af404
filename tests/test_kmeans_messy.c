/* SPDX-License-Identifier: Apache-2.0
 * Outliers, sentinels, heavy tails, mixed scales: whatever the kernel, every label is the brute
 * force's, and not a bit differs between kernels. */
#include "kmeans_rows.h"

#include "ops/cases/data_case.h"

static const hf_dtype types[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};

/* Rows of a kind as the type can hold them. */
static struct problem messy_problem(enum hf_data_kind kind, hf_dtype dtype, int64_t n, int64_t d) {
    const struct hf_data_shape shape = {.kind = kind, .dtype = dtype, .n = n, .k = 1, .d = d};
    struct hf_rng rng = {.seed = 40, .stream = (uint64_t)kind};
    double *v = must_alloc((size_t)(n * d) * sizeof(double));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++) {
            const double value = hf_data_value(&rng, &shape, i, j);
            v[i * d + j] = dtype == HF_U8    ? value * 3 + 20
                           : dtype == HF_F16 ? fmax(-6e4, fmin(6e4, value))
                                             : value;
        }
    const struct problem p = problem_from(v, n, d, dtype, 0);
    free(v);
    return p;
}

/* Rows of p as centroids, [k, d] F64. With a length, the one in the middle lies so far away. */
static hf_array start_from(const struct problem *p, int64_t k, double length) {
    const hf_array c = hf_array_view(must_alloc((size_t)(k * p->d) * 8), HF_F64, k, p->d);
    double *v = c.data;
    for (int64_t l = 0; l < k; l++)
        memcpy(v + l * p->d, p->x64 + l * (p->n / k) * p->d, (size_t)p->d * sizeof *v);
    for (int64_t j = 0; length > 0 && j < p->d; j++)
        v[k / 2 * p->d + j] = hf_data_far(length, j);
    return c;
}

static void every_kind_type_and_metric(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    for (int kind = HF_DATA_MESSY; kind < HF_DATA_KINDS; kind++)
        for (int t = 0; t < 5; t++)
            for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++) {
                struct problem p = messy_problem((enum hf_data_kind)kind, types[t], 601, 13);
                const hf_kmeans_opts o = {.k = 24,
                                          .metric = (hf_metric)metric,
                                          .init = HF_INIT_RANDOM,
                                          .seed = 2,
                                          .max_iter = 5};
                assert_true(every_row(ctx, &p, &o) > 0);
                problem_free(&p);
            }
    hf_context_destroy(ctx);
}

/* A centroid that no row comes near stays where it is: beyond float16, beyond whole numbers of
 * float32, and so far that its square is beyond float32. */
static void far_centroids(void **state) {
    (void)state;
    const double lengths[] = {1e5, 1e8, 1e30};
    hf_context *ctx = open_context(2, 0);
    for (int l = 0; l < 3; l++)
        for (int t = 0; t < 5; t++)
            for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++) {
                struct problem p = messy_problem(HF_DATA_FAR, types[t], 601, 13);
                const hf_array start = start_from(&p, 24, lengths[l]);
                const hf_kmeans_opts o = {.k = 24,
                                          .metric = (hf_metric)metric,
                                          .init = HF_INIT_GIVEN,
                                          .centroids = &start,
                                          .empty = HF_EMPTY_KEEP,
                                          .max_iter = 5};
                assert_true(every_row(ctx, &p, &o) > 0);
                free(start.data);
                problem_free(&p);
            }
    hf_context_destroy(ctx);
}

/* Scores of the longest rows are infinite, and those of all centroids that the filter holds: no
 * threshold keeps these from a list. */
static void infinite_scores(void **state) {
    (void)state;
    enum { N = 1400, K = 700, DECADES = 48 };
    double v[N];
    hf_context *ctx = open_context(2, 0);
    for (int i = 0; i < N; i++)
        v[i] = (i % 3 ? 1 : -1) * pow(10, (double)(i * 607 % N) * DECADES / N - DECADES / 2);
    for (int t = 0; t < 2; t++)
        for (int guard = HF_GUARD_OFF; guard <= HF_GUARD_CORRECT; guard++) {
            struct problem p = problem_from(v, N, 1, types[t], 0);
            const hf_array start = start_from(&p, K, 0);
            const hf_kmeans_opts o = {.k = K,
                                      .init = HF_INIT_GIVEN,
                                      .centroids = &start,
                                      .empty = HF_EMPTY_KEEP,
                                      .guard = (hf_guard)guard,
                                      .max_iter = 3};
            assert_true(every_row(ctx, &p, &o) > 0);
            free(start.data);
            problem_free(&p);
        }
    hf_context_destroy(ctx);
}

/* Lists of several blocks of open rows and more candidates than a list holds, with bounds and
 * without. */
static void many_rows(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    for (int kind = HF_DATA_MESSY; kind < HF_DATA_KINDS; kind++)
        for (int way = 0; way < 4; way++) {
            struct problem p = messy_problem((enum hf_data_kind)kind, HF_F32, 3000, 20);
            const hf_array start = start_from(&p, 150, 0);
            const hf_kmeans_opts o = {.k = 150,
                                      .init = HF_INIT_GIVEN,
                                      .centroids = &start,
                                      .skipping = way % 2 ? HF_SKIP_ON : HF_SKIP_OFF,
                                      .empty = way / 2 ? HF_EMPTY_RELOCATE : HF_EMPTY_KEEP,
                                      .max_iter = 4};
            assert_true(every_row(ctx, &p, &o) > 0);
            free(start.data);
            problem_free(&p);
        }
    hf_context_destroy(ctx);
}

/* Real rows whose widest column leaves little of the others in 16 bits. */
static void population_beside_coordinates(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    struct problem p = cities_with_population(ctx, 6000);
    for (int k = 40; k <= 600; k *= 15) {
        const hf_kmeans_opts o = {.k = k, .init = HF_INIT_RANDOM, .seed = 4, .max_iter = 5};
        assert_true(every_row(ctx, &p, &o) > 0);
    }
    problem_free(&p);
    hf_context_destroy(ctx);
}

static hf_status read_rows(void *user, int64_t first, int64_t count, void *dst, char *message,
                           size_t message_bytes) {
    (void)message;
    (void)message_bytes;
    const struct problem *p = user;
    const size_t row = (size_t)p->d * hf_dtype_bytes(p->x.dtype);
    memcpy(dst, (const char *)p->x.data + (size_t)first * row, (size_t)count * row);
    return HF_OK;
}

/* The origin is that of the rows that take part, however they come: it shows in the last bits of
 * the history. */
static void rows_read_or_left_out(void **state) {
    (void)state;
    hf_context *ctx = open_context(2, 0);
    struct problem p = messy_problem(HF_DATA_SENTINELS, HF_F32, 2000, 9);
    const hf_array start = start_from(&p, 8, 0);
    hf_kmeans_opts o = {
        .k = 8, .init = HF_INIT_GIVEN, .centroids = &start, .max_iter = 6, .nan = HF_NAN_DROP};
    hf_kmeans_result fit = {0}, other = {0};
    FIT_OK(ctx, hf_kmeans_fit(ctx, &p.x, &o, &fit));
    const hf_source source = {p.n, p.d, HF_F32, read_rows, &p};
    FIT_OK(ctx, hf_kmeans_fit_source(ctx, &source, &o, &other));
    assert_same_fit(&fit, &other);
    hf_kmeans_result_clear(&other);
    float *more =
        must_alloc((size_t)((p.n + 1) * p.d) * sizeof *more); /* a row of NaN comes first */
    for (int64_t j = 0; j < p.d; j++)
        more[j] = NAN;
    memcpy(more + p.d, p.x.data, (size_t)(p.n * p.d) * sizeof *more);
    const hf_array longer = hf_array_view(more, HF_F32, p.n + 1, p.d);
    FIT_OK(ctx, hf_kmeans_fit(ctx, &longer, &o, &other));
    assert_int_equal(other.labels[0], -1);
    assert_memory_equal(fit.labels, other.labels + 1, (size_t)p.n * sizeof(int32_t));
    assert_int_equal(fit.iterations, other.iterations);
    for (int i = 0; i < fit.iterations; i++)
        assert_memory_equal(&fit.history[i].inertia, &other.history[i].inertia, sizeof(double));
    hf_kmeans_result_clear(&other);
    hf_kmeans_result_clear(&fit);
    free(more);
    free(start.data);
    problem_free(&p);
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_kind_type_and_metric),
                                       cmocka_unit_test(far_centroids),
                                       cmocka_unit_test(infinite_scores),
                                       cmocka_unit_test(many_rows),
                                       cmocka_unit_test(population_beside_coordinates),
                                       cmocka_unit_test(rows_read_or_left_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
