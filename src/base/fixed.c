/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fixed.h"
#include "base/scaled.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

typedef hf_int128 i128;

int hf_fixed_bits(int64_t n) {
    int log2_up = 0;
    while (log2_up < 60 && ((int64_t)1 << log2_up) < n)
        log2_up++;
    return 61 - log2_up < 50 ? 61 - log2_up : 50;
}

int hf_fixed_exponent(double max_abs) {
    assert(max_abs >= 0.0 && isfinite(max_abs));
    if (max_abs == 0.0)
        return HF_MIN_EXPONENT;
    int e = 0;
    const double m = frexp(max_abs, &e); /* m in [0.5, 1) */
    return m > 0.5 ? e : e - 1;
}

double hf_fixed_mult(int bits, int e) { return ldexp(1.0, bits - e < 1023 ? bits - e : 1023); }

double hf_fixed_value(const int64_t sum[HF_MAX_LIMBS], int limbs, int bits, double mult) {
    return hf_scaled_limbs(sum[0], limbs == 1 ? 0 : sum[1], limbs, bits, mult);
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
    const double v = hf_scaled(lead << 1 | rest, 32 * low - 1075 - 1);
    return negative ? -v : v;
}
