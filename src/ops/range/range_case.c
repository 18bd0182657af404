/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"
#include "ops/cases/data_case.h"
#include "ops/range/range.h"
#include "ops/reference.h"
#include <math.h>
#include <string.h>

enum { BAD = 10, GOES_ON, BATCH, SUMS }; /* purposes of hf_data_pick() */

/* NaN, Inf and -Inf by bits: the sign and the payload of a NaN must not matter. */
static void spoil(const hf_array *x, int64_t i, int64_t j, int64_t which) {
    static const uint16_t f16[] = {0x7e00, 0x7c00, 0xfc00, 0xfc01};
    static const uint16_t bf16[] = {0x7fc0, 0x7f80, 0xff80, 0xff81};
    const double f64[] = {NAN, INFINITY, -INFINITY, -NAN};
    const float f32[] = {NAN, INFINITY, -INFINITY, -NAN};
    const void *values[] = {[HF_F32] = f32 + which,
                            [HF_F64] = f64 + which,
                            [HF_F16] = f16 + which,
                            [HF_BF16] = bf16 + which};
    const size_t size = hf_dtype_bytes(x->dtype);
    char *row = (char *)x->data + (size_t)(i * (x->row_stride ? x->row_stride : x->cols)) * size;
    memcpy(row + (size_t)j * size, values[x->dtype], size);
}

static bool make_outputs(struct hf_case *c, bool goes_on) {
    struct hf_range_args *args = c->args;
    const size_t batch = (size_t)hf_range_batch(args), d = (size_t)args->x.cols;
    args->min = hf_case_alloc(c, batch * d * sizeof(double), true);
    args->max = hf_case_alloc(c, batch * d * sizeof(double), true);
    args->whole = hf_case_alloc(c, batch * sizeof *args->whole, true);
    args->row_bad = hf_case_alloc(c, (size_t)args->x.rows, true);
    args->bad_rows = hf_case_alloc(c, batch * sizeof *args->bad_rows, true);
    if (c->failed)
        return false;
    for (size_t p = 0; p < batch; p++) {
        args->whole[p] = true;
        args->bad_rows[p] = goes_on ? 5 : 0;
    }
    for (size_t j = 0; j < batch * d; j++) {
        args->min[j] = goes_on ? (double)(j % 3) - 1 : INFINITY;
        args->max[j] = goes_on ? args->min[j] + 1 : -INFINITY;
    }
    return true;
}

/* Whole numbers, some cases with larger ones, and sums of them. Not on a GPU. */
static void ask_for_sums(struct hf_rng *rng, struct hf_case *c, bool goes_on) {
    struct hf_range_args *args = c->args;
    const hf_array *x = &args->x;
    const int64_t count = hf_range_batch(args) * 2 * x->cols;
    const int64_t stride = x->row_stride ? x->row_stride : x->cols;
    const int unit = (int)((const char[]){1, 1, 4, 5}[hf_rng_next(rng) >> 62]); /* 4: to -1024 */
    for (int64_t i = 0; i < x->rows; i++)
        for (int64_t j = 0; j < x->cols; j++) {
            const int whole = ((int)(hf_rng_next(rng) >> 32 & 511) - 256) * unit;
            if (x->dtype == HF_F64)
                ((double *)x->data)[i * stride + j] = whole;
            else if (x->dtype == HF_F32)
                ((float *)x->data)[i * stride + j] = (float)whole;
        }
    args->sums = hf_case_alloc(c, (size_t)count * sizeof(double), true);
    for (int64_t e = 0; args->sums && e < count; e++)
        args->sums[e] = goes_on ? (double)(e % 7) : 0;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    struct hf_range_args *args = c->args;
    struct hf_data_shape shape;
    if (!hf_data_case(id, &shape))
        return false;
    /* 1 in 64 elements, 1 row, all rows, or none */
    const int64_t bad = shape.dtype == HF_U8 ? 0 : hf_data_pick(id, BAD, 4);
    const bool goes_on = hf_data_pick(id, GOES_ON, 3) == 0;
    args->batch = hf_data_batch(id, BATCH, shape.n);
    args->x = hf_data_rows(rng, c, &shape);
    const bool may_sum = shape.dtype != HF_F16 && shape.dtype != HF_BF16;
    const bool sums = may_sum && hf_data_pick(id, SUMS, 3) == 0;
    hf_data_name(c, &shape, " batch=%d bad=%d%s%s", (int)args->batch, (int)bad,
                 goes_on ? " later chunk" : "", sums ? " sums" : "");
    if (c->failed || !make_outputs(c, goes_on))
        return true;
    if (sums)
        ask_for_sums(rng, c, goes_on);
    for (int64_t i = 0; bad && i < shape.n; i++)
        for (int64_t j = 0; j < shape.d; j++) {
            const uint64_t r = hf_rng_next(rng);
            if ((bad == 1 && r % 64 == 0) || (bad == 2 && i == shape.n / 2 && j == shape.d - 1) ||
                (bad == 3 && j == i % shape.d))
                spoil(&args->x, i, j, (int64_t)(r >> 8) & 3);
        }
    return true;
}

static bool make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    struct hf_range_args *args = c->args;
    const struct hf_data_shape shape = hf_data_bench(bench, false);
    args->x = hf_data_rows(rng, c, &shape);
    return !c->failed && make_outputs(c, false) && hf_bench_finish(rng, bench, c, &args->x);
}

const struct hf_op_cases hf_range_cases = {
    .make_case = make_case,
    .make_bench = make_bench,
    .data = {"blobs", "normal"},
    .example = {{HF_F32}, {100000, 64}, 0},
};
