/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fixed.h"

#include <assert.h>
#include <float.h>
#include <math.h>

/* |term| <= 2^86 units and 2^40 terms keep a hf_wide below 2^126. */
#define WIDE_TERM_BITS 86
/* Least exponent of a float64's last bit, and its mantissa's bits. */
#define MIN_EXPONENT (-1074)
#define MANTISSA 53

typedef hf_int128 i128;
__extension__ typedef unsigned __int128 u128;

int hf_fixed_bits(int64_t n) {
    int log2_up = 0;
    while (log2_up < 60 && ((int64_t)1 << log2_up) < n)
        log2_up++;
    return 61 - log2_up < 50 ? 61 - log2_up : 50;
}

int hf_fixed_exponent(double max_abs) {
    assert(max_abs >= 0.0 && isfinite(max_abs));
    if (max_abs == 0.0)
        return MIN_EXPONENT;
    int e = 0;
    const double m = frexp(max_abs, &e); /* m in [0.5, 1) */
    return m > 0.5 ? e : e - 1;
}

double hf_fixed_mult(int bits, int e) { return ldexp(1.0, bits - e < 1023 ? bits - e : 1023); }

static int bit_length(u128 v) {
    const uint64_t high = (uint64_t)(v >> 64), low = (uint64_t)v;
    if (high != 0)
        return 128 - __builtin_clzll(high);
    return low != 0 ? 64 - __builtin_clzll(low) : 0;
}

/* v / 2^shift to the nearest integer, ties to even. shift 1 .. 127. */
static u128 shift_round(u128 v, int shift) {
    const u128 half = (u128)1 << (shift - 1);
    const u128 rest = v & (half + half - 1);
    const u128 q = v >> shift;
    return q + (rest > half || (rest == half && (q & 1)));
}

/* The float64 nearest to t * 2^exponent, ties to even. */
static double scaled(i128 t, int exponent) {
    u128 mag = t < 0 ? -(u128)t : (u128)t;
    int last = bit_length(mag) - MANTISSA + exponent; /* exponent of the result's last bit */
    if (last < MIN_EXPONENT)
        last = MIN_EXPONENT;
    const int shift = last - exponent;
    if (shift > 127)
        mag = 0;
    else if (shift > 0)
        mag = shift_round(mag, shift);
    const double v = ldexp((double)mag, shift > 0 ? last : exponent);
    return t < 0 ? -v : v;
}

double hf_fixed_value(const int64_t sum[HF_MAX_LIMBS], int limbs, int bits, double mult) {
    int e = 0;
    (void)frexp(mult, &e); /* mult = 2^(e - 1) */
    if (limbs == 1)
        return scaled(sum[0], 1 - e);
    return scaled((i128)sum[0] * ((i128)1 << bits) + sum[1], 1 - e - bits);
}

hf_wide hf_wide_zero(double bound) {
    /* Where the bound itself overflowed, terms may too: those are counted in `special`. */
    const double most = isfinite(bound) ? bound : DBL_MAX;
    const hf_wide zero = {0, hf_fixed_exponent(most) - WIDE_TERM_BITS, 0.0};
    return zero;
}

void hf_wide_add(hf_wide *sum, double v) {
    if (v == 0.0)
        return;
    int e = 0;
    const double m = frexp(v, &e);
    const int shift = e - MANTISSA - sum->exponent;
    if (!isfinite(v) || shift > WIDE_TERM_BITS - MANTISSA + 1) {
        assert(!isfinite(v) && "term above the bound of its hf_wide");
        sum->special += isnan(v) ? v : copysign((double)INFINITY, v);
        return;
    }
    const int64_t whole = (int64_t)ldexp(m, MANTISSA); /* v = whole * 2^(e - 53) */
    const u128 mag = (u128)(whole < 0 ? -whole : whole);
    i128 q = 0;
    if (shift >= 0)
        q = (i128)(mag << shift);
    else if (shift >= -MANTISSA - 1)
        q = (i128)shift_round(mag, -shift);
    sum->sum += whole < 0 ? -q : q;
}

void hf_wide_merge(hf_wide *sum, const hf_wide *other) {
    assert(sum->exponent == other->exponent);
    sum->sum += other->sum;
    sum->special += other->special;
}

double hf_wide_value(const hf_wide *sum) {
    return sum->special != 0.0 ? sum->special : scaled(sum->sum, sum->exponent);
}
