/* SPDX-License-Identifier: Apache-2.0
 * Open rows in the order of their labels so far, so that rows side by side have the same
 * neighbours: shares of them are counted, one block finds the places, then shares are put there. */
#ifndef HF_ASSIGN_CUDA_OPEN_ORDER_CUH
#define HF_ASSIGN_CUDA_OPEN_ORDER_CUH

#include "ops/assign/cuda/open/found.cuh"

#define LEAST_PART 8 /* at least one row in so many is open, */
#define LEAST_ROWS 4 /* and so many for each centroid: what centroids cost each other is little */

/* How many rows there are to be ordered; 0: too few. */
__device__ static int order_rows_wanted(const struct tiles_job &job) {
    const int64_t listed = *job.s.open.count;
    const int64_t count = listed < job.s.open.cap ? listed : job.s.open.cap;
    const bool few = count * LEAST_PART < job.n || count < LEAST_ROWS * job.k;
    return few ? 0 : static_cast<int>(count);
}

/* Open rows that a block counts, or puts to their places, together. */
struct order_share {
    int64_t first, end;
};

__device__ __forceinline__ struct order_share order_share_of(int64_t count, int t, int shares) {
    return {count * t / shares, count * (t + 1) / shares};
}

/* The label of an open row so far; of rows of which nothing is known any. */
__device__ __forceinline__ int order_label(const struct tiles_job &job, int64_t i) {
    return min(max(job.labels[job.s.open.row[i]], 0), static_cast<int>(job.k) - 1);
}

/* How many rows of a share have each label: counts[k]. */
__device__ static void order_block(const struct tiles_job &job, const struct order_share &share,
                                   int *counts) {
    __syncthreads();
    for (int j = static_cast<int>(threadIdx.x); j < job.k; j += TILE_THREADS)
        counts[j] = 0;
    __syncthreads();
    for (int64_t i = share.first + threadIdx.x; i < share.end; i += TILE_THREADS)
        atomicAdd(counts + order_label(job, i), 1);
    __syncthreads();
}

__device__ static void order_count(const struct tiles_job &job, const struct order_share &share,
                                   int *counts) {
    order_block(job, share, counts);
    for (int j = static_cast<int>(threadIdx.x); j < job.k; j += TILE_THREADS)
        if (counts[j] > 0)
            atomicAdd(job.s.order_count + j, counts[j]);
}

/* Rows, and tiles of them, that come before: those of a label, and all. */
struct order_sum {
    int rows, tiles;
};

/* The sums of all threads before this one, and *total of all. */
__device__ static struct order_sum order_before(struct order_sum own, struct order_sum *total) {
    __shared__ struct order_sum warp_sum[TILE_THREADS / 32];
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    struct order_sum end = own, at = {0, 0};
    for (int step = 1; step < 32; step *= 2) {
        const int rows = __shfl_up_sync(~0u, end.rows, step);
        const int tiles = __shfl_up_sync(~0u, end.tiles, step);
        end.rows += lane >= step ? rows : 0;
        end.tiles += lane >= step ? tiles : 0;
    }
    __syncthreads();
    if (lane == 31)
        warp_sum[warp] = end;
    __syncthreads();
    *total = {0, 0};
    for (int w = 0; w < TILE_THREADS / 32; w++) {
        if (w == warp)
            at = *total;
        total->rows += warp_sum[w].rows;
        total->tiles += warp_sum[w].tiles;
    }
    return {at.rows + end.rows - own.rows, at.tiles + end.tiles - own.tiles};
}

/* One block: where the rows of each label, and their tiles, begin. */
__device__ static void order_places(const struct tiles_job &job) {
    const struct hf_neighbors &neighbors = job.s.neighbors;
    const int k = static_cast<int>(job.k);
    struct order_sum done = {0, 0};
    for (int first = 0; first < k; first += TILE_THREADS) {
        const int j = first + static_cast<int>(threadIdx.x);
        const int own = j < k ? job.s.order_count[j] : 0;
        struct order_sum total;
        const struct order_sum at = order_before({own, (own + TILE_ROWS - 1) / TILE_ROWS}, &total);
        if (j < k) {
            neighbors.place[j] = done.rows + at.rows;
            neighbors.tile[j] = done.tiles + at.tiles;
        }
        done.rows += total.rows;
        done.tiles += total.tiles;
    }
    if (threadIdx.x == 0)
        neighbors.tile[k] = done.tiles;
}

/* neighbors.place becomes the end of each label's rows. */
__device__ static void order_rows(const struct tiles_job &job, const struct order_share &share,
                                  int *places) {
    const struct hf_neighbors &neighbors = job.s.neighbors;
    order_block(job, share, places);
    for (int j = static_cast<int>(threadIdx.x); j < job.k; j += TILE_THREADS)
        if (places[j] > 0)
            places[j] = atomicAdd(neighbors.place + j, places[j]);
    __syncthreads();
    for (int64_t i = share.first + threadIdx.x; i < share.end; i += TILE_THREADS) {
        const int at = atomicAdd(places + order_label(job, i), 1);
        neighbors.row[at] = job.s.open.row[i];
        neighbors.threshold[at] = job.s.open.threshold[i];
    }
}

#endif
