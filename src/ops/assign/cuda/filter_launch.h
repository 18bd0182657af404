/* SPDX-License-Identifier: Apache-2.0
 * The instances of the filter's kernels, for d up to DP. */
#ifndef HF_ASSIGN_FILTER_LAUNCH_H
#define HF_ASSIGN_FILTER_LAUNCH_H

#include "ops/assign/cuda/filter_schedule.cuh"
#include <cuda.h>

/* BF16: rows are bf16. mode: enum filter_mode. */
template <int DP, bool BF16>
cudaError_t hf_filter_launch(const struct hf_cuda *cuda, const CUtensorMap &map,
                             struct filter_args args, int mode);

/* For d beyond. */
template <bool BF16>
cudaError_t hf_filter_stream(const struct hf_cuda *cuda, const CUtensorMap &map,
                             struct filter_args args, int mode);

#endif
