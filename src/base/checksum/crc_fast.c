/* SPDX-License-Identifier: Apache-2.0
 * CRC-32C by the CPU's instruction, three sequences at once to hide its latency (Gopal et al.: Fast
 * CRC computation for iSCSI polynomial using CRC32 instruction, 2011), and the arithmetic of
 * polynomials that joins sequences. */
#include "base/checksum/checksum.h"
#include "base/checksum/step.h"

#include <pthread.h>

#define CRC32_POLYNOMIAL 0xedb88320u
#define CRC32C_POLYNOMIAL 0x82f63b78u
#define PART_WORDS 512 /* of each of the three sequences */

uint32_t hf_crc32_table[256];
static uint32_t crc32_square[64]; /* x^(32 2^i) modulo zlib's polynomial */
static uint32_t part_power[2];    /* x^(32 PART_WORDS), and its square, modulo Castagnoli's */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Bit 31 of these words is the coefficient of 1, bit 0 that of x^31. */
static uint32_t multiply(uint32_t a, uint32_t b, uint32_t polynomial) {
    uint32_t product = 0;
    for (uint32_t bit = 1u << 31; bit != 0; bit >>= 1) {
        product ^= a & bit ? b : 0;
        b = b >> 1 ^ (b & 1 ? polynomial : 0);
    }
    return product;
}

/* x^(32 words) */
static uint32_t power(uint64_t words, uint32_t polynomial) {
    uint32_t result = 1u << 31, base = 1; /* 1; x^31, then x^32 */
    base = multiply(base, 1u << 30, polynomial);
    for (; words > 0; words >>= 1, base = multiply(base, base, polynomial))
        if (words & 1)
            result = multiply(result, base, polynomial);
    return result;
}

static void fill(void) {
    for (uint32_t b = 0; b < 256; b++) {
        uint32_t crc = b;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? CRC32_POLYNOMIAL : 0);
        hf_crc32_table[b] = crc;
    }
    crc32_square[0] = power(1, CRC32_POLYNOMIAL);
    for (int i = 1; i < 64; i++)
        crc32_square[i] = multiply(crc32_square[i - 1], crc32_square[i - 1], CRC32_POLYNOMIAL);
    part_power[0] = power(PART_WORDS, CRC32C_POLYNOMIAL);
    part_power[1] = power((uint64_t)2 * PART_WORDS, CRC32C_POLYNOMIAL);
}

void hf_crc32_fill(void) { (void)pthread_once(&once, fill); }

uint32_t hf_crc32_multiply(uint32_t a, uint32_t b) { return multiply(a, b, CRC32_POLYNOMIAL); }

uint32_t hf_crc32_power(uint64_t words) {
    hf_crc32_fill();
    uint32_t result = 1u << 31;
    for (int i = 0; words > 0; words >>= 1, i++)
        if (words & 1)
            result = hf_crc32_multiply(result, crc32_square[i]);
    return result;
}

static uint32_t crc32c_plain(uint32_t crc, const uint32_t *words, int64_t count) {
    struct hf_checksum s = {.a = crc};
    for (int64_t i = 0; i < count; i++)
        hf_step_crc32c(&s, words[i]);
    return (uint32_t)s.a;
}

#if defined(__x86_64__)
#include <nmmintrin.h>

__attribute__((target("sse4.2"))) static uint64_t load_pair(const uint32_t *words) {
    uint64_t pair;
    memcpy(&pair, words, sizeof pair);
    return pair;
}

/* Three parts side by side; registers are as they come, not complemented. */
__attribute__((target("sse4.2"))) static uint32_t three_parts(uint32_t crc, const uint32_t *w) {
    uint64_t c0 = crc, c1 = 0, c2 = 0;
    for (int i = 0; i < PART_WORDS; i += 2) {
        c0 = _mm_crc32_u64(c0, load_pair(w + i));
        c1 = _mm_crc32_u64(c1, load_pair(w + PART_WORDS + i));
        c2 = _mm_crc32_u64(c2, load_pair(w + 2 * PART_WORDS + i));
    }
    return multiply((uint32_t)c0, part_power[1], CRC32C_POLYNOMIAL) ^
           multiply((uint32_t)c1, part_power[0], CRC32C_POLYNOMIAL) ^ (uint32_t)c2;
}

__attribute__((target("sse4.2"))) static uint32_t
crc32c_instruction(uint32_t crc, const uint32_t *w, int64_t count) {
    crc = ~crc;
    for (; count >= 3 * PART_WORDS; count -= 3 * PART_WORDS, w += 3 * PART_WORDS)
        crc = three_parts(crc, w);
    uint64_t wide = crc;
    for (; count >= 2; count -= 2, w += 2)
        wide = _mm_crc32_u64(wide, load_pair(w));
    crc = (uint32_t)wide;
    return ~(count > 0 ? _mm_crc32_u32(crc, *w) : crc);
}

uint32_t hf_crc32c_words(uint32_t crc, const uint32_t *words, int64_t count) {
    hf_crc32_fill();
    return __builtin_cpu_supports("sse4.2") ? crc32c_instruction(crc, words, count)
                                            : crc32c_plain(crc, words, count);
}
#else
uint32_t hf_crc32c_words(uint32_t crc, const uint32_t *words, int64_t count) {
    return crc32c_plain(crc, words, count);
}
#endif
