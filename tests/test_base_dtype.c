/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/dtype.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

/* A 16-bit format: how many bits its mantissa stores, its bias, and the conversions under test. */
struct format {
    const char *name;
    int mantissa, bias;
    float (*widen)(uint16_t);
    uint16_t (*narrow)(float);
    hf_dtype dtype;
};

static const struct format formats[] = {
    {"f16", 10, 15, hf_f16_to_f32, hf_f32_to_f16, HF_F16},
    {"bf16", 7, 127, hf_bf16_to_f32, hf_f32_to_bf16, HF_BF16},
};

static uint16_t inf_of(const struct format *f) {
    return (uint16_t)(0x7fff & ~((1 << f->mantissa) - 1));
}

/* The value of the bits by the definition of IEEE 754. */
static double by_definition(const struct format *f, uint16_t h) {
    const int fraction = h & ((1 << f->mantissa) - 1);
    const int exponent = (h & 0x7fff) >> f->mantissa;
    const double sign = h & 0x8000 ? -1.0 : 1.0;
    if (exponent == 0)
        return sign * ldexp(fraction, 1 - f->bias - f->mantissa);
    return sign * ldexp(fraction + (1 << f->mantissa), exponent - f->bias - f->mantissa);
}

static void widening_is_exact(void **state) {
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        const struct format *f = &formats[t];
        for (uint32_t h = 0; h <= 0xffff; h++) {
            const float w = f->widen((uint16_t)h);
            const uint16_t rest = h & 0x7fff;
            assert_int_equal(signbit(w) != 0, h >> 15);
            if (rest > inf_of(f))
                assert_true(isnan(w));
            else if (rest == inf_of(f))
                assert_true(isinf(w));
            else
                assert_true((double)w == by_definition(f, (uint16_t)h));
            assert_true((double)w == hf_load_f64(&(uint16_t){(uint16_t)h}, f->dtype, 0) ||
                        isnan(w));
        }
    }
}

static void round_trip(void **state) {
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        const struct format *f = &formats[t];
        for (uint32_t h = 0; h <= 0xffff; h++) {
            const uint16_t back = f->narrow(f->widen((uint16_t)h));
            if ((h & 0x7fff) > inf_of(f)) {
                assert_true((back & 0x7fff) > inf_of(f));
                assert_int_equal(back >> 15, h >> 15);
            } else {
                assert_int_equal(back, h);
            }
        }
    }
}

/* Half way between h and h + 1 it goes to the even one, a float beside that to the nearer one.
 * Above the largest finite value, "h + 1" is what would follow if the exponent went on. */
static void rounds_to_nearest_even(void **state) {
    (void)state;
    for (size_t t = 0; t < 2; t++) {
        const struct format *f = &formats[t];
        for (uint16_t h = 0; h < inf_of(f); h++) {
            const double middle = (by_definition(f, h) + by_definition(f, (uint16_t)(h + 1))) / 2.0;
            const float m = (float)middle;
            const uint16_t even = (uint16_t)(h + (h & 1));
            assert_true((double)m == middle);
            for (int sign = 0; sign < 2; sign++) {
                const float s = sign ? -1.0f : 1.0f;
                const uint16_t bit = (uint16_t)(sign << 15);
                assert_int_equal(f->narrow(s * m), even | bit);
                assert_int_equal(f->narrow(s * nextafterf(m, 0.0f)), h | bit);
                assert_int_equal(f->narrow(s * nextafterf(m, INFINITY)), (h + 1) | bit);
                /* from float64 in one rounding: these two would become m in float32 first */
                assert_true(hf_round_to(s * middle, f->dtype) == (double)(s * f->widen(even)));
                assert_true(hf_round_to(s * nextafter(middle, 0.0), f->dtype) ==
                            (double)(s * f->widen(h)));
                assert_true(hf_round_to(s * nextafter(middle, INFINITY), f->dtype) ==
                            (double)(s * f->widen((uint16_t)(h + 1))));
            }
        }
        assert_int_equal(f->narrow(INFINITY), inf_of(f));
        assert_int_equal(f->narrow(-INFINITY), inf_of(f) | 0x8000);
        assert_true((f->narrow(NAN) & 0x7fff) > inf_of(f));
        assert_true(isnan(hf_round_to((double)NAN, f->dtype)));
        assert_true(hf_round_to(1e300, f->dtype) == (double)INFINITY);
        assert_true(hf_round_to(-1e-300, f->dtype) == 0.0);
    }
}

static void round_to_wide(void **state) {
    (void)state;
    assert_true(hf_round_to(0.1, HF_F32) == (double)0.1f);
    assert_true(hf_round_to(0.1, HF_F64) == 0.1);
    assert_true(hf_round_to(0.1, HF_U8) == 0.1);
}

static void every_type_to_f64(void **state) {
    (void)state;
    const float f32[] = {1.5f, -0.0f, 3e38f};
    const double f64[] = {0.1, -1e300, 5e-324};
    const uint16_t f16[] = {0x3c00, 0x0001, 0xfbff}, bf16[] = {0x3f80, 0x0001, 0xff7f};
    const uint8_t u8[] = {0, 128, 255};
    const int32_t i32[] = {INT32_MIN, 0, INT32_MAX};
    const int8_t i8[] = {-128, 0, 127};
    const struct {
        const void *data;
        hf_dtype dtype;
        double want[3];
    } rows[] = {
        {f32, HF_F32, {1.5, -0.0, (double)3e38f}},
        {f64, HF_F64, {0.1, -1e300, 5e-324}},
        {f16, HF_F16, {1.0, 0x1p-24, -65504.0}},
        {bf16, HF_BF16, {1.0, 0x1p-133, -0x1.fep127}},
        {u8, HF_U8, {0.0, 128.0, 255.0}},
        {i32, HF_I32, {-2147483648.0, 0.0, 2147483647.0}},
        {i8, HF_I8, {-128.0, 0.0, 127.0}},
    };
    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        double got[3];
        hf_to_f64(got, rows[r].data, rows[r].dtype, 3);
        assert_memory_equal(got, rows[r].want, sizeof got);
        for (int i = 0; i < 3; i++)
            assert_true(hf_load_f64(rows[r].data, rows[r].dtype, i) == rows[r].want[i]);
    }
}

static void names(void **state) {
    (void)state;
    static const char *const want[] = {"none", "f32", "f64", "f16", "bf16",
                                       "u8",   "i32", "i8",  "none"};
    static const size_t bytes[] = {0, 4, 8, 2, 2, 1, 4, 1, 0};
    for (int t = 0; t < 9; t++) {
        assert_string_equal(hf_dtype_name((hf_dtype)t), want[t]);
        assert_int_equal(hf_dtype_bytes((hf_dtype)t), bytes[t]);
    }
    for (int s = 0; s <= HF_E_BUSY + 1; s++)
        assert_true(strlen(hf_status_text((hf_status)s)) > 0);
    int major = -1, minor = -1, patch = -1;
    assert_int_equal(sscanf(hf_version(), "%d.%d.%d", &major, &minor, &patch), 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(widening_is_exact),      cmocka_unit_test(round_trip),
        cmocka_unit_test(rounds_to_nearest_even), cmocka_unit_test(round_to_wide),
        cmocka_unit_test(every_type_to_f64),      cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
