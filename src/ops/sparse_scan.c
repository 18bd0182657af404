/* SPDX-License-Identifier: Apache-2.0
 * The sums of absolute values are in eight lanes (base/tree.h), so vectors and single numbers give
 * the same bits. */
#include "ops/sparse_scan.h"

#include "device/host/isa.h"
#include <math.h>
#include <string.h>

#define LANES 8
/* MurmurHash3's final mix (Appleby). */
#define MIX_1 UINT64_C(0xff51afd7ed558ccd)
#define MIX_2 UINT64_C(0xc4ceb9fe1a85ec53)
#define MIX_SHIFT 33

/* Exponents of all ones: infinity or NaN. */
ALWAYS_INLINE bool is_odd(double value) {
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (bits >> 52 & 0x7ff) == 0x7ff;
}

/* The place adds a product of its numbers, each plus a half of the key (the hash NH of Black,
 * Halevi, Krawczyk, Krovetz, Rogaway: UMAC, CRYPTO 1999): whatever two values are, at two places
 * they become one number for at most one key in 2^32. What is mixed after that can be undone, so
 * two values of one place never do. */
ALWAYS_INLINE uint64_t mix(int64_t i, int64_t column, double value, uint64_t key) {
    const uint64_t low = (uint64_t)(column < i ? column : i), high = (uint64_t)(i + column) - low;
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    bits += (uint64_t)(uint32_t)(low + key) * (uint32_t)(high + (key >> 32));
    bits = (bits ^ bits >> MIX_SHIFT) * MIX_1;
    bits = (bits ^ bits >> MIX_SHIFT) * MIX_2;
    return bits ^ bits >> MIX_SHIFT;
}

/* Rows to look at. */
struct span {
    const struct hf_sparse *a;
    int64_t begin, end;
    uint64_t key;
    double *inverse;
};

/* What a row is worth, its elements having been looked at; sum: of the absolute values beside the
 * diagonal. */
ALWAYS_INLINE void end_row(struct hf_sparse_scan *found, double diagonal, double sum,
                           double *inverse) {
    *inverse = 1 / diagonal;
    sum *= fabs(*inverse);
    found->bad |= diagonal == 0 || is_odd(*inverse);
    found->negative |= *inverse < 0;
    found->dominance = sum > found->dominance ? sum : found->dominance;
}

static void scan_row(const struct span *span, int64_t i, struct hf_sparse_scan *found) {
    const struct hf_sparse *a = span->a;
    const int64_t first = a->row_start[i], last = a->row_start[i + 1];
    double diagonal = 0, lane[LANES] = {0};
    uint64_t mixed = 0;
    int64_t before = -1;
    bool bad = false, unordered = false;
    for (int64_t e = first; e < last; e++) {
        const double value = sparse_value(a->value, a->dtype, e);
        const int64_t column = a->column[e];
        bad |= is_odd(value) | ((uint64_t)column >= (uint64_t)a->cols);
        unordered |= column <= before;
        before = column;
        diagonal += column == i ? value : 0;
        lane[(e - first) % LANES] += column == i ? 0 : fabs(value);
        if (span->key != 0) { /* below the diagonal its negative; on it nothing */
            const uint64_t sign = (uint64_t)0 - (uint64_t)(column < i);
            const uint64_t on = (uint64_t)0 - (uint64_t)(column != i);
            mixed += ((mix(i, column, value, span->key) ^ sign) - sign) & on;
        }
    }
    found->bad |= bad;
    found->unordered |= unordered;
    found->mirror += mixed;
    end_row(found, diagonal, hf_tree_fold(lane, LANES), &span->inverse[i]);
}

static void scan_1(const struct span *span, struct hf_sparse_scan *found) {
    for (int64_t i = span->begin; i < span->end; i++)
        scan_row(span, i, found);
}

#if defined(__x86_64__)
#include <immintrin.h>

#define SCAN_TARGET __attribute__((target("avx512f,avx512dq,avx512vl,avx2")))
#define ODD_CLASSES 0x99 /* of fpclass: both NaN, both infinities */

SCAN_TARGET static inline __m512i mix_8(__m512i row, __m512i column, __m512d value, __m512i key) {
    const __m512i low = _mm512_add_epi64(_mm512_min_epu64(row, column), key);
    const __m512i high =
        _mm512_add_epi64(_mm512_max_epu64(row, column), _mm512_srli_epi64(key, 32));
    __m512i bits = _mm512_add_epi64(_mm512_castpd_si512(value), _mm512_mul_epu32(low, high));
    bits = _mm512_xor_si512(bits, _mm512_srli_epi64(bits, MIX_SHIFT));
    bits = _mm512_mullo_epi64(bits, _mm512_set1_epi64((long long)MIX_1));
    bits = _mm512_xor_si512(bits, _mm512_srli_epi64(bits, MIX_SHIFT));
    bits = _mm512_mullo_epi64(bits, _mm512_set1_epi64((long long)MIX_2));
    return _mm512_xor_si512(bits, _mm512_srli_epi64(bits, MIX_SHIFT));
}

SCAN_TARGET static inline __m512d load_8(const void *value, hf_dtype dtype, __mmask8 some,
                                         int64_t e) {
    return dtype == HF_F32 ? _mm512_cvtps_pd(_mm256_maskz_loadu_ps(some, (const float *)value + e))
                           : _mm512_maskz_loadu_pd(some, (const double *)value + e);
}

