/* SPDX-License-Identifier: Apache-2.0
 * patches on CUDA: a block of threads solves in a patch whose factor is an inverse, SPARSE_LANES
 * threads to a row; a warp goes through the rows of triangles. A second launch adds up. */
#include "base/mem.h"
#include "ops/patches/patches.h"
#include "ops/sparse.cuh"

#define WARP 32
#define SHARED_ROWS 2048 /* of a patch whose right-hand side lies in shared memory */

struct patches_job {
    int64_t n, patches;
    const int64_t *patch_start, *envelope, *own_start, *own;
    const int32_t *patch_row;
    const uint8_t *inverse;
    const void *factor;
    const double *r;
    double scale;
    bool add;
    double *z;
    double *solved; /* [places] */
};

/* By all threads of the block. */
template <typename V>
static __device__ void multiply(const struct patches_job &job, int64_t start, int64_t rows,
                                double *near) {
    const int64_t each = SPARSE_THREADS / SPARSE_LANES;
    double *z = job.solved + start;
    for (int64_t base = 0; base < rows; base += each) {
        const int64_t i = base + threadIdx.x / SPARSE_LANES;
        const bool mine = i < rows;
        double lane = 0;
        for (int64_t first = 0; first < rows; first += SHARED_ROWS) {
            const int64_t count = rows - first < SHARED_ROWS ? rows - first : SHARED_ROWS;
            if (base == 0 || rows > SHARED_ROWS) {
                __syncthreads();
                for (int64_t t = threadIdx.x; t < count; t += SPARSE_THREADS)
                    near[t] = job.r[job.patch_row[start + first + t]];
                __syncthreads();
            }
            const V *row = (const V *)job.factor + (mine ? job.envelope[start + i] : 0) + first;
            for (int64_t t = threadIdx.x % SPARSE_LANES; mine && t < count; t += SPARSE_LANES)
                lane = __dadd_rn(lane, __dmul_rn((double)row[t], near[t]));
        }
        lane = sparse_lanes_fold(lane, 0xffffffffu);
        if (mine && threadIdx.x % SPARSE_LANES == 0)
            z[i] = lane;
    }
    __syncthreads();
}

/* By a warp; z is written and read by its threads alone. */
template <typename V>
static __device__ void substitute(const struct patches_job &job, int64_t start, int64_t rows) {
    const V *factor = (const V *)job.factor;
    const int thread = (int)threadIdx.x % WARP;
    volatile double *z = job.solved + start;
    for (int64_t i = 0; i < rows; i++) {
        const int64_t first = job.envelope[start + i];
        const int64_t count = job.envelope[start + i + 1] - first - 1;
        double lane = 0;
        for (int64_t t = thread; thread < SPARSE_LANES && t < count; t += SPARSE_LANES)
            lane = __dadd_rn(lane, __dmul_rn((double)factor[first + t], z[i - count + t]));
        lane = sparse_lanes_fold(lane, 0xffffffffu);
        if (thread == 0)
            z[i] = __dmul_rn(__dsub_rn(job.r[job.patch_row[start + i]], lane),
                             (double)factor[first + count]);
        __syncwarp();
    }
    for (int64_t i = rows - 1; i >= 0; i--) {
        const int64_t first = job.envelope[start + i];
        const int64_t count = job.envelope[start + i + 1] - first - 1;
        const double own = __dmul_rn(z[i], (double)factor[first + count]);
        __syncwarp();
        if (thread == 0)
            z[i] = own;
        for (int64_t t = thread; t < count; t += WARP)
            z[i - count + t] =
                __dsub_rn(z[i - count + t], __dmul_rn((double)factor[first + t], own));
        __syncwarp();
    }
}

