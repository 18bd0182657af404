/* SPDX-License-Identifier: Apache-2.0
 * Open rows in the order of their labels so far: rows side by side then have the same candidates,
 * which the first-level cache keeps. Counts, places, entries: blocks count in shared memory. Only
 * where there are many open rows, and more centroids than that cache holds. */
#include "device/cuda/chain.cuh"
#include "ops/assign/cuda/open/settle.h"

#define THREADS 1024
#define MOST_K 8192             /* labels counted in shared memory */
#define LEAST_BYTES (192 << 10) /* of centroids */
#define BLOCKS 2                /* of a multiprocessor, at most */

struct order_job {
    struct hf_settle s;
    const int32_t *labels; /* [n] */
    int k;
    const int32_t *stop;
};

bool hf_settle_orders(const struct hf_assign_problem *p) {
    return p->batch == 1 && p->metric == HF_EUCLIDEAN && p->k <= MOST_K &&
           p->x.rows >= 2 * HF_SETTLE_ORDER &&
           (double)p->k * (double)p->x.cols * (double)hf_dtype_bytes(p->c_type) > LEAST_BYTES;
}

/* How many entries there are to be ordered; 0: too few. */
__device__ static int ordered(const struct order_job &job) {
    const int64_t listed = *job.s.open.count;
    const int64_t count = listed < job.s.open.part ? listed : job.s.open.part;
    return (job.stop && *job.stop) || count < HF_SETTLE_ORDER ? 0 : static_cast<int>(count);
}

/* The entries of a block: [first, end). */
__device__ static void block_share(int count, int64_t *first, int64_t *end) {
    *first = static_cast<int64_t>(count) * blockIdx.x / gridDim.x;
    *end = static_cast<int64_t>(count) * (blockIdx.x + 1) / gridDim.x;
}

/* The label of an entry so far; of rows of which nothing is known any. */
__device__ __forceinline__ int order_label(const struct order_job &job, int64_t entry) {
    return min(max(job.labels[job.s.open.row[entry]], 0), job.k - 1);
}

/* How many entries of this block have each label. */
__device__ static void count_block(const struct order_job &job, int64_t first, int64_t end,
                                   int *counts) {
    for (int j = static_cast<int>(threadIdx.x); j < job.k; j += THREADS)
        counts[j] = 0;
    __syncthreads();
    for (int64_t i = first + threadIdx.x; i < end; i += THREADS)
        atomicAdd(counts + order_label(job, i), 1);
    __syncthreads();
}

static __global__ void __launch_bounds__(THREADS) order_count(const struct order_job job) {
    extern __shared__ int counts[];
    hf_chain_wait();
    hf_chain_next();
    int64_t first, end;
    block_share(ordered(job), &first, &end);
    if (first >= end)
        return;
    count_block(job, first, end, counts);
    for (int j = static_cast<int>(threadIdx.x); j < job.k; j += THREADS)
        if (counts[j] > 0)
            atomicAdd(job.s.order_count + j, counts[j]);
}

/* One block: where the entries of each label begin. The counts become 0 again. */
static __global__ void __launch_bounds__(THREADS) order_places(const struct order_job job) {
    __shared__ int warp_sum[THREADS / 32];
    hf_chain_wait();
    hf_chain_next();
    if (ordered(job) == 0)
        return;
    constexpr int EACH = MOST_K / THREADS;
    const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32;
    int own[EACH], sum = 0;
    for (int i = 0; i < EACH; i++) {
        const int j = static_cast<int>(threadIdx.x) * EACH + i;
        own[i] = j < job.k ? job.s.order_count[j] : 0;
        sum += own[i];
    }
    int end = sum;
    for (int step = 1; step < 32; step *= 2) {
        const int before = __shfl_up_sync(~0u, end, step);
        end += lane >= step ? before : 0;
    }
    if (lane == 31)
        warp_sum[warp] = end;
    __syncthreads();
    int at = end - sum;
    for (int w = 0; w < warp; w++)
        at += warp_sum[w];
    for (int i = 0; i < EACH; i++) {
        const int j = static_cast<int>(threadIdx.x) * EACH + i;
        if (j >= job.k)
            break;
        job.s.order_place[j] = at;
        job.s.order_count[j] = 0;
        at += own[i];
    }
}

static __global__ void __launch_bounds__(THREADS) order_entries(const struct order_job job) {
    extern __shared__ int places[];
    hf_chain_wait();
    hf_chain_next();
    int64_t first, end;
    block_share(ordered(job), &first, &end);
    if (first >= end)
        return;
    count_block(job, first, end, places);
    for (int j = static_cast<int>(threadIdx.x); j < job.k; j += THREADS)
        if (places[j] > 0)
            places[j] = atomicAdd(job.s.order_place + j, places[j]);
    __syncthreads();
    for (int64_t i = first + threadIdx.x; i < end; i += THREADS)
        job.s.order[atomicAdd(places + order_label(job, i), 1)] = static_cast<int32_t>(i);
}

hf_status hf_settle_order(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                          const struct hf_assign_step *step, const struct hf_settle *s) {
    if (s->order == NULL)
        return HF_OK;
    const struct order_job job = {*s, step->labels, (int)rows->problem.k, step->stop};
    const size_t shared = sizeof(int) * (size_t)job.k;
    const dim3 grid((unsigned)(cuda->sms * BLOCKS));
    cudaError_t error = hf_chain_launch(cuda, order_count, grid, THREADS, shared, 1, job);
    if (error == cudaSuccess)
        error = hf_chain_launch(cuda, order_places, dim3(1), THREADS, 0, 1, job);
    if (error == cudaSuccess)
        error = hf_chain_launch(cuda, order_entries, grid, THREADS, shared, 1, job);
    return hf_cuda_check(cuda, error, "assign: order of open rows");
}
