/* SPDX-License-Identifier: Apache-2.0
 * CRC-32C by the CPU's instruction, three sequences at once to hide its latency (Gopal et al.: Fast
 * CRC computation for iSCSI polynomial using CRC32 instruction, 2011); by products without carries
 * of 512 bits, which fold 16 sequences into one (Gopal et al.: Fast CRC computation for generic
 * polynomials using PCLMULQDQ instruction, 2009); and the arithmetic of polynomials that joins
 * sequences. */
#include "base/checksum/checksum.h"
#include "base/checksum/step.h"
#include "base/compiler.h"

#include <pthread.h>

#define CRC32_POLYNOMIAL 0xedb88320u
#define CRC32C_POLYNOMIAL 0x82f63b78u
#define LONG_WORDS INT64_C(512) /* of each of the three sequences, */
#define SHORT_WORDS INT64_C(32) /* where there are no more */
#define FOLDS 5
#define FOLD_WORDS INT64_C(16)      /* of a vector of 512 bits */
#define FOLD_LEAST (8 * FOLD_WORDS) /* where folding pays */

static const uint64_t fold_bits[FOLDS] = {128, 256, 384, 512, 2048};

uint32_t hf_crc32_table[256];
static uint32_t crc32_square[64];  /* x^(32 2^i) modulo zlib's polynomial */
static uint32_t shift_long[2];     /* move a register on by LONG_WORDS, and by twice as many, */
static uint32_t shift_short[2];    /* by SHORT_WORDS */
static uint64_t fold_by[FOLDS][2]; /* 128 bits move on by fold_bits[]: factors of their halves */
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

/* x^exponent */
static uint32_t power(uint64_t exponent, uint32_t polynomial) {
    uint32_t result = 1u << 31, base = 1u << 30; /* 1 and x */
    for (; exponent > 0; exponent >>= 1, base = multiply(base, base, polynomial))
        if (exponent & 1)
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
    crc32_square[0] = power(32, CRC32_POLYNOMIAL);
    for (int i = 1; i < 64; i++)
        crc32_square[i] = multiply(crc32_square[i - 1], crc32_square[i - 1], CRC32_POLYNOMIAL);
    for (uint64_t i = 0; i < 2; i++) { /* 33: what moved() multiplies by besides */
        shift_long[i] = power(32 * (i + 1) * (uint64_t)LONG_WORDS - 33, CRC32C_POLYNOMIAL);
        shift_short[i] = power(32 * (i + 1) * (uint64_t)SHORT_WORDS - 33, CRC32C_POLYNOMIAL);
    }
    for (int i = 0; i < FOLDS; i++) { /* a product of reversed words comes out a bit too low */
        fold_by[i][0] = (uint64_t)power(fold_bits[i] + 32, CRC32C_POLYNOMIAL) << 1;
        fold_by[i][1] = (uint64_t)power(fold_bits[i] - 32, CRC32C_POLYNOMIAL) << 1;
    }
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
#include <immintrin.h>

#define CRC_TARGET __attribute__((target("sse4.2,pclmul")))

CRC_TARGET static inline uint64_t load_pair(const uint32_t *words) {
    uint64_t pair;
    memcpy(&pair, words, sizeof pair);
    return pair;
}

/* A register times a power of x: a product without carries, whose 64 bits the instruction reduces
 * as it would a pair of words, which multiplies by x^33 as well. */
CRC_TARGET static inline uint64_t moved(uint64_t crc, uint32_t shift) {
    const __m128i product =
        _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi32_si128((int)shift), 0);
    return _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(product));
}

/* Three parts side by side; registers are as they come, not complemented. */
CRC_TARGET static inline uint64_t three_parts(uint64_t crc, const uint32_t *w, int64_t part,
                                              const uint32_t shift[2]) {
    uint64_t c0 = crc, c1 = 0, c2 = 0;
    for (int64_t i = 0; i < part; i += 2) {
        c0 = _mm_crc32_u64(c0, load_pair(w + i));
        c1 = _mm_crc32_u64(c1, load_pair(w + part + i));
        c2 = _mm_crc32_u64(c2, load_pair(w + 2 * part + i));
    }
    return moved(c0, shift[1]) ^ moved(c1, shift[0]) ^ c2;
}

