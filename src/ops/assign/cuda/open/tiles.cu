/* SPDX-License-Identifier: Apache-2.0
 * The second tier, for many rows at once: sum (x - c)^2 of tiles of rows and centroids (tile.cuh).
 * Its error is a share of the distance itself, however long the vectors are. Rows with the same
 * label a, which any may have, meet the centroids nearest to a, until by the triangle inequality
 * none beyond can be nearer: |x - c_j| >= |c_j - c_a| - |x - c_a|. Other rows meet all. Rows that
 * this cannot decide are left to others. */
#include "core/array.h"
#include "device/cuda/chain.cuh"
#include "ops/assign/cuda/bounds.cuh"
#include "ops/assign/cuda/open/settle.h"
#include "ops/assign/cuda/open/tile.cuh"

#define LEAST_LISTED 4096 /* rows that meet all centroids; fewer are spread better in float64 */

struct tiles_job : hf_settle_job {
    bool aligned;
    double share, tiny;          /* a sum is off by at most that share of itself, and by tiny */
    const int32_t *list, *count; /* of those that meet all: [batch, n] and [batch] */
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

/* ---- rows and the neighbours of their labels */

/* Rows of one label. */
struct near_tile {
    int label, first, count;
};

/* All lanes: the label whose tiles have number t among them. */
__device__ static struct near_tile find_tile(const struct tiles_job &job, int t) {
    const struct hf_neighbors &neighbors = job.s.neighbors;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int label = 0;
    for (int size = static_cast<int>(job.k); size > 1;) {
        const int step = (size + 31) / 32, at = lane * step;
        const unsigned before = __ballot_sync(~0u, at < size && neighbors.tile[label + at] <= t);
        const int last = 31 - __clz(static_cast<int>(before));
        label += last * step;
        size = min(step, size - last * step);
    }
    const int begin = label > 0 ? neighbors.place[label - 1] : 0, end = neighbors.place[label];
    const int first = begin + (t - neighbors.tile[label]) * TILE_ROWS;
    return {label, first, min(TILE_ROWS, end - first)};
}

/* Bounds of a row that is decided. beyond: all that were not looked at are at least so far away. */
template <typename S>
__device__ static void put_bounds(const struct tiles_job &job, int64_t row,
                                  const struct tile_found<S> &f, double beyond) {
    const double second = static_cast<double>(f.second) * (1 - job.share) - job.tiny;
    job.s.bounds.upper[row] =
        hf_bounds_up(sqrt(static_cast<double>(f.least) * (1 + job.share) + job.tiny));
    job.s.bounds.lower[row] = hf_bounds_down(fmin(sqrt(fmax(second, 0.0)), beyond));
}

/* A tile. Neighbours come TILE_K at a time; a row is done when the next are too far away for it,
 * and given up when so are not all that are listed. */
template <hf_dtype X, hf_dtype C>
__device__ __forceinline__ void near_rows(const struct tiles_job &job, struct tile_shared &sm,
                                          const struct near_tile &tile, bool bounded) {
    typedef tile_sum<X, C> S;
    const struct hf_neighbors &neighbors = job.s.neighbors;
    const int thread = static_cast<int>(threadIdx.x);
    const uint16_t *const list = neighbors.list + static_cast<int64_t>(tile.label) * HF_NEIGHBORS;
    const double *const edge =
        neighbors.edge + static_cast<int64_t>(tile.label) * (HF_NEIGHBORS_STEPS + 1);
    const int listed = static_cast<int>(job.k < HF_NEIGHBORS ? job.k : HF_NEIGHBORS);
    const struct tile_source source = source_of<X, C>(job, 0);
    sm.row[thread] = neighbors.row[tile.first + min(thread, tile.count - 1)];
    const bool valid = tile_own() < tile.count;
    struct tile_found<S> found = tile_nothing<S>();
    double own = 0, beyond = 0; /* at least how far its label's centroid, at most how far others */
    bool done = false, wants = valid;
    for (int first = 0; __syncthreads_or(wants && first < listed); first += TILE_K) {
        if (thread < TILE_K)
            sm.arg[thread] = list[min(first + thread, listed - 1)];
        __syncthreads();
        S sum[TILE_EACH][TILE_BESIDE];
        tile_sums<X, C>(source, sm, sum);
        const struct tile_found<S> these = tile_fold(sm, sum, listed - first);
        const S to_label = tile_first_sum(sum);
        if (!wants) /* what is found out about a row does not depend on the rows beside it */
            continue;
        tile_join(&found, these);
        if (first == 0)
            own = tile_reach(job, to_label);
        const double reach = own + tile_reach(job, found.least), next = edge[first / TILE_K + 1];
        done = next > reach;
        wants = !done && edge[HF_NEIGHBORS_STEPS] > reach;
        beyond = next - own;
    }
    const int32_t row = sm.row[tile_own()];
    const bool decided = valid && done && tile_decides(job, found), left = valid && !decided;
    if (decided)
        job.labels[row] = found.id;
    if (decided && bounded)
        put_bounds(job, row, found, beyond);
    const float threshold = left ? neighbors.threshold[tile.first + tile_own()] : 0;
    leave_row(left, row, threshold, job.s.open.row, job.s.open.threshold, job.s.left_count);
}

template <hf_dtype X, hf_dtype C>
static __global__ void __launch_bounds__(TILE_THREADS, TILE_BLOCKS)
    compare_neighbors(const struct tiles_job job) {
    __shared__ struct tile_shared sm;
    hf_chain_wait();
    hf_chain_next();
    if (job.stop && *job.stop)
        return;
    const bool bounded = hf_bounds_wanted(job.s.bounds);
    const int tiles = job.s.neighbors.tile[job.k];
    for (int t = static_cast<int>(blockIdx.x); t < tiles; t += static_cast<int>(gridDim.x)) {
        const struct near_tile tile = find_tile(job, t);
        __syncthreads(); /* all are done with the last one's rows */
        near_rows<X, C>(job, sm, tile, bounded);
    }
}

/* ---- rows and all centroids */

template <hf_dtype X, hf_dtype C>
__device__ __forceinline__ void listed_rows(const struct tiles_job &job, struct tile_shared &sm,
                                            int64_t b, int64_t begin, int count) {
    typedef tile_sum<X, C> S;
    const int thread = static_cast<int>(threadIdx.x), k = static_cast<int>(job.k);
    const struct tile_source source = source_of<X, C>(job, b);
    sm.row[thread] = job.list[b * job.n + begin + min(thread, count - 1)];
    struct tile_found<S> found = tile_nothing<S>();
    for (int first = 0; first < k; first += TILE_K) {
        if (thread < TILE_K)
            sm.arg[thread] = min(first + thread, k - 1);
        __syncthreads();
        S sum[TILE_EACH][TILE_BESIDE];
        tile_sums<X, C>(source, sm, sum);
        tile_join(&found, tile_fold(sm, sum, k - first));
        __syncthreads();
    }
    const int32_t row = sm.row[tile_own()];
    const bool valid = tile_own() < count, decided = valid && tile_decides(job, found);
    if (decided)
        job.labels[b * job.n + row] = found.id;
    leave_row(valid && !decided, row, 0, job.s.open.row + b * job.s.open.cap, NULL,
              job.s.last_count + b);
}

template <hf_dtype X, hf_dtype C>
static __global__ void __launch_bounds__(TILE_THREADS, TILE_BLOCKS)
    compare_listed(const struct tiles_job job) {
    __shared__ struct tile_shared sm;
    hf_chain_wait();
    hf_chain_next();
    if (job.stop && *job.stop)
        return;
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y) {
        const int64_t count = job.count[b], thread = threadIdx.x;
        for (int64_t at = blockIdx.x * TILE_ROWS; at < count; at += gridDim.x * TILE_ROWS) {
            const int rows = static_cast<int>(min(count - at, static_cast<int64_t>(TILE_ROWS)));
            __syncthreads(); /* all are done with the last tile's rows */
            if (count >= LEAST_LISTED)
                listed_rows<X, C>(job, sm, b, at, rows);
            else if (thread < rows)
                job.s.open.row[b * job.s.open.cap + at + thread] =
                    job.list[b * job.n + at + thread];
        }
        if (blockIdx.x == 0 && thread == 0 && count < LEAST_LISTED)
            job.s.last_count[b] = static_cast<int32_t>(count);
    }
}

