/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fixed.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

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

void hf_wide_add(hf_wide *sum, double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    const int biased = (int)(bits >> 52 & 0x7ff);
    const uint64_t fraction = bits & ((UINT64_C(1) << 52) - 1);
    if (biased == 0x7ff) {
        sum->special += v;
        return;
    }
    /* v = mantissa * 2^(max(biased, 1) - 1075) */
    const i128 mantissa = (i128)(biased ? fraction | UINT64_C(1) << 52 : fraction << 1);
    const i128 term = mantissa << biased % 32;
    sum->bin[biased / 32] += bits >> 63 ? -term : term;
}

void hf_wide_merge(hf_wide *sum, const hf_wide *other) {
    for (int i = 0; i < HF_WIDE_BINS; i++)
        sum->bin[i] += other->bin[i];
    sum->special += other->special;
}

#define DIGITS (HF_WIDE_BINS + 4) /* the carries of the last bin */

/* The sum as base 2^32 digits, lowest first, of its absolute value; returns whether it is negative.
 */
static bool wide_digits(const hf_wide *sum, uint32_t digit[DIGITS]) {
    bool negative = false;
    for (int pass = 0; pass < 2; pass++) {
        i128 carry = 0;
        for (int i = 0; i < DIGITS; i++) {
            const i128 bin = i < HF_WIDE_BINS ? sum->bin[i] : 0;
            carry += negative ? -bin : bin;
            digit[i] = (uint32_t)carry;
            carry >>= 32;
        }
        if (carry >= 0)
            break;
        negative = true;
    }
    return negative;
}

double hf_wide_value(const hf_wide *sum) {
    uint32_t digit[DIGITS];
    if (sum->special != 0.0)
        return sum->special;
    const bool negative = wide_digits(sum, digit);
    int top = DIGITS - 1;
    while (top > 0 && digit[top] == 0)
        top--;
    i128 lead = 0; /* three digits, and whether anything follows */
    const int low = top >= 2 ? top - 2 : 0;
    for (int i = top; i >= low; i--)
        lead = lead << 32 | digit[i];
    bool rest = false;
    for (int i = 0; i < low; i++)
        rest |= digit[i] != 0;
    const double v = scaled(lead << 1 | rest, 32 * low - 1075 - 1);
    return negative ? -v : v;
}
