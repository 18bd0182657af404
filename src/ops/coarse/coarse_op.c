/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/coarse/coarse.h"

static void coarse_key(const void *p, struct hf_key *key) {
    const struct hf_coarse_args *args = p;
    *key = (struct hf_key){.dtype = {HF_F64}, .dim = {args->n, args->blocks}};
}

static void coarse_cost(const void *p, double *flops, double *bytes) {
    const struct hf_coarse_args *args = p;
    const double square = (double)args->blocks * (double)args->blocks;
    *flops = 2 * square + 3 * (double)args->n;
    *bytes = 8 * square + 24 * (double)args->n;
}

const struct hf_op hf_coarse_op = {
    .name = "coarse",
    .args_size = sizeof(struct hf_coarse_args),
    .type = {"r"},
    .dim = {"n", "blocks"},
    .key = coarse_key,
    .cost = coarse_cost,
};
