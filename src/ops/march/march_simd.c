/* SPDX-License-Identifier: Apache-2.0
 * The CPU needs no march: its threads share caches, and a call of op sweep costs it little. */
#include "core/kernel.h"
#include "device/host/isa.h"

extern const struct hf_kernel_table HF_ISA_NAME(hf_march_kernels);
const struct hf_kernel_table HF_ISA_NAME(hf_march_kernels) = {NULL, 0};
