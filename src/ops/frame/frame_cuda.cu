/* SPDX-License-Identifier: Apache-2.0
 * frame on CUDA. A median is the value of the sample with so many before it: a thread has one value
 * and counts those. A block to a column, then one to a problem for the lengths of its rows, which a
 * thread adds up in the reference's order. */
#include "core/array.h"
#include "core/kernel.h"
#include "device/cuda/load.cuh"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"
#include "ops/frame/frame.h"

#define THREADS HF_FRAME_ROWS

struct frame_job {
    const char *x; /* [batch * n, d] */
    int64_t n, d, row_bytes, batch;
    int m;                               /* rows of a problem's sample */
    const double *mean;                  /* [batch, d] */
    double *median;                      /* [batch, d] */
    double *length_mean, *length_median; /* [batch] */
};

/* The value of one thread each, the first m of the block: the lower median to *out. */
__device__ static void put_median(double v, int m, double *out) {
    __shared__ double all[THREADS];
    const int own = static_cast<int>(threadIdx.x);
    __syncthreads(); /* the last values are no longer needed */
    all[own] = v;
    __syncthreads();
    int before = 0;
    for (int i = 0; i < m; i++)
        before += all[i] < v || (all[i] == v && i < own);
    if (own < m && before == (m - 1) / 2) /* hf_frame_rank() */
        *out = v + 0.0;
}

/* This thread's row of the sample of problem b. */
__device__ static const char *sampled(const struct frame_job &job, int64_t b) {
    const int64_t i = threadIdx.x < job.m ? threadIdx.x : 0;
    return job.x + (b * job.n + i * job.n / job.m) * job.row_bytes;
}

template <hf_dtype T>
static __global__ void __launch_bounds__(THREADS) column_medians(const struct frame_job job) {
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y)
        for (int64_t j = blockIdx.x; j < job.d; j += gridDim.x)
            put_median(hf_device_load<T>(sampled(job, b), j), job.m, job.median + b * job.d + j);
}

template <hf_dtype T>
static __global__ void __launch_bounds__(THREADS) median_lengths(const struct frame_job job) {
    for (int64_t b = blockIdx.x; b < job.batch; b += gridDim.x) {
        const char *x = sampled(job, b);
        const double *mean = job.mean + b * job.d, *median = job.median + b * job.d;
        double from_mean = 0, from_median = 0;
#pragma unroll 8
        for (int64_t j = 0; j < job.d; j++) {
            const double v = hf_device_load<T>(x, j);
            const double off = __dsub_rn(v, mean[j]), beside = __dsub_rn(v, median[j]);
            from_mean = __dadd_rn(from_mean, __dmul_rn(off, off));
            from_median = __dadd_rn(from_median, __dmul_rn(beside, beside));
        }
        put_median(__dsqrt_rn(from_mean), job.m, job.length_mean + b);
        put_median(__dsqrt_rn(from_median), job.m, job.length_median + b);
    }
}

static unsigned at_most(int64_t blocks, int64_t most) {
    return (unsigned)(blocks < most ? blocks : most);
}

template <hf_dtype T> static void launch(const struct hf_cuda *cuda, const struct frame_job &job) {
    const unsigned batch = at_most(job.batch, 65535);
    const dim3 grid(at_most(job.d, 65535), batch);
    column_medians<T><<<grid, THREADS, 0, cuda->stream>>>(job);
    median_lengths<T><<<batch, THREADS, 0, cuda->stream>>>(job);
}

static hf_status frame_run(const struct hf_call *call) {
    const struct hf_frame_args *a = (const struct hf_frame_args *)call->args;
    struct hf_stage stage;
    struct frame_job job = {};
    hf_stage_begin(&stage, call->stream);
    const hf_array x = hf_stage_array(&stage, &a->x);
    job.batch = hf_frame_batch(a);
    job.d = x.cols;
    const size_t problems = sizeof(double) * (size_t)job.batch, columns = problems * (size_t)job.d;
    job.mean = (const double *)hf_stage_in(&stage, a->mean, columns);
    job.median = (double *)hf_stage_out(&stage, a->median, columns);
    job.length_mean = (double *)hf_stage_out(&stage, a->length_mean, problems);
    job.length_median = (double *)hf_stage_out(&stage, a->length_median, problems);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    job.x = (const char *)x.data;
    job.n = x.rows / job.batch;
    job.m = (int)hf_frame_rows(job.n, job.d);
    job.row_bytes = hf_array_stride(&x) * (int64_t)hf_dtype_bytes(x.dtype);
    hf_for_dtype(x.dtype, [&](auto type) {
        launch<decltype(type)::value>((const struct hf_cuda *)call->stream, job);
    });
    return hf_stage_end(&stage, hf_cuda_launched((struct hf_cuda *)call->stream, "frame"));
}

static double frame_estimate(const struct hf_call *call) {
    const struct hf_frame_args *a = (const struct hf_frame_args *)call->args;
    return hf_cuda_pass_ns(100.0 * (double)hf_frame_batch(a) * (double)a->x.cols);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("frame_any_cuda", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE, NULL, NULL,
                   frame_run, frame_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_frame_kernels_cuda;
const struct hf_kernel_table hf_frame_kernels_cuda = {kernels, 1};
}
