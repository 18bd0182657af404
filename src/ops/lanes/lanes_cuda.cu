/* SPDX-License-Identifier: Apache-2.0
 * lanes on CUDA: a chain of each kind is one thread's. A block is a warp for each of the four parts
 * of a multiprocessor, so that thread t is lane t % 32 of part t / 32. */
#include "core/kernel.h"
#include "device/cuda/stage.h"
#include "ops/lanes/lanes.h"

static __global__ void __launch_bounds__(HF_LANES_CUDA)
    lanes_chains(const __grid_constant__ struct hf_lanes_args p) {
    const int64_t i = (int64_t)blockIdx.x * HF_LANES_CUDA + threadIdx.x;
    if (i >= p.n)
        return;
    float single = p.single[i];
    double wide = p.wide[i];
    uint32_t word = p.word[i];
    for (int64_t s = 0; s < p.steps; s++) {
        single = __fmaf_rn(__fmul_rn((float)HF_LANES_MAP, single), single, 1.0F);
        wide = __fma_rn(__dmul_rn(HF_LANES_MAP, wide), wide, 1.0);
        word = word * HF_LANES_TIMES + HF_LANES_PLUS;
        word ^= word >> 15;
    }
    p.single_end[i] = single;
    p.wide_end[i] = wide;
    p.word_end[i] = word;
}

static hf_status lanes_run(const struct hf_call *call) {
    struct hf_lanes_args args = *(const struct hf_lanes_args *)call->args;
    struct hf_cuda *const cuda = (struct hf_cuda *)call->stream;
    const size_t n = (size_t)args.n;
    struct hf_stage stage;
    hf_stage_begin(&stage, cuda);
    args.single = (const float *)hf_stage_in(&stage, args.single, n * sizeof(float));
    args.wide = (const double *)hf_stage_in(&stage, args.wide, n * sizeof(double));
    args.word = (const uint32_t *)hf_stage_in(&stage, args.word, n * sizeof(uint32_t));
    args.single_end = (float *)hf_stage_out(&stage, args.single_end, n * sizeof(float));
    args.wide_end = (double *)hf_stage_out(&stage, args.wide_end, n * sizeof(double));
    args.word_end = (uint32_t *)hf_stage_out(&stage, args.word_end, n * sizeof(uint32_t));
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    const unsigned blocks = (unsigned)((args.n + HF_LANES_CUDA - 1) / HF_LANES_CUDA);
    lanes_chains<<<blocks, HF_LANES_CUDA, 0, cuda->stream>>>(args);
    return hf_stage_end(&stage, hf_cuda_launched(cuda, "lanes"));
}

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
