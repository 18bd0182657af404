/* SPDX-License-Identifier: Apache-2.0
 * Centroids into tiles: shifted, scaled, rounded to 16 bits, swizzled, each with its bias; and what
 * the rounding cost. A block packs 32 centroids, a warp one; float64 throughout. */
#include "device/cuda/chain.cuh"
#include "device/cuda/pack.cuh"
#include "ops/assign/assign_mma.h"
#include <cuda_fp16.h>

enum { WARPS = FILTER_CHUNK };

struct pack_args {
    struct hf_filter_centroids c;
    struct filter_tile tile;
    uint8_t *tiles;
    struct filter_info *info;
    int *counters;
    double *biases; /* NULL, or [batch, chunks * FILTER_CHUNK]: left to shift_kernel */
    int n_counters, tiles_per_problem, infos_per_problem;
    double unit; /* of the bias pieces */
    bool wide;   /* eight columns of a centroid, and of the shift, lie as wide loads need them */
};

/* Sums over the columns of one centroid. */
struct pack_sums {
    double square; /* |c'|^2 */
    double error;  /* |c' - c16|^2 */
    double reach;  /* sum of (|c| + |shift|)^2, in units of x16 */
    double raw;    /* sum of c' (c + shift) */
};

static __device__ double pack_sum(double v) {
    for (int lane = 16; lane > 0; lane >>= 1)
        v += __shfl_xor_sync(~0u, v, lane);
    return v;
}

static __device__ double pack_load(const struct pack_args &a, int64_t i) {
    return a.c.f64 ? ((const double *)a.c.c)[i] : (double)((const float *)a.c.c)[i];
}

/* v rounded to f16, and its bits. */
static __device__ double pack_round(double v, uint16_t *bits) {
    const __half h = __double2half(v);
    *bits = __half_as_ushort(h);
    return (double)__half2float(h);
}

/* 1 / |c| for cosine, the scale for the rest. */
static __device__ double pack_factor(const struct pack_args &a, int64_t row) {
    if (a.c.metric != HF_COSINE)
        return a.c.raw ? 1.0 : a.c.scale;
    double sum = 0;
    for (int j = (int)(threadIdx.x & 31); j < a.c.d; j += 32) {
        const double v = pack_load(a, row * a.c.d + j);
        sum += v * v;
    }
    sum = pack_sum(sum);
    return sum > 0 ? 1 / sqrt(sum) : 0.0;
}

/* Eight columns of a centroid from element i on, that is from column j on, and of the shift; 0
 * behind d. All loads are on their way before one is waited for. */
static __device__ void pack_columns(const struct pack_args &a, int64_t i, int j, double (&c)[8],
                                    double (&shift)[8]) {
    if (a.wide) {
        struct hf_pack<HF_F32, 4> narrow[2] = {};
        struct hf_pack<HF_F64, 2> full[4] = {}, moved[4] = {};
        for (int p = 0; p < 2 && !a.c.f64; p++)
            narrow[p] = ((const struct hf_pack<HF_F32, 4> *)((const float *)a.c.c + i))[p];
        for (int p = 0; p < 4 && a.c.f64; p++)
            full[p] = ((const struct hf_pack<HF_F64, 2> *)((const double *)a.c.c + i))[p];
        for (int p = 0; p < 4 && a.c.shift; p++)
            moved[p] = ((const struct hf_pack<HF_F64, 2> *)(a.c.shift + j))[p];
#pragma unroll
        for (int p = 0; p < 8; p++) {
            c[p] = a.c.f64 ? full[p / 2].e[p % 2] : (double)narrow[p / 4].e[p % 4];
            shift[p] = moved[p / 2].e[p % 2];
        }
        return;
    }
#pragma unroll
    for (int p = 0; p < 8; p++) {
        c[p] = j + p < a.c.d ? pack_load(a, i + p) : 0.0;
        shift[p] = j + p < a.c.d && a.c.shift ? a.c.shift[j + p] : 0.0;
    }
}

/* The eight columns of piece `piece` of a centroid (row < 0: padding) into bits. */
static __device__ void pack_piece(const struct pack_args &a, int64_t row, int piece, double factor,
                                  uint16_t (&bits)[8], struct pack_sums *sums) {
    double c[8], shift[8];
    for (int i = 0; i < 8; i++)
        bits[i] = 0;
    if (row < 0 || piece * 8 >= a.c.d)
        return;
    pack_columns(a, row * a.c.d + piece * 8, piece * 8, c, shift);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        const double v = (c[i] - shift[i]) * factor;
        const double lost = v - pack_round(v, &bits[i]);
        const double reach = (fabs(c[i]) + fabs(shift[i])) * factor;
        sums->square += v * v;
        sums->error += lost * lost;
        sums->reach += reach * reach;
        sums->raw += v * (c[i] + shift[i]);
    }
}

