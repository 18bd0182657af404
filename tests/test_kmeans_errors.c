/* SPDX-License-Identifier: Apache-2.0
 * Wrong input is refused with words that name what, where and the remedy.
 * Outputs stay as they were. */
#include "kmeans_brute.h"

#include <pthread.h>

enum { N = 60, D = 4 };

static hf_context *ctx;
static struct problem data;

static int set_up(void **state) {
    (void)state;
    ctx = open_context(2, 0);
    double *v = blobs(1, N, D, 4, 5);
    data = problem_from(v, N, D, HF_F32, 0);
    free(v);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    problem_free(&data);
    hf_context_destroy(ctx);
    return 0;
}

/* The call failed with `status`, said all the words, and the result is untouched. */
static void expect(hf_status got, hf_status status, const void *out, size_t bytes,
                   const char *words) {
    char copy[256];
    snprintf(copy, sizeof(copy), "%s", words);
    if (got != status)
        fail_msg("status %d, not %d: %s", (int)got, (int)status, hf_last_error(ctx));
    for (const char *word = strtok(copy, "|"); word; word = strtok(NULL, "|"))
        if (!strstr(hf_last_error(ctx), word))
            fail_msg("'%s' is not in: %s", word, hf_last_error(ctx));
    for (size_t i = 0; i < bytes; i++)
        assert_int_equal(((const unsigned char *)out)[i], 0x5a);
}

static void fit_fails(const hf_array *x, const hf_kmeans_opts *o, hf_status status,
                      const char *words) {
    hf_kmeans_result r;
    memset(&r, 0x5a, sizeof(r));
    const hf_status got = hf_kmeans_fit(ctx, x, o, &r);
    expect(got, status, &r, sizeof(r), words);
}

