/* SPDX-License-Identifier: Apache-2.0
 * sweep on CUDA with k = 1, where blocks do no more than share out sums. Short rows in slices, and
 * stencils, have a thread each. Compressed rows are read in groups (hf_sparse_group()); another
 * launch adds up the squares of a block. */
#ifndef HF_SWEEP_ONCE_CUH
#define HF_SWEEP_ONCE_CUH

#include "ops/stencils.cuh"
#include "ops/sweep/sweep_job.cuh"

#define ONCE_THREADS 128
#define ONCE_GRID 64 /* blocks of threads to a multiprocessor */

/* Row i, whose sum(i) with x is asked for where there is an x; inverse(i): 1 / diagonal. Returns
 * the residual. */
template <typename S, typename I>
static __device__ __forceinline__ double sweep_row(const struct sweep_job &job, int64_t i,
                                                   bool frozen, S sum, I inverse) {
    const double b = job.b[i], x = job.x != NULL ? job.x[i] : 0.0, d = inverse(i);
    const double r = __dsub_rn(b, job.x != NULL ? sum(i) : 0.0);
    job.x_new[i] = frozen ? x : next_x(job, i, x, d, r);
    return r;
}

/* A thread for each row. BLOCKS: somebody wants to know of blocks of rows, and each of these has a
 * block of threads. Else blocks of threads share all rows out, with fewer registers. */
template <bool BLOCKS, typename S, typename I>
static __device__ __forceinline__ void sweep_threads(const struct sweep_job &job, S sum,
                                                     I inverse) {
    __shared__ double terms[2][BLOCKS ? ONCE_THREADS : 1];
    if (!BLOCKS) {
        const int64_t last = job.block_start[job.blocks];
        for (int64_t i = job.block_start[0] + blockIdx.x * ONCE_THREADS + threadIdx.x; i < last;
             i += (int64_t)gridDim.x * ONCE_THREADS)
            (void)sweep_row(job, i, false, sum, inverse);
        return;
    }
    int side = 0;
    for (int64_t block = blockIdx.x; block < job.blocks; block += gridDim.x) {
        const int64_t end = job.block_start[block + 1];
        const bool frozen = job.frozen != NULL && job.frozen[block];
        double lane = 0;
        for (int64_t at = job.block_start[block]; at < end; at += ONCE_THREADS, side ^= 1) {
            const int64_t i = at + threadIdx.x, left = end - at;
            if (i < end) {
                const double r = sweep_row(job, i, frozen, sum, inverse);
                terms[side][threadIdx.x] = __dmul_rn(r, r);
            }
            if (job.square == NULL)
                continue;
            __syncthreads();
            lane = add_squares(lane, terms[side], left < ONCE_THREADS ? (int)left : ONCE_THREADS);
        }
        if (job.square != NULL)
            put_square(job, block, lane);
    }
}

template <typename V, bool BLOCKS>
static __global__ void __launch_bounds__(ONCE_THREADS, 8) sweep_slices(struct sweep_job job) {
    const uint64_t policy = sparse_policy(job.a);
    sweep_threads<BLOCKS>(
        job, [&](int64_t i) { return slice_row<V>(job.slices, i, policy, job.x); },
        [&](int64_t i) { return job.inverse[i]; });
}

template <bool APART, bool BLOCKS>
static __global__ void __launch_bounds__(ONCE_THREADS, 8) sweep_grid(struct sweep_job job) {
    extern __shared__ double stencil_room[];
    const struct hf_stencils &s = job.a.stencils;
    const struct stencil_table table = load_stencils(s, stencil_room);
    sweep_threads<BLOCKS>(
        job,
        [&](int64_t i) {
            const double diagonal = APART ? s.diagonal[i] : 0;
            return stencil_row<APART>(table, s.of_row[i], diagonal, job.x + i);
        },
        [&](int64_t i) { return APART ? job.inverse[i] : table.inverse[s.of_row[i]]; });
}

/* Does nobody work on the block of row i? */
static __device__ __forceinline__ bool is_frozen(const struct sweep_job &job, int64_t i) {
    int64_t low = 0, high = job.blocks;
    if (job.frozen == NULL)
        return false;
    while (high - low > 1) {
        const int64_t middle = (low + high) / 2;
        if (job.block_start[middle] <= i)
            low = middle;
        else
            high = middle;
    }
    return job.frozen[low];
}

