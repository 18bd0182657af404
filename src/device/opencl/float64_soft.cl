/* SPDX-License-Identifier: Apache-2.0
 * float64 by integers, for devices without it: what float64.cl declares, bit for bit but for the
 * bits of a NaN. A number is a structure, so that a compiler refuses operators on it.
 * tests/test_opencl_soft.c compiles this file as C and compares it with the processor's float64. */
#ifdef __OPENCL_C_VERSION__
#define double this_device_has_no_float64 /* no source may use it */
#endif

typedef struct {
    ulong bits;
} f64;

typedef struct {
    f64 at[8];
} f64x8;

#define F64_SIGN 0x8000000000000000UL
#define F64_INFINITE 0x7FF0000000000000UL
#define F64_NAN 0x7FF8000000000000UL
#define F64_ONE (1UL << 52) /* the leading bit of a normal number */
#define F64_EXPONENT 0x7FF
#define F64_BIAS 0x3FF

static f64 f64_from_bits(ulong bits) {
    const f64 v = {bits};
    return v;
}

static int f64_exponent(f64 v) { return (int)(v.bits >> 52) & F64_EXPONENT; }

static int f64_is_nan(f64 v) { return (v.bits & ~F64_SIGN) > F64_INFINITE; }

static int f64_is_zero(f64 v) { return (v.bits & ~F64_SIGN) == 0; }

static int f64_finite(f64 v) { return f64_exponent(v) < F64_EXPONENT; }

static long f64_bits(f64 v) { return (long)v.bits; }

static f64 f64_neg(f64 v) { return f64_from_bits(v.bits ^ F64_SIGN); }

static f64 f64_abs(f64 v) { return f64_from_bits(v.bits & ~F64_SIGN); }

/* m shifted; its last bit is set if a bit is lost. */
static ulong f64_jam(ulong m, int shift) {
    if (shift > 62)
        return m != 0;
    return m >> shift | ((m & ((1UL << shift) - 1)) != 0);
}

/* The number m 2^-62 2^(exponent + 1 - F64_BIAS), rounded; bit 63 of m is 0, and bit 62 is 1
 * unless the number is smaller than all normal ones (exponent: 0). */
static f64 f64_round(ulong sign, int exponent, ulong m) {
    if (exponent > F64_EXPONENT - 2)
        return f64_from_bits(sign | F64_INFINITE);
    if (exponent < 0) {
        m = f64_jam(m, -exponent);
        exponent = 0;
    }
    const int tie = (m & 0x3FF) == 0x200;
    m = (m + 0x200) >> 10 & ~(ulong)tie;
    return f64_from_bits((sign | (ulong)exponent << 52) + m);
}

/* Of a finite number but 0: its exponent and its 53 bits, the leading one in place 52. */
static int f64_split(f64 v, ulong *m) {
    const int exponent = f64_exponent(v);
    *m = v.bits & (F64_ONE - 1);
    if (exponent > 0) {
        *m |= F64_ONE;
        return exponent;
    }
    const int shift = (int)clz(*m) - 11;
    *m <<= shift;
    return 1 - shift;
}

static f64 f64_of_ulong(ulong v) {
    if (v == 0)
        return f64_from_bits(0);
    const int shift = (int)clz(v) - 1;
    return f64_round(0, F64_BIAS + 61 - shift, shift < 0 ? f64_jam(v, 1) : v << shift);
}

static f64 f64_of_long(long v) {
    const f64 size = f64_of_ulong(v < 0 ? 0 - (ulong)v : (ulong)v);
    return v < 0 ? f64_neg(size) : size;
}

static f64 f64_of(float v) {
    const uint bits = as_uint(v);
    const ulong sign = (ulong)(bits & 0x80000000u) << 32, m = bits & 0x7FFFFF;
    const int exponent = (int)(bits >> 23) & 0xFF;
    if (exponent == 0xFF)
        return f64_from_bits(sign | F64_INFINITE | m << 29);
    if (exponent > 0)
        return f64_from_bits(sign | (ulong)(exponent + F64_BIAS - 127) << 52 | m << 29);
    if (m == 0)
        return f64_from_bits(sign);
    const int shift = (int)clz(m) - 11;
    return f64_from_bits((sign | (ulong)(F64_BIAS - 98 - shift) << 52) + (m << shift));
}

