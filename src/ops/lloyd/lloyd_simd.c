/* SPDX-License-Identifier: Apache-2.0
 * No rows: on the CPU the loop is that of algo/kmeans/loop/lloyd_loop.c. */
#include "core/kernel.h"
#include "device/host/isa.h"

const struct hf_kernel_table HF_ISA_NAME(hf_lloyd_kernels) = {NULL, 0};
