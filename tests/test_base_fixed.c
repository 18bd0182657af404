/* SPDX-License-Identifier: Apache-2.0
 * Results are compared with exact integer arithmetic: a float64 is the nearest to T * 2^e when
 * twice its distance from T, counted in units of 2^e, is at most the gap to its neighbour. */
#include "unit.h"

#include "base/fixed.h"
#include "base/rng.h"
#include "base/scaled.h"

#include <math.h>
#include <string.h>

typedef hf_int128 i128;

static struct hf_rng rng = {2024, 1, 0};

static i128 magnitude(i128 v) { return v < 0 ? -v : v; }

/* v / 2^e, which must be a whole number below 2^127. */
static i128 in_units(double v, int e) {
    const double u = ldexp(v, -e);
    assert_true(isfinite(u) && u == rint(u) && fabs(u) < 0x1p127);
    return (i128)u;
}

static int odd(double v) {
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return (int)(bits & 1);
}

/* Is r the float64 nearest to t * 2^e, the even one of two? |t| < 2^126. */
static void assert_nearest(double r, i128 t, int e) {
    const double gap_up = nextafter(fabs(r), INFINITY) - fabs(r);
    const double gap_down = r != 0.0 ? fabs(r) - nextafter(fabs(r), 0.0) : gap_up;
    if (ldexp(gap_down, -e) < 1.0) { /* every multiple of the unit is a float64 here */
        assert_true(in_units(r, e) == t);
        return;
    }
    const i128 off = magnitude(t) - magnitude(in_units(r, e));
    const i128 gap = in_units(off >= 0 ? gap_up : gap_down, e);
    assert_true((r < 0) == (t < 0) || r == 0.0);
    assert_true(2 * magnitude(off) <= gap);
    assert_true(2 * magnitude(off) < gap || !odd(r));
}

static i128 random_i128(int bits) {
    const i128 high = (i128)(hf_rng_next(&rng) >> 1) << 63;
    const i128 v = (high | (i128)(hf_rng_next(&rng) >> 1)) >> (126 - bits);
    return hf_rng_next(&rng) & 1 ? -v : v;
}

static void bits_of_a_limb(void **state) {
    (void)state;
    assert_int_equal(hf_fixed_bits(1), 50);
    assert_int_equal(hf_fixed_bits(1 << 11), 50);
    assert_int_equal(hf_fixed_bits((1 << 11) + 1), 49);
    assert_int_equal(hf_fixed_bits((int64_t)1 << 40), 21);
    for (int64_t n = 1; n < (int64_t)1 << 55; n = n * 3 + 1) {
        const int bits = hf_fixed_bits(n);
        assert_true(bits >= 1 && bits <= 50);
        assert_true((i128)n << bits < (i128)1 << 62);
    }
}

static void exponents(void **state) {
    (void)state;
    assert_int_equal(hf_fixed_exponent(0.0), -1074);
    assert_int_equal(hf_fixed_exponent(0x1p-1074), -1074);
    assert_int_equal(hf_fixed_exponent(0x1.8p-1073), -1072);
    assert_int_equal(hf_fixed_exponent(1.0), 0);
    assert_int_equal(hf_fixed_exponent(nextafter(1.0, 2.0)), 1);
    assert_int_equal(hf_fixed_exponent(0.75), 0);
    assert_int_equal(hf_fixed_exponent(0x1.fffffffffffffp1023), 1024);
    assert_true(hf_fixed_mult(50, 0) == 0x1p50);
    assert_true(hf_fixed_mult(50, 1024) == 0x1p-974);
    assert_true(hf_fixed_mult(50, -1074) == 0x1p1023);
}

/* Sums of both limbs, of any size and sign, on scales from the least to the largest. */
static void value_is_nearest(void **state) {
    (void)state;
    for (int i = 0; i < 200000; i++) {
        const int bits = 21 + (int)(hf_rng_next(&rng) % 30);
        const int e = (int)(hf_rng_next(&rng) % 1900) - 950;
        const double mult = hf_fixed_mult(bits, e);
        const int64_t sum[2] = {(int64_t)random_i128((int)(hf_rng_next(&rng) % 62)),
                                (int64_t)random_i128((int)(hf_rng_next(&rng) % 62))};
        const i128 t = (i128)sum[0] * ((i128)1 << bits) + sum[1];
        assert_nearest(hf_fixed_value(sum, 2, bits, mult), t, e - 2 * bits);
        assert_nearest(hf_fixed_value(sum, 1, bits, mult), sum[0], e - bits);
    }
}

