/* SPDX-License-Identifier: Apache-2.0
 * Fletcher-64 in lanes, inline, so that a kernel has it in the instruction set that it is
 * compiled for; and arithmetic modulo 2^32 - 1. */
#ifndef HF_FLETCHER_H
#define HF_FLETCHER_H

#include "base/checksum/step.h"
#include "base/compiler.h"

#include <string.h>

/* A sum modulo 2^32 - 1. */
static inline uint64_t hf_add_ones(uint64_t a, uint64_t b) {
    return (a % HF_ONES + b % HF_ONES) % HF_ONES;
}
static inline uint64_t hf_negative_ones(uint64_t a) { return (HF_ONES - a % HF_ONES) % HF_ONES; }
static inline uint64_t hf_multiply_ones(uint64_t a, uint64_t b) {
    return a % HF_ONES * (b % HF_ONES) % HF_ONES;
}

/* The same modulo 2^32 - 1, below twice that for what is below 2^63. */
static inline uint64_t hf_fold_ones(uint64_t x) { return (x & HF_ONES) + (x >> 32); }

/* Pairs of words in a vector, and vectors at once. Vectors, because compilers leave arrays of sums
 * in memory; of those that the CPU has, because they take wider ones to pieces there, too. */
#if defined(__AVX512F__)
#define FLETCHER_PAIRS 8
#define FLETCHER_VECTORS 1
#elif defined(__AVX2__)
#define FLETCHER_PAIRS INT64_C(4)
#define FLETCHER_VECTORS INT64_C(2)
#else
#define FLETCHER_PAIRS INT64_C(2)
#define FLETCHER_VECTORS INT64_C(2)
#endif
#define FLETCHER_LANES (2 * FLETCHER_PAIRS * FLETCHER_VECTORS)
#define FLETCHER_STEPS 32768 /* words of a lane: its sum of sums stays below 2^62 */
typedef uint64_t hf_fletcher_sums __attribute__((vector_size(8 * FLETCHER_PAIRS)));

/* Lanes sum without a modulo: with A_l and B_l the sums of lane l of L, the words before count - i
 * others count that often, which is L B_l - l A_l. Of each pair the first word is in one vector of
 * lanes, the second in another. */
static inline void hf_fletcher_block(struct hf_checksum *s, const uint32_t *w, int64_t steps) {
    hf_fletcher_sums a[2 * FLETCHER_VECTORS] = {{0}}, b[2 * FLETCHER_VECTORS] = {{0}};
    uint64_t words = 0, sums = 0;
    for (int64_t t = 0; t < steps; t++)
        UNROLL(2)
    for (int64_t v = 0; v < FLETCHER_VECTORS; v++, w += 2 * FLETCHER_PAIRS) {
        hf_fletcher_sums pairs;
        memcpy(&pairs, w, sizeof pairs);
        a[2 * v] += pairs & HF_ONES;
        a[2 * v + 1] += pairs >> 32;
        b[2 * v] += a[2 * v];
        b[2 * v + 1] += a[2 * v + 1];
    }
    for (uint64_t l = 0; l < FLETCHER_LANES; l++) {
        const uint64_t v = l / (2 * FLETCHER_PAIRS) * 2 + l % 2, pair = l / 2 % FLETCHER_PAIRS;
        const uint64_t once = hf_fold_ones(a[v][pair]);
        words += once;
        sums += FLETCHER_LANES * hf_fold_ones(b[v][pair]) + l * (2 * (uint64_t)HF_ONES - once);
    }
    s->b = hf_add_ones(s->b, hf_multiply_ones((uint64_t)steps * FLETCHER_LANES, s->a));
    s->b = hf_add_ones(s->b, sums);
    s->a = hf_add_ones(s->a, words);
}

static inline void hf_fletcher_words(struct hf_checksum *s, const uint32_t *w, int64_t count) {
    for (int64_t steps = count / FLETCHER_LANES; steps > 0; steps = count / FLETCHER_LANES) {
        steps = steps < FLETCHER_STEPS ? steps : FLETCHER_STEPS;
        hf_fletcher_block(s, w, steps);
        w += steps * FLETCHER_LANES;
        count -= steps * FLETCHER_LANES;
    }
    for (int64_t i = 0; i < count; i++)
        hf_step_fletcher(s, w[i]);
}

#endif
