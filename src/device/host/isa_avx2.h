/* SPDX-License-Identifier: Apache-2.0
 * Vector verbs for AVX2 + FMA + F16C: 8 x float32, 4 x float64. See isa_avx512.h for the names. */
#ifndef HF_ISA_AVX2_H
#define HF_ISA_AVX2_H

#include "base/compiler.h"
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#define HF_ISA_TILES 0
#define VW 8
#define VDW 4
#define VREGS 16

typedef __m256 vf;
typedef __m256i vi;
typedef __m256 vm;
typedef __m256d vd;
typedef __m256i vl;
typedef __m256d vdm;

ALWAYS_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
ALWAYS_INLINE void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
ALWAYS_INLINE vf vf_set1(float a) { return _mm256_set1_ps(a); }
ALWAYS_INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
ALWAYS_INLINE vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
ALWAYS_INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
ALWAYS_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
ALWAYS_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
ALWAYS_INLINE vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
ALWAYS_INLINE vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
ALWAYS_INLINE vm vf_lt(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LT_OQ); }
ALWAYS_INLINE vm vf_le(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_LE_OQ); }
ALWAYS_INLINE uint32_t vm_bits(vm m) { return (uint32_t)_mm256_movemask_ps(m); }

ALWAYS_INLINE vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
ALWAYS_INLINE vf vf_gather(const float *base, vi index) {
    return _mm256_i32gather_ps(base, index, 4);
}
ALWAYS_INLINE float vf_sum(vf a) {
    const __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 c = _mm_add_ps(b, _mm_movehl_ps(b, b));
    return _mm_cvtss_f32(_mm_add_ss(c, _mm_movehdup_ps(c)));
}

/* Lane i: the sum of the lanes of r[i], added as a tree: pairs, pairs of these, halves. */
ALWAYS_INLINE vf vf_sums(const vf r[VW]) {
    vf four[2]; /* [i]: of r[4 i], ..., r[4 i + 3], in two lanes each */
    UNROLL(2)
    for (int i = 0; i < 2; i++) {
        const vf *at = r + 4 * i;
        const vf a = _mm256_add_ps(_mm256_shuffle_ps(at[0], at[1], 0x44),
                                   _mm256_shuffle_ps(at[0], at[1], 0xee));
        const vf b = _mm256_add_ps(_mm256_shuffle_ps(at[2], at[3], 0x44),
                                   _mm256_shuffle_ps(at[2], at[3], 0xee));
        four[i] = _mm256_add_ps(_mm256_shuffle_ps(a, b, 0x88), _mm256_shuffle_ps(a, b, 0xdd));
    }
    return _mm256_add_ps(_mm256_permute2f128_ps(four[0], four[1], 0x20),
                         _mm256_permute2f128_ps(four[0], four[1], 0x31));
}

