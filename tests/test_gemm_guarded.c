/* SPDX-License-Identifier: Apache-2.0
 * hf_gemm_guarded(): right products are not suspected, faults are put right or end the call. */
#include "base/dtype.h"
#include "base/rng.h"
#include "unit.h"
#include <holdfast/holdfast.h>
#include <math.h>
#include <string.h>

#define MOST (1 << 17) /* bytes of a matrix here */

static const struct {
    hf_dtype in, out;
} all_types[] = {{HF_F32, HF_F32},   {HF_F64, HF_F64},  {HF_F16, HF_F16},
                 {HF_BF16, HF_BF16}, {HF_BF16, HF_F32}, {HF_I8, HF_I32}};
#define TYPES (sizeof all_types / sizeof all_types[0])

static hf_context *ctx;
static _Alignas(64) char a_mem[MOST], b_mem[MOST], c_mem[MOST], whole[MOST], part[MOST];

static int open_ctx(void **state) {
    const hf_context_opts opts = {.device = "cpu", .threads = 2};
    (void)state;
    return hf_context_create(&ctx, &opts) != HF_OK;
}

static int close_ctx(void **state) {
    (void)state;
    hf_context_destroy(ctx);
    return 0;
}

static void fill(void *data, hf_dtype dtype, int64_t count, uint64_t stream) {
    struct hf_rng rng = {1, stream, 0};
    for (int64_t i = 0; i < count; i++) {
        const double v = hf_rng_next_normal(&rng);
        hf_store_f64(data, dtype, i, dtype == HF_I8 || dtype == HF_I32 ? floor(40 * v) : v);
    }
}

/* Right products are not suspected; a wrong sum is found and put right, bit for bit. */
static void guarded_products_are_repaired(void **state) {
    (void)state;
    enum { M = 37, N = 41, K = 300 };
    for (size_t t = 0; t < TYPES; t++)
        for (int turns = 0; turns < 8; turns++) {
            const hf_dtype in = all_types[t].in, out = all_types[t].out;
            hf_gemm_args args = {.m = M, .n = N, .k = K, .dtype = in, .dtype_c = out, .alpha = 1};
            hf_gemm_signatures sign = {.plant = HF_GEMM_PLANT_SUM};
            hf_gemm_faults found;
            const size_t bytes = (size_t)M * N * hf_dtype_bytes(out);
            fill(a_mem, in, (int64_t)M * K, 3);
            fill(b_mem, in, (int64_t)K * N, 4);
            fill(c_mem, out, (int64_t)M * N, 5);
            args.trans_a = turns & 1;
            args.trans_b = turns >> 1 & 1;
            args.beta = turns >> 2;
            args.a = a_mem;
            args.b = b_mem;
            args.c = whole;
            memcpy(whole, c_mem, bytes);
            assert_int_equal(hf_gemm_guarded(ctx, &args, HF_GUARD_CORRECT, &found, NULL), HF_OK);
            assert_int_equal(found.suspected, 0);
            assert_int_equal(found.lines, M + N);
            args.c = part;
            args.signatures = &sign;
            /* Of a small element the bit makes a large one, even where C has 16 bits. */
            int64_t j = 0;
            while (j < N - 1 && !(fabs(hf_load_f64(whole, out, 5 * N + j)) < 1))
                j++;
            sign.plant_at = (5 * N + j) * 32 + (in == HF_I8 ? 3 : 30);
            memcpy(part, c_mem, bytes);
            const hf_status status = hf_gemm_guarded(ctx, &args, HF_GUARD_CORRECT, &found, NULL);
            if (status == HF_E_UNSUPPORTED)
                skip();
            assert_int_equal(status, HF_OK);
            assert_memory_equal(part, whole, bytes);
            assert_int_equal(found.confirmed, 1);
            assert_int_equal(found.row, 5);
            memcpy(part, c_mem, bytes);
            assert_int_equal(hf_gemm_guarded(ctx, &args, HF_GUARD_DETECT, &found, NULL),
                             HF_E_CORRUPT);
            assert_non_null(strstr(hf_last_error(ctx), "row 5"));
        }
}

