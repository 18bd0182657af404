/* SPDX-License-Identifier: Apache-2.0
 * Sparse matrices: Matrix Market in all its fields, symmetries and layouts, .npz of SciPy, and what
 * is said of damage. */
#include "test_io.h"

#include <zlib.h>

#define REAL "%%MatrixMarket matrix coordinate real general\n"

static hf_sparse *open_sparse(const char *path) {
    hf_sparse *m = NULL;
    const hf_status status = hf_sparse_open(ctx, path, 0, &m);
    if (status != HF_OK)
        fail_msg("%s: %s", hf_status_text(status), hf_last_error(ctx));
    assert_non_null(m);
    return m;
}

/* The file must hold this dense matrix, and nothing where it is 0. */
static void expect_matrix(const char *path, int64_t rows, int64_t cols, const double *dense) {
    hf_sparse *m = open_sparse(path);
    const hf_csr *a = hf_sparse_csr(m);
    double x[64];
    assert_int_equal(a->rows, rows);
    assert_int_equal(a->cols, cols);
    assert_int_equal(a->dtype, HF_F64);
    const hf_array out = hf_array_view(x, HF_F64, rows, cols);
    assert_int_equal(hf_sparse_dense(m, &out), HF_OK);
    for (int64_t i = 0; i < rows * cols; i++)
        if (x[i] != dense[i])
            fail_msg("element %d is %.17g, not %.17g", (int)i, x[i], dense[i]);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t e = a->row_start[i] + 1; e < a->row_start[i + 1]; e++)
            assert_true(a->column[e - 1] < a->column[e]);
    assert_int_equal(a->row_start[rows], hf_sparse_about(m)->elements);
    hf_sparse_close(m);
}

static void expect_text(const char *text, int64_t rows, int64_t cols, const double *dense) {
    expect_matrix(make_text("a.mtx", text), rows, cols, dense);
}

static void expect_refused(const char *text, hf_status status, const char *words) {
    const char *path = make_text("bad.mtx", text);
    hf_sparse *m = (hf_sparse *)ctx;
    const hf_status got = hf_sparse_open(ctx, path, 0, &m);
    if (got != status)
        fail_msg("got %s (%s) of %s", hf_status_text(got), got ? hf_last_error(ctx) : "", text);
    assert_null(m);
    assert_non_null(strstr(hf_last_error(ctx), "bad.mtx: "));
    if (strstr(hf_last_error(ctx), words) == NULL)
        fail_msg("no \"%s\" in: %s", words, hf_last_error(ctx));
}

static void fields(void **state) {
    (void)state;
    const double a[] = {1.5, 0, -2e3, 0.5};
    expect_text(REAL "2 2 3\n1 1 1.5\n2 1 -2e3\n2 2 .5\n", 2, 2, a);
    expect_text("%%matrixmarket MATRIX Coordinate Double GENERAL\n2 2 3\n2 2 5e-1\n2 1 -2000\n"
                "1 1 +1.5\n",
                2, 2, a);
    const double whole[] = {7, 0, -9007199254740991, 0};
    expect_text("%%MatrixMarket matrix coordinate integer general\n2 2 2\n1 1 7\n"
                "2 1 -9007199254740991\n",
                2, 2, whole);
    const double ones[] = {0, 1, 1, 0, 0, 0};
    expect_text("%%MatrixMarket matrix coordinate pattern general\n2 3 2\n1 2\n2 1\n", 2, 3,
                (const double[]){0, 1, 0, 1, 0, 0});
    expect_text("%%MatrixMarket matrix coordinate pattern general\n3 2 2\n1 2\n2 1\n", 3, 2, ones);
}

