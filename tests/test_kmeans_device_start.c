/* SPDX-License-Identifier: Apache-2.0
 * What a fit on a GPU leaves to code of the host has the bits of the CPU, too: clusters that weigh
 * next to nothing, and starts that are cut off on one device and go on on the other. Skipped, with
 * the reason, where there is no GPU. */
#include "kmeans_start.h"
#include "on_device.h"

static hf_context *gpu;

static void weights_far_apart(void **state) {
    (void)state;
    enum { ROWS = 4000 };
    const hf_dtype types[] = {HF_F32, HF_F64, HF_F16};
    double *v = blobs(71, ROWS, 16, 60, 4);
    double *w = must_alloc(ROWS * sizeof(double));
    struct hf_rng rng = {.seed = 6};
    for (int i = 0; i < ROWS; i++)
        w[i] = ldexp(1 + hf_rng_next_unit(&rng), (int)(hf_rng_next(&rng) % 200) - 100);
    const hf_array weights = hf_array_view(w, HF_F64, ROWS, 1);
    hf_context *cpu = open_context(2, 0);
    for (int t = 0; t < 3; t++)
        for (int metric = HF_EUCLIDEAN; metric <= HF_COSINE; metric++) {
            struct problem p = problem_from(v, ROWS, 16, types[t], 0);
            const hf_kmeans_opts o = {.k = 50,
                                      .metric = (hf_metric)metric,
                                      .seed = 3,
                                      .tol = -1,
                                      .max_iter = 40,
                                      .weights = &weights};
            hf_kmeans_result a = {0};
            hf_kmeans_result b = {0};
            FIT_OK(cpu, hf_kmeans_fit(cpu, &p.x, &o, &a));
            FIT_OK(gpu, hf_kmeans_fit(gpu, &p.x, &o, &b));
            expect_same(&a, &b, hf_dtype_name(types[t]));
            hf_kmeans_result_clear(&a);
            hf_kmeans_result_clear(&b);
            problem_free(&p);
        }
    hf_context_destroy(cpu);
    free(v);
    free(w);
}

/* from: where it is cut off; to: where it goes on. */
static int start_elsewhere(const hf_array *x, hf_kmeans_opts o, hf_context *from, hf_context *to,
                           const hf_kmeans_result *whole) {
    int saved = 0;
    for (int64_t at = 2; at < o.k; at += o.k / 4) {
        struct cut cut = {.restart = 0, .at = at};
        hf_kmeans_result r = {0};
        if (!start_and_cut(from, x, o, &cut))
            continue;
        o.resume = start_path();
        FIT_OK(to, hf_kmeans_fit(to, x, &o, &r));
        o.resume = NULL;
        expect_same(whole, &r, "a start cut off");
        hf_kmeans_result_clear(&r);
        saved++;
    }
    unlink(start_path());
    return saved;
}

static void starts_go_on(void **state) {
    (void)state;
    const int64_t shapes[][3] = {{3000, 8, 600}, {200000, 4, 700}, {3000, 3, 300}};
    hf_context *cpu = open_context(2, 0);
    int saved = 0;
    for (int s = 0; s < 3; s++) {
        const int64_t n = shapes[s][0], d = shapes[s][1];
        double *v = blobs(61 + (uint64_t)s, n, d, 40, 3);
        for (int64_t i = 200; s == 2 && i < n; i++) /* fewer points than clusters */
            memcpy(v + i * d, v + i % 200 * d, (size_t)d * sizeof(double));
        struct problem p = problem_from(v, n, d, HF_F32, 0);
        for (int at = 0; at < 6; at++) {
            const hf_kmeans_opts o = {.k = shapes[s][2],
                                      .init = at % 2 ? HF_INIT_KMEANS_PARALLEL : HF_INIT_KMEANSPP,
                                      .metric = (hf_metric)(at / 2),
                                      .max_iter = 3,
                                      .seed = 2};
            hf_kmeans_result whole = {0};
            FIT_OK(cpu, hf_kmeans_fit(cpu, &p.x, &o, &whole));
            saved += start_elsewhere(&p.x, o, cpu, gpu, &whole);
            saved += start_elsewhere(&p.x, o, gpu, cpu, &whole);
            saved += start_elsewhere(&p.x, o, gpu, gpu, &whole);
            hf_kmeans_result_clear(&whole);
        }
        problem_free(&p);
        free(v);
    }
    assert_true(saved > 30);
    hf_context_destroy(cpu);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_far_apart),
                                       cmocka_unit_test(starts_go_on)};
    if (!open_for_tests(&gpu, "cuda", argc, argv))
        return SKIPPED;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hf_context_destroy(gpu);
    return failed;
}
