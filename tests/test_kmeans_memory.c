/* SPDX-License-Identifier: Apache-2.0
 * Data larger than the memory allowed: the most that is resident stays within chunk budget, labels
 * (and distances, of predict), centroids and 64 MiB. */
#include "kmeans_brute.h"

#include "algo/kmeans/init/init_state.h"
#include "base/mem.h"
#include "core/context.h"

enum { D = 32, K = 50 };
#define ROWS ((int64_t)3000000)
#define NARROW ((int64_t)16000000) /* rows of one column, whose outputs outweigh all else */
#define BUDGET ((uint64_t)48 << 20)
#define ALLOWANCE ((uint64_t)64 << 20)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#else
#define SANITIZED 0
#endif

/* Row i is cloud i % K with some noise, made from its number: 366 MiB that are never there. */
static hf_status generate(void *user, int64_t first, int64_t count, void *dst, char *message,
                          size_t message_bytes) {
    (void)user;
    (void)message;
    (void)message_bytes;
    float *v = dst;
    for (int64_t i = first; i < first + count; i++) {
        uint64_t h = (uint64_t)i * 0x9e3779b97f4a7c15u;
        for (int64_t j = 0; j < D; j++) {
            h ^= h >> 29;
            h *= 0xbf58476d1ce4e5b9u;
            *v++ = (float)((i % K) * (j + 1) % 37) * 10 + (float)(h >> 40) * 0x1p-24f;
        }
    }
    return HF_OK;
}

static void skip_if_sanitized(void) {
    if (SANITIZED) {
        print_message("skipped: a sanitizer's own memory is counted too\n");
        skip();
    }
}

static void peak_is_bounded(void **state) {
    (void)state;
    skip_if_sanitized();
    hf_context *ctx = open_context(2, BUDGET);
    const hf_source source = {.rows = ROWS, .cols = D, .dtype = HF_F32, .read = generate};
    const uint64_t outputs = (uint64_t)ROWS * sizeof(int32_t) + (uint64_t)(K * D) * sizeof(float);
    const hf_init starts[] = {HF_INIT_RANDOM, HF_INIT_KMEANS_PARALLEL};
    for (int i = 0; i < 2; i++) { /* the peak never falls: each is also that of those before */
        const hf_kmeans_opts o = {.k = K, .init = starts[i], .max_iter = 3 - 2 * i, .tol = -1};
        const uint64_t before = hf_mem_peak();
        hf_kmeans_result r = {0};
        FIT_OK(ctx, hf_kmeans_fit_source(ctx, &source, &o, &r));
        const uint64_t peak = hf_mem_peak();
        print_message("peak %.1f MiB, of it %.1f MiB before, %.1f MiB labels and centroids, budget "
                      "%.1f MiB, chunks of %lld rows\n",
                      (double)peak / 0x1p20, (double)before / 0x1p20, (double)outputs / 0x1p20,
                      (double)BUDGET / 0x1p20, (long long)r.chunk_rows);
        assert_true(peak <= BUDGET + outputs + ALLOWANCE);
        assert_true(r.workspace_bytes <= BUDGET);
        assert_true(r.chunk_rows < ROWS);
        hf_kmeans_result_clear(&r);
    }
    hf_context_destroy(ctx);
}

static hf_status count_up(void *user, int64_t first, int64_t count, void *dst, char *message,
                          size_t message_bytes) {
    (void)user;
    (void)message;
    (void)message_bytes;
    for (int64_t i = 0; i < count; i++)
        ((float *)dst)[i] = (float)((first + i) % 4);
    return HF_OK;
}

struct narrow {
    const float *v;
    int calls;
};

static hf_status read_narrow(void *user, int64_t first, int64_t count, void *dst, char *message,
                             size_t message_bytes) {
    struct narrow *n = user;
    (void)message;
    (void)message_bytes;
    memcpy(dst, n->v + first, (size_t)count * sizeof(float));
    n->calls++;
    return HF_OK;
}

