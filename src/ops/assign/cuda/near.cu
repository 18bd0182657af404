/* SPDX-License-Identifier: Apache-2.0
 * How far the centroids round each centroid moved. A block compares 64 centroids with 64 others. */
#include "ops/assign/cuda/near.cuh"

#include <math.h>

#define TILE 64
#define SIDE 16 /* threads along one side of a tile */
#define PART (TILE / SIDE)
#define DEPTH 16 /* columns at a time */

struct near_job {
    const float *c;     /* [batch, k, d] */
    const float *drift; /* [batch, k] */
    int64_t k, d, batch;
    struct hf_near near;
    float shrink; /* what rounding may add to a distance */
    const struct hf_assign_guide *guide;
    const int32_t *stop;
};

struct near_shared {
    float a[DEPTH][TILE + 1], b[DEPTH][TILE + 1]; /* columns of both sides */
    float drift[TILE];
    int bin[TILE][HF_NEAR_BINS]; /* bits of the largest drift, which is not negative */
};

/* DEPTH columns of the TILE centroids from `first` on; zeros where there are none. */
__device__ static void near_load(const struct near_job &job, const float *c, int64_t first,
                                 int64_t column, float (*to)[TILE + 1]) {
    for (int i = static_cast<int>(threadIdx.x); i < DEPTH * TILE; i += SIDE * SIDE) {
        const int64_t row = first + i / DEPTH;
        const int64_t j = column + i % DEPTH;
        to[i % DEPTH][i / DEPTH] = row < job.k && j < job.d ? c[row * job.d + j] : 0;
    }
}

/* Squared distances of this thread's PART x PART pairs. */
__device__ static void near_squares(const struct near_job &job, const float *c,
                                    struct near_shared *sh, float (*square)[PART]) {
    const int ta = static_cast<int>(threadIdx.x) / SIDE, tb = static_cast<int>(threadIdx.x) % SIDE;
    for (int64_t column = 0; column < job.d; column += DEPTH) {
        __syncthreads();
        near_load(job, c, static_cast<int64_t>(blockIdx.x) * TILE, column, sh->a);
        near_load(job, c, static_cast<int64_t>(blockIdx.y) * TILE, column, sh->b);
        __syncthreads();
#pragma unroll
        for (int j = 0; j < DEPTH; j++) {
            float a[PART], b[PART];
#pragma unroll
            for (int i = 0; i < PART; i++) {
                a[i] = sh->a[j][ta + i * SIDE];
                b[i] = sh->b[j][tb + i * SIDE];
            }
#pragma unroll
            for (int i = 0; i < PART; i++)
#pragma unroll
                for (int e = 0; e < PART; e++) {
                    const float t = a[i] - b[e];
                    square[i][e] += t * t;
                }
        }
    }
}

/* Each pair's drift to the bin of its distance, and all before it. */
__device__ static void near_count(const struct near_job &job, int64_t problem,
                                  struct near_shared *sh, const float (*square)[PART]) {
    const int ta = static_cast<int>(threadIdx.x) / SIDE, tb = static_cast<int>(threadIdx.x) % SIDE;
    for (int i = 0; i < PART; i++)
        for (int e = 0; e < PART; e++) {
            const int64_t own = static_cast<int64_t>(blockIdx.x) * TILE + ta + i * SIDE;
            const int64_t other = static_cast<int64_t>(blockIdx.y) * TILE + tb + e * SIDE;
            const float drift = sh->drift[tb + e * SIDE];
            if (own == other || own >= job.k || other >= job.k || !(drift > 0))
                continue;
            /* what overflowed is near: that is always right */
            const float distance = square[i][e] < INFINITY ? sqrtf(square[i][e]) * job.shrink : 0;
            atomicMax(&sh->bin[ta + i * SIDE][hf_near_bin(job.near, distance)],
                      __float_as_int(drift));
        }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < TILE; i += SIDE * SIDE) {
        const int64_t own = static_cast<int64_t>(blockIdx.x) * TILE + i;
        int most = 0;
        for (int t = 0; own < job.k && t < HF_NEAR_BINS; t++) {
            most = max(most, sh->bin[i][t]);
            if (most > 0)
                atomicMax(&job.near.most[(problem * job.k + own) * HF_NEAR_BINS + t], most);
        }
    }
}

static __global__ void __launch_bounds__(SIDE *SIDE) near_drifts(const struct near_job job) {
    __shared__ struct near_shared sh;
    if ((job.stop && *job.stop) || (job.guide != nullptr && !job.guide->use))
        return;
    for (int64_t problem = blockIdx.z; problem < job.batch; problem += gridDim.z) {
        float square[PART][PART] = {};
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < TILE * HF_NEAR_BINS; i += SIDE * SIDE)
            sh.bin[i / HF_NEAR_BINS][i % HF_NEAR_BINS] = 0;
        for (int i = static_cast<int>(threadIdx.x); i < TILE; i += SIDE * SIDE) {
            const int64_t other = static_cast<int64_t>(blockIdx.y) * TILE + i;
            const float drift = other < job.k ? job.drift[problem * job.k + other] : 0;
            sh.drift[i] = drift >= 0 ? drift : INFINITY;
        }
        near_squares(job, job.c + problem * job.k * job.d, &sh, square);
        near_count(job, problem, &sh, square);
    }
}

hf_status hf_near_drifts(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, const struct hf_near *near) {
    const struct hf_assign_problem *p = &rows->problem;
    if (near->most == NULL || step->drift == NULL)
        return HF_OK;
    struct near_job job = {};
    job.c = (const float *)step->c;
    job.drift = step->drift;
    job.k = p->k;
    job.d = p->x.cols;
    job.batch = p->batch;
    job.near = *near;
    /* a chain of d squares, the root, this product; 2^-24 each, twice what they need */
    job.shrink = 1 - (float)((double)(job.d + 16) * 0x1p-24);
    job.guide = step->guide;
    job.stop = step->stop;
    const unsigned tiles = (unsigned)((job.k + TILE - 1) / TILE);
    const dim3 grid(tiles, tiles, (unsigned)(job.batch < 65535 ? job.batch : 65535));
    near_drifts<<<grid, SIDE * SIDE, 0, cuda->stream>>>(job);
    return hf_cuda_launched(cuda, "assign: drifts of near centroids");
}
