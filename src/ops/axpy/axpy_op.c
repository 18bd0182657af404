/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/axpy/axpy.h"

static void axpy_key(const void *p, struct hf_key *key) {
    const struct hf_axpy_args *args = p;
    *key =
        (struct hf_key){.dtype = {HF_F64},
                        .dim = {args->n},
                        .flags = (args->scale != NULL ? 1U : 0U) | (args->dot != NULL ? 2U : 0U)};
}

static void axpy_cost(const void *p, double *flops, double *bytes) {
    const struct hf_axpy_args *args = p;
    *flops = (args->x ? 3.0 : 0.0) * (double)args->n + (args->dot ? 2.0 : 0.0) * (double)args->n;
    *bytes = (args->x ? 24.0 : 8.0) * (double)args->n + (args->scale ? 8.0 : 0.0) * (double)args->n;
}

const struct hf_op hf_axpy_op = {
    .name = "axpy",
    .args_size = sizeof(struct hf_axpy_args),
    .type = {"y"},
    .dim = {"n"},
    .flag = {"scale", "dot"},
    .key = axpy_key,
    .cost = axpy_cost,
};
