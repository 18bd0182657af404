/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/spmv/spmv.h"

static void spmv_key(const void *p, struct hf_key *key) {
    const struct hf_spmv_args *args = p;
    *key = (struct hf_key){.dtype = {args->a.dtype},
                           .dim = {args->a.rows, args->a.cols, args->a.elements},
                           .flags = args->b != NULL};
}

static void spmv_cost(const void *p, double *flops, double *bytes) {
    const struct hf_spmv_args *args = p;
    const int64_t elements = args->a.elements;
    *flops = 2 * (double)elements;
    *bytes = hf_sparse_bytes(&args->a) + (args->b ? 16.0 : 8.0) * (double)args->a.rows +
             8.0 * (double)args->a.cols;
}

const struct hf_op hf_spmv_op = {
    .name = "spmv",
    .args_size = sizeof(struct hf_spmv_args),
    .type = {"a"},
    .dim = {"rows", "cols", "nnz"},
    .flag = {"residual"},
    .key = spmv_key,
    .cost = spmv_cost,
};
