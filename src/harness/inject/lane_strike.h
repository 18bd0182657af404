/* SPDX-License-Identifier: Apache-2.0
 * The kernel of op lanes for CUDA with a lane of a multiprocessor that is always wrong. */
#ifndef HF_LANE_STRIKE_H
#define HF_LANE_STRIKE_H

#include "core/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What becomes of each word in a register of that lane: (word & keep | set) ^ flip. */
struct hf_struck_lane {
    int32_t unit, lane;
    uint32_t keep, set, flip;
};

hf_status hf_struck_lanes_run(const struct hf_call *call, const struct hf_struck_lane *lane);

#ifdef __cplusplus
}
#endif
#endif
