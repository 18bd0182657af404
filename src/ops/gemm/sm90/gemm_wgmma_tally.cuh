/* SPDX-License-Identifier: Apache-2.0
 * Sums of rows and columns beside a product: three warps of each block, which multiply nothing,
 * read A, B and, tile by tile, C. A and B are read twice: what the second pass weighs their
 * elements by are sums of the first pass. Memory has time for it while products are computed. */
#ifndef HF_GEMM_WGMMA_TALLY_CUH
#define HF_GEMM_WGMMA_TALLY_CUH

#include "ops/gemm/cuda/sums_band.cuh"
#include "ops/gemm/sm90/gemm_wgmma.cuh"

#define WG_TALLY_ROWS 4 /* loaded at once */
#define WG_TALLY_REGS 104
#define WG_TALLY_RAISED 200
static_assert(2 * WG_TALLY_RAISED + WG_TALLY_REGS <= 3 * WG_REGS, "or a block waits for ever");

template <bool BF16> struct wg_element { typedef sums_bf16 type; };
template <> struct wg_element<false> { typedef sums_f16 type; };

/* What a lane has of its columns joins all others. */
template <typename U>
static __device__ __forceinline__ void wg_add_columns(const struct hf_sums_pass &p, int64_t first,
                                                      const lane_sums<U> &own) {
#pragma unroll
    for (int i = 0; i < SUMS_EACH; i++)
        if (first + i < p.cols) {
            atomicAdd(&p.col[first + i], (double)own.col[i]);
            atomicAdd(&p.col_size[first + i], (double)own.col_size[i]);
        }
}

/* A band of a pass over A or B. */
struct wg_band {
    int pass; /* GEMM_TALLY_PASSES: there is none */
    int64_t first, begin, end;
};

static __device__ __forceinline__ struct wg_band wg_band_of(const struct gemm_tally &tally,
                                                            unsigned item) {
    struct wg_band band = {};
    while (band.pass < GEMM_TALLY_PASSES && item >= tally.pass[band.pass].items)
        item -= tally.pass[band.pass++].items;
    if (band.pass == GEMM_TALLY_PASSES)
        return band;
    const struct hf_sums_pass &p = tally.pass[band.pass].p;
    const unsigned across = (unsigned)((p.cols + SUMS_COLS - 1) / SUMS_COLS);
    band.first = (int64_t)(item % across) * SUMS_COLS + (int)threadIdx.x % 32 * SUMS_EACH;
    band.begin = (int64_t)(item / across) * SUMS_BAND;
    band.end = min(band.begin + SUMS_BAND, p.rows);
    return band;
}

/* The next band that nobody has taken, whose rows are on their way to the second-level cache: a
 * warp takes it while it works on the one before, since few loads are in flight at once. */
template <typename T>
static __device__ __forceinline__ unsigned wg_take(const struct gemm_tally &tally) {
    unsigned item = threadIdx.x % 32 == 0 ? atomicAdd(tally.next, 1) : 0;
    item = __shfl_sync(0xffffffffu, item, 0);
    const struct wg_band band = wg_band_of(tally, item);
    if (band.pass == GEMM_TALLY_PASSES)
        return item;
    const struct hf_sums_pass &p = tally.pass[band.pass].p;
    const T *at = (const T *)p.m.data + band.begin * p.m.row + band.first;
    for (int64_t row = band.begin; row < band.end && band.first < p.cols; row++, at += p.m.row)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(at));
    return item;
}

/* A band that was taken; false: there was none. The second passes wait for the first ones, whose
 * bands are all in the hands of running warps by then. */
template <typename T>
static __device__ __forceinline__ bool wg_tally_band(const struct gemm_tally &tally,
                                                     unsigned item) {
    const struct wg_band band = wg_band_of(tally, item);
    if (band.pass == GEMM_TALLY_PASSES)
        return false;
    const struct gemm_tally_pass &pass = tally.pass[band.pass];
    const struct hf_sums_pass &p = pass.p;
    const bool second = band.pass >= GEMM_TALLY_PASSES / 2;
    if (second) {
        const unsigned all = tally.pass[0].items + tally.pass[1].items;
        while (*(volatile unsigned *)tally.done < all)
            __nanosleep(100);
        __threadfence();
    }
    lane_sums<float> own = {};
    if (p.row != NULL) {
        sums_band<T, true, false, WG_TALLY_ROWS>(p, pass.wide, band.first, band.begin, band.end,
                                                 own);
    } else {
        sums_band<T, false, true, WG_TALLY_ROWS>(p, pass.wide, band.first, band.begin, band.end,
                                                 own);
        wg_add_columns(p, band.first, own);
    }
    if (!second) {
        __threadfence();
        __syncwarp();
        if (threadIdx.x % 32 == 0)
            atomicAdd(tally.done, 1);
    }
    return true;
}

