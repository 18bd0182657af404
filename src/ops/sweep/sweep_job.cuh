/* SPDX-License-Identifier: Apache-2.0
 * What both forms of sweep on CUDA work on: compressed rows, and stencils. */
#ifndef HF_SWEEP_JOB_CUH
#define HF_SWEEP_JOB_CUH

#include "ops/sparse.cuh"
#include "ops/sweep/sweep.h"

struct sweep_job {
    struct hf_sparse a;
    const double *inverse;
    const int64_t *block_start;
    int64_t blocks, largest;
    const int32_t *inner;
    int k;
    double damping;
    const uint8_t *frozen;
    const double *b, *x;
    double *x_new;
    double *square;  /* [blocks] NULL: not wanted */
    double *scratch; /* [grid, 3, largest]; NULL: in shared memory */
};

/* Sums of squares of neighbouring rows, carried on from group to group by the first threads. */
static __device__ __forceinline__ double add_squares(double lane, const double *terms, int count) {
    if (threadIdx.x >= SPARSE_LANES)
        return lane;
#pragma unroll 8
    for (int i = (int)threadIdx.x; i < count; i += SPARSE_LANES)
        lane = __dadd_rn(lane, terms[i]);
    return lane;
}

static __device__ __forceinline__ void put_square(const struct sweep_job &job, int64_t block,
                                                  double lane) {
    if (threadIdx.x >= SPARSE_LANES)
        return;
    const double sum = sparse_lanes_fold(lane, (1u << SPARSE_LANES) - 1);
    if (threadIdx.x == 0)
        job.square[block] = sum;
}

#endif
