/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cases/data_case.h"
#include "ops/inertia/inertia.h"

enum { METRIC = 10, WEIGHTS, DISTANCES, CENTROIDS }; /* purposes of hf_data_pick() */

static bool make_sum(struct hf_case *c, struct hf_inertia_args *args) {
    args->sum = hf_case_alloc(c, sizeof *args->sum, true);
    if (c->failed)
        return false;
    hf_wide_add(args->sum, 0.25);
    return true;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    struct hf_inertia_args *args = c->args;
    struct hf_data_shape shape;
    if (!hf_data_case(id, &shape))
        return false;
    const bool weighted = hf_data_pick(id, WEIGHTS, 2) == 1;
    const bool distances = hf_data_pick(id, DISTANCES, 4) > 0;
    const bool wide = shape.dtype == HF_F64 || hf_data_pick(id, CENTROIDS, 4) == 0;
    args->metric = (hf_metric)hf_data_pick(id, METRIC, 3);
    args->x = hf_data_rows(rng, c, &shape);
    args->weights = weighted ? hf_data_weights(rng, c, shape.n) : NULL;
    args->labels = hf_data_labels(rng, c, shape.n, shape.k, false);
    if (c->failed)
        return true;
    args->c = hf_data_centroids(rng, c, &shape, &args->x, wide ? HF_F64 : HF_F32);
    args->distances = distances ? hf_case_alloc(c, (size_t)shape.n * sizeof(double), true) : NULL;
    if (!c->failed)
        make_sum(c, args);
    hf_data_name(c, &shape, " metric=%d c=%s%s%s", (int)args->metric, wide ? "f64" : "f32",
                 weighted ? " weights" : "", distances ? " distances" : "");
    return true;
}

static bool make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    struct hf_inertia_args *args = c->args;
    const struct hf_data_shape shape = hf_data_bench(bench, true);
    args->x = hf_data_rows(rng, c, &shape);
    args->labels = hf_data_labels(rng, c, shape.n, shape.k, false);
    if (c->failed)
        return false;
    args->c = hf_data_centroids(rng, c, &shape, &args->x, shape.dtype == HF_F64 ? HF_F64 : HF_F32);
    return !c->failed && make_sum(c, args) && hf_bench_finish(rng, bench, c, &args->x);
}

const struct hf_op_cases hf_inertia_cases = {
    .make_case = make_case,
    .make_bench = make_bench,
    .data = {"blobs", "normal"},
    .example = {{HF_F32}, {100000, 256, 64}, 0},
};