/* Rows [begin, begin + rows) of a tile of C. */
template <typename T, int R>
static __device__ __forceinline__ void wg_tally_c(const struct gemm_tally_pass &pass, int64_t begin,
                                                  int rows, int64_t col) {
    const int64_t first = col + (int)threadIdx.x % 32 * SUMS_EACH;
    lane_sums<float> own = {};
    sums_band<T, true, true, R>(pass.p, pass.wide, first, begin, min(begin + rows, pass.p.rows),
                                own);
    wg_add_columns(pass.p, first, own);
}

template <bool BF16>
static __device__ __forceinline__ void
wg_tally_tile(const struct gemm_tally &tally, const struct gemm_place &place, int from, int rows) {
    const int64_t begin = (int64_t)place.row * WG_ROWS + from, col = (int64_t)place.col * WG_COLS;
    if (tally.c.p.m.dtype == HF_F32)
        wg_tally_c<float, 2>(tally.c, begin, rows, col);
    else
        wg_tally_c<typename wg_element<BF16>::type, WG_TALLY_ROWS>(tally.c, begin, rows, col);
}

#define WG_TILE_BANDS (WG_ROWS / SUMS_BAND)
#define WG_BAND_WARPS (SUMS_BAND / 16) /* that store a band */
#define WG_TALLIERS (WG_SIGNERS / 32)

/* The three warps: what is there of C first. The last tile of a block is left to those who
 * multiply, who have nothing else to do by then. */
template <bool BF16>
static __device__ __forceinline__ void
wg_tally(const struct gemm_job &job, const struct gemm_tally &tally, unsigned tiles, char *shared) {
    typedef typename wg_element<BF16>::type element;
    const unsigned own = (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x;
    const unsigned bands = (own - 1) * WG_TILE_BANDS;
    unsigned band = threadIdx.x / 32 - WG_CONSUMERS / 32 - 1;
    unsigned taken = wg_take<element>(tally);
    bool more = true;
    while (more || band < bands) {
        const unsigned tile = blockIdx.x + band / WG_TILE_BANDS * gridDim.x;
        const int in = (int)(band % WG_TILE_BANDS);
        if (band < bands) {
            const volatile int *const stored = wg_stored(shared) + in * WG_BAND_WARPS;
            bool there = true;
#pragma unroll
            for (int w = 0; w < WG_BAND_WARPS; w++)
                there = there && stored[w] > (int)tile;
            __threadfence_block();
            if (__all_sync(0xffffffffu, there)) {
                wg_tally_tile<BF16>(tally, gemm_place_of(job, job.first_tile + tile),
                                    in * SUMS_BAND, SUMS_BAND);
                band += WG_TALLIERS;
                continue;
            }
        }
        if (more) {
            const unsigned item = taken;
            taken = wg_take<element>(tally);
            more = wg_tally_band<element>(tally, item);
        } else {
            __nanosleep(200);
        }
    }
}

template <bool BF16, int TURN_A, int TURN_B>
static __global__ void __launch_bounds__(WG_THREADS, 1)
    wgmma_tally_kernel(const __grid_constant__ CUtensorMap map_a,
                       const __grid_constant__ CUtensorMap map_b,
                       const __grid_constant__ struct gemm_job job,
                       const __grid_constant__ struct gemm_tally tally, unsigned tiles) {
    extern __shared__ char wg_shared[];
    uint32_t base;
    char *const shared = wg_begin<WG_TALLY>(wg_shared, &base);
    __syncthreads();
    if (threadIdx.x >= WG_CONSUMERS) {
        hf_regs_lower<WG_TALLY_REGS>();
        if (threadIdx.x == WG_CONSUMERS)
            wg_produce<TURN_A, TURN_B>(job, tiles, &map_a, &map_b, base);
        else if (threadIdx.x >= WG_CONSUMERS + 32)
            wg_tally<BF16>(job, tally, tiles, shared);
    } else {
        hf_regs_raise<WG_TALLY_RAISED>();
        wg_consume<BF16, TURN_A, TURN_B, WG_TALLY>(job, tiles, shared, base);
        const unsigned last = blockIdx.x + (tiles - 1 - blockIdx.x) / gridDim.x * gridDim.x;
        wg_tally_tile<BF16>(tally, gemm_place_of(job, job.first_tile + last),
                            (int)threadIdx.x / 32 * 16, 16);
    }
}

#endif
