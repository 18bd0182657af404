/* SPDX-License-Identifier: Apache-2.0
 * Sums of rows and columns that a GPU makes while it multiplies: they are those of A, B and C, of
 * any shape and storage, and a product that is right contradicts none of them. Skipped, with the
 * reason, where no kernel makes them. */
#include "base/dtype.h"
#include "base/rng.h"
#include "guard/gemm_lines.h"
#include "unit.h"
#include <holdfast/holdfast.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MOST (10 << 20) /* bytes of a matrix here */

static hf_context *ctx;
static char *host[3], *there[3];

static int open_gpu(void **state) {
    const hf_context_opts opts = {.device = "cuda"};
    (void)state;
    for (int i = 0; i < 3; i++)
        host[i] = malloc(MOST);
    if (hf_context_create(&ctx, &opts) != HF_OK) {
        print_message("skipped: %s\n", hf_last_error(NULL));
        ctx = NULL;
    }
    for (int i = 0; ctx != NULL && i < 3; i++)
        there[i] = hf_ctx_alloc(ctx, MOST);
    return 0;
}

static int close_gpu(void **state) {
    (void)state;
    for (int i = 0; i < 3; i++) {
        free(host[i]);
        if (ctx != NULL)
            hf_ctx_release(ctx, there[i]);
    }
    hf_context_destroy(ctx);
    return 0;
}

static int64_t wide(int64_t n, int64_t gap) { return (n + gap + 7) / 8 * 8; }

static void fill(int which, hf_dtype dtype, int64_t count) {
    struct hf_rng rng = {1, (uint64_t)which, 0};
    assert_true(count * (int64_t)hf_dtype_bytes(dtype) <= MOST);
    for (int64_t i = 0; i < count; i++)
        hf_store_f64(host[which], dtype, i, hf_rng_next_normal(&rng) + 0.25);
    assert_int_equal(hf_ctx_copy(ctx, there[which], host[which], MOST), HF_OK);
}

static hf_gemm_args make(hf_dtype in, hf_dtype out, const int64_t shape[3], int turns) {
    hf_gemm_args args = {.m = shape[0],
                         .n = shape[1],
                         .k = shape[2],
                         .trans_a = turns & 1,
                         .trans_b = turns >> 1 & 1,
                         .batch = 1,
                         .dtype = in,
                         .dtype_c = out,
                         .alpha = 0.75,
                         .beta = turns & 4 ? 0.5 : 0,
                         .a = there[0],
                         .b = there[1],
                         .c = there[2]};
    const int64_t gap = turns & 4 ? 8 : 0;
    args.lda = wide(args.trans_a ? args.m : args.k, gap);
    args.ldb = wide(args.trans_b ? args.k : args.n, gap);
    args.ldc = wide(args.n, gap);
    fill(0, in, (args.trans_a ? args.k : args.m) * args.lda);
    fill(1, in, (args.trans_b ? args.n : args.k) * args.ldb);
    fill(2, out, args.m * args.ldc);
    return args;
}

static double value(const void *data, const struct hf_gemm_view *v, int64_t i, int64_t j) {
    return hf_load_f64(data, v->dtype, i * v->row + j * v->col);
}

/* sums[rows], sizes[rows] of m times by[cols], by_size[cols]; NULL: 1. */
struct sums {
    double *sum, *size;
};
static struct sums times(const void *data, struct hf_gemm_view v, const int64_t dim[2],
                         struct sums by) {
    struct sums to = {calloc((size_t)dim[0], 8), calloc((size_t)dim[0], 8)};
    for (int64_t i = 0; i < dim[0]; i++)
        for (int64_t j = 0; j < dim[1]; j++) {
            const double x = value(data, &v, i, j);
            to.sum[i] += x * (by.sum != NULL ? by.sum[j] : 1);
            to.size[i] += fabs(x) * (by.size != NULL ? by.size[j] : 1);
        }
    return to;
}

static struct hf_gemm_view turned(struct hf_gemm_view v) {
    return (struct hf_gemm_view){v.data, v.dtype, v.col, v.row};
}

static void expect(const double *got, struct sums want, int64_t n, const char *what) {
    for (int64_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want.sum[i]) <= HF_SUMS_BESIDE_ERROR * want.size[i]) ||
            !(fabs(got[n + i] - want.size[i]) <= HF_SUMS_BESIDE_ERROR * want.size[i]))
            fail_msg("%s %d of %d: %.9g of %.9g, not %.9g of %.9g", what, (int)i, (int)n, got[i],
                     got[n + i], want.sum[i], want.size[i]);
    free(want.sum);
    free(want.size);
}

