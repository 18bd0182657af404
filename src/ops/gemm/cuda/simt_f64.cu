/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm/cuda/simt.cuh"

hf_status hf_gemm_simt_f64(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    return simt_launch<HF_F64, 2>(cuda, job, blocks);
}
