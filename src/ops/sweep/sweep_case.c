/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cases/sparse_case.h"
#include "ops/sweep/sweep.h"

static void fill(struct hf_rng *rng, struct hf_case *c, const struct hf_sparse_shape *shape,
                 int64_t most) {
    struct hf_sweep_args *args = c->args;
    struct hf_sparse_system system;
    if (!hf_sparse_system(rng, c, shape, most, &system))
        return;
    if (args->k == 1)
        hf_sparse_slice(c, &system.a, (const int64_t[]){0, shape->n}, 1);
    args->a = system.a;
    hf_sparse_stencils(c, shape, &args->a, system.inverse);
    args->inverse = system.inverse;
    args->block_start = system.blocks.start;
    args->blocks = system.blocks.count;
    args->largest = system.blocks.largest;
    args->b = system.b;
    args->inner = args->k > 1 ? hf_sparse_inner(c, &args->a, &system.blocks) : NULL;
    args->x_new = hf_sparse_vector(rng, c, shape->n, true);
    args->square = hf_case_alloc(c, sizeof(double), true);
    if (args->momentum != 0)
        args->before = hf_sparse_vector(rng, c, shape->n, false);
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int64_t most[] = {1, 7, 128, 5000};
    static const int sweeps[] = {1, 2, 5};
    struct hf_sweep_args *args = c->args;
    struct hf_sparse_shape shape;
    if (!hf_sparse_case(id, &shape))
        return false;
    const bool frozen = id % 5 == 3;
    args->k = sweeps[(id + (int64_t)shape.kind) % 3]; /* each with every size */
    args->damping = id % 4 == 1 ? 0.85 : 1;
    args->momentum = args->k == 1 && id % 2 == 0 ? 0.3 : 0;
    fill(rng, c, &shape, most[id / 3 % 4]);
    if (id % 8 == 7)
        args->square = NULL;
    if (id % 9 == 0)
        args->before = NULL;
    if (!c->failed && id % 7 != 6)
        args->x = hf_sparse_vector(rng, c, shape.n, false);
    uint8_t *lost = frozen ? hf_case_alloc(c, (size_t)shape.n, false) : NULL;
    for (int64_t block = 0; lost != NULL && block < args->blocks; block++)
        lost[block] = hf_rng_next(rng) % 4 == 0;
    args->frozen = lost;
    hf_sparse_name(c, &shape, " blocks=%d k=%d damping=%g%s%s%s", (int)args->blocks, args->k,
                   args->damping, args->momentum != 0 ? " momentum" : "", args->x ? "" : " from 0",
                   frozen ? " frozen" : "");
    return true;
}

const struct hf_op_cases hf_sweep_cases = {.make_case = make_case};