/* group: rows that a block of threads takes at once. */
template <typename V>
static __global__ void __launch_bounds__(SPARSE_GROUP_THREADS, 8)
    sweep_rows(struct sweep_job job, int group) {
    __shared__ double product[SPARSE_EACH * SPARSE_GROUP_THREADS];
    const int64_t first = job.block_start[0], last = job.block_start[job.blocks];
    const auto x = [&](int32_t j) { return job.x[j]; };
    for (int64_t at = first + (int64_t)blockIdx.x * group; at < last;
         at += (int64_t)gridDim.x * group) {
        const int64_t until = at + group < last ? at + group : last;
        const int64_t i = at + threadIdx.x;
        double in = 0;
        if (job.x != NULL)
            in = sparse_row<V, SPARSE_GROUP_THREADS>(job.a, at, until, product, x);
        if (i >= until)
            continue;
        const double before = job.x != NULL ? job.x[i] : 0.0, r = __dsub_rn(job.b[i], in);
        job.x_new[i] = is_frozen(job, i) ? before : next_x(job, i, before, job.inverse[i], r);
        if (job.terms != NULL)
            job.terms[i] = __dmul_rn(r, r);
    }
}

/* square[block] from the terms of its rows: eight threads each. */
static __global__ void __launch_bounds__(SPARSE_THREADS) sweep_squares(struct sweep_job job) {
    const int64_t each = SPARSE_THREADS / SPARSE_LANES;
    for (int64_t at = blockIdx.x * each; at < job.blocks; at += gridDim.x * each) {
        const int64_t block = at + threadIdx.x / SPARSE_LANES;
        const int64_t end = block < job.blocks ? job.block_start[block + 1] : 0;
        int64_t i = block < job.blocks ? job.block_start[block] + threadIdx.x % SPARSE_LANES : 0;
        double lane = 0;
#pragma unroll 4
        for (; i < end; i += SPARSE_LANES)
            lane = __dadd_rn(lane, job.terms[i]);
        lane = sparse_lanes_fold(lane, 0xffffffffu);
        if (threadIdx.x % SPARSE_LANES == 0 && block < job.blocks)
            job.square[block] = lane;
    }
}

/* Are there stencils or slices? */
static inline bool hf_sweep_by_threads(const struct hf_sweep_args *args) {
    return args->k == 1 && (args->a.stencils.count > 0 || hf_has_slices(args->a));
}

template <bool BLOCKS>
static cudaError_t sweep_launch_grid(struct hf_cuda *cuda, const struct sweep_job &job,
                                     unsigned grid) {
    const bool apart = job.a.stencils.diagonal != NULL;
    const auto kernel = apart ? sweep_grid<true, BLOCKS> : sweep_grid<false, BLOCKS>;
    const size_t bytes = hf_stencil_table_bytes(job.a.stencils); /* beside static memory */
    const cudaError_t error = hf_cuda_room(cuda, (const void *)kernel);
    if (error == cudaSuccess)
        kernel<<<grid, ONCE_THREADS, bytes, cuda->stream>>>(job);
    return error;
}

/* A sweep of rows that have a thread each. */
static inline cudaError_t sweep_run_threads(struct hf_cuda *cuda, const struct sweep_job &job) {
    const int64_t full = (int64_t)cuda->sms * ONCE_GRID;
    const bool blocks = job.square != NULL || job.frozen != NULL;
    const int64_t pieces = blocks ? job.blocks : job.a.rows / ONCE_THREADS + 1;
    const unsigned grid = (unsigned)(pieces < full ? pieces : full);
    if (job.a.stencils.count > 0)
        return blocks ? sweep_launch_grid<true>(cuda, job, grid)
                      : sweep_launch_grid<false>(cuda, job, grid);
    hf_for_sparse(job.a.dtype, [&](auto type) {
        using V = decltype(type);
        const auto kernel = blocks ? sweep_slices<V, true> : sweep_slices<V, false>;
        kernel<<<grid, ONCE_THREADS, 0, cuda->stream>>>(job);
    });
    return cudaSuccess;
}

/* The same of compressed rows. */
static inline void sweep_run_rows(const struct hf_cuda *cuda, const struct sweep_job &job) {
    const int group = hf_sparse_group(job.a);
    hf_for_sparse(job.a.dtype, [&](auto type) {
        sweep_rows<decltype(type)>
            <<<sparse_grid(cuda, job.a.rows / group + 1), SPARSE_GROUP_THREADS, 0, cuda->stream>>>(
                job, group);
    });
    if (job.terms != NULL)
        sweep_squares<<<sparse_grid(cuda, job.blocks * SPARSE_LANES / SPARSE_THREADS + 1),
                        SPARSE_THREADS, 0, cuda->stream>>>(job);
}

#endif
