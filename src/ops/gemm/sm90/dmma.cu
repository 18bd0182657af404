/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm/sm90/dmma.cuh"

hf_status hf_gemm_dmma(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    return job->entries != NULL ? dmma_launch<true>(cuda, job, blocks)
                                : dmma_launch<false>(cuda, job, blocks);
}
