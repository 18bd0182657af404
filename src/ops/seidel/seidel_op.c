/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/seidel/seidel.h"

static void seidel_key(const void *p, struct hf_key *key) {
    const struct hf_seidel_args *args = p;
    *key =
        (struct hf_key){.dtype = {args->a.dtype},
                        .dim = {args->a.rows, args->a.elements, args->blocks, args->colours},
                        .flags = (uint32_t)args->backward | (uint32_t)(args->before != NULL) << 1};
}

static void seidel_cost(const void *p, double *flops, double *bytes) {
    const struct hf_seidel_args *args = p;
    const int64_t elements = args->a.elements;
    *flops = 2 * (double)elements + 5 * (double)args->a.rows;
    *bytes = hf_sparse_bytes(&args->a) + 32.0 * (double)args->a.rows;
}

const struct hf_op hf_seidel_op = {
    .name = "seidel",
    .args_size = sizeof(struct hf_seidel_args),
    .type = {"a"},
    .dim = {"rows", "nnz", "blocks", "colours"},
    .flag = {"backward", "turned"},
    .key = seidel_key,
    .cost = seidel_cost,
};
