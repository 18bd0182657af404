/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dtype.h"
#include "core/array.h"
#include "ops/cases/data_case.h"
#include "ops/distance/distance.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { METRIC = 10, ROOT, CENTROIDS }; /* purposes of hf_data_pick() */

#define CHECKED_PAIR 101 /* every so many pairs one is compared with the truth */
#define MAX_PAIRS 60000  /* times d: the reference takes a few ms a case */

static bool make_args(struct hf_rng *rng, struct hf_case *c, const struct hf_data_shape *shape,
                      hf_dtype centroids) {
    struct hf_distance_args *args = c->args;
    args->x = hf_data_rows(rng, c, shape);
    if (c->failed)
        return false;
    args->c = hf_data_centroids(rng, c, shape, &args->x, centroids);
    args->out = hf_case_alloc_output(c, HF_F64, shape->n * shape->k, HF_DISTANCE_OUT);
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

/* With 64 bits instead of 53. */
static long double exact(const struct hf_distance_args *a, int64_t row, int64_t centroid) {
    const void *x = hf_array_row(&a->x, row), *c = hf_array_row(&a->c, centroid);
    long double square = 0, dot = 0, xx = 0, cc = 0;
    for (int64_t j = 0; j < a->x.cols; j++) {
        const long double xj = hf_load_f64(x, a->x.dtype, j), cj = hf_load_f64(c, a->c.dtype, j);
        square += (xj - cj) * (xj - cj);
        dot += xj * cj;
        xx += xj * xj;
        cc += cj * cj;
    }
    if (a->metric == HF_DOT)
        return -dot;
    if (a->metric == HF_COSINE)
        return 1 - dot / (sqrtl(xx) * sqrtl(cc));
    return a->root ? sqrtl(square) : square;
}

/* Bits of the reference, and some of them as near to the truth as the op says. */
static bool compare(const void *args, void *const *ref, void *const *got, char *why,
                    size_t why_bytes) {
    const struct hf_distance_args *a = args;
    const int64_t pairs = a->x.rows * a->c.rows;
    const double *want = ref[0], *is = got[0];
    for (int64_t i = 0; i < pairs; i++) {
        const size_t at = (size_t)i * sizeof *is;
        if (memcmp((const char *)ref[0] + at, (const char *)got[0] + at, sizeof *is) != 0) {
            snprintf(why, why_bytes, "distance %lld is %.17g, not %.17g", (long long)i, is[i],
                     want[i]);
            return false;
        }
        if (i % CHECKED_PAIR != 0)
            continue;
        const double bound = hf_op_at(HF_OP_DISTANCE)->bound(a, HF_DISTANCE_OUT, i);
        const long double off = is[i] - exact(a, i / a->c.rows, i % a->c.rows);
        if (bound < INFINITY && !(fabsl(off) <= bound)) {
            snprintf(why, why_bytes, "distance %lld is off by %g, which is more than %g",
                     (long long)i, (double)off, bound);
            return false;
        }
    }
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
    .compare = compare,
    .make_bench = make_bench,
    .data = {"blobs", "normal"},
    .example = {{HF_F32}, {100000, 256, 64}, 0},
};
