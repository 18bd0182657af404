/* SPDX-License-Identifier: Apache-2.0
 * distance with OpenCL: a work-item compares a row with 8 centroids at once. */
#include "ops/distance/distance.h"
#include "ops/opencl.h"

static size_t distance_workspace(const struct hf_call *call) {
    const struct hf_distance_args *a = call->args;
    struct hf_opencl_panels panels;
    hf_carve carve = {NULL, 0};
    hf_opencl_panels_carve(&carve, a->c.rows, a->c.cols, &panels);
    return carve.used;
}

static hf_status pairs(const struct hf_call *call, struct hf_cl_stage *stage) {
    const struct hf_distance_args *a = call->args;
    struct hf_opencl_panels panels;
    hf_carve carve = {call->ws, 0};
    hf_opencl_panels_carve(&carve, a->c.rows, a->c.cols, &panels);
    const hf_array x = hf_cl_array(stage, &a->x), c = hf_cl_array(stage, &a->c);
    double *out = hf_cl_out(stage, a->out, (size_t)(x.rows * c.rows) * sizeof *out);
    HF_TRY(stage->status);
    HF_TRY(hf_opencl_pack(call, &c, &panels));
    const struct hf_cl_job job =
        hf_opencl_job(call->device, "distance", "distance_rows", x.rows * ((c.rows + 7) / 8));
    return hf_opencl_run(call->stream, &job, "pnippiiinnp", x.data, (int32_t)x.dtype, x.row_stride,
                         panels.panel, panels.norm, x.rows, c.rows, x.cols, (int32_t)a->metric,
                         (int32_t)(a->root && a->metric == HF_EUCLIDEAN), out);
}

static hf_status distance_run(const struct hf_call *call) {
    struct hf_cl_stage stage;
    hf_cl_stage_begin(&stage, call->stream);
    return hf_cl_stage_end(&stage, pairs(call, &stage));
}

static const struct hf_kernel kernels[] = {{.name = "distance_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = distance_workspace,
                                            .run = distance_run}};

const struct hf_kernel_table hf_distance_kernels_opencl = {kernels, 1};
