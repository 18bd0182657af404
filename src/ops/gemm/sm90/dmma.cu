/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm/sm90/dmma.cuh"

hf_status hf_gemm_dmma(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    switch (gemm_mode_of(job)) {
    case GEMM_PLAIN:
        return dmma_launch<GEMM_PLAIN>(cuda, job, blocks);
    case GEMM_SIGNED:
        return dmma_launch<GEMM_SIGNED>(cuda, job, blocks);
    default:
        return dmma_launch<GEMM_RELEASED>(cuda, job, blocks);
    }
}
