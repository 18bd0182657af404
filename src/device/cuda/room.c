/* SPDX-License-Identifier: Apache-2.0
 * The driver keeps the number for each kernel and device; a context remembers which kernels of its
 * device have it, by their addresses, so that a launch need not ask. */
#include "device/cuda/room.h"

#include "device/cuda/own.h"

cudaError_t hf_cuda_room(struct hf_cuda *cuda, const void *kernel) {
    struct hf_cuda_own *own = (struct hf_cuda_own *)cuda;
    const void **known = &own->roomy[(uintptr_t)kernel / 16 % HF_CUDA_ROOMY];
    struct cudaFuncAttributes has;
    if (*known == kernel)
        return cudaSuccess;
    cudaError_t error = cudaFuncGetAttributes(&has, kernel);
    if (error == cudaSuccess)
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     cuda->smem - (int)has.sharedSizeBytes);
    if (error == cudaSuccess)
        *known = kernel;
    return error;
}