/* Labels and distances are there once: the caller's. */
static void predict_keeps_nothing_twice(void **state) {
    (void)state;
    skip_if_sanitized();
    hf_context *ctx = open_context(2, BUDGET);
    const hf_source source = {.rows = NARROW, .cols = 1, .dtype = HF_F32, .read = count_up};
    const float c[] = {0, 3};
    const hf_array centroids = hf_array_view((void *)c, HF_F32, 2, 1);
    int32_t *labels = must_alloc((size_t)NARROW * sizeof(int32_t));
    double *distances = must_alloc((size_t)NARROW * sizeof(double));
    const uint64_t outputs = (uint64_t)NARROW * (sizeof(int32_t) + sizeof(double));
    double inertia = 0;
    FIT_OK(ctx, hf_kmeans_predict(ctx, NULL, &source, &centroids, HF_EUCLIDEAN, HF_EXACT, NULL,
                                  labels, distances, &inertia));
    const uint64_t peak = hf_mem_peak();
    print_message("predict: peak %.1f MiB, %.1f MiB labels and distances, budget %.1f MiB\n",
                  (double)peak / 0x1p20, (double)outputs / 0x1p20, (double)BUDGET / 0x1p20);
    assert_true(peak <= BUDGET + outputs + ALLOWANCE);
    assert_true(inertia == (double)NARROW / 2);
    for (int64_t i = 0; i < NARROW; i++)
        if (labels[i] != (i % 4 > 1) || distances[i] != (i % 4 == 1 || i % 4 == 2))
            fail_msg("row %lld: label %d, distance %g", (long long)i, labels[i], distances[i]);
    free(labels);
    free(distances);
    hf_context_destroy(ctx);
}

/* Many rows of one column, some of them heavy: a start from a core draws the same with much memory,
 * with little, and from a source. */
static void narrow_rows_start_from_a_core(void **state) {
    (void)state;
    enum { MANY_ROWS = 1000000, CLUSTERS = 12 };
    struct hf_rng rng = {.seed = 3};
    float *v = must_alloc(MANY_ROWS * sizeof(float)), *w = must_alloc(MANY_ROWS * sizeof(float));
    for (int i = 0; i < MANY_ROWS; i++) {
        v[i] = (float)(hf_rng_next_normal(&rng) + (double)(i % 29) * 4);
        w[i] = i % 1000 ? 1 : 50;
    }
    const hf_array x = hf_array_view(v, HF_F32, MANY_ROWS, 1);
    const hf_array weights = hf_array_view(w, HF_F32, MANY_ROWS, 1);
    struct narrow narrow = {v, 0};
    const hf_source source = {MANY_ROWS, 1, HF_F32, read_narrow, &narrow};
    const uint64_t bounds = (uint64_t)MANY_ROWS * sizeof(double);
    for (int t = 0; t < 4; t++) {
        hf_kmeans_result r[3] = {0};
        const hf_kmeans_opts o = {.k = CLUSTERS,
                                  .init = t % 2 ? HF_INIT_KMEANS_PARALLEL : HF_INIT_KMEANSPP,
                                  .max_iter = 2,
                                  .tol = -1,
                                  .weights = t / 2 ? &weights : NULL};
        for (int i = 0; i < 3; i++) { /* room for all, the array and a source with less */
            hf_context *ctx = open_context(2, bounds * (i ? 2 + (o.weights != NULL) : 8));
            FIT_OK(ctx, i < 2 ? hf_kmeans_fit(ctx, &x, &o, &r[i])
                              : hf_kmeans_fit_source(ctx, &source, &o, &r[i]));
            assert_true(r[i].workspace_bytes <= hf_context_memory(ctx));
            assert_same_fit(&r[0], &r[i]);
            hf_context_destroy(ctx);
        }
        for (int i = 0; i < 3; i++)
            hf_kmeans_result_clear(&r[i]);
    }
    assert_true(narrow.calls > 0);
    free(v);
    free(w);
}

/* A source of few rows with many columns, *user of them: what kernels pack is larger than rows. */
static hf_status generate_wide(void *user, int64_t first, int64_t count, void *dst, char *message,
                               size_t message_bytes) {
    const int64_t d = *(const int64_t *)user;
    (void)message;
    (void)message_bytes;
    float *v = dst;
    for (int64_t i = first; i < first + count; i++)
        for (int64_t j = 0; j < d; j++)
            *v++ = (float)((i % 5) * 50 + i * (j + 3) % 41);
    return HF_OK;
}

/* The limit is that of the chunk, the fit's own memory and the kernels' workspace together. */
static void kernels_share_the_limit(void **state) {
    (void)state;
    int64_t d = 200000;
    const hf_source source = {60, d, HF_F32, generate_wide, &d};
    const hf_kmeans_opts o = {.k = 5, .init = HF_INIT_RANDOM, .max_iter = 3, .tol = -1};
    const uint64_t limits[] = {(uint64_t)1 << 30, (uint64_t)120 << 20, (uint64_t)75 << 20};
    hf_kmeans_result want = {0};
    for (int i = 0; i < 3; i++) {
        hf_context *ctx = open_context(2, limits[i]);
        hf_kmeans_result r = {0};
        FIT_OK(ctx, hf_kmeans_fit_source(ctx, &source, &o, &r));
        print_message("workspace %.1f MiB of %.1f MiB, %s, chunks of %lld rows\n",
                      (double)r.workspace_bytes / 0x1p20, (double)limits[i] / 0x1p20,
                      r.kernel_assign, (long long)r.chunk_rows);
        assert_true(r.workspace_bytes <= limits[i]);
        assert_true(hf_workspace_room(ctx) == limits[i]); /* nothing is held any more */
        if (i > 0) {
            assert_same_fit(&want, &r);
            hf_kmeans_result_clear(&r);
        } else {
            want = r;
        }
        hf_context_destroy(ctx);
    }
    hf_kmeans_result_clear(&want);
}

