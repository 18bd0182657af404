/* SPDX-License-Identifier: Apache-2.0
 * Which labels of a block are not those of the book: most blocks have none. */
#ifndef HF_DIFFER_H
#define HF_DIFFER_H

#include "base/cpuid.h"
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define HF_DIFFER_BLOCK 64 /* labels at most: the bits of a word */

static inline uint64_t hf_differ_plain(const int32_t *old, const int32_t *now, int64_t count) {
    uint64_t bits = 0;
    for (int64_t i = 0; i < count; i++)
        bits |= (uint64_t)(old[i] != now[i]) << i;
    return bits;
}

#if defined(__x86_64__)
__attribute__((target("avx2"))) static inline uint64_t hf_differ_avx2(const int32_t *old,
                                                                      const int32_t *now) {
    uint64_t same = 0;
    for (int i = 0; i < HF_DIFFER_BLOCK; i += 8) {
        const __m256i equal = _mm256_cmpeq_epi32(_mm256_loadu_si256((const void *)(old + i)),
                                                 _mm256_loadu_si256((const void *)(now + i)));
        same |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(equal)) << i;
    }
    return ~same;
}
#endif

/* Bit i: label i of a block is not that of the book. */
static inline uint64_t hf_differ(const int32_t *old, const int32_t *now, int64_t count) {
#if defined(__x86_64__)
    if (count == HF_DIFFER_BLOCK && hf_cpu_has_avx2())
        return hf_differ_avx2(old, now);
#endif
    return hf_differ_plain(old, now, count);
}

#endif
