/* SPDX-License-Identifier: Apache-2.0
 * Initialisation against a naive one that knows no filter, no lists, no blocks and no bounds: the
 * same rows must be chosen, on any path. */
#include "naive_init.h"

#include "base/dtype.h"
#include "ops/sample/sample.h"
#include <holdfast/holdfast.h>

static void store(void *data, hf_dtype dtype, int64_t i, double v) {
    if (dtype == HF_F64)
        ((double *)data)[i] = v;
    else if (dtype == HF_F32)
        ((float *)data)[i] = (float)v;
    else if (dtype == HF_F16)
        ((uint16_t *)data)[i] = hf_f32_to_f16((float)v);
    else if (dtype == HF_BF16)
        ((uint16_t *)data)[i] = hf_f32_to_bf16((float)v);
    else
        ((uint8_t *)data)[i] = (uint8_t)fmax(0, fmin(255, 128 + 10 * v));
}

/* From values [n, d]; v is freed. */
static struct problem problem_of(double *v, int64_t n, int64_t d, hf_dtype dtype) {
    struct problem p = {.n = n, .d = d, .dtype = dtype};
    p.data = need((size_t)(n * d) * hf_dtype_bytes(dtype));
    p.x = v;
    p.shift = need((size_t)d * sizeof(double));
    for (int64_t i = 0; i < n * d; i++)
        store(p.data, dtype, i, v[i]);
    hf_to_f64(p.x, p.data, dtype, n * d);
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++)
            p.shift[j] += p.x[i * d + j] / (double)n;
    for (int64_t i = 0; i < n * d; i++)
        most = fmax(most, fmax(fabs(p.x[i]), fabs(p.x[i] - p.shift[i % d])));
    p.filter.shift = p.shift;
    p.filter.scale = most > 0 ? ldexp(1, -hf_fixed_exponent(most)) : 1;
    return p;
}

static void problem_free(struct problem *p) {
    free(p->data);
    free(p->x);
    free(p->weights);
    free(p->shift);
}

static struct problem blobs(int64_t n, int64_t d, int64_t centres, double spread, hf_dtype dtype,
                            uint64_t seed) {
    struct hf_rng rng = {seed, 1, 0};
    double *c = need((size_t)(centres * d) * sizeof *c);
    double *v = need((size_t)(n * d) * sizeof *v);
    for (int64_t i = 0; i < centres * d; i++)
        c[i] = 4 * hf_rng_next_normal(&rng);
    for (int64_t i = 0; i < n; i++) {
        const int64_t b = (int64_t)(hf_rng_next(&rng) % (uint64_t)centres);
        for (int64_t j = 0; j < d; j++)
            v[i * d + j] = c[b * d + j] + spread * hf_rng_next_normal(&rng);
    }
    free(c);
    return problem_of(v, n, d, dtype);
}

/* `distinct` different rows, each many times. */
static struct problem copies(int64_t n, int64_t d, int64_t distinct, hf_dtype dtype) {
    struct hf_rng rng = {5, 2, 0};
    double *v = need((size_t)(n * d) * sizeof *v);
    for (int64_t i = 0; i < n; i++) {
        const int64_t b = i < distinct ? i : (int64_t)(hf_rng_next(&rng) % (uint64_t)distinct);
        for (int64_t j = 0; j < d; j++)
            v[i * d + j] = (double)(b * (j + 1) % 11 + b);
    }
    return problem_of(v, n, d, dtype);
}

static void add_weights(struct problem *p, int zero_every) {
    struct hf_rng rng = {9, 3, 0};
    p->weights = need((size_t)p->n * sizeof(double));
    for (int64_t i = 0; i < p->n; i++)
        p->weights[i] = zero_every && i % zero_every == 0 ? 0 : 0.1 + hf_rng_next_unit(&rng);
}

/* ---- running the real one ---- */

static hf_status read_rows(void *user, int64_t first, int64_t count, void *dst, char *message,
                           size_t message_bytes) {
    const struct problem *p = user;
    (void)message;
    (void)message_bytes;
    const size_t row = (size_t)p->d * hf_dtype_bytes(p->dtype);
    memcpy(dst, (const char *)p->data + (size_t)first * row, (size_t)count * row);
    return HF_OK;
}

