/* SPDX-License-Identifier: Apache-2.0
 * On the CPU the ledger of a fit does this where the rows pass by (algo/kmeans/guard). */
#include "core/kernel.h"
#include "device/host/isa.h"

const struct hf_kernel_table HF_ISA_NAME(hf_audit_kernels) = {NULL, 0};
