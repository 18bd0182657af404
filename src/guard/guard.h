/* SPDX-License-Identifier: Apache-2.0
 * Protection schemes: what hf_run() does about wrong arithmetic. */
#ifndef HF_GUARD_H
#define HF_GUARD_H

/* Scheme ids in the order of scheme.def: HF_SCHEME_NONE, ... */
enum hf_scheme_id {
#define SCHEME(NAME, name) HF_SCHEME_##NAME,
#include "guard/scheme.def"
#undef SCHEME
    HF_SCHEME_COUNT
};

/* "none"; NULL for an id out of range. */
const char *hf_scheme_name(int id);

#endif