/* What the high limb leaves to the low one: nothing, less than a float64 holds, more; ties. */
static void two_limbs_at_once(void **state) {
    (void)state;
    for (int i = 0; i < 400000; i++) {
        const int bits = 21 + (int)(hf_rng_next(&rng) % 30);
        const int e = (int)(hf_rng_next(&rng) % 1900) - 950;
        const double mult = hf_fixed_mult(bits, e);
        int64_t sum[2] = {(int64_t)random_i128((int)(hf_rng_next(&rng) % 62)),
                          (int64_t)random_i128((int)(hf_rng_next(&rng) % 62))};
        if (i % 4 == 0) /* about half a last bit of the result */
            sum[1] =
                ((int64_t)1 << (hf_rng_next(&rng) % 60)) + (int64_t)(hf_rng_next(&rng) % 3) - 1;
        if (i % 8 == 0)
            sum[0] &= ~(int64_t)0x3ff;
        const double v = hf_scaled_two(sum[0], sum[1], bits, 1 / mult / ldexp(1, bits));
        if (fabs(v) >= HF_LEAST_SCALED || (sum[0] | sum[1]) == 0)
            assert_true(v == hf_fixed_value(sum, 2, bits, mult));
        else
            assert_true(fabs(hf_fixed_value(sum, 2, bits, mult)) < 2 * HF_LEAST_SCALED);
    }
}

static void value_at_the_edges(void **state) {
    (void)state;
    const int64_t one[2] = {1, 0}, half[2] = {0, (int64_t)1 << 49};
    assert_true(hf_fixed_value(one, 2, 50, 1.0) == 1.0);
    assert_true(hf_fixed_value(half, 2, 50, 1.0) == 0.5);
    /* 2^52 + 1/2 lies half way between two: the even one */
    const int64_t up[2] = {((int64_t)1 << 53) + 1, 0}, even[2] = {((int64_t)1 << 53) + 2, 0};
    assert_true(hf_fixed_value(up, 1, 50, 1.0) == 0x1p53);
    assert_true(hf_fixed_value(even, 1, 50, 1.0) == 0x1p53 + 2.0);
    /* one unit of the second limb above the tie decides */
    const int64_t above[2] = {up[0], 1};
    assert_true(hf_fixed_value(above, 2, 50, 1.0) == 0x1p53 + 2.0);
    /* subnormal results and results that vanish: mult is 2^1023, so the units are 2^-1023 and
     * 2^-1073 */
    assert_true(hf_fixed_value(one, 2, 50, 0x1p1023) == 0x1p-1023);
    const int64_t low1[2] = {0, 1}, low3[2] = {0, 3};
    assert_true(hf_fixed_value(low1, 2, 50, 0x1p1023) == 0x1p-1073);
    assert_true(hf_fixed_value(low3, 2, 52, 0x1p1023) == 0x1p-1073); /* 3/4, to even */
    assert_true(hf_fixed_value(low1, 2, 52, 0x1p1023) == 0.0);       /* 1/2 of 2^-1074 - tie */
    const int64_t none[2] = {0, 0};
    assert_true(hf_fixed_value(none, 2, 50, 1.0) == 0.0 &&
                !signbit(hf_fixed_value(none, 2, 50, 1.0)));
}

/* The limbs of v as the kernels make them. */
static void add_term(int64_t sum[2], double v, int bits, double mult, int64_t sign) {
    const double scaled = v * mult, q0 = rint(scaled);
    sum[0] += sign * (int64_t)q0;
    sum[1] += sign * (int64_t)rint((scaled - q0) * ldexp(1.0, bits));
}

/* Sums of n values are within n half units of the second limb, whatever their order, and rows that
 * are taken out again leave no trace. */
static void sums_are_free_of_order(void **state) {
    (void)state;
    enum { N = 1000 };
    static double v[N];
    for (int round = 0; round < 50; round++) {
        double max = 0.0;
        for (int i = 0; i < N; i++) {
            v[i] = ldexp(hf_rng_next_normal(&rng), (int)(hf_rng_next(&rng) % 60) - 30);
            max = fmax(max, fabs(v[i]));
        }
        const int bits = hf_fixed_bits(N), e = hf_fixed_exponent(max);
        const double mult = hf_fixed_mult(bits, e);
        int64_t forward[2] = {0, 0}, shuffled[2] = {0, 0};
        i128 exact =
            0; /* in units of 2^(e - 100), in which all but the last bits of tiny v are whole */
        for (int i = 0; i < N; i++) {
            const uint64_t p = hf_rng_permute((uint64_t)round, 3, N, (uint64_t)i);
            add_term(forward, v[i], bits, mult, 1);
            add_term(shuffled, v[p], bits, mult, 1);
            exact += (i128)rint(ldexp(v[i], 100 - e));
        }
        assert_memory_equal(forward, shuffled, sizeof forward);
        const i128 got =
            ((i128)forward[0] * ((i128)1 << bits) + forward[1]) * ((i128)1 << (100 - 2 * bits));
        assert_true(magnitude(got - exact) <= (i128)N << (100 - 2 * bits));
        for (int i = 0; i < N; i++)
            add_term(forward, v[i], bits, mult, -1);
        assert_int_equal(forward[0], 0);
        assert_int_equal(forward[1], 0);
    }
}

