/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/patches/patches.h"

static void patches_key(const void *p, struct hf_key *key) {
    const struct hf_patches_args *args = p;
    *key = (struct hf_key){.dtype = {args->dtype},
                           .dim = {args->n, args->patches, args->places, args->elements},
                           .flags = args->add};
}

static void patches_cost(const void *p, double *flops, double *bytes) {
    const struct hf_patches_args *args = p;
    *flops = 4 * (double)args->elements;
    *bytes = (args->dtype == HF_F32 ? 4.0 : 8.0) * (double)args->elements +
             24.0 * (double)args->places + 24.0 * (double)args->n;
}

const struct hf_op hf_patches_op = {
    .name = "patches",
    .args_size = sizeof(struct hf_patches_args),
    .type = {"factor"},
    .dim = {"n", "patches", "places", "elements"},
    .flag = {"add"},
    .key = patches_key,
    .cost = patches_cost,
};
