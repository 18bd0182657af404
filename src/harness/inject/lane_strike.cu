/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/inject/lane_strike.h"
#include "ops/lanes/lanes_chains.cuh"

struct struck {
    struct hf_struck_lane at;
    __device__ uint32_t operator()(uint32_t word) const {
        const bool hit = hf_slot_unit() == at.unit && (int32_t)threadIdx.x == at.lane;
        return hit ? ((word & at.keep) | at.set) ^ at.flip : word;
    }
};

hf_status hf_struck_lanes_run(const struct hf_call *call, const struct hf_struck_lane *lane) {
    return lanes_run_through(call, struck{*lane});
}
