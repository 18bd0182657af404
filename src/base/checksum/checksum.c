/* SPDX-License-Identifier: Apache-2.0
 * The catalogue: fast forms, changes, and the table. */
#include "base/checksum/checksum.h"

#include "base/checksum/fletcher.h"
#include "base/checksum/step.h"

#include <zlib.h>

static void words_xor(struct hf_checksum *s, const uint32_t *w, int64_t count) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum ^= w[i];
    s->a ^= sum;
}

static void words_twos(struct hf_checksum *s, const uint32_t *w, int64_t count) {
    uint32_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += w[i];
    s->a = (uint32_t)s->a + sum;
}

/* 2^32 is 1 modulo 2^32 - 1, so carries may wait: the sum of fewer than 2^32 words cannot overflow.
 */
static uint64_t sum_words(const uint32_t *w, int64_t count, int64_t stride) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i += stride)
        sum += w[i];
    return sum % HF_ONES;
}

static void words_ones_sum(struct hf_checksum *s, const uint32_t *w, int64_t count) {
    s->a = hf_add_ones(s->a, sum_words(w, count, 1));
}

/* The complement is the negative: each word is subtracted where an even number follow, else added.
 */
static void words_ones(struct hf_checksum *s, const uint32_t *w, int64_t count) {
    if (count < 1)
        return;
    const bool odd = count % 2 != 0;
    const uint64_t even_places = sum_words(w, count, 2);
    const uint64_t odd_places = count > 1 ? sum_words(w + 1, count - 1, 2) : 0;
    const uint64_t sum = hf_add_ones(even_places, hf_negative_ones(odd_places));
    s->a = odd ? hf_negative_ones(hf_add_ones(s->a, sum)) : hf_add_ones(s->a, sum);
}

static void words_fletcher(struct hf_checksum *s, const uint32_t *w, int64_t count) {
    hf_fletcher_words(s, w, count);
}

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
static void words_crc32(struct hf_checksum *s, const uint32_t *w, int64_t count) {
    const uLong crc = (uint32_t)~s->a;
    s->a = (uint32_t) ~(uint32_t)crc32_z(crc, (const Bytef *)w, (size_t)count * sizeof *w);
}
#else
static void words_crc32(struct hf_checksum *s, const uint32_t *w, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        hf_step_crc32(s, w[i]);
}
#endif

static void words_crc32c(struct hf_checksum *s, const uint32_t *w, int64_t count) {
    s->a = hf_crc32c_words((uint32_t)s->a, w, count);
}

/* A shift of all lanes by a row of words. */
static void shift_columns(struct hf_checksum *s, const uint32_t *w) {
    const uint64_t shifts = s->words / HF_CRC_LANES;
    uint32_t *r31 = hf_crc_row(s, shifts, 31), *r0 = hf_crc_row(s, shifts, 0);
    uint32_t *r1 = hf_crc_row(s, shifts, 1), *r21 = hf_crc_row(s, shifts, 21);
    for (int l = 0; l < HF_CRC_LANES; l++) {
        const uint32_t out = r31[l];
        r31[l] = out ^ w[l];
        r0[l] ^= out;
        r1[l] ^= out;
        r21[l] ^= out;
    }
    s->words += HF_CRC_LANES;
}

static void words_crc_columns(struct hf_checksum *s, const uint32_t *w, int64_t count) {
    for (; count > 0 && s->words % HF_CRC_LANES != 0; count--)
        hf_step_crc_columns(s, *w++);
    for (; count >= HF_CRC_LANES; count -= HF_CRC_LANES, w += HF_CRC_LANES)
        shift_columns(s, w);
    for (; count > 0; count--)
        hf_step_crc_columns(s, *w++);
}

uint64_t hf_value_crc_columns(const struct hf_checksum *s) {
    uint32_t crc = hf_crc32c_words(0, &s->column[0][0], (int64_t)HF_CRC_DEGREE * HF_CRC_LANES);
    const uint32_t words[2] = {(uint32_t)s->words, (uint32_t)(s->words >> 32)};
    return hf_crc32c_words(crc, words, 2);
}

