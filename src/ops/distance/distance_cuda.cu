/* SPDX-License-Identifier: Apache-2.0
 * distance on CUDA: float64 register tiles, bound by the float64 units. */
#include "core/kernel.h"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"
#include "ops/distance/distance.h"
#include "ops/tiles.cuh"

#define FEW 8 /* centroids that get a tile of their own */

struct distance_job {
    struct hf_tile_side x, c;
    int64_t d;
    bool root;
    double *out; /* [n, k] */
};

template <int TX, int R, int Q, hf_metric M>
static __global__ void __launch_bounds__(HF_TILE_THREADS, 2)
    distance_tiles(const struct distance_job job) {
    constexpr int ROWS = hf_tile_rows<TX, R>, CENTS = hf_tile_cents<TX, Q>;
    __shared__ hf_tile_smem<ROWS, CENTS> smem;
    const int64_t across = (job.c.rows + CENTS - 1) / CENTS;
    const int64_t row = blockIdx.x / across * ROWS + threadIdx.x / TX;
    const int64_t cent = blockIdx.x % across * CENTS + threadIdx.x % TX;
    double dist[R][Q];
    hf_tile_distances<TX, R, Q, M>(dist, job.x, job.c, blockIdx.x / across * ROWS,
                                   blockIdx.x % across * CENTS, job.d, smem);
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int q = 0; q < Q; q++) {
            const int64_t i = row + (int64_t)(HF_TILE_THREADS / TX) * r;
            const int64_t l = cent + (int64_t)TX * q;
            if (i < job.x.rows && l < job.c.rows)
                job.out[i * job.c.rows + l] = job.root ? __dsqrt_rn(dist[r][q]) : dist[r][q];
        }
}

template <int TX, int R, int Q, hf_metric M>
static hf_status launch_tile(struct hf_cuda *cuda, const struct distance_job &job) {
    const int64_t down = (job.x.rows + hf_tile_rows<TX, R> - 1) / hf_tile_rows<TX, R>;
    const int64_t across = (job.c.rows + hf_tile_cents<TX, Q> - 1) / hf_tile_cents<TX, Q>;
    distance_tiles<TX, R, Q, M>
        <<<(unsigned)(down * across), HF_TILE_THREADS, 0, cuda->stream>>>(job);
    return hf_cuda_launched(cuda, "distance");
}

template <hf_metric M>
static hf_status launch_metric(struct hf_cuda *cuda, const struct distance_job &job) {
    return job.c.rows <= FEW ? launch_tile<FEW, 4, 1, M>(cuda, job)
                             : launch_tile<16, 4, 4, M>(cuda, job);
}

static hf_status launch(struct hf_cuda *cuda, hf_metric metric, const struct distance_job &job) {
    switch (metric) {
    case HF_COSINE:
        return launch_metric<HF_COSINE>(cuda, job);
    case HF_DOT:
        return launch_metric<HF_DOT>(cuda, job);
    default:
        return launch_metric<HF_EUCLIDEAN>(cuda, job);
    }
}

static struct hf_tile_side side_of(const hf_array *a) {
    struct hf_tile_side side;
    side.data = (const char *)a->data;
    side.row_bytes = (a->row_stride ? a->row_stride : a->cols) * (int64_t)hf_dtype_bytes(a->dtype);
    side.rows = a->rows;
    side.dtype = a->dtype;
    return side;
}

static hf_status distance_run(const struct hf_call *call) {
    const struct hf_distance_args *args = (const struct hf_distance_args *)call->args;
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    const hf_array x = hf_stage_array(&stage, &args->x);
    const hf_array c = hf_stage_array(&stage, &args->c);
    struct distance_job job;
    job.out = (double *)hf_stage_out(&stage, args->out,
                                     (size_t)x.rows * (size_t)c.rows * sizeof *job.out);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    job.x = side_of(&x);
    job.c = side_of(&c);
    job.d = x.cols;
    job.root = args->root && args->metric == HF_EUCLIDEAN;
    return hf_stage_end(&stage, launch((struct hf_cuda *)call->stream, args->metric, job));
}

/* Float64 operations at the rate of an H200's 132 multiprocessors, or what is written. */
static double distance_estimate(const struct hf_call *call) {
    const struct hf_distance_args *args = (const struct hf_distance_args *)call->args;
    const double pairs = (double)args->x.rows * (double)args->c.rows;
    const double compute = 3 * pairs * (double)args->x.cols / 12000.0;
    const double memory = hf_cuda_pass_ns(8 * pairs);
    return compute + 5000 > memory ? compute + 5000 : memory;
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("distance_any_cuda", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER,
                   HF_TILE(64, 64, HF_TILE_DEPTH), NULL, NULL, distance_run, distance_estimate,
                   NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_distance_kernels_cuda;
const struct hf_kernel_table hf_distance_kernels_cuda = {kernels, 1};
}
