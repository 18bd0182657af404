/* SPDX-License-Identifier: Apache-2.0
 * The AVX form of gemm_es: eight lanes of float32. A wider set would not be the paper's form. */
#include "core/kernel.h"
#include "device/host/isa.h"

#if defined(__AVX2__) && !defined(__AVX512F__)
#define ES_AVX true
#include "ops/estimate.h"
#include "ops/gemm_es/gemm_es_loops.h"

static double avx_estimate(const struct hf_call *call) {
    const struct hf_gemm_es_args *p = call->args;
    const double products = (double)p->m * (double)p->n * (double)p->k;
    return hf_estimate_ns((p->level == HF_ES_I ? 8 : 2) * products, HF_ES_LANES, 0);
}

static const struct hf_kernel kernels[] = {{.name = "gemm_es_lanes_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32),
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .supports = es_supports,
                                            .run = es_run,
                                            .estimate = avx_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_gemm_es_kernels) = {kernels, 1};
#else
const struct hf_kernel_table HF_ISA_NAME(hf_gemm_es_kernels) = {NULL, 0};
#endif
