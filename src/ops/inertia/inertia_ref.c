/* SPDX-License-Identifier: Apache-2.0
 * Reference of inertia: one row after the other through hf_reference_distance(). */
#include "base/dtype.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/inertia/inertia.h"
#include "ops/reference.h"

#define GRAIN 256 /* rows */

/* What a worker has of its own: its sum, then a row and a centroid as float64 [2, d]. */
struct worker {
    hf_wide sum;
    double vectors[];
};

struct inertia_job {
    const struct hf_inertia_args *args;
    char *ws;
};

static size_t worker_bytes(const struct hf_inertia_args *args) {
    return hf_align_up(sizeof(struct worker) + 2 * (size_t)args->x.cols * sizeof(double));
}

static size_t inertia_workspace(const struct hf_call *call) {
    return (size_t)call->device->workers * worker_bytes(call->args);
}

static struct worker *worker_at(const struct inertia_job *job, int worker) {
    return (struct worker *)(void *)(job->ws + (size_t)worker * worker_bytes(job->args));
}

static void sum_rows(void *job, int worker, int64_t begin, int64_t end) {
    const struct hf_inertia_args *args = ((struct inertia_job *)job)->args;
    struct worker *own = worker_at(job, worker);
    const int64_t d = args->x.cols;
    for (int64_t i = begin; i < end; i++) {
        hf_to_f64(own->vectors, hf_array_row(&args->x, i), args->x.dtype, d);
        hf_to_f64(own->vectors + d, hf_array_row(&args->c, args->labels[i]), args->c.dtype, d);
        const double distance =
            hf_reference_distance(args->metric, own->vectors, own->vectors + d, d);
        if (args->distances)
            args->distances[i] = distance;
        hf_wide_add(&own->sum, args->weights ? args->weights[i] * distance : distance);
    }
}

static hf_status inertia_run(const struct hf_call *call) {
    struct inertia_job job = {call->args, call->ws};
    const int workers = hf_pool_workers(call->stream);
    for (int w = 0; w < workers; w++)
        worker_at(&job, w)->sum = (hf_wide){.special = 0};
    hf_parallel_for(call->stream, job.args->x.rows, GRAIN, sum_rows, &job);
    for (int w = 0; w < workers; w++)
        hf_wide_merge(job.args->sum, &worker_at(&job, w)->sum);
    return HF_OK;
}

static double inertia_estimate(const struct hf_call *call) {
    const struct hf_inertia_args *args = call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_estimate_ns(16 * values, 1, values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel kernels[] = {{.name = "inertia_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .workspace = inertia_workspace,
                                            .run = inertia_run,
                                            .estimate = inertia_estimate}};

const struct hf_kernel_table hf_inertia_kernels_scalar = {kernels, 1};
