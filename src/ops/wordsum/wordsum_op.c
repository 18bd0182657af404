/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/wordsum/wordsum.h"

/* Words have no type: the one of their width stands for it. */
static void wordsum_key(const void *p, struct hf_key *key) {
    const struct hf_wordsum_args *args = p;
    *key = (struct hf_key){.dtype = {HF_F32}, .dim = {args->bytes}};
}

static void wordsum_cost(const void *p, double *flops, double *bytes) {
    const struct hf_wordsum_args *args = p;
    *flops = (double)args->bytes / 2;
    *bytes = (double)args->bytes;
}

const struct hf_op hf_wordsum_op = {
    .name = "wordsum",
    .args_size = sizeof(struct hf_wordsum_args),
    .type = {"words"},
    .dim = {"bytes"},
    .key = wordsum_key,
    .cost = wordsum_cost,
};
