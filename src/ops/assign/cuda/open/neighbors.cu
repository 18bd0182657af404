/* SPDX-License-Identifier: Apache-2.0
 * The nearest centroids of each centroid, in the order of their distance. */
#include "core/array.h"
#include "base/mem.h"
#include "device/cuda/chain.cuh"
#include "ops/assign/cuda/open/settle.h"
#include "ops/assign/cuda/open/tile.cuh"

#define LIST_THREADS 256
#define NUMBER 0x1FFFull /* bits of a key that are the centroid's number */

static_assert(HF_NEIGHBORS_K <= NUMBER + 1, "bits for all numbers");
static_assert(HF_NEIGHBORS_ROWS == TILE_ROWS && HF_NEIGHBORS_STEP == TILE_K, "whole tiles");

struct neighbors_job {
    const void *c; /* [k, d] */
    int k, d;
    bool aligned;
    double share, tiny; /* what squares are off by at most */
    struct hf_neighbors neighbors;
    const int32_t *stop;
};

/* Nothing is asked of these kernels where no rows were ordered. */
__device__ __forceinline__ bool unwanted(const struct neighbors_job &job) {
    return (job.stop && *job.stop) || job.neighbors.tile[job.k] == 0;
}

/* A block: the squared distances of TILE_ROWS centroids to TILE_K. */
template <hf_dtype C>
static __global__ void __launch_bounds__(TILE_THREADS, TILE_BLOCKS)
    neighbor_squares(const struct neighbors_job job) {
    typedef tile_sum<C, C> S;
    __shared__ struct tile_shared sm;
    hf_chain_wait();
    hf_chain_next();
    if (unwanted(job))
        return;
    const int row = static_cast<int>(blockIdx.x) * TILE_ROWS;
    const int arg = static_cast<int>(blockIdx.y) * TILE_K, thread = static_cast<int>(threadIdx.x);
    sm.row[thread] = min(row + thread, job.k - 1);
    if (thread < TILE_K)
        sm.arg[thread] = min(arg + thread, job.k - 1);
    __syncthreads();
    const char *const c = static_cast<const char *>(job.c);
    const int64_t bytes = job.d * static_cast<int64_t>(hf_device_bytes<C>);
    const struct tile_source source = {c, c, bytes, bytes, job.d, job.aligned};
    S sum[TILE_EACH][TILE_BESIDE];
    tile_sums<C, C>(source, sm, sum);
#pragma unroll
    for (int r = 0; r < TILE_EACH; r++)
#pragma unroll
        for (int i = 0; i < TILE_BESIDE; i++) {
            const int a = row + tile_first() + TILE_SIDE * r,
                      b = arg + tile_lane() + TILE_LANES * i;
            if (a < job.k && b < job.k)
                static_cast<S *>(job.neighbors.square)[static_cast<int64_t>(a) * job.k + b] =
                    sum[r][i];
        }
}

/* Keys in ascending order; their number is a power of two. */
__device__ static void sort_keys(unsigned long long *key, int count) {
    for (int size = 2; size <= count; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int i = static_cast<int>(threadIdx.x); i < count / 2; i += LIST_THREADS) {
                const int a = i / step * 2 * step + i % step, b = a + step;
                const unsigned long long low = key[a], high = key[b];
                if ((low > high) == ((a & size) == 0)) {
                    key[a] = high;
                    key[b] = low;
                }
            }
        }
    __syncthreads();
}

/* A block: the neighbours of a centroid that has open rows; itself comes first. A key is the
 * distance's bits, of which the last give way to the number: no more than the distance. What is not
 * a number is far. */
