/* SPDX-License-Identifier: Apache-2.0
 * No rows: what is brought from all over the memory waits for it. */
#include "core/kernel.h"
#include "device/host/isa.h"

const struct hf_kernel_table HF_ISA_NAME(hf_gather_kernels) = {NULL, 0};
