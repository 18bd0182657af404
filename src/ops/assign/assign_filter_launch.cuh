/* SPDX-License-Identifier: Apache-2.0
 * One launch of a filter kernel; an instance file per class of d and type keeps compile times
 * short. */
#ifndef HF_ASSIGN_FILTER_LAUNCH_CUH
#define HF_ASSIGN_FILTER_LAUNCH_CUH

#include "device/cuda/chain.cuh"
#include "ops/assign/assign_filter_kernel.cuh"
#include "ops/assign/assign_filter_launch.h"

template <class S, int MODE>
static cudaError_t filter_start(const struct hf_cuda *cuda, const CUtensorMap &map,
                                const struct filter_args &args) {
    const void *kernel = (const void *)hf_filter_kernel<S, MODE>;
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::SHARED);
    if (error != cudaSuccess)
        return error;
    return hf_chain_launch(cuda, hf_filter_kernel<S, MODE>, dim3((unsigned)cuda->sms), S::THREADS,
                           S::SHARED, S::CLUSTER, map, args);
}

template <int DP, bool BF16>
cudaError_t hf_filter_launch(const struct hf_cuda *cuda, const CUtensorMap &map,
                             struct filter_args args, int mode) {
    typedef struct filter_shape<DP, BF16> S;
    /* Tiles that stay need no copies; but then the next problem's tiles cannot come early. */
    args.resident = args.tiles_per_problem <= S::STAGES &&
                    (args.rows.batch == 1 || args.rows.n >= 8 * S::WGS * FILTER_WG_ROWS);
    switch (mode) {
    case FILTER_BEST:
        return filter_start<S, FILTER_BEST>(cuda, map, args);
    case FILTER_TOP2:
        return filter_start<S, FILTER_TOP2>(cuda, map, args);
    case FILTER_EMIT:
        return filter_start<S, FILTER_EMIT>(cuda, map, args);
    case FILTER_LIST:
        return filter_start<S, FILTER_LIST>(cuda, map, args);
    case FILTER_BEST_CHUNK:
        return filter_start<S, FILTER_BEST_CHUNK>(cuda, map, args);
    default:
        return filter_start<S, FILTER_TOP2_CHUNK>(cuda, map, args);
    }
}

#endif
