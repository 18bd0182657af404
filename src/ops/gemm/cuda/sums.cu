/* SPDX-License-Identifier: Apache-2.0
 * Sums of rows and columns on a GPU. Each warp of a block has a band of its own; what they have of
 * the columns is added up at the end. */
#include "device/cuda/cuda.h"
#include "device/cuda/stage_direct.h"
#include "ops/gemm/cuda/sums_band.cuh"

#define THREADS 256
#define WARPS (THREADS / 32)
#define EACH SUMS_EACH
#define COLS SUMS_COLS
#define ROWS (WARPS * SUMS_BAND) /* of a block */

struct sums_job {
    struct hf_sums_pass p;
    bool wide; /* EACH numbers from a multiple of EACH on may be read at once */
};

/* What the warps of a block have of their columns. */
template <typename U>
static __device__ __forceinline__ void add_columns(const struct hf_sums_pass &p,
                                                   U (*shared)[2][COLS], const lane_sums<U> &own) {
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, t = (int)threadIdx.x;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        shared[warp][0][i * 32 + lane] = own.col[i];
        shared[warp][1][i * 32 + lane] = own.col_size[i];
    }
    __syncthreads();
    const int64_t at = (int64_t)blockIdx.x * COLS + t % 32 * EACH + t / 32;
    double sum = 0, size = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        sum += shared[w][0][t];
        size += shared[w][1][t];
    }
    if (at < p.cols) {
        atomicAdd(&p.col[at], sum);
        atomicAdd(&p.col_size[at], size);
    }
}

template <typename T, bool ROW, bool COL>
static __global__ void __launch_bounds__(THREADS, 2) sums_kernel(const struct sums_job job) {
    typedef typename sums_short<T>::type U;
    __shared__ U shared[COL ? WARPS : 1][2][COLS];
    const struct hf_sums_pass &p = job.p;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int64_t first = (int64_t)blockIdx.x * COLS + lane * EACH;
    const int64_t begin = (int64_t)blockIdx.y * ROWS + warp * SUMS_BAND;
    lane_sums<U> own = {};
    sums_band<T, ROW, COL, 2>(p, job.wide, first, begin, min(begin + SUMS_BAND, p.rows), own);
    if constexpr (COL)
        add_columns(p, shared, own);
}

template <typename T> static void launch(struct hf_cuda *cuda, const struct sums_job &job) {
    const dim3 grid((unsigned)((job.p.cols + COLS - 1) / COLS),
                    (unsigned)((job.p.rows + ROWS - 1) / ROWS));
    const bool both = job.p.by_col == NULL && job.p.by_col_size == NULL;
    if (job.p.row != NULL && job.p.col != NULL && both) {
        sums_kernel<T, true, true><<<grid, THREADS, 0, cuda->stream>>>(job);
        return;
    }
    if (job.p.row != NULL)
        sums_kernel<T, true, false><<<grid, THREADS, 0, cuda->stream>>>(job);
    if (job.p.col != NULL)
        sums_kernel<T, false, true><<<grid, THREADS, 0, cuda->stream>>>(job);
}

hf_status hf_gemm_sums_cuda(void *stream, const struct hf_sums_pass *pass) {
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    struct sums_job job = {*pass, false};
    job.wide = (uintptr_t)pass->m.data % 16 == 0 && pass->m.row % 16 == 0;
    switch (pass->m.dtype) {
    case HF_F32:
        launch<float>(cuda, job);
        break;
    case HF_F64:
        launch<double>(cuda, job);
        break;
    case HF_F16:
        launch<sums_f16>(cuda, job);
        break;
    case HF_BF16:
        launch<sums_bf16>(cuda, job);
        break;
    case HF_I8:
        launch<int8_t>(cuda, job);
        break;
    default:
        launch<int32_t>(cuda, job);
    }
    return hf_cuda_launched(cuda, "gemm sums");
}

/* Lines [0, n), whose six arrays begin at `of`. */
static __device__ void check_lines(const struct hf_sums_bound &bound, const double *of, int64_t n,
                                   int64_t length, uint32_t *suspect) {
    for (int64_t i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS)
        if (!hf_sums_plausible(&bound, length, hf_sums_line(of, n, i)))
            *suspect = 1;
}

static __global__ void __launch_bounds__(THREADS)
    check_kernel(const struct hf_sums_bound bound, const double *sums, uint32_t *suspect) {
    check_lines(bound, sums, bound.m, bound.n, suspect);
    check_lines(bound, sums + 6 * bound.m, bound.n, bound.m, suspect);
}

hf_status hf_gemm_suspects_cuda(void *stream, const struct hf_sums_bound *bound, const double *sums,
                                uint32_t *suspect) {
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    const int64_t lines = bound->m > bound->n ? bound->m : bound->n;
    const int64_t blocks = (lines + THREADS - 1) / THREADS, most = 2 * (int64_t)cuda->sms;
    struct hf_stage stage;
    hf_status status = HF_OK;
    *suspect = 0;
    hf_stage_begin(&stage, stream);
    uint32_t *const told = (uint32_t *)hf_stage_direct(&stage, suspect, sizeof *suspect);
    if (hf_stage_ready(&stage)) {
        check_kernel<<<(unsigned)(blocks < most ? blocks : most), THREADS, 0, cuda->stream>>>(
            *bound, sums, told);
        status = hf_cuda_launched(cuda, "gemm sums");
    }
    return hf_stage_end(&stage, status);
}
