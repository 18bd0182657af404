/* SPDX-License-Identifier: Apache-2.0
 * Sums over a warp. */
#ifndef HF_GEMM_SUMS_CUH
#define HF_GEMM_SUMS_CUH

#include "ops/gemm/sums.h"

/* Of N numbers of each lane: that of number lane / (32 / N) in a lane. */
template <typename U, int N> static __device__ __forceinline__ U hf_warp_sums(U (&v)[N]) {
    const int lane = (int)threadIdx.x % 32;
    int bit = 16;
#pragma unroll
    for (int half = N / 2; half > 0; half /= 2, bit /= 2)
#pragma unroll
        for (int i = 0; i < half; i++) {
            const bool upper = (lane & bit) != 0;
            const U mine = upper ? v[i + half] : v[i], other = upper ? v[i] : v[i + half];
            v[i] = mine + __shfl_xor_sync(0xffffffffu, other, bit);
        }
#pragma unroll
    for (; bit > 0; bit /= 2)
        v[0] += __shfl_xor_sync(0xffffffffu, v[0], bit);
    return v[0];
}

#endif
