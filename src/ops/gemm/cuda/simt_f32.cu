/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm/cuda/simt.cuh"

hf_status hf_gemm_simt_f32(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    return simt_launch<HF_F32, 2>(cuda, job, blocks);
}

hf_status hf_gemm_simt_f32_small(struct hf_cuda *cuda, const struct gemm_job *job,
                                 unsigned blocks) {
    return simt_launch<HF_F32, 1>(cuda, job, blocks);
}

hf_status hf_gemm_simt_i8(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    return simt_launch<HF_I8, 2>(cuda, job, blocks);
}
