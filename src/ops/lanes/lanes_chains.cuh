/* SPDX-License-Identifier: Apache-2.0
 * The kernel of op lanes: a chain of each kind is one thread's. A block is a warp for each of the
 * four parts of a multiprocessor, so that thread t is lane t % 32 of part t / 32. */
#ifndef HF_LANES_CHAINS_CUH
#define HF_LANES_CHAINS_CUH

#include "core/kernel.h"
#include "device/cuda/slot.cuh"
#include "device/cuda/stage.h"
#include "ops/lanes/lanes.h"

/* through: a word of a chain passes it after each step. */
template <class Through>
static __global__ void __launch_bounds__(HF_LANES_CUDA)
    lanes_chains(const __grid_constant__ struct hf_lanes_args p, const Through through) {
    const int64_t i = (int64_t)blockIdx.x * HF_LANES_CUDA + threadIdx.x;
    if (threadIdx.x == 0 && p.unit != NULL)
        p.unit[blockIdx.x] = hf_slot_unit();
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
        word = through(word);
    }
    p.single_end[i] = single;
    p.wide_end[i] = wide;
    p.word_end[i] = word;
}

template <class Through>
static hf_status lanes_run_through(const struct hf_call *call, const Through &through) {
    struct hf_lanes_args args = *(const struct hf_lanes_args *)call->args;
    struct hf_cuda *const cuda = (struct hf_cuda *)call->stream;
    const size_t n = (size_t)args.n, blocks = (n + HF_LANES_CUDA - 1) / HF_LANES_CUDA;
    struct hf_stage stage;
    hf_stage_begin(&stage, cuda);
    args.single = (const float *)hf_stage_in(&stage, args.single, n * sizeof(float));
    args.wide = (const double *)hf_stage_in(&stage, args.wide, n * sizeof(double));
    args.word = (const uint32_t *)hf_stage_in(&stage, args.word, n * sizeof(uint32_t));
    args.single_end = (float *)hf_stage_out(&stage, args.single_end, n * sizeof(float));
    args.wide_end = (double *)hf_stage_out(&stage, args.wide_end, n * sizeof(double));
    args.word_end = (uint32_t *)hf_stage_out(&stage, args.word_end, n * sizeof(uint32_t));
    args.unit = (int32_t *)hf_stage_out(&stage, args.unit, blocks * sizeof(int32_t));
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    lanes_chains<<<(unsigned)blocks, HF_LANES_CUDA, 0, cuda->stream>>>(args, through);
    return hf_stage_end(&stage, hf_cuda_launched(cuda, "lanes"));
}

#endif
