/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/assign/sm90/filter_launch.cuh"

template cudaError_t hf_filter_launch<256, false>(const struct hf_cuda *, const CUtensorMap &,
                                                  struct filter_args, int);
