/* SPDX-License-Identifier: Apache-2.0
 * Reference of coarse: block by block. */
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/coarse/coarse.h"
#include "ops/estimate.h"

static size_t coarse_workspace(const struct hf_call *call) {
    const struct hf_coarse_args *args = call->args;
    return (size_t)args->blocks * sizeof(double);
}

static hf_status coarse_run(const struct hf_call *call) {
    const struct hf_coarse_args *args = call->args;
    double *s = call->ws;
    for (int64_t block = 0; block < args->blocks; block++) {
        struct sparse_sum sum = {{0}};
        for (int64_t i = args->block_start[block]; i < args->block_start[block + 1]; i++)
            sparse_sum_add(&sum, i - args->block_start[block], args->r[i]);
        s[block] = sparse_sum_end(&sum);
    }
    for (int64_t block = 0; block < args->blocks; block++) {
        struct sparse_sum sum = {{0}};
        for (int64_t j = 0; j < args->blocks; j++)
            sparse_sum_add(&sum, j, args->inverse[block * args->blocks + j] * s[j]);
        const double y = args->scale * sparse_sum_end(&sum);
        for (int64_t i = args->block_start[block]; i < args->block_start[block + 1]; i++)
            args->z[i] += y;
    }
    return HF_OK;
}

static double coarse_estimate(const struct hf_call *call) {
    const struct hf_coarse_args *args = call->args;
    return hf_estimate_ns(8.0 * (double)args->blocks * (double)args->blocks + 8.0 * (double)args->n,
                          1, 0);
}

static const struct hf_kernel kernels[] = {{.name = "coarse_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F64),
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .workspace = coarse_workspace,
                                            .run = coarse_run,
                                            .estimate = coarse_estimate}};

const struct hf_kernel_table hf_coarse_kernels_scalar = {kernels, 1};
