/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/gemm/gemm.h"

extern const struct hf_kernel_table HF_ISA_NAME(hf_gemm_kernels);
const struct hf_kernel_table HF_ISA_NAME(hf_gemm_kernels) = {NULL, 0};
