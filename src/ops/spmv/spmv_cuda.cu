/* SPDX-License-Identifier: Apache-2.0
 * spmv on CUDA: a block of threads for each part of SPARSE_PART rows, with its terms of the sums
 * over rows; a second launch adds up the parts. */
#include "base/mem.h"
#include "ops/sparse.cuh"
#include "ops/spmv/spmv.h"

struct spmv_job {
    struct hf_sparse a;
    const double *x, *b;
    double *y;
    double *square, *dot; /* [parts] NULL: not wanted */
};

template <typename V>
static __global__ void __launch_bounds__(SPARSE_THREADS) spmv_rows(struct spmv_job job) {
    __shared__ double product[SPARSE_CHUNK], squares[SPARSE_PART], dots[SPARSE_PART];
    const int64_t parts = (job.a.rows + SPARSE_PART - 1) / SPARSE_PART;
    const auto x = [&](int32_t j) { return job.x[j]; };
    for (int64_t part = blockIdx.x; part < parts; part += gridDim.x) {
        const int64_t first = part * SPARSE_PART, left = job.a.rows - first;
        const int count = left < SPARSE_PART ? (int)left : SPARSE_PART;
        for (int at = 0; at < count; at += SPARSE_THREADS) {
            const int until = at + SPARSE_THREADS < count ? at + SPARSE_THREADS : count;
            const int own = at + (int)threadIdx.x;
            const double sum = sparse_row<V>(job.a, first + at, first + until, product, x);
            if (own >= until)
                continue;
            const double y = job.b != NULL ? __dsub_rn(job.b[first + own], sum) : sum;
            job.y[first + own] = y;
            squares[own] = __dmul_rn(y, y);
            if (job.dot != NULL)
                dots[own] = __dmul_rn(y, job.x[first + own]);
        }
        if (job.square == NULL && job.dot == NULL)
            continue;
        __syncthreads();
        const bool is_dot = threadIdx.x / 32 == 1;
        double *out = threadIdx.x >= 64 ? NULL : is_dot ? job.dot : job.square;
        if (out != NULL) {
            const double sum = sparse_terms(is_dot ? dots : squares, count);
            if (threadIdx.x % 32 == 0)
                out[part] = sum;
        }
        __syncthreads();
    }
}

static size_t carve(const struct hf_spmv_args *args, struct spmv_job *job, void *ws) {
    const size_t bytes = hf_vector_bytes(hf_sparse_parts(args->a.rows));
    hf_carve carve = {(char *)ws, 0};
    double *square = (double *)hf_carve_take(&carve, bytes);
    double *dot = (double *)hf_carve_take(&carve, bytes);
    job->square = args->square != NULL ? square : NULL;
    job->dot = args->dot != NULL ? dot : NULL;
    return carve.used;
}

static size_t spmv_workspace(const struct hf_call *call) {
    struct spmv_job job;
    return carve((const struct hf_spmv_args *)call->args, &job, NULL);
}

static hf_status spmv_run(const struct hf_call *call) {
    const struct hf_spmv_args *args = (const struct hf_spmv_args *)call->args;
    const struct hf_cuda *cuda = (const struct hf_cuda *)call->stream;
    const int64_t parts = hf_sparse_parts(args->a.rows);
    struct hf_stage stage;
    struct spmv_job job;
    hf_stage_begin(&stage, call->stream);
    (void)carve(args, &job, call->ws);
    job.a = hf_stage_sparse(&stage, &args->a);
    job.x = (const double *)hf_stage_in(&stage, args->x, hf_vector_bytes(args->a.cols));
    job.y = (double *)hf_stage_inout(&stage, args->y, hf_vector_bytes(args->a.rows));
    job.b = args->b == args->y
                ? job.y
                : (const double *)hf_stage_in(&stage, args->b, hf_vector_bytes(args->a.rows));
    const struct sparse_totals totals = {
        {job.square, job.dot},
        {(double *)hf_stage_out(&stage, args->square, sizeof(double)),
         (double *)hf_stage_out(&stage, args->dot, sizeof(double))},
        parts};
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    hf_for_sparse(args->a.dtype, [&](auto type) {
        spmv_rows<decltype(type)>
            <<<sparse_grid(cuda, parts), SPARSE_THREADS, 0, cuda->stream>>>(job);
    });
    sparse_launch_totals(cuda, totals);
    return hf_stage_end(&stage, hf_cuda_launched(stage.cuda, "spmv"));
}

static double spmv_estimate(const struct hf_call *call) {
    const struct hf_spmv_args *args = (const struct hf_spmv_args *)call->args;
    return hf_cuda_pass_ns(hf_sparse_bytes(&args->a) + 16.0 * (double)args->a.rows);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("spmv_rows_cuda", HF_DT(HF_F32) | HF_DT(HF_F64), 80, HF_TRAIT_FIXED_ORDER,
                   HF_NO_TILE, NULL, spmv_workspace, spmv_run, spmv_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_spmv_kernels_cuda;
const struct hf_kernel_table hf_spmv_kernels_cuda = {kernels, 1};
}