/* To nearest, or towards zero. */
static float f64_narrow(f64 v, int nearest) {
    const uint sign = (uint)(v.bits >> 32) & 0x80000000u;
    const ulong m = v.bits & (F64_ONE - 1);
    int exponent = f64_exponent(v);
    if (exponent == F64_EXPONENT)
        return as_float(sign | (m != 0 ? 0x7FC00000u : 0x7F800000u));
    uint few = (uint)f64_jam(exponent > 0 ? m | F64_ONE : m, 22);
    exponent -= F64_BIAS - 126;
    if (exponent > 0xFD)
        return as_float(sign | (nearest ? 0x7F800000u : 0x7F7FFFFFu));
    if (exponent < 0) {
        few = (uint)f64_jam(few, -exponent);
        exponent = 0;
    }
    const uint tie = (few & 0x7F) == 0x40;
    few = nearest ? (few + 0x40) >> 7 & ~tie : few >> 7;
    return as_float((sign | (uint)exponent << 23) + few);
}

static float f64_to_float(f64 v) { return f64_narrow(v, 1); }

static float f64_to_float_rtz(f64 v) { return f64_narrow(v, 0); }

static long f64_to_long(f64 v) {
    const int shift = f64_exponent(v) - F64_BIAS;
    const ulong m = (v.bits & (F64_ONE - 1)) | F64_ONE;
    if (shift < 0)
        return 0;
    if (shift > 62)
        return LONG_MIN;
    const long size = (long)(shift > 52 ? m << (shift - 52) : m >> (52 - shift));
    return v.bits & F64_SIGN ? -size : size;
}

static f64 f64_add(f64 a, f64 b) {
    if ((b.bits & ~F64_SIGN) > (a.bits & ~F64_SIGN)) { /* a is the larger one */
        const f64 other = a;
        a = b;
        b = other;
    }
    const ulong sign = a.bits & F64_SIGN;
    int exponent = f64_exponent(a);
    const int less = f64_exponent(b), subtract = ((a.bits ^ b.bits) & F64_SIGN) != 0;
    if (exponent == F64_EXPONENT)
        return f64_is_nan(a) || (less == F64_EXPONENT && subtract) ? f64_from_bits(F64_NAN) : a;
    ulong m = (a.bits & (F64_ONE - 1)) | (exponent > 0 ? F64_ONE : 0);
    ulong n = (b.bits & (F64_ONE - 1)) | (less > 0 ? F64_ONE : 0);
    exponent = max(exponent, 1);
    m <<= 10;
    n = f64_jam(n << 10, exponent - max(less, 1));
    if (!subtract) {
        m += n;
        return m >> 63 ? f64_round(sign, exponent, f64_jam(m, 1))
                       : f64_round(sign, exponent - 1, m);
    }
    m -= n;
    if (m == 0)
        return f64_from_bits(0);
    const int shift = (int)clz(m) - 1;
    return f64_round(sign, exponent - 1 - shift, m << shift);
}

static f64 f64_sub(f64 a, f64 b) { return f64_add(a, f64_neg(b)); }

static f64 f64_mul(f64 a, f64 b) {
    const ulong sign = (a.bits ^ b.bits) & F64_SIGN;
    ulong m, n;
    if (!f64_finite(a) || !f64_finite(b)) {
        const int none = f64_is_nan(a) || f64_is_nan(b) || f64_is_zero(a) || f64_is_zero(b);
        return f64_from_bits(none ? F64_NAN : sign | F64_INFINITE);
    }
    if (f64_is_zero(a) || f64_is_zero(b))
        return f64_from_bits(sign);
    int exponent = f64_split(a, &m) - F64_BIAS;
    exponent += f64_split(b, &n);
    m <<= 10;
    n <<= 11;
    ulong high = mul_hi(m, n) | (m * n != 0);
    if (!(high >> 62)) {
        high <<= 1;
        exponent--;
    }
    return f64_round(sign, exponent, high);
}

static f64 f64_div(f64 a, f64 b) {
    const ulong sign = (a.bits ^ b.bits) & F64_SIGN;
    const int top = !f64_finite(a), bottom = !f64_finite(b);
    ulong rest, n, quotient = 1;
    if (f64_is_nan(a) || f64_is_nan(b) || (top && bottom) || (f64_is_zero(a) && f64_is_zero(b)))
        return f64_from_bits(F64_NAN);
    if (top || f64_is_zero(b))
        return f64_from_bits(sign | F64_INFINITE);
    if (bottom || f64_is_zero(a))
        return f64_from_bits(sign);
    int exponent = f64_split(a, &rest) + F64_BIAS - 1;
    exponent -= f64_split(b, &n);
    if (rest < n) {
        rest <<= 1;
        exponent--;
    }
    rest -= n;
    for (int digit = 0; digit < 5; digit++) { /* of 11 bits: a remainder has 53 */
        quotient = quotient << 11 | (rest << 11) / n;
        rest = (rest << 11) % n;
    }
    return f64_round(sign, exponent, quotient << 7 | (rest != 0));
}