/* r[i] lane j becomes r[j] lane i. */
ALWAYS_INLINE void vf_transpose(vf r[VW]) {
    vf t[VW];
    UNROLL(4)
    for (int i = 0; i < 4; i++) {
        t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    UNROLL(2)
    for (int i = 0; i < 2; i++) {
        r[4 * i] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    UNROLL(4)
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    UNROLL(8)
    for (int i = 0; i < 8; i++)
        r[i] = t[i];
}

ALWAYS_INLINE vi vi_set1(int32_t a) { return _mm256_set1_epi32(a); }
ALWAYS_INLINE vi vi_load(const int32_t *p) { return _mm256_loadu_si256((const void *)p); }
ALWAYS_INLINE void vi_store(int32_t *p, vi a) { _mm256_storeu_si256((void *)p, a); }
ALWAYS_INLINE vi vi_sub(vi a, vi b) { return _mm256_sub_epi32(a, b); }
ALWAYS_INLINE vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
ALWAYS_INLINE vi vi_bits(vf a) { return _mm256_castps_si256(a); }
/* Pairs of int16 in each lane: the sum of the products of the first and of the second ones. */
ALWAYS_INLINE vi vi_dot_i16(vi a, vi b) { return _mm256_madd_epi16(a, b); }
ALWAYS_INLINE vf vf_select(vm m, vf a, vf b) { return _mm256_blendv_ps(b, a, m); }
ALWAYS_INLINE vm vi_eq(vi a, vi b) { return _mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b)); }
ALWAYS_INLINE bool vi_negative(vi a) { return _mm256_movemask_ps(_mm256_castsi256_ps(a)) != 0; }
ALWAYS_INLINE uint32_t vi_differ(vi a, vi b) {
    return ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(a, b))) & 0xff;
}
/* bit i: lane i is odd; is not in 0 .. count - 1 */
ALWAYS_INLINE uint32_t vi_odd(vi a) {
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(_mm256_slli_epi32(a, 31)));
}
ALWAYS_INLINE uint32_t vi_beyond(vi a, int32_t count) {
    const vi within =
        _mm256_andnot_si256(_mm256_srai_epi32(a, 31), _mm256_cmpgt_epi32(vi_set1(count), a));
    return ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(within)) & 0xff;
}
ALWAYS_INLINE vi vi_select(vm m, vi a, vi b) {
    return _mm256_castps_si256(_mm256_blendv_ps(_mm256_castsi256_ps(b), _mm256_castsi256_ps(a), m));
}

