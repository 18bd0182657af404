/* SPDX-License-Identifier: Apache-2.0
 * means beside OpenCL: k x d numbers that an iteration makes once. The host computes them where
 * they lie, or from a view of the device's memory. */
#include "ops/means/means.h"
#include "ops/opencl.h"

extern const struct hf_kernel_table hf_means_kernels_scalar;

static hf_status means_run(const struct hf_call *call) {
    struct hf_means_args a = *(const struct hf_means_args *)call->args;
    struct hf_sums s = *a.sums;
    struct hf_cl_stage stage;
    const size_t k = (size_t)s.k, d = (size_t)s.d, limbs = (size_t)s.limbs;
    const size_t centers = k * d * hf_dtype_bytes(a.rule.type);
    const bool in_place = a.next == a.now;
    hf_cl_stage_begin(&stage, call->stream);
    a.rule.shift = hf_cl_host(&stage, a.rule.shift, d * sizeof(double), false);
    a.rule.unit = hf_cl_host(&stage, a.rule.unit, d * sizeof(double), false);
    s.mult = hf_cl_host(&stage, s.mult, d * sizeof(double), false);
    s.sum = hf_cl_host(&stage, s.sum, limbs * k * d * sizeof(int64_t), false);
    s.count = hf_cl_host(&stage, s.count, k * sizeof(int64_t), false);
    s.weight = hf_cl_host(&stage, s.weight, limbs * k * sizeof(int64_t), false);
    a.now = hf_cl_host(&stage, a.now, centers, in_place);
    a.next = in_place ? (void *)(uintptr_t)a.now : hf_cl_host(&stage, a.next, centers, !a.given);
    a.moved = hf_cl_host(&stage, a.moved, k * sizeof(double), true);
    a.shift = hf_cl_host(&stage, a.shift, sizeof(double), true);
    a.inertia = hf_cl_host(&stage, a.inertia, sizeof(double), true);
    a.sums = &s;
    return hf_cl_stage_end(&stage, stage.status == HF_OK
                                       ? hf_opencl_on_host(call, &hf_means_kernels_scalar, &a)
                                       : stage.status);
}

static const struct hf_kernel kernels[] = {{.name = "means_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .run = means_run}};

const struct hf_kernel_table hf_means_kernels_opencl = {kernels, 1};
