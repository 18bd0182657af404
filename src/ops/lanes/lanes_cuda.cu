/* SPDX-License-Identifier: Apache-2.0
 * lanes on CUDA. */
#include "ops/lanes/lanes_chains.cuh"

struct sound {
    __device__ uint32_t operator()(uint32_t word) const { return word; }
};

static hf_status lanes_run(const struct hf_call *call) { return lanes_run_through(call, sound{}); }

static double lanes_estimate(const struct hf_call *call) {
    const struct hf_lanes_args *args = (const struct hf_lanes_args *)call->args;
    return 10000 + 20.0 * (double)args->steps;
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("lanes_f32_cuda", HF_DT(HF_F32), 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE, NULL,
                   NULL, lanes_run, lanes_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_lanes_kernels_cuda;
const struct hf_kernel_table hf_lanes_kernels_cuda = {kernels, 1};
}