static void bad_options(void **state) {
    (void)state;
    const struct {
        hf_kmeans_opts o;
        const char *words;
    } cases[] = {{{.k = 0}, "k = 0|60 rows"},
                 {{.k = -3}, "k = -3"},
                 {{.k = 61}, "k = 61|60 rows"},
                 {{.k = 3, .metric = (hf_metric)7}, "metric 7"},
                 {{.k = 3, .init = (hf_init)9}, "init 9"},
                 {{.k = 3, .empty = (hf_empty)4}, "empty clusters 4"},
                 {{.k = 3, .precision = (hf_precision)2}, "precision 2"},
                 {{.k = 3, .store = (hf_centroids)2}, "storage"},
                 {{.k = 3, .skipping = (hf_skipping)3}, "skipping 3"},
                 {{.k = 3, .nan = (hf_nan)2}, "NaN 2"},
                 {{.k = 3, .n_init = -1}, "n_init (-1)"},
                 {{.k = 3, .max_iter = -1}, "max_iter (-1)"},
                 {{.k = 3, .tol = NAN}, "tol"},
                 {{.k = 3, .store = HF_CENTROIDS_SAME}, "f16 or bf16|f32"},
                 {{.k = 3, .init = HF_INIT_GIVEN}, "centroids"},
                 {{.k = 3, .centroids = &data.x}, "HF_INIT_GIVEN"}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        fit_fails(&data.x, &cases[i].o, HF_E_ARG, cases[i].words);
    fit_fails(&data.x, NULL, HF_E_ARG, "options");
    assert_int_equal(hf_kmeans_fit(NULL, &data.x, &cases[0].o, NULL), HF_E_ARG);
    expect(hf_kmeans_fit(ctx, &data.x, &(hf_kmeans_opts){.k = 2}, NULL), HF_E_ARG, NULL, 0, "fit");
}

static void bad_arrays(void **state) {
    (void)state;
    const hf_kmeans_opts o = {.k = 2};
    hf_array x = data.x;
    fit_fails(NULL, &o, HF_E_ARG, "data");
    x.data = NULL;
    fit_fails(&x, &o, HF_E_ARG, "data");
    x = data.x;
    x.dtype = HF_I32;
    fit_fails(&x, &o, HF_E_ARG, "i32");
    x.dtype = (hf_dtype)77;
    fit_fails(&x, &o, HF_E_ARG, "type");
    x = data.x;
    x.cols = 0;
    fit_fails(&x, &o, HF_E_ARG, "0 columns");
    x = data.x;
    x.rows = -4;
    fit_fails(&x, &o, HF_E_ARG, "-4 rows");
    x = data.x;
    x.row_stride = 3;
    fit_fails(&x, &o, HF_E_ARG, "row_stride 3|4 columns");
    x = data.x;
    x.rows = INT64_MAX / 2;
    fit_fails(&x, &o, HF_E_ARG, "overflow");
}

static void bad_centroids_and_weights(void **state) {
    (void)state;
    float c[3 * D] = {0};
    float w[N];
    hf_array given = hf_array_view(c, HF_F32, 3, D);
    hf_kmeans_opts o = {.k = 3, .init = HF_INIT_GIVEN, .centroids = &given};
    given.rows = 2;
    fit_fails(&data.x, &o, HF_E_ARG, "given centroids: 2|3 clusters");
    given = hf_array_view(c, HF_F32, 3, D - 1);
    fit_fails(&data.x, &o, HF_E_ARG, "3 columns|4");
    given = hf_array_view(c, HF_DTYPE_NONE, 3, D);
    fit_fails(&data.x, &o, HF_E_ARG, "type none");
    given = hf_array_view(c, HF_F32, 3, D);
    c[2 * D + 1] = INFINITY;
    fit_fails(&data.x, &o, HF_E_DATA, "given centroids: row 2, column 1");
    double large[3 * D] = {1e300};
    given = hf_array_view(large, HF_F64, 3, D);
    fit_fails(&data.x, &o, HF_E_ARG, "centroid 0, column 0|too large");

    hf_array weights = hf_array_view(w, HF_F32, N, 1);
    o = (hf_kmeans_opts){.k = 3, .weights = &weights};
    for (int i = 0; i < N; i++)
        w[i] = 0;
    fit_fails(&data.x, &o, HF_E_DATA, "given weights: all are zero");
    w[7] = -1;
    fit_fails(&data.x, &o, HF_E_DATA, "given weights: number 7|-1");
    w[7] = NAN;
    fit_fails(&data.x, &o, HF_E_DATA, "given weights: number 7|nan");
    w[7] = 1;
    double huge[N];
    for (int i = 0; i < N; i++)
        huge[i] = 1e307;
    const hf_array large_weights = hf_array_view(huge, HF_F64, N, 1);
    for (int m = HF_EUCLIDEAN; m <= HF_DOT; m++)
        fit_fails(&data.x,
                  &(hf_kmeans_opts){.k = 3, .metric = (hf_metric)m, .weights = &large_weights},
                  HF_E_DATA, "overflow|weights");
    weights.rows = N - 1;
    fit_fails(&data.x, &o, HF_E_ARG, "[59, 1]|60 rows");
    weights = hf_array_view(w, HF_DTYPE_NONE, N, 1);
    fit_fails(&data.x, &o, HF_E_ARG, "weights|none");
}

static int note_inertia(void *user, int restart, int iteration, const hf_kmeans_iteration *it,
                        int64_t done, int64_t total) {
    (void)restart;
    (void)done;
    (void)total;
    if (iteration > 0)
        *(double *)user = it->inertia;
    return 0;
}

/* r is `base` of rows times 2^x_shift and weights times 2^w_shift. */
static void expect_scaled(const hf_kmeans_result *r, const hf_kmeans_result *base, int x_shift,
                          int inertia_shift) {
    const double *c = r->centroids.data;
    const double *was = base->centroids.data;
    assert_memory_equal(r->labels, base->labels, (size_t)r->n * sizeof(int32_t));
    for (int64_t i = 0; i < r->k * r->d; i++)
        assert_true(c[i] == ldexp(was[i], x_shift));
    assert_int_equal(r->iterations, base->iterations);
    assert_true(r->inertia == ldexp(base->inertia, inertia_shift));
    for (int i = 0; i < r->iterations; i++)
        assert_true(r->history[i].inertia == ldexp(base->history[i].inertia, inertia_shift));
}

enum { SCALED_D = 3, SCALED_K = 5 };

/* Fit N rows v times 2^x with weights times 2^w. */
static hf_kmeans_result fit_scaled(const double *v, int metric, int x_shift, int w_shift) {
    double rows[N * SCALED_D];
    double w[N];
    double told = 0;
    for (int i = 0; i < N * SCALED_D; i++)
        rows[i] = ldexp(v[i], x_shift);
    for (int i = 0; i < N; i++)
        w[i] = ldexp(1 + i % 7, w_shift);
    const hf_array x = hf_array_view(rows, HF_F64, N, SCALED_D);
    const hf_array start = hf_array_view(rows, HF_F64, SCALED_K, SCALED_D);
    const hf_array weights = hf_array_view(w, HF_F64, N, 1);
    const hf_kmeans_opts o = {.k = SCALED_K,
                              .metric = (hf_metric)metric,
                              .init = HF_INIT_GIVEN,
                              .centroids = &start,
                              .weights = &weights,
                              .max_iter = 4,
                              .tol = -1,
                              .progress = note_inertia,
                              .progress_user = &told};
    hf_kmeans_result r = {0};
    FIT_OK(ctx, hf_kmeans_fit(ctx, &x, &o, &r));
    assert_true(told == r.history[r.iterations - 1].inertia);
    return r;
}

/* Weights count by their ratios: a common power of two is seen in the inertia alone, also where
 * products with the rows lie below float64's range. */
static void weights_of_any_size(void **state) {
    (void)state;
    const struct {
        int x, w; /* exponents of the common factors */
    } shifts[] = {{0, -64}, {0, -300}, {0, -1000}, {0, 950}, {-66, -1000}, {-66, 1000}};
    double *v = blobs(6, N, SCALED_D, SCALED_K, 3);
    for (int m = HF_EUCLIDEAN; m <= HF_DOT; m++) {
        hf_kmeans_result base = fit_scaled(v, m, 0, 0);
        for (size_t s = 0; s < sizeof(shifts) / sizeof(shifts[0]); s++) {
            const int x = m == HF_COSINE ? 0 : shifts[s].x; /* that the result shows */
            hf_kmeans_result r = fit_scaled(v, m, shifts[s].x, shifts[s].w);
            expect_scaled(&r, &base, x, 2 * x + shifts[s].w);
            hf_kmeans_result_clear(&r);
        }
        hf_kmeans_result_clear(&base);
    }
    free(v);
}

static void not_finite(void **state) {
    (void)state;
    float *v = data.x.data;
    const float was = v[13 * D + 2];
    hf_kmeans_opts o = {.k = 60};
    v[13 * D + 2] = NAN;
    fit_fails(&data.x, &o, HF_E_DATA, "row 13, column 2|NaN|HF_NAN_DROP");
    o.nan = HF_NAN_DROP;
    fit_fails(&data.x, &o, HF_E_ARG, "60 clusters|59 of 60 rows");
    int32_t labels[N];
    memset(labels, 0x5a, sizeof(labels));
    const hf_array c = hf_array_view(v, HF_F32, 3, D);
    expect(
        hf_kmeans_predict(ctx, &data.x, NULL, &c, HF_EUCLIDEAN, HF_EXACT, NULL, labels, NULL, NULL),
        HF_E_DATA, labels, sizeof(labels), "row 13, column 2|NaN");
    v[13 * D + 2] = -INFINITY;
    o.nan = HF_NAN_ERROR;
    fit_fails(&data.x, &o, HF_E_DATA, "row 13, column 2|infinite");
    v[13 * D + 2] = was;
    double *all = must_alloc(N * D * sizeof(double));
    for (int i = 0; i < N * D; i++)
        all[i] = NAN;
    struct problem p = problem_from(all, N, D, HF_F64, 0);
    o = (hf_kmeans_opts){.k = 2, .nan = HF_NAN_DROP};
    fit_fails(&p.x, &o, HF_E_DATA, "all 60 rows");
    ((double *)p.x.data)[3] = 1;
    for (int i = 0; i < N * D; i++)
        ((double *)p.x.data)[i] = i % 9 == 1 ? 1e200 : 1;
    fit_fails(&p.x, &o, HF_E_DATA, "1e150|column");
    problem_free(&p);
    free(all);
}

/* A source that fails at a row, sooner or later. */
struct failing {
    int64_t at;
    int calls, allowed;
};

static hf_status read_until(void *user, int64_t first, int64_t count, void *dst, char *message,
                            size_t message_bytes) {
    struct failing *f = user;
    if (f->calls++ >= f->allowed && first <= f->at && f->at < first + count) {
        snprintf(message, message_bytes, "the disk is gone at row %d", (int)f->at);
        return HF_E_IO;
    }
    memcpy(dst, (const float *)data.x.data + first * D, (size_t)(count * D) * sizeof(float));
    return HF_OK;
}

static void source_failures(void **state) {
    (void)state;
    int failures = 0;
    for (int allowed = 0; allowed < 40; allowed++) {
        struct failing f = {.at = 31, .allowed = allowed};
        const hf_source source = {
            .rows = N, .cols = D, .dtype = HF_F32, .read = read_until, .user = &f};
        const hf_kmeans_opts o = {.k = 4, .n_init = 2};
        hf_kmeans_result r;
        memset(&r, 0x5a, sizeof(r));
        const hf_status status = hf_kmeans_fit_source(ctx, &source, &o, &r);
        if (status == HF_OK) {
            hf_kmeans_result_clear(&r);
            continue;
        }
        failures++;
        expect(status, HF_E_IO, &r, sizeof(r), "the disk is gone at row 31");
    }
    assert_true(failures > 5);
    struct failing f = {.at = 31, .allowed = 0};
    const hf_source source = {
        .rows = N, .cols = D, .dtype = HF_F32, .read = read_until, .user = &f};
    int32_t labels[N];
    memset(labels, 0x5a, sizeof(labels));
    const hf_array c = hf_array_view(data.x.data, HF_F32, 3, D);
    for (f.allowed = 0; f.allowed < 2; f.allowed++, f.calls = 0)
        expect(hf_kmeans_predict(ctx, NULL, &source, &c, HF_EUCLIDEAN, HF_EXACT, NULL, labels, NULL,
                                 NULL),
               HF_E_IO, labels, sizeof(labels), "the disk is gone");
    const hf_source none = {.rows = N, .cols = D, .dtype = HF_F32};
    hf_kmeans_result r;
    memset(&r, 0x5a, sizeof(r));
    expect(hf_kmeans_fit_source(ctx, &none, &(hf_kmeans_opts){.k = 2}, &r), HF_E_ARG, &r, sizeof(r),
           "read function");
}

/* A source whose rows come in another order each time. */
static hf_status read_shuffled(void *user, int64_t first, int64_t count, void *dst, char *message,
                               size_t message_bytes) {
    int *calls = user;
    (void)message, (void)message_bytes;
    for (int64_t i = 0; i < count; i++)
        memcpy((float *)dst + i * D, (const float *)data.x.data + (first + i + *calls) % N * D,
               D * sizeof(float));
    ++*calls;
    return HF_OK;
}

static void rows_that_change(void **state) {
    (void)state;
    int calls = 0;
    const hf_source source = {
        .rows = N, .cols = D, .dtype = HF_F32, .read = read_shuffled, .user = &calls};
    const hf_kmeans_opts o = {.k = 4, .init = HF_INIT_RANDOM};
    hf_kmeans_result r;
    memset(&r, 0x5a, sizeof(r));
    expect(hf_kmeans_fit_source(ctx, &source, &o, &r), HF_E_CORRUPT, &r, sizeof(r),
           "the source gave other rows than before");
}

/* ---- one context, two calls at once */

struct rival {
    hf_context *ctx;
    int calls, refused, others; /* what the second call met */
};

static int call_again(void *user, int restart, int iteration, const hf_kmeans_iteration *it,
                      int64_t done, int64_t total) {
    struct rival *rival = user;
    const hf_array c = hf_array_view(data.x.data, HF_F32, 3, D);
    int32_t labels[N];
    hf_kmeans_result r = {0};
    const hf_kmeans_opts o = {.k = 2};
    (void)restart, (void)iteration, (void)it, (void)done, (void)total;
    rival->calls++;
    assert_int_equal(hf_kmeans_fit(rival->ctx, &data.x, &o, &r), HF_E_BUSY);
    assert_int_equal(hf_kmeans_fit_batch(rival->ctx, &data.x, 1, &o, &r), HF_E_BUSY);
    assert_int_equal(hf_kmeans_predict(rival->ctx, &data.x, NULL, &c, HF_EUCLIDEAN, HF_EXACT, NULL,
                                       labels, NULL, NULL),
                     HF_E_BUSY);
    assert_null(r.labels);
    return 0;
}

static void *fit_often(void *user) {
    struct rival *rival = user;
    const hf_kmeans_opts o = {.k = 4, .n_init = 3};
    for (int i = 0; i < 200; i++) {
        hf_kmeans_result r = {0};
        const hf_status status = hf_kmeans_fit(rival->ctx, &data.x, &o, &r);
        rival->calls++;
        rival->refused += status == HF_E_BUSY;
        rival->others += status != HF_E_BUSY && status != HF_OK;
        hf_kmeans_result_clear(&r);
    }
    return NULL;
}

static void one_call_at_a_time(void **state) {
    (void)state;
    hf_context *shared = open_context(2, 0);
    struct rival inside = {.ctx = shared};
    hf_kmeans_opts o = {.k = 4, .progress = call_again, .progress_user = &inside};
    hf_kmeans_result r = {0};
    FIT_OK(shared, hf_kmeans_fit(shared, &data.x, &o, &r));
    assert_true(inside.calls > 1);
    hf_kmeans_result_clear(&r);
    struct rival rivals[3] = {{.ctx = shared}, {.ctx = shared}, {.ctx = shared}};
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, fit_often, &rivals[i]), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (int i = 0; i < 3; i++)
        assert_true(rivals[i].others == 0 && rivals[i].calls == 200);
    o.progress = NULL;
    FIT_OK(shared, hf_kmeans_fit(shared, &data.x, &o, &r)); /* it is free again */
    hf_kmeans_result_clear(&r);
    hf_context_destroy(shared);
}

