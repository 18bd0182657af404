/* SPDX-License-Identifier: Apache-2.0
 * The reference: every distance in float64, then the reference of update for the fused sums. */
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/assign/assign.h"
#include "ops/reference.h"
#include "base/dtype.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

extern const struct hf_kernel_table hf_update_kernels_scalar;

struct ref_job {
    const struct hf_assign_args *args;
    int32_t *old_labels; /* [n] */
    double *c64;         /* [k, d] */
    double *x64;         /* [workers, d] */
    _Atomic int64_t changed;
    _Atomic uint32_t bounds; /* what is added to their sum */
};

static size_t carve_job(struct ref_job *job, const struct hf_assign_args *a, int workers,
                        void *ws) {
    hf_carve carve = {ws, 0};
    const size_t d = (size_t)a->x.cols;
    job->old_labels = hf_carve_take(&carve, sizeof(int32_t) * (size_t)a->x.rows);
    job->c64 = hf_carve_take(&carve, sizeof(double) * d * (size_t)a->c.rows);
    job->x64 = hf_carve_take(&carve, sizeof(double) * d * (size_t)workers);
    return carve.used;
}

static size_t ref_workspace(const struct hf_call *call) {
    struct ref_job job;
    return carve_job(&job, call->args, call->device->workers, NULL);
}

/* Bounds of row i from its least and second least distance, widened by what float64 may be off. */
static uint32_t write_bounds(struct hf_assign_bounds *b, int64_t i, int64_t d, double least,
                             double second) {
    const double slack = (double)(d + 4) * 0x1p-52;
    const double up = sqrt(least) * (1 + slack);
    const double low = sqrt(second) * (1 - slack);
    return hf_bounds_put(b, i, nextafterf((float)up, INFINITY),
                         fmaxf(0, nextafterf((float)low, -INFINITY)));
}

static void ref_rows(void *user, int worker, int64_t begin, int64_t end) {
    struct ref_job *job = user;
    const struct hf_assign_args *a = job->args;
    const int64_t d = a->x.cols;
    double *x = job->x64 + worker * d;
    int64_t changed = 0;
    uint32_t bounds = 0;
    for (int64_t i = begin; i < end; i++) {
        hf_to_f64(x, hf_array_row(&a->x, i), a->x.dtype, d);
        int32_t label = 0;
        double least = INFINITY;
        double second = INFINITY;
        for (int64_t k = 0; k < a->c.rows; k++) {
            const double dist = hf_reference_distance(a->metric, x, job->c64 + k * d, d);
            if (dist < least) {
                second = least;
                least = dist;
                label = (int32_t)k;
            } else if (dist < second) {
                second = dist;
            }
        }
        changed += a->labels[i] != label;
        job->old_labels[i] = a->labels[i];
        a->labels[i] = label;
        if (a->bounds)
            bounds += write_bounds(a->bounds, i, d, least, second);
    }
    atomic_fetch_add_explicit(&job->changed, changed, memory_order_relaxed);
    atomic_fetch_add_explicit(&job->bounds, bounds, memory_order_relaxed);
}

static hf_status ref_run(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    struct ref_job job = {.args = a};
    carve_job(&job, a, hf_pool_workers(call->stream), call->ws);
    for (int64_t k = 0; k < a->c.rows; k++)
        hf_to_f64(job.c64 + k * a->x.cols, hf_array_row(&a->c, k), a->c.dtype, a->x.cols);
    hf_parallel_for(call->stream, a->x.rows, 64, ref_rows, &job);
    a->stats->changed += job.changed;
    if (a->bounds && a->bounds->sum)
        *a->bounds->sum += job.bounds;
    a->stats->rechecked += a->x.rows;
    a->stats->float64 += a->x.rows;
    a->stats->pairs += a->x.rows * a->c.rows;
    if (a->old_labels)
        memcpy(a->old_labels, job.old_labels, sizeof(int32_t) * (size_t)a->x.rows);
    if (!a->sums)
        return HF_OK;
    const struct hf_update_args update = {.x = a->x,
                                          .metric = a->metric,
                                          .weights = a->weights,
                                          .old_labels = job.old_labels,
                                          .labels = a->labels,
                                          .sums = a->sums};
    const struct hf_kernel *row = hf_update_kernels_scalar.kernels;
    return hf_run_part(call, row, &update, NULL);
}

static double ref_estimate(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    return 1.5 * (double)a->x.rows * (double)a->c.rows * (double)a->x.cols;
}

static const struct hf_kernel kernels[] = {{
    .name = "assign_ref",
    .device = HF_DEV_HOST,
    .dtypes = HF_DT_DATA,
    .isa = HF_ISA_ID_scalar,
    .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
    .tile = {1, 1, 1},
    .workspace = ref_workspace,
    .run = ref_run,
    .estimate = ref_estimate,
}};

const struct hf_kernel_table hf_assign_kernels_scalar = {kernels, 1};
