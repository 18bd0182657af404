/* SPDX-License-Identifier: Apache-2.0
 * What blocks of threads of op march tell each other: numbers with their epochs in global memory,
 * and a board in shared memory between the workers of a block and its watcher. */
#ifndef HF_MARCH_BOARD_CUH
#define HF_MARCH_BOARD_CUH

#include "ops/march/march_job.cuh"

/* Does this block of threads begin without a block of the map? GUARDED: there are such. Kernels
 * come in two forms, because what takeovers need costs the others microseconds. */
static __device__ __forceinline__ bool is_spare(const struct march_job &job) {
    return GUARDED && blockIdx.x >= (unsigned)job.map.blocks;
}

/* The block of the map at which this block of threads is. */
static __device__ __forceinline__ int block_at(const struct board *board) {
    return GUARDED ? board->block : (int)blockIdx.x;
}

/* Shared memory of a block begins with the board and a number of each warp. */
static __device__ __forceinline__ struct board *board_here(void) {
    extern __shared__ __align__(16) double shared[];
    return (struct board *)shared;
}

static __device__ __forceinline__ double *partial_here(void) {
    return (double *)(board_here() + 1);
}

static __device__ __forceinline__ struct tag load_tag(const struct tag *p) {
    struct tag t;
    asm volatile("{.reg .b128 v; ld.relaxed.gpu.global.b128 v, [%2]; mov.b128 {%0, %1}, v;}"
                 : "=d"(t.value), "=l"(t.epoch)
                 : "l"(p)
                 : "memory");
    return t;
}

static __device__ __forceinline__ void store_tag(struct tag *p, double value, hf_u64 epoch) {
    asm volatile(
        "{.reg .b128 v; mov.b128 v, {%1, %2}; st.relaxed.gpu.global.b128 [%0], v;}" ::"l"(p),
        "d"(value), "l"(epoch)
        : "memory");
}

/* All workers, but not the watcher. */
static __device__ __forceinline__ void meet(int threads) {
    asm volatile("bar.sync 1, %0;" ::"r"(threads) : "memory");
}

/* The same bits in all threads of the warp. */
static __device__ __forceinline__ double warp_total(double v) {
    for (int step = 16; step > 0; step /= 2)
        v = __dadd_rn(v, __shfl_xor_sync(0xffffffffu, v, step));
    return v;
}

#define AT_ONCE 5 /* tags that a thread asks for at once: those of 160 blocks in one round */

/* The sum of what all blocks published for `epoch`, by a warp, which asks again until it has all of
 * it or `give_up` says that it need not. */
template <typename F>
static __device__ __forceinline__ double collect(const struct tag *from, int blocks, hf_u64 epoch,
                                                 const F &give_up) {
    double sum = 0;
    for (int base = (int)threadIdx.x % 32; base - (int)threadIdx.x % 32 < blocks;
         base += 32 * AT_ONCE) {
        struct tag seen[AT_ONCE];
        bool missing = true, over = false;
        while (missing && !over) {
            missing = false;
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++)
                if (base + 32 * u < blocks)
                    seen[u] = load_tag(from + base + 32 * u);
#pragma unroll
            for (int u = 0; u < AT_ONCE; u++)
                missing = missing || (base + 32 * u < blocks && seen[u].epoch != epoch);
            missing = __any_sync(0xffffffffu, missing);
            over = missing && give_up();
        }
#pragma unroll
        for (int u = 0; u < AT_ONCE; u++)
            sum = base + 32 * u < blocks ? __dadd_rn(sum, seen[u].value) : sum;
    }
    return warp_total(sum);
}

#endif