/* Terms of any size, taken out again in another order: what is left is exact. */
static void wide_terms(void **state) {
    (void)state;
    for (int i = 0; i < 20000; i++) {
        double v[12];
        hf_wide sum = {.special = 0};
        for (int t = 0; t < 12; t++) {
            v[t] = ldexp(hf_rng_next_unit(&rng) - 0.5, (int)(hf_rng_next(&rng) % 2080) - 1060);
            hf_wide_add(&sum, v[t]);
        }
        const int left = (int)(hf_rng_next(&rng) % 12);
        for (int t = 11; t >= 0; t--)
            if (t != left)
                hf_wide_add(&sum, -v[t]);
        assert_true(hf_wide_value(&sum) == v[left]);
    }
}

/* Integers below 2^100 against exact arithmetic. */
static void wide_is_nearest(void **state) {
    (void)state;
    for (int i = 0; i < 20000; i++) {
        i128 exact = 0;
        hf_wide sum = {.special = 0};
        for (int t = 0; t < 9; t++) {
            const int64_t whole = (int64_t)(hf_rng_next(&rng) >> 11) - ((int64_t)1 << 52);
            const int shift = (int)(hf_rng_next(&rng) % 45);
            exact += (i128)whole * ((i128)1 << shift);
            hf_wide_add(&sum, ldexp((double)whole, shift));
        }
        assert_nearest(hf_wide_value(&sum), exact, 0);
    }
}

static void wide_is_free_of_order(void **state) {
    (void)state;
    enum { N = 5000 };
    static double v[N];
    static hf_wide all, part[7];
    for (int i = 0; i < N; i++)
        v[i] = ldexp(hf_rng_next_unit(&rng) - 0.3, (int)(hf_rng_next(&rng) % 400) - 99);
    for (uint64_t i = 0; i < N; i++) {
        hf_wide_add(&all, v[i]);
        hf_wide_add(&part[i % 7], v[hf_rng_permute(1, 1, N, i)]);
    }
    for (int p = 1; p < 7; p++)
        hf_wide_merge(&part[0], &part[p]);
    assert_memory_equal(all.bin, part[0].bin, sizeof all.bin);
    assert_true(hf_wide_value(&all) == hf_wide_value(&part[0]));
}

static void wide_at_the_edges(void **state) {
    (void)state;
    hf_wide zero = {.special = 0};
    hf_wide_add(&zero, 0.0);
    hf_wide_add(&zero, -0.0);
    assert_true(hf_wide_value(&zero) == 0.0);
    /* one huge term does not swallow a small one, and 2^40 of the largest fit */
    hf_wide mixed = {.special = 0};
    hf_wide_add(&mixed, 1e300);
    hf_wide_add(&mixed, 3.0);
    hf_wide_add(&mixed, -1e300);
    assert_true(hf_wide_value(&mixed) == 3.0);
    const double most = 0x1.fffffffffffffp-1;
    hf_wide sum = {.special = 0};
    hf_wide_add(&sum, most);
    for (int i = 0; i < 40; i++) {
        const hf_wide same = sum;
        hf_wide_merge(&sum, &same);
    }
    assert_true(hf_wide_value(&sum) == ldexp(most, 40));
    hf_wide large = {.special = 0};
    hf_wide_add(&large, 0x1.fffffffffffffp1023);
    assert_true(hf_wide_value(&large) == 0x1.fffffffffffffp1023);
    hf_wide_add(&large, 0x1.fffffffffffffp1023);
    assert_true(hf_wide_value(&large) == (double)INFINITY);
    hf_wide_add(&large, -0x1.fffffffffffffp1023);
    assert_true(hf_wide_value(&large) == 0x1.fffffffffffffp1023);
    hf_wide tiny = {.special = 0};
    hf_wide_add(&tiny, -0x1p-1074);
    assert_true(hf_wide_value(&tiny) == -0x1p-1074);
    hf_wide special = {.special = 0}, other = {.special = 0};
    hf_wide_add(&special, (double)INFINITY);
    hf_wide_add(&special, 1.0);
    assert_true(hf_wide_value(&special) == (double)INFINITY);
    hf_wide_add(&other, -(double)INFINITY);
    hf_wide_merge(&special, &other);
    assert_true(isnan(hf_wide_value(&special)));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bits_of_a_limb),
        cmocka_unit_test(exponents),
        cmocka_unit_test(value_is_nearest),
        cmocka_unit_test(value_at_the_edges),
        cmocka_unit_test(two_limbs_at_once),
        cmocka_unit_test(sums_are_free_of_order),
        cmocka_unit_test(wide_terms),
        cmocka_unit_test(wide_is_nearest),
        cmocka_unit_test(wide_is_free_of_order),
        cmocka_unit_test(wide_at_the_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
