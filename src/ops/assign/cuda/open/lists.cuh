/* SPDX-License-Identifier: Apache-2.0
 * The nearest centroids of each centroid, in the order of their distance. */
#ifndef HF_ASSIGN_CUDA_OPEN_LISTS_CUH
#define HF_ASSIGN_CUDA_OPEN_LISTS_CUH

#include "ops/assign/cuda/open/found.cuh"

#define NUMBER 0x1FFFull /* bits of a key that are the centroid's number */

static_assert(HF_NEIGHBORS_K <= NUMBER + 1, "bits for all numbers");
static_assert(HF_NEIGHBORS_ROWS == TILE_ROWS && HF_NEIGHBORS_STEP == TILE_K, "whole tiles");
static_assert(HF_NEIGHBORS_K * sizeof(unsigned long long) <= sizeof(struct tile_shared),
              "keys of all centroids in the memory of a tile");

/* Centroids as rows and as centroids of tiles. */
struct lists_of {
    bool aligned;
    double share, tiny; /* what squares are off by at most */
};

/* Tile t of the squared distances: of TILE_ROWS centroids to TILE_K. */
template <hf_dtype C>
__device__ __forceinline__ void list_squares(const struct tiles_job &job,
                                             const struct lists_of &lists, struct tile_shared &sm,
                                             int t) {
    typedef tile_sum<C, C> S;
    const int k = static_cast<int>(job.k), thread = static_cast<int>(threadIdx.x);
    const int down = (k + TILE_ROWS - 1) / TILE_ROWS;
    const int row = t % down * TILE_ROWS, arg = t / down * TILE_K;
    __syncthreads();
    sm.row[thread] = min(row + thread, k - 1);
    if (thread < TILE_K)
        sm.arg[thread] = min(arg + thread, k - 1);
    __syncthreads();
    const char *const c = static_cast<const char *>(job.c);
    const int64_t bytes = job.d * static_cast<int64_t>(hf_device_bytes<C>);
    const struct tile_source source = {c, c, bytes, bytes, static_cast<int>(job.d), lists.aligned};
    S sum[TILE_EACH][TILE_BESIDE];
    tile_sums<C, C>(source, sm, sum);
#pragma unroll
    for (int r = 0; r < TILE_EACH; r++)
#pragma unroll
        for (int i = 0; i < TILE_BESIDE; i++) {
            const int a = row + tile_first() + TILE_SIDE * r,
                      b = arg + tile_lane() + TILE_LANES * i;
            if (a < k && b < k)
                static_cast<S *>(job.s.neighbors.square)[static_cast<int64_t>(a) * k + b] =
                    sum[r][i];
        }
}

/* Keys in ascending order; their number is a power of two. */
__device__ static void sort_keys(unsigned long long *key, int count) {
    for (int size = 2; size <= count; size *= 2)
        for (int step = size / 2; step > 0; step /= 2) {
            __syncthreads();
            for (int i = static_cast<int>(threadIdx.x); i < count / 2; i += TILE_THREADS) {
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

/* The neighbours of centroid a; itself comes first. A key is the distance's bits, of which the last
 * give way to the number: no more than the distance. What is not a number is far. */
template <typename S>
__device__ static void list_neighbors(const struct tiles_job &job, const struct lists_of &lists,
                                      unsigned long long *key, int a) {
    const int k = static_cast<int>(job.k);
    const S *const square =
        static_cast<const S *>(job.s.neighbors.square) + static_cast<int64_t>(a) * k;
    int count = HF_NEIGHBORS_STEP;
    while (count < k)
        count *= 2;
    __syncthreads();
    for (int j = static_cast<int>(threadIdx.x); j < count; j += TILE_THREADS) {
        unsigned long long bits = ~NUMBER; /* padding */
        if (j < k)
            bits = static_cast<unsigned long long>(
                __double_as_longlong(static_cast<double>(square[j])));
        key[j] = j == a ? static_cast<unsigned>(a)
                        : max(bits & ~NUMBER, NUMBER + 1) | static_cast<unsigned>(min(j, k - 1));
    }
    sort_keys(key, count);
    uint16_t *const list = job.s.neighbors.list + static_cast<int64_t>(a) * HF_NEIGHBORS;
    for (int i = static_cast<int>(threadIdx.x); i < min(k, HF_NEIGHBORS); i += TILE_THREADS)
        list[i] = static_cast<uint16_t>(key[i] & NUMBER);
    double *const edge = job.s.neighbors.edge + static_cast<int64_t>(a) * (HF_NEIGHBORS_STEPS + 1);
    for (int i = static_cast<int>(threadIdx.x); i <= HF_NEIGHBORS_STEPS; i += TILE_THREADS) {
        double least = INFINITY;
        if (i * HF_NEIGHBORS_STEP < k)
            least =
                __longlong_as_double(static_cast<long long>(key[i * HF_NEIGHBORS_STEP] & ~NUMBER));
        least =
            least < INFINITY ? sqrt(fmax(least * (1 - lists.share) - lists.tiny, 0.0)) : INFINITY;
        edge[i] = least * (1 - 0x1p-20);
    }
}

#endif
