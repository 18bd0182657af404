/* SPDX-License-Identifier: Apache-2.0
 * Centroids into tiles: shifted, scaled, rounded to 16 bits, swizzled, each with its bias; and what
 * the rounding cost. A block packs 32 centroids, a warp one; float64 throughout. */
#include "device/cuda/chain.cuh"
#include "device/cuda/pack.cuh"
#include "ops/assign/cuda/filter_rows.cuh"
#include "ops/assign/cuda/mma.h"
#include <cuda_fp16.h>

enum { WARPS = FILTER_CHUNK, BOUND_THREADS = 256 };

struct pack_args {
    struct hf_filter_centroids c;
    struct filter_tile tile;
    uint8_t *tiles;
    struct filter_info *info;
    struct filter_bounds *bounds;
    struct filter_fact *facts;
    int *counters;
    double *biases; /* NULL, or [batch, chunks * FILTER_CHUNK]: left to shift_kernel */
    int n_counters, tiles_per_problem, infos_per_problem;
    struct filter_units units;
    struct filter_args filter; /* what moves biases up */
    bool wide; /* eight columns of a centroid, and of the shift, lie as wide loads need them */
};

/* Sums over the columns of one centroid. */
struct pack_sums {
    double square; /* |c'|^2 */
    double error;  /* |c' - c16|^2 */
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
        sums->square += v * v;
        sums->error += lost * lost;
    }
}

/* v rounded up to f16. */
static __device__ uint16_t pack_up(float v) { return __half_as_ushort(__float2half_ru(v)); }

/* The bias of place `slot` in a tile; -inf keeps padding from winning. */
static __device__ void pack_bias(const struct pack_args &a, uint8_t *tile, int slot, double bias,
                                 const struct filter_fact &fact) {
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
    double left = bias;
    for (int i = 0; i < 3; i++) {
        const double part = pack_round(left / a.units.unit[i], &piece[i]);
        left = isinf(part) ? 0.0 : left - part * a.units.unit[i];
    }
    (void)pack_round(a.units.unit[0], &piece[3]); /* times what all biases move up by */
    const float up = 1 + 0x1p-8f, square = fact.length * fact.length, acc = a.filter.acc;
    const float most = fact.length + fact.rc + FILTER_LEAST;
    piece[4] = pack_up((fact.rc + acc * most) * up);
    piece[5] = pack_up(fact.length * up);
    piece[6] = pack_up(
        (acc * (FILTER_LEAST * most + a.filter.half * square) + 2 * a.filter.slack * square) *
        (up / (FILTER_KEY * a.units.unit[0])));
    uint4 *const out = (uint4 *)(at + slot / 8 * 256 + slot % 8 * 16);
    out[0] = *(const uint4 *)piece;
    out[8] = *(const uint4 *)(piece + 8);
}

/* What the warps of a block measured: bits of floats that are not negative. */
struct pack_shared {
    int least, lost;
    int rc[FILTER_LEVELS + 1], length[FILTER_LEVELS + 1];
};

/* The place of piece `piece` of a centroid in its tile. */
static __device__ uint4 *pack_place(const struct pack_args &a, uint8_t *tile, int slot, int piece) {
    const int per_row = a.tile.swizzle / 16;
    const int flip = a.tile.swizzle == 128 ? slot & 7 : slot >> 1 & 3;
    return (uint4 *)(tile + (int64_t)(piece / per_row) * a.tile.nt * a.tile.swizzle +
                     slot * a.tile.swizzle + ((piece % per_row ^ flip) << 4));
}

/* What is known of a centroid whose sums are these; false: 16 bits do not hold it, or a number in
 * it is none. 2^-51: c - shift and the factor are rounded too. The shares pay for these sums. */
static __device__ bool pack_measure(const struct pack_args &a, const struct pack_sums &sums,
                                    struct filter_fact *fact) {
    const double length = sqrt(sums.square) * (1 + 0x1p-30);
    const double rc = (sqrt(sums.error) + length * 0x1p-51) * (1 + 0x1p-30);
    const double most = sqrt(2 * FILTER_BIAS_MOST * a.units.unit[0]);
    fact->rc = __double2float_ru(rc);
    fact->length = __double2float_ru(length);
    const bool fits = !a.tile.bias_step || length <= FILTER_LENGTH_MOST;
    return rc < (double)INFINITY && fits && (a.c.metric != HF_EUCLIDEAN || length <= most);
}

