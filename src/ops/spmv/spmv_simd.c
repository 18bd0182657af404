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

static double part_sum(const double *y, const double *other, int64_t count) {
    struct sparse_sum sum = {{0}};
    int64_t i = 0;
    for (; i + SPARSE_LANES <= count; i += SPARSE_LANES)
        for (int lane = 0; lane < SPARSE_LANES; lane++)
            sum.lane[lane] += y[i + lane] * other[i + lane];
    for (; i < count; i++)
        sparse_sum_add(&sum, i, y[i] * other[i]);
    return sparse_sum_end(&sum);
}

static void run_rows(void *user, int worker, int64_t begin, int64_t end) {
    const struct spmv_job *job = user;
    const struct hf_spmv_args *args = job->args;
    (void)worker;
    if (args->a.dtype == HF_F32)
        multiply_rows(args, HF_F32, begin, end);
    else
        multiply_rows(args, HF_F64, begin, end);
    if (args->square != NULL)
        job->square[begin / SPARSE_PART] = part_sum(args->y + begin, args->y + begin, end - begin);
    if (args->dot != NULL)
        job->dot[begin / SPARSE_PART] = part_sum(args->y + begin, args->x + begin, end - begin);
}

static hf_status spmv_run(const struct hf_call *call) {
    struct spmv_job job = {.args = call->args};
    const int64_t rows = job.args->a.rows, parts = hf_sparse_parts(rows);
    (void)carve_job(&job, call->ws);
    hf_parallel_for(call->stream, rows, SPARSE_PART, run_rows, &job);
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
