/* SPDX-License-Identifier: Apache-2.0
 * sweep on CUDA with k > 1 where rows are stencils: a block of threads for each block of rows, a
 * thread for each row. The x inside is in shared memory. */
#ifndef HF_SWEEP_STENCILS_CUH
#define HF_SWEEP_STENCILS_CUH

#include "ops/stencils.cuh"
#include "ops/sweep/sweep_job.cuh"

#define STENCIL_THREADS 128
#define STENCIL_GRID 64 /* blocks of threads to a multiprocessor */

/* What the first sweep leaves to the others. */
struct stencil_inside {
    double *x, *next, *outside; /* [largest] */
    int32_t *range;             /* [largest] elements inside the block: first, and 16 bits higher
                                   one past the last */
};

/* All of a row. Returns the residual. */
template <bool APART>
static __device__ __forceinline__ double
first_of_row(const struct sweep_job &job, const struct stencil_table &table, int64_t i,
             int64_t begin, int rows, const struct stencil_inside &own) {
    const int number = job.a.stencils.of_row[i], p = (int)(i - begin);
    const double diagonal = APART ? job.a.stencils.diagonal[i] : 0;
    double in = 0, out = 0;
    int left = table.start[number], right = left;
    const auto add = [&](int32_t offset, double product) {
        const bool inside = (unsigned)(p + offset) < (unsigned)rows;
        left += p + offset < 0;
        right += p + offset < rows;
        in = inside ? __dadd_rn(in, product) : in;
        out = inside ? out : __dadd_rn(out, product);
    };
    if (job.x != NULL) {
        stencil_walk<APART>(table, number, diagonal, job.x + i, add);
    } else {
        for (int e = table.start[number]; e < table.start[number + 1]; e++)
            add(table.offset[e], 0.0);
    }
    own.range[p] = left | right << 16;
    own.outside[p] = __dsub_rn(job.b[i], out);
    return __dsub_rn(own.outside[p], in);
}

/* Returns a lane of the sum of squares. terms: [2, threads] */
template <bool APART>
static __device__ __forceinline__ double
first_of_block(const struct sweep_job &job, const struct stencil_table &table, int64_t block,
               const struct stencil_inside &own, double *terms) {
    const int64_t begin = job.block_start[block], end = job.block_start[block + 1];
    const bool frozen = job.frozen != NULL && job.frozen[block];
    const int threads = (int)blockDim.x;
    double lane = 0;
    int side = 0;
    for (int64_t at = begin; at < end; at += threads, side ^= 1) {
        const int64_t i = at + threadIdx.x;
        if (i < end) {
            const double r = first_of_row<APART>(job, table, i, begin, (int)(end - begin), own);
            const double inverse = APART ? job.inverse[i] : table.inverse[job.a.stencils.of_row[i]];
            const double x = job.x != NULL ? job.x[i] : 0.0;
            const double after = frozen ? x : next_x(job, i, x, inverse, r);
            if (frozen)
                job.x_new[i] = after;
            else
                own.next[i - begin] = after;
            terms[side * threads + (int)threadIdx.x] = __dmul_rn(r, r);
        }
        if (job.square == NULL)
            continue;
        __syncthreads();
        const int64_t left = end - at;
        lane = add_squares(lane, terms + side * threads, left < threads ? (int)left : threads);
    }
    return lane;
}

/* The other sweeps: the elements inside alone. */
template <bool APART>
static __device__ __forceinline__ void
rest_of_block(const struct sweep_job &job, const struct stencil_table &table, int64_t block,
              const struct stencil_inside &own) {
    const int64_t begin = job.block_start[block];
    const int rows = (int)(job.block_start[block + 1] - begin), threads = (int)blockDim.x;
    double *x = own.next, *next = own.x;
    for (int k = 1; k < job.k; k++) {
        __syncthreads();
        for (int p = (int)threadIdx.x; p < rows; p += threads) {
            const int first = own.range[p] & 0xffff, last = own.range[p] >> 16;
            const double diagonal = APART ? job.a.stencils.diagonal[begin + p] : 0;
            double in = 0;
#pragma unroll 3
            for (int e = first; e < last; e++) {
                const int offset = table.offset[e];
                const double value = APART && offset == 0 ? diagonal : table.value[e];
                in = __dadd_rn(in, __dmul_rn(value, x[p + offset]));
            }
            const double inverse =
                APART ? job.inverse[begin + p] : table.inverse[job.a.stencils.of_row[begin + p]];
            const double after =
                sparse_relaxed(x[p], job.damping, inverse, __dsub_rn(own.outside[p], in));
            if (k + 1 < job.k)
                next[p] = after;
            else
                job.x_new[begin + p] = after;
        }
        double *const before = x;
        x = next;
        next = before;
    }
}

template <bool APART>
static __global__ void __launch_bounds__(STENCIL_THREADS, 8) sweep_stencils(struct sweep_job job) {
    extern __shared__ double stencil_room[];
    double *terms = stencil_room, *inside = terms + 2 * blockDim.x;
    const int64_t near = job.largest;
    double *range = inside + 3 * near, *room = range + (near + 1) / 2;
    const struct stencil_inside own = {inside, inside + near, inside + 2 * near, (int32_t *)range};
    const struct stencil_table table = load_stencils(job.a.stencils, room);
    for (int64_t block = blockIdx.x; block < job.blocks; block += gridDim.x) {
        const double lane = first_of_block<APART>(job, table, block, own, terms);
        if (job.square != NULL)
            put_square(job, block, lane);
        if (job.frozen == NULL || !job.frozen[block])
            rest_of_block<APART>(job, table, block, own);
        __syncthreads();
    }
}

/* Is it there, and does it fit? */
static inline bool hf_sweep_by_stencils(const struct hf_sweep_args *args) {
    return args->a.stencils.count > 0 && args->k > 1 && args->largest <= HF_SWEEP_STENCIL_ROWS;
}

/* For blocks of at most `near` rows, beside the table. */
static inline size_t hf_sweep_stencil_bytes(size_t near) {
    return (2 * (size_t)STENCIL_THREADS + 3 * near + (near + 1) / 2) * sizeof(double);
}

/* job.a.stencils is a device view. */
static inline cudaError_t sweep_run_stencils(struct hf_cuda *cuda, const struct sweep_job &job) {
    const auto kernel =
        job.a.stencils.diagonal != NULL ? sweep_stencils<true> : sweep_stencils<false>;
    const int64_t full = (int64_t)cuda->sms * STENCIL_GRID;
    const unsigned grid = (unsigned)(job.blocks < full ? job.blocks : full);
    const size_t bytes =
        hf_sweep_stencil_bytes((size_t)job.largest) + hf_stencil_table_bytes(job.a.stencils);
    const cudaError_t error = hf_cuda_room(cuda, (const void *)kernel);
    if (error == cudaSuccess)
        kernel<<<grid, STENCIL_THREADS, bytes, cuda->stream>>>(job);
    return error;
}

#endif
