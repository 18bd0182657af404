/* SPDX-License-Identifier: Apache-2.0
 * spmv on all threads: a part of SPARSE_PART rows at a time. Sums over rows run in vectors, those
 * over the elements of a row one by one: the CPU works on the next rows meanwhile. */
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/spmv/spmv.h"

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_spmv_kernels) = {NULL, 0};
#else
#include "ops/slices_dot.h"
#include "ops/sparse_sum.h"

struct spmv_job {
    const struct hf_spmv_args *args;
    double *square, *dot; /* [parts] */
};

static size_t carve_job(struct spmv_job *job, void *ws) {
    const size_t bytes = (size_t)hf_sparse_parts(job->args->a.rows) * sizeof(double);
    hf_carve carve = {ws, 0};
    job->square = hf_carve_take(&carve, bytes);
    job->dot = hf_carve_take(&carve, bytes);
    return carve.used;
}

static size_t spmv_workspace(const struct hf_call *call) {
    struct spmv_job job = {.args = call->args};
    return carve_job(&job, NULL);
}

ALWAYS_INLINE void multiply_rows(const struct hf_spmv_args *args, hf_dtype dtype, int64_t begin,
                                 int64_t end) {
    const struct hf_sparse *a = &args->a;
    int64_t first = a->row_start[begin];
    for (int64_t i = begin; i < end; i++) {
        const int64_t last = a->row_start[i + 1];
        const double sum = sparse_dot(a, dtype, first, last, args->x);
        args->y[i] = args->b != NULL ? args->b[i] - sum : sum;
        first = last;
    }
}

ALWAYS_INLINE void multiply_slices(const struct hf_spmv_args *args, hf_dtype dtype, int64_t begin,
                                   int64_t end) {
    for (int64_t i = begin; i < end; i += SLICE_ROWS) {
        const int64_t rows = end - i < SLICE_ROWS ? end - i : SLICE_ROWS;
        vd sum[SLICE_VECTORS];
        slice_dot(args->a.slices, dtype, i / SLICE_ROWS, args->x, sum);
        if (args->b != NULL) {
            vd b[SLICE_VECTORS];
            slice_load(args->b + i, rows, b);
            UNROLL(2) for (int v = 0; v < SLICE_VECTORS; v++) sum[v] = vd_sub(b[v], sum[v]);
        }
        slice_store(args->y + i, rows, sum);
    }
}

static void run_part(const struct spmv_job *job, int64_t begin, int64_t end) {
    const struct hf_spmv_args *args = job->args;
    const bool sliced = args->a.slices != NULL && args->a.slices->ranges == 1;
    if (sliced && args->a.dtype == HF_F32)
        multiply_slices(args, HF_F32, begin, end);
    else if (sliced)
        multiply_slices(args, HF_F64, begin, end);
    else if (args->a.dtype == HF_F32)
        multiply_rows(args, HF_F32, begin, end);
    else
        multiply_rows(args, HF_F64, begin, end);
    if (args->square != NULL)
        job->square[begin / SPARSE_PART] =
            sparse_part_sum(args->y + begin, args->y + begin, end - begin);
    if (args->dot != NULL)
        job->dot[begin / SPARSE_PART] =
            sparse_part_sum(args->y + begin, args->x + begin, end - begin);
}

static void run_range(void *user, int worker, int64_t begin, int64_t end) {
    (void)worker;
    for (int64_t first = begin; first < end; first += SPARSE_PART)
        run_part(user, first, end - first < SPARSE_PART ? end : first + SPARSE_PART);
}

static hf_status spmv_run(const struct hf_call *call) {
    struct spmv_job job = {.args = call->args};
    const int64_t rows = job.args->a.rows, parts = hf_sparse_parts(rows);
    (void)carve_job(&job, call->ws);
    const int64_t grain = hf_sparse_grain(&job.args->a, 1, SPARSE_PART);
    hf_parallel_for(call->stream, rows, grain, run_range, &job);
    if (job.args->square != NULL)
        *job.args->square = hf_sparse_total(job.square, parts);
    if (job.args->dot != NULL)
        *job.args->dot = hf_sparse_total(job.dot, parts);
    return HF_OK;
}

static double spmv_estimate(const struct hf_call *call) {
    const struct hf_spmv_args *args = call->args;
    const double elements = (double)args->a.elements;
    return hf_estimate_ns(4 * elements, 1, hf_sparse_bytes(&args->a));
}

static const struct hf_kernel kernels[] = {{.name = "spmv_rows_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = spmv_workspace,
                                            .run = spmv_run,
                                            .estimate = spmv_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_spmv_kernels) = {kernels, 1};

#endif