template <typename S>
static __global__ void __launch_bounds__(LIST_THREADS)
    neighbor_lists(const struct neighbors_job job) {
    extern __shared__ unsigned long long key[];
    hf_chain_wait();
    hf_chain_next();
    const int a = static_cast<int>(blockIdx.x);
    if (unwanted(job) || job.neighbors.tile[a] == job.neighbors.tile[a + 1])
        return;
    const S *const square =
        static_cast<const S *>(job.neighbors.square) + static_cast<int64_t>(a) * job.k;
    int count = HF_NEIGHBORS_STEP;
    while (count < job.k)
        count *= 2;
    for (int j = static_cast<int>(threadIdx.x); j < count; j += LIST_THREADS) {
        unsigned long long bits = ~NUMBER; /* padding */
        if (j < job.k)
            bits = static_cast<unsigned long long>(
                __double_as_longlong(static_cast<double>(square[j])));
        key[j] = j == a
                     ? static_cast<unsigned>(a)
                     : max(bits & ~NUMBER, NUMBER + 1) | static_cast<unsigned>(min(j, job.k - 1));
    }
    sort_keys(key, count);
    uint16_t *const list = job.neighbors.list + static_cast<int64_t>(a) * HF_NEIGHBORS;
    for (int i = static_cast<int>(threadIdx.x); i < min(job.k, HF_NEIGHBORS); i += LIST_THREADS)
        list[i] = static_cast<uint16_t>(key[i] & NUMBER);
    double *const edge = job.neighbors.edge + static_cast<int64_t>(a) * (HF_NEIGHBORS_STEPS + 1);
    for (int i = static_cast<int>(threadIdx.x); i <= HF_NEIGHBORS_STEPS; i += LIST_THREADS) {
        double least = INFINITY;
        if (i * HF_NEIGHBORS_STEP < job.k)
            least =
                __longlong_as_double(static_cast<long long>(key[i * HF_NEIGHBORS_STEP] & ~NUMBER));
        least = least < INFINITY ? sqrt(fmax(least * (1 - job.share) - job.tiny, 0.0)) : INFINITY;
        edge[i] = least * (1 - 0x1p-20);
    }
}

/* ---- host */

bool hf_neighbors_carve(const struct hf_assign_problem *p, void *ws, size_t room,
                        struct hf_neighbors *neighbors) {
    *neighbors = (struct hf_neighbors){};
    const bool wide = p->x.dtype == HF_F64 || p->c_type == HF_F64;
    if (p->batch != 1 || p->metric != HF_EUCLIDEAN || p->k < 2 || p->k > HF_NEIGHBORS_K ||
        p->x.cols > HF_TILES_D)
        return false;
    const size_t n = (size_t)p->x.rows, k = (size_t)p->k;
    hf_carve carve = {(char *)ws, 0};
    struct hf_neighbors all = {};
    all.row = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * n);
    all.threshold = (float *)hf_carve_take(&carve, sizeof(float) * n);
    all.place = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * k);
    all.tile = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * (k + 1));
    all.square = hf_carve_take(&carve, (wide ? sizeof(double) : sizeof(float)) * k * k);
    all.list = (uint16_t *)hf_carve_take(&carve, sizeof(uint16_t) * HF_NEIGHBORS * k);
    all.edge = (double *)hf_carve_take(&carve, sizeof(double) * (HF_NEIGHBORS_STEPS + 1) * k);
    if (carve.used > room)
        return false;
    *neighbors = all;
    return true;
}

template <hf_dtype C> static cudaError_t launch(struct hf_cuda *cuda, struct neighbors_job job) {
    const int64_t bytes = job.d * (int64_t)hf_device_bytes<C>;
    job.aligned = tile_aligned<C, C>(job.c, bytes, job.c, job.d);
    job.share = tile_share<C, C>(job.d);
    job.tiny = tile_tiny<C, C>(job.d);
    size_t keys = HF_NEIGHBORS_STEP;
    while (keys < (size_t)job.k)
        keys *= 2;
    const dim3 grid((unsigned)((job.k + TILE_ROWS - 1) / TILE_ROWS),
                    (unsigned)((job.k + TILE_K - 1) / TILE_K));
    const cudaError_t error =
        hf_chain_launch(cuda, neighbor_squares<C>, grid, TILE_THREADS, 0, 1, job);
    if (error != cudaSuccess)
        return error;
    return hf_chain_launch(cuda, neighbor_lists<tile_sum<C, C>>, dim3((unsigned)job.k),
                           LIST_THREADS, (int)(keys * sizeof(unsigned long long)), 1, job);
}

hf_status hf_settle_neighbors(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                              const struct hf_assign_step *step, const struct hf_settle *s) {
    struct neighbors_job job = {};
    job.c = step->c;
    job.k = (int)rows->problem.k;
    job.d = (int)rows->problem.x.cols;
    job.neighbors = s->neighbors;
    job.stop = step->stop;
    return hf_cuda_check(cuda,
                         rows->problem.c_type == HF_F64 ? launch<HF_F64>(cuda, job)
                                                        : launch<HF_F32>(cuda, job),
                         "assign: neighbours of centroids");
}
