/* SPDX-License-Identifier: Apache-2.0
 * Products of bfloat16 by AMX have the bits that docs/matmul.md describes. Skipped, with the
 * reason, where there is no AMX. */
#include "base/dtype.h"
#include "base/rng.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "emulate.h"
#include "unit.h"
#include <holdfast/holdfast.h>
#include <math.h>
#include <string.h>

#define M 280 /* several areas */
#define N 300
#define MOST_K 9000 /* three ranges of bfloat16, two of int8, each of many passes */
#define LARGE_M 1040
#define LARGE_N 528
#define LARGE_K 1100
#define KERNEL "gemm_bf16_32x32_amx"

static uint16_t a[M * MOST_K], b[MOST_K * N];
static int8_t whole_a[M * MOST_K], whole_b[MOST_K * N];
static float c[M * N];
static int32_t whole[M * N];

/* scale: exponents from -scale to scale. */
static void fill(uint16_t *x, int64_t count, uint64_t stream, int scale) {
    struct hf_rng rng = {3, stream, 0};
    for (int64_t i = 0; i < count; i++) {
        const double v = hf_rng_next_normal(&rng);
        const int e = scale > 0 ? (int)(hf_rng_next(&rng) % (uint64_t)(2 * scale + 1)) - scale : 0;
        hf_store_f64(x, HF_BF16, i, ldexp(v, e));
    }
}

static void bits_as_described(void **state) {
    (void)state;
    static const int64_t depths[] = {1, 2, 31, 32, 33, 100, 255, 512, 1100, 9000};
    static const int scales[] = {0, 10, 60, 66};
    hf_context *ctx = NULL;
    const hf_context_opts opts = {.device = "cpu", .threads = 2};
    if ((hf_cpu_isas() >> HF_ISA_ID_amx & 1) == 0) {
        print_message("skipped: this CPU has no AMX\n");
        skip();
    }
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    for (int i = 0; i < 40; i++) {
        const int64_t k = depths[i % 10];
        hf_gemm_report report;
        fill(a, M * k, (uint64_t)(2 * i), scales[i / 10]);
        fill(b, k * N, (uint64_t)(2 * i + 1), scales[i / 10]);
        const hf_gemm_args args = {.m = M,
                                   .n = N,
                                   .k = k,
                                   .lda = k,
                                   .ldb = N,
                                   .dtype = HF_BF16,
                                   .dtype_c = HF_F32,
                                   .alpha = 1,
                                   .a = a,
                                   .b = b,
                                   .c = c};
        assert_int_equal(hf_gemm(ctx, &args, &report), HF_OK);
        assert_string_equal(report.kernel, KERNEL);
        assert_non_null(strstr(report.arithmetic, "AMX"));
        const int64_t step = k > 500 ? 37 : 1; /* sums of many products take long here */
        for (int64_t e = 0; e < M * N; e += step) {
            const float want = amx_sum(&args, e / N, e % N);
            if (memcmp(&want, &c[e], sizeof want) != 0 && !(isnan(want) && isnan(c[e])))
                fail_msg("k=%d, exponents +-%d: element %d is %.9g, not %.9g", (int)k,
                         scales[i / 10], (int)e, (double)c[e], (double)want);
        }
    }
    hf_context_destroy(ctx);
}

/* int8 is exact, however many products there are. */
static void whole_numbers_are_exact(void **state) {
    (void)state;
    static const int64_t depths[] = {33, 1024, 1100, MOST_K};
    struct hf_rng rng = {4, 1, 0};
    hf_context *ctx = NULL;
    const hf_context_opts opts = {.device = "cpu", .threads = 2};
    hf_gemm_report report;
    if ((hf_cpu_isas() >> HF_ISA_ID_amx & 1) == 0) {
        print_message("skipped: this CPU has no AMX\n");
        skip();
    }
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    for (int64_t i = 0; i < MOST_K * N; i++)
        whole_b[i] = (int8_t)hf_rng_next(&rng);
    for (int64_t i = 0; i < MOST_K * M; i++)
        whole_a[i] = (int8_t)hf_rng_next(&rng);
    for (int d = 0; d < 4; d++) {
        const int64_t k = depths[d];
        const hf_gemm_args args = {.m = M,
                                   .n = N,
                                   .k = k,
                                   .dtype = HF_I8,
                                   .alpha = 1,
                                   .a = whole_a,
                                   .b = whole_b,
                                   .c = whole};
        assert_int_equal(hf_gemm(ctx, &args, &report), HF_OK);
        assert_string_equal(report.kernel, "gemm_i8_32x32_amx");
        for (int64_t e = 0; e < M * N; e += 37) {
            int64_t want = 0;
            for (int64_t p = 0; p < k; p++)
                want += whole_a[e / N * k + p] * whole_b[p * N + e % N];
            assert_int_equal(whole[e], want);
        }
    }
    hf_context_destroy(ctx);
}

