/* SPDX-License-Identifier: Apache-2.0
 * Counter-based random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers:
 * as easy as 1, 2, 3; SC 2011). A number depends on (seed, stream, counter) alone, so a seed means
 * the same on every backend and thread count. */
#ifndef HF_RNG_H
#define HF_RNG_H

#include <stdint.h>

/* 64 random bits of (seed, stream, counter). Streams keep uses apart: one per purpose and restart.
 */
uint64_t hf_rng_bits(uint64_t seed, uint64_t stream, uint64_t counter);

/* Uniform in [0, n), without bias; n > 0. */
uint64_t hf_rng_below(uint64_t seed, uint64_t stream, uint64_t counter, uint64_t n);

/* Uniform in [0, 1), a multiple of 2^-53. */
double hf_rng_unit(uint64_t seed, uint64_t stream, uint64_t counter);

/* Element i of a random permutation of [0, n): cycle-walking Feistel network over Philox. */
uint64_t hf_rng_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i);

/* Elements first, first + 1, ... of it, which takes a fraction of the time. */
void hf_rng_permute_some(uint64_t seed, uint64_t stream, uint64_t n, uint64_t first, int64_t count,
                         uint64_t *out);

/* A sequential reader, for tests and case makers. */
struct hf_rng {
    uint64_t seed, stream, counter;
};
uint64_t hf_rng_next(struct hf_rng *rng);
double hf_rng_next_unit(struct hf_rng *rng);
double hf_rng_next_normal(struct hf_rng *rng);

#endif
