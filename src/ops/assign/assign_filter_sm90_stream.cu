/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/assign/assign_filter_start.cuh"
#include "ops/assign/assign_filter_stream.cuh"

cudaError_t hf_filter_stream(const struct hf_cuda *cuda, const CUtensorMap &map,
                             struct filter_args args, int mode) {
    typedef struct filter_stream_shape S;
    return filter_start_mode<S>(cuda, map, args, mode, [](auto m) -> filter_kernel * {
        return hf_filter_stream_kernel<S, decltype(m)::value>;
    });
}
