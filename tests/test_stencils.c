/* SPDX-License-Identifier: Apache-2.0
 * Rows that are stencils: a matrix and its stencils hold the same elements, and a matrix of which
 * all rows are different has none. */
#include "ops/sparse.h"
#include "relax_matrices.h"

static double *inverse_of(const hf_csr *a) {
    double *inverse = malloc((size_t)a->rows * sizeof *inverse);
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++)
            if (a->column[e] == i)
                inverse[i] = 1 / ((const double *)a->value)[e];
    return inverse;
}

static struct hf_sparse sparse_of(const hf_csr *a) {
    return (struct hf_sparse){.rows = a->rows,
                              .cols = a->cols,
                              .elements = a->row_start[a->rows],
                              .row_start = a->row_start,
                              .column = a->column,
                              .dtype = a->dtype,
                              .value = a->value};
}

static void assert_same_row(const hf_csr *a, const double *inverse, const struct hf_stencils *s,
                            int64_t i) {
    const int number = s->of_row[i];
    const int64_t first = a->row_start[i];
    assert_true(number < s->count);
    assert_int_equal(s->start[number + 1] - s->start[number], a->row_start[i + 1] - first);
    for (int32_t t = s->start[number]; t < s->start[number + 1]; t++) {
        const int64_t e = first + t - s->start[number];
        const bool apart = s->diagonal != NULL && s->offset[t] == 0;
        const double value = ((const double *)a->value)[e];
        assert_int_equal(a->column[e], i + s->offset[t]);
        assert_true(value == (apart ? s->diagonal[i] : s->value[t]));
    }
    assert_true(s->inverse == NULL || s->inverse[number] == inverse[i]);
    assert_true((s->inverse == NULL) == (s->diagonal != NULL));
}

/* Stencils of rows [first, last), or none if `none`. */
static void check(const struct matrix *m, int64_t first, int64_t last, bool none) {
    const struct hf_sparse a = sparse_of(&m->a);
    double *inverse = inverse_of(&m->a);
    struct hf_stencils s;
    assert_int_equal(hf_stencils_make(&a, inverse, first, last, &s), HF_OK);
    assert_int_equal(s.count == 0, none);
    for (int64_t i = first; i < last && !none; i++)
        assert_same_row(&m->a, inverse, &s, i);
    hf_stencils_clear(&s);
    assert_null(s.of_row);
    free(inverse);
}

static void grids_have_stencils(void **state) {
    (void)state;
    struct matrix m;
    make_fv(&m, 50, 3.510152);
    check(&m, 0, m.a.rows, false);
    check(&m, 700, 1900, false);
    matrix_free(&m);
}

static void a_diagonal_may_differ(void **state) {
    (void)state;
    struct matrix m;
    make_trefethen(&m, 2000);
    check(&m, 0, m.a.rows, false);
    matrix_free(&m);
}

static void different_rows_have_none(void **state) {
    (void)state;
    struct matrix m;
    make_fv(&m, 50, 3.510152);
    for (int64_t e = 0; e < m.used; e++)
        m.value[e] *= 1 + 1e-6 * (double)e;
    check(&m, 0, m.a.rows, true);
    matrix_free(&m);
    make_fv(&m, 4, 3.510152); /* too few rows to gain by it */
    check(&m, 0, m.a.rows, true);
    matrix_free(&m);
}

/* A number that differs in its last bit is another stencil. */
static void bits_count(void **state) {
    (void)state;
    struct matrix m;
    make_fv(&m, 50, 3.510152);
    const struct hf_sparse a = sparse_of(&m.a);
    double *inverse = inverse_of(&m.a);
    struct hf_stencils before, after;
    assert_int_equal(hf_stencils_make(&a, inverse, 0, a.rows, &before), HF_OK);
    const int64_t e = m.a.row_start[1234];
    m.value[e] = nextafter(m.value[e], 1);
    assert_int_equal(hf_stencils_make(&a, inverse, 0, a.rows, &after), HF_OK);
    assert_int_equal(after.count, before.count + 1);
    hf_stencils_clear(&before);
    hf_stencils_clear(&after);
    check(&m, 0, m.a.rows, false);
    free(inverse);
    matrix_free(&m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(grids_have_stencils),
        cmocka_unit_test(a_diagonal_may_differ),
        cmocka_unit_test(different_rows_have_none),
        cmocka_unit_test(bits_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