/* Add it to what the block knows. */
static __device__ void pack_note(const struct pack_args &a, bool held,
                                 const struct filter_fact &fact, struct pack_shared *most) {
    /* NaN comes to 0: a centroid that may be anywhere; Inf says that there is none */
    const float low = fact.length >= 0 ? fminf(fact.length * (1 - 0x1p-20f), FLT_MAX) : 0;
    if (!held) {
        atomicMin(&most->lost, __float_as_int(low));
        return;
    }
    const int level = filter_level(a.filter.inverse, fact.length);
    atomicMin(&most->least, __float_as_int(fact.length));
    atomicMax(&most->rc[level], __float_as_int(fact.rc));
    atomicMax(&most->length[level], __float_as_int(fact.length));
}

/* One lane, with the sums of centroid j of a problem: its bias, and what is known of it. Returns
 * whether 16 bits hold it. */
static __device__ bool pack_end(const struct pack_args &a, int64_t problem, int j, uint8_t *tile,
                                const struct pack_sums &sums, struct pack_shared *most) {
    const int64_t at = problem * a.infos_per_problem * FILTER_CHUNK + j;
    struct filter_fact fact = {0, 0};
    bool held = false;
    if (j < a.c.k) {
        held = pack_measure(a, sums, &fact);
        pack_note(a, held, fact, most);
    }
    double bias = a.c.metric == HF_EUCLIDEAN ? -sums.square / 2 : 0;
    if (!held) {
        fact = {0, 0};
        bias = -(double)INFINITY;
    }
    if (a.facts)
        a.facts[at] = fact;
    if (a.biases)
        a.biases[at] = bias;
    else
        pack_bias(a, tile, j % a.tile.nt, bias, fact);
    return held || j >= a.c.k;
}

static __global__ void __launch_bounds__(WARPS * 32) pack_kernel(const struct pack_args a) {
    __shared__ struct pack_shared most;
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
    if (threadIdx.x <= FILTER_LEVELS)
        most.rc[threadIdx.x] = most.length[threadIdx.x] = 0;
    if (threadIdx.x == 0)
        most.least = most.lost = __float_as_int(INFINITY);
    __syncthreads();
    uint8_t *const tile =
        a.tiles + (problem * a.tiles_per_problem + j / a.tile.nt) * (int64_t)a.tile.bytes;
    const double factor = row < 0 ? 0.0 : pack_factor(a, row);
    struct pack_sums sums = {0, 0};
    for (int piece = lane; piece < a.tile.dp / 8; piece += 32) {
        __align__(16) uint16_t bits[8];
        pack_piece(a, row, piece, factor, bits, &sums);
        *pack_place(a, tile, slot, piece) = *(const uint4 *)bits;
    }
    sums.square = pack_sum(sums.square);
    sums.error = pack_sum(sums.error);
    bool held = true;
    if (lane == 0)
        held = pack_end(a, problem, j, tile, sums, &most);
    if (!__shfl_sync(~0u, (int)held, 0)) /* it becomes padding */
        for (int piece = lane; piece < a.tile.dp / 8; piece += 32)
            *pack_place(a, tile, slot, piece) = make_uint4(0, 0, 0, 0);
    __syncthreads();
    struct filter_info *const info = a.info + problem * a.infos_per_problem + chunk;
    if (threadIdx.x <= FILTER_LEVELS)
        info->most[threadIdx.x] = {__int_as_float(most.rc[threadIdx.x]),
                                   __int_as_float(most.length[threadIdx.x])};
    if (threadIdx.x == 0) {
        info->least = __int_as_float(most.least);
        info->lost = __int_as_float(most.lost);
    }
}

