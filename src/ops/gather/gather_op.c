/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gather/gather.h"

static void gather_key(const void *p, struct hf_key *key) {
    const struct hf_gather_args *args = p;
    *key =
        (struct hf_key){.dtype = {args->x.dtype, args->type}, .dim = {args->count, args->x.cols}};
}

static void gather_cost(const void *p, double *flops, double *bytes) {
    const struct hf_gather_args *args = p;
    *flops = 0;
    *bytes = (double)args->count * (double)args->x.cols *
             (double)(hf_dtype_bytes(args->x.dtype) + hf_dtype_bytes(args->type));
}

const struct hf_op hf_gather_op = {
    .name = "gather",
    .args_size = sizeof(struct hf_gather_args),
    .type = {"x", "out"},
    .dim = {"count", "d"},
    .key = gather_key,
    .cost = gather_cost,
};
