/* SPDX-License-Identifier: Apache-2.0
 * Blocks of one launch waiting for each other. The launch must be cooperative: all of its blocks
 * are on the device at once. */
#ifndef HF_CUDA_GRID_CUH
#define HF_CUDA_GRID_CUH

#include "device/cuda/cuda.h"

static __device__ __forceinline__ unsigned hf_acquire(const unsigned *p) {
    unsigned v;
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
    return v;
}

/* All threads of all blocks arrive before any goes on, and see what the others wrote. *barrier is 0
 * before the first launch and is left as the next one needs it: the highest bit turns with each
 * round, for the first block adds what the others lack to 2^31. */
static __device__ __forceinline__ void hf_grid_wait(unsigned *barrier) {
    __syncthreads();
    if (threadIdx.x == 0) {
        const unsigned add = blockIdx.x == 0 ? 0x80000000u - (gridDim.x - 1) : 1;
        __threadfence();
        const unsigned before = atomicAdd(barrier, add);
        while (((hf_acquire(barrier) ^ before) & 0x80000000u) == 0)
            ;
        __threadfence();
    }
    __syncthreads();
}

#endif
