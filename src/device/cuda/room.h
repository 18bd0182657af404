/* SPDX-License-Identifier: Apache-2.0
 * Shared memory of kernels that take more of it for one shape than for another. */
#ifndef HF_CUDA_ROOM_H
#define HF_CUDA_ROOM_H

#include "device/cuda/cuda.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Before a launch on cuda->stream: let the kernel have all the dynamic shared memory that a block
 * of this device can, cuda->smem less what is static in it. Never less than that: what a kernel may
 * have is one number for all threads of a process, and another one may launch it for another shape
 * in between. Costs nothing but the first time. */
cudaError_t hf_cuda_room(struct hf_cuda *cuda, const void *kernel);

#ifdef __cplusplus
}
#endif
#endif
