/* SPDX-License-Identifier: Apache-2.0
 * Compiled once per instruction set, with HF_INJECT: the kernels that planted faults can strike, by
 * op id. */
#include "core/kernel.h"
#include "core/op.h"

#ifdef HF_ISA_HEADER
#define STRUCK_VECTORS 1
#undef HF_ISA_HEADER /* names are all that is needed here */
#endif
#include "device/host/isa.h"

extern const struct hf_kernel_table *const HF_ISA_NAME(hf_struck_tables)[HF_OP_COUNT];

#ifdef STRUCK_VECTORS

#define STRUCK(S) S(ASSIGN, assign) S(UPDATE, update) S(INERTIA, inertia) S(MEANS, means)

#define TABLE(NAME, name) extern const struct hf_kernel_table HF_ISA_NAME(hf_##name##_kernels);
STRUCK(TABLE)
#undef TABLE

const struct hf_kernel_table *const HF_ISA_NAME(hf_struck_tables)[HF_OP_COUNT] = {
#define TABLE(NAME, name) [HF_OP_##NAME] = &HF_ISA_NAME(hf_##name##_kernels),
    STRUCK(TABLE)
#undef TABLE
};

#else /* references have no registers to strike */

const struct hf_kernel_table *const HF_ISA_NAME(hf_struck_tables)[HF_OP_COUNT] = {NULL};

#endif