static void too_little_memory(void **state) {
    (void)state;
    hf_context *small = open_context(1, 1 << 20);
    const int64_t n = 300000;
    float *v = must_alloc((size_t)n * sizeof(float));
    for (int64_t i = 0; i < n; i++)
        v[i] = (float)(i % 1000);
    const hf_array x = hf_array_view(v, HF_F32, n, 1);
    const hf_kmeans_opts o = {.k = 5};
    hf_kmeans_result r;
    memset(&r, 0x5a, sizeof(r));
    assert_int_equal(hf_kmeans_fit(small, &x, &o, &r), HF_E_NOMEM);
    assert_non_null(strstr(hf_last_error(small), "allows 1048576"));
    assert_int_equal(((unsigned char *)&r)[0], 0x5a);
    const hf_array few = hf_array_view(v, HF_F32, 500, 1); /* small data fit into what there is */
    FIT_OK(small, hf_kmeans_fit(small, &few, &o, &r));
    hf_kmeans_result_clear(&r);
    hf_context_destroy(small);
    free(v);
}

static hf_status read_rows(void *user, int64_t first, int64_t count, void *dst, char *message,
                           size_t message_bytes) {
    const struct problem *p = user;
    (void)message, (void)message_bytes;
    memcpy(dst, (const float *)p->x.data + first * p->d, (size_t)(count * p->d) * sizeof(float));
    return HF_OK;
}

