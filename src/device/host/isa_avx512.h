/* SPDX-License-Identifier: Apache-2.0
 * Vector verbs for AVX-512. Same names in every isa_<x>.h:
 *   vf, vi, vm  16 x float32, int32, and a mask of as many lanes;  VW = lanes
 *   vd, vl, vdm 8 x float64, int64, and their mask;                VDW = lanes */
#ifndef HF_ISA_AVX512_H
#define HF_ISA_AVX512_H

#include "base/compiler.h"
#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#define HF_ISA_TILES 0 /* 1 where matrix tiles (AMX) exist */
#define VW 16
#define VDW 8
#define VREGS 32

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
typedef __m512d vd;
typedef __m512i vl;
typedef __mmask8 vdm;

ALWAYS_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
ALWAYS_INLINE void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
ALWAYS_INLINE vf vf_set1(float a) { return _mm512_set1_ps(a); }
ALWAYS_INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
ALWAYS_INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
ALWAYS_INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
ALWAYS_INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }   /* a * b + c */
ALWAYS_INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } /* c - a * b */
ALWAYS_INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); } /* b when either is NaN */
ALWAYS_INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
/* The lanes of a mask as bits. They pass a general register: else GCC 12 may store the 16 bits of a
 * mask register in a place of 32 bits and read all of these. */
ALWAYS_INLINE uint32_t mask_bits(uint32_t bits) {
    __asm__("" : "+r"(bits));
    return bits;
}

ALWAYS_INLINE vm vf_lt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ); }
ALWAYS_INLINE vm vf_le(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ); }
ALWAYS_INLINE uint32_t vm_bits(vm m) { return mask_bits(m); } /* bit i is lane i */

ALWAYS_INLINE vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
ALWAYS_INLINE vf vf_gather(const float *base, vi index) {
    return _mm512_i32gather_ps(index, base, 4);
}
ALWAYS_INLINE float vf_sum(vf a) { return _mm512_reduce_add_ps(a); }

/* Lane i: the sum of the lanes of r[i], added as a tree: halves, halves of these, and so on. */
ALWAYS_INLINE vf vf_sums(const vf r[VW]) {
    vf four[4]; /* [i]: of r[i], r[i + 4], r[i + 8], r[i + 12], in four lanes each */
    UNROLL(4)
    for (int i = 0; i < 4; i++) {
        const vf a = _mm512_add_ps(_mm512_shuffle_f32x4(r[i], r[i + 4], 0x44),
                                   _mm512_shuffle_f32x4(r[i], r[i + 4], 0xee));
        const vf b = _mm512_add_ps(_mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x44),
                                   _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xee));
        four[i] = _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
    }
    const vf a = _mm512_add_ps(_mm512_shuffle_ps(four[0], four[1], 0x44),
                               _mm512_shuffle_ps(four[0], four[1], 0xee));
    const vf b = _mm512_add_ps(_mm512_shuffle_ps(four[2], four[3], 0x44),
                               _mm512_shuffle_ps(four[2], four[3], 0xee));
    return _mm512_add_ps(_mm512_shuffle_ps(a, b, 0x88), _mm512_shuffle_ps(a, b, 0xdd));
}

/* r[i] lane j becomes r[j] lane i. */
ALWAYS_INLINE void vf_transpose(vf r[VW]) {
    vf t[VW];
    UNROLL(8)
    for (int i = 0; i < 8; i++) {
        t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
        t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
    }
    UNROLL(4)
    for (int i = 0; i < 4; i++) {
        r[4 * i] = _mm512_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
        r[4 * i + 1] = _mm512_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
        r[4 * i + 2] = _mm512_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
        r[4 * i + 3] = _mm512_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
    }
    UNROLL(4)
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    UNROLL(4)
    for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
        r[i + 4] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0x88);
        r[i + 12] = _mm512_shuffle_f32x4(t[i + 4], t[i + 12], 0xdd);
    }
}

ALWAYS_INLINE vi vi_set1(int32_t a) { return _mm512_set1_epi32(a); }
ALWAYS_INLINE vi vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
ALWAYS_INLINE void vi_store(int32_t *p, vi a) { _mm512_storeu_si512(p, a); }
ALWAYS_INLINE vi vi_sub(vi a, vi b) { return _mm512_sub_epi32(a, b); }
ALWAYS_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
ALWAYS_INLINE vi vi_bits(vf a) { return _mm512_castps_si512(a); }
/* Pairs of int16 in each lane: the sum of the products of the first and of the second ones. */
ALWAYS_INLINE vi vi_dot_i16(vi a, vi b) { return _mm512_madd_epi16(a, b); }
ALWAYS_INLINE vf vf_select(vm m, vf a, vf b) { return _mm512_mask_mov_ps(b, m, a); } /* m ? a : b */
ALWAYS_INLINE vm vi_eq(vi a, vi b) { return _mm512_cmpeq_epi32_mask(a, b); }
ALWAYS_INLINE bool vi_negative(vi a) { return _mm512_movepi32_mask(a) != 0; } /* any lane */
ALWAYS_INLINE uint32_t vi_differ(vi a, vi b) {
    return mask_bits(_mm512_cmpneq_epi32_mask(a, b));
} /* bit: lanes differ */
/* bit i: lane i is odd; is not in 0 .. count - 1 */
ALWAYS_INLINE uint32_t vi_odd(vi a) { return mask_bits(_mm512_test_epi32_mask(a, vi_set1(1))); }
ALWAYS_INLINE uint32_t vi_beyond(vi a, int32_t count) {
    return mask_bits(_mm512_cmpge_epu32_mask(a, vi_set1(count)));
}
ALWAYS_INLINE vi vi_select(vm m, vi a, vi b) {
    return _mm512_mask_mov_epi32(b, m, a);
} /* m ? a : b */