static hf_context *open_context(int threads) {
    hf_context *ctx = NULL;
    const hf_context_opts opts = {.device = "cpu", .threads = threads};
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    return ctx;
}

/* chunk 0: in memory. Returns centroids [k, d]; NULL when cancelled. */
static double *run_init(const struct problem *p, struct hf_init_args a, int threads,
                        int64_t chunk) {
    hf_context *ctx = open_context(threads);
    const hf_array array = hf_array_view(p->data, p->dtype, p->n, p->d);
    const hf_source source = {p->n, p->d, p->dtype, read_rows, (void *)(uintptr_t)p};
    struct hf_rows rows = {.ctx = ctx, .n = p->n, .d = p->d, .dtype = p->dtype};
    rows.array = chunk ? NULL : &array;
    rows.source = chunk ? &source : NULL;
    rows.chunk_rows = chunk ? chunk : p->n;
    rows.buffer = chunk ? need((size_t)(chunk * p->d) * hf_dtype_bytes(p->dtype)) : NULL;
    a.weights = p->weights;
    a.filter = p->filter;
    if (a.metric != HF_EUCLIDEAN)
        a.filter.shift = NULL;
    a.nearest = need((size_t)p->n * sizeof *a.nearest);
    a.labels = need((size_t)p->n * sizeof *a.labels);
    double *c = need((size_t)(a.k * p->d) * sizeof *c);
    const hf_status status = hf_kmeans_init(&rows, &a, c);
    if (status != HF_OK) {
        assert_int_equal(status, HF_E_CANCELLED);
        free(c);
        c = NULL;
    }
    free(a.nearest);
    free(a.labels);
    free(rows.buffer);
    hf_context_destroy(ctx);
    return c;
}

static void check_same(const struct problem *p, const struct hf_init_args *a, int threads,
                       int64_t chunk, const double *want) {
    double *got = run_init(p, *a, threads, chunk);
    assert_non_null(got);
    for (int64_t i = 0; i < a->k * p->d; i++)
        if (got[i] != want[i])
            fail_msg(
                "centroid %lld differs: %s, n=%lld d=%lld k=%lld init %d metric %d, %d threads, "
                "chunks of %lld",
                (long long)(i / p->d), hf_dtype_name(p->dtype), (long long)p->n, (long long)p->d,
                (long long)a->k, (int)a->init, (int)a->metric, threads, (long long)chunk);
    free(got);
}

/* All ways to hand over the rows and to compute give what the naive one gives. */
static void check(const struct problem *p, const struct hf_init_args *a) {
    double *want = naive_init(p, a);
    check_same(p, a, 1, 0, want);
    check_same(p, a, 2, 0, want);
    check_same(p, a, 7, 0, want);
    check_same(p, a, 2, p->n / 3 + 1, want);
    check_same(p, a, 2, p->n < 777 ? 7 : 777, want);
    setenv("HF_KERNEL_SEED", "seed_any_scalar", 1);
    check_same(p, a, 2, 0, want);
    unsetenv("HF_KERNEL_SEED");
    free(want);
}

static void test_types(void **state) {
    (void)state;
    static const hf_dtype types[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};
    for (int t = 0; t < 5; t++) {
        for (int m = 0; m < 3; m++) {
            struct problem p = blobs(900 + t, 5 + 9 * t, 12, 0.4, types[t], (uint64_t)t);
            const struct hf_init_args a = {.k = 21, .metric = (hf_metric)m, .seed = 3};
            check(&p, &a);
            add_weights(&p, m == 1 ? 3 : 0);
            check(&p, &a);
            problem_free(&p);
        }
    }
}

static void test_shapes(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {{1, 1, 1},   {2, 3, 2},    {9, 1, 9},     {50, 2, 50},
                                        {300, 1, 7}, {64, 130, 5}, {5000, 2, 40}, {1300, 33, 3}};
    for (int i = 0; i < 8; i++) {
        for (int init = 0; init < 3; init++) {
            struct problem p = blobs(shapes[i][0], shapes[i][1], 6, 1, HF_F32, (uint64_t)i);
            const struct hf_init_args a = {.k = shapes[i][2], .init = (hf_init)init, .seed = 40};
            check(&p, &a);
            problem_free(&p);
        }
    }
}