/* Those of the operands, and of C. */
static void check(const hf_gemm_args *args, const double *lines) {
    const struct hf_gemm_view a = hf_gemm_view_a(args, 0), b = hf_gemm_view_b(args, 0);
    const struct hf_gemm_view c = {NULL, args->dtype_c, args->ldc, 1};
    const int64_t m = args->m, n = args->n, k = args->k;
    const double *const cols = lines + 6 * m;
    const struct sums none = {NULL, NULL};
    const struct sums of_b = times(host[1], b, (int64_t[]){k, n}, none);
    const struct sums of_a = times(host[0], turned(a), (int64_t[]){k, m}, none);
    expect(lines, times(host[0], a, (int64_t[]){m, k}, of_b), m, "rows of A B, row");
    expect(cols, times(host[1], turned(b), (int64_t[]){n, k}, of_a), n, "columns of A B, column");
    expect(lines + 4 * m, times(host[2], c, (int64_t[]){m, n}, none), m, "rows of C, row");
    expect(cols + 4 * n, times(host[2], turned(c), (int64_t[]){n, m}, none), n,
           "columns of C, column");
    free(of_a.sum);
    free(of_a.size);
    free(of_b.sum);
    free(of_b.size);
}

static void sums_beside_a_product(void **state) {
    static const int64_t shapes[][3] = {
        {200, 300, 520}, {130, 265, 72}, {1, 9, 8}, {1000, 1100, 2100}, {1300, 1700, 64}};
    static const hf_dtype types[][2] = {{HF_BF16, HF_BF16}, {HF_F16, HF_F16}, {HF_BF16, HF_F32}};
    int made = 0;
    (void)state;
    if (ctx == NULL)
        skip();
    for (size_t t = 0; t < 3; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
            for (int turns = 0; turns < 8; turns++) {
                const hf_gemm_args args = make(types[t][0], types[t][1], shapes[s], turns);
                hf_gemm_faults faults = {0};
                struct gemm_lines l = {.ctx = ctx, .args = &args, .faults = &faults};
                const size_t bytes = (size_t)(6 * (args.m + args.n)) * sizeof(double);
                double *const lines = malloc(bytes);
                bool suspect = true;
                assert_true(hf_ctx_enter(ctx));
                assert_int_equal(hf_gemm_lines_open(&l), HF_OK);
                assert_int_equal(hf_gemm_lines_queue(&l), HF_OK);
                l.bound = hf_gemm_lines_bound(ctx, &args, true);
                assert_int_equal(hf_gemm_lines_sum_c(&l, &suspect), HF_OK);
                assert_false(suspect);
                made += l.beside.operands;
                assert_int_equal(hf_ctx_copy(ctx, lines, l.sums, bytes), HF_OK);
                assert_int_equal(hf_ctx_copy(ctx, host[2], there[2], MOST), HF_OK);
                check(&args, lines);
                hf_gemm_lines_close(&l);
                assert_int_equal(hf_ctx_leave(ctx, HF_OK), HF_OK);
                free(lines);
            }
    print_message("beside the product: %d\n", made);
    if (made == 0)
        skip();
}

/* One wrong sum in a tile that is summed early, or in a block's last one. */
static void faults_are_repaired(void **state) {
    enum { M = 2100, N = 2056, K = 64 };
    static const int64_t places[][2] = {{5, 700}, {2099, 2055}, {1027, 1300}};
    (void)state;
    if (ctx == NULL)
        skip();
    for (int t = 0; t < 2; t++) {
        const hf_dtype type = t == 0 ? HF_BF16 : HF_F16;
        hf_gemm_args args = make(type, type, (int64_t[]){M, N, K}, 0);
        const size_t bytes = (size_t)(args.m * args.ldc) * 2;
        assert_int_equal(hf_gemm(ctx, &args, NULL), HF_OK);
        assert_int_equal(hf_ctx_copy(ctx, host[2], there[2], bytes), HF_OK);
        for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
            int64_t at = places[i][0] * N + places[i][1];
            while (!(fabs(hf_load_f64(host[2], type, at)) <
                     1)) /* of which the bit makes a large one */
                at--;
            hf_gemm_signatures sign = {
                .checksum = "fletcher", .plant = HF_GEMM_PLANT_SUM, .plant_at = at * 32 + 30};
            hf_gemm_faults found;
            args.signatures = &sign;
            const hf_status status = hf_gemm_guarded(ctx, &args, HF_GUARD_CORRECT, &found, NULL);
            if (status == HF_E_UNSUPPORTED)
                skip();
            assert_int_equal(status, HF_OK);
            assert_int_equal(found.confirmed, 1);
            assert_int_equal(found.row, places[i][0]);
            assert_int_equal(hf_ctx_copy(ctx, host[1], there[2], bytes), HF_OK);
            assert_memory_equal(host[1], host[2], bytes);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_beside_a_product),
                                       cmocka_unit_test(faults_are_repaired)};
    return cmocka_run_group_tests(tests, open_gpu, close_gpu);
}
