/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/moments/moments.h"

static void moments_key(const void *p, struct hf_key *key) {
    const struct hf_moments_args *args = p;
    *key = (struct hf_key){.dtype = {args->x.dtype}, .dim = {args->x.rows, args->x.cols}};
}

static void moments_cost(const void *p, double *flops, double *bytes) {
    const struct hf_moments_args *args = p;
    const double values = (double)args->x.rows * (double)args->x.cols;
    *flops = 4 * values;
    *bytes = values * (double)hf_dtype_bytes(args->x.dtype);
}

const struct hf_op hf_moments_op = {
    .name = "moments",
    .args_size = sizeof(struct hf_moments_args),
    .type = {"x"},
    .dim = {"n", "d"},
    .key = moments_key,
    .cost = moments_cost,
};
