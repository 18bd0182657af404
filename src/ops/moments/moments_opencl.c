/* SPDX-License-Identifier: Apache-2.0
 * moments with OpenCL: parts of the rows add to the sums, which are integers. */
#include "ops/moments/moments.h"
#include "ops/opencl.h"

#define PARTS 64   /* of the rows of a problem, at most */
#define LEAST 1024 /* rows of a part */

static hf_status problem(const struct hf_call *call, const struct hf_moments_args *a) {
    const int64_t n = a->x.rows, some = (n + LEAST - 1) / LEAST;
    const int64_t parts = some < PARTS ? some : PARTS;
    const struct hf_cl_job job =
        hf_opencl_job(call->device, "moments", "moments_parts", parts * a->x.cols);
    return hf_opencl_run(call->stream, &job, "pniiipppnipp", a->x.data, (int32_t)a->x.dtype,
                         a->x.row_stride, n, a->x.cols, a->shift, a->mult, a->mult_square,
                         (int32_t)a->bits, parts, a->sum, a->sum_square);
}

static hf_status moments_run(const struct hf_call *call) {
    struct hf_moments_args a = *(const struct hf_moments_args *)call->args;
    struct hf_cl_stage stage;
    const int64_t batch = hf_moments_batch(&a);
    const size_t columns = (size_t)(batch * a.x.cols) * sizeof(double);
    hf_cl_stage_begin(&stage, call->stream);
    a.x = hf_cl_array(&stage, &a.x);
    a.shift = hf_cl_in(&stage, a.shift, columns);
    a.mult = hf_cl_in(&stage, a.mult, columns);
    a.mult_square = hf_cl_in(&stage, a.mult_square, columns);
    a.sum = hf_cl_inout(&stage, a.sum, 2 * columns);
    a.sum_square = hf_cl_inout(&stage, a.sum_square, 2 * columns);
    hf_status status = stage.status;
    for (int64_t p = 0; p < batch && status == HF_OK; p++) {
        const struct hf_moments_args one = hf_moments_problem(&a, p);
        status = problem(call, &one);
    }
    return hf_cl_stage_end(&stage, status);
}

static const struct hf_kernel kernels[] = {{.name = "moments_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .run = moments_run}};

const struct hf_kernel_table hf_moments_kernels_opencl = {kernels, 1};
