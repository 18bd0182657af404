/* SPDX-License-Identifier: Apache-2.0
 * update with OpenCL. On a CPU each of a few work-items has sums of its own, which are added up at
 * the end; where these would take much memory all add to the same with atomics. Elsewhere rows are
 * sorted by cluster first, some at a time. */
#include "core/kernel.h"
#include "device/opencl/opencl.h"
#include "ops/opencl.h"
#include "ops/update/update.h"

#define PRIVATE_CELLS ((int64_t)1 << 20) /* of all parts together */

/* update.cl */
#define ROWS 256
#define SORT_GROUP 256
#define MOST_SORTED 1024

static int64_t sum_cells(const struct hf_sums *s) { return s->limbs * s->k * s->d; }

static int64_t cells_of(const struct hf_sums *s) {
    return sum_cells(s) + s->k + (s->weight != NULL ? s->limbs * s->k : 0);
}

/* How many parts; 0: atomics. */
static int64_t parts_of(const struct hf_device_props *device, const struct hf_update_args *a) {
    const int64_t parts = device->units;
    return device->wide && a->x.rows > parts && parts * cells_of(a->sums) <= PRIVATE_CELLS ? parts
                                                                                           : 0;
}

static size_t update_workspace(const struct hf_call *call) {
    const struct hf_update_args *a = call->args;
    return (size_t)(parts_of(call->device, a) * cells_of(a->sums)) * sizeof(int64_t);
}

/* Rows of a cluster are added up before they meet others in memory. */
static hf_status move_sorted(const struct hf_call *call, const struct hf_update_args *a,
                             const struct hf_sums *s) {
    const int64_t groups = (a->x.rows + ROWS - 1) / ROWS;
    const int64_t most = (int64_t)call->device->units * HF_OPENCL_WAVES;
    const struct hf_cl_job job = {.source = "update",
                                  .kernel = "update_sorted",
                                  .global = SORT_GROUP * (size_t)(groups < most ? groups : most),
                                  .group = SORT_GROUP};
    return hf_opencl_run(call->stream, &job, "pniiinpppppppdinn", a->x.data, (int32_t)a->x.dtype,
                         a->x.row_stride, a->x.rows, a->x.cols, (int32_t)a->metric, a->weights,
                         a->old_labels, a->labels, s->sum, s->count, s->weight, s->mult,
                         s->weight_mult, s->k, (int32_t)s->limbs, (int32_t)s->bits);
}

static hf_status move(const struct hf_call *call, const struct hf_update_args *a,
                      const struct hf_sums *s) {
    struct hf_opencl *cl = call->stream;
    const int64_t parts = parts_of(call->device, a), cells = cells_of(s), n = a->x.rows;
    if (!call->device->wide && s->k <= MOST_SORTED)
        return move_sorted(call, a, s);
    struct hf_cl_job job = hf_opencl_job(call->device, "update", "update_rows", n);
    if (parts > 0) {
        job.global = (size_t)parts;
        HF_TRY(hf_opencl_fill(cl, call->ws, 0, (size_t)(parts * cells) * sizeof(int64_t)));
    }
    HF_TRY(hf_opencl_run(cl, &job, "pniiinpppppppdinnni", a->x.data, (int32_t)a->x.dtype,
                         a->x.row_stride, n, a->x.cols, (int32_t)a->metric, a->weights,
                         a->old_labels, a->labels, parts > 0 ? call->ws : s->sum, s->count,
                         s->weight, s->mult, s->weight_mult, s->k, (int32_t)s->limbs,
                         (int32_t)s->bits, (int32_t)(parts > 0), cells));
    if (parts == 0)
        return HF_OK;
    const struct hf_cl_job join = hf_opencl_job(call->device, "update", "update_join", cells);
    return hf_opencl_run(cl, &join, "pnipipip", call->ws, (int32_t)parts, cells, s->sum,
                         sum_cells(s), s->count, s->k, s->weight);
}

static hf_status update_run(const struct hf_call *call) {
    struct hf_update_args a = *(const struct hf_update_args *)call->args;
    struct hf_sums s = *a.sums;
    struct hf_cl_stage stage;
    const size_t n = (size_t)a.x.rows, limbs = (size_t)s.limbs;
    hf_cl_stage_begin(&stage, call->stream);
    a.x = hf_cl_array(&stage, &a.x);
    a.weights = hf_cl_in(&stage, a.weights, n * sizeof *a.weights);
    a.old_labels = hf_cl_in(&stage, a.old_labels, n * sizeof *a.old_labels);
    a.labels = hf_cl_in(&stage, a.labels, n * sizeof *a.labels);
    s.mult = hf_cl_in(&stage, s.mult, (size_t)s.d * sizeof *s.mult);
    s.sum = hf_cl_inout(&stage, s.sum, (size_t)sum_cells(&s) * sizeof *s.sum);
    s.count = hf_cl_inout(&stage, s.count, (size_t)s.k * sizeof *s.count);
    s.weight = hf_cl_inout(&stage, s.weight, limbs * (size_t)s.k * sizeof *s.weight);
    a.sums = &s;
    return hf_cl_stage_end(&stage, stage.status == HF_OK ? move(call, &a, &s) : stage.status);
}

static const struct hf_kernel kernels[] = {{.name = "update_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = update_workspace,
                                            .run = update_run}};

const struct hf_kernel_table hf_update_kernels_opencl = {kernels, 1};
