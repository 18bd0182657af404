/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/lloyd/lloyd.h"

static void lloyd_key(const void *p, struct hf_key *key) {
    const struct hf_lloyd_args *args = p;
    *key = (struct hf_key){.dtype = {args->x.dtype},
                           .dim = {args->x.rows, args->sums->k, args->x.cols}};
}

static void lloyd_cost(const void *p, double *flops, double *bytes) {
    const struct hf_lloyd_args *args = p;
    const double values = (double)args->x.rows * (double)args->x.cols;
    *flops = 2 * values * (double)args->sums->k * args->count;
    *bytes = values * (double)hf_dtype_bytes(args->x.dtype) * args->count;
}

static bool lloyd_unanimous(const void *p) { return ((const struct hf_lloyd_args *)p)->exact; }

const struct hf_op hf_lloyd_op = {
    .name = "lloyd",
    .args_size = sizeof(struct hf_lloyd_args),
    .type = {"x"},
    .dim = {"n", "k", "d"},
    .key = lloyd_key,
    .cost = lloyd_cost,
    .unanimous = lloyd_unanimous,
};
