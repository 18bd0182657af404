/* SPDX-License-Identifier: Apache-2.0
 * Labels of a GPU: they stay there until the host must have them, and are the CPU's on real rows
 * that ask for all of the arithmetic. Skipped, with the reason, where there is none. */
#include "core/context.h"
#include "kmeans_device.h"

static hf_context *gpu;

/* Whether one is out of range, wherever it lies; and all of them on the host, in pieces by one
 * thread or several. */
static void labels_there(void **state) {
    (void)state;
    const int64_t counts[] = {1, 1000, 65535, 65536, 300001, 4500003};
    for (int i = 0; i < 6; i++) {
        const int64_t n = counts[i];
        const size_t bytes = (size_t)n * sizeof(int32_t);
        const int64_t wrong[] = {0, n / 2, n - 1};
        int32_t *here = malloc(bytes);
        int32_t *back = malloc(bytes);
        int32_t *there = hf_ctx_alloc(gpu, bytes);
        assert_true(here && back && there);
        for (int64_t j = 0; j < n; j++)
            here[j] = (int32_t)(j * 7919 % 100);
        for (int w = -1; w < 6; w++) {
            const int64_t at = w < 0 ? 0 : wrong[w % 3];
            const int32_t right = here[at];
            here[at] = w < 0 ? right : w < 3 ? 100 : -1;
            memset(back, 0xee, bytes);
            assert_int_equal(hf_ctx_copy(gpu, there, here, bytes), HF_OK);
            assert_int_equal(hf_ctx_start_below(gpu, there, n, 100), HF_OK);
            assert_int_equal(gpu->device->sync(gpu->stream), HF_OK);
            assert_int_equal(hf_ctx_end_below(gpu), w < 0);
            if (w % 2 == 0) {
                assert_int_equal(hf_ctx_copy(gpu, back, there, bytes), HF_OK);
            } else {
                assert_int_equal(hf_ctx_start_fetch(gpu, back, there, bytes), HF_OK);
                assert_int_equal(hf_ctx_end_fetch(gpu), HF_OK);
            }
            assert_memory_equal(here, back, bytes);
            here[at] = right;
        }
        hf_ctx_release(gpu, there);
        free(here);
        free(back);
    }
}

/* A context of one thread after one of many: what they share of a device is made anew. */
static void fewer_threads(void **state) {
    (void)state;
    double *v = blobs(12, 1500007, 3, 7, 1);
    struct problem p = problem_from(v, 1500007, 3, HF_F32, 0);
    const hf_kmeans_opts o = {.k = 7, .init = HF_INIT_RANDOM, .seed = 2, .max_iter = 9};
    hf_context *const many = gpu;
    hf_context *cpu = open_context(2, 0);
    hf_kmeans_result a = {0};
    FIT_OK(cpu, hf_kmeans_fit(cpu, &p.x, &o, &a));
    for (int threads = 1; threads < 4; threads += 2) {
        const hf_context_opts c = {.device = "cuda", .threads = threads};
        assert_int_equal(hf_context_create(&gpu, &c), HF_OK);
        hf_kmeans_result b = {0};
        FIT_OK(gpu, hf_kmeans_fit(gpu, &p.x, &o, &b));
        expect_same(&a, &b, "fewer threads");
        hf_kmeans_result_clear(&b);
        hf_context_destroy(gpu);
    }
    gpu = many;
    hf_kmeans_result_clear(&a);
    hf_context_destroy(cpu);
    problem_free(&p);
    free(v);
}

/* Rounding of the 16-bit kernels shows where one column is far wider than the others. */
static void population_beside_coordinates(void **state) {
    (void)state;
    struct problem p = cities_with_population(gpu, 70000);
    hf_context *cpu = open_context(2, 0);
    for (int k = 100; k <= 1000; k *= 10) {
        const hf_kmeans_opts o = {.k = k, .init = HF_INIT_RANDOM, .seed = 4, .max_iter = 5};
        hf_kmeans_result a = {0}, b = {0};
        FIT_OK(cpu, hf_kmeans_fit(cpu, &p.x, &o, &a));
        FIT_OK(gpu, hf_kmeans_fit(gpu, &p.x, &o, &b));
        expect_same(&a, &b, "cities");
        hf_kmeans_result_clear(&a);
        hf_kmeans_result_clear(&b);
    }
    hf_context_destroy(cpu);
    problem_free(&p);
}

/* Few sites far apart, many centroids at each: 16 bits tell the sites, and differences the rest. A
 * GPU has rows enough to look for that, and other kernels for narrow rows and for long lists. */
static void far_sites(void **state) {
    (void)state;
    const int64_t n = 270000, d = 8;
    const int sites[] = {32, 32, 2}, k[] = {40, 300, 600};
    hf_context *cpu = open_context(2, 0);
    for (int i = 0; i < 3; i++) {
        double *v = blobs(31 + (uint64_t)i, n, d, sites[i], 1e4);
        struct problem p = problem_from(v, n, d, HF_F32, 0);
        const hf_kmeans_opts o = {.k = k[i], .init = HF_INIT_RANDOM, .seed = 4, .max_iter = 9};
        hf_kmeans_result a = {0}, b = {0};
        FIT_OK(cpu, hf_kmeans_fit(cpu, &p.x, &o, &a));
        FIT_OK(gpu, hf_kmeans_fit(gpu, &p.x, &o, &b));
        expect_same(&a, &b, "far sites");
        hf_kmeans_result_clear(&a);
        hf_kmeans_result_clear(&b);
        problem_free(&p);
        free(v);
    }
    hf_context_destroy(cpu);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_there), cmocka_unit_test(fewer_threads),
        cmocka_unit_test(population_beside_coordinates), cmocka_unit_test(far_sites)};
    const hf_context_opts opts = {.device = "cuda", .threads = 4};
    if (hf_context_create(&gpu, &opts) != HF_OK) {
        printf("skipped: %s\n", hf_last_error(NULL));
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hf_context_destroy(gpu);
    return failed;
}
