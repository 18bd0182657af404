/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/distance/distance.h"

static void distance_key(const void *p, struct hf_key *key) {
    const struct hf_distance_args *args = p;
    *key = (struct hf_key){.dtype = {args->x.dtype},
                           .dim = {args->x.rows, args->c.rows, args->x.cols}};
}

static void distance_cost(const void *p, double *flops, double *bytes) {
    const struct hf_distance_args *args = p;
    const double n = (double)args->x.rows;
    const double k = (double)args->c.rows;
    const double d = (double)args->x.cols;
    *flops = (args->metric == HF_EUCLIDEAN ? 3 : 2) * n * k * d;
    *bytes = n * d * (double)hf_dtype_bytes(args->x.dtype) +
             k * d * (double)hf_dtype_bytes(args->c.dtype) + 8 * n * k;
}

const struct hf_op hf_distance_op = {
    .name = "distance",
    .args_size = sizeof(struct hf_distance_args),
    .type = {"x"},
    .dim = {"n", "k", "d"},
    .key = distance_key,
    .cost = distance_cost,
};
