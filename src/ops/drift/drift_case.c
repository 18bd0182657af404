/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cases/sparse_case.h"
#include "ops/drift/drift.h"

#define EPOCHS                                                                                     \
    400 /* nothing is left of the start, even where each x that is read is six epochs old */
#define LAG 3
#define MOST_ROWS 130 /* the bound looks at all elements for each x */

static void fill(struct hf_rng *rng, struct hf_case *c, const struct hf_sparse_shape *shape,
                 int64_t most) {
    struct hf_drift_args *args = c->args;
    struct hf_sparse_system system;
    if (!hf_sparse_system(rng, c, shape, most, &system))
        return;
    args->a = system.a;
    args->inverse = system.inverse;
    args->block_start = system.blocks.start;
    args->blocks = system.blocks.count;
    args->largest = system.blocks.largest;
    args->b = system.b;
    args->inner = hf_sparse_inner(c, &args->a, &system.blocks);
    args->x = hf_case_alloc_output(c, HF_F64, shape->n, 0);
    args->report = hf_case_alloc_state(c, sizeof *args->report);
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int64_t most[] = {1, 7, 128};
    static const int sweeps[] = {1, 2, 5};
    struct hf_drift_args *args = c->args;
    struct hf_sparse_shape shape;
    if (!hf_sparse_case(id, &shape) || shape.kind == HF_SPARSE_LONG)
        return false;
    shape.n = shape.n < MOST_ROWS ? shape.n : MOST_ROWS;
    args->k = sweeps[id % 3];
    args->damping = 1;
    args->epochs = EPOCHS;
    args->lag = LAG;
    fill(rng, c, &shape, most[id / 3 % 3]);
    hf_sparse_name(c, &shape, " blocks=%d k=%d", (int)args->blocks, args->k);
    return true;
}

const struct hf_op_cases hf_drift_cases = {.make_case = make_case};
