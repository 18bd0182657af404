/* SPDX-License-Identifier: Apache-2.0
 * One launch of a filter kernel; cmake/Cuda.cmake makes an instance file per class of d and type,
 * which keeps compile times short. */
#ifndef HF_ASSIGN_FILTER_LAUNCH_CUH
#define HF_ASSIGN_FILTER_LAUNCH_CUH

#include "ops/assign/sm90/filter_kernel.cuh"
#include "ops/assign/sm90/filter_start.cuh"

/* Groups that are left are not cut where that saves less than it costs: pieces are merged through
 * memory, which takes about 6,000 cycles beside a last whole round. A product of 16 columns takes
 * half a cycle a centroid; what is done with its scores as much as one such step. */
template <class S>
static bool filter_whole(const struct hf_cuda *cuda, const struct filter_args &a) {
    const int64_t rows = S::UNITS * FILTER_WG_ROWS, blocks = cuda->sms / S::CLUSTER;
    const int64_t groups = a.rows.batch * ((a.rows.n + rows - 1) / rows);
    const int64_t cycles = (int64_t)S::WGS * S::NT * (S::DP + 32) / 32 * a.tiles_per_problem;
    return !a.split && a.rows.list == NULL && groups >= blocks &&
           (blocks - groups % blocks) * cycles <= 6000 * blocks;
}

template <int DP, bool BF16>
cudaError_t hf_filter_launch(const struct hf_cuda *cuda, const CUtensorMap &map,
                             struct filter_args args, int mode) {
    typedef struct filter_shape<DP, BF16> S;
    /* Tiles that stay need no copies; but then the next problem's tiles cannot come early. */
    args.resident = args.tiles_per_problem <= S::STAGES &&
                    (args.rows.batch == 1 || args.rows.n >= 8 * S::WGS * FILTER_WG_ROWS);
    args.whole = filter_whole<S>(cuda, args);
    return filter_start_mode<S>(cuda, map, args, mode, [](auto m) -> filter_kernel * {
        return hf_filter_kernel<S, decltype(m)::value>;
    });
}

#endif
