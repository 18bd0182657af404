/* SPDX-License-Identifier: Apache-2.0
 * Signatures of memory. Each iteration signs the centroids some times and the bounds of all rows
 * twice, so the widest vectors that the CPU has do it. */
#include "base/cpuid.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "core/array.h"
#include "device/slot.h"
#include "guard/guard.h"
#include <string.h>

#define GRAIN 65536               /* words that one worker signs */
#define STEP UINT32_C(2654435769) /* 2^32 / golden ratio: neighbours get very different factors */

/* Words [begin, end), word[0] being that of number `begin`; at any address. */
static uint64_t sign_plain(const void *word, int64_t begin, int64_t end) {
    const char *at = word;
    uint64_t sum = 0;
    for (int64_t i = begin; i < end; i++, at += sizeof(uint32_t)) {
        uint32_t bits;
        memcpy(&bits, at, sizeof bits);
        sum += (uint64_t)bits * (((uint32_t)i * STEP) | 1);
    }
    return sum;
}

static uint64_t fold_plain(const uint64_t *factor, const int64_t *value, int64_t count) {
    uint64_t sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += factor[i] * (uint64_t)value[i];
    return sum;
}

#if defined(__x86_64__)
#include <immintrin.h>

#define LANES INT64_C(8)
#define AVX2 __attribute__((target("avx2")))

/* The terms of eight words in four sums. */
AVX2 static inline __m256i add_terms(__m256i sum, __m256i word, __m256i place) {
    const __m256i factor = _mm256_or_si256(place, _mm256_set1_epi32(1));
    const __m256i even = _mm256_mul_epu32(word, factor);
    const __m256i odd =
        _mm256_mul_epu32(_mm256_srli_epi64(word, 32), _mm256_srli_epi64(factor, 32));
    return _mm256_add_epi64(sum, _mm256_add_epi64(even, odd));
}

AVX2 static uint64_t sign_avx2(const void *word, int64_t begin, int64_t end) {
    const __m256i *at = word;
    uint32_t first[LANES];
    uint64_t each[4];
    for (uint32_t i = 0; i < LANES; i++)
        first[i] = ((uint32_t)begin + i) * STEP;
    __m256i place = _mm256_loadu_si256((const void *)first);
    const __m256i on = _mm256_set1_epi32((int)((uint32_t)LANES * STEP));
    __m256i sum = _mm256_setzero_si256();
    __m256i other = sum;
    const int64_t both = (int64_t)2 * LANES;
    int64_t i = begin;
    for (; i + both <= end; i += both, at += 2) {
        const __m256i next = _mm256_add_epi32(place, on);
        sum = add_terms(sum, _mm256_loadu_si256(at), place);
        other = add_terms(other, _mm256_loadu_si256(at + 1), next);
        place = _mm256_add_epi32(next, on);
    }
    _mm256_storeu_si256((void *)each, _mm256_add_epi64(sum, other));
    return each[0] + each[1] + each[2] + each[3] + sign_plain(at, i, end);
}

#define AVX512 __attribute__((target("avx512f")))

AVX512 static inline __m512i add_terms_wide(__m512i sum, __m512i word, __m512i place) {
    const __m512i factor = _mm512_or_si512(place, _mm512_set1_epi32(1));
    const __m512i even = _mm512_mul_epu32(word, factor);
    const __m512i odd =
        _mm512_mul_epu32(_mm512_srli_epi64(word, 32), _mm512_srli_epi64(factor, 32));
    return _mm512_add_epi64(sum, _mm512_add_epi64(even, odd));
}

AVX512 static uint64_t sign_avx512(const void *word, int64_t begin, int64_t end) {
    const int64_t lanes = 2 * LANES;
    const char *at = word;
    uint32_t first[2 * LANES];
    uint64_t each[LANES];
    for (uint32_t i = 0; i < 2 * LANES; i++)
        first[i] = ((uint32_t)begin + i) * STEP;
    __m512i place = _mm512_loadu_si512(first);
    const __m512i on = _mm512_set1_epi32((int)((uint32_t)lanes * STEP));
    __m512i sum = _mm512_setzero_si512();
    __m512i other = sum;
    int64_t i = begin;
    for (; i + 2 * lanes <= end; i += 2 * lanes, at += 2 * sizeof place) {
        const __m512i next = _mm512_add_epi32(place, on);
        sum = add_terms_wide(sum, _mm512_loadu_si512(at), place);
        other = add_terms_wide(other, _mm512_loadu_si512(at + sizeof place), next);
        place = _mm512_add_epi32(next, on);
    }
    _mm512_storeu_si512(each, _mm512_add_epi64(sum, other));
    uint64_t all = sign_plain(at, i, end);
    for (int lane = 0; lane < LANES; lane++)
        all += each[lane];
    return all;
}

