/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/greedy/greedy.h"

static void greedy_key(const void *p, struct hf_key *key) {
    const struct hf_greedy_args *a = p;
    *key = (struct hf_key){.dtype = {a->x.dtype}, .dim = {a->x.rows, a->upto, a->x.cols}};
}

/* Each step looks at all rows; count may lie on the device, so all steps are counted. */
static void greedy_cost(const void *p, double *flops, double *bytes) {
    const struct hf_greedy_args *a = p;
    const double values = (double)a->x.rows * (double)a->x.cols * (double)a->upto;
    *flops = 2 * values * a->trials;
    *bytes = values * (double)hf_dtype_bytes(a->x.dtype);
}

const struct hf_op hf_greedy_op = {
    .name = "greedy",
    .args_size = sizeof(struct hf_greedy_args),
    .type = {"x"},
    .dim = {"n", "k", "d"},
    .key = greedy_key,
    .cost = greedy_cost,
};
