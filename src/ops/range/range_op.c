/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/range/range.h"

static void range_key(const void *p, struct hf_key *key) {
    const struct hf_range_args *args = p;
    *key = (struct hf_key){.dtype = {args->x.dtype}, .dim = {args->x.rows, args->x.cols}};
}

static void range_cost(const void *p, double *flops, double *bytes) {
    const struct hf_range_args *args = p;
    const double values = (double)args->x.rows * (double)args->x.cols;
    *flops = 2 * values;
    *bytes = values * (double)hf_dtype_bytes(args->x.dtype) + (double)args->x.rows;
}

const struct hf_op hf_range_op = {
    .name = "range",
    .args_size = sizeof(struct hf_range_args),
    .type = {"x"},
    .dim = {"n", "d"},
    .key = range_key,
    .cost = range_cost,
};
