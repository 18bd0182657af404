/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"
#include "core/array.h"
#include "ops/cases/data_case.h"
#include "ops/frame/frame.h"

enum { BATCH = 10 }; /* purposes of hf_data_pick() */

static bool make_args(struct hf_rng *rng, struct hf_case *c, const struct hf_data_shape *shape) {
    struct hf_frame_args *args = c->args;
    const int64_t batch = hf_frame_batch(args), n = shape->n / batch, d = shape->d;
    args->x = hf_data_rows(rng, c, shape);
    double *mean = hf_case_alloc(c, (size_t)(batch * d) * sizeof *mean, false);
    args->median = hf_case_alloc(c, (size_t)(batch * d) * sizeof(double), true);
    args->length_mean = hf_case_alloc(c, (size_t)batch * sizeof(double), true);
    args->length_median = hf_case_alloc(c, (size_t)batch * sizeof(double), true);
    args->mean = mean;
    for (int64_t i = 0; !c->failed && i < batch * n; i++)
        for (int64_t j = 0; j < d; j++)
            mean[i / n * d + j] +=
                hf_load_f64(hf_array_row(&args->x, i), shape->dtype, j) / (double)n;
    return !c->failed;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    struct hf_data_shape shape;
    if (!hf_data_case(id, &shape))
        return false;
    struct hf_frame_args *args = c->args;
    args->batch = hf_data_batch(id, BATCH, shape.n);
    make_args(rng, c, &shape);
    hf_data_name(c, &shape, " batch=%d", (int)args->batch);
    return true;
}

static bool make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    const struct hf_data_shape shape = hf_data_bench(bench, false);
    struct hf_frame_args *args = c->args;
    return make_args(rng, c, &shape) && hf_bench_finish(rng, bench, c, &args->x);
}

const struct hf_op_cases hf_frame_cases = {
    .make_case = make_case,
    .make_bench = make_bench,
    .data = {"blobs", "normal"},
    .example = {{HF_F32}, {100000, 64}, 0},
};
