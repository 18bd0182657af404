/* SPDX-License-Identifier: Apache-2.0
 * How far the centroids round each centroid moved. A block compares 64 centroids with 64 others. */
#include "ops/assign/cuda/drifts.cuh"

#include <math.h>

#define TILE 64
#define SIDE 16 /* threads along one side of a tile */
#define PART (TILE / SIDE)
#define DEPTH 16 /* columns at a time */

struct drift_job {
    const float *c;     /* [batch, k, d] */
    const float *drift; /* [batch, k] */
    int64_t k, d, batch;
    struct hf_drifts drifts;
    float shrink; /* what rounding may add to a distance */
    const struct hf_assign_guide *guide;
    const int32_t *stop;
};

struct drift_shared {
    float a[DEPTH][TILE + 1], b[DEPTH][TILE + 1]; /* columns of both sides */
    float drift[TILE];
    int bin[TILE][HF_DRIFT_BINS]; /* bits of the largest drift, which is not negative */
};

/* DEPTH columns of the TILE centroids from `first` on; zeros where there are none. */
__device__ static void drift_load(const struct drift_job &job, const float *c, int64_t first,
                                  int64_t column, float (*to)[TILE + 1]) {
    for (int i = static_cast<int>(threadIdx.x); i < DEPTH * TILE; i += SIDE * SIDE) {
        const int64_t row = first + i / DEPTH;
        const int64_t j = column + i % DEPTH;
        to[i % DEPTH][i / DEPTH] = row < job.k && j < job.d ? c[row * job.d + j] : 0;
    }
}

/* Squared distances of this thread's PART x PART pairs. */
__device__ static void drift_squares(const struct drift_job &job, const float *c,
                                     struct drift_shared *sh, float (*square)[PART]) {
    const int ta = static_cast<int>(threadIdx.x) / SIDE, tb = static_cast<int>(threadIdx.x) % SIDE;
    for (int64_t column = 0; column < job.d; column += DEPTH) {
        __syncthreads();
        drift_load(job, c, static_cast<int64_t>(blockIdx.x) * TILE, column, sh->a);
        drift_load(job, c, static_cast<int64_t>(blockIdx.y) * TILE, column, sh->b);
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
__device__ static void drift_count(const struct drift_job &job, int64_t problem,
                                   struct drift_shared *sh, const float (*square)[PART]) {
    const int ta = static_cast<int>(threadIdx.x) / SIDE, tb = static_cast<int>(threadIdx.x) % SIDE;
    for (int i = 0; i < PART; i++)
        for (int e = 0; e < PART; e++) {
            const int64_t own = static_cast<int64_t>(blockIdx.x) * TILE + ta + i * SIDE;
            const int64_t other = static_cast<int64_t>(blockIdx.y) * TILE + tb + e * SIDE;
            const float drift = sh->drift[tb + e * SIDE];
            if (own == other || own >= job.k || other >= job.k || !(drift > 0))
                continue;
            /* an overflow counts as distance 0, which is always right */
            const float distance = square[i][e] < INFINITY ? sqrtf(square[i][e]) * job.shrink : 0;
            atomicMax(&sh->bin[ta + i * SIDE][hf_drift_bin(job.drifts, distance)],
                      __float_as_int(drift));
        }
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < TILE; i += SIDE * SIDE) {
        const int64_t own = static_cast<int64_t>(blockIdx.x) * TILE + i;
        int most = 0;
        for (int t = 0; own < job.k && t < HF_DRIFT_BINS; t++) {
            most = max(most, sh->bin[i][t]);
            if (most > 0)
                atomicMax(&job.drifts.most[(problem * job.k + own) * HF_DRIFT_BINS + t], most);
        }
    }
}

static __global__ void __launch_bounds__(SIDE *SIDE) collect_drifts(const struct drift_job job) {
    __shared__ struct drift_shared sh;
    if ((job.stop && *job.stop) || (job.guide != nullptr && !job.guide->use))
        return;
    for (int64_t problem = blockIdx.z; problem < job.batch; problem += gridDim.z) {
        float square[PART][PART] = {};
        __syncthreads();
        for (int i = static_cast<int>(threadIdx.x); i < TILE * HF_DRIFT_BINS; i += SIDE * SIDE)
            sh.bin[i / HF_DRIFT_BINS][i % HF_DRIFT_BINS] = 0;
        for (int i = static_cast<int>(threadIdx.x); i < TILE; i += SIDE * SIDE) {
            const int64_t other = static_cast<int64_t>(blockIdx.y) * TILE + i;
            const float drift = other < job.k ? job.drift[problem * job.k + other] : 0;
            sh.drift[i] = drift >= 0 ? drift : INFINITY;
        }
        drift_squares(job, job.c + problem * job.k * job.d, &sh, square);
        drift_count(job, problem, &sh, square);
    }
}

hf_status hf_drifts_collect(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                            const struct hf_assign_step *step, const struct hf_drifts *drifts) {
    const struct hf_assign_problem *p = &rows->problem;
    if (drifts->most == NULL || step->drift == NULL)
        return HF_OK;
    struct drift_job job = {};
    job.c = (const float *)step->c;
    job.drift = step->drift;
    job.k = p->k;
    job.d = p->x.cols;
    job.batch = p->batch;
    job.drifts = *drifts;
    /* a chain of d squares, the root, this product; 2^-24 each, twice what they need */
    job.shrink = 1 - (float)((double)(job.d + 16) * 0x1p-24);
    job.guide = step->guide;
    job.stop = step->stop;
    const unsigned tiles = (unsigned)((job.k + TILE - 1) / TILE);
    const dim3 grid(tiles, tiles, (unsigned)(job.batch < 65535 ? job.batch : 65535));
    collect_drifts<<<grid, SIDE * SIDE, 0, cuda->stream>>>(job);
    return hf_cuda_launched(cuda, "assign: drifts of centroids");
}
