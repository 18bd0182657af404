/* SPDX-License-Identifier: Apache-2.0
 * float64_soft.cl, as C, against the processor's float64: the same bits for operands of all kinds;
 * any NaN for a NaN. Needs no OpenCL. */
#include "base/rng.h"

#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

/* What of OpenCL C the source needs. */
typedef struct {
    float at[8];
} float8;
typedef struct {
    int64_t at[8];
} long8;
#define ulong uint64_t
#define long int64_t
#define uint uint32_t
#define __global
#define vstore8(v, place, p) memcpy(p, (v).at, sizeof(v).at)
#undef LONG_MIN
#define LONG_MIN INT64_MIN

static long8 vload8(int place, const int64_t *p) {
    long8 v;
    memcpy(v.at, p + place, sizeof v.at);
    return v;
}

static uint64_t clz(uint64_t v) { return v == 0 ? 64 : (uint64_t)__builtin_clzll(v); }

static uint64_t mul_hi(uint64_t a, uint64_t b) {
    const uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX), one = (a >> 32) * (b & UINT32_MAX);
    const uint64_t two = (a & UINT32_MAX) * (b >> 32);
    const uint64_t carry = (low >> 32) + (one & UINT32_MAX) + (two & UINT32_MAX);
    return (a >> 32) * (b >> 32) + (one >> 32) + (two >> 32) + (carry >> 32);
}

static int max(int a, int b) { return a > b ? a : b; }

static int clamp(int v, int least, int most) { return v < least ? least : v > most ? most : v; }

static uint32_t as_uint(float v) {
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    return bits;
}

