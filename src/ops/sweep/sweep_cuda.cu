/* SPDX-License-Identifier: Apache-2.0
 * sweep on CUDA; here with k > 1 of compressed rows: a block of threads for each block of rows.
 * What lies outside it is added up once; the x inside is in shared memory, or in the workspace
 * where a block is too large for that. */
#include "base/mem.h"
#include "ops/sweep/sweep_once.cuh"
#include "ops/sweep/sweep_stencils.cuh"

#define SHARED_ROWS 512 /* of a block whose x lies in shared memory */

/* x of a block, and b - what is outside. */
struct inside {
    double *x, *next, *outside; /* [largest] */
};

/* The first local sweep: the whole rows. Returns a lane of the sum of squares. */
template <typename V>
static __device__ double first_sweep(const struct sweep_job &job, int64_t block,
                                     const struct inside &own, double *product, double *terms) {
    const int64_t begin = job.block_start[block], end = job.block_start[block + 1];
    const bool frozen = job.frozen != NULL && job.frozen[block];
    const auto x = [&](int32_t j) { return job.x[j]; };
    double lane = 0;
    for (int64_t at = begin; at < end; at += SPARSE_THREADS) {
        const int64_t until = at + SPARSE_THREADS < end ? at + SPARSE_THREADS : end;
        const int64_t i = at + threadIdx.x;
        const bool mine = i < until;
        double out = 0, in = 0;
        if (job.x != NULL) { /* else nothing of the matrix is needed */
            const int64_t left = mine ? job.a.row_start[i] + job.inner[2 * i] : 0;
            const int64_t right = mine ? left + job.inner[2 * i + 1] : 0;
            sparse_walk<V>(job.a, at, until, product, x, [&](int64_t e, double term) {
                if (e >= left && e < right)
                    in = __dadd_rn(in, term);
                else
                    out = __dadd_rn(out, term);
            });
        }
        if (mine) {
            const double rest = __dsub_rn(job.b[i], out);
            const double r = __dsub_rn(rest, in), before = job.x != NULL ? job.x[i] : 0.0;
            const double after = frozen ? before : next_x(job, i, before, job.inverse[i], r);
            terms[threadIdx.x] = __dmul_rn(r, r);
            if (frozen) {
                job.x_new[i] = after;
            } else {
                own.outside[i - begin] = rest;
                own.next[i - begin] = after;
            }
        }
        __syncthreads();
        lane = add_squares(lane, terms, (int)(until - at));
    }
    return lane;
}

/* The others: the elements inside alone. */
template <typename V>
static __device__ void local_sweeps(const struct sweep_job &job, int64_t block,
                                    const struct inside &own) {
    const int64_t begin = job.block_start[block], rows = job.block_start[block + 1] - begin;
    const V *value = (const V *)job.a.value;
    double *x = own.next, *next = own.x;
    for (int k = 1; k < job.k; k++) {
        __syncthreads();
        for (int64_t p = threadIdx.x; p < rows; p += SPARSE_THREADS) {
            const int64_t i = begin + p, first = job.a.row_start[i] + job.inner[2 * i];
            const int64_t last = first + job.inner[2 * i + 1];
            double in = 0;
            for (int64_t e = first; e < last; e++)
                in = __dadd_rn(in, __dmul_rn((double)value[e], x[job.a.column[e] - begin]));
            const double r = __dsub_rn(own.outside[p], in);
            next[p] = sparse_relaxed(x[p], job.damping, job.inverse[i], r);
        }
        double *const before = x;
        x = next;
        next = before;
    }
    __syncthreads();
    for (int64_t p = threadIdx.x; p < rows; p += SPARSE_THREADS)
        job.x_new[begin + p] = x[p];
}

template <typename V>
static __global__ void __launch_bounds__(SPARSE_THREADS, 4) sweep_blocks(struct sweep_job job) {
    __shared__ double product[SPARSE_CHUNK], terms[SPARSE_THREADS], near[3 * SHARED_ROWS];
    double *scratch =
        job.scratch != NULL ? job.scratch + 3 * job.largest * (int64_t)blockIdx.x : near;
    const struct inside own = {scratch, scratch + job.largest, scratch + 2 * job.largest};
    for (int64_t block = blockIdx.x; block < job.blocks; block += gridDim.x) {
        const double lane = first_sweep<V>(job, block, own, product, terms);
        if (job.square != NULL)
            put_square(job, block, lane);
        if (job.frozen == NULL || !job.frozen[block])
            local_sweeps<V>(job, block, own);
        __syncthreads();
    }
}

