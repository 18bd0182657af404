/* SPDX-License-Identifier: Apache-2.0
 * Reference of axpy: element by element. */
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/axpy/axpy.h"
#include "ops/estimate.h"

static hf_status axpy_run(const struct hf_call *call) {
    const struct hf_axpy_args *args = call->args;
    for (int64_t i = 0; args->x != NULL && i < args->n; i++) {
        const double x = args->scale != NULL ? args->scale[i] * args->x[i] : args->x[i];
        args->y[i] = args->beta == 0 ? args->alpha * x : args->beta * args->y[i] + args->alpha * x;
    }
    if (args->dot == NULL)
        return HF_OK;
    struct sparse_total total = {{0}, 0};
    for (int64_t first = 0; first < args->n; first += SPARSE_PART) {
        struct sparse_sum part = {{0}};
        for (int64_t i = first; i < args->n && i < first + SPARSE_PART; i++)
            sparse_sum_add(&part, i, args->y[i] * args->w[i]);
        sparse_total_add(&total, sparse_sum_end(&part));
    }
    *args->dot = sparse_total_end(&total);
    return HF_OK;
}

static double axpy_estimate(const struct hf_call *call) {
    const struct hf_axpy_args *args = call->args;
    return hf_estimate_ns(16.0 * (double)args->n, 1, 32.0 * (double)args->n);
}

static const struct hf_kernel kernels[] = {{.name = "axpy_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F64),
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .run = axpy_run,
                                            .estimate = axpy_estimate}};

const struct hf_kernel_table hf_axpy_kernels_scalar = {kernels, 1};