static void symmetries(void **state) {
    (void)state;
    const double same[] = {4, -1, 0, -1, 4, 2, 0, 2, 5};
    const char *words[] = {"symmetric", "hermitian"};
    for (int i = 0; i < 2; i++) {
        char text[200];
        (void)snprintf(text, sizeof text,
                       "%%%%MatrixMarket matrix coordinate real %s\n3 3 5\n1 1 4\n2 1 -1\n2 2 4\n"
                       "3 2 2\n3 3 5\n",
                       words[i]);
        expect_text(text, 3, 3, same);
    }
    expect_text("%%MatrixMarket matrix coordinate real symmetric\n3 3 5\n1 1 4\n1 2 -1\n2 2 4\n"
                "2 3 2\n3 3 5\n",
                3, 3, same);
    const double skew[] = {0, 1, -2, 0};
    expect_text("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 2\n2 1 3\n2 2 0\n", 2, 2,
                (const double[]){0, -3, 3, 0});
    expect_text("%%MatrixMarket matrix coordinate real general\n2 2 2\n1 2 1\n2 1 -2\n", 2, 2,
                skew);
    hf_sparse *m = open_sparse(make_text(
        "a.mtx", "%%MatrixMarket matrix coordinate pattern symmetric\n3 3 2\n2 1\n3 3\n"));
    const hf_sparse_info *about = hf_sparse_about(m);
    assert_string_equal(about->format, "mtx");
    assert_string_equal(about->layout, "coordinate");
    assert_string_equal(about->field, "pattern");
    assert_string_equal(about->symmetry, "symmetric");
    assert_int_equal(about->file_elements, 2);
    assert_int_equal(about->elements, 3);
    hf_sparse_close(m);
}

static void arrays(void **state) {
    (void)state;
    expect_text("%%MatrixMarket matrix array real general\n3 2\n1\n2\n0\n4\n5\n6\n", 3, 2,
                (const double[]){1, 4, 2, 5, 0, 6});
    expect_text("%%MatrixMarket matrix array real symmetric\n3 3\n1\n2\n3\n4\n5\n6\n", 3, 3,
                (const double[]){1, 2, 3, 2, 4, 5, 3, 5, 6});
    expect_text("%%MatrixMarket matrix array integer skew-symmetric\n3 3\n1\n2\n3\n", 3, 3,
                (const double[]){0, -1, -2, 1, 0, -3, 2, 3, 0});
    expect_text("%%MatrixMarket matrix array real general\n4 1\n\n1\n% no number\n0\n0\n-1\n\n", 4,
                1, (const double[]){1, 0, 0, -1});
}

static void ugly_but_fine(void **state) {
    (void)state;
    const double a[] = {1, 2};
    expect_text("%%MatrixMarket matrix coordinate real general\r\n%a\r\n\r\n 1 2 2 \r\n\r\n"
                "\t1  1\t1\r\n%b\r\n1 2 2  \r\n\r\n",
                1, 2, a);
    expect_text("\xef\xbb\xbf" REAL "%\n1 2 2\n1 1 1\n1 2 2", 1, 2,
                a); /* no end of the last line */
    expect_text(REAL "2 2 0\n", 2, 2, (const double[]){0, 0, 0, 0});
    expect_text(REAL "1 2 5\n1 2 1\n1 1 0.25\n1 2 1\n1 1 0.5\n1 1 0.25\n", 1, 2, a);
    hf_sparse *m = open_sparse(in_folder("a.mtx"));
    assert_int_equal(hf_sparse_about(m)->duplicates, 3);
    assert_int_equal(hf_sparse_about(m)->file_elements, 5);
    hf_sparse_close(m);
    m = open_sparse(make_text("z.mtx", REAL "1 3 2\n1 3 0\n1 1 0\n"));
    assert_int_equal(hf_sparse_about(m)->elements, 2); /* zeros that are stored stay */
    hf_sparse_close(m);
}

