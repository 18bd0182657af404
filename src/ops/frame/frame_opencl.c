/* SPDX-License-Identifier: Apache-2.0
 * frame beside OpenCL: the device gathers the sample, at most 256 rows, and the host finds its
 * medians. */
#include "base/mem.h"
#include "ops/frame/frame.h"
#include "ops/opencl.h"

extern const struct hf_kernel_table hf_frame_kernels_scalar;

static int64_t sample_rows(const struct hf_frame_args *a) {
    return hf_frame_rows(a->x.rows / hf_frame_batch(a), a->x.cols);
}

/* The numbers of the rows, then the rows. */
static size_t carve(const struct hf_frame_args *a, void *ws, int64_t **index, double **rows) {
    hf_carve carve = {ws, 0};
    const size_t m = (size_t)sample_rows(a);
    *index = hf_carve_take(&carve, m * sizeof **index);
    *rows = hf_carve_take(&carve, m * (size_t)a->x.cols * sizeof **rows);
    return carve.used;
}

static size_t frame_workspace(const struct hf_call *call) {
    int64_t *index = NULL;
    double *rows = NULL;
    return carve(call->args, NULL, &index, &rows);
}

/* Rows [first, first + n) of x. */
static hf_status gather(const struct hf_call *call, const hf_array *x, int64_t first, int64_t n) {
    struct hf_opencl *cl = call->stream;
    int64_t row[HF_FRAME_ROWS], *index = NULL;
    double *rows = NULL;
    (void)carve(call->args, call->ws, &index, &rows);
    const int64_t m = sample_rows(call->args);
    for (int64_t i = 0; i < m; i++)
        row[i] = first + i * n / m;
    HF_TRY(hf_opencl_copy(cl, index, row, (size_t)m * sizeof *row));
    const struct hf_cl_job job = hf_opencl_job(call->device, "gather", "gather_rows", m * x->cols);
    return hf_opencl_run(cl, &job, "pniipinp", x->data, (int32_t)x->dtype, x->row_stride, x->cols,
                         index, m, (int32_t)1, rows);
}

static hf_status problem(const struct hf_call *call, const struct hf_frame_args *a, int64_t p) {
    struct hf_cl_stage stage;
    int64_t *index = NULL;
    double *rows = NULL;
    const int64_t d = a->x.cols, m = sample_rows(a);
    const size_t column = (size_t)d * sizeof(double);
    (void)carve(a, call->ws, &index, &rows);
    struct hf_frame_args one = *a;
    hf_cl_stage_begin(&stage, call->stream);
    one.batch = 1;
    one.x = hf_array_view(hf_cl_host(&stage, rows, (size_t)m * column, false), HF_F64, m, d);
    one.mean = hf_cl_host(&stage, a->mean + p * d, column, false);
    one.median = hf_cl_host(&stage, a->median + p * d, column, true);
    one.length_mean = hf_cl_host(&stage, a->length_mean + p, sizeof(double), true);
    one.length_median = hf_cl_host(&stage, a->length_median + p, sizeof(double), true);
    return hf_cl_stage_end(&stage, stage.status == HF_OK
                                       ? hf_opencl_on_host(call, &hf_frame_kernels_scalar, &one)
                                       : stage.status);
}

static hf_status frame_run(const struct hf_call *call) {
    const struct hf_frame_args *a = call->args;
    struct hf_cl_stage stage;
    const int64_t batch = hf_frame_batch(a), n = a->x.rows / batch;
    hf_cl_stage_begin(&stage, call->stream);
    const hf_array x = hf_cl_array(&stage, &a->x);
    hf_status status = stage.status;
    for (int64_t p = 0; p < batch && status == HF_OK; p++) {
        status = gather(call, &x, p * n, n);
        if (status == HF_OK)
            status = problem(call, a, p);
    }
    return hf_cl_stage_end(&stage, status);
}

static const struct hf_kernel kernels[] = {{.name = "frame_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = frame_workspace,
                                            .run = frame_run}};

const struct hf_kernel_table hf_frame_kernels_opencl = {kernels, 1};
