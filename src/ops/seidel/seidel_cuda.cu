/* SPDX-License-Identifier: Apache-2.0
 * seidel on CUDA: one launch, whose blocks wait for each other between colours. A warp takes a
 * block of rows, one row after another: its threads multiply, and all add up the products in their
 * order. */
#include "base/mem.h"
#include "device/cuda/grid.cuh"
#include "ops/seidel/seidel.h"
#include "ops/sparse.cuh"

#define WARP 32

struct seidel_job {
    struct hf_sparse a;
    const double *inverse;
    const int64_t *block_start, *colour_start;
    const int32_t *colour_block;
    int64_t colours;
    bool backward;
    double damping;
    const double *b;
    double *x;
    double *square;    /* [blocks] */
    unsigned *barrier; /* 0 */
};

/* r of row i, in all threads of the warp. x changes meanwhile: it is read past the first cache. */
template <typename V>
static __device__ __forceinline__ double row_residual(const struct seidel_job &job, int64_t i) {
    const V *value = (const V *)job.a.value;
    const int64_t last = job.a.row_start[i + 1];
    const int lane = (int)threadIdx.x % WARP;
    double sum = 0;
    for (int64_t e = job.a.row_start[i]; e < last; e += WARP) {
        const int count = last - e < WARP ? (int)(last - e) : WARP;
        double term = 0;
        if (lane < count)
            term = __dmul_rn((double)value[e + lane], __ldcg(&job.x[job.a.column[e + lane]]));
        for (int t = 0; t < count; t++)
            sum = __dadd_rn(sum, __shfl_sync(0xffffffffu, term, t));
    }
    return __dsub_rn(job.b[i], sum);
}

template <typename V>
static __device__ double relax_block(const struct seidel_job &job, int64_t block) {
    const int64_t begin = job.block_start[block], rows = job.block_start[block + 1] - begin;
    double square = 0;
    for (int64_t step = 0; step < rows; step++) {
        const int64_t i = job.backward ? begin + rows - 1 - step : begin + step;
        const double r = row_residual<V>(job, i);
        square = __dadd_rn(square, __dmul_rn(r, r));
        __syncwarp();
        if (threadIdx.x % WARP == 0)
            __stcg(&job.x[i], sparse_relaxed(__ldcg(&job.x[i]), job.damping, job.inverse[i], r));
        __syncwarp();
    }
    return square;
}

template <typename V>
static __global__ void __launch_bounds__(SPARSE_THREADS) seidel_colours(struct seidel_job job) {
    const int64_t warps = (int64_t)gridDim.x * (SPARSE_THREADS / WARP);
    const int64_t warp = ((int64_t)blockIdx.x * SPARSE_THREADS + threadIdx.x) / WARP;
    for (int64_t step = 0; step < job.colours; step++) {
        const int64_t colour = job.backward ? job.colours - 1 - step : step;
        const int64_t end = job.colour_start[colour + 1];
        for (int64_t at = job.colour_start[colour] + warp; at < end; at += warps) {
            const double square = relax_block<V>(job, job.colour_block[at]);
            if (threadIdx.x % WARP == 0)
                job.square[at] = square;
        }
        hf_grid_wait(job.barrier);
    }
}

static size_t carve(const struct hf_seidel_args *args, struct seidel_job *job, void *ws) {
    hf_carve carve = {(char *)ws, 0};
    job->square = (double *)hf_carve_take(&carve, hf_vector_bytes(args->blocks));
    job->barrier = (unsigned *)hf_carve_take(&carve, sizeof *job->barrier);
    return carve.used;
}

static size_t seidel_workspace(const struct hf_call *call) {
    struct seidel_job job;
    return carve((const struct hf_seidel_args *)call->args, &job, NULL);
}

static cudaError_t launch(const struct hf_cuda *cuda, const struct hf_seidel_args *args,
                          struct seidel_job *job) {
    cudaError_t error = cudaSuccess;
    hf_for_sparse(args->a.dtype, [&](auto type) {
        const void *kernel = (const void *)seidel_colours<decltype(type)>;
        int each = 1;
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, kernel, SPARSE_THREADS, 0);
        const int64_t full = (int64_t)(each < 4 ? each : 4) * cuda->sms;
        const int64_t wanted = (args->blocks + SPARSE_THREADS / WARP - 1) / (SPARSE_THREADS / WARP);
        const dim3 grid((unsigned)(wanted < full ? wanted : full));
        void *list[] = {job};
        if (error == cudaSuccess)
            error = cudaMemsetAsync(job->barrier, 0, sizeof *job->barrier, cuda->stream);
        if (error == cudaSuccess)
            error = cudaLaunchCooperativeKernel(kernel, grid, dim3(SPARSE_THREADS), list, 0,
                                                cuda->stream);
    });
    return error;
}

static hf_status seidel_run(const struct hf_call *call) {
    const struct hf_seidel_args *args = (const struct hf_seidel_args *)call->args;
    const size_t rows = hf_vector_bytes(args->a.rows);
    struct hf_stage stage;
    struct seidel_job job;
    hf_stage_begin(&stage, call->stream);
    (void)carve(args, &job, call->ws);
    job.a = hf_stage_sparse(&stage, &args->a);
    job.inverse = (const double *)hf_stage_in(&stage, args->inverse, rows);
    job.block_start =
        (const int64_t *)hf_stage_in(&stage, args->block_start, hf_vector_bytes(args->blocks + 1));
    job.colour_start = (const int64_t *)hf_stage_in(&stage, args->colour_start,
                                                    hf_vector_bytes(args->colours + 1));
    job.colour_block = (const int32_t *)hf_stage_in(&stage, args->colour_block,
                                                    (size_t)args->blocks * sizeof(int32_t));
    job.colours = args->colours;
    job.backward = args->backward;
    job.damping = args->damping;
    job.b = (const double *)hf_stage_in(&stage, args->b, rows);
    job.x = (double *)hf_stage_inout(&stage, args->x, rows);
    const struct sparse_totals totals = {
        {job.square, NULL},
        {(double *)hf_stage_out(&stage, args->square, sizeof(double)), NULL},
        args->blocks};
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    const hf_status launched = hf_cuda_check(stage.cuda, launch(stage.cuda, args, &job), "seidel");
    if (launched == HF_OK)
        sparse_launch_totals(stage.cuda, totals);
    return hf_stage_end(&stage, launched);
}

static bool seidel_supports(const struct hf_call *call) {
    return ((const struct hf_seidel_args *)call->args)->before == NULL;
}

static double seidel_estimate(const struct hf_call *call) {
    const struct hf_seidel_args *args = (const struct hf_seidel_args *)call->args;
    return hf_cuda_pass_ns(hf_sparse_bytes(&args->a)) + 2000.0 * (double)args->colours;
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("seidel_colours_cuda", HF_DT(HF_F32) | HF_DT(HF_F64), 80, HF_TRAIT_FIXED_ORDER,
                   HF_NO_TILE, seidel_supports, seidel_workspace, seidel_run, seidel_estimate,
                   NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_seidel_kernels_cuda;
const struct hf_kernel_table hf_seidel_kernels_cuda = {kernels, 1};
}
