/* SPDX-License-Identifier: Apache-2.0
 * range with OpenCL: parts of the rows, then their extremes. */
#include "ops/opencl.h"
#include "ops/range/range.h"

#define PARTS 64   /* of the rows of a problem, at most */
#define LEAST 1024 /* rows of a part */

static int64_t parts_of(const struct hf_range_args *a) {
    const int64_t n = a->x.rows / hf_range_batch(a), parts = (n + LEAST - 1) / LEAST;
    return parts < 1 ? 1 : parts < PARTS ? parts : PARTS;
}

static size_t range_workspace(const struct hf_call *call) {
    const struct hf_range_args *a = call->args;
    return (size_t)(parts_of(a) * 3 * a->x.cols) * sizeof(double);
}

/* Only kernels of the CPU add up whole numbers: hf_range_sums(). */
static bool range_supports(const struct hf_call *call) {
    return ((const struct hf_range_args *)call->args)->sums == NULL;
}

/* One problem, all on the device. */
static hf_status problem(const struct hf_call *call, const struct hf_range_args *a) {
    struct hf_opencl *cl = call->stream;
    const int64_t n = a->x.rows, d = a->x.cols, parts = parts_of(a);
    const struct hf_cl_job look = hf_opencl_job(call->device, "range", "range_look", n);
    const struct hf_cl_job some = hf_opencl_job(call->device, "range", "range_parts", parts * d);
    const struct hf_cl_job join = hf_opencl_job(call->device, "range", "range_join", d);
    HF_TRY(hf_opencl_run(cl, &look, "pniiipp", a->x.data, (int32_t)a->x.dtype, a->x.row_stride, n,
                         d, a->row_bad, a->bad_rows));
    HF_TRY(hf_opencl_run(cl, &some, "pniiipip", a->x.data, (int32_t)a->x.dtype, a->x.row_stride, n,
                         d, a->row_bad, parts, call->ws));
    return hf_opencl_run(cl, &join, "pniippp", call->ws, (int32_t)a->x.dtype, parts, d, a->min,
                         a->max, a->whole);
}

static hf_status range_run(const struct hf_call *call) {
    struct hf_range_args a = *(const struct hf_range_args *)call->args;
    struct hf_cl_stage stage;
    const int64_t batch = hf_range_batch(&a);
    const size_t columns = (size_t)(batch * a.x.cols) * sizeof(double);
    hf_cl_stage_begin(&stage, call->stream);
    a.x = hf_cl_array(&stage, &a.x);
    a.min = hf_cl_inout(&stage, a.min, columns);
    a.max = hf_cl_inout(&stage, a.max, columns);
    a.whole = hf_cl_inout(&stage, a.whole, (size_t)batch * sizeof *a.whole);
    a.row_bad = hf_cl_out(&stage, a.row_bad, (size_t)a.x.rows);
    a.bad_rows = hf_cl_inout(&stage, a.bad_rows, (size_t)batch * sizeof *a.bad_rows);
    hf_status status = stage.status;
    for (int64_t p = 0; p < batch && status == HF_OK; p++) {
        const struct hf_range_args one = hf_range_problem(&a, p);
        status = problem(call, &one);
    }
    return hf_cl_stage_end(&stage, status);
}

static const struct hf_kernel kernels[] = {{.name = "range_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .supports = range_supports,
                                            .workspace = range_workspace,
                                            .run = range_run}};

const struct hf_kernel_table hf_range_kernels_opencl = {kernels, 1};
