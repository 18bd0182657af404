/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/sample/sample.h"

static void sample_key(const void *p, struct hf_key *key) {
    const struct hf_sample_args *args = p;
    *key =
        (struct hf_key){.dtype = {args->x.dtype}, .dim = {args->x.rows, args->count, args->x.cols}};
}

static void sample_cost(const void *p, double *flops, double *bytes) {
    const struct hf_sample_args *args = p;
    const double n = (double)args->x.rows;
    const double row =
        args->rows ? (double)args->x.cols * (double)hf_dtype_bytes(args->x.dtype) : 0;
    *flops = 4 * n;
    *bytes = (args->weights ? 16 : 8) * n + 4 * (double)args->count * row;
}

const struct hf_op hf_sample_op = {
    .name = "sample",
    .args_size = sizeof(struct hf_sample_args),
    .type = {"x"},
    .dim = {"n", "count", "d"},
    .key = sample_key,
    .cost = sample_cost,
};