/* With a byte less than a start needs, the fit says how many these are; with so many (for a source
 * with some more, or rows are read one by one) it is the one without a limit. */
static void memory_of_starts(void **state) {
    (void)state;
    double *v = blobs(3, 12000, 10, 200, 4);
    struct problem p = problem_from(v, 12000, 10, HF_F32, 0);
    const hf_source source = {p.n, p.d, HF_F32, read_rows, &p};
    for (int way = 0; way < 4; way++) {
        const hf_kmeans_opts o = {.k = 150,
                                  .init = way / 2 ? HF_INIT_KMEANS_PARALLEL : HF_INIT_KMEANSPP,
                                  .seed = 4,
                                  .max_iter = 2};
        hf_kmeans_result want = {0};
        hf_kmeans_result r = {0};
        FIT_OK(ctx, hf_kmeans_fit(ctx, &p.x, &o, &want));
        uint64_t limit = 1 << 20;
        for (int time = 0; time < 3; time++) {
            hf_context *small = open_context(2, limit);
            const hf_status status = way % 2 ? hf_kmeans_fit_source(small, &source, &o, &r)
                                             : hf_kmeans_fit(small, &p.x, &o, &r);
            const char *needs = strstr(hf_last_error(small), "clusters needs ");
            /* of a megabyte, of a byte less than that, of all */
            assert_int_equal(status, time < 2 ? HF_E_NOMEM : HF_OK);
            if (status == HF_OK)
                assert_same_fit(&want, &r);
            else if (!needs)
                fail_msg("no bytes are named: %s", hf_last_error(small));
            else
                limit = strtoull(needs + 15, NULL, 10) + (time ? way % 2 * 65536u : UINT64_MAX);
            hf_kmeans_result_clear(&r);
            hf_context_destroy(small);
        }
        hf_kmeans_result_clear(&want);
    }
    problem_free(&p);
    free(v);
}

