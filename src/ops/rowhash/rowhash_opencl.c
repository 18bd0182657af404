/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/opencl.h"
#include "ops/rowhash/rowhash.h"

static hf_status rowhash_run(const struct hf_call *call) {
    const struct hf_rowhash_args *a = call->args;
    const struct hf_sums *s = a->sums;
    const size_t n = (size_t)a->x.rows, words = (size_t)(s->limbs * (a->x.cols + 1));
    struct hf_cl_stage stage;
    hf_cl_stage_begin(&stage, call->stream);
    const hf_array x = hf_cl_array(&stage, &a->x);
    const double *weights = hf_cl_in(&stage, a->weights, n * sizeof *weights);
    const double *mult = hf_cl_in(&stage, s->mult, (size_t)a->x.cols * sizeof *mult);
    const uint64_t *factor = hf_cl_in(&stage, a->factor, words * sizeof *factor);
    uint64_t *hash = hf_cl_out(&stage, a->hash, n * sizeof *hash);
    hf_status status = stage.status;
    if (status == HF_OK && n > 0) {
        const struct hf_cl_job job =
            hf_opencl_job(call->device, "rowhash", "rowhash_rows", a->x.rows);
        status = hf_opencl_run(call->stream, &job, "pniiinppdnnnpp", x.data, (int32_t)x.dtype,
                               x.row_stride, x.rows, x.cols, (int32_t)a->metric, weights, mult,
                               s->weight_mult, (int32_t)s->limbs, (int32_t)s->bits,
                               (int32_t)(s->weight != NULL), factor, hash);
    }
    return hf_cl_stage_end(&stage, status);
}

static const struct hf_kernel kernels[] = {{.name = "rowhash_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .run = rowhash_run}};

const struct hf_kernel_table hf_rowhash_kernels_opencl = {kernels, 1};
