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

/* hf_fixed_value(). */
HF_ANYWHERE double hf_scaled_limbs(int64_t sum0, int64_t sum1, int limbs, int bits, double mult) {
    int e = 0;
    (void)frexp(mult, &e); /* mult = 2^(e - 1) */
    if (limbs == 1)
        return hf_scaled(sum0, 1 - e);
    return hf_scaled((hf_int128)sum0 * ((hf_int128)1 << bits) + sum1, 1 - e - bits);
}

#endif
