/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/inertia/inertia.h"

static void inertia_key(const void *p, struct hf_key *key) {
    const struct hf_inertia_args *args = p;
    *key = (struct hf_key){.dtype = {args->x.dtype},
                           .dim = {args->x.rows, args->c.rows, args->x.cols}};
}

static void inertia_cost(const void *p, double *flops, double *bytes) {
    const struct hf_inertia_args *args = p;
    const double values = (double)args->x.rows * (double)args->x.cols;
    *flops = (args->metric == HF_EUCLIDEAN ? 3 : args->metric == HF_COSINE ? 4 : 2) * values;
    *bytes = values * (double)hf_dtype_bytes(args->x.dtype) +
             (args->distances ? 12.0 : 4.0) * (double)args->x.rows;
}

const struct hf_op hf_inertia_op = {
    .name = "inertia",
    .args_size = sizeof(struct hf_inertia_args),
    .type = {"x"},
    .dim = {"n", "k", "d"},
    .key = inertia_key,
    .cost = inertia_cost,
};
