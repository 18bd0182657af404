/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/assign/assign.h"

static void assign_key(const void *args, struct hf_key *key) {
    const struct hf_assign_args *a = args;
    key->dtype = a->x.dtype;
    key->n = a->x.rows;
    key->k = a->c.rows;
    key->d = a->x.cols;
}

static void assign_cost(const void *args, double *flops, double *bytes) {
    const struct hf_assign_args *a = args;
    const double n = (double)a->x.rows;
    const double k = (double)a->c.rows;
    const double d = (double)a->x.cols;
    *flops = 2.0 * n * k * d;
    *bytes = n * d * (double)hf_dtype_bytes(a->x.dtype) + 4.0 * n +
             k * d * (double)hf_dtype_bytes(a->c.dtype);
}

const struct hf_op hf_assign_op = {
    .name = "assign",
    .args_size = sizeof(struct hf_assign_args),
    .key = assign_key,
    .cost = assign_cost,
};