/* ---- host */

static struct tiles_job job_of(const struct hf_assign_rows *rows, const struct hf_assign_step *step,
                               const struct hf_settle *s) {
    struct tiles_job job = {};
    static_cast<struct hf_settle_job &>(job) = hf_settle_job_of(rows, step, s);
    return job;
}

template <hf_dtype X, hf_dtype C>
static cudaError_t launch(struct hf_cuda *cuda, struct tiles_job job) {
    job.aligned = tile_aligned<X, C>(job.x, job.stride * hf_device_bytes<X>, job.c, job.d);
    job.share = tile_share<X, C>(job.d);
    job.tiny = tile_tiny<X, C>(job.d);
    const int64_t most = (job.n + TILE_ROWS - 1) / TILE_ROWS + (job.list ? 0 : job.k);
    const int64_t share = (cuda->sms * TILE_BLOCKS + job.batch - 1) / job.batch;
    const dim3 grid((unsigned)(most < share ? most : share),
                    (unsigned)(job.batch < 65535 ? job.batch : 65535));
    return hf_chain_launch(cuda, job.list ? compare_listed<X, C> : compare_neighbors<X, C>, grid,
                           TILE_THREADS, 0, 1, job);
}

static hf_status run(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                     const struct tiles_job &job) {
    cudaError_t error = cudaSuccess;
    hf_for_dtype(rows->problem.x.dtype, [&](auto type) {
        constexpr hf_dtype X = decltype(type)::value;
        error = rows->problem.c_type == HF_F64 ? launch<X, HF_F64>(cuda, job)
                                               : launch<X, HF_F32>(cuda, job);
    });
    return hf_cuda_check(cuda, error, "assign: tiles");
}

hf_status hf_settle_by_neighbors(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                                 const struct hf_assign_step *step, struct hf_settle *s) {
    if (s->neighbors.row == NULL || !(rows->problem.hard || rows->problem.kind != HF_ASSIGN_AUTO))
        return HF_OK;
    HF_TRY(hf_settle_order(cuda, rows, step, s));
    HF_TRY(hf_settle_neighbors(cuda, rows, step, s));
    HF_TRY(run(cuda, rows, job_of(rows, step, s)));
    s->open.count = s->left_count;
    return HF_OK;
}

hf_status hf_settle_listed(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                           const struct hf_assign_step *step, const struct hf_settle *s,
                           const int32_t **list, const int32_t **count) {
    if (rows->problem.metric != HF_EUCLIDEAN || rows->problem.x.cols > HF_TILES_D)
        return HF_OK;
    struct tiles_job job = job_of(rows, step, s);
    job.list = *list;
    job.count = *count;
    HF_TRY(run(cuda, rows, job));
    *list = s->open.row;
    *count = s->last_count;
    return HF_OK;
}
