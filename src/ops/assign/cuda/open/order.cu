/* SPDX-License-Identifier: Apache-2.0
 * Open rows in the order of their labels so far, so that rows side by side have the same
 * neighbours. Counts, places, rows: blocks count in shared memory. Nothing is done where few rows
 * are open. */
#include "device/cuda/chain.cuh"
#include "ops/assign/cuda/open/settle.h"

#define THREADS 1024
#define BLOCKS 2     /* of a multiprocessor, at most */
#define LEAST_PART 8 /* at least one row in so many is open, */
#define LEAST_ROWS 4 /* and so many for each centroid: what centroids cost each other is little */

struct order_job {
    struct hf_settle s;
    const int32_t *labels; /* [n] */
    int k;
    int64_t n;
    const int32_t *stop;
};

/* How many rows there are to be ordered; 0: too few. */
__device__ static int ordered(const struct order_job &job) {
    const int64_t listed = *job.s.open.count;
    const int64_t count = listed < job.s.open.cap ? listed : job.s.open.cap;
    const bool few = count * LEAST_PART < job.n || count < LEAST_ROWS * static_cast<int64_t>(job.k);
    return few || (job.stop && *job.stop) ? 0 : static_cast<int>(count);
}

/* The open rows of a block. */
struct order_share {
    int64_t first, end;
};

/* The label of an open row so far; of rows of which nothing is known any. */
__device__ __forceinline__ int order_label(const struct order_job &job, int64_t i) {
    return min(max(job.labels[job.s.open.row[i]], 0), job.k - 1);
}

/* This block's share of the open rows, and how many of them have each label; false: it has none. */
__device__ static bool count_block(const struct order_job &job, struct order_share *share,
                                   int *counts) {
    const int64_t count = ordered(job);
    const int64_t first = count * blockIdx.x / gridDim.x;
    const int64_t end = count * (blockIdx.x + 1) / gridDim.x;
    *share = {first, end};
    if (first >= end)
        return false;
    for (int j = static_cast<int>(threadIdx.x); j < job.k; j += THREADS)
        counts[j] = 0;
    __syncthreads();
    for (int64_t i = first + threadIdx.x; i < end; i += THREADS)
        atomicAdd(counts + order_label(job, i), 1);
    __syncthreads();
    return true;
}

static __global__ void __launch_bounds__(THREADS) order_count(const struct order_job job) {
    extern __shared__ int counts[];
    hf_chain_wait();
    hf_chain_next();
    struct order_share share;
    if (!count_block(job, &share, counts))
        return;
    for (int j = static_cast<int>(threadIdx.x); j < job.k; j += THREADS)
        if (counts[j] > 0)
            atomicAdd(job.s.order_count + j, counts[j]);
}

/* Rows, and tiles of them, that come before: those of a label, and all. */
struct order_sum {
    int rows, tiles;
};

/* The sums of all threads before this one, and of all in total. */
__device__ static struct order_sum sum_before(struct order_sum own, struct order_sum *total) {
    __shared__ struct order_sum warp_sum[THREADS / 32];
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    struct order_sum end = own, at = {0, 0};
    for (int step = 1; step < 32; step *= 2) {
        const int rows = __shfl_up_sync(~0u, end.rows, step);
        const int tiles = __shfl_up_sync(~0u, end.tiles, step);
        end.rows += lane >= step ? rows : 0;
        end.tiles += lane >= step ? tiles : 0;
    }
    if (lane == 31)
        warp_sum[warp] = end;
    __syncthreads();
    *total = {0, 0};
    for (int w = 0; w < THREADS / 32; w++) {
        if (w == warp)
            at = *total;
        total->rows += warp_sum[w].rows;
        total->tiles += warp_sum[w].tiles;
    }
    return {at.rows + end.rows - own.rows, at.tiles + end.tiles - own.tiles};
}

/* One block: where the rows of each label, and their tiles, begin. The counts become 0 again. */
static __global__ void __launch_bounds__(THREADS) order_places(const struct order_job job) {
    hf_chain_wait();
    hf_chain_next();
    const struct hf_neighbors &neighbors = job.s.neighbors;
    if (ordered(job) == 0) {
        if (threadIdx.x == 0) {
            *job.s.left_count = *job.s.open.count; /* all of them */
            neighbors.tile[job.k] = 0;
        }
        return;
    }
    constexpr int EACH = HF_NEIGHBORS_K / THREADS;
    int own[EACH];
    struct order_sum sum = {0, 0}, total;
    for (int i = 0; i < EACH; i++) {
        const int j = static_cast<int>(threadIdx.x) * EACH + i;
        own[i] = j < job.k ? job.s.order_count[j] : 0;
        sum.rows += own[i];
        sum.tiles += (own[i] + HF_NEIGHBORS_ROWS - 1) / HF_NEIGHBORS_ROWS;
    }
    struct order_sum at = sum_before(sum, &total);
    for (int i = 0; i < EACH; i++) {
        const int j = static_cast<int>(threadIdx.x) * EACH + i;
        if (j >= job.k)
            break;
        neighbors.place[j] = at.rows;
        neighbors.tile[j] = at.tiles;
        job.s.order_count[j] = 0;
        at.rows += own[i];
        at.tiles += (own[i] + HF_NEIGHBORS_ROWS - 1) / HF_NEIGHBORS_ROWS;
    }
    if (threadIdx.x == 0)
        neighbors.tile[job.k] = total.tiles;
}

/* neighbors.place becomes the end of each label's rows. */
static __global__ void __launch_bounds__(THREADS) order_rows(const struct order_job job) {
    extern __shared__ int places[];
    hf_chain_wait();
    hf_chain_next();
    const struct hf_neighbors &neighbors = job.s.neighbors;
    struct order_share share;
    if (!count_block(job, &share, places))
        return;
    for (int j = static_cast<int>(threadIdx.x); j < job.k; j += THREADS)
        if (places[j] > 0)
            places[j] = atomicAdd(neighbors.place + j, places[j]);
    __syncthreads();
    for (int64_t i = share.first + threadIdx.x; i < share.end; i += THREADS) {
        const int at = atomicAdd(places + order_label(job, i), 1);
        neighbors.row[at] = job.s.open.row[i];
        neighbors.threshold[at] = job.s.open.threshold[i];
    }
}

hf_status hf_settle_order(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                          const struct hf_assign_step *step, const struct hf_settle *s) {
    const struct order_job job = {*s, step->labels, (int)rows->problem.k, rows->n, step->stop};
    const size_t shared = sizeof(int) * (size_t)job.k;
    const dim3 grid((unsigned)(cuda->sms * BLOCKS));
    cudaError_t error = hf_chain_launch(cuda, order_count, grid, THREADS, shared, 1, job);
    if (error == cudaSuccess)
        error = hf_chain_launch(cuda, order_places, dim3(1), THREADS, 0, 1, job);
    if (error == cudaSuccess)
        error = hf_chain_launch(cuda, order_rows, grid, THREADS, shared, 1, job);
    return hf_cuda_check(cuda, error, "assign: order of open rows");
}
