/* SPDX-License-Identifier: Apache-2.0
 * axpy on all threads: SPARSE_PART elements at a time, update and sum while they are in the cache.
 * */
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/axpy/axpy.h"
#include "ops/estimate.h"

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_axpy_kernels) = {NULL, 0};
#else
#include "ops/sparse_sum.h"

#define GRAIN (4 * SPARSE_PART) /* elements of a range */

struct axpy_job {
    const struct hf_axpy_args *args;
    double *part; /* [parts] */
};

static size_t axpy_workspace(const struct hf_call *call) {
    const struct hf_axpy_args *args = call->args;
    return (size_t)hf_sparse_parts(args->n) * sizeof(double);
}

ALWAYS_INLINE void update(const struct hf_axpy_args *args, bool scaled, bool fresh, int64_t begin,
                          int64_t end) {
    const double *x = args->x, *scale = args->scale;
    const double alpha = args->alpha, beta = args->beta;
    double *y = args->y;
    int64_t i = begin;
    for (; i + VDW <= end; i += VDW) {
        const vd from = vd_load(x + i);
        const vd term = vd_mul(vd_set1(alpha), scaled ? vd_mul(vd_load(scale + i), from) : from);
        vd_store(y + i, fresh ? term : vd_add(vd_mul(vd_set1(beta), vd_load(y + i)), term));
    }
    for (; i < end; i++) {
        const double term = alpha * (scaled ? scale[i] * x[i] : x[i]);
        y[i] = fresh ? term : beta * y[i] + term;
    }
}

static void run_part(const struct axpy_job *job, int64_t begin, int64_t end) {
    const struct hf_axpy_args *args = job->args;
    const bool scaled = args->scale != NULL, fresh = args->beta == 0;
    if (args->x != NULL && scaled && fresh)
        update(args, true, true, begin, end);
    else if (args->x != NULL && scaled)
        update(args, true, false, begin, end);
    else if (args->x != NULL && fresh)
        update(args, false, true, begin, end);
    else if (args->x != NULL)
        update(args, false, false, begin, end);
    if (args->dot != NULL)
        job->part[begin / SPARSE_PART] =
            sparse_part_sum(args->y + begin, args->w + begin, end - begin);
}

static void run_range(void *user, int worker, int64_t begin, int64_t end) {
    (void)worker;
    for (int64_t first = begin; first < end; first += SPARSE_PART)
        run_part(user, first, end - first < SPARSE_PART ? end : first + SPARSE_PART);
}

static hf_status axpy_run(const struct hf_call *call) {
    struct axpy_job job = {.args = call->args, .part = call->ws};
    hf_parallel_for(call->stream, job.args->n, GRAIN, run_range, &job);
    if (job.args->dot != NULL)
        *job.args->dot = hf_sparse_total(job.part, hf_sparse_parts(job.args->n));
    return HF_OK;
}

static double axpy_estimate(const struct hf_call *call) {
    const struct hf_axpy_args *args = call->args;
    return hf_estimate_ns(8.0 * (double)args->n, VDW, 32.0 * (double)args->n);
}

static const struct hf_kernel kernels[] = {{.name = "axpy_parts_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F64),
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = axpy_workspace,
                                            .run = axpy_run,
                                            .estimate = axpy_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_axpy_kernels) = {kernels, 1};

#endif
