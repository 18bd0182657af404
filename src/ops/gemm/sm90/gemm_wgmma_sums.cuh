/* SPDX-License-Identifier: Apache-2.0
 * What a block of gemm_wgmma.cuh does for the sums of rows and columns: those of C tile by tile, of
 * A and B with all others. */
#ifndef HF_GEMM_WGMMA_SUMS_CUH
#define HF_GEMM_WGMMA_SUMS_CUH

#include "ops/gemm/sm90/wgmma_sign.cuh"

static_assert(BESIDE_RING <= GEMM_CRC_WORDS * 4 && BESIDE_COLS == WG_COLS, "of sums beside");

/* May it sum rows and columns? With a fault on purpose, too, so that it can be proved. */
static __host__ __device__ constexpr bool wg_may_sum(enum gemm_mode mode) {
    return mode == GEMM_SUMMED || mode == GEMM_RELEASED;
}

/* Registers of those who do not multiply, and of those who do. */
static __host__ __device__ constexpr int wg_regs(enum gemm_mode mode) {
    return wg_may_sum(mode) ? 104 : 40;
}
static __host__ __device__ constexpr int wg_regs_multiply(enum gemm_mode mode) {
    return wg_may_sum(mode) ? 200 : 232;
}

/* A warp has stored its part of a tile, which others of the block may read now. */
static __device__ __forceinline__ void wg_stored(char *shared) {
    __threadfence_block();
    __syncwarp();
    if (threadIdx.x % 32 == 0)
        atomicAdd(&((struct gemm_beside_tiles *)(shared + WG_TILES))->stored, 1u);
}

/* Parts of a tile of C that a warp sums: those of a block's last tile are small, since nothing else
 * is left to do then. */
#define WG_PART 64
#define WG_LAST_PART 16

/* A part of this block's tiles that is there: this warp's now; else -1, or -2 if none is left. */
static __device__ __forceinline__ int wg_take_part(unsigned count,
                                                   struct gemm_beside_tiles *tiles) {
    constexpr unsigned EACH = WG_ROWS / WG_PART;
    const unsigned early = (count - 1) * EACH, parts = early + WG_ROWS / WG_LAST_PART;
    int taken = -1;
    if (threadIdx.x % 32 == 0) {
        const unsigned part = *(volatile unsigned *)&tiles->taken;
        const unsigned tile = part < early ? part / EACH : count - 1;
        if (part >= parts)
            taken = -2;
        else if (*(volatile unsigned *)&tiles->stored >= (tile + 1) * (WG_CONSUMERS / 32) &&
                 atomicCAS(&tiles->taken, part, part + 1) == part)
            taken = (int)part;
        __threadfence_block();
    }
    return __shfl_sync(0xffffffffu, taken, 0);
}

template <bool BF16>
static __device__ __forceinline__ void wg_sum_part(const struct gemm_job &job,
                                                   const struct gemm_beside &b, int part,
                                                   unsigned count, char *ring) {
    constexpr int EACH = WG_ROWS / WG_PART;
    const int early = ((int)count - 1) * EACH;
    const int tile = part < early ? part / EACH : (int)count - 1;
    const struct gemm_place place = gemm_place_of(job, blockIdx.x + (int64_t)tile * gridDim.x);
    const int rows = part < early ? WG_PART : WG_LAST_PART;
    const int row = place.row * WG_ROWS + (part < early ? part % EACH : part - early) * rows;
    if (row < job.m)
        beside_c<BF16>(job, b, row, place.col * WG_COLS, rows, ring);
}

/* Until all is summed, or others are at it. */
template <bool BF16>
static __device__ __forceinline__ void wg_sum(const struct gemm_job &job,
                                              const struct gemm_beside &b, unsigned tiles,
                                              char *shared, char *ring) {
    struct gemm_beside_tiles *const at = (struct gemm_beside_tiles *)(shared + WG_TILES);
    const unsigned count = (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x;
    const auto claim = [&]() { return threadIdx.x % 32 == 0 ? atomicAdd(b.next, 1u) : 0; };
    unsigned chunk = __shfl_sync(0xffffffffu, claim(), 0);
    for (;;) {
        const int part = b.c[0] != NULL && count > 0 ? wg_take_part(count, at) : -2;
        if (part >= 0) {
            wg_sum_part<BF16>(job, b, part, count, ring);
        } else if (chunk < b.chunks && beside_may(b, chunk)) {
            const unsigned next = claim(); /* comes meanwhile */
            beside_operands<BF16>(b, chunk, ring);
            chunk = __shfl_sync(0xffffffffu, next, 0);
        } else if (part == -1 || chunk < b.chunks) {
            __nanosleep(200);
        } else {
            return;
        }
    }
}

#endif
