/* SPDX-License-Identifier: Apache-2.0 */
#include "core/op.h"
#include "ops/seed/seed.h"

static void key(const void *args, struct hf_key *key) {
    const struct hf_seed_args *a = args;
    *key = (struct hf_key){.dtype = {a->x.dtype},
                           .dim = {a->x.rows, a->candidates.rows, a->x.cols},
                           .flags = a->commit};
}

static void cost(const void *args, double *flops, double *bytes) {
    const struct hf_seed_args *a = args;
    const double n = (double)a->x.rows;
    const double d = (double)a->x.cols;
    *flops = 2 * n * d * (double)a->candidates.rows;
    *bytes = n * (d * (double)hf_dtype_bytes(a->x.dtype) + 8);
}

const struct hf_op hf_seed_op = {
    .name = "seed",
    .args_size = sizeof(struct hf_seed_args),
    .type = {"x"},
    .dim = {"n", "l", "d"},
    .flag = {"commit"},
    .key = key,
    .cost = cost,
};
