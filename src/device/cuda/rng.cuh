/* SPDX-License-Identifier: Apache-2.0
 * base/rng.h on the device: the same bits. */
#ifndef HF_CUDA_RNG_CUH
#define HF_CUDA_RNG_CUH

#include <stdint.h>

/* A block of Philox4x32-10 as two halves, low first. */
struct hf_philox {
    uint64_t half[2];
};

static __device__ __forceinline__ struct hf_philox hf_philox_block(struct hf_philox c,
                                                                   uint64_t key) {
    uint32_t v0 = (uint32_t)c.half[0], v1 = (uint32_t)(c.half[0] >> 32);
    uint32_t v2 = (uint32_t)c.half[1], v3 = (uint32_t)(c.half[1] >> 32);
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * v0;
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * v2;
        v0 = (uint32_t)(p1 >> 32) ^ v1 ^ k0;
        v1 = (uint32_t)p1;
        v2 = (uint32_t)(p0 >> 32) ^ v3 ^ k1;
        v3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    c.half[0] = v0 | (uint64_t)v1 << 32;
    c.half[1] = v2 | (uint64_t)v3 << 32;
    return c;
}

/* hf_rng_bits() */
static __device__ __forceinline__ uint64_t hf_device_rng_bits(uint64_t seed, uint64_t stream,
                                                              uint64_t counter) {
    const struct hf_philox c = {{counter, stream}};
    return hf_philox_block(c, seed).half[0];
}

/* hf_rng_below(); n > 0 */
static __device__ __forceinline__ uint64_t hf_device_rng_below(uint64_t seed, uint64_t stream,
                                                               uint64_t counter, uint64_t n) {
    struct hf_philox b = {{counter, stream}};
    for (;;) {
        b = hf_philox_block(b, seed);
        for (int i = 0; i < 2; i++) /* the remainder is below n: mostly it need not be known */
            if (b.half[i] * n >= n || b.half[i] * n >= (0 - n) % n)
                return __umul64hi(b.half[i], n);
    }
}

#endif