/* Weights and changes, as in hf_checksum_info. */

static uint64_t weight_one(uint64_t after) {
    (void)after;
    return 1;
}
static uint64_t weight_ones(uint64_t after) { return after % 2 == 0 ? HF_ONES - 1 : 1; }
static uint64_t weight_fletcher(uint64_t after) { return (after + 1) % HF_ONES << 32 | 1; }
static uint64_t weight_crc32(uint64_t after) { return hf_crc32_power(after + 1); }

static uint64_t change_xor(uint64_t weight, uint32_t old, uint32_t now) {
    return weight & 1 ? old ^ now : 0;
}
static uint64_t join_xor(uint64_t a, uint64_t b) { return a ^ b; }

static uint64_t change_twos(uint64_t weight, uint32_t old, uint32_t now) {
    return (uint32_t)((uint32_t)weight * (now - old));
}
static uint64_t join_twos(uint64_t a, uint64_t b) { return (uint32_t)(a + b); }

static uint64_t change_ones(uint64_t weight, uint32_t old, uint32_t now) {
    return hf_multiply_ones(weight, hf_add_ones(now, hf_negative_ones(old)));
}

static uint64_t change_fletcher(uint64_t weight, uint32_t old, uint32_t now) {
    const uint64_t a = hf_add_ones(now, hf_negative_ones(old));
    return hf_multiply_ones(weight >> 32, a) << 32 | hf_multiply_ones((uint32_t)weight, a);
}
static uint64_t join_fletcher(uint64_t x, uint64_t y) {
    return hf_add_ones(x >> 32, y >> 32) << 32 | hf_add_ones((uint32_t)x, (uint32_t)y);
}

static uint64_t change_crc32(uint64_t weight, uint32_t old, uint32_t now) {
    return hf_crc32_multiply((uint32_t)weight, old ^ now);
}

#define weight_xor weight_one
#define weight_twos weight_one
#define weight_ones_sum weight_one
#define change_ones_sum change_ones
#define join_ones hf_add_ones
#define join_ones_sum hf_add_ones
#define join_crc32 join_xor
/* Those of ours are counted by signing again. */
#define weight_crc32c NULL
#define change_crc32c NULL
#define join_crc32c NULL
#define weight_crc_columns NULL
#define change_crc_columns NULL
#define join_crc_columns NULL

/* step.h has functions that may be inline; a table wants addresses. */
#define CHECKSUM(NAME, name, bits, traits, text)                                                   \
    static void begin_##name(struct hf_checksum *s) { hf_begin_##name(s); }                        \
    static void step_##name(struct hf_checksum *s, uint32_t w) { hf_step_##name(s, w); }           \
    static uint64_t value_##name(const struct hf_checksum *s) { return hf_value_##name(s); }
#include "base/checksum/checksum.def"
#undef CHECKSUM

#define PAPER HF_CHECKSUM_PAPER
#define FREE HF_CHECKSUM_FREE
static const struct hf_checksum_info catalogue[HF_CHECKSUM_COUNT] = {
#define CHECKSUM(NAME, name, bits, traits, text)                                                   \
    {#name,        text,         bits,          (traits),      begin_##name, step_##name,          \
     words_##name, value_##name, weight_##name, change_##name, join_##name},
#include "base/checksum/checksum.def"
#undef CHECKSUM
};

const struct hf_checksum_info *hf_checksum_at(int id) {
    return id >= 0 && id < HF_CHECKSUM_COUNT ? &catalogue[id] : NULL;
}

int hf_checksum_find(const char *name) {
    for (int id = 0; id < HF_CHECKSUM_COUNT; id++)
        if (strcmp(catalogue[id].name, name) == 0)
            return id;
    return -1;
}

uint64_t hf_checksum_of(int id, const uint32_t *words, int64_t count) {
    struct hf_checksum state;
    catalogue[id].begin(&state);
    catalogue[id].words(&state, words, count);
    return catalogue[id].value(&state);
}
