/* SPDX-License-Identifier: Apache-2.0
 * Checksums of 32-bit words: what execution signatures are made of. Each has a reference that takes
 * a word at a time, and a fast form that gives the same value. */
#ifndef HF_CHECKSUM_H
#define HF_CHECKSUM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Ids in the order of checksum.def: HF_CHECKSUM_XOR, ... */
enum hf_checksum_id {
#define CHECKSUM(NAME, name, bits, traits, text) HF_CHECKSUM_##NAME,
#include "base/checksum/checksum.def"
#undef CHECKSUM
    HF_CHECKSUM_COUNT
};

enum hf_checksum_trait {
    HF_CHECKSUM_PAPER = 1, /* in the catalogue of Fernandez et al. (2022) */
    HF_CHECKSUM_FREE = 2   /* the order of the words does not matter */
};

#define HF_CRC_DEGREE 32 /* registers of crc_columns, */
#define HF_CRC_LANES 16  /* each a row of this many words */

/* A checksum at work; begin sets what its kind uses. */
struct hf_checksum {
    uint64_t words;                               /* taken so far */
    uint64_t a, b;                                /* sums, or the register of a CRC */
    uint32_t column[HF_CRC_DEGREE][HF_CRC_LANES]; /* crc_columns alone */
};

struct hf_checksum_info {
    const char *name;
    const char *text;
    int bits;        /* of the value */
    uint32_t traits; /* enum hf_checksum_trait */
    void (*begin)(struct hf_checksum *state);
    void (*step)(struct hf_checksum *state, uint32_t word); /* the reference */
    /* Any number of words; between two calls, and with step(), in any mixture. */
    void (*words)(struct hf_checksum *state, const uint32_t *words, int64_t count);
    uint64_t (*value)(const struct hf_checksum *state);
    /* The value of a sequence is the sum, in a group, of a contribution of each word that depends
     * on the word and on how many follow. weight: what stands for being followed by `after` words;
     * change: what becomes of the sum when a word of this weight is `now` instead of `old`, 0:
     * nothing; join: the sum of two changes, or of a value and a change, or the weight of a word
     * that is taken at both places. NULL for those whose faults are counted by signing again. */
    uint64_t (*weight)(uint64_t after);
    uint64_t (*change)(uint64_t weight, uint32_t old, uint32_t now);
    uint64_t (*join)(uint64_t left, uint64_t right);
};

/* NULL for an id out of range. */
const struct hf_checksum_info *hf_checksum_at(int id);
/* The id from a name, or -1. */
int hf_checksum_find(const char *name);

/* The value of words from the start, by the fast form. */
uint64_t hf_checksum_of(int id, const uint32_t *words, int64_t count);

/* CRC-32C of whole words after `crc`, as hf_crc32c(), by the CPU's instruction where it has it.
 * (crc_fast.c) */
uint32_t hf_crc32c_words(uint32_t crc, const uint32_t *words, int64_t count);

/* In the ring of polynomials over GF(2) modulo that of zlib's CRC-32, bits reversed as there: a
 * product, and x^(32 n). (crc_fast.c) */
uint32_t hf_crc32_multiply(uint32_t a, uint32_t b);
uint32_t hf_crc32_power(uint64_t words);

#endif