/* The first steps bring so many rows nearer that the list of pairs overflows. */
static void test_overflow(void **state) {
    (void)state;
    struct problem p = blobs(65000, 2, 30, 0.5, HF_F32, 8);
    const struct hf_init_args a = {.k = 6, .seed = 5};
    assert_int_equal(hf_init_core_rows(p.n, p.d, a.k, p.dtype), 0);
    double *want = naive_init(&p, &a);
    check_same(&p, &a, 2, 0, want);
    check_same(&p, &a, 2, 20000, want);
    free(want);
    problem_free(&p);
}

/* So many rows that a few stand for all. */
static void test_core(void **state) {
    (void)state;
    for (int m = 0; m < 3; m++) {
        struct problem p = blobs(70000, 3, 30, 0.5, m == 1 ? HF_F64 : HF_F32, 18);
        struct hf_init_args a = {.k = 9, .metric = (hf_metric)m, .seed = 5};
        assert_int_equal(hf_init_core_rows(p.n, p.d, a.k, p.dtype), 16384);
        if (m == 2)
            add_weights(&p, 3);
        if (m == 1)
            a.init = HF_INIT_KMEANS_PARALLEL;
        double *want = naive_init(&p, &a);
        check_same(&p, &a, 2, 0, want);
        check_same(&p, &a, 7, 20000, want);
        free(want);
        problem_free(&p);
    }
}

/* A few rows far away from very many: half of the core is drawn by distance, so they are in it. */
static void test_core_far(void **state) {
    (void)state;
    struct problem p = blobs(100000, 2, 1, 1, HF_F32, 3);
    for (int i = 0; i < 4; i++)
        ((float *)p.data)[2 * (20000 * i + 77)] = (float)(1e5 * (i + 1));
    hf_to_f64(p.x, p.data, p.dtype, p.n * p.d);
    p.filter.scale = 0x1p-19;
    for (uint64_t seed = 0; seed < 5; seed++) {
        const struct hf_init_args a = {.k = 8, .seed = seed};
        double *c = run_init(&p, a, 2, 0);
        int far = 0;
        for (int t = 0; t < 8; t++)
            far += c[2 * t] > 5e4;
        assert_int_equal(far, 4);
        free(c);
    }
    problem_free(&p);
}

/* Many copies of one row, and 12 others that the core need not hold: all points are found. */
static void test_core_copies(void **state) {
    (void)state;
    double *v = need(80000 * sizeof *v);
    for (int i = 0; i < 80000; i++)
        v[i] = i % 6000 == 17 ? pow(1000, i / 6000 % 14) : 5;
    struct problem p = problem_of(v, 80000, 1, HF_F64);
    const struct hf_init_args a = {.k = 14, .seed = 3};
    double *want = naive_init(&p, &a);
    check_same(&p, &a, 2, 0, want);
    for (int t = 0; t < 14; t++)
        for (int s = 0; s < t; s++)
            assert_true(want[t] != want[s]);
    free(want);
    problem_free(&p);
}

/* Weights and distances that no unit makes whole numbers of: all rows count alike. What lies behind
 * the last row must not be looked at. */
static void test_core_of_nothing(void **state) {
    (void)state;
    enum { N = 1000, DRAWS = 50, BEHIND = 8 };
    hf_context *ctx = NULL;
    assert_int_equal(hf_context_create(&ctx, &(hf_context_opts){.device = "cpu"}), HF_OK);
    double weights[N + BEHIND], distance[N + BEHIND], weight[2 * DRAWS], sums[2];
    int64_t index[2 * DRAWS];
    for (int i = 0; i < N + BEHIND; i++)
        weights[i] = distance[i] = i < N ? 0x1p-1070 : 1;
    const struct hf_sample_args args = {.x = hf_array_view(distance, HF_F64, N, 1),
                                        .weights = weights,
                                        .distance = distance,
                                        .count = DRAWS,
                                        .index = index,
                                        .weight = weight,
                                        .sums = sums};
    assert_int_equal(hf_sample(ctx, &args), HF_OK);
    for (int j = 0; j < 2 * DRAWS; j++) {
        const int64_t stratum = j % DRAWS * (N / DRAWS);
        assert_true(index[j] >= stratum && index[j] < stratum + N / DRAWS);
        assert_true(weight[j] == N / (2.0 * DRAWS));
    }
    hf_context_destroy(ctx);
}

