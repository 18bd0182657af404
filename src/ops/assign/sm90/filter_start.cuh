/* SPDX-License-Identifier: Apache-2.0
 * One launch of an instance of the filter's kernels, by what it does. */
#ifndef HF_ASSIGN_FILTER_START_CUH
#define HF_ASSIGN_FILTER_START_CUH

#include "device/cuda/chain.cuh"
#include "ops/assign/cuda/filter_launch.h"

typedef void filter_kernel(const CUtensorMap, const struct filter_args);

template <class S>
static cudaError_t filter_start(const struct hf_cuda *cuda, const CUtensorMap &map,
                                const struct filter_args &args, filter_kernel *kernel) {
    const cudaError_t error = cudaFuncSetAttribute(
        (const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::SHARED);
    if (error != cudaSuccess)
        return error;
    return hf_chain_launch(cuda, kernel, dim3((unsigned)(cuda->sms / S::CLUSTER * S::CLUSTER)),
                           S::THREADS, S::SHARED, S::CLUSTER, map, args);
}

/* What kernel_of() gets: a constant. */
template <int MODE> struct filter_mode_constant { static constexpr int value = MODE; };

/* kernel_of(constant): the instance of shape S for that mode. */
template <class S, class F>
static cudaError_t filter_start_mode(const struct hf_cuda *cuda, const CUtensorMap &map,
                                     const struct filter_args &args, int mode, F kernel_of) {
    switch (mode) {
    case FILTER_BEST:
        return filter_start<S>(cuda, map, args, kernel_of(filter_mode_constant<FILTER_BEST>()));
    case FILTER_TOP2:
        return filter_start<S>(cuda, map, args, kernel_of(filter_mode_constant<FILTER_TOP2>()));
    case FILTER_EMIT:
        return filter_start<S>(cuda, map, args, kernel_of(filter_mode_constant<FILTER_EMIT>()));
    case FILTER_LIST:
        return filter_start<S>(cuda, map, args, kernel_of(filter_mode_constant<FILTER_LIST>()));
    case FILTER_BEST_CHUNK:
        return filter_start<S>(cuda, map, args,
                               kernel_of(filter_mode_constant<FILTER_BEST_CHUNK>()));
    default:
        return filter_start<S>(cuda, map, args,
                               kernel_of(filter_mode_constant<FILTER_TOP2_CHUNK>()));
    }
}

#endif