/* A bit at a time. */
static f64 f64_sqrt(f64 v) {
    ulong rest, root = 0, twice = 0;
    if (f64_is_zero(v) || v.bits == F64_INFINITE)
        return v;
    if (f64_is_nan(v) || (v.bits & F64_SIGN))
        return f64_from_bits(F64_NAN);
    const int exponent = f64_split(v, &rest) - F64_BIAS;
    rest <<= (exponent & 1) + 7; /* in [1, 4) times 2^59 */
    for (ulong bit = 1UL << 59; bit > 1UL << 3; bit >>= 1) {
        const ulong t = twice + bit;
        if (t <= rest) {
            twice = t + bit;
            rest -= t;
            root |= bit;
        }
        rest <<= 1;
    }
    return f64_round(0, (exponent - (exponent & 1)) / 2 + F64_BIAS - 1,
                     root << 3 | (rest != 0));
}

static int f64_less(f64 a, f64 b) {
    const int below = (a.bits & F64_SIGN) != 0, under = (b.bits & F64_SIGN) != 0;
    if (f64_is_nan(a) || f64_is_nan(b) || (f64_is_zero(a) && f64_is_zero(b)))
        return 0;
    if (below != under)
        return below;
    return below ? a.bits > b.bits : a.bits < b.bits;
}

static int f64_equal(f64 a, f64 b) {
    return (a.bits == b.bits && !f64_is_nan(a)) || (f64_is_zero(a) && f64_is_zero(b));
}

static f64 f64_max(f64 a, f64 b) { return f64_is_nan(a) || f64_less(a, b) ? b : a; }

static f64 f64_min(f64 a, f64 b) { return f64_is_nan(a) || f64_less(b, a) ? b : a; }

static f64 f64_rint(f64 v) {
    const f64 big = f64_from_bits((ulong)(F64_BIAS + 52) << 52); /* 2^52 */
    const f64 size = f64_abs(v);
    if (!f64_less(size, big))
        return v;
    return f64_from_bits(f64_sub(f64_add(size, big), big).bits | (v.bits & F64_SIGN));
}

static f64 f64_ldexp(f64 v, int n) {
    ulong m;
    if (!f64_finite(v) || f64_is_zero(v))
        return v;
    const int exponent = f64_split(v, &m) + clamp(n, -4096, 4096);
    return f64_round(v.bits & F64_SIGN, exponent - 1, m << 10);
}

static int f64_ilogb(f64 v) {
    ulong m;
    return f64_split(v, &m) - F64_BIAS;
}

/* ---- eight at once: one after the other */
#define F64X8_EACH(value)                                                                          \
    f64x8 to;                                                                                      \
    for (int l = 0; l < 8; l++)                                                                    \
        to.at[l] = (value);                                                                        \
    return to;

static f64x8 f64x8_all(f64 v) { F64X8_EACH(v) }

static f64x8 f64x8_of(float8 v) {
    float each[8];
    vstore8(v, 0, each);
    F64X8_EACH(f64_of(each[l]))
}

static f64x8 f64x8_load(__global const f64 *p) { F64X8_EACH(p[l]) }

static void f64x8_store(f64x8 v, f64 *p) {
    for (int l = 0; l < 8; l++)
        p[l] = v.at[l];
}

static long8 f64x8_bits(f64x8 v) {
    long each[8];
    for (int l = 0; l < 8; l++)
        each[l] = f64_bits(v.at[l]);
    return vload8(0, each);
}

static f64x8 f64x8_add(f64x8 a, f64x8 b) { F64X8_EACH(f64_add(a.at[l], b.at[l])) }

static f64x8 f64x8_sub(f64x8 a, f64x8 b) { F64X8_EACH(f64_sub(a.at[l], b.at[l])) }

static f64x8 f64x8_mul(f64x8 a, f64x8 b) { F64X8_EACH(f64_mul(a.at[l], b.at[l])) }

static f64x8 f64x8_div(f64x8 a, f64x8 b) { F64X8_EACH(f64_div(a.at[l], b.at[l])) }

static f64x8 f64x8_sqrt(f64x8 v) { F64X8_EACH(f64_sqrt(v.at[l])) }

static f64x8 f64x8_neg(f64x8 v) { F64X8_EACH(f64_neg(v.at[l])) }

static f64x8 f64x8_if_zero(f64x8 where, f64 then, f64x8 v) {
    F64X8_EACH(f64_is_zero(where.at[l]) ? then : v.at[l])
}

static f64x8 f64x8_if_negative(f64x8 where, f64 then, f64x8 v) {
    F64X8_EACH(f64_less(where.at[l], f64_from_bits(0)) ? then : v.at[l])
}
