/* SPDX-License-Identifier: Apache-2.0
 * Compiled once per instruction set: the kernel tables of that set, by op id. */
#include "core/kernel.h"
#include "core/op.h"
#include "device/host/isa.h"

#define OP(NAME, name) extern const struct hf_kernel_table HF_ISA_NAME(hf_##name##_kernels);
#include "ops/ops.def"
#undef OP

extern const struct hf_kernel_table *const HF_ISA_NAME(hf_isa_tables)[HF_OP_COUNT];
const struct hf_kernel_table *const HF_ISA_NAME(hf_isa_tables)[HF_OP_COUNT] = {
#define OP(NAME, name) &HF_ISA_NAME(hf_##name##_kernels),
#include "ops/ops.def"
#undef OP
};
