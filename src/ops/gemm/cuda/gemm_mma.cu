/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm/cuda/gemm_mma.cuh"

hf_status hf_gemm_mma_f16(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    return mma_launch<HF_F16>(cuda, job, blocks);
}

hf_status hf_gemm_mma_bf16(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    return mma_launch<HF_BF16>(cuda, job, blocks);
}
