/* SPDX-License-Identifier: Apache-2.0
 * inertia with OpenCL: the device computes the terms, the host adds them up in 128 bits. It is
 * called once for a fit. */
#include "ops/inertia/inertia.h"
#include "ops/opencl.h"

static size_t inertia_workspace(const struct hf_call *call) {
    const struct hf_inertia_args *a = call->args;
    return (size_t)a->x.rows * sizeof(double);
}

static hf_status run_rows(const struct hf_call *call, struct hf_cl_stage *stage) {
    const struct hf_inertia_args *a = call->args;
    const hf_array x = hf_cl_array(stage, &a->x), c = hf_cl_array(stage, &a->c);
    const size_t n = (size_t)x.rows;
    const int32_t *labels = hf_cl_in(stage, a->labels, n * sizeof *labels);
    const double *weights = hf_cl_in(stage, a->weights, n * sizeof *weights);
    double *distances = hf_cl_out(stage, a->distances, n * sizeof *distances);
    const struct hf_cl_job job = hf_opencl_job(call->device, "inertia", "inertia_rows", x.rows);
    HF_TRY(stage->status);
    return hf_opencl_run(call->stream, &job, "pnipniiiinpppp", x.data, (int32_t)x.dtype,
                         x.row_stride, c.data, (int32_t)c.dtype, c.row_stride, x.rows, c.rows,
                         x.cols, (int32_t)a->metric, labels, weights, distances, call->ws);
}

static hf_status inertia_run(const struct hf_call *call) {
    const struct hf_inertia_args *a = call->args;
    struct hf_cl_stage stage, back;
    hf_wide sum = {.special = 0};
    hf_cl_stage_begin(&stage, call->stream);
    HF_TRY(hf_cl_stage_end(&stage, run_rows(call, &stage)));
    hf_cl_stage_begin(&back, call->stream);
    const double *term = hf_cl_host(&back, call->ws, (size_t)a->x.rows * sizeof *term, false);
    for (int64_t i = 0; back.status == HF_OK && i < a->x.rows; i++)
        hf_wide_add(&sum, term[i]);
    HF_TRY(hf_cl_stage_end(&back, HF_OK));
    hf_wide_merge(a->sum, &sum);
    return HF_OK;
}

static const struct hf_kernel kernels[] = {{.name = "inertia_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = inertia_workspace,
                                            .run = inertia_run}};

const struct hf_kernel_table hf_inertia_kernels_opencl = {kernels, 1};
