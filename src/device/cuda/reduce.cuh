/* SPDX-License-Identifier: Apache-2.0
 * How a block shares out the columns of a matrix, and sums and extremes that do not depend on the
 * order. */
#ifndef HF_CUDA_REDUCE_CUH
#define HF_CUDA_REDUCE_CUH

#include "device/cuda/cuda.h"
#include <stdint.h>

typedef unsigned long long hf_u64; /* what CUDA's atomics take */

/* A block walks over rows, several at once; a thread stays with the same `pack` columns. blockIdx.y
 * counts the slabs of a row that has more packs than the block has threads. */
struct hf_lanes {
    int lanes, rows; /* threads to a row, rows at once */
    int lane, row;   /* of this thread */
    int64_t column;  /* its first column */
    bool active;     /* threads that are left over have no row */
};

static __device__ __forceinline__ struct hf_lanes hf_lanes_of(int64_t d, int pack) {
    struct hf_lanes at;
    const int threads = (int)blockDim.x;
    const int64_t left = (d + pack - 1) / pack - (int64_t)blockIdx.y * threads;
    at.lanes = left < threads ? (int)left : threads;
    at.rows = threads / at.lanes;
    at.lane = (int)threadIdx.x % at.lanes;
    at.row = (int)threadIdx.x / at.lanes;
    at.column = ((int64_t)blockIdx.y * threads + at.lane) * pack;
    at.active = at.row < at.rows;
    return at;
}

/* Blocks in x that keep every multiprocessor full, but no more than `most`; and the slabs in y. */
template <typename F>
static dim3 hf_lanes_grid(const struct hf_cuda *cuda, F *kernel, int threads, int64_t packs,
                          int64_t most) {
    int each = 1;
    if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, threads, 0) != cudaSuccess)
        (void)cudaGetLastError();
    const int64_t slabs = (packs + threads - 1) / threads;
    int64_t blocks = (int64_t)(each > 0 ? each : 1) * cuda->sms / slabs;
    blocks = blocks < most ? blocks : most;
    return dim3((unsigned)(blocks > 0 ? blocks : 1), (unsigned)slabs);
}

/* Cost model of a kernel that reads `bytes` bytes once: a launch or three, then the memory of an
 * H200. */
static inline double hf_cuda_pass_ns(double bytes) { return 8000.0 + bytes / 3500.0; }

/* Finite values in the order of unsigned integers; 0 stands below all. */
static __device__ __forceinline__ hf_u64 hf_order_key(double v) {
    const long long bits = __double_as_longlong(v);
    return bits < 0 ? ~(hf_u64)bits : (hf_u64)bits | 1ull << 63;
}

static __device__ __forceinline__ double hf_order_value(hf_u64 key) {
    return __longlong_as_double((long long)(key >> 63 ? key & ~(1ull << 63) : ~key));
}

static __device__ __forceinline__ hf_u64 hf_warp_sum(hf_u64 v) {
    for (int step = 16; step > 0; step /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

/* The sum over a block of COUNT threads, for each of them; *before: over the threads in front. */
template <int COUNT> static __device__ hf_u64 hf_block_scan(hf_u64 v, hf_u64 *before) {
    __shared__ hf_u64 warps[COUNT / 32];
    const int lane = (int)threadIdx.x % 32;
    hf_u64 sum = v;
    for (int step = 1; step < 32; step *= 2) {
        const hf_u64 other = __shfl_up_sync(0xffffffffu, sum, step);
        sum += lane >= step ? other : 0;
    }
    __syncthreads(); /* the last call's sums have been read */
    if (lane == 31)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    hf_u64 all = 0, front = 0;
    for (int w = 0; w < COUNT / 32; w++) {
        front += w < (int)threadIdx.x / 32 ? warps[w] : 0;
        all += warps[w];
    }
    *before = front + sum - v;
    return all;
}

#endif