/* The bias of place `slot` in a tile; -inf keeps padding from winning. */
static __device__ void pack_bias(const struct pack_args &a, uint8_t *tile, int slot, double bias) {
    uint8_t *const at = tile + (size_t)a.tile.nt * (size_t)a.tile.dp * 2;
    if (!a.c.mma && a.tile.dp == FILTER_TWICE_DP) {
        /* 8 columns: lane q has 2q, 2q + 1, once for each of its two rows. */
        float2 *const out = (float2 *)(at + slot / 8 * 64 + slot % 8 / 2 * 16);
        ((float *)out)[slot % 2] = ((float *)(out + 1))[slot % 2] = (float)bias;
        return;
    }
    if (!a.tile.bias_step) {
        /* 16 columns in the order of the lanes: lane q has columns 2q, 2q + 1, 2q + 8, 2q + 9. */
        const int in = slot % 16;
        const int place = slot / 16 * 16 + in % 8 / 2 * 4 + in / 8 * 2 + in % 2;
        ((float *)at)[place] = (float)bias;
        return;
    }
    __align__(16) uint16_t piece[16] = {0};
    double left = bias / a.unit;
    for (int i = 0; i < 3; i++) {
        const double part = pack_round(left, &piece[i]);
        left = isinf(part) ? 0.0 : left - part;
    }
    (void)pack_round(a.unit, &piece[3]); /* times what all biases move up by */
    uint4 *const out = (uint4 *)(at + slot / 8 * 256 + slot % 8 * 16);
    out[0] = *(const uint4 *)piece;
    out[8] = *(const uint4 *)(piece + 8);
}

static __global__ void __launch_bounds__(WARPS * 32) pack_kernel(const struct pack_args a) {
    __shared__ int most[4];
    hf_chain_wait();
    hf_chain_next();
    if (a.c.stop && *a.c.stop)
        return;
    const int64_t problem = blockIdx.x / a.infos_per_problem;
    const int chunk = (int)(blockIdx.x - problem * a.infos_per_problem);
    const int lane = (int)(threadIdx.x & 31), warp = (int)(threadIdx.x >> 5);
    const int j = chunk * FILTER_CHUNK + warp, slot = j % a.tile.nt;
    const int64_t row = j < a.c.k ? problem * a.c.k + j : -1;
    const int64_t thread = (int64_t)blockIdx.x * (WARPS * 32) + threadIdx.x;
    for (int64_t i = thread; i < a.c.zeros; i += (int64_t)gridDim.x * (WARPS * 32))
        a.c.zero[i] = 0;
    for (int64_t i = thread; i < a.n_counters; i += (int64_t)gridDim.x * (WARPS * 32))
        a.counters[i] = 0;
    if (threadIdx.x < 4)
        most[threadIdx.x] = 0;
    __syncthreads();
    uint8_t *const tile =
        a.tiles + (problem * a.tiles_per_problem + j / a.tile.nt) * (int64_t)a.tile.bytes;
    const int per_row = a.tile.swizzle / 16;
    const int flip = a.tile.swizzle == 128 ? slot & 7 : slot >> 1 & 3;
    const double factor = row < 0 ? 0.0 : pack_factor(a, row);
    struct pack_sums sums = {0, 0, 0, 0};
    for (int piece = lane; piece < a.tile.dp / 8; piece += 32) {
        __align__(16) uint16_t bits[8];
        pack_piece(a, row, piece, factor, bits, &sums);
        const int64_t slab = piece / per_row;
        *(uint4 *)(tile + slab * a.tile.nt * a.tile.swizzle + slot * a.tile.swizzle +
                   ((piece % per_row ^ flip) << 4)) = *(const uint4 *)bits;
    }
    sums.square = pack_sum(sums.square);
    sums.error = pack_sum(sums.error);
    sums.reach = pack_sum(sums.reach);
    sums.raw = pack_sum(sums.raw);
    if (lane == 0) {
        double bias = a.c.metric != HF_EUCLIDEAN ? 0.0 : a.c.raw ? -sums.raw / 2 : -sums.square / 2;
        if (row < 0)
            bias = -(double)INFINITY;
        if (a.biases)
            a.biases[problem * a.infos_per_problem * FILTER_CHUNK + j] = bias;
        else
            pack_bias(a, tile, slot, bias);
        /* 2^-51: c - shift and the factor are rounded too. The shares pay for these sums. */
        const double length = sqrt(sums.square), reach = sqrt(sums.reach);
        double rc = (sqrt(sums.error) + reach * 0x1p-51) * (1 + 0x1p-30);
        /* A bias that its pieces cannot hold (moved up, it may double), numbers that are none: the
         * filter then decides nothing. */
        const bool large = a.tile.bias_step && fabs(bias) > 32752.0 * a.unit;
        if (large || !(rc < (double)INFINITY))
            rc = (double)INFINITY;
        if (row >= 0) {
            atomicMax(&most[0], __float_as_int(__double2float_ru(rc)));
            atomicMax(&most[1], __float_as_int(__double2float_ru(length * (1 + 0x1p-30))));
            atomicMax(&most[2], __float_as_int(__double2float_ru(fabs(bias) * (1 + 0x1p-30))));
            atomicMax(&most[3], __float_as_int(__double2float_ru(reach * (1 + 0x1p-30))));
        }
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        struct filter_info *const info = a.info + problem * a.infos_per_problem + chunk;
        info->rc = __int_as_float(most[0]);
        info->cm = __int_as_float(most[1]);
        info->bias = __int_as_float(most[2]);
        info->far = __int_as_float(a.c.raw ? most[3] : most[1]);
    }
}

