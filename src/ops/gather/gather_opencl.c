/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gather/gather.h"
#include "ops/opencl.h"

static hf_status gather_run(const struct hf_call *call) {
    const struct hf_gather_args *a = call->args;
    struct hf_cl_stage stage;
    hf_cl_stage_begin(&stage, call->stream);
    const hf_array x = hf_cl_array(&stage, &a->x);
    const int64_t *index = hf_cl_in(&stage, a->index, (size_t)a->count * sizeof *index);
    void *out = hf_cl_out(&stage, a->out, (size_t)(a->count * x.cols) * hf_dtype_bytes(a->type));
    const struct hf_cl_job job =
        hf_opencl_job(call->device, "gather", "gather_rows", a->count * x.cols);
    hf_status status = stage.status;
    if (status == HF_OK)
        status =
            hf_opencl_run(call->stream, &job, "pniipinp", x.data, (int32_t)x.dtype, x.row_stride,
                          x.cols, index, a->count, (int32_t)(a->type == HF_F64), out);
    return hf_cl_stage_end(&stage, status);
}

static const struct hf_kernel kernels[] = {{.name = "gather_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .run = gather_run}};

const struct hf_kernel_table hf_gather_kernels_opencl = {kernels, 1};
