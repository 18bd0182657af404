/* SPDX-License-Identifier: Apache-2.0
 * One launch of a filter kernel; an instance file per class of d and type keeps compile times
 * short. */
#ifndef HF_ASSIGN_FILTER_LAUNCH_CUH
#define HF_ASSIGN_FILTER_LAUNCH_CUH

#include "ops/assign/assign_filter_kernel.cuh"
#include "ops/assign/assign_filter_start.cuh"

template <int DP, bool BF16>
cudaError_t hf_filter_launch(const struct hf_cuda *cuda, const CUtensorMap &map,
                             struct filter_args args, int mode) {
    typedef struct filter_shape<DP, BF16> S;
    /* Tiles that stay need no copies; but then the next problem's tiles cannot come early. */
    args.resident = args.tiles_per_problem <= S::STAGES &&
                    (args.rows.batch == 1 || args.rows.n >= 8 * S::WGS * FILTER_WG_ROWS);
    return filter_start_mode<S>(cuda, map, args, mode, [](auto m) -> filter_kernel * {
        return hf_filter_kernel<S, decltype(m)::value>;
    });
}

#endif
