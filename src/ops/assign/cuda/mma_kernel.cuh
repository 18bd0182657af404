/* SPDX-License-Identifier: Apache-2.0
 * The filter by mma.sync for d up to 256. Each of 8 warps keeps 32 rows in registers while the
 * tiles of centroids go by, three stages in shared memory; scores of 32 x 32 at a time. The warps
 * of a scheduler are enough to have one multiply while another compares. */
#ifndef HF_ASSIGN_MMA_KERNEL_CUH
#define HF_ASSIGN_MMA_KERNEL_CUH

#include "ops/assign/cuda/mma_rows.cuh"

template <int DP_> struct mma_shape {
    static constexpr int DP = DP_;
    static constexpr int NT = DP <= 128 ? 128 : 64;
    static constexpr int SWIZZLE = DP % 64 ? 64 : 128;
    static constexpr int SLAB = SWIZZLE / 2; /* columns */
    static constexpr int TILE = NT * (DP * 2 + 4);
    static constexpr int STAGES = 3;
    static constexpr int BLOCKS = DP <= 64 ? 2 : 1; /* of a multiprocessor */
    static constexpr int OPENS = STAGES * TILE;
    static constexpr int SHARED = OPENS + MMA_WARPS * FILTER_WARP_OPEN * 8;
};

template <class S>
static __device__ __forceinline__ void mma_fetch_tile(const struct filter_args &a, uint32_t stage,
                                                      int problem, int t) {
    const uint8_t *const tile =
        a.tiles + ((int64_t)problem * a.tiles_per_problem + t) * (int64_t)S::TILE;
    for (int at = (int)threadIdx.x * 16; at < S::TILE; at += MMA_THREADS * 16)
        mma_copy(stage + (uint32_t)at, tile + at, 16);
}

/* The A operand of 16 rows from row i on. */
template <class S>
static __device__ __forceinline__ void mma_fetch_rows(const struct filter_args &a, int problem,
                                                      int i, uint32_t (&r)[S::DP / 16][4]) {
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const int row = mma_row(a, problem, i + 8 * half);
        const uint16_t *x = (const uint16_t *)a.rows.x16 + (problem * a.rows.n + row) * a.rows.ld;
#pragma unroll
        for (int k = 0; k < S::DP / 8; k++) {
            const int column = k * 8 + 2 * (int)(threadIdx.x & 3);
            uint32_t v = 0;
            if (row >= 0 && column < a.rows.d)
                v = *(const uint32_t *)(x + column);
            if (column + 1 == a.rows.d)
                v &= 0xFFFF;
            r[k / 2][half + 2 * (k % 2)] = v;
        }
    }
}

