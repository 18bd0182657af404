/* SPDX-License-Identifier: Apache-2.0
 * The sums of rows and columns that checks of products are made of: every type, rows or columns in
 * one piece, with and without weights, any number of workers. */
#include "base/dtype.h"
#include "base/rng.h"
#include "core/context.h"
#include "ops/gemm/sums.h"
#include "unit.h"
#include <math.h>
#include <string.h>

#define ROWS 203
#define COLS 77
#define LD 81
#define CELLS (ROWS * LD + 8)

static double matrix[CELLS], by[4][ROWS], got[4][ROWS];

static double value(const struct hf_sums_pass *p, int64_t i, int64_t j) {
    return hf_load_f64(p->m.data, p->m.dtype, i * p->m.row + j * p->m.col);
}

static double weight(const double *w, int64_t i) { return w != NULL ? w[i] : 1; }

static double precision; /* relative to the sizes: the order may differ */

static void expect(double is, double want, double size) {
    if (!(fabs(is - want) <= precision * size))
        fail_msg("%.17g, not %.17g", is, want);
}

static void check(const struct hf_sums_pass *p) {
    for (int64_t i = 0; p->row != NULL && i < p->rows; i++) {
        double sum = 0, size = 0;
        for (int64_t j = 0; j < p->cols; j++) {
            sum += value(p, i, j) * weight(p->by_col, j);
            size += fabs(value(p, i, j)) * weight(p->by_col_size, j);
        }
        expect(p->row_size[i], size, size);
        expect(p->row[i], sum, 4 * size + 1);
    }
    for (int64_t j = 0; p->col != NULL && j < p->cols; j++) {
        double sum = 0, size = 0;
        for (int64_t i = 0; i < p->rows; i++) {
            sum += value(p, i, j) * weight(p->by_row, i);
            size += fabs(value(p, i, j)) * weight(p->by_row_size, i);
        }
        expect(p->col_size[j], size, size);
        expect(p->col[j], sum, 4 * size + 1);
    }
}

/* wanted: 1 rows, 2 columns; 4 weights. */
static struct hf_sums_pass make(hf_dtype dtype, int turned, int wanted) {
    const struct hf_gemm_view view = {matrix, dtype, turned ? 1 : LD, turned ? LD : 1};
    struct hf_sums_pass p = {.m = view, .rows = turned ? COLS : ROWS, .cols = turned ? ROWS : COLS};
    p.row = wanted & 1 ? got[0] : NULL;
    p.row_size = wanted & 1 ? got[1] : NULL;
    p.col = wanted & 2 ? got[2] : NULL;
    p.col_size = wanted & 2 ? got[3] : NULL;
    p.by_row = wanted & 4 ? by[0] : NULL;
    p.by_row_size = wanted & 4 ? by[1] : NULL;
    p.by_col = wanted & 4 ? by[2] : NULL;
    p.by_col_size = wanted & 4 ? by[3] : NULL;
    return p;
}

static void fill(hf_dtype dtype) {
    struct hf_rng rng = {7, (uint64_t)dtype, 0};
    const bool whole = dtype == HF_I8 || dtype == HF_I32;
    for (int64_t i = 0; i < CELLS; i++)
        hf_store_f64(matrix, dtype, i,
                     whole ? (double)(int8_t)hf_rng_next(&rng) : hf_rng_next_normal(&rng));
    for (int i = 0; i < ROWS; i++)
        for (int w = 0; w < 4; w++)
            by[w][i] = 2 * hf_rng_next_unit(&rng) - (w % 2 ? 0 : 1);
}

static void sums_are_right(void **state) {
    (void)state;
    static const hf_dtype types[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_I8, HF_I32};
    for (int threads = 1; threads <= 5; threads += 2) {
        hf_context *ctx = NULL;
        const hf_context_opts opts = {.device = "cpu", .threads = threads};
        precision = 1e-12;
        assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
        for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
            fill(types[t]);
            for (int turned = 0; turned < 2; turned++)
                for (int wanted = 1; wanted < 8; wanted++) {
                    const struct hf_sums_pass p = make(types[t], turned, wanted);
                    if (wanted % 4 == 0)
                        continue;
                    memset(got, 0xff, sizeof got);
                    assert_int_equal(hf_gemm_sums(ctx, &p), HF_OK);
                    check(&p);
                }
        }
        hf_context_destroy(ctx);
    }
}

/* The same where the device is. */
static void sums_on_a_gpu(void **state) {
    (void)state;
    static const hf_dtype types[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_I8, HF_I32};
    hf_context *ctx = NULL;
    const hf_context_opts opts = {.device = "cuda"};
    if (hf_context_create(&ctx, &opts) != HF_OK) {
        print_message("skipped: %s\n", hf_last_error(NULL));
        skip();
    }
    char *mem = hf_ctx_alloc(ctx, sizeof matrix + sizeof by + sizeof got);
    assert_non_null(mem);
    const ptrdiff_t to_by = sizeof matrix, to_got = sizeof matrix + sizeof by;
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
        const bool is_short = types[t] == HF_F32 || types[t] == HF_F16 || types[t] == HF_BF16;
        precision = is_short ? HF_SUMS_SHORT_ERROR : 1e-12;
        fill(types[t]);
        assert_int_equal(hf_ctx_copy(ctx, mem, matrix, sizeof matrix), HF_OK);
        assert_int_equal(hf_ctx_copy(ctx, mem + to_by, by, sizeof by), HF_OK);
        for (int turned = 0; turned < 2; turned++)
            for (int wanted = 1; wanted < 8; wanted++) {
                if (wanted % 4 == 0)
                    continue;
                const struct hf_sums_pass p = make(types[t], turned, wanted);
                struct hf_sums_pass there = p;
                double **const outs[] = {&there.row, &there.row_size, &there.col, &there.col_size};
                const double **const ins[] = {&there.by_row, &there.by_row_size, &there.by_col,
                                              &there.by_col_size};
                there.m.data = mem;
                for (int i = 0; i < 4; i++) {
                    if (*outs[i] != NULL)
                        *outs[i] = (double *)(void *)(mem + to_got) + i * ROWS;
                    if (*ins[i] != NULL)
                        *ins[i] = (double *)(void *)(mem + to_by) + i * ROWS;
                }
                assert_int_equal(hf_ctx_fill(ctx, mem + to_got, 0, sizeof got), HF_OK);
                assert_int_equal(hf_gemm_sums_there(ctx, &there), HF_OK);
                assert_int_equal(hf_ctx_copy(ctx, got, mem + to_got, sizeof got), HF_OK);
                check(&p);
            }
    }
    hf_ctx_release(ctx, mem);
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_right),
                                       cmocka_unit_test(sums_on_a_gpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
