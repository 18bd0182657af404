/* SPDX-License-Identifier: Apache-2.0
 * Sums whose result does not depend on the order of the terms: values become integers on a common
 * scale first. docs/numerics/sums.md states the errors.
 *
 * Column sums: limb 0 of v is q0 = rint(v * mult), limb 1 is q1 = rint((v * mult - q0) * 2^bits),
 * with mult = 2^(bits - e), |v| <= 2^e, |q| <= 2^bits, 2^bits * n < 2^62, bits <= 50. The sums are
 * int64 and exact, so rows can also be taken out again.
 *
 * Scalar sums: hf_wide, 128 bits on a scale fixed by an upper bound of the terms. */
#ifndef HF_FIXED_H
#define HF_FIXED_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_MAX_LIMBS 2

/* rint(v) for |v| <= 2^51 is (v + HF_RINT_MAGIC) - HF_RINT_MAGIC in round-to-nearest float64, and
 * the low bits of v + HF_RINT_MAGIC, less those of HF_RINT_MAGIC, are that integer. */
#define HF_RINT_MAGIC 6755399441055744.0 /* 2^52 + 2^51 */

/* Bits of a limb for n terms: min(50, 61 - ceil(log2 n)). */
int hf_fixed_bits(int64_t n);

/* The least e with |v| <= 2^e for all |v| <= max_abs; -1074 for 0. */
int hf_fixed_exponent(double max_abs);

/* mult = 2^(bits - e), clamped so that it is finite. */
double hf_fixed_mult(int bits, int e);

/* The float64 nearest to (sum0 + sum1 * 2^-bits) / mult; limbs is 1 or 2. */
double hf_fixed_value(const int64_t sum[HF_MAX_LIMBS], int limbs, int bits, double mult);

__extension__ typedef __int128 hf_int128;

#define HF_WIDE_BINS 64

/* An exact sum of up to 2^40 float64 of any size: bin i holds the terms whose biased exponent is
 * 32 i to 32 i + 31, in units of 2^(32 i - 1075). All zero is an empty sum. */
typedef struct hf_wide {
    hf_int128 bin[HF_WIDE_BINS];
    double special; /* 0, or the sum of the terms that were not finite */
} hf_wide;

void hf_wide_add(hf_wide *sum, double v);
void hf_wide_merge(hf_wide *sum, const hf_wide *other);
/* The float64 nearest to the sum; Inf or NaN when a term was, or when it is beyond float64. */
double hf_wide_value(const hf_wide *sum);

#ifdef __cplusplus
}
#endif
#endif
