/* SPDX-License-Identifier: Apache-2.0
 * Cases of greedy: some steps from a first centroid, on all kinds of data. */
#include "base/dtype.h"
#include "base/fixed.h"
#include "core/array.h"
#include "ops/cases/data_case.h"
#include "ops/greedy/greedy.h"
#include "ops/reference.h"
#include "ops/seed/seed.h"
#include <math.h>

enum {
    METRIC = 10,
    WEIGHTS,
    TRIALS,
    STEPS,
    SHIFT,
    CENTROIDS,
    UNIT
}; /* purposes of hf_data_pick() */

#define MAX_TERMS 40000000 /* of the reference: a tenth of a second */

/* The filter as k-means sets it up: about the mean, or about 0. */
static void make_filter(struct hf_case *c, struct hf_greedy_args *a, bool shifted) {
    const int64_t d = a->x.cols;
    double *shift = hf_case_alloc(c, (size_t)d * sizeof *shift, false);
    if (!shift)
        return;
    double most = 0;
    for (int64_t j = 0; j < d; j++) {
        for (int64_t i = 0; i < a->x.rows && shifted; i++)
            shift[j] += hf_load_f64(hf_array_row(&a->x, i), a->x.dtype, j) / (double)a->x.rows;
        for (int64_t i = 0; i < a->x.rows; i++)
            most = fmax(most, fabs(hf_load_f64(hf_array_row(&a->x, i), a->x.dtype, j) - shift[j]));
    }
    a->filter.shift = shifted ? shift : NULL;
    a->filter.scale = most > 0 ? ldexp(1, -hf_fixed_exponent(most)) : 1;
}

/* nearest after the first centroid, and the scale that goes with it, or none. */
static void make_state(struct hf_case *c, struct hf_greedy_args *a, bool own_unit) {
    const int64_t n = a->x.rows;
    const int64_t d = a->x.cols;
    const hf_metric metric = a->metric == HF_COSINE ? HF_COSINE : HF_EUCLIDEAN;
    double *row = hf_case_alloc(c, 2 * (size_t)d * sizeof *row, false);
    if (c->failed)
        return;
    a->chosen[0] = n / 3;
    *a->count = 1;
    hf_to_f64(row, hf_array_row(&a->x, n / 3), a->x.dtype, d);
    for (int64_t i = 0; i < n; i++) {
        hf_to_f64(row + d, hf_array_row(&a->x, i), a->x.dtype, d);
        a->nearest[i] = fmax(hf_reference_distance(metric, row + d, row, d), 0);
    }
    a->nearest[n / 3] = 0;
    a->limit = ldexp(1, hf_fixed_bits(n));
    *a->unit = own_unit ? 0 : hf_seed_scale_of(a->nearest, a->weights, n);
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int trials[] = {1, 3, 8, 9, 17, HF_GREEDY_TRIALS};
    struct hf_greedy_args *a = c->args;
    struct hf_data_shape shape;
    if (!hf_data_case(id, &shape))
        return false;
    const bool weighted = hf_data_pick(id, WEIGHTS, 3) == 0;
    a->metric = (hf_metric)hf_data_pick(id, METRIC, 3);
    a->trials = trials[hf_data_pick(id, TRIALS, 6)];
    const int64_t terms = shape.n * shape.d * a->trials;
    const int64_t steps = 1 + hf_data_pick(id, STEPS, 40);
    a->upto = 1 + (steps * terms < MAX_TERMS ? steps : 1 + MAX_TERMS / terms);
    a->x = hf_data_rows(rng, c, &shape);
    a->weights = weighted ? hf_data_weights(rng, c, shape.n) : NULL;
    a->seed = hf_rng_next(rng);
    a->stream = hf_rng_next(rng);
    a->unit = hf_case_alloc(c, sizeof *a->unit, true);
    a->nearest = hf_case_alloc(c, (size_t)shape.n * sizeof *a->nearest, true);
    a->chosen = hf_case_alloc(c, (size_t)a->upto * sizeof *a->chosen, true);
    a->count = hf_case_alloc(c, sizeof *a->count, true);
    if (hf_data_pick(id, CENTROIDS, 4) > 0)
        a->centroids = hf_case_alloc(c, (size_t)(a->upto * shape.d) * sizeof *a->centroids, true);
    if (!c->failed)
        make_filter(c, a, a->metric == HF_EUCLIDEAN && hf_data_pick(id, SHIFT, 3) > 0);
    if (!c->failed)
        make_state(c, a, hf_data_pick(id, UNIT, 3) == 0);
    hf_data_name(c, &shape, " metric=%d trials=%d steps=%d%s", (int)a->metric, a->trials,
                 (int)a->upto - 1, weighted ? " weights" : "");
    return true;
}

const struct hf_op_cases hf_greedy_cases = {
    .make_case = make_case,
};