template <typename V>
static __global__ void __launch_bounds__(SPARSE_THREADS) patches_solve(struct patches_job job) {
    __shared__ double near[SHARED_ROWS];
    for (int64_t patch = blockIdx.x; patch < job.patches; patch += gridDim.x) {
        const int64_t start = job.patch_start[patch], rows = job.patch_start[patch + 1] - start;
        if (job.inverse[patch])
            multiply<V>(job, start, rows, near);
        else if (threadIdx.x < WARP)
            substitute<V>(job, start, rows);
    }
}

static __global__ void __launch_bounds__(SPARSE_THREADS) patches_add(struct patches_job job) {
    const int64_t step = (int64_t)gridDim.x * SPARSE_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * SPARSE_THREADS + threadIdx.x; i < job.n; i += step) {
        double sum = 0;
        for (int64_t e = job.own_start[i]; e < job.own_start[i + 1]; e++)
            sum = __dadd_rn(sum, job.solved[job.own[e]]);
        const double term = __dmul_rn(job.scale, sum);
        job.z[i] = job.add ? __dadd_rn(job.z[i], term) : term;
    }
}

static size_t patches_workspace(const struct hf_call *call) {
    const struct hf_patches_args *args = (const struct hf_patches_args *)call->args;
    return hf_vector_bytes(args->places);
}

static struct patches_job stage_job(struct hf_stage *stage, const struct hf_patches_args *args) {
    struct patches_job job;
    const size_t n = hf_vector_bytes(args->n), places = hf_vector_bytes(args->places);
    job.n = args->n;
    job.patches = args->patches;
    job.patch_start =
        (const int64_t *)hf_stage_in(stage, args->patch_start, hf_vector_bytes(args->patches + 1));
    job.envelope = (const int64_t *)hf_stage_in(stage, args->envelope, places + sizeof(int64_t));
    job.own_start = (const int64_t *)hf_stage_in(stage, args->own_start, n + sizeof(int64_t));
    job.own = (const int64_t *)hf_stage_in(stage, args->own, places);
    job.patch_row = (const int32_t *)hf_stage_in(stage, args->patch_row, places / 2);
    job.inverse = (const uint8_t *)hf_stage_in(stage, args->inverse, (size_t)args->patches);
    job.factor =
        hf_stage_in(stage, args->factor, (size_t)args->elements * hf_dtype_bytes(args->dtype));
    job.scale = args->scale;
    job.add = args->add;
    job.z = (double *)hf_stage_inout(stage, args->z, n);
    job.r = args->r == args->z ? job.z : (const double *)hf_stage_in(stage, args->r, n);
    return job;
}

static hf_status patches_run(const struct hf_call *call) {
    const struct hf_patches_args *args = (const struct hf_patches_args *)call->args;
    const struct hf_cuda *cuda = (const struct hf_cuda *)call->stream;
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    struct patches_job job = stage_job(&stage, args);
    job.solved = (double *)call->ws;
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    hf_for_sparse(args->dtype, [&](auto type) {
        patches_solve<decltype(type)>
            <<<sparse_grid(cuda, args->patches), SPARSE_THREADS, 0, cuda->stream>>>(job);
    });
    const int64_t groups = (args->n + SPARSE_THREADS - 1) / SPARSE_THREADS;
    patches_add<<<sparse_grid(cuda, groups), SPARSE_THREADS, 0, cuda->stream>>>(job);
    return hf_stage_end(&stage, hf_cuda_launched(stage.cuda, "patches"));
}

static double patches_estimate(const struct hf_call *call) {
    const struct hf_patches_args *args = (const struct hf_patches_args *)call->args;
    return hf_cuda_pass_ns(8.0 * (double)args->elements + 24.0 * (double)args->places);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("patches_rows_cuda", HF_DT(HF_F32) | HF_DT(HF_F64), 80, HF_TRAIT_FIXED_ORDER,
                   HF_NO_TILE, NULL, patches_workspace, patches_run, patches_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_patches_kernels_cuda;
const struct hf_kernel_table hf_patches_kernels_cuda = {kernels, 1};
}
