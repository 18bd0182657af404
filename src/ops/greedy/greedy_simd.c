/* SPDX-License-Identifier: Apache-2.0
 * No rows: on the CPU k-means++ is a loop over op seed (algo/kmeans/init/init_greedy.c). */
#include "core/kernel.h"
#include "device/host/isa.h"

const struct hf_kernel_table HF_ISA_NAME(hf_greedy_kernels) = {NULL, 0};
