/* SPDX-License-Identifier: Apache-2.0
 * coarse on CUDA: SPARSE_LANES threads add up the rows of a block, then as many a row of the
 * inverse. */
#include "ops/coarse/coarse.h"
#include "ops/sparse.cuh"

#define EACH (SPARSE_THREADS / SPARSE_LANES) /* blocks of rows to a block of threads */

struct coarse_job {
    int64_t blocks;
    const int64_t *block_start;
    const double *inverse, *r;
    double scale;
    double *z;
    double *s; /* [blocks] */
};

static __global__ void __launch_bounds__(SPARSE_THREADS) coarse_restrict(struct coarse_job job) {
    const int64_t block = (int64_t)blockIdx.x * EACH + threadIdx.x / SPARSE_LANES;
    const bool mine = block < job.blocks;
    const int64_t begin = mine ? job.block_start[block] : 0;
    const int64_t end = mine ? job.block_start[block + 1] : 0;
    double lane = 0;
    for (int64_t i = begin + threadIdx.x % SPARSE_LANES; i < end; i += SPARSE_LANES)
        lane = __dadd_rn(lane, job.r[i]);
    lane = sparse_lanes_fold(lane, 0xffffffffu);
    if (mine && threadIdx.x % SPARSE_LANES == 0)
        job.s[block] = lane;
}

static __global__ void __launch_bounds__(SPARSE_THREADS) coarse_correct(struct coarse_job job) {
    __shared__ double y;
    const int64_t block = blockIdx.x;
    if (threadIdx.x < SPARSE_LANES) {
        const double *row = job.inverse + block * job.blocks;
        double lane = 0;
        for (int64_t j = threadIdx.x; j < job.blocks; j += SPARSE_LANES)
            lane = __dadd_rn(lane, __dmul_rn(row[j], job.s[j]));
        lane = sparse_lanes_fold(lane, (1u << SPARSE_LANES) - 1);
        if (threadIdx.x == 0)
            y = __dmul_rn(job.scale, lane);
    }
    __syncthreads();
    for (int64_t i = job.block_start[block] + threadIdx.x; i < job.block_start[block + 1];
         i += SPARSE_THREADS)
        job.z[i] = __dadd_rn(job.z[i], y);
}

static size_t coarse_workspace(const struct hf_call *call) {
    return hf_vector_bytes(((const struct hf_coarse_args *)call->args)->blocks);
}

static hf_status coarse_run(const struct hf_call *call) {
    const struct hf_coarse_args *args = (const struct hf_coarse_args *)call->args;
    const struct hf_cuda *cuda = (const struct hf_cuda *)call->stream;
    const unsigned blocks = (unsigned)args->blocks;
    struct hf_stage stage;
    struct coarse_job job;
    hf_stage_begin(&stage, call->stream);
    job.blocks = args->blocks;
    job.block_start =
        (const int64_t *)hf_stage_in(&stage, args->block_start, hf_vector_bytes(args->blocks + 1));
    job.inverse = (const double *)hf_stage_in(&stage, args->inverse,
                                              hf_vector_bytes(args->blocks * args->blocks));
    job.r = (const double *)hf_stage_in(&stage, args->r, hf_vector_bytes(args->n));
    job.scale = args->scale;
    job.z = (double *)hf_stage_inout(&stage, args->z, hf_vector_bytes(args->n));
    job.s = (double *)call->ws;
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    coarse_restrict<<<(blocks + EACH - 1) / EACH, SPARSE_THREADS, 0, cuda->stream>>>(job);
    coarse_correct<<<blocks, SPARSE_THREADS, 0, cuda->stream>>>(job);
    return hf_stage_end(&stage, hf_cuda_launched(stage.cuda, "coarse"));
}

static double coarse_estimate(const struct hf_call *call) {
    const struct hf_coarse_args *args = (const struct hf_coarse_args *)call->args;
    const double blocks = (double)args->blocks;
    return hf_cuda_pass_ns(8.0 * blocks * blocks + 24.0 * (double)args->n);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("coarse_blocks_cuda", HF_DT(HF_F64), 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE, NULL,
                   coarse_workspace, coarse_run, coarse_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_coarse_kernels_cuda;
const struct hf_kernel_table hf_coarse_kernels_cuda = {kernels, 1};
}
