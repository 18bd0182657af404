/* SPDX-License-Identifier: Apache-2.0
 * spmv on CUDA. Stencils and short rows in slices have a thread each, a block of threads for each
 * part of SPARSE_PART rows, with its terms of the sums over rows. Compressed rows are read in
 * groups of about as many elements as a block of threads has room for; another launch then has the
 * terms. A last one adds up the parts. */
#include "base/mem.h"
#include "ops/slices.cuh"
#include "ops/spmv/spmv.h"
#include "ops/stencils.cuh"

struct spmv_job {
    struct hf_sparse a;
    struct hf_slices slices;
    const double *x, *b;
    double *y;
    double *square, *dot; /* [parts] NULL: not wanted */
};

static __device__ __forceinline__ double spmv_y(const spmv_job &job, int64_t i, double sum) {
    return job.b != NULL ? __dsub_rn(job.b[i], sum) : sum;
}

/* y_of(i): y of row i, to be stored if STORE. */
template <bool STORE, typename Y>
static __device__ __forceinline__ void all_parts(const spmv_job &job, Y y_of) {
    __shared__ double squares[SPARSE_PART], dots[SPARSE_PART];
    const int64_t parts = (job.a.rows + SPARSE_PART - 1) / SPARSE_PART;
    for (int64_t part = blockIdx.x; part < parts; part += gridDim.x) {
        const int64_t first = part * SPARSE_PART, left = job.a.rows - first;
        const int count = left < SPARSE_PART ? (int)left : SPARSE_PART;
        for (int own = (int)threadIdx.x; own < count; own += SPARSE_THREADS) {
            const double y = y_of(first + own);
            if (STORE)
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

/* group: rows that a block of threads takes at once. */
template <typename V>
static __global__ void __launch_bounds__(SPARSE_GROUP_THREADS, 8)
    spmv_rows(struct spmv_job job, int group) {
    __shared__ double product[SPARSE_EACH * SPARSE_GROUP_THREADS];
    const auto x = [&](int32_t j) { return job.x[j]; };
    for (int64_t at = (int64_t)blockIdx.x * group; at < job.a.rows;
         at += (int64_t)gridDim.x * group) {
        const int64_t until = at + group < job.a.rows ? at + group : job.a.rows;
        const int64_t i = at + threadIdx.x;
        const double sum = sparse_row<V, SPARSE_GROUP_THREADS>(job.a, at, until, product, x);
        if (i < until)
            job.y[i] = spmv_y(job, i, sum);
    }
}

/* The sums, of the y that there are. */
static __global__ void __launch_bounds__(SPARSE_THREADS) spmv_sums(struct spmv_job job) {
    all_parts<false>(job, [&](int64_t i) { return job.y[i]; });
}

template <typename V>
static __global__ void __launch_bounds__(SPARSE_THREADS, 4) spmv_slices(struct spmv_job job) {
    const uint64_t policy = sparse_policy(job.a);
    all_parts<true>(
        job, [&](int64_t i) { return spmv_y(job, i, slice_row<V>(job.slices, i, policy, job.x)); });
}

template <bool APART>
static __global__ void __launch_bounds__(SPARSE_THREADS) spmv_stencils(struct spmv_job job) {
    extern __shared__ double stencil_room[];
    const struct hf_stencils &s = job.a.stencils;
    const struct stencil_table table = load_stencils(s, stencil_room);
    all_parts<true>(job, [&](int64_t i) {
        const double diagonal = APART ? s.diagonal[i] : 0;
        return spmv_y(job, i, stencil_row<APART>(table, s.of_row[i], diagonal, job.x + i));
    });
}

static cudaError_t launch_stencils(struct hf_cuda *cuda, const struct spmv_job &job,
                                   unsigned grid) {
    const auto kernel =
        job.a.stencils.diagonal != NULL ? spmv_stencils<true> : spmv_stencils<false>;
    const size_t bytes = hf_stencil_table_bytes(job.a.stencils); /* beside static memory */
    const cudaError_t error = hf_cuda_room(cuda, (const void *)kernel);
    if (error == cudaSuccess)
        kernel<<<grid, SPARSE_THREADS, bytes, cuda->stream>>>(job);
    return error;
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

template <typename V> static void launch_rows(const struct hf_cuda *cuda, const spmv_job &job) {
    const unsigned grid = sparse_grid(cuda, hf_sparse_parts(job.a.rows));
    const int group = hf_sparse_group(job.a);
    if (hf_has_slices(job.a)) {
        spmv_slices<V><<<grid, SPARSE_THREADS, 0, cuda->stream>>>(job);
        return;
    }
    spmv_rows<V>
        <<<sparse_grid(cuda, job.a.rows / group + 1), SPARSE_GROUP_THREADS, 0, cuda->stream>>>(
            job, group);
    if (job.square != NULL || job.dot != NULL)
        spmv_sums<<<grid, SPARSE_THREADS, 0, cuda->stream>>>(job);
}

/* Returns what became of the launch. */
static hf_status launch(struct hf_cuda *cuda, const struct spmv_job &job) {
    const unsigned grid = sparse_grid(cuda, hf_sparse_parts(job.a.rows));
    cudaError_t error = cudaSuccess;
    if (job.a.stencils.count > 0)
        error = launch_stencils(cuda, job, grid);
    else
        hf_for_sparse(job.a.dtype, [&](auto type) { launch_rows<decltype(type)>(cuda, job); });
    HF_TRY(hf_cuda_check(cuda, error, "spmv"));
    return hf_cuda_launched(cuda, "spmv");
}

static hf_status spmv_run(const struct hf_call *call) {
    const struct hf_spmv_args *args = (const struct hf_spmv_args *)call->args;
    const int64_t rows = args->a.rows;
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    struct hf_stage stage;
    struct spmv_job job;
    hf_stage_begin(&stage, call->stream);
    (void)carve(args, &job, call->ws);
    job.a = args->a;
    job.slices = {};
    if (args->a.stencils.count > 0) /* its rows themselves are not read, nor are those of slices */
        job.a.stencils = hf_stage_stencils(&stage, args->a.stencils, rows);
    else if (hf_has_slices(args->a))
        job.slices = hf_stage_slices(&stage, args->a);
    else
        job.a = hf_stage_sparse(&stage, &args->a);
    job.x = (const double *)hf_stage_in(&stage, args->x, hf_vector_bytes(args->a.cols));
    job.y = (double *)hf_stage_inout(&stage, args->y, hf_vector_bytes(rows));
    job.b = args->b == args->y
                ? job.y
                : (const double *)hf_stage_in(&stage, args->b, hf_vector_bytes(rows));
    const struct sparse_totals totals = {
        {job.square, job.dot},
        {(double *)hf_stage_out(&stage, args->square, sizeof(double)),
         (double *)hf_stage_out(&stage, args->dot, sizeof(double))},
        hf_sparse_parts(rows)};
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    const hf_status status = launch(cuda, job);
    sparse_launch_totals(cuda, totals);
    return hf_stage_end(&stage, status);
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
