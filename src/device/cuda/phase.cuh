/* SPDX-License-Identifier: Apache-2.0
 * The work of one launch in phases, each of which needs what the one before it made. Blocks take
 * the items of a phase one by one and wait for its end. A block waits only for items that running
 * blocks have, so the launch needs no room for all of its blocks at once: it need not be
 * cooperative, and may follow another kernel early (chain.cuh). */
#ifndef HF_CUDA_PHASE_CUH
#define HF_CUDA_PHASE_CUH

#include "device/cuda/cuda.h"

/* Both 0 when a launch begins. */
struct hf_phase {
    int32_t taken, done; /* items */
};

/* All threads: the block's next item of a phase, or `items` where none is left. */
static __device__ __forceinline__ int hf_phase_take(struct hf_phase *phase, int items) {
    __shared__ int item;
    __syncthreads(); /* all are done with the last one */
    if (threadIdx.x == 0)
        item = atomicAdd(&phase->taken, 1);
    __syncthreads();
    return min(item, items);
}

/* All threads, with the number of items that the block did: goes on when all `items` are done, and
 * sees what the other blocks wrote. */
static __device__ __forceinline__ void hf_phase_wait(struct hf_phase *phase, int own, int items) {
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        atomicAdd(&phase->done, own);
        int done = 0;
        do
            asm volatile("ld.acquire.gpu.global.s32 %0, [%1];"
                         : "=r"(done)
                         : "l"(&phase->done)
                         : "memory");
        while (done < items);
        __threadfence();
    }
    __syncthreads();
}

#endif
