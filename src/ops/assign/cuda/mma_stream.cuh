/* SPDX-License-Identifier: Apache-2.0
 * The filter by mma.sync for larger d: rows and centroids both come by in slabs of 64 columns. A
 * block looks at 256 rows and 128 centroids, each of its 8 warps at 64 x 64 of them. */
#ifndef HF_ASSIGN_MMA_STREAM_CUH
#define HF_ASSIGN_MMA_STREAM_CUH

#include "ops/assign/cuda/mma_rows.cuh"

template <int STAGES_> struct mma_stream_shape {
    static constexpr int STAGES = STAGES_, NT = 128;
    static constexpr int ROWS = MMA_ROWS * 128; /* bytes of a slab of rows */
    static constexpr int SLAB = NT * 128;       /* of centroids */
    static constexpr int STAGE = ROWS + SLAB + NT * 4;
    static constexpr int OPENS = STAGES * STAGE;
    static constexpr int SHARED = OPENS + MMA_WARPS * FILTER_WARP_OPEN * 8;
};

/* Where a unit's copies have got to. */
struct mma_stream_ahead {
    int t, c, stage;
};

/* Slab c of tile t, with the tile's biases in its last stage, and of the rows. */
template <class S>
static __device__ __forceinline__ void mma_stream_fetch(const struct filter_args &a, uint32_t base,
                                                        const struct mma_work &w, int slabs,
                                                        struct mma_stream_ahead *p) {
    if (p->t < w.t1) {
        const uint32_t stage = base + (uint32_t)(p->stage * S::STAGE);
        const uint8_t *const tile =
            a.tiles + ((int64_t)w.problem * a.tiles_per_problem + p->t) * (int64_t)a.tile_bytes;
        const int piece = (int)threadIdx.x % 8, column = p->c * FILTER_STREAM_DP + piece * 8;
        const int bytes = min(max(2 * (a.rows.d - column), 0), 16);
#pragma unroll
        for (int i = 0; i < MMA_ROWS / 32; i++) {
            const int at = (int)threadIdx.x / 8 + i * 32;
            const int row = mma_row(a, w.problem, w.unit * MMA_ROWS + at);
            const uint16_t *x =
                (const uint16_t *)a.rows.x16 + (w.problem * a.rows.n + row) * a.rows.ld;
            const bool valid = row >= 0 && bytes > 0;
            mma_copy(stage + (uint32_t)(at * 128 + ((piece ^ (at & 7)) << 4)),
                     valid ? (const void *)(x + column) : (const void *)tile, valid ? bytes : 0);
        }
        for (int at = (int)threadIdx.x * 16; at < S::SLAB; at += MMA_THREADS * 16)
            mma_copy(stage + (uint32_t)(S::ROWS + at), tile + (int64_t)p->c * S::SLAB + at, 16);
        if (p->c == slabs - 1 && threadIdx.x < S::NT / 4)
            mma_copy(stage + (uint32_t)(S::ROWS + S::SLAB + threadIdx.x * 16),
                     tile + (int64_t)slabs * S::SLAB + threadIdx.x * 16, 16);
        p->stage = p->stage + 1 == S::STAGES ? 0 : p->stage + 1;
        if (++p->c == slabs) {
            p->c = 0;
            p->t++;
        }
    }
    mma_commit();
}

/* One slab's share of this warp's 64 x 64 scores. */
template <class S>
static __device__ __forceinline__ void mma_stream_multiply(uint32_t stage, float (&d)[4][32]) {
    const int lane = (int)(threadIdx.x & 31), warp = (int)threadIdx.x / 32;
    const int row = warp / 2 * 64 + lane % 16, slot = warp % 2 * 64 + lane / 16 * 8 + lane % 8;
    const uint32_t at_a = stage + (uint32_t)(row * 128 + ((lane / 16 ^ (row & 7)) << 4));
    const uint32_t at_b =
        stage + (uint32_t)(S::ROWS + slot * 128 + ((lane / 8 % 2 ^ (slot & 7)) << 4));
#pragma unroll
    for (int k = 0; k < 4; k++) {
        uint32_t b[4][4];
#pragma unroll
        for (int j = 0; j < 4; j++)
            hf_ldmatrix(b[j], (at_b ^ (uint32_t)(k * 32)) + j * 16 * 128);
#pragma unroll
        for (int m = 0; m < 4; m++) {
            uint32_t x[4];
            hf_ldmatrix(x, (at_a ^ (uint32_t)(k * 32)) + m * 16 * 128);
#pragma unroll
            for (int j = 0; j < 8; j++)
                mma_step(d[m] + 4 * j, x, b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]);
        }
    }
}

/* What a block has in shared memory: stages, and, in their place at a unit's end, what warps hand
 * each other of its rows; the warp's open rows. */
struct mma_stream_memory {
    uint32_t base;
    float4 *parts;
    struct filter_open_rows opens;
};

