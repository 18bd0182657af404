/* SPDX-License-Identifier: Apache-2.0
 * Fletcher-64 in eight lanes, inline, so that a kernel has it in the instruction set that it is
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

#define FLETCHER_LANES 8
#define FLETCHER_STEPS 32768 /* words of a lane: its sum of sums stays below 2^62 */

/* The same modulo 2^32 - 1, below twice that for what is below 2^63. */
static inline uint64_t hf_fold_ones(uint64_t x) { return (x & HF_ONES) + (x >> 32); }

/* Lanes of a vector. Vectors, because compilers leave arrays of sums in memory; of those that the
 * CPU has, because they take wider ones to pieces there, too. */
#if defined(__AVX512F__)
#define FLETCHER_EACH 8
#elif defined(__AVX2__)
#define FLETCHER_EACH 4
#else
#define FLETCHER_EACH 2
#endif
#define FLETCHER_VECTORS (FLETCHER_LANES / FLETCHER_EACH)
typedef uint64_t hf_fletcher_sums __attribute__((vector_size(8 * FLETCHER_EACH)));
typedef uint32_t hf_fletcher_next __attribute__((vector_size(4 * FLETCHER_EACH)));

/* Eight lanes sum without a modulo: with A_l and B_l the sums of lane l, the words before count
 * - i others count that often, which is 8 B_l - l A_l. */
static inline void hf_fletcher_block(struct hf_checksum *s, const uint32_t *w, int64_t steps) {
    hf_fletcher_sums a[FLETCHER_VECTORS] = {{0}}, b[FLETCHER_VECTORS] = {{0}};
    uint64_t words = 0, sums = 0;
    for (int64_t t = 0; t < steps; t++)
        UNROLL(4)
    for (int v = 0; v < FLETCHER_VECTORS; v++) {
        hf_fletcher_next next;
        memcpy(&next, w + t * FLETCHER_LANES + v * FLETCHER_EACH, sizeof next);
        a[v] += __builtin_convertvector(next, hf_fletcher_sums);
        b[v] += a[v];
    }
    for (uint64_t l = 0; l < FLETCHER_LANES; l++) {
        const uint64_t once = hf_fold_ones(a[l / FLETCHER_EACH][l % FLETCHER_EACH]);
        words += once;
        sums += FLETCHER_LANES * hf_fold_ones(b[l / FLETCHER_EACH][l % FLETCHER_EACH]);
        sums += l * (2 * (uint64_t)HF_ONES - once);
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