/* Products of a batch add to what C was, each to its own, and leave the gaps. */
static void guarded_batches_keep_gaps(void **state) {
    (void)state;
    enum { M = 37, N = 41, K = 30, LD = N + 5, STRIDE = M * LD + 3, BATCH = 3 };
    static float c[2][BATCH * STRIDE];
    hf_gemm_args args = {.m = M,
                         .n = N,
                         .k = K,
                         .batch = BATCH,
                         .stride_a = (int64_t)M * K,
                         .stride_b = (int64_t)K * N,
                         .stride_c = STRIDE,
                         .ldc = LD,
                         .dtype = HF_F32,
                         .alpha = 1,
                         .beta = 0.5,
                         .a = a_mem,
                         .b = b_mem,
                         .c = c[0]};
    hf_gemm_faults found;
    fill(a_mem, HF_F32, (int64_t)BATCH * M * K, 3);
    fill(b_mem, HF_F32, (int64_t)BATCH * K * N, 4);
    fill(c[0], HF_F32, (int64_t)BATCH * STRIDE, 5);
    memcpy(c[1], c[0], sizeof c[0]);
    assert_int_equal(hf_gemm(ctx, &args, NULL), HF_OK);
    args.c = c[1];
    assert_int_equal(hf_gemm_guarded(ctx, &args, HF_GUARD_DETECT, &found, NULL), HF_OK);
    assert_memory_equal(c[1], c[0], sizeof c[0]);
    assert_int_equal(found.lines, BATCH * (M + N));
    assert_int_equal(found.suspected, 0);
}

/* A tile that nobody computed is wrong in many rows, and computed again with all of the product. */
static void a_dropped_tile_is_repaired(void **state) {
    (void)state;
    enum { M = 90, N = 80, K = 300 };
    hf_gemm_signatures sign = {.plant = HF_GEMM_PLANT_DROPPED, .plant_at = (40 * N + 40) * 32};
    hf_gemm_args args = {
        .m = M, .n = N, .k = K, .dtype = HF_F32, .alpha = 1, .a = a_mem, .b = b_mem, .c = whole};
    hf_gemm_faults found;
    fill(a_mem, HF_F32, (int64_t)M * K, 3);
    fill(b_mem, HF_F32, (int64_t)K * N, 4);
    assert_int_equal(hf_gemm(ctx, &args, NULL), HF_OK);
    memset(part, 0, sizeof(float) * M * N);
    args.c = part;
    args.signatures = &sign;
    const hf_status status = hf_gemm_guarded(ctx, &args, HF_GUARD_CORRECT, &found, NULL);
    if (status == HF_E_UNSUPPORTED)
        skip();
    assert_int_equal(status, HF_OK);
    assert_memory_equal(part, whole, sizeof(float) * M * N);
    assert_true(found.confirmed > 1 && found.row >= 0 && found.row <= 40);
    assert_true(found.repaired > found.confirmed);
}

/* NaN and infinities reach every row and column: the product is computed again as a whole, not line
 * by line, and a fault in the rest of it is still found. The gaps of C are nobody's. */
static void guarded_products_may_have_nan(void **state) {
    (void)state;
    enum { M = 90, N = 80, K = 300, LD = N + 7 };
    static float c[2][M * LD];
    hf_gemm_signatures sign = {.plant = HF_GEMM_PLANT_SUM, .plant_at = (7 * N + 30) * 32 + 30};
    hf_gemm_args args = {.m = M,
                         .n = N,
                         .k = K,
                         .ldc = LD,
                         .dtype = HF_F32,
                         .alpha = 1,
                         .beta = 0.5,
                         .a = a_mem,
                         .b = b_mem,
                         .c = c[0]};
    hf_gemm_report report[2];
    hf_gemm_faults found;
    fill(a_mem, HF_F32, (int64_t)M * K, 3);
    fill(b_mem, HF_F32, (int64_t)K * N, 4);
    ((float *)(void *)b_mem)[5 * N + 11] = NAN;
    ((float *)(void *)a_mem)[20 * K + 9] = INFINITY;
    fill(c[0], HF_F32, (int64_t)M * LD, 5);
    memcpy(c[1], c[0], sizeof c[0]);
    assert_int_equal(hf_gemm(ctx, &args, &report[0]), HF_OK);
    args.c = c[1];
    assert_int_equal(hf_gemm_guarded(ctx, &args, HF_GUARD_DETECT, &found, &report[1]), HF_OK);
    assert_string_equal(report[1].kernel, report[0].kernel);
    assert_memory_equal(c[1], c[0], sizeof c[0]);
    assert_int_equal(found.lines, M + N);
    assert_int_equal(found.suspected, M + N);
    assert_int_equal(found.confirmed, 0);
    fill(c[1], HF_F32, (int64_t)M * LD, 5);
    args.signatures = &sign;
    const hf_status status = hf_gemm_guarded(ctx, &args, HF_GUARD_DETECT, &found, NULL);
    if (status == HF_E_UNSUPPORTED)
        skip();
    assert_int_equal(status, HF_E_CORRUPT);
    assert_non_null(strstr(hf_last_error(ctx), "row 7"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(guarded_products_are_repaired),
        cmocka_unit_test(guarded_batches_keep_gaps),
        cmocka_unit_test(a_dropped_tile_is_repaired),
        cmocka_unit_test(guarded_products_may_have_nan),
    };
    return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