static void damage(void **state) {
    (void)state;
    expect_refused("1 2 3\n", HF_E_DATA, "does not begin with %%MatrixMarket");
    expect_refused("%%MatrixMarket matrix coordinate real\n", HF_E_DATA, "less than five words");
    expect_refused("%%MatrixMarket vector coordinate real general\n", HF_E_DATA, "'vector'");
    expect_refused("%%MatrixMarket matrix sparse real general\n", HF_E_DATA, "'sparse'");
    expect_refused("%%MatrixMarket matrix array pattern general\n", HF_E_DATA, "line 1");
    expect_refused("%%MatrixMarket matrix coordinate complex general\n", HF_E_DATA, "complex");
    expect_refused("%%MatrixMarket matrix coordinate pattern skew-symmetric\n", HF_E_DATA, "sign");
    expect_refused("%%MatrixMarket matrix coordinate real odd\n", HF_E_DATA, "'odd'");
    expect_refused(REAL "%\n\n", HF_E_DATA, "ends at line 3, before the line of sizes");
    expect_refused(REAL "2 2\n", HF_E_DATA, "line 2");
    expect_refused(REAL "2 2 3 4\n", HF_E_DATA, "line 2");
    expect_refused(REAL "2 x 3\n", HF_E_DATA, "'x' is not a whole number");
    expect_refused(REAL "-2 2 3\n", HF_E_DATA, "'-2' is not a whole number");
    expect_refused(REAL "0 2 0\n", HF_E_DATA, "0 x 2");
    expect_refused(REAL "2147483647 2 1\n", HF_E_DATA, "rows are more");
    expect_refused(REAL "2 99999999999999999999 1\n", HF_E_DATA, "columns are more");
    expect_refused(REAL "2 2 99999999999999999999\n", HF_E_DATA, "elements are more");
    expect_refused(REAL "2 2 99999999999999\n1 1 1\n", HF_E_DATA, "more than");
    expect_refused("%%MatrixMarket matrix coordinate real symmetric\n2 3 1\n", HF_E_DATA, "2 x 3");
    expect_refused("%%MatrixMarket matrix array real general\n2147483646 2147483646\n", HF_E_DATA,
                   "promises");
}

static void damaged_lines(void **state) {
    (void)state;
    expect_refused(REAL "2 2 2\n1 1 1\n", HF_E_DATA, "after 1 elements");
    expect_refused(REAL "2 2 1\n%\n1 1 1\n\n2 2 1\n", HF_E_DATA,
                   "line 6: this element is one more");
    expect_refused(REAL "2 2 1\n1 1\n", HF_E_DATA, "line 3: '1 1' has less numbers");
    expect_refused(REAL "2 2 1\n1 1 1 1\n", HF_E_DATA, "line 3: '1 1 1 1' has more numbers");
    expect_refused("%%MatrixMarket matrix coordinate pattern general\n2 2 1\n1 1 1\n", HF_E_DATA,
                   "ROW COLUMN:");
    expect_refused("%%MatrixMarket matrix array real general\n2 1\n1 2\n", HF_E_DATA, "one value");
    expect_refused(REAL "2 2 2\n1 1 1\n0 1 1\n", HF_E_DATA,
                   "line 4: '0 1 1': indices begin with 1");
    expect_refused(REAL "2 3 1\n3 1 1\n", HF_E_DATA,
                   "line 3: '3 1 1': the row is beyond the last, 2");
    expect_refused(REAL "2 3 1\n1 4 1\n", HF_E_DATA, "the column is beyond the last, 3");
    expect_refused(REAL "2 2 1\n1 99999999999999999999 1\n", HF_E_DATA, "the column is beyond");
    expect_refused(REAL "2 2 1\n1.0 1 1\n", HF_E_DATA, "whole numbers");
    expect_refused(REAL "2 2 1\n-1 1 1\n", HF_E_DATA, "whole numbers");
    expect_refused(REAL "2 2 1\n1 1 1,5\n", HF_E_DATA, "is not a number");
    expect_refused(REAL "2 2 1\n1 1 0x10\n", HF_E_DATA, "is not a number");
    expect_refused(REAL "2 2 1\n1 1 nan\n", HF_E_DATA, "NaN or infinite");
    expect_refused(REAL "2 2 1\n1 1 1e999\n", HF_E_DATA, "NaN or infinite");
    expect_refused("%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 1.5\n", HF_E_DATA,
                   "not whole");
    expect_refused(
        "%%MatrixMarket matrix coordinate integer general\n1 1 1\n1 1 9007199254740993\n",
        HF_E_DATA, "2^53");
    expect_refused("%%MatrixMarket matrix coordinate real skew-symmetric\n2 2 1\n2 2 1\n",
                   HF_E_DATA, "line 3: '2 2 1': the diagonal");
    expect_refused("%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n2 1 1\n1 2 1\n",
                   HF_E_DATA, "line 4: an element above the diagonal");
    expect_refused("%%MatrixMarket matrix coordinate real symmetric\n2 2 2\n1 2 1\n2 1 1\n",
                   HF_E_DATA, "line 3: an element above the diagonal");
}

