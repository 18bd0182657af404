/* SPDX-License-Identifier: Apache-2.0
 * Reference distances of the pairs of a row and a candidate that the filter of greedy left open. */
#ifndef HF_GREEDY_SETTLE_CUH
#define HF_GREEDY_SETTLE_CUH

#include "ops/chains.cuh"
#include "ops/greedy/greedy_filter.cuh"

/* A lane's share of some columns of both vectors of the pairs of its warp. */
template <int C> struct greedy_slice { double v[2][GREEDY_PAIRS][greedy_exact<C> / GREEDY_WARP]; };

/* Columns [from, from + cols), all loads under way at once. */
template <hf_dtype T, int C>
static __device__ __forceinline__ void load_as(const struct greedy_job &job,
                                               const int64_t (&row)[2][GREEDY_PAIRS], int64_t from,
                                               int cols, struct greedy_slice<C> *slice) {
    constexpr int EACH = greedy_exact<C> / GREEDY_WARP;
    const int lane = (int)threadIdx.x % GREEDY_WARP;
#pragma unroll
    for (int side = 0; side < 2; side++)
#pragma unroll
        for (int p = 0; p < GREEDY_PAIRS; p++)
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const int at = e * GREEDY_WARP + lane;
                slice->v[side][p][e] =
                    at < cols ? hf_device_load<T>(job.x + row[side][p] * job.row_bytes, from + at)
                              : 0;
            }
}

template <int C>
static __device__ __forceinline__ void load_slice(const struct greedy_job &job,
                                                  const int64_t (&row)[2][GREEDY_PAIRS],
                                                  int64_t from, struct greedy_slice<C> *slice) {
    const int cols = (int)min(job.d - from, (int64_t)greedy_exact<C>);
    switch (job.dtype) {
    case HF_F64:
        return load_as<HF_F64, C>(job, row, from, cols, slice);
    case HF_F16:
        return load_as<HF_F16, C>(job, row, from, cols, slice);
    case HF_BF16:
        return load_as<HF_BF16, C>(job, row, from, cols, slice);
    case HF_U8:
        return load_as<HF_U8, C>(job, row, from, cols, slice);
    default:
        return load_as<HF_F32, C>(job, row, from, cols, slice);
    }
}

/* Into the warp's part of shared memory. */
template <int C>
static __device__ __forceinline__ void put_slice(const struct greedy_slice<C> &slice,
                                                 struct greedy_shared<C> &sh) {
    const int warp = (int)threadIdx.x / GREEDY_WARP, lane = (int)threadIdx.x % GREEDY_WARP;
    __syncwarp();
#pragma unroll
    for (int side = 0; side < 2; side++)
#pragma unroll
        for (int p = 0; p < GREEDY_PAIRS; p++)
#pragma unroll
            for (int e = 0; e < greedy_exact<C> / GREEDY_WARP; e++)
                sh.exact[warp][side][p][e * GREEDY_WARP + lane] = slice.v[side][p][e];
    __syncwarp();
}

/* Reference distances of pairs [from, from + GREEDY_PAIRS) of the queue, in this warp. The warp
 * brings columns of both vectors into shared memory, and the next ones while a lane a pair (and,
 * for the cosine, a lane for each of the squares) adds them up in order. */
template <int C, bool COSINE>
static __device__ double exact_pairs(const struct greedy_job &job, int64_t first, unsigned from,
                                     struct greedy_shared<C> &sh) {
    const int warp = (int)threadIdx.x / GREEDY_WARP, lane = (int)threadIdx.x % GREEDY_WARP;
    const int pairs = (int)min(sh.queued - from, (unsigned)GREEDY_PAIRS);
    const int pair = lane % GREEDY_PAIRS, kind = lane / GREEDY_PAIRS; /* product, squares of x, c */
    double sum = 0;
    int64_t row[2][GREEDY_PAIRS];
#pragma unroll
    for (int p = 0; p < GREEDY_PAIRS; p++) {
        const int entry = sh.queue[p < pairs ? from + p : from];
        row[0][p] = first + entry / C;
        row[1][p] = sh.drawn[entry % C];
    }
    struct greedy_slice<C> slice;
    load_slice<C>(job, row, 0, &slice);
    for (int64_t j = 0; j < job.d; j += greedy_exact<C>) {
        const int cols = (int)min(job.d - j, (int64_t)greedy_exact<C>);
        put_slice<C>(slice, sh);
        if (j + greedy_exact<C> < job.d)
            load_slice<C>(job, row, j + greedy_exact<C>, &slice);
        const double *a = sh.exact[warp][COSINE && kind == 2][pair];
        const double *b = sh.exact[warp][COSINE ? kind != 1 : 1][pair];
        if (kind > (COSINE ? 2 : 0))
            continue;
#pragma unroll 16
        for (int e = 0; e < cols; e++) {
            const double diff = COSINE ? a[e] : __dsub_rn(a[e], b[e]);
            sum = __dadd_rn(sum, __dmul_rn(diff, COSINE ? b[e] : diff));
        }
    }
    if (!COSINE)
        return sum;
    const double xx = __shfl_sync(0xffffffffu, sum, pair + GREEDY_PAIRS);
    const double cc = __shfl_sync(0xffffffffu, sum, pair + 2 * GREEDY_PAIRS);
    const double v = hf_cosine_end(sum, xx, cc);
    return v < 0 ? 0 : v;
}

/* The pairs that the filter left open, onto mask, found and gain. */
template <int C, bool COSINE>
static __device__ void settle_pass(const struct greedy_job &job, const struct greedy_run &run,
                                   int64_t first, struct greedy_shared<C> &sh) {
    const int warp = (int)threadIdx.x / GREEDY_WARP, lane = (int)threadIdx.x % GREEDY_WARP;
    double *const found = job.found[run.steps % 2];
    for (unsigned from = warp * GREEDY_PAIRS; from < sh.queued;
         from += GREEDY_WARPS * GREEDY_PAIRS) {
        const double v = exact_pairs<C, COSINE>(job, first, from, sh);
        if (lane >= GREEDY_PAIRS || from + lane >= sh.queued)
            continue;
        const int at = sh.queue[from + lane] / C, l = sh.queue[from + lane] % C;
        const int64_t i = first + at;
        const double nearest = sh.nearest[at];
        if (!(v < nearest))
            continue;
        __stcg(&found[l * job.n + i], v);
        atomicOr(&sh.mask[at], 1u << l);
        atomicAdd(&sh.gain[l][at / GREEDY_CHUNK],
                  greedy_quantum(job, run.unit, i, nearest) - greedy_quantum(job, run.unit, i, v));
    }
    __syncthreads();
}

#endif
