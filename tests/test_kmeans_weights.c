/* SPDX-License-Identifier: Apache-2.0
 * Weights of any size: centroids are the means of their rows, however little these weigh. */
#include "kmeans_brute.h"

enum { ROWS = 600, COLUMNS = 3, CLUSTERS = 20 };

/* The mean of column f of cluster l, by the weights as given; false: the cluster has no weight. */
static bool mean_of(const struct problem *p, const double *w, const hf_kmeans_result *r, int64_t l,
                    int64_t f, double *mean) {
    long double sum = 0;
    long double weight = 0;
    for (int64_t i = 0; i < p->n; i++) {
        if (r->labels[i] != l)
            continue;
        sum += (long double)w[i] * (long double)p->x64[i * p->d + f];
        weight += (long double)w[i];
    }
    *mean = weight > 0 ? (double)(sum / weight) : 0;
    return weight > 0;
}

/* Only of a fit that ended with no label changed. unit: the rounding of the centroids. */
static void check_weighted_means(const struct problem *p, const double *w,
                                 const hf_kmeans_result *r, double unit) {
    assert_int_equal(r->stop, HF_STOP_LABELS);
    for (int64_t l = 0; l < r->k; l++)
        for (int64_t f = 0; f < p->d; f++) {
            double mean = 0;
            double largest = 0;
            for (int64_t i = 0; i < p->n; i++)
                largest = fmax(largest, fabs(p->x64[i * p->d + f]));
            const double c = hf_load_f64(r->centroids.data, r->centroids.dtype, l * p->d + f);
            assert_true(isfinite(c));
            if (mean_of(p, w, r, l, f, &mean) && !(fabs(c - mean) <= unit * largest))
                fail_msg("cluster %d, column %d: %.17g, the mean is %.17g", (int)l, (int)f, c,
                         mean);
        }
}

static hf_kmeans_result fit_weighted(hf_context *ctx, const struct problem *p, double *w,
                                     hf_kmeans_opts o) {
    const hf_array weights = hf_array_view(w, HF_F64, p->n, 1);
    hf_kmeans_result r = {0};
    o.weights = &weights;
    o.tol = -1;
    FIT_OK(ctx, hf_kmeans_fit(ctx, &p->x, &o, &r));
    return r;
}

static void half_a_unit_of_weight(void **state) {
    (void)state;
    const double v[] = {60000, -60000};
    hf_context *ctx = open_context(1, 0);
    for (int e = 1; e < 40; e++) {
        double w[] = {1, 5 * pow(10, -e)};
        struct problem p = problem_from(v, 2, 1, HF_F16, 0);
        hf_kmeans_result r =
            fit_weighted(ctx, &p, w, (hf_kmeans_opts){.k = 2, .store = HF_CENTROIDS_SAME});
        const float *c = r.centroids.data;
        assert_true(c[r.labels[0]] == 60000 && c[r.labels[1]] == -60000);
        assert_true(r.inertia == 0);
        hf_kmeans_result_clear(&r);
        problem_free(&p);
    }
    hf_context_destroy(ctx);
}

/* 10 to a power from -reach to reach. */
static void draw_weights(uint64_t seed, double reach, double *w) {
    struct hf_rng rng = {.seed = seed};
    for (int i = 0; i < ROWS; i++)
        w[i] = i % 17 == 0 ? 0 : pow(10, reach * ((double)(hf_rng_next(&rng) % 2001) / 1000.0 - 1));
}

static void weights_far_apart(void **state) {
    (void)state;
    static const double units[] = {[HF_F32] = 0x1p-23, [HF_F64] = 0x1p-38, [HF_F16] = 0x1p-10};
    static double w[ROWS];
    const hf_dtype types[] = {HF_F32, HF_F64, HF_F16};
    hf_context *ctx = open_context(2, 0);
    double *v = blobs(31, ROWS, COLUMNS, 30, 9);
    for (int t = 0; t < 3; t++)
        for (int at = 0; at < 12; at++) {
            const hf_kmeans_opts o = {.k = CLUSTERS,
                                      .init = at % 2 ? HF_INIT_RANDOM : HF_INIT_KMEANSPP,
                                      .empty = at % 3 == 0 ? HF_EMPTY_KEEP : HF_EMPTY_RELOCATE,
                                      .store = types[t] == HF_F16 ? HF_CENTROIDS_SAME
                                                                  : HF_CENTROIDS_WIDE,
                                      .seed = (uint64_t)at};
            draw_weights((uint64_t)at, at < 8 ? 30 : 140, w);
            struct problem p = problem_from(v, ROWS, COLUMNS, types[t], 0);
            hf_kmeans_result r = fit_weighted(ctx, &p, w, o);
            check_weighted_means(&p, w, &r, units[types[t]]);
            hf_kmeans_result_clear(&r);
            problem_free(&p);
        }
    free(v);
    hf_context_destroy(ctx);
}

/* Also where a distance times a weight that was scaled would vanish. */
static void inertia_is_that_of_predict(void **state) {
    (void)state;
    static double w[ROWS];
    const double tiny[] = {0, 1e-148, 5};
    double heavy[] = {1, 1, 1e30};
    hf_context *ctx = open_context(1, 0);
    for (int at = 0; at < 2; at++) {
        double *v = blobs(32, ROWS, 1, 5, 2);
        double inertia = 0;
        int32_t labels[ROWS];
        draw_weights(5, 200, w);
        struct problem p = problem_from(at ? v : tiny, at ? ROWS : 3, 1, HF_F64, 0);
        hf_kmeans_result r = fit_weighted(ctx, &p, at ? w : heavy, (hf_kmeans_opts){.k = 2});
        const hf_array weights = hf_array_view(at ? w : heavy, HF_F64, p.n, 1);
        FIT_OK(ctx, hf_kmeans_predict(ctx, &p.x, NULL, &r.centroids, HF_EUCLIDEAN, HF_EXACT,
                                      &weights, labels, NULL, &inertia));
        assert_true(inertia > 0);
        assert_true(r.inertia == inertia);
        assert_memory_equal(r.labels, labels, (size_t)p.n * sizeof *labels);
        hf_kmeans_result_clear(&r);
        problem_free(&p);
        free(v);
    }
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(half_a_unit_of_weight),
                                       cmocka_unit_test(weights_far_apart),
                                       cmocka_unit_test(inertia_is_that_of_predict)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
