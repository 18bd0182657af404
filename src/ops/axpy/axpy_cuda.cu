/* SPDX-License-Identifier: Apache-2.0
 * axpy on CUDA: a block of threads for each part of SPARSE_PART elements, and its part of the sum;
 * a second launch adds up the parts. */
#include "base/mem.h"
#include "ops/axpy/axpy.h"
#include "ops/sparse.cuh"

struct axpy_job {
    int64_t n;
    double alpha, beta;
    const double *x, *scale, *w;
    double *y;
    double *part; /* [parts] NULL: no sum is wanted */
};

static __device__ __forceinline__ double next_y(const struct axpy_job &job, int64_t i) {
    if (job.x == NULL)
        return job.y[i];
    const double x = job.scale != NULL ? __dmul_rn(job.scale[i], job.x[i]) : job.x[i];
    const double term = __dmul_rn(job.alpha, x);
    return job.beta == 0 ? term : __dadd_rn(__dmul_rn(job.beta, job.y[i]), term);
}

static __global__ void __launch_bounds__(SPARSE_THREADS) axpy_parts(struct axpy_job job) {
    __shared__ double terms[SPARSE_PART];
    const int64_t parts = (job.n + SPARSE_PART - 1) / SPARSE_PART;
    for (int64_t part = blockIdx.x; part < parts; part += gridDim.x) {
        const int64_t first = part * SPARSE_PART, left = job.n - first;
        const int count = left < SPARSE_PART ? (int)left : SPARSE_PART;
#pragma unroll
        for (int group = 0; group < SPARSE_GROUPS; group++) {
            const int own = group * SPARSE_THREADS + (int)threadIdx.x;
            if (own >= count)
                continue;
            const double y = next_y(job, first + own);
            if (job.x != NULL)
                job.y[first + own] = y;
            if (job.part != NULL)
                terms[own] = __dmul_rn(y, job.w == job.y ? y : job.w[first + own]);
        }
        if (job.part == NULL)
            continue;
        __syncthreads();
        if (threadIdx.x < 32) {
            const double sum = sparse_terms(terms, count);
            if (threadIdx.x == 0)
                job.part[part] = sum;
        }
        __syncthreads();
    }
}

static size_t axpy_workspace(const struct hf_call *call) {
    const struct hf_axpy_args *args = (const struct hf_axpy_args *)call->args;
    return args->dot != NULL ? hf_vector_bytes(hf_sparse_parts(args->n)) : 0;
}

/* A vector that may be one that has a device view already. */
static const double *view(struct hf_stage *stage, const struct hf_axpy_args *args,
                          const struct axpy_job *job, const double *v) {
    if (v == args->y)
        return job->y;
    if (v == args->x)
        return job->x;
    return (const double *)hf_stage_in(stage, v, hf_vector_bytes(args->n));
}

static hf_status axpy_run(const struct hf_call *call) {
    const struct hf_axpy_args *args = (const struct hf_axpy_args *)call->args;
    const struct hf_cuda *cuda = (const struct hf_cuda *)call->stream;
    const int64_t parts = hf_sparse_parts(args->n);
    struct hf_stage stage;
    struct axpy_job job = {args->n, args->alpha, args->beta, NULL, NULL, NULL, NULL, NULL};
    hf_stage_begin(&stage, call->stream);
    job.y = (double *)hf_stage_inout(&stage, args->y, hf_vector_bytes(args->n));
    job.x = args->x == args->y
                ? job.y
                : (const double *)hf_stage_in(&stage, args->x, hf_vector_bytes(args->n));
    job.scale = view(&stage, args, &job, args->scale);
    job.w = view(&stage, args, &job, args->w);
    job.part = args->dot != NULL ? (double *)call->ws : NULL;
    const struct sparse_totals totals = {
        {job.part, NULL}, {(double *)hf_stage_out(&stage, args->dot, sizeof(double)), NULL}, parts};
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    axpy_parts<<<sparse_grid(cuda, parts), SPARSE_THREADS, 0, cuda->stream>>>(job);
    sparse_launch_totals(cuda, totals);
    return hf_stage_end(&stage, hf_cuda_launched(stage.cuda, "axpy"));
}

static double axpy_estimate(const struct hf_call *call) {
    const struct hf_axpy_args *args = (const struct hf_axpy_args *)call->args;
    return hf_cuda_pass_ns(32.0 * (double)args->n);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("axpy_f64_cuda", HF_DT(HF_F64), 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE, NULL,
                   axpy_workspace, axpy_run, axpy_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_axpy_kernels_cuda;
const struct hf_kernel_table hf_axpy_kernels_cuda = {kernels, 1};
}