/* Scores of this warp's 32 rows and the 32 centroids from place `first` of a tile on. */
template <class S>
static __device__ __forceinline__ void
mma_scores(uint32_t stage, int first, const uint32_t (&rows)[2][S::DP / 16][4], float (&d)[2][16]) {
    const int lane = (int)(threadIdx.x & 31);
    const int slot = first + lane / 16 * 8 + lane % 8;
    const int flip = S::SWIZZLE == 128 ? slot & 7 : slot >> 1 & 3;
    const uint32_t at = stage + (uint32_t)(slot * S::SWIZZLE + ((lane / 8 % 2 ^ flip) << 4));
    const uint32_t bias = stage + (uint32_t)(S::NT * S::DP * 2 + first * 4);
    filter_begin_bias<32, false>(d[0], bias);
    filter_begin_bias<32, false>(d[1], bias);
#pragma unroll
    for (int k = 0; k < S::DP / 16; k++) {
        uint32_t b[2][4];
        const uint32_t here = (at ^ (uint32_t)(k * 16 % S::SLAB * 2)) +
                              (uint32_t)(k * 16 / S::SLAB * S::NT * S::SWIZZLE);
        hf_ldmatrix(b[0], here);
        hf_ldmatrix(b[1], here + 16 * S::SWIZZLE);
#pragma unroll
        for (int j = 0; j < 4; j++)
#pragma unroll
            for (int m = 0; m < 2; m++)
                mma_step(d[m] + 4 * j, rows[m][k], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
    }
}

/* Scores of a warp: of the rows from place `first` of the problem on, and 32 centroids: part `part`
 * of the tile at `tile` in shared memory, number `number` of the problem. */
struct mma_part {
    int first, part, number;
    uint32_t tile;
};

/* Nobody looks at the scores. Another argument in its place does: cuda/tile_check.cuh. */
struct mma_unwatched {};

template <class S>
static __device__ __forceinline__ void
mma_watch_begin(const struct filter_args &, int, int, const uint8_t *,
                const uint32_t (&)[2][S::DP / 16][4], struct mma_unwatched *) {}

template <class S>
static __device__ __forceinline__ void mma_watch_tile(const struct mma_part &,
                                                      const uint32_t (&)[2][S::DP / 16][4],
                                                      struct mma_unwatched *, float (&)[2][16]) {}

static __device__ __forceinline__ void mma_watch_end(const struct mma_unwatched &) {}

/* What a block has from unit to unit. */
struct mma_block {
    const uint8_t *memory; /* shared */
    struct filter_view bounds;
    struct filter_open_rows opens;
};

/* One unit: rows, all its tiles, the end. */
template <class S, bool EMIT, class W>
static __device__ __forceinline__ void mma_unit(const struct filter_args &a,
                                                const struct mma_work &w, int mode,
                                                struct mma_block *block, W *watch) {
    const uint32_t base = hf_shared(block->memory);
    const struct filter_view &bounds = block->bounds;
    const int lane = (int)(threadIdx.x & 31), warp = (int)threadIdx.x / 32;
    const int first = w.unit * MMA_ROWS + warp * 32 + lane / 4;
    uint32_t rows[2][S::DP / 16][4];
    float threshold[2][2];
    struct filter_track<2> track[2];
    __syncthreads(); /* nobody reads the last unit's tiles any more */
#pragma unroll
    for (int i = 0; i < S::STAGES - 1; i++) {
        if (w.t0 + i < w.t1)
            mma_fetch_tile<S>(a, base + (uint32_t)(i * S::TILE), w.problem, w.t0 + i);
        mma_commit();
    }
#pragma unroll
    for (int m = 0; m < 2; m++) {
        mma_fetch_rows<S>(a, w.problem, first + m * 16, rows[m]);
        filter_track_begin(&track[m]);
        for (int r = 0; r < 2 && EMIT; r++)
            threshold[m][r] = filter_know<FILTER_EMIT>(a, w.problem, first + m * 16 + r * 8).norm;
    }
    mma_watch_begin<S>(a, w.problem, first, block->memory, rows, watch);
    int stage = 0;
    for (int t = w.t0; t < w.t1; t++) {
        mma_wait<S::STAGES - 2>();
        __syncthreads();
        if (t + S::STAGES - 1 < w.t1) {
            const int free = stage == 0 ? S::STAGES - 1 : stage - 1;
            mma_fetch_tile<S>(a, base + (uint32_t)(free * S::TILE), w.problem, t + S::STAGES - 1);
        }
        mma_commit();
        const uint32_t tile = base + (uint32_t)(stage * S::TILE);
#pragma unroll 1
        for (int part = 0; part < S::NT / 32; part++) {
            float d[2][16];
            mma_scores<S>(tile, part * 32, rows, d);
            const int number = t * (S::NT / 32) + part;
            mma_watch_tile<S>({w.unit * MMA_ROWS + warp * 32, part, number, tile}, rows, watch, d);
#pragma unroll
            for (int m = 0; m < 2; m++)
                if constexpr (EMIT)
                    filter_list<32, true>(
                        a, d[m], number,
                        {w.problem, first + m * 16, {threshold[m][0], threshold[m][1]}}, bounds);
                else
                    filter_keep<32, FILTER_TOP2, 2>(d[m], number, a.minus_zero, &track[m]);
        }
        stage = stage + 1 == S::STAGES ? 0 : stage + 1;
    }
    if constexpr (!EMIT)
#pragma unroll
        for (int m = 0; m < 2; m++)
#pragma unroll
            for (int r = 0; r < 2; r++)
                mma_finish(a, mode, {w.problem, first + m * 16 + r * 8}, bounds, &block->opens,
                           filter_gather<FILTER_TOP2>(track[m], r));
}

template <class S, bool EMIT, class W>
static __device__ __forceinline__ void mma_all(const struct filter_args &a, int mode,
                                               const uint8_t *memory, W watch) {
    if (a.rows.stop && *a.rows.stop)
        return;
    const uint32_t at =
        hf_shared(memory) + (uint32_t)(S::OPENS + threadIdx.x / 32 * FILTER_WARP_OPEN * 8);
    struct mma_block block = {memory, {}, {at, 0}};
    struct mma_work w = mma_first();
    int problem = -1;
    while (mma_next(a, &w)) {
        if (!EMIT && problem != w.problem)
            filter_open_flush(a, problem, &block.opens);
        if (problem != w.problem)
            block.bounds = filter_view_of(a.bounds + w.problem);
        problem = w.problem;
        mma_unit<S, EMIT>(a, w, mode, &block, &watch);
    }
    if (!EMIT)
        filter_open_flush(a, problem, &block.opens);
    mma_watch_end(watch);
}

template <class S, bool EMIT>
__global__ void __launch_bounds__(MMA_THREADS, S::BLOCKS)
    hf_mma_kernel(const __grid_constant__ filter_args a, const int mode) {
    extern __shared__ __align__(1024) uint8_t memory[];
    mma_all<S, EMIT>(a, mode, memory, mma_unwatched{});
}

#endif
