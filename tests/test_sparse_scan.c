/* SPDX-License-Identifier: Apache-2.0
 * A look at a sparse matrix: what is wrong is found wherever it is, sums have the bits that the
 * order says, and what is not symmetric does not look so. */
#include "ops/sparse_scan.h"
#include "unit.h"

#include <math.h>
#include <string.h>

#define ROWS 70
#define WIDTH 23 /* most elements of a row */
#define KEY UINT64_C(0xfedcba9876543210)

struct small {
    int64_t start[ROWS + 1];
    int32_t column[ROWS * WIDTH];
    double value[ROWS * WIDTH];
    float narrow[ROWS * WIDTH];
    struct hf_sparse a;
};

/* A symmetric matrix whose rows have 1 to 21 elements. */
static void make(struct small *m, hf_dtype dtype) {
    int64_t used = 0;
    for (int i = 0; i < ROWS; i++) {
        m->start[i] = used;
        for (int j = 0; j < ROWS; j++) {
            const int apart = i > j ? i - j : j - i;
            const bool there = i == j || (apart % 5 == 1 && apart < 50 && (i + j) % 3 != 0);
            if (!there)
                continue;
            m->column[used] = j;
            m->value[used] = i == j ? 3 + 0.1 * i : (float)(sin((double)(i * j)) * 0.3);
            used++;
        }
        assert_true(used - m->start[i] <= WIDTH);
    }
    m->start[ROWS] = used;
    for (int64_t e = 0; e < used; e++)
        m->narrow[e] = (float)m->value[e];
    m->a = (struct hf_sparse){.rows = ROWS,
                              .cols = ROWS,
                              .elements = used,
                              .row_start = m->start,
                              .column = m->column,
                              .dtype = dtype,
                              .value = dtype == HF_F32 ? (const void *)m->narrow : m->value};
}

static struct hf_sparse_scan look(const struct small *m, uint64_t key, double *inverse) {
    struct hf_sparse_scan found = hf_sparse_scan_rows(&m->a, 0, ROWS / 3, key, inverse);
    const struct hf_sparse_scan rest = hf_sparse_scan_rows(&m->a, ROWS / 3, ROWS, key, inverse);
    hf_sparse_scan_add(&found, &rest);
    return found;
}

static void sums_follow_the_order(void **state) {
    (void)state;
    static struct small m;
    double inverse[ROWS];
    for (hf_dtype dtype = HF_F32; dtype <= HF_F64; dtype++) {
        double most = 0;
        make(&m, dtype);
        const struct hf_sparse_scan found = look(&m, KEY, inverse);
        for (int64_t i = 0; i < ROWS; i++) {
            double lane[8] = {0}, diagonal = 0;
            for (int64_t e = m.start[i]; e < m.start[i + 1]; e++) {
                const double value = sparse_value(m.a.value, dtype, e);
                if (m.column[e] == i)
                    diagonal = value;
                else
                    lane[(e - m.start[i]) % 8] += fabs(value);
            }
            assert_true(inverse[i] == 1 / diagonal);
            most = fmax(most, hf_tree_fold(lane, 8) * fabs(1 / diagonal));
        }
        assert_true(found.dominance == most);
        assert_false(found.bad || found.unordered || found.negative);
        assert_int_equal(found.mirror, 0);
        assert_int_equal(look(&m, 0, inverse).mirror, 0);
    }
}

/* Each element in turn is something that it must not be. */
static void faults_are_found(void **state) {
    (void)state;
    static struct small m;
    double inverse[ROWS];
    make(&m, HF_F64);
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t e = m.start[i]; e < m.start[i + 1]; e++) {
            const double odd[] = {NAN, INFINITY, -INFINITY};
            const double value = m.value[e];
            const int32_t column = m.column[e];
            m.value[e] = odd[e % 3];
            assert_true(look(&m, 0, inverse).bad);
            m.value[e] = column == i ? 0 : value;
            assert_true(look(&m, 0, inverse).bad == (column == i));
            m.value[e] = column == i ? 1e-320 : value; /* 1 / x is infinite */
            assert_true(look(&m, 0, inverse).bad == (column == i));
            m.value[e] = -value;
            assert_true(look(&m, 0, inverse).negative == (column == i));
            m.value[e] = value;
            m.column[e] = e % 2 != 0 ? -1 : ROWS;
            assert_true(look(&m, 0, inverse).bad);
            m.column[e] = column;
            if (e > m.start[i]) {
                m.column[e] = m.column[e - 1];
                assert_true(look(&m, 0, inverse).unordered);
                m.column[e] = column;
            }
        }
    assert_false(look(&m, 0, inverse).bad);
}

/* Changes that a sum without a good mix would not see: swapped values, signs, places. */
static void symmetry_is_not_mistaken(void **state) {
    (void)state;
    static struct small m;
    double inverse[ROWS];
    make(&m, HF_F64);
    for (int64_t i = 0; i < ROWS; i++)
        for (int64_t e = m.start[i]; e < m.start[i + 1]; e++) {
            const double value = m.value[e];
            if (m.column[e] == i)
                continue;
            m.value[e] = -value;
            assert_true(look(&m, KEY, inverse).mirror != 0);
            m.value[e] = nextafter(value, 2);
            assert_true(look(&m, KEY, inverse).mirror != 0);
            m.value[e] = value;
            for (int64_t f = e + 1; f < m.start[i + 1];
                 f++) { /* two values of the row change places */
                if (m.column[f] == i || m.value[f] == value)
                    continue;
                m.value[e] = m.value[f];
                m.value[f] = value;
                assert_true(look(&m, KEY, inverse).mirror != 0);
                m.value[f] = m.value[e];
                m.value[e] = value;
            }
        }
    assert_int_equal(look(&m, KEY, inverse).mirror, 0);
}

static double *element(struct small *m, int i, int j) {
    for (int64_t e = m->start[i]; e < m->start[i + 1]; e++)
        if (m->column[e] == j)
            return &m->value[e];
    fail_msg("no element in row %d, column %d", i, j);
    return NULL;
}

/* What a place adds to the bits of its value. */
static uint64_t part_of_place(int i, int j, uint64_t key) {
    return (uint64_t)((uint32_t)i + (uint32_t)key) * ((uint32_t)j + (uint32_t)(key >> 32));
}

static void store_bits(double *value, uint64_t bits) {
    memcpy(value, &bits, sizeof bits);
    assert_true(isfinite(*value));
}

/* Two elements change places and are changed so that their numbers stay: whoever knows the key can
 * do that, and it helps with no other key. */
static void nobody_can_forge_it(void **state) {
    (void)state;
    static struct small m;
    double inverse[ROWS];
    make(&m, HF_F64);
    double *const low = element(&m, 3, 2), *const high = element(&m, 12, 1);
    uint64_t low_bits, high_bits;
    memcpy(&low_bits, low, sizeof low_bits);
    memcpy(&high_bits, high, sizeof high_bits);
    const uint64_t apart = part_of_place(2, 3, KEY) - part_of_place(1, 12, KEY);
    store_bits(low, high_bits - apart);
    store_bits(high, low_bits + apart);
    assert_int_equal(look(&m, KEY, inverse).mirror, 0);
    for (uint64_t key = 1; key <= 1000; key++)
        assert_true(look(&m, key * UINT64_C(0x9e3779b97f4a7c15), inverse).mirror != 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_follow_the_order),
        cmocka_unit_test(faults_are_found),
        cmocka_unit_test(symmetry_is_not_mistaken),
        cmocka_unit_test(nobody_can_forge_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
