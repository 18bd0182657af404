/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cases/data_case.h"
#include "ops/sample/sample.h"
#include <math.h>

enum { WEIGHTS = 10, ROWS, COUNT, DISTANCES, OUTPUTS }; /* purposes of hf_data_pick() */

static void make_distances(struct hf_rng *rng, struct hf_case *c, struct hf_sample_args *a,
                           int64_t kind) {
    double *distance = hf_case_alloc(c, (size_t)a->x.rows * sizeof *distance, false);
    a->distance = distance;
    for (int64_t i = 0; distance && i < a->x.rows; i++) {
        const double u = hf_rng_next_unit(rng);
        distance[i] = kind == 0 ? 0 : kind == 1 ? u * u : kind == 2 ? pow(10, 200 * u) : i % 7 == 0;
    }
    if (distance && kind == 4)
        distance[a->x.rows / 2] = INFINITY;
    for (int64_t i = 0; distance && kind == 5 && i < a->x.rows; i++)
        distance[i] *= 0x1p-1070; /* no unit makes whole numbers of these */
}

/* wanted: bit 0 rows, 1 drawn_distance, 2 weight. */
static void make_outputs(struct hf_case *c, struct hf_sample_args *a, int wanted) {
    const size_t draws = 2 * (size_t)a->count;
    a->index = hf_case_alloc(c, draws * sizeof *a->index, true);
    if (wanted & 2)
        a->drawn_distance = hf_case_alloc(c, draws * sizeof *a->drawn_distance, true);
    if (wanted & 4)
        a->weight = hf_case_alloc(c, draws * sizeof *a->weight, true);
    a->sums = hf_case_alloc(c, 2 * sizeof *a->sums, true);
    if (wanted & 1)
        a->rows = hf_case_alloc(c, draws * (size_t)a->x.cols * hf_dtype_bytes(a->x.dtype), true);
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    struct hf_sample_args *a = c->args;
    struct hf_data_shape shape;
    if (!hf_data_case(id, &shape))
        return false;
    static const int64_t counts[] = {1, 2, 5, 100, 3000};
    const bool weighted = hf_data_pick(id, WEIGHTS, 2) == 1;
    const bool with_rows = hf_data_pick(id, ROWS, 3) > 0;
    const int64_t kind = hf_data_pick(id, DISTANCES, 6);
    a->x = hf_data_rows(rng, c, &shape);
    a->count = counts[hf_data_pick(id, COUNT, 5)];
    a->weights = weighted ? hf_data_weights(rng, c, shape.n) : NULL;
    a->seed = hf_rng_next(rng);
    a->stream = hf_rng_next(rng);
    make_distances(rng, c, a, kind);
    /* a sum that is infinite leaves weights that are no numbers */
    const int outputs = (int)hf_data_pick(id, OUTPUTS, 4) * 2 & (kind == 4 ? 2 : 6);
    make_outputs(c, a, outputs | with_rows);
    hf_data_name(c, &shape, " draws=%d distances=%d%s%s", (int)a->count, (int)kind,
                 weighted ? " weights" : "", with_rows ? " rows" : "");
    return true;
}

const struct hf_op_cases hf_sample_cases = {
    .make_case = make_case,
};
