/* SPDX-License-Identifier: Apache-2.0
 * Potentials on the device: the same integers as on the host. */
#ifndef HF_SEED_DEVICE_CUH
#define HF_SEED_DEVICE_CUH

#include "base/fixed.h"
#include "device/cuda/reduce.cuh"
#include "ops/seed/seed.h"

/* hf_seed_quantum() */
static __device__ __forceinline__ hf_u64 hf_seed_quantum_of(double v, double weight, double unit,
                                                            double limit) {
    const double scaled = __dmul_rn(__dmul_rn(weight, v), unit);
    if (scaled < limit)
        return __double2ull_rn(scaled);
    return weight > 0 ? (hf_u64)limit : 0;
}

/* hf_fixed_mult(bits, hf_fixed_exponent(most)); Inf counts as the largest number. */
static __device__ __forceinline__ double hf_seed_unit(int bits, double most) {
    int e = 0;
    const double m = frexp(fmin(most, DBL_MAX), &e);
    e = most == 0 ? -1074 : m > 0.5 ? e : e - 1;
    return ldexp(1.0, bits - e < 1023 ? bits - e : 1023);
}

/* What turns a distance into a potential. */
struct hf_seed_scale {
    const double *weights; /* [n] or NULL */
    double unit, limit;
};

static __device__ __forceinline__ hf_u64 hf_seed_potential(const struct hf_seed_scale s, int64_t i,
                                                           double v) {
    return hf_seed_quantum_of(v, s.weights ? s.weights[i] : 1, s.unit, s.limit);
}

#endif
