/* SPDX-License-Identifier: Apache-2.0
 * Fletcher-64 in eight lanes, inline, so that a kernel has it in the instruction set that it is
 * compiled for; and arithmetic modulo 2^32 - 1. */
#ifndef HF_FLETCHER_H
#define HF_FLETCHER_H

#include "base/checksum/step.h"

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

/* Eight lanes sum without a modulo: with A_l and B_l the sums of lane l, the words before count
 * - i others count that often, which is 8 B_l - l A_l. */
static inline void hf_fletcher_block(struct hf_checksum *s, const uint32_t *w, int64_t steps) {
    uint64_t a[FLETCHER_LANES] = {0}, b[FLETCHER_LANES] = {0};
    for (int64_t t = 0; t < steps; t++)
        for (int l = 0; l < FLETCHER_LANES; l++) {
            a[l] += w[t * FLETCHER_LANES + l];
            b[l] += a[l];
        }
    s->b = hf_add_ones(s->b, hf_multiply_ones((uint64_t)steps * FLETCHER_LANES, s->a));
    for (uint64_t l = 0; l < FLETCHER_LANES; l++) {
        s->b = hf_add_ones(s->b, hf_multiply_ones(FLETCHER_LANES, b[l]));
        s->b = hf_add_ones(s->b, hf_negative_ones(hf_multiply_ones(l, a[l])));
        s->a = hf_add_ones(s->a, a[l]);
    }
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