ALWAYS_INLINE vd vd_load(const double *p) { return _mm256_loadu_pd(p); }
ALWAYS_INLINE void vd_store(double *p, vd a) { _mm256_storeu_pd(p, a); }
ALWAYS_INLINE vd vd_set1(double a) { return _mm256_set1_pd(a); }
ALWAYS_INLINE vd vd_add(vd a, vd b) { return _mm256_add_pd(a, b); }
ALWAYS_INLINE vd vd_sub(vd a, vd b) { return _mm256_sub_pd(a, b); }
ALWAYS_INLINE vd vd_mul(vd a, vd b) { return _mm256_mul_pd(a, b); }
ALWAYS_INLINE vd vd_fma(vd a, vd b, vd c) { return _mm256_fmadd_pd(a, b, c); }
ALWAYS_INLINE vd vd_min(vd a, vd b) { return _mm256_min_pd(a, b); }
ALWAYS_INLINE vd vd_max(vd a, vd b) { return _mm256_max_pd(a, b); }
ALWAYS_INLINE vdm vd_lt(vd a, vd b) { return _mm256_cmp_pd(a, b, _CMP_LT_OQ); }
ALWAYS_INLINE uint32_t vdm_bits(vdm m) { return (uint32_t)_mm256_movemask_pd(m); }
ALWAYS_INLINE vd vd_sqrt(vd a) { return _mm256_sqrt_pd(a); }
/* sum + the squares of a, in VDW parts. */
ALWAYS_INLINE vd vd_add_squares(vd sum, vf a) {
    const vd x = _mm256_cvtps_pd(_mm256_castps256_ps128(a));
    const vd y = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
    return _mm256_fmadd_pd(x, x, _mm256_fmadd_pd(y, y, sum));
}
ALWAYS_INLINE double vd_sum(vd a) {
    const __m128d b = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
    return _mm_cvtsd_f64(_mm_add_sd(b, _mm_unpackhi_pd(b, b)));
}
ALWAYS_INLINE vd vd_rint(vd a) {
    return _mm256_round_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

ALWAYS_INLINE vl vl_load(const int64_t *p) { return _mm256_loadu_si256((const void *)p); }
ALWAYS_INLINE void vl_store(int64_t *p, vl a) { _mm256_storeu_si256((void *)p, a); }
ALWAYS_INLINE vl vl_set1(int64_t a) { return _mm256_set1_epi64x(a); }
ALWAYS_INLINE vl vl_add(vl a, vl b) { return _mm256_add_epi64(a, b); }
ALWAYS_INLINE vl vl_sub(vl a, vl b) { return _mm256_sub_epi64(a, b); }
ALWAYS_INLINE vl vl_mul(vl a, vl b) { /* modulo 2^64 */
    const vl cross = _mm256_mullo_epi32(a, _mm256_shuffle_epi32(b, 0xb1));
    const vl high = _mm256_add_epi64(_mm256_slli_epi64(cross, 32),
                                     _mm256_and_si256(cross, _mm256_set1_epi64x(~0xffffffffLL)));
    return _mm256_add_epi64(_mm256_mul_epu32(a, b), high);
}
/* Sums of two products each: words 2 i and 2 i + 1 of a and b. Words count as unsigned. */
ALWAYS_INLINE vl vi_mul_pairs(vi a, vi b) {
    return _mm256_add_epi64(_mm256_mul_epu32(a, b),
                            _mm256_mul_epu32(_mm256_srli_epi64(a, 32), _mm256_srli_epi64(b, 32)));
}
ALWAYS_INLINE int64_t vl_sum(vl a) {
    const __m128i b = _mm_add_epi64(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    return _mm_cvtsi128_si64(_mm_add_epi64(b, _mm_unpackhi_epi64(b, b)));
}
ALWAYS_INLINE vl vd_bits(vd a) { return _mm256_castpd_si256(a); }

ALWAYS_INLINE vd vd_from_f32(const float *p) { return _mm256_cvtps_pd(_mm_loadu_ps(p)); }
ALWAYS_INLINE vd vd_from_f16(const uint16_t *p) {
    return _mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64((const void *)p)));
}
ALWAYS_INLINE vd vd_from_bf16(const uint16_t *p) {
    return _mm256_cvtps_pd(
        _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(_mm_loadl_epi64((const void *)p)), 16)));
}
ALWAYS_INLINE vd vd_from_u8(const uint8_t *p) {
    int32_t four;
    memcpy(&four, p, 4);
    return _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(four)));
}
ALWAYS_INLINE vf vf_from_f64(const double *p) {
    return _mm256_set_m128(_mm256_cvtpd_ps(vd_load(p + 4)), _mm256_cvtpd_ps(vd_load(p)));
}
ALWAYS_INLINE vf vf_from_f16(const uint16_t *p) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const void *)p));
}
ALWAYS_INLINE vf vf_from_bf16(const uint16_t *p) {
    return _mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16));
}
ALWAYS_INLINE vf vf_from_u8(const uint8_t *p) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)));
}

/* A part of a vector: the first n lanes, 1 <= n < VDW; the others are 0 and their memory is left
 * alone. */