static float as_float(uint32_t bits) {
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

#include "device/opencl/float64_soft.cl"
#undef long
#undef ulong
#undef uint

#define PAIRS 3000000
#define NARROW 3000000

static f64 soft(double v) {
    f64 to;
    memcpy(&to, &v, sizeof to);
    return to;
}

static double hard(f64 v) {
    double to;
    memcpy(&to, &v, sizeof to);
    return to;
}

/* Both NaN, or the same bits. */
static int same(f64 found, double wanted) {
    return wanted != wanted ? f64_is_nan(found) : found.bits == soft(wanted).bits;
}

static int same_float(float found, float wanted) {
    return wanted != wanted ? found != found : as_uint(found) == as_uint(wanted);
}

static void check(int good, const char *what, double a, double b) {
    if (!good)
        fail_msg("%s of %a and %a differs from the processor's", what, a, b);
}

/* Numbers at which an operation may go wrong. */
static const double special[] = {0.0,
                                 1.0,
                                 2.0,
                                 3.0,
                                 0.5,
                                 1.5,
                                 0x1.fffffffffffffp0,
                                 0x1.0000000000001p0,
                                 0x1p52,
                                 0x1.8p52,
                                 0x1p53,
                                 0x1.fffffffffffffp52,
                                 0x1p-52,
                                 0x1p62,
                                 0x1p63,
                                 0x1p-126,
                                 0x1p-127,
                                 0x1p-149,
                                 0x1p-150,
                                 0x1.000001p-150,
                                 0x1.fffffep127,
                                 0x1.ffffffp127,
                                 0x1.fffffefffffffp127,
                                 0x1p128,
                                 0x1p-1022,
                                 0x1.fffffffffffffp-1022,
                                 0x0.fffffffffffffp-1022,
                                 0x1p-1074,
                                 0x1p-1073,
                                 0x1.fffffffffffffp1023,
                                 0x1p1023,
                                 0x1p511,
                                 0x1p-537,
                                 0x1p-538,
                                 INFINITY,
                                 NAN};
enum { SPECIAL = sizeof special / sizeof *special };

/* Random bits: of all kinds, of few bits, near others; the generator's number i. */
static double operand(uint64_t i, double near) {
    const uint64_t bits = hf_rng_bits(7, 3, 2 * i), how = hf_rng_bits(7, 3, 2 * i + 1);
    const uint64_t sign = bits & F64_SIGN, few = bits & (0xFFFULL << (how >> 8) % 52);
    switch (how % 8) {
    case 0:
    case 1:
        return hard(f64_from_bits(bits));
    case 2: /* exponents near 0: sums that cancel, ties */
        return hard(f64_from_bits(sign | (1023 - 30 + (how >> 8) % 60) << 52 | bits >> 12));
    case 3:
        return hard(f64_from_bits(sign | (1023 - 30 + (how >> 20) % 60) << 52 | few >> 12));
    case 4: /* below normal numbers, and just above */
        return hard(f64_from_bits(sign | (how >> 8) % 3 << 52 | bits >> 12));
    case 5: /* a few units from the other one */
        return hard(f64_from_bits((soft(near).bits + (how >> 8) % 5 - 2) ^ (how >> 16 & 1) << 63));
    case 6:
        return (double)(int64_t)(bits >> (how >> 8) % 64);
    default:
        return (sign ? -1 : 1) * special[(how >> 8) % SPECIAL];
    }
}

static void two(double a, double b) {
    const f64 x = soft(a), y = soft(b);
    check(same(f64_add(x, y), a + b), "sum", a, b);
    check(same(f64_sub(x, y), a - b), "difference", a, b);
    check(same(f64_mul(x, y), a * b), "product", a, b);
    check(same(f64_div(x, y), a / b), "quotient", a, b);
    check(f64_less(x, y) == (a < b), "less", a, b);
    check(f64_equal(x, y) == (a == b), "equal", a, b);
    /* either zero may count as the larger one; a NaN loses, a signalling one too */
    const double most = a > b || isnan(b) ? a : b, least = a < b || isnan(b) ? a : b;
    check(hard(f64_max(x, y)) == most || same(f64_max(x, y), most), "maximum", a, b);
    check(hard(f64_min(x, y)) == least || same(f64_min(x, y), least), "minimum", a, b);
}

/* Towards zero, by the neighbour of what was rounded to nearest. */
static float towards_zero(double v) {
    const float f = (float)v;
    return fabs((double)f) > fabs(v) ? nextafterf(f, 0) : f;
}

static void one(double a, int n) {
    const f64 x = soft(a);
    check(same(f64_sqrt(x), sqrt(a)), "root", a, 0);
    check(same(f64_rint(x), rint(a)), "rounding", a, 0);
    check(same(f64_neg(x), -a) && same(f64_abs(x), fabs(a)), "sign", a, 0);
    check(f64_finite(x) == (isfinite(a) != 0), "finite", a, 0);
    check(same_float(f64_to_float(x), (float)a), "float", a, 0);
    check(isnan(a) || same_float(f64_to_float_rtz(x), towards_zero(a)), "float towards 0", a, 0);
    check(same(f64_ldexp(x, n), ldexp(a, n)), "ldexp", a, n);
    if (isfinite(a) && a != 0)
        check(f64_ilogb(x) == ilogb(a), "exponent", a, 0);
    if (fabs(a) < 0x1p63)
        check(f64_to_long(x) == (int64_t)a, "whole number", a, 0);
}

static void from_others(uint64_t bits) {
    const float f = as_float((uint32_t)bits);
    check(same(f64_of(f), (double)f), "of float", (double)f, 0);
    check(same(f64_of_long((int64_t)bits), (double)(int64_t)bits), "of long", (double)bits, 0);
    check(same(f64_of_ulong(bits), (double)bits), "of ulong", (double)bits, 0);
}

static void pairs(void **state) {
    (void)state;
    double last = 1;
    for (uint64_t i = 0; i < PAIRS; i++) {
        const double next = operand(i, last);
        two(last, next);
        last = next;
    }
    for (int i = 0; i < 4 * SPECIAL * SPECIAL; i++)
        two((i & 1 ? -1 : 1) * special[i / 4 % SPECIAL],
            (i & 2 ? -1 : 1) * special[i / 4 / SPECIAL]);
}

static void singles(void **state) {
    (void)state;
    for (uint64_t i = 0; i < NARROW; i++) {
        const uint64_t bits = hf_rng_bits(11, 5, i);
        one(operand(i, 1), (int)(bits % 4200) - 2100);
        /* within float32, where most bits are lost */
        const uint64_t exponent = 1023 - 155 + bits % 290;
        one(hard(f64_from_bits((bits & F64_SIGN) | exponent << 52 | bits >> 12)), 1);
        one((double)as_float((uint32_t)bits) * (1 + 0x1p-24), -(int)(bits % 60));
        from_others(bits);
        from_others(bits >> bits % 64);
    }
    for (int i = 0; i < 2 * SPECIAL; i++)
        one((i & 1 ? -1 : 1) * special[i / 2], 0);
    from_others(0);
    from_others(UINT64_MAX);
    from_others(0xFFFFFFFFFFFFFBFFULL);
    from_others(0xFFFFFFFFFFFFFC00ULL);
}

/* Eight at once are eight times one. */
static void eights(void **state) {
    (void)state;
    f64 a[8], b[8], c[8];
    float few[8];
    for (int l = 0; l < 8; l++) {
        a[l] = soft(operand((uint64_t)l, 1));
        b[l] = l % 3 == 0 ? soft(-0.0) : soft(-special[l]);
        few[l] = 0.1F * (float)l;
    }
    const f64x8 x = f64x8_load(a), y = f64x8_load(b);
    float8 v;
    memcpy(v.at, few, sizeof few);
    const f64x8 all[] = {
        f64x8_add(x, y), f64x8_sub(x, y), f64x8_mul(x, y),           f64x8_div(x, y),
        f64x8_sqrt(x),   f64x8_neg(x),    f64x8_if_zero(y, a[0], x), f64x8_if_negative(y, a[0], x),
        f64x8_of(v),     f64x8_all(a[1])};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        f64x8_store(all[i], c);
        for (int l = 0; l < 8; l++) {
            const f64 wanted[] = {f64_add(a[l], b[l]),
                                  f64_sub(a[l], b[l]),
                                  f64_mul(a[l], b[l]),
                                  f64_div(a[l], b[l]),
                                  f64_sqrt(a[l]),
                                  f64_neg(a[l]),
                                  hard(b[l]) == 0 ? a[0] : a[l],
                                  hard(b[l]) < 0 ? a[0] : a[l],
                                  soft((double)few[l]),
                                  a[1]};
            assert_true(c[l].bits == wanted[i].bits);
            assert_int_equal(f64x8_bits(all[i]).at[l], (int64_t)wanted[i].bits);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(pairs), cmocka_unit_test(singles),
                                       cmocka_unit_test(eights)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
