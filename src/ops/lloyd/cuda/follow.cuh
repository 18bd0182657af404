/* SPDX-License-Identifier: Apache-2.0
 * The sums of the clusters follow the labels of a step: for kernels whose blocks wait for each
 * other. */
#ifndef HF_LLOYD_CUDA_FOLLOW_CUH
#define HF_LLOYD_CUDA_FOLLOW_CUH

#include "ops/lloyd/cuda/lloyd_cuda.h"
#include "ops/update/update_cuda.cuh"

static __device__ void clear_sums(const struct hf_update_job &job) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (int64_t i = first; i < job.batch * job.limbs * job.k * job.d; i += step)
        job.sum[i] = 0;
    for (int64_t i = first; i < job.batch * job.k; i += step)
        job.count[i] = 0;
    for (int64_t i = first; job.weight != NULL && i < job.batch * job.limbs * job.k; i += step)
        job.weight[i] = 0;
}

/* The rows whose labels changed are moved; when that is more work than to add up all, all are. */
template <hf_dtype T>
static __device__ void follow_labels(const struct hf_lloyd_job &job, int side, uint32_t *shared) {
    const struct hf_update_job &u = job.update;
    const int64_t rows = u.batch * u.n;
    const int64_t moved = job.control->moved;
    if (hf_lloyd_few(&u, moved)) {
        update_few<T>(job.update, job.moved, moved, job.labels[side], job.labels[1 - side]);
        return;
    }
    struct update_source from;
    from.moves = moved * 2 < rows;
    from.labels = job.labels[1 - side];
    from.old_labels = job.labels[side];
    from.list = job.moved;
    from.entries = (uint32_t)(from.moves ? 2 * moved : rows);
    if (!from.moves)
        clear_sums(job.update); /* the blocks wait before anything is added */
    update_many<T>(job.update, from, shared);
}

#endif