/* A C of many rows of whole cache lines is written past the caches, one that begins between two
 * lines is not, nor one that is read; who packs A depends on the number of threads. */
static void where_c_lies_makes_no_difference(void **state) {
    (void)state;
    static _Alignas(64) float first[LARGE_M * LARGE_N], other[LARGE_M * LARGE_N + 1];
    hf_context *ctx[2] = {NULL, NULL};
    if ((hf_cpu_isas() >> HF_ISA_ID_amx & 1) == 0) {
        print_message("skipped: this CPU has no AMX\n");
        skip();
    }
    fill(a, LARGE_M * LARGE_K, 1, 0);
    fill(b, LARGE_K * LARGE_N, 2, 0);
    hf_gemm_args args = {.m = LARGE_M,
                         .n = LARGE_N,
                         .k = LARGE_K,
                         .dtype = HF_BF16,
                         .dtype_c = HF_F32,
                         .alpha = 1,
                         .a = a,
                         .b = b,
                         .c = first};
    for (int t = 0; t < 2; t++) {
        const hf_context_opts opts = {.device = "cpu", .threads = t == 0 ? 1 : 3};
        assert_int_equal(hf_context_create(&ctx[t], &opts), HF_OK);
    }
    memset(first, 0xff, sizeof first);
    assert_int_equal(hf_gemm(ctx[0], &args, NULL), HF_OK);
    args.lda = LARGE_K;
    args.ldb = LARGE_N;
    for (int64_t e = 0; e < LARGE_M * LARGE_N; e += 97) {
        const float want = amx_sum(&args, e / LARGE_N, e % LARGE_N);
        assert_memory_equal(&want, &first[e], sizeof want);
    }
    for (int i = 0; i < 6; i++) {
        float *const at = other + i % 2;
        memset(at, 0, sizeof first);
        args.c = at;
        args.beta = i / 2 == 0 ? 1 : 0;
        assert_int_equal(hf_gemm(ctx[i / 2 == 1], &args, NULL), HF_OK);
        assert_memory_equal(at, first, sizeof first);
    }
    hf_context_destroy(ctx[0]);
    hf_context_destroy(ctx[1]);
}

/* A CPU without AMX gives these bits for `portable`, and so does one with it. */
static void portable_is_the_chain(void **state) {
    (void)state;
    hf_context *ctx = NULL;
    const hf_context_opts opts = {.device = "cpu", .threads = 1};
    hf_gemm_report report;
    fill(a, M * 300, 1, 0);
    fill(b, 300 * N, 2, 0);
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    const hf_gemm_args args = {.m = M,
                               .n = N,
                               .k = 300,
                               .dtype = HF_BF16,
                               .dtype_c = HF_F32,
                               .alpha = 1,
                               .a = a,
                               .b = b,
                               .c = c,
                               .portable = 1};
    assert_int_equal(hf_gemm(ctx, &args, &report), HF_OK);
    assert_string_equal(report.arithmetic, "f32 FMA chain, blocks of 256");
    for (int64_t e = 0; e < M * N; e++) {
        float total = 0;
        for (int64_t first = 0; first < 300; first += 256) {
            float sum = 0;
            for (int64_t p = first; p < 300 && p < first + 256; p++)
                sum = fmaf((float)hf_load_f64(a, HF_BF16, e / N * 300 + p),
                           (float)hf_load_f64(b, HF_BF16, p * N + e % N), sum);
            total = first == 0 ? sum : total + sum;
        }
        assert_memory_equal(&total, &c[e], sizeof total);
    }
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits_as_described),
                                       cmocka_unit_test(whole_numbers_are_exact),
                                       cmocka_unit_test(where_c_lies_makes_no_difference),
                                       cmocka_unit_test(portable_is_the_chain)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
