/* SPDX-License-Identifier: Apache-2.0
 * For each line of checksum.def: hf_begin_<name>(), hf_step_<name>() and hf_value_<name>(), inline,
 * so that a product that signs its operands has them in its loops. */
#ifndef HF_CHECKSUM_STEP_H
#define HF_CHECKSUM_STEP_H

#include "base/checksum/checksum.h"
#include "base/file.h"

#include <string.h>

#define HF_ONES 0xffffffffu /* 2^32 - 1, which one's complement takes for 0 */

extern uint32_t hf_crc32_table[256]; /* of the five of the paper; filled by hf_begin_crc32() */
void hf_crc32_fill(void);

static inline void hf_begin_xor(struct hf_checksum *s) { s->words = s->a = 0; }
static inline void hf_step_xor(struct hf_checksum *s, uint32_t w) { s->a ^= w; }
static inline uint64_t hf_value_xor(const struct hf_checksum *s) { return s->a; }

static inline void hf_begin_twos(struct hf_checksum *s) { s->words = s->a = 0; }
static inline void hf_step_twos(struct hf_checksum *s, uint32_t w) { s->a = (uint32_t)s->a + w; }
static inline uint64_t hf_value_twos(const struct hf_checksum *s) { return (uint32_t)s->a; }

/* Algorithm 2 of the paper: an addition with end-around carry, then the complement. Both zeros of
 * one's complement are one value. */
static inline void hf_begin_ones(struct hf_checksum *s) { s->words = s->a = 0; }
static inline void hf_step_ones(struct hf_checksum *s, uint32_t w) {
    const uint64_t sum = (uint64_t)(uint32_t)s->a + w;
    s->a = (uint32_t) ~(uint32_t)(sum + (sum >> 32));
}
static inline uint64_t hf_value_ones(const struct hf_checksum *s) {
    return s->a == HF_ONES ? 0 : s->a;
}

static inline void hf_begin_ones_sum(struct hf_checksum *s) { s->words = s->a = 0; }
static inline void hf_step_ones_sum(struct hf_checksum *s, uint32_t w) {
    const uint64_t sum = s->a + w;
    s->a = (uint32_t)(sum + (sum >> 32));
}
static inline uint64_t hf_value_ones_sum(const struct hf_checksum *s) { return s->a % HF_ONES; }

/* x modulo 2^32 - 1 for x below twice that: of the two modulos of each word no division is left. */
static inline uint64_t hf_modulo_ones(uint64_t x) { return x >= HF_ONES ? x - HF_ONES : x; }

static inline void hf_begin_fletcher(struct hf_checksum *s) { s->words = s->a = s->b = 0; }
static inline void hf_step_fletcher(struct hf_checksum *s, uint32_t w) {
    s->a = hf_modulo_ones(s->a + w);
    s->b = hf_modulo_ones(s->b + s->a);
}
static inline uint64_t hf_value_fletcher(const struct hf_checksum *s) { return s->b << 32 | s->a; }

static inline void hf_begin_crc32(struct hf_checksum *s) {
    hf_crc32_fill();
    s->words = 0;
    s->a = HF_ONES;
}
static inline void hf_step_crc32(struct hf_checksum *s, uint32_t w) {
    uint32_t crc = (uint32_t)s->a ^ w;
    for (int byte = 0; byte < 4; byte++)
        crc = crc >> 8 ^ hf_crc32_table[crc & 255];
    s->a = crc;
}
static inline uint64_t hf_value_crc32(const struct hf_checksum *s) { return (uint32_t)~s->a; }

static inline void hf_begin_crc32c(struct hf_checksum *s) { s->words = s->a = 0; }
static inline void hf_step_crc32c(struct hf_checksum *s, uint32_t w) {
    const unsigned char bytes[4] = {(unsigned char)w, (unsigned char)(w >> 8),
                                    (unsigned char)(w >> 16), (unsigned char)(w >> 24)};
    s->a = hf_crc32c((uint32_t)s->a, bytes, sizeof bytes);
}
static inline uint64_t hf_value_crc32c(const struct hf_checksum *s) { return s->a; }

/* Bit column c of lane l is a register of 32 bits that shifts once for each word that the lane
 * takes, with the primitive polynomial x^32 + x^22 + x^2 + x + 1. Word i goes to lane i mod 16. The
 * rows of registers stay where they are: the row of register j moves by one with each shift. */
static inline void hf_begin_crc_columns(struct hf_checksum *s) {
    s->words = 0;
    memset(s->column, 0xff, sizeof s->column);
}
static inline uint32_t *hf_crc_row(struct hf_checksum *s, uint64_t shifts, int j) {
    return s->column[((uint64_t)j + HF_CRC_DEGREE - shifts % HF_CRC_DEGREE) % HF_CRC_DEGREE];
}
static inline void hf_step_crc_columns(struct hf_checksum *s, uint32_t w) {
    const uint64_t shifts = s->words / HF_CRC_LANES;
    const int lane = (int)(s->words % HF_CRC_LANES);
    const uint32_t out = hf_crc_row(s, shifts, 31)[lane];
    hf_crc_row(s, shifts, 31)[lane] = out ^ w; /* register 0 after the shift */
    hf_crc_row(s, shifts, 0)[lane] ^= out;     /* 1 */
    hf_crc_row(s, shifts, 1)[lane] ^= out;     /* 2 */
    hf_crc_row(s, shifts, 21)[lane] ^= out;    /* 22 */
    s->words++;
}
uint64_t hf_value_crc_columns(const struct hf_checksum *s); /* folded by CRC-32C */

#endif
