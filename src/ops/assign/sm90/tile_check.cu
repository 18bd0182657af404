/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/assign/cuda/tile_check.cuh"

enum { SUM_THREADS = 128 };

static int parts_of(int k, int d) {
    const struct filter_tile tile = hf_mma_tile(d);
    return (k + tile.nt - 1) / tile.nt * (tile.nt / TILE_SIDE);
}

size_t hf_tile_check_bytes(int k, int d) {
    return (size_t)parts_of(k, d) * (size_t)(2 * hf_mma_tile(d).dp + TILE_NOTES) * sizeof(float);
}

/* ---- the centroids */

struct sums_args {
    const uint8_t *tiles;
    const struct filter_fact *facts;
    float *sums;
    struct filter_tile tile;
    const int32_t *stop;
};

/* The value of a column of place `slot`, as pack_kernel lays it out. */
static __device__ __forceinline__ float packed_value(const struct filter_tile &t,
                                                     const uint8_t *tile, int slot, int column) {
    const int flip = t.swizzle == 128 ? slot & 7 : slot >> 1 & 3;
    const int width = t.swizzle / 2, in = column % width;
    const int at = column / width * t.nt * t.swizzle + slot * t.swizzle + ((in / 8 ^ flip) << 4) +
                   column % 8 * 2;
    return filter_widen<false>(*(const uint16_t *)(tile + at));
}

static __device__ __forceinline__ float packed_bias(const struct filter_tile &t,
                                                    const uint8_t *tile, int slot) {
    const int place = slot / 16 * 16 + slot % 8 / 2 * 4 + slot % 16 / 8 * 2 + slot % 2;
    return ((const float *)(tile + t.nt * t.dp * 2))[place];
}

/* A block for 32 centroids. */
static __global__ void __launch_bounds__(SUM_THREADS) sums_kernel(const struct sums_args a) {
    __shared__ unsigned mask;
    if (a.stop && *a.stop)
        return;
    const struct filter_tile &t = a.tile;
    const int number = (int)blockIdx.x, each = t.nt / TILE_SIDE, first = number % each * TILE_SIDE;
    const uint8_t *const tile = a.tiles + (int64_t)(number / each) * t.bytes;
    float *const sums = a.sums + (int64_t)number * (2 * t.dp + TILE_NOTES);
    if (threadIdx.x < TILE_SIDE) {
        const int lane = (int)threadIdx.x;
        const float bias = packed_bias(t, tile, first + lane);
        const bool in = fabsf(bias) < INFINITY;
        const unsigned all = __ballot_sync(~0u, in);
        const float start = tile_total(in ? bias : 0.0f);
        const float placed = tile_total(in ? (float)(lane + 1) * bias : 0.0f);
        float longest = in ? a.facts[(int64_t)number * TILE_SIDE + lane].length : 0.0f;
#pragma unroll
        for (int other = 16; other > 0; other >>= 1)
            longest = fmaxf(longest, __shfl_xor_sync(~0u, longest, other));
        if (lane == 0) {
            mask = all;
            sums[2 * t.dp + TILE_START] = start;
            sums[2 * t.dp + TILE_PLACED] = placed;
            sums[2 * t.dp + TILE_MASK] = __uint_as_float(all);
            sums[2 * t.dp + TILE_LONGEST] = longest;
        }
    }
    __syncthreads();
    for (int column = (int)threadIdx.x; column < t.dp; column += SUM_THREADS) {
        float plain = 0, placed = 0;
        for (int slot = 0; slot < TILE_SIDE; slot++) {
            if ((mask >> slot & 1) == 0)
                continue;
            const float v = packed_value(t, tile, first + slot, column);
            plain += v;
            placed = fmaf((float)(slot + 1), v, placed);
        }
        sums[column] = plain;
        sums[t.dp + column] = placed;
    }
}

hf_status hf_tile_check_sums(struct hf_cuda *cuda, const struct hf_filter_centroids *c,
                             const void *packed, const struct hf_tile_check *check) {
    struct filter_args described = {};
    mma_describe(&described, c, packed);
    const struct sums_args a = {described.tiles, described.facts, check->sums, hf_mma_tile(c->d),
                                c->stop};
    sums_kernel<<<(unsigned)parts_of(c->k, c->d), SUM_THREADS, 0, cuda->stream>>>(a);
    return hf_cuda_launched(cuda, "sums of packed centroids");
}

/* ---- the scores */

template <class S>
static __global__ void __launch_bounds__(MMA_THREADS, 1)
    checked_kernel(const __grid_constant__ filter_args a,
                   const __grid_constant__ hf_tile_check check) {
    extern __shared__ __align__(1024) uint8_t memory[];
    tile_watch<true, false> watch = {};
    watch.check = check;
    mma_all<S, false>(a, FILTER_TOP2, memory, watch);
}

template <int DP>
static cudaError_t launch(struct hf_cuda *cuda, const struct filter_args &a,
                          const struct hf_tile_check &check) {
    typedef struct mma_shape<DP> S;
    const size_t shared = (size_t)S::SHARED + MMA_WARPS * 2 * DP * sizeof(float);
    const cudaError_t error = cudaFuncSetAttribute(
        checked_kernel<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)shared);
    if (error != cudaSuccess)
        return error;
    checked_kernel<S><<<(unsigned)cuda->sms, MMA_THREADS, shared, cuda->stream>>>(a, check);
    return cudaGetLastError();
}

static cudaError_t launch_any(struct hf_cuda *cuda, const struct filter_args &a, int dp,
                              const struct hf_tile_check &check) {
    switch (dp) {
    case 32:
        return launch<32>(cuda, a, check);
    case 64:
        return launch<64>(cuda, a, check);
    case 128:
        return launch<128>(cuda, a, check);
    case 192:
        return launch<192>(cuda, a, check);
    default:
        return launch<256>(cuda, a, check);
    }
}

hf_status hf_tile_check_top2(struct hf_cuda *cuda, const struct hf_filter_call *call,
                             const struct hf_filter_out *out, const struct hf_tile_check *check) {
    const struct hf_filter_rows *rows = &call->rows;
    struct filter_args a = {};
    if (rows->norm == NULL || rows->bf16 || rows->list != NULL || rows->d > HF_TILE_CHECK_D)
        return hf_cuda_check(cuda, cudaErrorNotSupported, "checksums of tiles of these rows");
    a.rows = *rows;
    a.limit = rows->n;
    a.out = *out;
    mma_describe(&a, &call->centroids, call->packed);
    return hf_cuda_check(cuda, launch_any(cuda, a, hf_mma_tile(rows->d).dp, *check),
                         "filter with checksums of tiles");
}
