/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/mem.h"
#include "base/rng.h"

#include <math.h>
#include <string.h>

/* Vectors of philox4x32-10 that its authors publish with Random123 (kat_vectors): the first two
 * words. */
static void known_answers(void **state) {
    (void)state;
    assert_int_equal(hf_rng_bits(0, 0, 0), 0xe169c58d6627e8d5u);
    assert_int_equal(hf_rng_bits(UINT64_MAX, UINT64_MAX, UINT64_MAX), 0x41c83b0e408f276du);
    assert_int_equal(hf_rng_bits(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u),
                     0x94fdccebd16cfe09u);
}

/* Chi-squared of `bins` counts that should be equal; its mean is bins - 1, its deviation sqrt(2
 * bins). */
static double chi_squared(const int *count, int bins, int total) {
    const double expect = (double)total / bins;
    double sum = 0.0;
    for (int i = 0; i < bins; i++)
        sum += (count[i] - expect) * (count[i] - expect) / expect;
    return sum;
}

/* Six deviations: a fair generator fails once in 10^8 seeds, and these seeds are fixed. */
static void assert_even(const int *count, int bins, int total) {
    const double limit = bins - 1 + 6.0 * sqrt(2.0 * bins);
    if (chi_squared(count, bins, total) > limit)
        fail_msg("chi-squared %g over %d bins, at most %g", chi_squared(count, bins, total), bins,
                 limit);
}

static void below_has_no_bias(void **state) {
    (void)state;
    /* For n = 3 * 2^62 a quarter of all draws must be rejected, or residues mod 3 come as 2:1:1. */
    const uint64_t n = (uint64_t)3 << 62;
    int residue[3] = {0}, small[7] = {0};
    for (uint64_t i = 0; i < 30000; i++) {
        const uint64_t v = hf_rng_below(7, 1, i, n);
        assert_true(v < n);
        residue[v % 3]++;
        small[hf_rng_below(7, 2, i, 7)]++;
        assert_int_equal(hf_rng_below(7, 3, i, 1), 0);
    }
    assert_even(residue, 3, 30000);
    assert_even(small, 7, 30000);
}

static void unit_is_uniform(void **state) {
    (void)state;
    int bin[64] = {0};
    for (uint64_t i = 0; i < 64000; i++) {
        const double u = hf_rng_unit(3, 9, i);
        assert_true(u >= 0.0 && u < 1.0);
        assert_true(ldexp(u, 53) == floor(ldexp(u, 53)));
        bin[(int)(u * 64)]++;
    }
    assert_even(bin, 64, 64000);
}

static void permute_is_a_bijection(void **state) {
    (void)state;
    for (uint64_t n = 1; n <= 300; n++) {
        for (uint64_t seed = 0; seed < 3; seed++) {
            unsigned char seen[300] = {0};
            for (uint64_t i = 0; i < n; i++) {
                const uint64_t v = hf_rng_permute(seed, 5, n, i);
                uint64_t some[21];
                const int64_t left = (int64_t)(n - i), count = left < 21 ? left : 21;
                hf_rng_permute_some(seed, 5, n, i, count, some);
                assert_true(some[0] == v);
                assert_true(some[count - 1] == hf_rng_permute(seed, 5, n, i + (uint64_t)count - 1));
                assert_true(v < n && !seen[v]);
                seen[v] = 1;
            }
        }
    }
}

static int compare_u64(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void permute_large(void **state) {
    (void)state;
    enum { PICKS = 20000 };
    static const uint64_t sizes[] = {(uint64_t)1 << 40, ((uint64_t)1 << 40) + 1, UINT64_MAX};
    uint64_t *v = hf_alloc(PICKS * sizeof *v);
    assert_non_null(v);
    for (int s = 0; s < 3; s++) {
        int bin[16] = {0};
        for (uint64_t i = 0; i < PICKS; i++) {
            v[i] = hf_rng_permute(11, 2, sizes[s], i);
            assert_true(v[i] < sizes[s]);
            bin[v[i] / (sizes[s] / 16 + 1)]++;
        }
        assert_even(bin, 16, PICKS);
        qsort(v, PICKS, sizeof *v, compare_u64);
        for (int i = 1; i < PICKS; i++)
            assert_true(v[i - 1] != v[i]);
    }
    hf_free(v);
}

/* Over many seeds every element goes everywhere equally often, also where n is tiny. */
static void permute_is_fair(void **state) {
    (void)state;
    for (uint64_t n = 2; n <= 9; n++) {
        for (uint64_t i = 0; i < n; i++) {
            int at[9] = {0};
            for (uint64_t seed = 0; seed < 9000; seed++)
                at[hf_rng_permute(seed, 0, n, i)]++;
            assert_even(at, (int)n, 9000);
        }
    }
}

static void sequence(void **state) {
    (void)state;
    struct hf_rng a = {5, 6, 0};
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(hf_rng_next(&a), hf_rng_bits(5, 6, i));
    double sum = 0.0, square = 0.0;
    const int n = 100000;
    for (int i = 0; i < n; i++) {
        const double z = hf_rng_next_normal(&a);
        assert_true(isfinite(z));
        sum += z;
        square += z * z;
    }
    /* mean 0 with deviation 1/sqrt(n), mean square 1 with deviation sqrt(2/n); six of them */
    assert_true(fabs(sum / n) < 6.0 / sqrt(n));
    assert_true(fabs(square / n - 1.0) < 6.0 * sqrt(2.0 / n));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_answers),   cmocka_unit_test(below_has_no_bias),
        cmocka_unit_test(unit_is_uniform), cmocka_unit_test(permute_is_a_bijection),
        cmocka_unit_test(permute_large),   cmocka_unit_test(permute_is_fair),
        cmocka_unit_test(sequence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
