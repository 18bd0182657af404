/* SPDX-License-Identifier: Apache-2.0
 * What all forms of sweep on CUDA work on: compressed rows, slices, and stencils. */
#ifndef HF_SWEEP_JOB_CUH
#define HF_SWEEP_JOB_CUH

#include "ops/slices.cuh"
#include "ops/sweep/sweep.h"

struct sweep_job {
    struct hf_sparse a;
    struct hf_slices slices;
    const double *inverse;
    const int64_t *block_start;
    int64_t blocks, largest;
    const int32_t *inner;
    int k;
    double damping, momentum;
    const uint8_t *frozen;
    const double *b, *x, *before;
    double *x_new;
    double *square;  /* [blocks] NULL: not wanted */
    double *terms;   /* [rows] squared residuals on their way to square; NULL: they take another */
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

/* The new x of row i. */
static __device__ __forceinline__ double next_x(const struct sweep_job &job, int64_t i, double x,
                                                double inverse, double r) {
    const double after = sparse_relaxed(x, job.damping, inverse, r);
    if (job.momentum == 0)
        return after;
    const double before = job.before != NULL ? job.before[i] : 0.0;
    return __dadd_rn(after, __dmul_rn(job.momentum, __dsub_rn(x, before)));
}

#endif