/* hf_tree_fold() */
SCAN_TARGET static inline double fold_8(__m512d lanes) {
    const __m256d four =
        _mm256_add_pd(_mm512_castpd512_pd256(lanes), _mm512_extractf64x4_pd(lanes, 1));
    const __m128d two = _mm_add_pd(_mm256_castpd256_pd128(four), _mm256_extractf128_pd(four, 1));
    return _mm_cvtsd_f64(_mm_add_sd(two, _mm_unpackhi_pd(two, two)));
}

/* Of the rows so far; all bits of a lane are set where it met such an element. */
struct seen {
    __m256i cols, ones, bad, unordered;
    __m512i mixed, key;
    /* Of the row at work: */
    __m256i row, before; /* its number, the last eight columns */
    __m512d sum, diagonal;
};

/* Elements [e, e + 8), or `some` of them. */
SCAN_TARGET ALWAYS_INLINE void scan_8(const struct span *span, __mmask8 some, int64_t e,
                                      struct seen *seen) {
    const struct hf_sparse *a = span->a;
    const __m256i column = _mm256_maskz_loadu_epi32(some, a->column + e);
    const __m512d value = load_8(a->value, a->dtype, some, e);
    const __m256i before = _mm256_alignr_epi32(column, seen->before, LANES - 1);
    const __mmask8 on = _mm256_mask_cmpeq_epi32_mask(some, column, seen->row);
    const __mmask8 outside = _mm256_mask_cmpge_epu32_mask(some, column, seen->cols);
    const __mmask8 odd = _mm512_mask_fpclass_pd_mask(some, value, ODD_CLASSES);
    const __mmask8 falls = _mm256_mask_cmple_epi32_mask(some, column, before);
    seen->bad = _mm256_mask_mov_epi32(seen->bad, outside, seen->ones);
    seen->bad = _mm256_mask_mov_epi32(seen->bad, odd, seen->ones);
    seen->unordered = _mm256_mask_mov_epi32(seen->unordered, falls, seen->ones);
    seen->before = column;
    seen->diagonal = _mm512_mask_add_pd(seen->diagonal, on, seen->diagonal, value);
    seen->sum =
        _mm512_mask_add_pd(seen->sum, _kandn_mask8(on, some), seen->sum, _mm512_abs_pd(value));
    if (span->key != 0) {
        const __m512i number = mix_8(_mm512_cvtepi32_epi64(seen->row),
                                     _mm512_cvtepi32_epi64(column), value, seen->key);
        const __mmask8 under = _mm256_mask_cmplt_epi32_mask(some, column, seen->row);
        const __mmask8 over = _mm256_mask_cmpgt_epi32_mask(some, column, seen->row);
        seen->mixed = _mm512_mask_sub_epi64(seen->mixed, under, seen->mixed, number);
        seen->mixed = _mm512_mask_add_epi64(seen->mixed, over, seen->mixed, number);
    }
}

/* As scan_1(), eight elements at once. */
SCAN_TARGET static void scan_512(const struct span *span, struct hf_sparse_scan *found) {
    const struct hf_sparse *a = span->a;
    const __m256i none = _mm256_setzero_si256();
    struct seen seen = {.cols = _mm256_set1_epi32((int)a->cols),
                        .ones = _mm256_set1_epi32(-1),
                        .bad = none,
                        .unordered = none,
                        .mixed = _mm512_setzero_si512(),
                        .key = _mm512_set1_epi64((long long)span->key)};
    for (int64_t i = span->begin; i < span->end; i++) {
        const int64_t last = a->row_start[i + 1];
        int64_t e = a->row_start[i];
        seen.row = _mm256_set1_epi32((int)i);
        seen.before = seen.ones;
        seen.sum = _mm512_setzero_pd();
        seen.diagonal = _mm512_setzero_pd();
        for (; e + LANES <= last; e += LANES)
            scan_8(span, 0xff, e, &seen);
        if (e < last)
            scan_8(span, (__mmask8)((1u << (unsigned)(last - e)) - 1), e, &seen);
        end_row(found, fold_8(seen.diagonal), fold_8(seen.sum), &span->inverse[i]);
    }
    found->bad |= _mm256_testz_si256(seen.bad, seen.bad) == 0;
    found->unordered |= _mm256_testz_si256(seen.unordered, seen.unordered) == 0;
    uint64_t mixed[LANES]; /* the instructions' own sum is of signed numbers, which overflow */
    _mm512_storeu_si512(mixed, seen.mixed);
    for (int i = 0; i < LANES; i++)
        found->mirror += mixed[i];
}

static bool has_vectors(void) { return (hf_cpu_isas() >> HF_ISA_ID_avx512 & 1) != 0; }
#endif

struct hf_sparse_scan hf_sparse_scan_rows(const struct hf_sparse *a, int64_t begin, int64_t end,
                                          uint64_t key, double *inverse) {
    const struct span span = {a, begin, end, key, inverse};
    struct hf_sparse_scan found = {.bad = false};
#if defined(__x86_64__)
    if (has_vectors()) {
        scan_512(&span, &found);
        return found;
    }
#endif
    scan_1(&span, &found);
    return found;
}

void hf_sparse_scan_add(struct hf_sparse_scan *to, const struct hf_sparse_scan *part) {
    to->bad |= part->bad;
    to->unordered |= part->unordered;
    to->negative |= part->negative;
    to->dominance = fmax(to->dominance, part->dominance);
    to->mirror += part->mirror;
}