static void test_parallel(void **state) {
    (void)state;
    for (int m = 0; m < 3; m++) {
        struct problem p = blobs(2000, 6, 20, 0.3, m ? HF_F64 : HF_F32, 70 + (uint64_t)m);
        const struct hf_init_args a = {
            .k = 15, .init = HF_INIT_KMEANS_PARALLEL, .metric = (hf_metric)m, .seed = 11};
        check(&p, &a);
        add_weights(&p, 4);
        check(&p, &a);
        problem_free(&p);
    }
}

/* Points at 1000^g, many copies of each: the rounds of k-means|| find more than k candidates, but
 * few points; k-means++ on all rows finds the others. */
static void test_few_points(void **state) {
    (void)state;
    double *v = need(1080 * sizeof *v);
    for (int i = 0; i < 1080; i++)
        v[i] = pow(1000, i % 12);
    struct problem p = problem_of(v, 1080, 1, HF_F64);
    const struct hf_init_args a = {.k = 11, .init = HF_INIT_KMEANS_PARALLEL, .seed = 3};
    check(&p, &a);
    double *c = run_init(&p, a, 1, 0);
    for (int t = 0; t < 11; t++)
        for (int s = 0; s < t; s++)
            assert_true(c[t] != c[s]);
    free(c);
    problem_free(&p);
}

/* Fewer points than centroids: each point once, then other rows. */
static void test_copies(void **state) {
    (void)state;
    for (int init = 0; init < 3; init++) {
        struct problem p = copies(400, 4, 9, HF_F32);
        const struct hf_init_args a = {.k = 30, .init = (hf_init)init, .seed = 21};
        check(&p, &a);
        if (init != HF_INIT_RANDOM) {
            double *c = run_init(&p, a, 1, 0);
            for (int64_t t = 0; t < 9; t++)
                for (int64_t s = 0; s < t; s++)
                    assert_memory_not_equal(c + t * 4, c + s * 4, 4 * sizeof *c);
            free(c);
        }
        problem_free(&p);
    }
}

/* Spreads of 1 and of 1e-9 around far centres: the scale of the potentials must follow. */
static void test_scales(void **state) {
    (void)state;
    struct problem p = blobs(700, 3, 2, 1e-9, HF_F64, 4);
    const struct hf_init_args a = {.k = 12, .seed = 2};
    check(&p, &a);
    double *c = run_init(&p, a, 1, 0);
    for (int64_t t = 0; t < 12; t++)
        for (int64_t s = 0; s < t; s++)
            assert_memory_not_equal(c + t * 3, c + s * 3, 3 * sizeof *c);
    free(c);
    problem_free(&p);
    struct problem far = blobs(300, 2, 9, 1e3, HF_F64, 6);
    for (int64_t i = 0; i < 600; i++)
        far.x[i] *= 1e180;
    double *v = far.x;
    far.x = NULL;
    problem_free(&far);
    far = problem_of(v, 300, 2, HF_F64);
    check(&far, &a);
    problem_free(&far);
}

static void test_zero_weights(void **state) {
    (void)state;
    for (int init = 0; init < 3; init++) {
        struct problem p = blobs(200, 3, 5, 1, HF_F32, 13);
        p.weights = need(200 * sizeof(double));
        for (int64_t i = 0; i < 200; i += 20)
            p.weights[i] = 1 + (double)i;
        const struct hf_init_args a = {.k = 10, .init = (hf_init)init, .seed = 31};
        check(&p, &a);
        double *c = run_init(&p, a, 1, 0);
        for (int64_t t = 0; t < 10; t++) {
            bool weighty = false;
            for (int64_t i = 0; i < 200; i += 20)
                weighty = weighty || memcmp(c + t * 3, p.x + i * 3, 3 * sizeof *c) == 0;
            assert_true(weighty);
        }
        free(c);
        problem_free(&p);
    }
}

