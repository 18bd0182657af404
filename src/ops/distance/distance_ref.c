/* SPDX-License-Identifier: Apache-2.0
 * Reference of distance: every pair through hf_reference_distance(). */
#include "base/dtype.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/distance/distance.h"
#include "ops/estimate.h"
#include "ops/reference.h"
#include <math.h>

#define GRAIN 16 /* rows */

struct distance_job {
    const struct hf_distance_args *args;
    double *vectors; /* [workers][2][d] a row and a centroid as float64 */
};

static size_t distance_workspace(const struct hf_call *call) {
    const struct hf_distance_args *args = call->args;
    return (size_t)call->device->workers * 2 * (size_t)args->x.cols * sizeof(double);
}

static void distance_rows(void *job_, int worker, int64_t begin, int64_t end) {
    const struct distance_job *job = job_;
    const struct hf_distance_args *args = job->args;
    const int64_t d = args->x.cols;
    const int64_t k = args->c.rows;
    double *x = job->vectors + worker * 2 * d;
    double *c = x + d;
    for (int64_t i = begin; i < end; i++) {
        hf_to_f64(x, hf_array_row(&args->x, i), args->x.dtype, d);
        for (int64_t l = 0; l < k; l++) {
            hf_to_f64(c, hf_array_row(&args->c, l), args->c.dtype, d);
            const double distance = hf_reference_distance(args->metric, x, c, d);
            args->out[i * k + l] =
                args->root && args->metric == HF_EUCLIDEAN ? sqrt(distance) : distance;
        }
    }
}

static hf_status distance_run(const struct hf_call *call) {
    struct distance_job job = {call->args, call->ws};
    hf_parallel_for(call->stream, job.args->x.rows, GRAIN, distance_rows, &job);
    return HF_OK;
}

static double distance_estimate(const struct hf_call *call) {
    const struct hf_distance_args *args = call->args;
    const double pairs = (double)args->x.rows * (double)args->c.rows;
    return hf_estimate_ns(16 * pairs * (double)args->x.cols, 1, 8 * pairs);
}

static const struct hf_kernel kernels[] = {{.name = "distance_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .workspace = distance_workspace,
                                            .run = distance_run,
                                            .estimate = distance_estimate}};

const struct hf_kernel_table hf_distance_kernels_scalar = {kernels, 1};
