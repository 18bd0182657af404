/* SPDX-License-Identifier: Apache-2.0
 * Protection schemes: what hf_run() does about wrong arithmetic. */
#ifndef HF_GUARD_H
#define HF_GUARD_H

#include "core/context.h"

/* Scheme ids in the order of scheme.def: HF_SCHEME_NONE, ... */
enum hf_scheme_id {
#define SCHEME(NAME, name) HF_SCHEME_##NAME,
#include "guard/scheme.def"
#undef SCHEME
    HF_SCHEME_COUNT
};

/* "none"; NULL for an id out of range. */
const char *hf_scheme_name(int id);

/* The number by which a kernel of the context tells its findings. (verify.c) */
uint32_t hf_guard_number(hf_context *ctx, const struct hf_kernel *kernel);

#endif
