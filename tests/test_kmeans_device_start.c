/* SPDX-License-Identifier: Apache-2.0
 * What a fit on a GPU leaves to code of the host has the bits of the CPU, too: clusters that weigh
 * next to nothing. Skipped, with the reason, where there is no GPU. */
#include "kmeans_device.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(weights_far_apart)};
    const hf_context_opts opts = {.device = "cuda", .threads = 2};
    if (hf_context_create(&gpu, &opts) != HF_OK) {
        printf("skipped: %s\n", hf_last_error(NULL));
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hf_context_destroy(gpu);
    return failed;
}