#define AVX512_DQ __attribute__((target("avx512f,avx512dq")))

AVX512_DQ static uint64_t fold_avx512(const uint64_t *factor, const int64_t *value, int64_t count) {
    __m512i sum[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
    int64_t i = 0;
    for (; i + 2 * LANES <= count; i += 2 * LANES)
        for (int t = 0; t < 2; t++)
            sum[t] = _mm512_add_epi64(
                sum[t], _mm512_mullo_epi64(_mm512_loadu_si512(factor + i + t * LANES),
                                           _mm512_loadu_si512(value + i + t * LANES)));
    uint64_t each[LANES];
    _mm512_storeu_si512(each, _mm512_add_epi64(sum[0], sum[1]));
    uint64_t all = fold_plain(factor + i, value + i, count - i);
    for (int lane = 0; lane < LANES; lane++)
        all += each[lane];
    return all;
}

uint64_t hf_guard_fold(const uint64_t *factor, const int64_t *value, int64_t count) {
    return hf_cpu_has_avx512() ? fold_avx512(factor, value, count)
                               : fold_plain(factor, value, count);
}

static uint64_t sign_words(const void *word, int64_t begin, int64_t end) {
    return hf_cpu_has_avx512() ? sign_avx512(word, begin, end)
           : hf_cpu_has_avx2() ? sign_avx2(word, begin, end)
                               : sign_plain(word, begin, end);
}
#else
uint64_t hf_guard_fold(const uint64_t *factor, const int64_t *value, int64_t count) {
    return fold_plain(factor, value, count);
}

static uint64_t sign_words(const void *word, int64_t begin, int64_t end) {
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
    hf_slot_add(&s->sum, sign_words(s->word + begin, begin, end));
}

uint64_t hf_guard_sign_by(hf_pool *pool, const void *data, size_t bytes) {
    struct signing s = {.word = data};
    hf_parallel_for(pool, (int64_t)(bytes / sizeof(uint32_t)), GRAIN, sign_range, &s);
    return s.sum;
}

struct signing_rows {
    const hf_array *x;
    int64_t first, words; /* of a row, the last of them filled up */
    size_t bytes, stride;
    uint64_t sum;
};

static void sign_row_range(void *user, int worker, int64_t begin, int64_t end) {
    struct signing_rows *s = user;
    const char *row = (const char *)s->x->data + (size_t)begin * s->stride;
    const size_t full = s->bytes / sizeof(uint32_t) * sizeof(uint32_t);
    uint64_t sum = 0;
    (void)worker;
    if (full == s->bytes && s->stride == s->bytes) { /* one row goes on where the last one ended */
        sum = sign_words(row, (s->first + begin) * s->words, (s->first + end) * s->words);
        begin = end;
    }
    for (int64_t i = begin; i < end; i++, row += s->stride) {
        const int64_t at = (s->first + i) * s->words;
        uint32_t rest = 0;
        memcpy(&rest, row + full, s->bytes - full);
        sum += sign_words(row, at, at + (int64_t)(full / sizeof rest));
        sum += full < s->bytes ? sign_words(&rest, at + s->words - 1, at + s->words) : 0;
    }
    hf_slot_add(&s->sum, sum);
}

uint64_t hf_guard_sign_rows(hf_pool *pool, const hf_array *x, int64_t first) {
    const size_t size = hf_dtype_bytes(x->dtype);
    const size_t bytes = (size_t)x->cols * size;
    struct signing_rows s = {.x = x,
                             .first = first,
                             .words = (int64_t)((bytes + 3) / sizeof(uint32_t)),
                             .bytes = bytes,
                             .stride = (size_t)hf_array_stride(x) * size};
    hf_parallel_for(pool, x->rows, 1 + GRAIN / s.words, sign_row_range, &s);
    return s.sum;
}
