/* SPDX-License-Identifier: Apache-2.0
 * Cases of spread: distances of all sizes and equal ones, with and without a last round. */
#include "base/fixed.h"
#include "ops/cases/data_case.h"
#include "ops/seed/seed.h"
#include "ops/spread/spread.h"
#include <math.h>

enum { WEIGHTS = 10, WANTED, DISTANCES, TAKES, UNIT }; /* purposes of hf_data_pick() */

static double *make_distances(struct hf_rng *rng, struct hf_case *c, int64_t n, int64_t kind,
                              double share) {
    double *v = hf_case_alloc(c, (size_t)n * sizeof *v, true);
    for (int64_t i = 0; v && i < n; i++) {
        const double u = hf_rng_next_unit(rng);
        v[i] = kind == 0 ? 0 : kind == 1 ? u * u : kind == 2 ? pow(10, 200 * u) : i % 7 == 0;
        v[i] *= share;
    }
    if (v && kind == 4)
        v[n / 2] = INFINITY;
    return v;
}

/* What the candidates of the last round left. */
static void make_last(struct hf_rng *rng, struct hf_case *c, struct hf_spread_args *a,
                      int64_t kind) {
    const int64_t n = a->x.rows;
    int32_t *nearest_candidate = hf_case_alloc(c, (size_t)n * sizeof *nearest_candidate, false);
    for (int64_t i = 0; nearest_candidate && i < n; i++)
        nearest_candidate[i] = (int32_t)(i % 100);
    a->nearest_candidate = nearest_candidate;
    a->far = make_distances(rng, c, n, kind, kind == 1 ? 0x1p-9 : 1);
    a->first_label = 1000;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int64_t wanted[] = {0, 1, 7, 100, 3000};
    struct hf_spread_args *a = c->args;
    struct hf_data_shape shape;
    if (!hf_data_case(id, &shape))
        return false;
    const int64_t n = shape.n;
    const bool weighted = hf_data_pick(id, WEIGHTS, 2) == 1;
    const bool takes = hf_data_pick(id, TAKES, 3) > 0;
    const int64_t kind = hf_data_pick(id, DISTANCES, 5);
    a->x = hf_data_rows(rng, c, &shape);
    a->wanted = wanted[hf_data_pick(id, WANTED, 5)];
    a->weights = weighted ? hf_data_weights(rng, c, n) : NULL;
    a->seed = hf_rng_next(rng);
    a->stream = hf_rng_next(rng);
    a->nearest = make_distances(rng, c, n, kind, 1);
    a->label = hf_case_alloc(c, (size_t)n * sizeof *a->label, true);
    a->index = hf_case_alloc(c, (size_t)n * sizeof *a->index, true);
    a->unit = hf_case_alloc(c, sizeof *a->unit, true);
    a->total = hf_case_alloc(c, sizeof *a->total, true);
    a->count = hf_case_alloc(c, sizeof *a->count, true);
    if (takes)
        make_last(rng, c, a, kind);
    a->limit = ldexp(1, hf_fixed_bits(n));
    if (!c->failed)
        *a->unit = hf_data_pick(id, UNIT, 3) == 0 ? 0 : hf_seed_scale_of(a->nearest, a->weights, n);
    hf_data_name(c, &shape, " wanted=%d distances=%d%s%s", (int)a->wanted, (int)kind,
                 weighted ? " weights" : "", takes ? " last" : "");
    return true;
}

const struct hf_op_cases hf_spread_cases = {
    .make_case = make_case,
};