static size_t carve(const struct hf_sweep_args *args, int sms, struct sweep_job *job, void *ws) {
    const bool near = args->k == 1 || args->largest <= SHARED_ROWS;
    const bool apart = args->k == 1 && args->square != NULL && !hf_sweep_by_threads(args);
    hf_carve carve = {(char *)ws, 0};
    double *square = (double *)hf_carve_take(&carve, hf_vector_bytes(args->blocks));
    job->square = args->square != NULL ? square : NULL;
    job->terms = apart ? (double *)hf_carve_take(&carve, hf_vector_bytes(args->a.rows)) : NULL;
    job->scratch = near ? NULL
                        : (double *)hf_carve_take(
                              &carve, hf_vector_bytes(16 * (int64_t)sms * 3 * args->largest));
    return carve.used;
}

static size_t sweep_workspace(const struct hf_call *call) {
    struct sweep_job job;
    return carve((const struct hf_sweep_args *)call->args, call->device->sms, &job, NULL);
}

/* What lies outside the workspace, as the device sees it. */
static void stage_job(struct hf_stage *stage, const struct hf_sweep_args *args,
                      struct sweep_job *job) {
    const size_t rows = hf_vector_bytes(args->a.rows);
    job->a = args->a;
    if (hf_sweep_by_stencils(args) || hf_sweep_by_threads(args)) {
        job->a.stencils = hf_stage_stencils(stage, args->a.stencils, args->a.rows);
        job->slices = hf_stage_slices(stage, args->a); /* the rows themselves are not read */
    } else {
        job->a = hf_stage_sparse(stage, &args->a);
        job->inner = (const int32_t *)hf_stage_in(stage, args->inner, rows); /* two of 4 bytes */
    }
    job->inverse = (const double *)hf_stage_in(stage, args->inverse, rows);
    job->block_start =
        (const int64_t *)hf_stage_in(stage, args->block_start, hf_vector_bytes(args->blocks + 1));
    job->blocks = args->blocks;
    job->largest = args->largest;
    job->k = args->k;
    job->damping = args->damping;
    job->momentum = args->momentum;
    job->frozen = (const uint8_t *)hf_stage_in(stage, args->frozen, (size_t)args->blocks);
    job->b = (const double *)hf_stage_in(stage, args->b, rows);
    job->x = (const double *)hf_stage_in(stage, args->x, rows);
    job->before = (const double *)hf_stage_in(stage, args->before, rows);
    job->x_new = (double *)hf_stage_out(stage, args->x_new, rows);
}

static hf_status sweep_run(const struct hf_call *call) {
    const struct hf_sweep_args *args = (const struct hf_sweep_args *)call->args;
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    struct hf_stage stage;
    struct sweep_job job;
    hf_stage_begin(&stage, call->stream);
    (void)carve(args, cuda->sms, &job, call->ws);
    stage_job(&stage, args, &job);
    const struct sparse_totals totals = {
        {job.square, NULL},
        {(double *)hf_stage_out(&stage, args->square, sizeof(double)), NULL},
        args->blocks};
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    cudaError_t error = cudaSuccess;
    if (hf_sweep_by_stencils(args))
        error = sweep_run_stencils(cuda, job);
    else if (hf_sweep_by_threads(args))
        error = sweep_run_threads(cuda, job);
    else if (args->k == 1)
        sweep_run_rows(cuda, job);
    else
        hf_for_sparse(args->a.dtype, [&](auto type) {
            sweep_blocks<decltype(type)>
                <<<sparse_grid(cuda, args->blocks), SPARSE_THREADS, 0, cuda->stream>>>(job);
        });
    sparse_launch_totals(cuda, totals);
    hf_status status = hf_cuda_check(cuda, error, "sweep");
    if (status == HF_OK)
        status = hf_cuda_launched(cuda, "sweep");
    return hf_stage_end(&stage, status);
}

static double sweep_estimate(const struct hf_call *call) {
    const struct hf_sweep_args *args = (const struct hf_sweep_args *)call->args;
    return hf_cuda_pass_ns(hf_sparse_bytes(&args->a) + 40.0 * (double)args->a.rows);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("sweep_blocks_cuda", HF_DT(HF_F32) | HF_DT(HF_F64), 80, HF_TRAIT_FIXED_ORDER,
                   HF_NO_TILE, NULL, sweep_workspace, sweep_run, sweep_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_sweep_kernels_cuda;
const struct hf_kernel_table hf_sweep_kernels_cuda = {kernels, 1};
}
