/* SPDX-License-Identifier: Apache-2.0
 * sample beside OpenCL: the walk along the running sum is the host's, 8 or 16 bytes a row; the
 * device gathers the rows drawn. */
#include "ops/opencl.h"
#include "ops/sample/sample.h"

extern const struct hf_kernel_table hf_sample_kernels_scalar;

static hf_status draw(const struct hf_call *call) {
    struct hf_sample_args a = *(const struct hf_sample_args *)call->args;
    struct hf_cl_stage stage;
    const size_t n = (size_t)a.x.rows * sizeof(double), two = 2 * (size_t)a.count;
    hf_cl_stage_begin(&stage, call->stream);
    a.weights = hf_cl_host(&stage, a.weights, n, false);
    a.distance = hf_cl_host(&stage, a.distance, n, false);
    a.index = hf_cl_host(&stage, a.index, two * sizeof *a.index, true);
    a.drawn_distance = hf_cl_host(&stage, a.drawn_distance, two * sizeof *a.drawn_distance, true);
    a.weight = hf_cl_host(&stage, a.weight, two * sizeof *a.weight, true);
    a.sums = hf_cl_host(&stage, a.sums, 2 * sizeof *a.sums, true);
    a.rows = NULL;
    return hf_cl_stage_end(&stage, stage.status == HF_OK
                                       ? hf_opencl_on_host(call, &hf_sample_kernels_scalar, &a)
                                       : stage.status);
}

static hf_status gather(const struct hf_call *call) {
    const struct hf_sample_args *a = call->args;
    struct hf_cl_stage stage;
    hf_cl_stage_begin(&stage, call->stream);
    const hf_array x = hf_cl_array(&stage, &a->x);
    const int64_t size = (int64_t)hf_dtype_bytes(x.dtype), bytes = x.cols * size;
    const int64_t count = 2 * a->count;
    const int64_t *index = hf_cl_in(&stage, a->index, (size_t)count * sizeof *index);
    void *rows = hf_cl_out(&stage, a->rows, (size_t)(count * bytes));
    const struct hf_cl_job job =
        hf_opencl_job(call->device, "gather", "gather_bytes", count * bytes);
    hf_status status = stage.status;
    if (status == HF_OK)
        status = hf_opencl_run(call->stream, &job, "piipip", x.data, x.row_stride * size, bytes,
                               index, count, rows);
    return hf_cl_stage_end(&stage, status);
}

static hf_status sample_run(const struct hf_call *call) {
    const struct hf_sample_args *a = call->args;
    HF_TRY(draw(call));
    return a->rows != NULL ? gather(call) : HF_OK;
}

static const struct hf_kernel kernels[] = {{.name = "sample_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .run = sample_run}};

const struct hf_kernel_table hf_sample_kernels_opencl = {kernels, 1};