CRC_TARGET static uint32_t crc32c_instruction(uint32_t before, const uint32_t *w, int64_t count) {
    uint64_t crc = ~before;
    for (; count >= 3 * LONG_WORDS; count -= 3 * LONG_WORDS, w += 3 * LONG_WORDS)
        crc = three_parts(crc, w, LONG_WORDS, shift_long);
    for (; count >= 3 * SHORT_WORDS; count -= 3 * SHORT_WORDS, w += 3 * SHORT_WORDS)
        crc = three_parts(crc, w, SHORT_WORDS, shift_short);
    for (; count >= 2; count -= 2, w += 2)
        crc = _mm_crc32_u64(crc, load_pair(w));
    return ~(count > 0 ? _mm_crc32_u32((uint32_t)crc, *w) : (uint32_t)crc);
}

#define FOLD_TARGET __attribute__((target("avx512f,vpclmulqdq,sse4.2,pclmul")))

/* The four sequences of a vector move on by what `by` says, and meet `next`. */
FOLD_TARGET static inline __m512i folded(__m512i crc, __m512i by, __m512i next) {
    const __m512i low = _mm512_clmulepi64_epi128(crc, by, 0x00);
    const __m512i high = _mm512_clmulepi64_epi128(crc, by, 0x11);
    return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* exclusive or of all three */
}

FOLD_TARGET static inline __m512i fold_factor(int i) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)fold_by[i]));
}

/* The register after the four sequences of a vector, the first of which is farthest from the end.
 * Their last 128 bits are the same message as all that they stand for. */
FOLD_TARGET static inline uint32_t fold_end(__m512i crc) {
    const __m512i by = _mm512_set_epi64(0, 0, (long long)fold_by[0][1], (long long)fold_by[0][0],
                                        (long long)fold_by[1][1], (long long)fold_by[1][0],
                                        (long long)fold_by[2][1], (long long)fold_by[2][0]);
    const __m512i last = _mm512_maskz_mov_epi64(0xc0, crc);
    const __m512i f = folded(crc, by, last);
    const __m128i four = _mm_xor_si128(
        _mm_xor_si128(_mm512_extracti32x4_epi32(f, 0), _mm512_extracti32x4_epi32(f, 1)),
        _mm_xor_si128(_mm512_extracti32x4_epi32(f, 2), _mm512_extracti32x4_epi32(f, 3)));
    const uint64_t first = _mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(four));
    return (uint32_t)_mm_crc32_u64(first, (uint64_t)_mm_extract_epi64(four, 1));
}

/* As many whole vectors as there are, at least four; *done words. */
FOLD_TARGET static uint32_t crc32c_folded(uint32_t crc, const uint32_t *w, int64_t count,
                                          int64_t *done) {
    const __m512i by_four = fold_factor(4), by_one = fold_factor(3);
    __m512i c[4];
    int64_t at = 4 * FOLD_WORDS;
    UNROLL(4)
    for (int i = 0; i < 4; i++)
        c[i] = _mm512_loadu_si512(w + i * FOLD_WORDS);
    c[0] = _mm512_xor_si512(c[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
    for (; count - at >= 4 * FOLD_WORDS; at += 4 * FOLD_WORDS) {
        UNROLL(4)
        for (int i = 0; i < 4; i++)
            c[i] = folded(c[i], by_four, _mm512_loadu_si512(w + at + i * FOLD_WORDS));
    }
    UNROLL(4)
    for (int i = 1; i < 4; i++)
        c[0] = folded(c[0], by_one, c[i]);
    for (; count - at >= FOLD_WORDS; at += FOLD_WORDS)
        c[0] = folded(c[0], by_one, _mm512_loadu_si512(w + at));
    *done = at;
    return fold_end(c[0]);
}

static bool has_instructions(void) {
    return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

static bool has_folding(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq");
}

uint32_t hf_crc32c_words(uint32_t crc, const uint32_t *words, int64_t count) {
    int64_t done = 0;
    hf_crc32_fill();
    if (!has_instructions())
        return crc32c_plain(crc, words, count);
    if (count >= FOLD_LEAST && has_folding())
        crc = ~crc32c_folded(~crc, words, count, &done);
    return crc32c_instruction(crc, words + done, count - done);
}
#else
uint32_t hf_crc32c_words(uint32_t crc, const uint32_t *words, int64_t count) {
    return crc32c_plain(crc, words, count);
}
#endif
