/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/spread/spread.h"

static void spread_key(const void *p, struct hf_key *key) {
    const struct hf_spread_args *args = p;
    *key = (struct hf_key){.dtype = {args->x.dtype},
                           .dim = {args->x.rows, args->wanted, args->x.cols}};
}

static void spread_cost(const void *p, double *flops, double *bytes) {
    const struct hf_spread_args *args = p;
    const double n = (double)args->x.rows;
    *flops = 4 * n;
    *bytes = (args->far ? 36 : 8) * n;
}

const struct hf_op hf_spread_op = {
    .name = "spread",
    .args_size = sizeof(struct hf_spread_args),
    .type = {"x"},
    .dim = {"n", "wanted", "d"},
    .key = spread_key,
    .cost = spread_cost,
};
