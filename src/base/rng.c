/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rng.h"

#include <assert.h>
#include <math.h>

__extension__ typedef unsigned __int128 u128;

struct block {
    uint32_t v[4];
};

/* Philox4x32-10 of the paper: counter and key to four words. */
static struct block philox(struct block c, uint64_t key) {
    uint32_t k0 = (uint32_t)key, k1 = (uint32_t)(key >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c.v[0];
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * c.v[2];
        const struct block next = {{(uint32_t)(p1 >> 32) ^ c.v[1] ^ k0, (uint32_t)p1,
                                    (uint32_t)(p0 >> 32) ^ c.v[3] ^ k1, (uint32_t)p0}};
        c = next;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

static struct block start(uint64_t seed, uint64_t stream, uint64_t counter) {
    const struct block c = {
        {(uint32_t)counter, (uint32_t)(counter >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)}};
    return philox(c, seed);
}

static uint64_t low_half(struct block b) { return b.v[0] | (uint64_t)b.v[1] << 32; }

static uint64_t high_half(struct block b) { return b.v[2] | (uint64_t)b.v[3] << 32; }

uint64_t hf_rng_bits(uint64_t seed, uint64_t stream, uint64_t counter) {
    return low_half(start(seed, stream, counter));
}

/* Lemire, Fast random integer generation in an interval (2019): the upper half of bits * n is
 * uniform once products whose lower half is below 2^64 mod n are rejected. A block holds two tries;
 * when both fail, the block itself is the counter of the next one. */
uint64_t hf_rng_below(uint64_t seed, uint64_t stream, uint64_t counter, uint64_t n) {
    assert(n > 0);
    const uint64_t reject = (0 - n) % n;
    for (struct block b = start(seed, stream, counter);; b = philox(b, seed)) {
        const u128 first = (u128)low_half(b) * n;
        if ((uint64_t)first >= reject)
            return (uint64_t)(first >> 64);
        const u128 second = (u128)high_half(b) * n;
        if ((uint64_t)second >= reject)
            return (uint64_t)(second >> 64);
    }
}

double hf_rng_unit(uint64_t seed, uint64_t stream, uint64_t counter) {
    return (double)(hf_rng_bits(seed, stream, counter) >> 11) * 0x1p-53;
}

/* A Feistel network whose halves may differ by a bit permutes [0, 2^bits) with 2^bits < 2 n;
 * walking along a cycle until it is below n again permutes [0, n) (Black and Rogaway 2002). */
#define FEISTEL_ROUNDS 8

static uint64_t feistel(uint64_t seed, uint64_t stream, int bits, uint64_t x) {
    const int right_bits = bits - bits / 2;
    const uint64_t left_mask = ((uint64_t)1 << (bits / 2)) - 1;
    const uint64_t right_mask = ((uint64_t)1 << right_bits) - 1;
    uint64_t left = x >> right_bits, right = x & right_mask;
    for (int round = 0; round < FEISTEL_ROUNDS; round += 2) {
        left ^= hf_rng_bits(seed, stream, (uint64_t)round << 32 | right) & left_mask;
        right ^= hf_rng_bits(seed, stream, (uint64_t)(round + 1) << 32 | left) & right_mask;
    }
    return left << right_bits | right;
}

uint64_t hf_rng_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i) {
    assert(i < n);
    if (n == 1)
        return 0;
    const int bits = 64 - __builtin_clzll(n - 1);
    do
        i = feistel(seed, stream, bits, i);
    while (i >= n);
    return i;
}

#define LANES 8

/* hf_rng_bits() of several counters, whose chains of multiplications run side by side. */
static void bits_of_lanes(uint64_t seed, uint64_t stream, const uint64_t counter[LANES],
                          uint64_t bits[LANES]) {
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    uint32_t v0[LANES], v1[LANES], v2[LANES], v3[LANES];
    for (int l = 0; l < LANES; l++) {
        v0[l] = (uint32_t)counter[l];
        v1[l] = (uint32_t)(counter[l] >> 32);
        v2[l] = (uint32_t)stream;
        v3[l] = (uint32_t)(stream >> 32);
    }
    for (int round = 0; round < 10; round++) {
        for (int l = 0; l < LANES; l++) {
            const uint64_t p0 = (uint64_t)0xD2511F53u * v0[l];
            const uint64_t p1 = (uint64_t)0xCD9E8D57u * v2[l];
            v0[l] = (uint32_t)(p1 >> 32) ^ v1[l] ^ k0;
            v1[l] = (uint32_t)p1;
            v2[l] = (uint32_t)(p0 >> 32) ^ v3[l] ^ k1;
            v3[l] = (uint32_t)p0;
        }
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    for (int l = 0; l < LANES; l++)
        bits[l] = v0[l] | (uint64_t)v1[l] << 32;
}

/* feistel() of LANES numbers from `first` on. */
static void feistel_lanes(uint64_t seed, uint64_t stream, int bits, uint64_t first,
                          uint64_t x[LANES]) {
    const int right_bits = bits - bits / 2;
    const uint64_t left_mask = ((uint64_t)1 << (bits / 2)) - 1;
    const uint64_t right_mask = ((uint64_t)1 << right_bits) - 1;
    uint64_t left[LANES], right[LANES], counter[LANES], random[LANES];
    for (int l = 0; l < LANES; l++) {
        left[l] = (first + (uint64_t)l) >> right_bits;
        right[l] = (first + (uint64_t)l) & right_mask;
    }
    for (int round = 0; round < FEISTEL_ROUNDS; round += 2) {
        for (int l = 0; l < LANES; l++)
            counter[l] = (uint64_t)round << 32 | right[l];
        bits_of_lanes(seed, stream, counter, random);
        for (int l = 0; l < LANES; l++) {
            left[l] ^= random[l] & left_mask;
            counter[l] = (uint64_t)(round + 1) << 32 | left[l];
        }
        bits_of_lanes(seed, stream, counter, random);
        for (int l = 0; l < LANES; l++)
            right[l] ^= random[l] & right_mask;
    }
    for (int l = 0; l < LANES; l++)
        x[l] = left[l] << right_bits | right[l];
}

void hf_rng_permute_some(uint64_t seed, uint64_t stream, uint64_t n, uint64_t first, int64_t count,
                         uint64_t *out) {
    const int bits = n > 1 ? 64 - __builtin_clzll(n - 1) : 0;
    int64_t at = 0;
    for (uint64_t x[LANES]; n > 1 && count - at >= LANES; at += LANES) {
        feistel_lanes(seed, stream, bits, first + (uint64_t)at, x);
        for (int l = 0; l < LANES; l++) {
            while (x[l] >= n)
                x[l] = feistel(seed, stream, bits, x[l]);
            out[at + l] = x[l];
        }
    }
    for (; at < count; at++)
        out[at] = hf_rng_permute(seed, stream, n, first + (uint64_t)at);
}

uint64_t hf_rng_next(struct hf_rng *rng) {
    return hf_rng_bits(rng->seed, rng->stream, rng->counter++);
}

double hf_rng_next_unit(struct hf_rng *rng) {
    return hf_rng_unit(rng->seed, rng->stream, rng->counter++);
}

/* Box and Muller; 1 - u keeps the logarithm finite. */
double hf_rng_next_normal(struct hf_rng *rng) {
    const double radius = sqrt(-2.0 * log(1.0 - hf_rng_next_unit(rng)));
    return radius * cos(6.283185307179586 * hf_rng_next_unit(rng));
}
