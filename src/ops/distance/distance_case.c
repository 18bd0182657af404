/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cases/data_case.h"
#include "ops/distance/distance.h"

enum { METRIC = 10, ROOT, CENTROIDS }; /* purposes of hf_data_pick() */

#define MAX_PAIRS 60000 /* times d: the reference takes a few ms a case */

static bool make_args(struct hf_rng *rng, struct hf_case *c, const struct hf_data_shape *shape,
                      hf_dtype centroids) {
    struct hf_distance_args *args = c->args;
    args->x = hf_data_rows(rng, c, shape);
    if (c->failed)
        return false;
    args->c = hf_data_centroids(rng, c, shape, &args->x, centroids);
    args->out = hf_case_alloc(c, (size_t)(shape->n * shape->k) * sizeof(double), true);
    return !c->failed;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    struct hf_distance_args *args = c->args;
    struct hf_data_shape shape;
    if (!hf_data_case(id, &shape))
        return false;
    if (shape.n * shape.k > MAX_PAIRS)
        shape.n = 1 + MAX_PAIRS / shape.k;
    const bool wide = shape.dtype == HF_F64 || hf_data_pick(id, CENTROIDS, 4) == 0;
    args->metric = (hf_metric)hf_data_pick(id, METRIC, 3);
    args->root = hf_data_pick(id, ROOT, 2) == 1;
    make_args(rng, c, &shape, wide ? HF_F64 : HF_F32);
    hf_data_name(c, &shape, " metric=%d c=%s%s", (int)args->metric, wide ? "f64" : "f32",
                 args->root ? " root" : "");
    return true;
}

static bool make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    const struct hf_data_shape shape = hf_data_bench(bench, true);
    struct hf_distance_args *args = c->args;
    return make_args(rng, c, &shape, shape.dtype == HF_F64 ? HF_F64 : HF_F32) &&
           hf_bench_finish(rng, bench, c, &args->x);
}

const struct hf_op_cases hf_distance_cases = {
    .make_case = make_case,
    .make_bench = make_bench,
    .data = {"blobs", "normal"},
    .example = {{HF_F32}, {100000, 256, 64}, 0},
};
