/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"
#include "ops/cases/data_case.h"
#include "ops/reference.h"
#include "ops/update/update.h"
#include <math.h>

enum { METRIC = 10, WEIGHTS, LIMBS, OLD }; /* purposes of hf_data_pick() */

/* Column maxima of the values that are added, over all rows: |x_ij * r_i| <= max |x_ij| * max r_i,
 * and for HF_COSINE |x_ij| / |x_i| <= 1 but for roundings and squares that underflow. */
static double column_bound(const struct hf_update_args *args, double max_weight, int64_t j) {
    return args->metric == HF_COSINE ? 2 * max_weight : hf_data_max_abs(&args->x, j) * max_weight;
}

/* Sums that start at anything: they are only added to. */
static int64_t *any_int64(struct hf_rng *rng, struct hf_case *c, int64_t count) {
    int64_t *v = hf_case_alloc(c, (size_t)count * sizeof *v, true);
    for (int64_t i = 0; v && i < count; i++)
        v[i] = (int64_t)(hf_rng_next(rng) >> 24) - ((int64_t)1 << 39);
    return v;
}

static struct hf_sums *make_sums(struct hf_rng *rng, struct hf_case *c,
                                 const struct hf_update_args *args, int64_t k, int limbs) {
    const int64_t d = args->x.cols;
    struct hf_sums *s = hf_case_alloc(c, sizeof *s, false);
    double *mult = hf_case_alloc(c, (size_t)d * sizeof *mult, false);
    if (!s || !mult)
        return NULL;
    double max_weight = 1;
    for (int64_t i = 0; args->weights && i < args->x.rows; i++)
        max_weight = fmax(max_weight, args->weights[i]);
    *s = (struct hf_sums){.k = k, .d = d, .limbs = limbs, .bits = hf_fixed_bits(args->x.rows)};
    for (int64_t j = 0; j < d; j++)
        mult[j] = hf_fixed_mult(s->bits, hf_fixed_exponent(column_bound(args, max_weight, j)));
    s->mult = mult;
    s->weight_mult = hf_fixed_mult(s->bits, hf_fixed_exponent(max_weight));
    s->sum = any_int64(rng, c, limbs * k * d);
    s->count = any_int64(rng, c, k);
    s->weight = args->weights ? any_int64(rng, c, limbs * k) : NULL;
    return s;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    struct hf_update_args *args = c->args;
    struct hf_data_shape shape;
    if (!hf_data_case(id, &shape))
        return false;
    const bool weighted = hf_data_pick(id, WEIGHTS, 2) == 1;
    const int limbs = 1 + (int)hf_data_pick(id, LIMBS, 2);
    const bool old = hf_data_pick(id, OLD, 4) > 0;
    args->metric = (hf_metric)hf_data_pick(id, METRIC, 3);
    args->x = hf_data_rows(rng, c, &shape);
    args->weights = weighted ? hf_data_weights(rng, c, shape.n) : NULL;
    args->old_labels = old ? hf_data_labels(rng, c, shape.n, shape.k, true) : NULL;
    args->labels = hf_data_labels(rng, c, shape.n, shape.k, true);
    if (!c->failed)
        args->sums = make_sums(rng, c, args, shape.k, limbs);
    hf_data_name(c, &shape, " metric=%d limbs=%d%s%s", (int)args->metric, limbs,
                 weighted ? " weights" : "", old ? " moves" : "");
    return true;
}

/* The first update of a fit: every row is added. */
static bool make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    struct hf_update_args *args = c->args;
    const struct hf_data_shape shape = hf_data_bench(bench, true);
    args->x = hf_data_rows(rng, c, &shape);
    args->labels = hf_data_labels(rng, c, shape.n, shape.k, false);
    if (!c->failed)
        args->sums = make_sums(rng, c, args, shape.k, 1);
    return hf_bench_finish(rng, bench, c, &args->x);
}

const struct hf_op_cases hf_update_cases = {
    .make_case = make_case,
    .make_bench = make_bench,
    .data = {"blobs", "normal"},
    .example = {{HF_F32}, {100000, 256, 64}, 0},
};
