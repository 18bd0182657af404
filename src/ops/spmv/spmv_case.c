/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cases/sparse_case.h"
#include "ops/spmv/spmv.h"

static bool fill(struct hf_rng *rng, struct hf_case *c, const struct hf_sparse_shape *shape,
                 bool residual, bool sliced) {
    struct hf_spmv_args *args = c->args;
    if (!hf_sparse_make(rng, c, shape, &args->a))
        return false;
    if (sliced)
        hf_sparse_slice(c, &args->a, (const int64_t[]){0, shape->n}, 1);
    hf_sparse_stencils(c, shape, &args->a, hf_sparse_inverse(c, &args->a));
    args->x = hf_sparse_vector(rng, c, shape->n, false);
    args->y = hf_sparse_vector(rng, c, shape->n, true);
    if (residual)
        args->b = hf_sparse_vector(rng, c, shape->n, false);
    args->square = hf_case_alloc(c, sizeof(double), true);
    return !c->failed;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    struct hf_spmv_args *args = c->args;
    struct hf_sparse_shape shape;
    if (!hf_sparse_case(id, &shape))
        return false;
    const bool residual = id % 3 == 0, dot = id % 4 < 2, sliced = id % 5 < 3;
    if (fill(rng, c, &shape, residual, sliced) && dot)
        args->dot = hf_case_alloc(c, sizeof(double), true);
    if (id % 5 == 4)
        args->square = NULL;
    hf_sparse_name(c, &shape, "%s%s%s", residual ? " residual" : "", dot ? " dot" : "",
                   args->a.slices != NULL ? " sliced" : "");
    return true;
}

const struct hf_op_cases hf_spmv_cases = {.make_case = make_case};
