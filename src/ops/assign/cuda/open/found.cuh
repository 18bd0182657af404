/* SPDX-License-Identifier: Apache-2.0
 * The second tier, for many rows at once: sum (x - c)^2 of tiles of rows and centroids (tile.cuh).
 * Its error is a share of the distance itself, however long the vectors are. What both of its
 * kernels share: neighbors.cu and tiles.cuh. */
#ifndef HF_ASSIGN_CUDA_OPEN_FOUND_CUH
#define HF_ASSIGN_CUDA_OPEN_FOUND_CUH

#include "core/array.h"
#include "device/cuda/chain.cuh"
#include "ops/assign/cuda/bounds.cuh"
#include "ops/assign/cuda/open/settle.h"
#include "ops/assign/cuda/open/tile.cuh"

struct tiles_job : hf_settle_job {
    bool aligned;
    double share, tiny; /* a sum is off by at most that share of itself, and by tiny */
};

/* What a thread knows of its row: the least sum and its centroid, and the least of the others. */
template <typename S> struct tile_found {
    S least, second;
    int32_t id;
};

template <typename S> __device__ __forceinline__ struct tile_found<S> tile_nothing(void) {
    return {static_cast<S>(INFINITY), static_cast<S>(INFINITY), 0};
}

template <typename S>
__device__ __forceinline__ void tile_join(struct tile_found<S> *a, const struct tile_found<S> &b) {
    a->second = fmin(fmin(a->second, b.second), fmax(a->least, b.least));
    a->id = b.least < a->least ? b.id : a->id;
    a->least = fmin(a->least, b.least);
}

/* Of one of this thread's rows and its centroids. What is not a number may be anything: -1. */
template <typename S>
__device__ __forceinline__ struct tile_found<S> tile_best(const struct tile_shared &sm,
                                                          const S (&sum)[TILE_BESIDE], int count) {
    struct tile_found<S> best = tile_nothing<S>();
#pragma unroll
    for (int i = 0; i < TILE_BESIDE; i++) {
        const int at = tile_lane() + TILE_LANES * i;
        const S its = sum[i] >= 0 ? sum[i] : -1;
        const S most = static_cast<S>(INFINITY);
        tile_join(&best, {at < count ? its : most, most, sm.arg[at]});
    }
    return best;
}

template <typename S>
__device__ __forceinline__ struct tile_found<S> tile_pass(const struct tile_found<S> &v, int step) {
    return {__shfl_xor_sync(~0u, v.least, step), __shfl_xor_sync(~0u, v.second, step),
            __shfl_xor_sync(~0u, v.id, step)};
}

/* All lanes: of all centroids of the tile and the row that this thread answers for. Of two lanes
 * each keeps half of the rows. */
template <typename S>
__device__ __forceinline__ struct tile_found<S>
tile_fold(const struct tile_shared &sm, const S (&sum)[TILE_EACH][TILE_BESIDE], int count) {
    static_assert(TILE_EACH == TILE_LANES, "a row for each lane");
    struct tile_found<S> best[TILE_EACH];
#pragma unroll
    for (int r = 0; r < TILE_EACH; r++)
        best[r] = tile_best(sm, sum[r], count);
#pragma unroll
    for (int half = TILE_EACH / 2; half > 0; half /= 2)
#pragma unroll
        for (int r = 0; r < half; r++) {
            const bool upper = tile_lane() & half;
            const struct tile_found<S> low = best[r], high = best[r + half];
            best[r] = upper ? high : low;
            tile_join(&best[r], tile_pass(upper ? low : high, half));
        }
    return best[0];
}

/* The sum of centroid 0 of the tile and the row that this thread answers for. */
template <typename S>
__device__ __forceinline__ S tile_first_sum(const S (&sum)[TILE_EACH][TILE_BESIDE]) {
    S mine = 0;
#pragma unroll
    for (int r = 0; r < TILE_EACH; r++) {
        const S v =
            __shfl_sync(~0u, sum[r][0], static_cast<int>(threadIdx.x) % 32 & ~(TILE_LANES - 1));
        mine = tile_lane() == r ? v : mine;
    }
    return mine;
}

template <typename S> inline constexpr S tile_end = static_cast<S>(sizeof(S) == 8 ? 1e300 : 1e36);

/* At least the distance whose square a sum is; Inf near the end of the range. */
template <typename S>
__device__ __forceinline__ double tile_reach(const struct tiles_job &job, S sum) {
    const double square = static_cast<double>(sum) * (1 + job.share) + job.tiny;
    return sum >= 0 && sum < tile_end<S> ? sqrt(square) * (1 + 0x1p-18) : INFINITY;
}

/* Is the centroid of the least sum strictly nearer than all others that were looked at? */
template <typename S>
__device__ __forceinline__ bool tile_decides(const struct tiles_job &job,
                                             const struct tile_found<S> &f) {
    const S share = static_cast<S>(job.share), tiny = static_cast<S>(job.tiny);
    return f.least >= 0 && f.least < tile_end<S> &&
           f.second * (1 - share) - tiny > f.least * (1 + share) + tiny;
}

/* All lanes; `left`: append this thread's row to a list. */
__device__ __forceinline__ void leave_row(bool left, int32_t row, float threshold, int32_t *rows,
                                          float *thresholds, int32_t *count) {
    const unsigned who = __ballot_sync(~0u, left);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    if (who == 0)
        return;
    int at = 0;
    if (lane == 0)
        at = atomicAdd(count, __popc(who));
    at = __shfl_sync(~0u, at, 0) + __popc(who & ((1u << lane) - 1));
    if (!left)
        return;
    rows[at] = row;
    if (thresholds)
        thresholds[at] = threshold;
}

template <hf_dtype X, hf_dtype C>
__device__ __forceinline__ struct tile_source source_of(const struct tiles_job &job, int64_t b) {
    const int64_t x_bytes = job.stride * hf_device_bytes<X>, c_bytes = job.d * hf_device_bytes<C>;
    return {static_cast<const char *>(job.x) + b * job.n * x_bytes,
            static_cast<const char *>(job.c) + b * job.k * c_bytes,
            x_bytes,
            c_bytes,
            static_cast<int>(job.d),
            job.aligned};
}

/* ---- host */

static inline struct tiles_job tiles_job_of(const struct hf_assign_rows *rows,
                                            const struct hf_assign_step *step,
                                            const struct hf_settle *s) {
    struct tiles_job job = {};
    static_cast<struct hf_settle_job &>(job) = hf_settle_job_of(rows, step, s);
    return job;
}

/* The type of centroids that tiles of rows of type X are made for: that of fits. */
template <hf_dtype X> inline constexpr hf_dtype tile_center = X == HF_F64 ? HF_F64 : HF_F32;

/* Have the centroids that type? */
static inline bool tiles_serve(const struct hf_assign_problem *p) {
    return p->metric == HF_EUCLIDEAN && p->x.cols <= HF_TILES_D &&
           (p->c_type == HF_F64) == (p->x.dtype == HF_F64);
}

/* How rows and centroids are read, and what sums of them are off by. */
template <hf_dtype X, hf_dtype C> static void tile_errors(struct tiles_job *job) {
    job->aligned = tile_aligned<X, C>(job->x, job->stride * hf_device_bytes<X>, job->c, job->d);
    job->share = tile_share<X, C>(job->d);
    job->tiny = tile_tiny<X, C>(job->d);
}

#endif
