/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/rowhash/rowhash.h"

static void rowhash_key(const void *p, struct hf_key *key) {
    const struct hf_rowhash_args *args = p;
    *key = (struct hf_key){.dtype = {args->x.dtype}, .dim = {args->x.rows, args->x.cols}};
}

static void rowhash_cost(const void *p, double *flops, double *bytes) {
    const struct hf_rowhash_args *args = p;
    const double values = (double)args->x.rows * (double)args->x.cols;
    *flops = 4 * values;
    *bytes = values * (double)hf_dtype_bytes(args->x.dtype) + 8.0 * (double)args->x.rows;
}

const struct hf_op hf_rowhash_op = {
    .name = "rowhash",
    .args_size = sizeof(struct hf_rowhash_args),
    .type = {"x"},
    .dim = {"n", "d"},
    .key = rowhash_key,
    .cost = rowhash_cost,
};
