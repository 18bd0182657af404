/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/update/update.h"

static void update_key(const void *p, struct hf_key *key) {
    const struct hf_update_args *args = p;
    *key = (struct hf_key){.dtype = {args->x.dtype},
                           .dim = {args->x.rows, args->sums->k, args->x.cols}};
}

static void update_cost(const void *p, double *flops, double *bytes) {
    const struct hf_update_args *args = p;
    const double values = (double)args->x.rows * (double)args->x.cols;
    *flops = 2 * values;
    *bytes = values * (double)hf_dtype_bytes(args->x.dtype) + 8.0 * (double)args->x.rows;
}

const struct hf_op hf_update_op = {
    .name = "update",
    .args_size = sizeof(struct hf_update_args),
    .type = {"x"},
    .dim = {"n", "k", "d"},
    .key = update_key,
    .cost = update_cost,
};