static double potential(const struct problem *p, const double *c, int64_t k) {
    double sum = 0;
    for (int64_t i = 0; i < p->n; i++) {
        double least = INFINITY;
        for (int64_t t = 0; t < k; t++)
            least = fmin(least,
                         hf_reference_distance(HF_EUCLIDEAN, p->x + i * p->d, c + t * p->d, p->d));
        sum += least;
    }
    return sum;
}

/* On 25 well separated blobs k-means++ and k-means|| find all or nearly all; random rows do not. */
static void test_quality(void **state) {
    (void)state;
    double sum[3] = {0, 0, 0};
    struct problem p = blobs(2500, 4, 25, 0.1, HF_F32, 99);
    for (uint64_t seed = 0; seed < 5; seed++) {
        for (int init = 0; init < 3; init++) {
            const struct hf_init_args a = {.k = 25, .init = (hf_init)init, .seed = seed};
            double *c = run_init(&p, a, 2, 0);
            sum[init] += potential(&p, c, 25);
            free(c);
        }
    }
    assert_true(sum[HF_INIT_KMEANSPP] * 4 < sum[HF_INIT_RANDOM]);
    assert_true(sum[HF_INIT_KMEANS_PARALLEL] * 4 < sum[HF_INIT_RANDOM]);
    problem_free(&p);
}

/* A core is as good a place to choose from as all rows. */
static void test_core_quality(void **state) {
    (void)state;
    double core = 0;
    double random = 0;
    struct problem p = blobs(66000, 3, 25, 0.1, HF_F32, 99);
    assert_true(hf_init_core_rows(p.n, p.d, 25, p.dtype) > 0);
    for (uint64_t seed = 0; seed < 3; seed++) {
        struct hf_init_args a = {.k = 25, .seed = seed};
        double *c = run_init(&p, a, 2, 0);
        core += potential(&p, c, 25);
        free(c);
        a.init = HF_INIT_RANDOM;
        c = run_init(&p, a, 2, 0);
        random += potential(&p, c, 25);
        free(c);
    }
    assert_true(core * 4 < random);
    problem_free(&p);
}

static void test_restarts(void **state) {
    (void)state;
    struct problem p = blobs(500, 3, 9, 1, HF_F32, 17);
    struct hf_init_args a = {.k = 8, .seed = 1};
    double *first = run_init(&p, a, 1, 0);
    double *again = run_init(&p, a, 1, 0);
    a.restart = 1;
    double *second = run_init(&p, a, 1, 0);
    assert_memory_equal(first, again, 8 * 3 * sizeof *first);
    assert_memory_not_equal(first, second, 8 * 3 * sizeof *first);
    check(&p, &a);
    free(first);
    free(again);
    free(second);
    problem_free(&p);
}

/* Random rows: all different, and each row about equally often. */
static void test_random(void **state) {
    (void)state;
    double *v = need(40 * sizeof *v);
    for (int64_t i = 0; i < 40; i++)
        v[i] = (double)i;
    struct problem p = problem_of(v, 40, 1, HF_F64);
    int seen[40] = {0};
    for (uint64_t seed = 0; seed < 400; seed++) {
        const struct hf_init_args a = {.k = 10, .init = HF_INIT_RANDOM, .seed = seed};
        double *c = run_init(&p, a, 1, 0);
        for (int t = 0; t < 10; t++) {
            for (int s = 0; s < t; s++)
                assert_true(c[t] != c[s]);
            seen[(int)c[t]]++;
        }
        free(c);
    }
    /* 100 expected, standard deviation sqrt(400 / 4 * 3 / 4) = 8.7: six of them */
    for (int i = 0; i < 40; i++)
        assert_in_range(seen[i], 48, 152);
    problem_free(&p);
}

static int stop_at(void *user, int64_t done, int64_t total) {
    int64_t *calls = user;
    assert_true(done >= 0 && done <= total);
    return ++*calls == 3;
}

