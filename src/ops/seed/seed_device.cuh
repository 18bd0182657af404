/* SPDX-License-Identifier: Apache-2.0
 * Potentials on the device: the same integers as hf_seed_quantum(). */
#ifndef HF_SEED_DEVICE_CUH
#define HF_SEED_DEVICE_CUH

#include "device/cuda/reduce.cuh"
#include "ops/seed/seed.h"

/* What turns a distance into a potential. */
struct hf_seed_scale {
    const double *weights; /* [n] or NULL */
    double unit, limit;
};

static __device__ __forceinline__ hf_u64 hf_seed_potential(const struct hf_seed_scale s, int64_t i,
                                                           double v) {
    const double weight = s.weights ? s.weights[i] : 1;
    const double scaled = __dmul_rn(__dmul_rn(weight, v), s.unit);
    if (scaled < s.limit)
        return __double2ull_rn(scaled);
    return weight > 0 ? (hf_u64)s.limit : 0;
}

#endif