static int stop_at_zero(void *user, int restart, int iteration, const hf_kmeans_iteration *it,
                        int64_t done, int64_t total) {
    const int *when = user;
    (void)it;
    assert_true(done <= total);
    return restart == when[0] && iteration == when[1];
}

/* Stopped while seeding: nothing to show in the first restart, the best so far in a later one. */
static void cancelled_while_seeding(void **state) {
    (void)state;
    int when[2] = {0, 0};
    hf_kmeans_opts o = {
        .k = 20, .n_init = 2, .progress = stop_at_zero, .progress_user = when, .seed = 1};
    fit_fails(&data.x, &o, HF_E_CANCELLED, "");
    when[0] = 1;
    hf_kmeans_result r = {0};
    FIT_OK(ctx, hf_kmeans_fit(ctx, &data.x, &o, &r));
    assert_int_equal(r.stop, HF_STOP_CANCELLED);
    assert_int_equal(r.restart, 0);
    check_result(&data, &o, &r);
    hf_kmeans_result_clear(&r);
}

static void bad_calls(void **state) {
    (void)state;
    int32_t labels[N];
    memset(labels, 0x5a, sizeof(labels));
    const hf_array c = hf_array_view(data.x.data, HF_F32, 3, D);
    const hf_array narrow = hf_array_view(data.x.data, HF_F32, 3, D - 1);
    expect(hf_kmeans_predict(ctx, NULL, NULL, &c, HF_EUCLIDEAN, HF_EXACT, NULL, labels, NULL, NULL),
           HF_E_ARG, labels, sizeof(labels), "once");
    expect(hf_kmeans_predict(ctx, &data.x, NULL, &narrow, HF_EUCLIDEAN, HF_EXACT, NULL, labels,
                             NULL, NULL),
           HF_E_ARG, labels, sizeof(labels), "3 columns|4");
    expect(hf_kmeans_predict(ctx, &data.x, NULL, NULL, HF_EUCLIDEAN, HF_EXACT, NULL, labels, NULL,
                             NULL),
           HF_E_ARG, labels, sizeof(labels), "centroids");
    expect(
        hf_kmeans_predict(ctx, &data.x, NULL, &c, HF_EUCLIDEAN, HF_EXACT, NULL, NULL, NULL, NULL),
        HF_E_ARG, NULL, 0, "labels");
    expect(hf_kmeans_transform(ctx, &data.x, NULL, &c, HF_EUCLIDEAN, NULL, NULL), HF_E_ARG, NULL, 0,
           "sink");
    hf_kmeans_result r[2];
    memset(r, 0x5a, sizeof(r));
    hf_array x[2] = {data.x, data.x};
    x[1].rows--;
    const hf_kmeans_opts o = {.k = 2};
    const hf_kmeans_opts saved = {.k = 2, .checkpoint = "x"};
    expect(hf_kmeans_fit_batch(ctx, x, 2, &o, r), HF_E_ARG, r, sizeof(r), "problem 1|one shape");
    expect(hf_kmeans_fit_batch(ctx, x, 1, &saved, r), HF_E_ARG, r, sizeof(r), "checkpoint");
    expect(hf_kmeans_fit_batch(ctx, x, 0, &o, r), HF_E_ARG, r, sizeof(r), "batch");
    hf_kmeans_result_clear(NULL);
    for (int stop = HF_STOP_NONE; stop <= HF_STOP_CANCELLED + 1; stop++)
        assert_true(strlen(hf_stop_text((hf_stop)stop)) > 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bad_options),
                                       cmocka_unit_test(bad_arrays),
                                       cmocka_unit_test(bad_centroids_and_weights),
                                       cmocka_unit_test(weights_of_any_size),
                                       cmocka_unit_test(not_finite),
                                       cmocka_unit_test(source_failures),
                                       cmocka_unit_test(rows_that_change),
                                       cmocka_unit_test(one_call_at_a_time),
                                       cmocka_unit_test(too_little_memory),
                                       cmocka_unit_test(memory_of_starts),
                                       cmocka_unit_test(cancelled_while_seeding),
                                       cmocka_unit_test(bad_calls)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