/* n x n, elements in an order that is sorted in no way; compressed or not. */
static const char *make_large(const char *name, int n, bool gz) {
    const char *path = in_folder(name);
    gzFile f = gzopen(path, gz ? "wb1" : "wbT");
    assert_non_null(f);
    gzprintf(f, "%s%d %d %d\n", REAL, n, n, 5 * n);
    for (int i = 0; i < 5 * n; i++) {
        const int e = (int)((int64_t)i * 7919 % (5 * n));
        const int row = e / 5;
        gzprintf(f, "%d %d %d.5\n", row + 1, (int)(((int64_t)row * 31 + e % 5 * 97) % n) + 1, e);
    }
    assert_int_equal(gzclose(f), Z_OK);
    return path;
}

static void large(void **state) {
    (void)state;
    enum { N = 60000 };
    const hf_context_opts three = {.device = "cpu", .threads = 3, .memory_bytes = 64u << 20};
    hf_context *other = NULL;
    assert_int_equal(hf_context_create(&other, &three), HF_OK);
    const char *plain = make_large("large.mtx", N, false);
    const char *gz = make_large("large.mtx.gz", N, true);
    hf_sparse *m[3] = {open_sparse(plain), open_sparse(gz), NULL};
    assert_int_equal(hf_sparse_open(other, plain, 0, &m[2]), HF_OK);
    const hf_csr *a = hf_sparse_csr(m[0]);
    assert_int_equal(a->row_start[N], 5 * N);
    for (int64_t i = 0; i < N; i++) {
        double sum = 0;
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++)
            sum += ((const double *)a->value)[e];
        assert_true(sum == 25 * (double)i + 10 + 2.5);
    }
    for (int i = 1; i < 3; i++) {
        const hf_csr *b = hf_sparse_csr(m[i]);
        assert_memory_equal(a->row_start, b->row_start, (N + 1) * sizeof(int64_t));
        assert_memory_equal(a->column, b->column, 5 * N * sizeof(int32_t));
        assert_memory_equal(a->value, b->value, 5 * N * sizeof(double));
    }
    hf_sparse *none = NULL;
    assert_int_equal(hf_sparse_open(ctx, plain, 8 << 20, &none), HF_E_NOMEM);
    assert_non_null(strstr(hf_last_error(ctx), "raise memory_bytes"));
    for (int i = 0; i < 3; i++)
        hf_sparse_close(m[i]);
    hf_context_destroy(other);
}

/* The number of a bad line far behind the first block, with several threads. */
static void far_line(void **state) {
    (void)state;
    const hf_context_opts three = {.device = "cpu", .threads = 3, .memory_bytes = 128u << 20};
    hf_context *other = NULL;
    assert_int_equal(hf_context_create(&other, &three), HF_OK);
    const char *path = in_folder("far.mtx");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s%% one\n9 9 2000000\n", REAL);
    for (int i = 0; i < 2000000; i++)
        fprintf(f, "%s", i == 1500000 ? "1 x 1\n" : i % 10 == 0 ? "\n1 1 1\n" : "1 2 3\n");
    assert_int_equal(fclose(f), 0);
    hf_sparse *m = NULL;
    assert_int_equal(hf_sparse_open(other, path, 0, &m), HF_E_DATA);
    /* 3 lines of head, 1,500,000 elements before it, 150,000 blank ones. */
    if (strstr(hf_last_error(other), "line 1650004: '1 x 1'") == NULL)
        fail_msg("%s", hf_last_error(other));
    hf_context_destroy(other);
}

