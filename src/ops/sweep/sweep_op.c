/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sweep/sweep.h"

static void sweep_key(const void *p, struct hf_key *key) {
    const struct hf_sweep_args *args = p;
    *key = (struct hf_key){.dtype = {args->a.dtype},
                           .dim = {args->a.rows, args->a.elements, args->blocks, args->k}};
}

/* Of the local sweeps only the elements of other blocks need not be read again: how many these are
 * is not known here, so they count once. */
static void sweep_cost(const void *p, double *flops, double *bytes) {
    const struct hf_sweep_args *args = p;
    const int64_t elements = args->a.elements;
    *flops = 2 * (double)elements + 3.0 * args->k * (double)args->a.rows;
    *bytes = hf_sparse_bytes(&args->a) + 32.0 * (double)args->a.rows;
}

const struct hf_op hf_sweep_op = {
    .name = "sweep",
    .args_size = sizeof(struct hf_sweep_args),
    .type = {"a"},
    .dim = {"rows", "nnz", "blocks", "k"},
    .key = sweep_key,
    .cost = sweep_cost,
};
