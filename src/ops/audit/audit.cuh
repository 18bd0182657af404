/* SPDX-License-Identifier: Apache-2.0
 * Parts of audit for kernels: what the lanes of a warp do together. */
#ifndef HF_AUDIT_CUH
#define HF_AUDIT_CUH

#include "device/cuda/reduce.cuh"
#include "ops/audit/audit_cuda.h"

#define AUDIT_WARP 32
#define AUDIT_STEP 2654435769u

/* The sums of a problem as audit reads them. */
struct audit_sums {
    const int64_t *sum;    /* [limbs, k, d] */
    const int64_t *weight; /* [limbs, k] or NULL */
    const hf_u64 *factor;  /* [limbs, d + 1] */
    int64_t k, d;
    int limbs;
};

/* The lowest of all rows or clusters that are told; -1, the highest as unsigned, before. */
static __device__ __forceinline__ void audit_note(int64_t *lowest, int64_t at) {
    atomicMin((hf_u64 *)lowest, (hf_u64)at);
}

/* The word that the sums of cluster j give, in all lanes of the warp. */
static __device__ __forceinline__ hf_u64 audit_word(const struct audit_sums &s, int64_t j) {
    const int lane = (int)threadIdx.x % AUDIT_WARP;
    hf_u64 word = 0;
    for (int64_t limb = 0; limb < s.limbs; limb++) {
        const hf_u64 *factor = s.factor + limb * (s.d + 1);
        const int64_t *sum = s.sum + (limb * s.k + j) * s.d;
        for (int64_t f = lane; f < s.d; f += AUDIT_WARP)
            word += factor[f] * (hf_u64)sum[f];
        if (s.weight != NULL && lane == 0)
            word += factor[s.d] * (hf_u64)s.weight[limb * s.k + j];
    }
    return hf_warp_sum(word);
}

/* What word i adds to a signature. */
static __device__ __forceinline__ hf_u64 audit_sign(uint32_t word, int64_t i) {
    return (hf_u64)word * (((uint32_t)i * AUDIT_STEP) | 1u);
}

#endif
