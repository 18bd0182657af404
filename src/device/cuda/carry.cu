/* SPDX-License-Identifier: Apache-2.0
 * Copies between locked memory and the device's by a kernel. A copy engine takes in turn what all
 * streams of a process give it, so that 128 KiB of ours wait for all that another stream has
 * queued, such as the next batches of a training (an H200, 20 uploads of 256 MiB: 97 ms; by a
 * kernel .04 ms). */
#include "device/cuda/own.h"

#define THREADS 256

template <typename T>
static __global__ void __launch_bounds__(THREADS) carry(T *dst, const T *src, size_t count) {
    const size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i < count)
        dst[i] = src[i];
}

template <typename T>
static void start(cudaStream_t with, void *dst, const void *src, size_t bytes) {
    const size_t count = bytes / sizeof(T);
    carry<<<(unsigned)((count + THREADS - 1) / THREADS), THREADS, 0, with>>>((T *)dst,
                                                                             (const T *)src, count);
}

cudaError_t hf_cuda_carry(cudaStream_t with, void *dst, const void *src, size_t bytes) {
    const uintptr_t all = (uintptr_t)dst | (uintptr_t)src | bytes;
    if (bytes == 0)
        return cudaSuccess;
    if (all % sizeof(uint4) == 0)
        start<uint4>(with, dst, src, bytes);
    else if (all % sizeof(uint32_t) == 0)
        start<uint32_t>(with, dst, src, bytes);
    else
        start<uint8_t>(with, dst, src, bytes);
    return cudaGetLastError();
}
