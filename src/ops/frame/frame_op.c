/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/frame/frame.h"

static void frame_key(const void *p, struct hf_key *key) {
    const struct hf_frame_args *args = p;
    *key = (struct hf_key){.dtype = {args->x.dtype}, .dim = {args->x.rows, args->x.cols}};
}

static void frame_cost(const void *p, double *flops, double *bytes) {
    const struct hf_frame_args *args = p;
    const int64_t batch = hf_frame_batch(args);
    const int64_t sample = batch * hf_frame_rows(args->x.rows / batch, args->x.cols);
    const double values = (double)sample * (double)args->x.cols;
    *flops = 6 * values;
    *bytes = values * (double)hf_dtype_bytes(args->x.dtype);
}

const struct hf_op hf_frame_op = {
    .name = "frame",
    .args_size = sizeof(struct hf_frame_args),
    .type = {"x"},
    .dim = {"n", "d"},
    .key = frame_key,
    .cost = frame_cost,
};
