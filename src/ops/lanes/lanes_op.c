/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/lanes/lanes.h"

static void lanes_key(const void *p, struct hf_key *key) {
    const struct hf_lanes_args *args = p;
    *key = (struct hf_key){.dtype = {HF_F32}, .dim = {args->n, args->steps}};
}

static void lanes_cost(const void *p, double *flops, double *bytes) {
    const struct hf_lanes_args *args = p;
    *flops = 10.0 * (double)args->n * (double)args->steps;
    *bytes = 32.0 * (double)args->n;
}

const struct hf_op hf_lanes_op = {
    .name = "lanes",
    .args_size = sizeof(struct hf_lanes_args),
    .type = {"x"},
    .dim = {"n", "steps"},
    .key = lanes_key,
    .cost = lanes_cost,
};
