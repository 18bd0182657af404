/* SPDX-License-Identifier: Apache-2.0
 * Kernels of one stream that follow each other closely: on Hopper a kernel launched here may begin
 * while the one before it still runs, so that launching and preparing cost no time. It calls
 * hf_chain_wait() first, in all threads: what came before has then ended and is seen. Elsewhere
 * this is a plain launch. */
#ifndef HF_CUDA_CHAIN_CUH
#define HF_CUDA_CHAIN_CUH

#include "device/cuda/cuda.h"

/* No global memory that others write is touched before this. Every thread must call it: a kernel
 * that ends without having waited lets the next one pass the one before. */
static __device__ __forceinline__ void hf_chain_wait(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The next kernel's blocks may come as soon as all blocks have called this (or ended) and there is
 * room for them; they wait for the end of this one all the same. */
static __device__ __forceinline__ void hf_chain_next(void) {
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* cluster: blocks of a cluster, 1 for none. */
template <typename... Args>
static cudaError_t hf_chain_launch(const struct hf_cuda *cuda, void (*kernel)(Args...), dim3 grid,
                                   int threads, int shared, int cluster, Args... args) {
    cudaLaunchAttribute attrs[2] = {};
    cudaLaunchConfig_t config = {};
    config.gridDim = grid;
    config.blockDim = dim3((unsigned)threads);
    config.dynamicSmemBytes = (size_t)shared;
    config.stream = cuda->stream;
    config.attrs = attrs;
    if (cuda->sm == 90) {
        attrs[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
        attrs[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
    }
    if (cluster > 1) {
        attrs[config.numAttrs].id = cudaLaunchAttributeClusterDimension;
        attrs[config.numAttrs].val.clusterDim.x = (unsigned)cluster;
        attrs[config.numAttrs].val.clusterDim.y = 1;
        attrs[config.numAttrs++].val.clusterDim.z = 1;
    }
    return cudaLaunchKernelEx(&config, kernel, args...);
}

#endif