/* A block to a problem: what its infos come to; a lane to a level. */
static __global__ void __launch_bounds__(BOUND_THREADS) bounds_kernel(const struct pack_args a) {
    __shared__ struct filter_info part[BOUND_THREADS / 32];
    hf_chain_wait();
    hf_chain_next();
    if (a.c.stop && *a.c.stop)
        return;
    const int64_t problem = blockIdx.x;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int level = lane <= FILTER_LEVELS ? lane : 0;
    struct filter_info all = filter_no_info();
    struct filter_fact most = {0, 0};
    for (int i = warp; i < a.infos_per_problem; i += BOUND_THREADS / 32) {
        const struct filter_info *const info = a.info + problem * a.infos_per_problem + i;
        all.least = fminf(all.least, info->least);
        all.lost = fminf(all.lost, info->lost);
        most.rc = fmaxf(most.rc, info->most[level].rc);
        most.length = fmaxf(most.length, info->most[level].length);
    }
    if (lane <= FILTER_LEVELS)
        part[warp].most[lane] = most;
    if (lane == 0) {
        part[warp].least = all.least;
        part[warp].lost = all.lost;
    }
    __syncthreads();
    if (warp > 0)
        return;
    for (int w = 1; w < BOUND_THREADS / 32; w++) {
        all.least = fminf(all.least, part[w].least);
        all.lost = fminf(all.lost, part[w].lost);
        most.rc = fmaxf(most.rc, part[w].most[level].rc);
        most.length = fmaxf(most.length, part[w].most[level].length);
    }
    for (int step = 1; step < 32; step *= 2) { /* those of the levels below count, too */
        const float rc = __shfl_up_sync(~0u, most.rc, step);
        const float length = __shfl_up_sync(~0u, most.length, step);
        most.rc = lane >= step ? fmaxf(most.rc, rc) : most.rc;
        most.length = lane >= step ? fmaxf(most.length, length) : most.length;
    }
    struct filter_bounds *const bounds = a.bounds + problem;
    const float cm = __shfl_sync(~0u, most.length, FILTER_LEVELS);
    if (lane <= FILTER_LEVELS)
        bounds->most[lane] = most;
    if (lane == 0)
        filter_bounds_from(a.filter, all.least, all.lost, cm, bounds);
}

/* Biases moved up (see filter_bounds_from()): a block writes those of one chunk, a thread one. */
static __global__ void __launch_bounds__(FILTER_CHUNK) shift_kernel(const struct pack_args a) {
    hf_chain_wait();
    hf_chain_next();
    if (a.c.stop && *a.c.stop)
        return;
    const int64_t problem = blockIdx.x / a.infos_per_problem;
    const int chunk = (int)(blockIdx.x - problem * a.infos_per_problem);
    const int j = chunk * FILTER_CHUNK + (int)threadIdx.x;
    const float up = a.bounds[problem].up;
    uint8_t *const tile =
        a.tiles + (problem * a.tiles_per_problem + j / a.tile.nt) * (int64_t)a.tile.bytes;
    pack_bias(a, tile, j % a.tile.nt,
              a.biases[problem * a.infos_per_problem * FILTER_CHUNK + j] + up, {0, 0});
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
    a.bounds = (struct filter_bounds *)(a.tiles + m.tiles + m.info);
    a.facts = (struct filter_fact *)(a.tiles + m.tiles + m.info + m.bounds);
    uint8_t *const scratch = a.tiles + m.tiles + m.info + m.bounds + m.facts;
    a.counters = (int *)(scratch + m.parts);
    a.n_counters = c->mma ? 0 : cuda->sms * FILTER_MAX_WG;
    a.tiles_per_problem = m.tiles_per_problem;
    a.infos_per_problem = m.infos_per_problem;
    a.units = filter_units_of(c);
    filter_describe(&a.filter, c);
    a.filter.acc = filter_share(c->d);
    a.filter.shifted = !c->mma && filter_shifts(c->k, c->d) && c->metric == HF_EUCLIDEAN;
    const int64_t blocks = (int64_t)c->batch * m.infos_per_problem;
    if (m.biases > 0 && c->metric == HF_EUCLIDEAN)
        a.biases = (double *)(scratch + m.parts + m.counters);
    a.wide = c->d % 8 == 0 && (uintptr_t)c->c % 16 == 0 && (uintptr_t)c->shift % 16 == 0;
    const dim3 grid((unsigned)blocks);
    cudaError_t error = hf_chain_launch(cuda, pack_kernel, grid, WARPS * 32, 0, 1, a);
    if (error == cudaSuccess)
        error =
            hf_chain_launch(cuda, bounds_kernel, dim3((unsigned)c->batch), BOUND_THREADS, 0, 1, a);
    if (error == cudaSuccess && a.biases)
        error = hf_chain_launch(cuda, shift_kernel, grid, FILTER_CHUNK, 0, 1, a);
    return hf_cuda_check(cuda, error, "filter_pack");
}