/* So it is while the data are looked at. */
static void scan_shares_the_limit(void **state) {
    (void)state;
    int64_t d = 200000;
    const hf_source source = {60, d, HF_F32, generate_wide, &d};
    const hf_kmeans_opts o = {.k = 2, .init = HF_INIT_RANDOM};
    hf_context *ctx = open_context(2, (uint64_t)30 << 20);
    hf_kmeans_result r = {0};
    assert_int_equal(hf_kmeans_fit_source(ctx, &source, &o, &r), HF_E_NOMEM);
    assert_non_null(strstr(hf_last_error(ctx), "bytes in use, the context may use 31457280"));
    assert_true(hf_workspace_room(ctx) == (uint64_t)30 << 20);
    hf_context_destroy(ctx);
}

/* So it is while rows are compared with centroids that are given. */
static void predict_shares_the_limit(void **state) {
    (void)state;
    enum { WIDE = 200000, FEW = 60, GIVEN = 5 };
    int64_t d = WIDE;
    const hf_source source = {FEW, d, HF_F32, generate_wide, &d};
    const uint64_t row = (uint64_t)d * sizeof(float);
    float *v = must_alloc(GIVEN * row);
    assert_int_equal(generate_wide(&d, 0, GIVEN, v, NULL, 0), HF_OK);
    const hf_array c = hf_array_view(v, HF_F32, GIVEN, d);
    int32_t want[FEW], labels[FEW];
    double inertia;
    for (uint64_t mib = 400; mib > 30; mib = mib * 9 / 10) {
        const uint64_t limit = mib << 20, share = limit / 4;
        hf_context *ctx = open_context(2, limit);
        FIT_OK(ctx, hf_kmeans_predict(ctx, NULL, &source, &c, HF_EUCLIDEAN, HF_EXACT, NULL, labels,
                                      NULL, &inertia));
        const uint64_t chunk = share / row < FEW ? share / row : FEW;
        if (ctx->workspace_peak + chunk * row > limit)
            fail_msg("%llu MiB: workspace of %.1f MiB beside %.1f MiB", (unsigned long long)mib,
                     (double)ctx->workspace_peak / 0x1p20, (double)(chunk * row) / 0x1p20);
        assert_true(hf_workspace_room(ctx) == limit);
        memcpy(mib == 400 ? want : labels, labels, sizeof labels);
        assert_memory_equal(want, labels, sizeof labels);
        hf_context_destroy(ctx);
    }
    free(v);
}

/* Least memory: what is held for a row of a panel is counted too. */
static void predict_in_a_mebibyte(void **state) {
    (void)state;
    enum { MANY_ROWS = 500000 };
    float *v = must_alloc(MANY_ROWS * sizeof(float));
    for (int i = 0; i < MANY_ROWS; i++)
        v[i] = (float)(i % 4);
    const hf_array x = hf_array_view(v, HF_F32, MANY_ROWS, 1);
    const float two[] = {0, 3};
    const hf_array c = hf_array_view((void *)two, HF_F32, 2, 1);
    int32_t *labels = must_alloc(MANY_ROWS * sizeof(int32_t));
    double inertia = 0;
    hf_context *ctx = open_context(2, (uint64_t)1 << 20);
    FIT_OK(ctx, hf_kmeans_predict(ctx, &x, NULL, &c, HF_EUCLIDEAN, HF_EXACT, &x, labels, NULL,
                                  &inertia));
    assert_true(inertia == (1 + 2) * (double)MANY_ROWS / 4);
    hf_context_destroy(ctx);
    free(labels);
    free(v);
}

/* What a refused fit says that it needs. */
static uint64_t needed(hf_context *ctx, const hf_array *x, const hf_kmeans_opts *o) {
    hf_kmeans_result r = {0};
    unsigned long long bytes = 0;
    assert_int_equal(hf_kmeans_fit(ctx, x, o, &r), HF_E_NOMEM);
    const char *text = strstr(hf_last_error(ctx), "clusters needs ");
    assert_non_null(text);
    assert_int_equal(sscanf(text, "clusters needs %llu bytes", &bytes), 1);
    return bytes;
}

