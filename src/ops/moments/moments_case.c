/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"
#include "ops/cases/data_case.h"
#include "ops/moments/moments.h"
#include "ops/reference.h"
#include <math.h>

enum { SHIFT = 10, BATCH }; /* purposes of hf_data_pick() */

static int64_t *any_int64(struct hf_rng *rng, struct hf_case *c, int64_t count) {
    int64_t *v = hf_case_alloc(c, (size_t)count * sizeof *v, true);
    for (int64_t i = 0; v && i < count; i++)
        v[i] = (int64_t)(hf_rng_next(rng) >> 24) - ((int64_t)1 << 39);
    return v;
}

/* 0, a row of the problem, or a third of the way from one to another: the type may not hold it. */
static double shift_at(const hf_array *x, int64_t first, int64_t n, int64_t j, int kind) {
    const double at = hf_load_f64(hf_array_row(x, first + n / 2), x->dtype, j);
    const double last = hf_load_f64(hf_array_row(x, first + n - 1), x->dtype, j);
    return kind == 0 ? 0 : kind == 1 ? at : at + (last - at) / 3;
}

/* Scales from the largest |x - shift| of each column. */
static bool make_args(struct hf_rng *rng, struct hf_case *c, const struct hf_data_shape *shape,
                      int kind) {
    struct hf_moments_args *args = c->args;
    const int64_t batch = hf_moments_batch(args), n = shape->n / batch, columns = batch * shape->d;
    args->x = hf_data_rows(rng, c, shape);
    double *shift = hf_case_alloc(c, (size_t)columns * sizeof *shift, false);
    double *mult = hf_case_alloc(c, (size_t)columns * sizeof *mult, false);
    double *mult_square = hf_case_alloc(c, (size_t)columns * sizeof *mult_square, false);
    args->sum = any_int64(rng, c, 2 * columns);
    args->sum_square = any_int64(rng, c, 2 * columns);
    if (c->failed)
        return false;
    args->bits = hf_fixed_bits(n);
    for (int64_t at = 0; at < columns; at++) {
        const int64_t first = at / shape->d * n, j = at % shape->d;
        shift[at] = shift_at(&args->x, first, n, j, kind);
        double max = 0;
        for (int64_t i = first; i < first + n; i++)
            max = fmax(max,
                       fabs(hf_load_f64(hf_array_row(&args->x, i), shape->dtype, j) - shift[at]));
        mult[at] = hf_fixed_mult(args->bits, hf_fixed_exponent(max));
        mult_square[at] = hf_fixed_mult(args->bits, hf_fixed_exponent(max * max));
    }
    args->shift = shift;
    args->mult = mult;
    args->mult_square = mult_square;
    return true;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    struct hf_data_shape shape;
    if (!hf_data_case(id, &shape))
        return false;
    struct hf_moments_args *args = c->args;
    const int kind = (int)hf_data_pick(id, SHIFT, 3);
    args->batch = hf_data_batch(id, BATCH, shape.n);
    make_args(rng, c, &shape, kind);
    hf_data_name(c, &shape, " batch=%d shift=%d", (int)args->batch, kind);
    return true;
}

static bool make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    const struct hf_data_shape shape = hf_data_bench(bench, false);
    struct hf_moments_args *args = c->args;
    return make_args(rng, c, &shape, 1) && hf_bench_finish(rng, bench, c, &args->x);
}

const struct hf_op_cases hf_moments_cases = {
    .make_case = make_case,
    .make_bench = make_bench,
    .data = {"blobs", "normal"},
    .example = {{HF_F32}, {100000, 64}, 0},
};
