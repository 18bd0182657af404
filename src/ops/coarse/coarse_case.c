/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/cases/sparse_case.h"
#include "ops/coarse/coarse.h"

#include <stdio.h>

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int64_t sizes[] = {1, 2, 9, 130, 1025, 9000}, most[] = {1, 7, 200};
    struct hf_coarse_args *args = c->args;
    if (id >= 36)
        return false;
    args->n = sizes[id % 6];
    const int64_t rows = args->n > 1000 ? 200 : most[id / 6 % 3];
    const struct hf_sparse_blocks blocks = hf_sparse_blocks(rng, c, args->n, rows);
    args->blocks = blocks.count;
    args->block_start = blocks.start;
    args->inverse = hf_sparse_vector(rng, c, blocks.count * blocks.count, false);
    args->r = hf_sparse_vector(rng, c, args->n, false);
    args->z = hf_sparse_vector(rng, c, args->n, true);
    args->scale = id < 18 ? 1 : 0.7;
    (void)snprintf(c->name, sizeof c->name, "n=%d blocks=%d scale=%g", (int)args->n,
                   (int)args->blocks, args->scale);
    return true;
}

const struct hf_op_cases hf_coarse_cases = {.make_case = make_case};
