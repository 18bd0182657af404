/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/assign/assign_filter_launch.cuh"

template cudaError_t hf_filter_stream<true>(const struct hf_cuda *, const CUtensorMap &,
                                            struct filter_args, int);