/* The two warps that looked at the same rows bring their best together; the first one finishes. */
static __device__ __forceinline__ void mma_stream_finish(const struct filter_args &a,
                                                         const struct mma_work &w, int mode,
                                                         struct mma_stream_memory *memory,
                                                         const struct filter_view &bounds,
                                                         const struct filter_track<2> (&track)[4]) {
    const int lane = (int)(threadIdx.x & 31), warp = (int)threadIdx.x / 32;
    const int first = warp / 2 * 64 + lane / 4;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const struct filter_found f = filter_gather<FILTER_TOP2>(track[i / 2], i % 2);
        if (warp % 2 != 0 && lane % 4 == 0)
            memory->parts[first + i * 8] = filter_part(f);
    }
    __syncthreads();
    if (warp % 2 != 0)
        return;
#pragma unroll
    for (int i = 0; i < 8; i++) {
        struct filter_found f = filter_gather<FILTER_TOP2>(track[i / 2], i % 2);
        filter_join_part(&f, memory->parts[first + i * 8]);
        mma_finish(a, mode, {w.problem, w.unit * MMA_ROWS + first + i * 8}, bounds, &memory->opens,
                   f);
    }
}

template <class S, bool EMIT>
static __device__ __forceinline__ void
mma_stream_unit(const struct filter_args &a, const struct mma_work &w, int mode,
                struct mma_stream_memory *memory, const struct filter_view &bounds) {
    const uint32_t base = memory->base;
    const int slabs = (a.rows.d + FILTER_STREAM_DP - 1) / FILTER_STREAM_DP;
    const int lane = (int)(threadIdx.x & 31), warp = (int)threadIdx.x / 32;
    const int first = w.unit * MMA_ROWS + warp / 2 * 64 + lane / 4;
    struct mma_stream_ahead ahead = {w.t0, 0, 0};
    struct filter_track<2> track[4];
    for (int m = 0; m < 4; m++)
        filter_track_begin(&track[m]);
    __syncthreads(); /* nobody needs the last unit's memory any more */
    for (int i = 0; i < S::STAGES - 1; i++)
        mma_stream_fetch<S>(a, base, w, slabs, &ahead);
    int stage = 0;
    for (int t = w.t0; t < w.t1; t++) {
        float d[4][32];
#pragma unroll
        for (int m = 0; m < 4; m++)
#pragma unroll
            for (int i = 0; i < 32; i++)
                d[m][i] = 0;
        uint32_t now = 0;
        for (int c = 0; c < slabs; c++) {
            mma_wait<S::STAGES - 2>();
            __syncthreads();
            mma_stream_fetch<S>(a, base, w, slabs, &ahead);
            now = base + (uint32_t)(stage * S::STAGE);
            mma_stream_multiply<S>(now, d);
            stage = stage + 1 == S::STAGES ? 0 : stage + 1;
        }
        const int number = t * 2 + warp % 2;
#pragma unroll
        for (int m = 0; m < 4; m++) {
            filter_add_bias<64>(d[m], now + (uint32_t)(S::ROWS + S::SLAB + warp % 2 * 64 * 4));
            if constexpr (EMIT) {
                const int i = first + m * 16;
                const struct filter_open_pair rows = {
                    w.problem,
                    i,
                    {filter_know<FILTER_EMIT>(a, w.problem, i).norm,
                     filter_know<FILTER_EMIT>(a, w.problem, i + 8).norm}};
                filter_list<64, true>(a, d[m], number, rows, bounds);
            } else {
                filter_keep<64, FILTER_TOP2, 2>(d[m], number, a.minus_zero, &track[m]);
            }
        }
    }
    if constexpr (!EMIT) {
        mma_wait<0>();
        __syncthreads(); /* parts lie where slabs did */
        mma_stream_finish(a, w, mode, memory, bounds, track);
    }
}

template <class S, bool EMIT>
__global__ void __launch_bounds__(MMA_THREADS, 1)
    hf_mma_stream_kernel(const __grid_constant__ filter_args a, const int mode) {
    extern __shared__ __align__(1024) uint8_t memory[];
    if (a.rows.stop && *a.rows.stop)
        return;
    const uint32_t base = hf_shared(memory);
    const uint32_t at = base + (uint32_t)(S::OPENS + threadIdx.x / 32 * FILTER_WARP_OPEN * 8);
    struct mma_stream_memory shared = {base, (float4 *)memory, {at, 0}};
    struct filter_view bounds = {};
    struct mma_work w = mma_first();
    int problem = -1;
    while (mma_next(a, &w)) {
        if (!EMIT && problem != w.problem)
            filter_open_flush(a, problem, &shared.opens);
        if (problem != w.problem)
            bounds = filter_view_of(a.bounds + w.problem);
        problem = w.problem;
        mma_stream_unit<S, EMIT>(a, w, mode, &shared, bounds);
    }
    if (!EMIT)
        filter_open_flush(a, problem, &shared.opens);
}

#endif
