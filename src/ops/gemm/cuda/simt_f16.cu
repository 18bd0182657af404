/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm/cuda/simt.cuh"

hf_status hf_gemm_simt_f16(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    return simt_launch<HF_F16, 2>(cuda, job, blocks);
}

hf_status hf_gemm_simt_bf16(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    return simt_launch<HF_BF16, 2>(cuda, job, blocks);
}
