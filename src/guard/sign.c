/* SPDX-License-Identifier: Apache-2.0
 * Signatures of memory. Each iteration signs the centroids some times and the bounds of all rows
 * twice, so AVX2 does it where the CPU has it. */
#include "base/cpuid.h"
#include "base/parallel.h"
#include "device/slot.h"
#include "guard/guard.h"

#define GRAIN 65536               /* words that one worker signs */
#define STEP UINT32_C(2654435769) /* 2^32 / golden ratio: neighbours get very different factors */

static uint64_t sign_plain(const uint32_t *word, int64_t begin, int64_t end) {
    uint64_t sum = 0;
    for (int64_t i = begin; i < end; i++)
        sum += (uint64_t)word[i] * (((uint32_t)i * STEP) | 1);
    return sum;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES 8
#define AVX2 __attribute__((target("avx2")))

/* The terms of eight words in four sums. */
AVX2 static inline __m256i add_terms(__m256i sum, __m256i word, __m256i place) {
    const __m256i factor = _mm256_or_si256(place, _mm256_set1_epi32(1));
    const __m256i even = _mm256_mul_epu32(word, factor);
    const __m256i odd =
        _mm256_mul_epu32(_mm256_srli_epi64(word, 32), _mm256_srli_epi64(factor, 32));
    return _mm256_add_epi64(sum, _mm256_add_epi64(even, odd));
}

AVX2 static uint64_t sign_avx2(const uint32_t *word, int64_t begin, int64_t end) {
    uint32_t first[LANES];
    uint64_t each[4];
    for (uint32_t i = 0; i < LANES; i++)
        first[i] = ((uint32_t)begin + i) * STEP;
    __m256i place = _mm256_loadu_si256((const void *)first);
    const __m256i on = _mm256_set1_epi32((int)(LANES * STEP));
    __m256i sum = _mm256_setzero_si256();
    __m256i other = sum;
    int64_t i = begin;
    for (; i + 2 * LANES <= end; i += 2 * LANES) {
        const __m256i next = _mm256_add_epi32(place, on);
        sum = add_terms(sum, _mm256_loadu_si256((const void *)(word + i)), place);
        other = add_terms(other, _mm256_loadu_si256((const void *)(word + i + LANES)), next);
        place = _mm256_add_epi32(next, on);
    }
    _mm256_storeu_si256((void *)each, _mm256_add_epi64(sum, other));
    return each[0] + each[1] + each[2] + each[3] + sign_plain(word, i, end);
}

static uint64_t sign_words(const uint32_t *word, int64_t begin, int64_t end) {
    return hf_cpu_has_avx2() ? sign_avx2(word, begin, end) : sign_plain(word, begin, end);
}
#else
static uint64_t sign_words(const uint32_t *word, int64_t begin, int64_t end) {
    return sign_plain(word, begin, end);
}
#endif

uint64_t hf_guard_sign(const void *data, size_t bytes) {
    return sign_words(data, 0, (int64_t)(bytes / sizeof(uint32_t)));
}

struct signing {
    const uint32_t *word;
    uint64_t sum;
};

static void sign_range(void *user, int worker, int64_t begin, int64_t end) {
    struct signing *s = user;
    (void)worker;
    hf_slot_add(&s->sum, sign_words(s->word, begin, end));
}

uint64_t hf_guard_sign_by(hf_pool *pool, const void *data, size_t bytes) {
    struct signing s = {.word = data};
    hf_parallel_for(pool, (int64_t)(bytes / sizeof(uint32_t)), GRAIN, sign_range, &s);
    return s.sum;
}
