/* SPDX-License-Identifier: Apache-2.0
 * The protection scheme of a call, and which checks it makes. */
#ifndef HF_SCHEME_H
#define HF_SCHEME_H

#include "device/slot.h"
#include <stdbool.h>

/* In the order of scheme.def: HF_SCHEME_OFF, ... */
enum hf_scheme {
#define SCHEME(NAME, name) HF_SCHEME_##NAME,
#include "guard/scheme.def"
#undef SCHEME
    HF_SCHEME_COUNT
};

/* A set of checks: bit HF_FAULT_... for each of fault.def. */
#define HF_CHECK_BIT(fault) (UINT32_C(1) << (fault))
#define HF_CHECKS_ALL (~UINT32_C(0))

#endif