/* Biases moved up by the problem's largest: a block writes those of one chunk, a thread one. The
 * sum of a row's shifted scores is then no longer negative for all but odd cases. */
static __global__ void __launch_bounds__(FILTER_CHUNK) shift_kernel(const struct pack_args a) {
    hf_chain_wait();
    hf_chain_next();
    if (a.c.stop && *a.c.stop)
        return;
    const int64_t problem = blockIdx.x / a.infos_per_problem;
    const int chunk = (int)(blockIdx.x - problem * a.infos_per_problem);
    const int j = chunk * FILTER_CHUNK + (int)threadIdx.x;
    const struct filter_info *const info = a.info + problem * a.infos_per_problem;
    float most = 0;
    for (int i = (int)threadIdx.x; i < a.infos_per_problem; i += FILTER_CHUNK)
        most = fmaxf(most, info[i].bias);
    for (int lane = 16; lane > 0; lane >>= 1)
        most = fmaxf(most, __shfl_xor_sync(~0u, most, lane));
    uint8_t *const tile =
        a.tiles + (problem * a.tiles_per_problem + j / a.tile.nt) * (int64_t)a.tile.bytes;
    pack_bias(a, tile, j % a.tile.nt,
              a.biases[problem * a.infos_per_problem * FILTER_CHUNK + j] + most);
}

hf_status hf_filter_pack(struct hf_cuda *cuda, const struct hf_filter_centroids *centroids,
                         void *packed) {
    const struct hf_filter_centroids *c = centroids;
    const struct filter_memory m = c->mma ? hf_mma_memory(c->k, c->d, c->batch)
                                          : filter_memory_of(cuda->sms, c->k, c->d, c->batch);
    struct pack_args a = {};
    a.c = *c;
    a.c.zeros = c->zero ? c->zeros : 0;
    a.tile = c->mma ? hf_mma_tile(c->d) : filter_tile_of(c->d);
    a.tiles = (uint8_t *)packed;
    a.info = (struct filter_info *)(a.tiles + m.tiles);
    a.counters = (int *)(a.tiles + m.tiles + m.info + m.parts);
    a.n_counters = c->mma ? 0 : cuda->sms * FILTER_MAX_WG;
    a.tiles_per_problem = m.tiles_per_problem;
    a.infos_per_problem = m.infos_per_problem;
    a.unit = filter_bias_unit(c);
    const int64_t blocks = (int64_t)c->batch * m.infos_per_problem;
    if (m.biases > 0 && c->metric == HF_EUCLIDEAN)
        a.biases = (double *)(a.tiles + m.tiles + m.info + m.parts + m.counters);
    a.wide = c->d % 8 == 0 && (uintptr_t)c->c % 16 == 0 && (uintptr_t)c->shift % 16 == 0;
    const dim3 grid((unsigned)blocks);
    cudaError_t error = hf_chain_launch(cuda, pack_kernel, grid, WARPS * 32, 0, 1, a);
    if (error == cudaSuccess && a.biases)
        error = hf_chain_launch(cuda, shift_kernel, grid, FILTER_CHUNK, 0, 1, a);
    return hf_cuda_check(cuda, error, "filter_pack");
}
