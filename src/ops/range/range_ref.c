/* SPDX-License-Identifier: Apache-2.0
 * Reference of range. Adding +0 turns -0 into +0, so that equal minima are the same bits whichever
 * row came first. */
#include "base/dtype.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/range/range.h"
#include "ops/reference.h"
#include <math.h>

#define GRAIN 256 /* rows */

/* What a worker found: extremes [2, d] and sums [2, d] after the counters. */
struct worker {
    int64_t bad_rows;
    bool whole;
    double extremes[];
};

struct range_job {
    const struct hf_range_args *args;
    char *ws;
};

static size_t worker_bytes(const struct hf_range_args *args) {
    return hf_align_up(sizeof(struct worker) + 4 * (size_t)args->x.cols * sizeof(double));
}

static size_t range_workspace(const struct hf_call *call) {
    return (size_t)call->device->workers * worker_bytes(call->args);
}

static struct worker *worker_at(const struct range_job *job, int worker) {
    return (struct worker *)(void *)(job->ws + (size_t)worker * worker_bytes(job->args));
}

static bool row_is_finite(const void *row, hf_dtype dtype, int64_t d) {
    for (int64_t j = 0; j < d; j++)
        if (!isfinite(hf_load_f64(row, dtype, j)))
            return false;
    return true;
}

static void range_rows(void *job, int worker, int64_t begin, int64_t end) {
    const struct hf_range_args *args = ((struct range_job *)job)->args;
    struct worker *own = worker_at(job, worker);
    const int64_t d = args->x.cols;
    for (int64_t i = begin; i < end; i++) {
        const void *row = hf_array_row(&args->x, i);
        const bool bad = !row_is_finite(row, args->x.dtype, d);
        args->row_bad[i] = bad;
        own->bad_rows += bad;
        for (int64_t j = 0; j < d && !bad; j++) {
            const double v = hf_load_f64(row, args->x.dtype, j) + 0.0;
            own->extremes[j] = fmin(own->extremes[j], v);
            own->extremes[d + j] = fmax(own->extremes[d + j], v);
            own->extremes[2 * d + j] += v;
            own->extremes[3 * d + j] += v * v;
            own->whole = own->whole && v == rint(v);
        }
    }
}

static void range_problem(void *stream, const struct hf_range_args *args, void *ws) {
    struct range_job job = {args, ws};
    const int workers = hf_pool_workers(stream);
    const int64_t d = args->x.cols;
    for (int w = 0; w < workers; w++) {
        struct worker *own = worker_at(&job, w);
        own->bad_rows = 0;
        own->whole = true;
        for (int64_t j = 0; j < d; j++) {
            own->extremes[j] = INFINITY;
            own->extremes[d + j] = -INFINITY;
            own->extremes[2 * d + j] = own->extremes[3 * d + j] = 0;
        }
    }
    hf_parallel_for(stream, args->x.rows, GRAIN, range_rows, &job);
    for (int w = 0; w < workers; w++) {
        const struct worker *own = worker_at(&job, w);
        *args->bad_rows += own->bad_rows;
        *args->whole = *args->whole && own->whole;
        for (int64_t j = 0; j < d; j++) {
            args->min[j] = fmin(args->min[j], own->extremes[j]);
            args->max[j] = fmax(args->max[j], own->extremes[d + j]);
        }
        for (int64_t j = 0; args->sums && j < 2 * d; j++)
            args->sums[j] += own->extremes[2 * d + j];
    }
}

static hf_status range_run(const struct hf_call *call) {
    const struct hf_range_args *args = call->args;
    for (int64_t i = 0; i < hf_range_batch(args); i++) {
        const struct hf_range_args one = hf_range_problem(args, i);
        range_problem(call->stream, &one, call->ws);
    }
    return HF_OK;
}

static double range_estimate(const struct hf_call *call) {
    const struct hf_range_args *args = call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_estimate_ns(30 * values, 1, values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel kernels[] = {{.name = "range_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .workspace = range_workspace,
                                            .run = range_run,
                                            .estimate = range_estimate}};

const struct hf_kernel_table hf_range_kernels_scalar = {kernels, 1};
