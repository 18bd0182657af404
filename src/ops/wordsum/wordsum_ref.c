/* SPDX-License-Identifier: Apache-2.0 */
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/wordsum/wordsum.h"
#include <string.h>

static hf_status wordsum_run(const struct hf_call *call) {
    const struct hf_wordsum_args *args = call->args;
    const char *data = args->data;
    uint64_t sum = 0;
    for (int64_t at = 0; at < args->bytes; at += 4) {
        const int64_t left = args->bytes - at;
        uint32_t word = 0;
        memcpy(&word, data + at, left < 4 ? (size_t)left : 4);
        sum += (2 * (uint64_t)(at / 4) + 1) * word;
    }
    *args->sum = sum;
    return HF_OK;
}

static double wordsum_estimate(const struct hf_call *call) {
    const struct hf_wordsum_args *args = call->args;
    return hf_estimate_ns((double)args->bytes / 2, 1, (double)args->bytes);
}

static const struct hf_kernel kernels[] = {{.name = "wordsum_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32),
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .run = wordsum_run,
                                            .estimate = wordsum_estimate}};

const struct hf_kernel_table hf_wordsum_kernels_scalar = {kernels, 1};
