/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/audit/audit.h"

static void audit_key(const void *p, struct hf_key *key) {
    const struct hf_audit_args *args = p;
    *key = (struct hf_key){.dtype = {args->x.data ? args->x.dtype : HF_F32},
                           .dim = {args->n, args->k, args->sums ? args->sums->d : 0}};
}

/* As if one row in eight moved. */
static void audit_cost(const void *p, double *flops, double *bytes) {
    const struct hf_audit_args *args = p;
    const double n = (double)args->n;
    const double d = args->sums ? (double)args->sums->d : 0;
    const double row = args->x.data ? (double)args->x.cols * 4 : 0;
    *flops = n + 2 * (double)args->k * d;
    *bytes = 8 * n + n / 8 * (8 + row) + 8 * (double)args->k * d + 4 * (double)args->n_words;
}

const struct hf_op hf_audit_op = {
    .name = "audit",
    .args_size = sizeof(struct hf_audit_args),
    .type = {"x"},
    .dim = {"n", "k", "d"},
    .key = audit_key,
    .cost = audit_cost,
};
