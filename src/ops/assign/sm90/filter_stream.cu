/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/assign/sm90/filter_start.cuh"
#include "ops/assign/sm90/filter_stream.cuh"

template <bool BF16>
cudaError_t hf_filter_stream(const struct hf_cuda *cuda, const CUtensorMap &map,
                             struct filter_args args, int mode) {
    typedef struct filter_stream_shape<BF16> S;
    return filter_start_mode<S>(cuda, map, args, mode, [](auto m) -> filter_kernel * {
        return hf_filter_stream_kernel<S, decltype(m)::value>;
    });
}

template cudaError_t hf_filter_stream<false>(const struct hf_cuda *, const CUtensorMap &,
                                             struct filter_args, int);
template cudaError_t hf_filter_stream<true>(const struct hf_cuda *, const CUtensorMap &,
                                            struct filter_args, int);
