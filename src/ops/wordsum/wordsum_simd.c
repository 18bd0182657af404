/* SPDX-License-Identifier: Apache-2.0
 * No rows: only what lies in memory of a device is summed this way. */
#include "core/kernel.h"
#include "device/host/isa.h"

const struct hf_kernel_table HF_ISA_NAME(hf_wordsum_kernels) = {NULL, 0};
