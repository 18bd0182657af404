/* SPDX-License-Identifier: Apache-2.0
 * Reference of lanes: one chain after the other. */
#include "core/kernel.h"
#include "ops/estimate.h"
#include "ops/lanes/lanes.h"

#include <math.h>

static hf_status lanes_run(const struct hf_call *call) {
    const struct hf_lanes_args *args = call->args;
    for (int64_t i = 0; i < args->n; i++) {
        float single = args->single[i];
        double wide = args->wide[i];
        uint32_t word = args->word[i];
        for (int64_t s = 0; s < args->steps; s++) {
            single = fmaf((float)HF_LANES_MAP * single, single, 1);
            wide = fma(HF_LANES_MAP * wide, wide, 1);
            word = word * HF_LANES_TIMES + HF_LANES_PLUS;
            word ^= word >> 15;
        }
        args->single_end[i] = single;
        args->wide_end[i] = wide;
        args->word_end[i] = word;
    }
    return HF_OK;
}

static double lanes_estimate(const struct hf_call *call) {
    const struct hf_lanes_args *args = call->args;
    return hf_estimate_ns(40 * (double)args->n * (double)args->steps, 1, 32.0 * (double)args->n);
}

static const struct hf_kernel kernels[] = {{.name = "lanes_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32),
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .run = lanes_run,
                                            .estimate = lanes_estimate}};

const struct hf_kernel_table hf_lanes_kernels_scalar = {kernels, 1};