ALWAYS_INLINE vd vd_load(const double *p) { return _mm512_loadu_pd(p); }
ALWAYS_INLINE void vd_store(double *p, vd a) { _mm512_storeu_pd(p, a); }
ALWAYS_INLINE vd vd_set1(double a) { return _mm512_set1_pd(a); }
ALWAYS_INLINE vd vd_add(vd a, vd b) { return _mm512_add_pd(a, b); }
ALWAYS_INLINE vd vd_sub(vd a, vd b) { return _mm512_sub_pd(a, b); }
ALWAYS_INLINE vd vd_mul(vd a, vd b) { return _mm512_mul_pd(a, b); }
ALWAYS_INLINE vd vd_fma(vd a, vd b, vd c) { return _mm512_fmadd_pd(a, b, c); }
ALWAYS_INLINE vd vd_min(vd a, vd b) { return _mm512_min_pd(a, b); }
ALWAYS_INLINE vd vd_max(vd a, vd b) { return _mm512_max_pd(a, b); }
ALWAYS_INLINE vdm vd_lt(vd a, vd b) { return _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ); }
ALWAYS_INLINE uint32_t vdm_bits(vdm m) { return mask_bits(m); }
ALWAYS_INLINE vd vd_sqrt(vd a) { return _mm512_sqrt_pd(a); }
/* sum + the squares of a, in VDW parts. */
ALWAYS_INLINE vd vd_add_squares(vd sum, vf a) {
    const vd x = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
    const vd y = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    return _mm512_fmadd_pd(x, x, _mm512_fmadd_pd(y, y, sum));
}
ALWAYS_INLINE double vd_sum(vd a) { return _mm512_reduce_add_pd(a); }
ALWAYS_INLINE vd vd_rint(vd a) {
    return _mm512_roundscale_pd(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

ALWAYS_INLINE vl vl_load(const int64_t *p) { return _mm512_loadu_si512(p); }
ALWAYS_INLINE void vl_store(int64_t *p, vl a) { _mm512_storeu_si512(p, a); }
ALWAYS_INLINE vl vl_set1(int64_t a) { return _mm512_set1_epi64(a); }
ALWAYS_INLINE vl vl_add(vl a, vl b) { return _mm512_add_epi64(a, b); }
ALWAYS_INLINE vl vl_sub(vl a, vl b) { return _mm512_sub_epi64(a, b); }
ALWAYS_INLINE vl vl_mul(vl a, vl b) { return _mm512_mullo_epi64(a, b); } /* modulo 2^64 */
/* Sums of two products each: words 2 i and 2 i + 1 of a and b. Words count as unsigned. */
ALWAYS_INLINE vl vi_mul_pairs(vi a, vi b) {
    return _mm512_add_epi64(_mm512_mul_epu32(a, b),
                            _mm512_mul_epu32(_mm512_srli_epi64(a, 32), _mm512_srli_epi64(b, 32)));
}
/* Wraps around: the compiler's own reduction ends in an addition of signed numbers. */
ALWAYS_INLINE int64_t vl_sum(vl a) {
    const __m256i four =
        _mm256_add_epi64(_mm512_castsi512_si256(a), _mm512_extracti64x4_epi64(a, 1));
    const __m128i two =
        _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256(four, 1));
    return _mm_cvtsi128_si64(_mm_add_epi64(two, _mm_unpackhi_epi64(two, two)));
}
ALWAYS_INLINE vl vd_bits(vd a) { return _mm512_castpd_si512(a); }

/* VDW elements of each data type to float64, exactly. */
ALWAYS_INLINE vd vd_from_f32(const float *p) { return _mm512_cvtps_pd(_mm256_loadu_ps(p)); }
ALWAYS_INLINE vd vd_from_f16(const uint16_t *p) {
    return _mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)));
}
ALWAYS_INLINE vd vd_from_bf16(const uint16_t *p) {
    return _mm512_cvtps_pd(_mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)p)), 16)));
}
ALWAYS_INLINE vd vd_from_u8(const uint8_t *p) {
    return _mm512_cvtepi32_pd(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const void *)p)));
}
/* VW elements of each data type to float32; f64 rounds to nearest. */
ALWAYS_INLINE vf vf_from_f64(const double *p) {
    return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(vd_load(p))),
                              _mm512_cvtpd_ps(vd_load(p + 8)), 1);
}
ALWAYS_INLINE vf vf_from_f16(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)p));
}
ALWAYS_INLINE vf vf_from_bf16(const uint16_t *p) {
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)p)), 16));
}
ALWAYS_INLINE vf vf_from_u8(const uint8_t *p) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const void *)p)));
}

