/* SPDX-License-Identifier: Apache-2.0
 * Integers times a power of two as float64, rounded once; for the host and for CUDA. */
#ifndef HF_SCALED_H
#define HF_SCALED_H

#include "base/compiler.h"
#include "base/fixed.h"
#include <math.h>

/* Least exponent of a float64's last bit, and its mantissa's bits. */
#define HF_MIN_EXPONENT (-1074)
#define HF_MANTISSA 53

__extension__ typedef unsigned __int128 hf_uint128;

HF_ANYWHERE int hf_bit_length64(uint64_t v) {
#ifdef __CUDA_ARCH__
    return 64 - __clzll((long long)v);
#else
    return v != 0 ? 64 - __builtin_clzll(v) : 0;
#endif
}

HF_ANYWHERE int hf_bit_length(hf_uint128 v) {
    const uint64_t high = (uint64_t)(v >> 64);
    return high != 0 ? 64 + hf_bit_length64(high) : hf_bit_length64((uint64_t)v);
}

/* v / 2^shift to the nearest integer, ties to even. shift 1 .. 127. */
HF_ANYWHERE hf_uint128 hf_shift_round(hf_uint128 v, int shift) {
    const hf_uint128 half = (hf_uint128)1 << (shift - 1);
    const hf_uint128 rest = v & (half + half - 1);
    const hf_uint128 q = v >> shift;
    return q + (rest > half || (rest == half && (q & 1)));
}

/* The float64 nearest to t * 2^exponent, ties to even. */
HF_ANYWHERE double hf_scaled(hf_int128 t, int exponent) {
    hf_uint128 mag = t < 0 ? -(hf_uint128)t : (hf_uint128)t;
    int last = hf_bit_length(mag) - HF_MANTISSA + exponent; /* exponent of the result's last bit */
    if (last < HF_MIN_EXPONENT)
        last = HF_MIN_EXPONENT;
    const int shift = last - exponent;
    if (shift > 127)
        mag = 0;
    else if (shift > 0)
        mag = hf_shift_round(mag, shift);
    const double v = ldexp((double)(uint64_t)mag, shift > 0 ? last : exponent);
    return t < 0 ? -v : v;
}

/* hf_fixed_value() of two limbs and more than 20 bits, with unit = 2^-bits / mult, without shifts
 * and branches: the high limb, as far as it is a float64, and what is left are added and rounded by
 * one operation. What is left has more bits than a float64 where the high limb has: then its last
 * bits become one that is not 0, which rounds alike as it stands behind all that decides (to odd:
 * Boldo and Melquiond, Emulation of FMA and correctly rounded sums, 2008). Right where the result
 * is HF_LEAST_SCALED at least, and where both limbs are 0. */
#define HF_LEAST_SCALED 0x1p-1000
HF_ANYWHERE double hf_scaled_two(int64_t sum0, int64_t sum1, int bits, double unit) {
    const int64_t carry = sum1 >> bits;
    const int64_t high = (int64_t)((uint64_t)sum0 + (uint64_t)carry);
    const int64_t rest = sum1 & (((int64_t)1 << bits) - 1);
    const int64_t most = (int64_t)1 << HF_MANTISSA;
    const int64_t digits = high > most || high < -most ? 1023 : 0; /* of it that go with the rest */
    const int64_t low = ((high & digits) << bits) + rest;          /* at most 60 bits */
    const int64_t lost = low & (digits >> 2);                      /* 8 bits */
    const int64_t odd = lost != 0 ? (low - lost) | 256 : low;
    return fma((double)(high & ~digits), (double)((int64_t)1 << bits), (double)odd) * unit;
}

/* hf_fixed_value(). */
HF_ANYWHERE double hf_scaled_limbs(int64_t sum0, int64_t sum1, int limbs, int bits, double mult) {
    int e = 0;
    (void)frexp(mult, &e); /* mult = 2^(e - 1) */
    if (limbs == 1)
        return hf_scaled(sum0, 1 - e);
    return hf_scaled((hf_int128)sum0 * ((hf_int128)1 << bits) + sum1, 1 - e - bits);
}

#endif
