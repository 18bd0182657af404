/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cases/data_case.h"
#include "ops/gather/gather.h"

enum { COUNT = 10, TYPE }; /* purposes of hf_data_pick() */

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int64_t counts[] = {1, 3, 40, 1000};
    struct hf_gather_args *a = c->args;
    struct hf_data_shape shape;
    if (!hf_data_case(id, &shape))
        return false;
    a->x = hf_data_rows(rng, c, &shape);
    a->count = counts[hf_data_pick(id, COUNT, 4)];
    int64_t *index = hf_case_alloc(c, (size_t)a->count * sizeof *index, false);
    for (int64_t i = 0; index && i < a->count; i++)
        index[i] = (int64_t)(hf_rng_next(rng) % (uint64_t)shape.n);
    a->index = index;
    const bool wide = shape.dtype == HF_F64 || hf_data_pick(id, TYPE, 2) == 0;
    a->type = wide ? HF_F64 : HF_F32;
    a->out = hf_case_alloc(c, (size_t)(a->count * shape.d) * hf_dtype_bytes(a->type), true);
    hf_data_name(c, &shape, " rows=%d as %s", (int)a->count, hf_dtype_name(a->type));
    return true;
}

const struct hf_op_cases hf_gather_cases = {
    .make_case = make_case,
};