/* A part of a vector: the first n lanes, 1 <= n < VDW; the others are 0 and their memory is left
 * alone. */
ALWAYS_INLINE vdm vd_lanes_(int n) { return (vdm)((1u << n) - 1); }
ALWAYS_INLINE vf vf_load_n(const float *p, int n) { /* 1 <= n < VW */
    return _mm512_maskz_loadu_ps((__mmask16)((1u << n) - 1), p);
}
ALWAYS_INLINE vd vd_load_n(const double *p, int n) {
    return _mm512_maskz_loadu_pd(vd_lanes_(n), p);
}
ALWAYS_INLINE void vd_store_n(double *p, vd a, int n) { _mm512_mask_storeu_pd(p, vd_lanes_(n), a); }
ALWAYS_INLINE vl vl_load_n(const int64_t *p, int n) {
    return _mm512_maskz_loadu_epi64(vd_lanes_(n), p);
}
ALWAYS_INLINE void vl_store_n(int64_t *p, vl a, int n) {
    _mm512_mask_storeu_epi64(p, vd_lanes_(n), a);
}
ALWAYS_INLINE vd vd_from_f32_n(const float *p, int n) {
    return _mm512_cvtps_pd(_mm256_maskz_loadu_ps(vd_lanes_(n), p));
}
ALWAYS_INLINE vd vd_from_f16_n(const uint16_t *p, int n) {
    return _mm512_cvtps_pd(_mm256_cvtph_ps(_mm_maskz_loadu_epi16(vd_lanes_(n), p)));
}
ALWAYS_INLINE vd vd_from_bf16_n(const uint16_t *p, int n) {
    return _mm512_cvtps_pd(_mm256_castsi256_ps(
        _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_maskz_loadu_epi16(vd_lanes_(n), p)), 16)));
}
ALWAYS_INLINE vd vd_from_u8_n(const uint8_t *p, int n) {
    return _mm512_cvtepi32_pd(
        _mm256_cvtepu8_epi32(_mm_maskz_loadu_epi8((__mmask16)vd_lanes_(n), p)));
}
/* Rows become columns: r [VDW][VDW]. */
ALWAYS_INLINE void vd_transpose(vd r[VDW]) {
    vd a[8];
    vd b[8];
    UNROLL(4) for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm512_unpacklo_pd(r[2 * i], r[2 * i + 1]);
        a[2 * i + 1] = _mm512_unpackhi_pd(r[2 * i], r[2 * i + 1]);
    }
    UNROLL(2) for (int i = 0; i < 2; i++) {
        b[4 * i] = _mm512_shuffle_f64x2(a[4 * i], a[4 * i + 2], 0x88);
        b[4 * i + 1] = _mm512_shuffle_f64x2(a[4 * i + 1], a[4 * i + 3], 0x88);
        b[4 * i + 2] = _mm512_shuffle_f64x2(a[4 * i], a[4 * i + 2], 0xdd);
        b[4 * i + 3] = _mm512_shuffle_f64x2(a[4 * i + 1], a[4 * i + 3], 0xdd);
    }
    UNROLL(4) for (int i = 0; i < 4; i++) {
        r[i] = _mm512_shuffle_f64x2(b[i], b[i + 4], 0x88);
        r[i + 4] = _mm512_shuffle_f64x2(b[i], b[i + 4], 0xdd);
    }
}
/* 2 x VW bytes as int16. */
ALWAYS_INLINE vf vf_from_i8_pairs(const int8_t *p) {
    return _mm512_castsi512_ps(_mm512_cvtepi8_epi16(_mm256_loadu_si256((const void *)p)));
}
ALWAYS_INLINE void vf_to_f16(uint16_t *p, vf a) {
    _mm256_storeu_si256((void *)p,
                        _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
ALWAYS_INLINE vf vf_rint(vf a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
ALWAYS_INLINE vm vf_ne(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
ALWAYS_INLINE vdm vd_ne(vd a, vd b) { return _mm512_cmp_pd_mask(a, b, _CMP_NEQ_UQ); }
ALWAYS_INLINE vd vd_div(vd a, vd b) { return _mm512_div_pd(a, b); }
ALWAYS_INLINE vd vd_select(vdm m, vd a, vd b) {
    return _mm512_mask_mov_pd(b, m, a);
} /* m ? a : b */

/* out [4] = the sums of the lanes of a, b, c, d, each added as a tree. */
ALWAYS_INLINE void vf_sum4(float *out, vf a, vf b, vf c, vf d) {
    const vf ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const vf cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const vf s = _mm512_add_ps(_mm512_shuffle_ps(ab, cd, 0x44), _mm512_shuffle_ps(ab, cd, 0xee));
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(s), _mm512_extractf32x8_ps(s, 1));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)));
}

#endif
