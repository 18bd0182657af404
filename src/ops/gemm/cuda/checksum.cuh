/* SPDX-License-Identifier: Apache-2.0
 * The checksums of base/checksum on a GPU, a word at a time, with the same values; crc_columns is
 * not among them. */
#ifndef HF_GEMM_CHECKSUM_CUH
#define HF_GEMM_CHECKSUM_CUH

#include "base/checksum/checksum.h"

#define GEMM_CRC_WORDS 1024 /* of the tables of a CRC in shared memory, one for each byte */

/* A checksum at work. Sums are reduced modulo 2^32 - 1 at times only: gemm_sign_fold(). */
struct gemm_sign {
    uint64_t a, b;
};

static __device__ __forceinline__ bool gemm_is_crc(int checksum) {
    return checksum == HF_CHECKSUM_CRC32 || checksum == HF_CHECKSUM_CRC32C;
}

/* Tables of what a byte, followed by 3, 2, 1 or no others, does to a CRC. All threads, before a
 * barrier. */
static __device__ inline void gemm_crc_fill(uint32_t *table, int checksum) {
    const uint32_t poly = checksum == HF_CHECKSUM_CRC32 ? 0xedb88320u : 0x82f63b78u;
    for (int i = (int)threadIdx.x; i < GEMM_CRC_WORDS; i += (int)blockDim.x) {
        uint32_t crc = (uint32_t)i & 255;
        for (int bit = 0; bit < 8 * (4 - i / 256); bit++)
            crc = crc >> 1 ^ (crc & 1 ? poly : 0);
        table[i] = crc;
    }
}

static __device__ __forceinline__ void gemm_sign_begin(struct gemm_sign *s, int checksum) {
    s->a = checksum == HF_CHECKSUM_CRC32 || checksum == HF_CHECKSUM_CRC32C ? 0xffffffffu : 0;
    s->b = 0;
}

static __device__ __forceinline__ uint32_t gemm_crc_step(const uint32_t *table, uint32_t crc) {
    return table[crc & 255] ^ table[256 + (crc >> 8 & 255)] ^ table[512 + (crc >> 16 & 255)] ^
           table[768 + (crc >> 24)];
}

static __device__ __forceinline__ uint64_t gemm_carry(uint64_t x) {
    return (x & 0xffffffffu) + (x >> 32);
}

/* Fletcher's second sum counts the first word N times, the last one once: two chains of
 * multiply-adds for each sum, where one addition after the other would wait for itself. */
template <int N>
static __device__ __forceinline__ void gemm_fletcher(struct gemm_sign *s, const uint32_t (&w)[N]) {
    uint64_t a[2] = {s->a, 0}, b[2] = {s->b, (uint64_t)N * s->a};
#pragma unroll
    for (int i = 0; i < N; i++) {
        a[i % 2] += w[i];
        b[i % 2] += (uint64_t)w[i] * (uint32_t)(N - i);
    }
    s->a = a[0] + a[1];
    s->b = b[0] + b[1];
}

template <int N>
static __device__ __forceinline__ void
gemm_sign_words(struct gemm_sign *s, int checksum, const uint32_t *table, const uint32_t (&w)[N]) {
    switch (checksum) {
    case HF_CHECKSUM_XOR:
#pragma unroll
        for (int i = 0; i < N; i++)
            s->a ^= w[i];
        break;
    case HF_CHECKSUM_ONES:
#pragma unroll
        for (int i = 0; i < N; i++)
            s->a = (uint32_t)~gemm_carry(s->a + w[i]);
        break;
    case HF_CHECKSUM_TWOS:
    case HF_CHECKSUM_ONES_SUM:
#pragma unroll
        for (int i = 0; i < N; i++)
            s->a += w[i];
        break;
    case HF_CHECKSUM_FLETCHER:
        gemm_fletcher(s, w);
        break;
    default:
#pragma unroll
        for (int i = 0; i < N; i++)
            s->a = gemm_crc_step(table, (uint32_t)s->a ^ w[i]);
    }
}

/* At least every 4,096 words. */
static __device__ __forceinline__ void gemm_sign_fold(struct gemm_sign *s, int checksum) {
    if (checksum != HF_CHECKSUM_FLETCHER && checksum != HF_CHECKSUM_ONES_SUM)
        return;
    s->a = gemm_carry(gemm_carry(s->a));
    s->b = gemm_carry(gemm_carry(s->b));
}

/* Modulo 2^32 - 1. */
static __device__ __forceinline__ uint64_t gemm_modulo(uint64_t x) {
    const uint64_t folded = gemm_carry(gemm_carry(x));
    return folded == 0xffffffffu ? 0 : folded;
}

static __device__ __forceinline__ uint64_t gemm_sign_value(const struct gemm_sign *s,
                                                           int checksum) {
    switch (checksum) {
    case HF_CHECKSUM_TWOS:
        return (uint32_t)s->a;
    case HF_CHECKSUM_ONES:
        return s->a == 0xffffffffu ? 0 : s->a;
    case HF_CHECKSUM_ONES_SUM:
        return gemm_modulo(s->a);
    case HF_CHECKSUM_FLETCHER:
        return gemm_modulo(s->b) << 32 | gemm_modulo(s->a);
    case HF_CHECKSUM_CRC32:
    case HF_CHECKSUM_CRC32C:
        return (uint32_t)~s->a;
    default:
        return s->a;
    }
}

#endif