/* A row that needs the heap. */
static void long_row(void **state) {
    (void)state;
    enum { N = 1000 };
    const char *path = in_folder("row.mtx");
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s1 %d %d\n", REAL, N, 2 * N);
    for (int i = 0; i < 2 * N; i++)
        fprintf(f, "1 %d %d\n", i * 37 % N + 1, i < N ? i * 37 % N : 1);
    assert_int_equal(fclose(f), 0);
    hf_sparse *m = open_sparse(path);
    const hf_csr *a = hf_sparse_csr(m);
    assert_int_equal(a->row_start[1], N);
    assert_int_equal(hf_sparse_about(m)->duplicates, N);
    for (int i = 0; i < N; i++)
        assert_true(a->column[i] == i && ((const double *)a->value)[i] == i + 1);
    hf_sparse_close(m);
}

static void archives(void **state) {
    (void)state;
    const double a[] = {1, 0, 2, 0, 0, 0, 0, -3, 4.5, 5, 0, 6};
    const char *names[] = {"csr", "csc", "coo"};
    for (int i = 0; i < 3; i++) {
        char path[600];
        (void)snprintf(path, sizeof path, "%s/io/scipy_%s.npz", HF_TEST_DATA, names[i]);
        expect_matrix(path, 3, 4, a);
        hf_sparse *m = open_sparse(path);
        assert_string_equal(hf_sparse_about(m)->layout, names[i]);
        assert_string_equal(hf_sparse_about(m)->format, "npz");
        hf_sparse_close(m);
    }
    hf_sparse *m = NULL;
    assert_int_equal(hf_sparse_open(ctx, HF_TEST_DATA "/io/scipy_bsr.npz", 0, &m), HF_E_DATA);
    assert_non_null(strstr(hf_last_error(ctx), "tocsr"));
    assert_int_equal(hf_sparse_open(ctx, HF_TEST_DATA "/io/numpy_savez.npz", 0, &m), HF_E_DATA);
    assert_non_null(strstr(hf_last_error(ctx), "save_npz"));
    assert_int_equal(hf_sparse_open(ctx, HF_TEST_DATA "/io/numpy_f8.npy", 0, &m), HF_E_DATA);
    assert_non_null(strstr(hf_last_error(ctx), "dense array"));
}

static void arguments(void **state) {
    (void)state;
    hf_sparse *m = NULL;
    assert_int_equal(hf_sparse_open(NULL, "a", 0, &m), HF_E_ARG);
    assert_int_equal(hf_sparse_open(ctx, "", 0, &m), HF_E_ARG);
    assert_int_equal(hf_sparse_open(ctx, NULL, 0, &m), HF_E_ARG);
    assert_int_equal(hf_sparse_open(ctx, "a", 0, NULL), HF_E_ARG);
    assert_int_equal(hf_sparse_open(ctx, in_folder("missing.mtx"), 0, &m), HF_E_IO);
    assert_null(hf_sparse_csr(NULL));
    assert_null(hf_sparse_about(NULL));
    hf_sparse_close(NULL);
    m = open_sparse(make_text("a.mtx", REAL "1 2 0\n"));
    double x[4];
    const hf_array wrong = hf_array_view(x, HF_F64, 2, 1);
    const hf_array type = hf_array_view(x, HF_F32, 1, 2);
    assert_int_equal(hf_sparse_dense(m, &wrong), HF_E_ARG);
    assert_int_equal(hf_sparse_dense(m, &type), HF_E_ARG);
    assert_int_equal(hf_sparse_dense(NULL, &wrong), HF_E_ARG);
    hf_sparse_close(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields),    cmocka_unit_test(symmetries),    cmocka_unit_test(arrays),
        cmocka_unit_test(damage),    cmocka_unit_test(damaged_lines), cmocka_unit_test(large),
        cmocka_unit_test(far_line),  cmocka_unit_test(long_row),      cmocka_unit_test(archives),
        cmocka_unit_test(arguments), cmocka_unit_test(ugly_but_fine),
    };
    return cmocka_run_group_tests(tests, io_setup, io_teardown);
}
