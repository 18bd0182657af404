/* SPDX-License-Identifier: Apache-2.0 */
#include "device/cuda/chain.cuh"
#include "ops/assign/assign_filter_launch.h"
#include "ops/assign/assign_filter_stream.cuh"

template <class S, int MODE>
static cudaError_t filter_start_stream(const struct hf_cuda *cuda, const CUtensorMap &map,
                                       const struct filter_args &args) {
    const void *kernel = (const void *)hf_filter_stream_kernel<S, MODE>;
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::SHARED);
    if (error != cudaSuccess)
        return error;
    return hf_chain_launch(cuda, hf_filter_stream_kernel<S, MODE>,
                           dim3((unsigned)(cuda->sms / S::CLUSTER * S::CLUSTER)), S::THREADS,
                           S::SHARED, S::CLUSTER, map, args);
}

cudaError_t hf_filter_stream(const struct hf_cuda *cuda, const CUtensorMap &map,
                             struct filter_args args, int mode) {
    typedef struct filter_stream_shape S;
    switch (mode) {
    case FILTER_BEST:
        return filter_start_stream<S, FILTER_BEST>(cuda, map, args);
    case FILTER_TOP2:
        return filter_start_stream<S, FILTER_TOP2>(cuda, map, args);
    case FILTER_EMIT:
        return filter_start_stream<S, FILTER_EMIT>(cuda, map, args);
    case FILTER_LIST:
        return filter_start_stream<S, FILTER_LIST>(cuda, map, args);
    case FILTER_BEST_CHUNK:
        return filter_start_stream<S, FILTER_BEST_CHUNK>(cuda, map, args);
    default:
        return filter_start_stream<S, FILTER_TOP2_CHUNK>(cuda, map, args);
    }
}
