/* SPDX-License-Identifier: Apache-2.0
 * No rows: on the CPU the rounds of k-means|| have the same loops, a thread a range of rows, in
 * algo/kmeans/init/init_parallel.c. */
#include "core/kernel.h"
#include "device/host/isa.h"

const struct hf_kernel_table HF_ISA_NAME(hf_spread_kernels) = {NULL, 0};
