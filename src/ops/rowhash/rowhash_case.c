/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cases/data_case.h"
#include "ops/rowhash/rowhash.h"
#include <math.h>

enum { METRIC = 10, WEIGHTS, LIMBS }; /* purposes of hf_data_pick() */

/* Sums of which only the scales are looked at. */
static void make_sums(struct hf_rng *rng, struct hf_case *c, struct hf_rowhash_args *args,
                      int limbs) {
    const int64_t d = args->x.cols;
    struct hf_sums *s = hf_case_alloc(c, sizeof *s, false);
    double *mult = hf_case_alloc(c, (size_t)d * sizeof *mult, false);
    int64_t *weight = hf_case_alloc(c, sizeof *weight, false);
    uint64_t *factor = hf_case_alloc(c, (size_t)(limbs * (d + 1)) * sizeof *factor, false);
    args->hash = hf_case_alloc(c, (size_t)args->x.rows * sizeof *args->hash, true);
    if (c->failed)
        return;
    double most = 1;
    for (int64_t i = 0; args->weights && i < args->x.rows; i++)
        most = fmax(most, args->weights[i]);
    *s = (struct hf_sums){.k = 1, .d = d, .limbs = limbs, .bits = hf_fixed_bits(args->x.rows)};
    for (int64_t j = 0; j < d; j++) {
        const double bound =
            args->metric == HF_COSINE ? 2 * most : hf_data_max_abs(&args->x, j) * most;
        mult[j] = hf_fixed_mult(s->bits, hf_fixed_exponent(bound));
    }
    for (int64_t i = 0; i < limbs * (d + 1); i++)
        factor[i] = hf_rng_next(rng) | 1;
    s->mult = mult;
    s->weight = args->weights ? weight : NULL;
    s->weight_mult = hf_fixed_mult(s->bits, hf_fixed_exponent(most));
    args->sums = s;
    args->factor = factor;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    struct hf_rowhash_args *args = c->args;
    struct hf_data_shape shape;
    if (!hf_data_case(id, &shape))
        return false;
    const bool weighted = hf_data_pick(id, WEIGHTS, 2) == 1;
    const int limbs = 1 + (int)hf_data_pick(id, LIMBS, 2);
    args->metric = (hf_metric)hf_data_pick(id, METRIC, 3);
    args->x = hf_data_rows(rng, c, &shape);
    args->weights = weighted ? hf_data_weights(rng, c, shape.n) : NULL;
    if (!c->failed)
        make_sums(rng, c, args, limbs);
    hf_data_name(c, &shape, " metric=%d limbs=%d%s", (int)args->metric, limbs,
                 weighted ? " weights" : "");
    return true;
}

static bool make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    struct hf_rowhash_args *args = c->args;
    const struct hf_data_shape shape = hf_data_bench(bench, false);
    args->x = hf_data_rows(rng, c, &shape);
    if (!c->failed)
        make_sums(rng, c, args, 1);
    return hf_bench_finish(rng, bench, c, &args->x);
}

const struct hf_op_cases hf_rowhash_cases = {
    .make_case = make_case,
    .make_bench = make_bench,
    .data = {"blobs", "normal"},
    .example = {{HF_F32}, {100000, 64}, 0},
};