static void test_progress(void **state) {
    (void)state;
    struct problem p = blobs(500, 3, 9, 1, HF_F32, 17);
    for (int init = 0; init < 2; init++) {
        int64_t calls = 0;
        const struct hf_init_args a = {
            .k = 8, .init = (hf_init)init, .seed = 1, .progress = stop_at, .progress_user = &calls};
        assert_null(run_init(&p, a, 1, 0));
        assert_int_equal(calls, 3);
    }
    problem_free(&p);
}

/* The rows on the device, or in chunks from the host. */
static double *run_on_gpu(hf_context *ctx, const struct problem *p, struct hf_init_args a,
                          bool resident) {
    const size_t bytes = (size_t)(p->n * p->d) * hf_dtype_bytes(p->dtype);
    void *data = resident ? hf_ctx_alloc(ctx, bytes) : NULL;
    if (resident)
        assert_int_equal(hf_ctx_copy(ctx, data, p->data, bytes), HF_OK);
    const hf_array array = hf_array_view(data, p->dtype, p->n, p->d);
    const hf_source source = {p->n, p->d, p->dtype, read_rows, (void *)(uintptr_t)p};
    struct hf_rows rows = {.ctx = ctx, .n = p->n, .d = p->d, .dtype = p->dtype};
    rows.array = resident ? &array : NULL;
    rows.source = resident ? NULL : &source;
    rows.chunk_rows = resident ? p->n : p->n / 2 + 1;
    rows.buffer = need(bytes);
    a.weights = p->weights;
    a.filter = p->filter;
    if (a.metric != HF_EUCLIDEAN)
        a.filter.shift = NULL;
    a.nearest = need((size_t)p->n * sizeof *a.nearest);
    a.labels = need((size_t)p->n * sizeof *a.labels);
    double *c = need((size_t)(a.k * p->d) * sizeof *c);
    assert_int_equal(hf_kmeans_init(&rows, &a, c), HF_OK);
    free(a.nearest);
    free(a.labels);
    free(rows.buffer);
    hf_ctx_release(ctx, data);
    return c;
}

/* A GPU chooses the same rows. */
static void test_on_gpu(void **state) {
    (void)state;
    static const int64_t shapes[][3] = {
        {300, 1, 7}, {5000, 17, 40}, {66000, 5, 20}, {3000, 3, 1100}};
    static const hf_dtype types[] = {HF_F32, HF_F16, HF_F64};
    hf_context *ctx = NULL;
    const hf_context_opts opts = {.device = "cuda"};
    if (hf_context_create(&ctx, &opts) != HF_OK) {
        print_message("skipped: %s\n", hf_last_error(NULL));
        skip();
    }
    for (int i = 0; i < 36; i++) {
        const int64_t *shape = shapes[i % 4];
        struct problem p = blobs(shape[0], shape[1], 9, 1, types[i / 12], (uint64_t)i);
        const struct hf_init_args a = {.k = shape[2],
                                       .metric = (hf_metric)(i / 4 % 3),
                                       .init = (i + i / 4) % 2 ? HF_INIT_KMEANS_PARALLEL
                                                               : HF_INIT_KMEANSPP,
                                       .seed = 40};
        if (i % 3 == 0)
            add_weights(&p, 3);
        double *want = naive_init(&p, &a);
        for (int resident = 0; resident < 2; resident++) {
            double *c = run_on_gpu(ctx, &p, a, resident != 0);
            assert_memory_equal(c, want, (size_t)(a.k * p.d) * sizeof *c);
            free(c);
        }
        free(want);
        problem_free(&p);
    }
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),       cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_overflow),    cmocka_unit_test(test_parallel),
        cmocka_unit_test(test_core),        cmocka_unit_test(test_core_far),
        cmocka_unit_test(test_core_copies), cmocka_unit_test(test_core_quality),
        cmocka_unit_test(test_few_points),  cmocka_unit_test(test_copies),
        cmocka_unit_test(test_scales),      cmocka_unit_test(test_zero_weights),
        cmocka_unit_test(test_quality),     cmocka_unit_test(test_restarts),
        cmocka_unit_test(test_random),      cmocka_unit_test(test_progress),
        cmocka_unit_test(test_on_gpu),      cmocka_unit_test(test_core_of_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