/* k-means|| needs its candidates, and no more workspace where assigning takes the most. */
static void parallel_start_needs_its_candidates(void **state) {
    (void)state;
    const int64_t n = 20000, d = 64, k = 3000;
    float *v = must_alloc((size_t)(n * d) * sizeof(float));
    assert_int_equal(generate_wide((void *)&d, 0, n, v, NULL, 0), HF_OK);
    const hf_array x = hf_array_view(v, HF_F32, n, d);
    hf_context *ctx = open_context(2, (uint64_t)4 << 20);
    const struct hf_rows rows = {.ctx = ctx, .array = &x, .n = n, .d = d, .dtype = HF_F32};
    const hf_kmeans_opts starts[] = {{.k = k}, {.k = k, .init = HF_INIT_KMEANS_PARALLEL}};
    const uint64_t plus = needed(ctx, &x, &starts[0]);
    const uint64_t parallel = needed(ctx, &x, &starts[1]);
    assert_true(parallel > plus && parallel <= plus + hf_init_parallel_bytes(&rows, k));
    hf_context_destroy(ctx);
    free(v);
}

/* A fit that gets the memory it asks for has enough, also for the workers' own sums of weights. */
static void what_is_asked_for_is_enough(void **state) {
    (void)state;
    const int64_t n = 300000, d = 4;
    struct hf_rng rng = {.seed = 4};
    float *v = must_alloc((size_t)(n * d) * sizeof(float)), *w = must_alloc((size_t)n * sizeof *w);
    for (int64_t i = 0; i < n * d; i++)
        v[i] = (float)hf_rng_next_normal(&rng);
    for (int64_t i = 0; i < n; i++)
        w[i] = (float)(i % 3);
    const hf_array x = hf_array_view(v, HF_F32, n, d), weights = hf_array_view(w, HF_F32, n, 1);
    for (int64_t k = 40; k <= 160; k += 60) {
        const hf_kmeans_opts o = {.k = k, .max_iter = 3, .tol = -1, .weights = &weights};
        hf_kmeans_result r = {0};
        hf_context *ctx = open_context(8, (uint64_t)1 << 20);
        const uint64_t bytes = needed(ctx, &x, &o);
        hf_context_destroy(ctx);
        ctx = open_context(8, bytes);
        FIT_OK(ctx, hf_kmeans_fit(ctx, &x, &o, &r));
        hf_kmeans_result_clear(&r);
        hf_context_destroy(ctx);
    }
    free(v);
    free(w);
}

/* Rows are packed for the kernels only where the limit holds both. */
static void packed_rows_share_the_limit(void **state) {
    (void)state;
    const int64_t n = 200000, d = 64;
    const uint64_t data = (uint64_t)(n * d) * sizeof(double), limit = data + ((uint64_t)32 << 20);
    double *v = must_alloc(data);
    for (int64_t i = 0; i < n * d; i++)
        v[i] = (double)(i / d % 8 * 9 + i * 7919 % 10007) / 16;
    const hf_array x = hf_array_view(v, HF_F64, n, d);
    const hf_kmeans_opts o = {.k = 8, .init = HF_INIT_RANDOM, .max_iter = 5, .tol = -1};
    hf_kmeans_result r[2] = {0};
    for (int i = 0; i < 2; i++) {
        hf_context *ctx = open_context(2, i ? limit : 8 * limit);
        FIT_OK(ctx, hf_kmeans_fit(ctx, &x, &o, &r[i]));
        hf_context_destroy(ctx);
    }
    assert_true(data + r[1].workspace_bytes <= limit);
    assert_same_fit(&r[0], &r[1]);
    hf_kmeans_result_clear(&r[0]);
    hf_kmeans_result_clear(&r[1]);
    free(v);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(peak_is_bounded),
                                       cmocka_unit_test(predict_keeps_nothing_twice),
                                       cmocka_unit_test(narrow_rows_start_from_a_core),
                                       cmocka_unit_test(what_is_asked_for_is_enough),
                                       cmocka_unit_test(kernels_share_the_limit),
                                       cmocka_unit_test(scan_shares_the_limit),
                                       cmocka_unit_test(parallel_start_needs_its_candidates),
                                       cmocka_unit_test(predict_shares_the_limit),
                                       cmocka_unit_test(predict_in_a_mebibyte),
                                       cmocka_unit_test(packed_rows_share_the_limit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