ALWAYS_INLINE __m128i lanes16_(const uint16_t *p, int n) {
    uint64_t bits = p[0];
    if (n > 1)
        bits |= (uint64_t)p[1] << 16;
    if (n > 2)
        bits |= (uint64_t)p[2] << 32;
    return _mm_cvtsi64_si128((long long)bits);
}
ALWAYS_INLINE vf vf_load_n(const float *p, int n) { /* 1 <= n < VW */
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(p, _mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane));
}
ALWAYS_INLINE vd vd_load_n(const double *p, int n) {
    if (n == 1)
        return _mm256_zextpd128_pd256(_mm_load_sd(p));
    const vd low = _mm256_zextpd128_pd256(_mm_loadu_pd(p));
    return n == 2 ? low : _mm256_insertf128_pd(low, _mm_load_sd(p + 2), 1);
}
ALWAYS_INLINE void vd_store_n(double *p, vd a, int n) {
    if (n == 1) {
        _mm_store_sd(p, _mm256_castpd256_pd128(a));
        return;
    }
    _mm_storeu_pd(p, _mm256_castpd256_pd128(a));
    if (n == 3)
        _mm_store_sd(p + 2, _mm256_extractf128_pd(a, 1));
}
ALWAYS_INLINE vl vl_load_n(const int64_t *p, int n) {
    return _mm256_castpd_si256(vd_load_n((const double *)(const void *)p, n));
}
ALWAYS_INLINE void vl_store_n(int64_t *p, vl a, int n) {
    vd_store_n((double *)(void *)p, _mm256_castsi256_pd(a), n);
}
ALWAYS_INLINE vd vd_from_f32_n(const float *p, int n) {
    if (n == 1)
        return _mm256_cvtps_pd(_mm_load_ss(p));
    const __m128 low = _mm_castsi128_ps(_mm_loadl_epi64((const void *)p));
    return _mm256_cvtps_pd(n == 2 ? low : _mm_movelh_ps(low, _mm_load_ss(p + 2)));
}
ALWAYS_INLINE vd vd_from_f16_n(const uint16_t *p, int n) {
    return _mm256_cvtps_pd(_mm_cvtph_ps(lanes16_(p, n)));
}
ALWAYS_INLINE vd vd_from_bf16_n(const uint16_t *p, int n) {
    return _mm256_cvtps_pd(
        _mm_castsi128_ps(_mm_slli_epi32(_mm_cvtepu16_epi32(lanes16_(p, n)), 16)));
}
ALWAYS_INLINE vd vd_from_u8_n(const uint8_t *p, int n) {
    int32_t bits = p[0];
    if (n > 1)
        bits |= p[1] << 8;
    if (n > 2)
        bits |= p[2] << 16;
    return _mm256_cvtepi32_pd(_mm_cvtepu8_epi32(_mm_cvtsi32_si128(bits)));
}
/* Rows become columns: r [VDW][VDW]. */
ALWAYS_INLINE void vd_transpose(vd r[VDW]) {
    const vd a = _mm256_unpacklo_pd(r[0], r[1]);
    const vd b = _mm256_unpackhi_pd(r[0], r[1]);
    const vd c = _mm256_unpacklo_pd(r[2], r[3]);
    const vd d = _mm256_unpackhi_pd(r[2], r[3]);
    r[0] = _mm256_permute2f128_pd(a, c, 0x20);
    r[1] = _mm256_permute2f128_pd(b, d, 0x20);
    r[2] = _mm256_permute2f128_pd(a, c, 0x31);
    r[3] = _mm256_permute2f128_pd(b, d, 0x31);
}
/* 2 x VW bytes as int16. */
ALWAYS_INLINE vf vf_from_i8_pairs(const int8_t *p) {
    return _mm256_castsi256_ps(_mm256_cvtepi8_epi16(_mm_loadu_si128((const void *)p)));
}
ALWAYS_INLINE void vf_to_f16(uint16_t *p, vf a) {
    _mm_storeu_si128((void *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
ALWAYS_INLINE vf vf_rint(vf a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
ALWAYS_INLINE vm vf_ne(vf a, vf b) { return _mm256_cmp_ps(a, b, _CMP_NEQ_UQ); }
ALWAYS_INLINE vdm vd_ne(vd a, vd b) { return _mm256_cmp_pd(a, b, _CMP_NEQ_UQ); }
ALWAYS_INLINE vd vd_div(vd a, vd b) { return _mm256_div_pd(a, b); }
ALWAYS_INLINE vd vd_select(vdm m, vd a, vd b) { return _mm256_blendv_pd(b, a, m); }
/* out [4] = the sums of the lanes of a, b, c, d, each added as a tree. */
ALWAYS_INLINE void vf_sum4(float *out, vf a, vf b, vf c, vf d) {
    const vf ab = _mm256_add_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const vf cd = _mm256_add_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const vf s = _mm256_add_ps(_mm256_shuffle_ps(ab, cd, 0x44), _mm256_shuffle_ps(ab, cd, 0xee));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(s), _mm256_extractf128_ps(s, 1)));
}

#endif
