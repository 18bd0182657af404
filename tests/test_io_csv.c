/* SPDX-License-Identifier: Apache-2.0
 * Text tables. */
#include "test_io.h"

#include "base/rng.h"

#include <locale.h>
#include <math.h>
#include <zlib.h>

/* text must become rows x cols with these values. */
static void expect_table(const char *text, int64_t rows, int64_t cols, const double *values) {
    hf_dataset *d = open_loaded(make_text("t.csv", text));
    const hf_array *a = hf_dataset_array(d);
    assert_string_equal(hf_dataset_format(d), "csv");
    if (a->rows != rows || a->cols != cols)
        fail_msg("[%lld, %lld] of: %s", (long long)a->rows, (long long)a->cols, text);
    assert_int_equal(a->dtype, HF_F32);
    for (int64_t e = 0; e < rows * cols; e++)
        if (((float *)a->data)[e] != (float)values[e])
            fail_msg("element %lld is %g in: %s", (long long)e, at(a, 0, e), text);
    hf_dataset_close(d);
}

static void test_forms(void **state) {
    (void)state;
    const double six[6] = {1, 2, 3, 4, 5, 6};
    static const char *const texts[] = {
        "1,2,3\n4,5,6\n",
        "1,2,3\n4,5,6",
        "1,2,3\r\n4,5,6\r\n",
        "1,2,3\r4,5,6\r",
        "1,2,3\r4,5,6",
        "# c\ra,b,c\r\r1,2,3\n4,5,6\r\n\r",
        "1;2;3\n4;5;6\n",
        "1\t2\t3\n4\t5\t6\n",
        "1 2 3\n4 5 6\n",
        "  1   2 3  \n4 \t 5 6\n",
        "a,b,c\n1,2,3\n4,5,6\n",
        "\"a,1\",\"b\",c\n1,2,3\n4,5,6\n",
        ",x,y\n1,2,3\n4,5,6\n",
        "# made by hand\n\n1,2,3\n  # in between\n\n4,5,6\n\n",
        "#a,b\na,b,c\n1,2,3\n4,5,6\n",
        " 1 , 2 ,3\n\t4,5 , 6 \n",
        "\"1\",\"2\",\"3\"\n\"4\", \"5\" ,6\n",
        "\xef\xbb\xbf"
        "1,2,3\n4,5,6\n",
        "\xef\xbb\xbf"
        "a,b,c\n1,2,3\n4,5,6\n",
        "1.0,+2,3.\n.4e1,500E-2,0.06e+2\n",
        "\"1\" \"2\" 3\n4 5 6\n",
        "\xc3\xa9t\xc3\xa9;b;c\n1;2;3\n4;5;6\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        expect_table(texts[i], 2, 3, six);
    expect_table("1\n2\n3\n", 3, 1, six);
    expect_table("x\n1\n2\n3\n", 3, 1, six);
    expect_table("1", 1, 1, six);
}

static void test_special_values(void **state) {
    (void)state;
    hf_dataset *d = open_loaded(make_text("s.csv", "nan,NaN,-nan\ninf,-Infinity,+INF\n"));
    const hf_array *a = hf_dataset_array(d);
    for (int j = 0; j < 3; j++)
        assert_true(isnan(at(a, 0, j)));
    assert_true(at(a, 1, 0) == HUGE_VAL && at(a, 1, 1) == -HUGE_VAL && at(a, 1, 2) == HUGE_VAL);
    hf_dataset_close(d);
    const hf_open_opts wide = {.float64 = 1};
    d = open_opts(make_text("w.csv", "-0,1e-400,4.9e-324,1e300,0.1\n"), &wide);
    a = hf_dataset_array(d);
    assert_int_equal(a->dtype, HF_F64);
    assert_true(at(a, 0, 0) == 0 && signbit(at(a, 0, 0)));
    assert_true(at(a, 0, 1) == 0 && at(a, 0, 2) == 4.9e-324 && at(a, 0, 3) == 1e300);
    assert_true(at(a, 0, 4) == 0.1);
    hf_dataset_close(d);
}

/* text must become rows x 2 of float64 with these values, plain and compressed. */
static void expect_wide(const char *text, int64_t rows, const double *values) {
    gzFile gz = gzopen(in_folder("w.csv.gz"), "wb1");
    assert_non_null(gz);
    assert_int_equal(gzputs(gz, text), strlen(text));
    assert_int_equal(gzclose(gz), Z_OK);
    const char *const paths[] = {make_text("w.csv", text), in_folder("w.csv.gz")};
    for (int p = 0; p < 2; p++) {
        hf_dataset *d = open_loaded(paths[p]);
        const hf_array *a = hf_dataset_array(d);
        assert_int_equal(a->dtype, HF_F64);
        assert_true(a->rows == rows && a->cols == 2);
        assert_memory_equal(a->data, values, (size_t)rows * 2 * sizeof *values);
        hf_dataset_close(d);
    }
}

/* Numbers that float32 would make equal; what came before them is not rounded either. */
static void test_wide(void **state) {
    (void)state;
    const double narrow[6] = {16777216, -16777216, 33554432, 0.1, 1e10, 16777215};
    expect_table("16777216,-16777216,33554432\n0.1,1e10,16777215\n", 2, 3, narrow);
    expect_wide("0.1,2\n0.3,16777217\n", 2, (const double[]){0.1, 2, 0.3, 16777217});
    expect_wide("a,b\r\n-16777217,1\r\n", 1, (const double[]){-16777217, 1});
    expect_wide("1700000000.5,1700000001", 1, (const double[]){1700000000.5, 1700000001});
    expect_wide("nan,1e39\n", 1, (const double[]){NAN, 1e39});
    expect_wide("3.402823567797336e38,-1e150", 1, (const double[]){3.402823567797336e38, -1e150});
    /* Far beyond the first bytes of the file and its first block. */
    enum { ROWS = 30000 };
    char *text = malloc(ROWS * 32);
    double *values = malloc(ROWS * 2 * sizeof *values);
    assert_true(text != NULL && values != NULL);
    size_t used = 0;
    for (int i = 0; i < ROWS; i++) {
        values[2 * i] = (10 * i + 1) / 10.0;
        values[2 * i + 1] = i < ROWS - 5 ? i : 1700000000 + i;
        used += (size_t)sprintf(text + used, "%d.1,%.0f\n", i, values[2 * i + 1]);
    }
    expect_wide(text, ROWS, values);
    const hf_open_opts small = {.memory_bytes = ROWS * 16 - 1};
    expect_error(in_folder("w.csv"), &small, HF_E_NOMEM, "line 30000|479999 are allowed");
    (void)strcpy(text + used, "1,x\n");
    expect_error(make_text("w.csv", text), NULL, HF_E_DATA, "line 30001, column 2: 'x'");
    free(values);
    free(text);
}

static void test_bad(void **state) {
    (void)state;
    static const struct {
        const char *text;
        const char *words;
    } cases[] = {
        {"1,2\n3,x\n", "t.csv: line 2, column 2: 'x' is not a number|nan or inf"},
        {"1,2\n3,-\n", "line 2, column 2: '-'|opts.missing '-'|opts.skip_columns 2"},
        {"a,b\n1,2\n3,x\n", "line 3, column 2 (b): 'x' is not a number"},
        {"1,2\n3,4,5\n", "line 2 has 3 fields|have 2"},
        {"a,b\r1,2\r3\r", "line 3 has 1 fields|have 2"},
        {"1\r\n2\r\nx\r\n", "line 3, column 1"},
        {"a,b\n1,2\n3\n", "line 3 has 1 fields|have 2"},
        {"a,b\n1,2,3\n", "line 2 has 3 fields|have 2"},
        {"a,b\n", "only a header"},
        {"# nothing\n\n", "no rows of numbers"},
        {"\n", "no rows"},
        {"id,1,2\n3,4,5\n",
         "line 1: column 1 holds text (the first 'id')|opts.skip_columns 1, or|HF_HEADER_YES"},
        {"1,2\n1;5,2\n", "line 2, column 1: '1;5'"},
        {"1;2\n1,5;2\n", "'1,5' is not a number|point, not a comma"},
        {"1,2\n0x10,2\n", "'0x10'"},
        {"1,2\n1e,2\n", "'1e'"},
        {"1,2\n1e+,2\n", "'1e+'"},
        {"1,2\n1e5.5,2\n", "'1e5.5'"},
        {"1,2\n.,2\n", "'.'"},
        {"1,2\n-,2\n", "'-'"},
        {"1,2\n--1,2\n", "'--1'"},
        {"1,2\n1 2,2\n", "'1 2'"},
        {"1,2\nnan(1),2\n", "'nan(1)'"},
        {"1,2\ninfinit,2\n", "'infinit'"},
        {"1,2\n\"3,4\n", "line 2: a quote opens a field"},
        {"1,2\n1.5.2,2\n", "'1.5.2'"},
        {"1,2\n1\x01,2\n", "'1?'"},
        {"1,2\n0123456789012345678901234567890123456789x,2\n",
         "'0123456789012345678901234567890123456789...'"},
        {"1,2\n3,1e999\n", "line 2, column 2: 1e999 is too large"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_error(make_text("t.csv", cases[i].text), NULL, HF_E_DATA, cases[i].words);
    expect_error(make_file("u.csv", "1,\0002\n", 5), NULL, HF_E_DATA,
                 "u.csv: line 1|zero bytes|iconv");
    expect_error(make_file("u.csv",
                           "\xff\xfe"
                           "a\0\n\0"
                           "1\0\n\0",
                           10),
                 NULL, HF_E_DATA, "iconv");
    const hf_open_opts wide = {.float64 = 1};
    expect_error(make_text("t.csv", "1\n1e309\n"), &wide, HF_E_DATA,
                 "1e309 is too large for float64");
}

/* Any double printed with 17 digits, and with fewer or more, comes back as strtod says. */
static void test_rounding(void **state) {
    (void)state;
    struct hf_rng rng = {.seed = 7};
    char *text = malloc(64 * 20000);
    double *values = malloc(20000 * sizeof *values);
    assert_true(text != NULL && values != NULL);
    size_t used = 0;
    int n = 0;
    while (n < 20000) {
        const uint64_t bits = hf_rng_next(&rng);
        double v;
        memcpy(&v, &bits, 8);
        if (n % 3 == 1)
            v = (double)(int64_t)(bits >> 40) / 1000.0;
        if (!isfinite(v))
            continue;
        used += (size_t)sprintf(text + used, "%.*g\n", 1 + (int)(bits % 22), v);
        values[n++] = v;
    }
    const hf_open_opts wide = {.float64 = 1};
    hf_dataset *d = NULL;
    const hf_status status = hf_dataset_open(ctx, make_file("r.csv", text, used), &wide, &d);
    /* One digit may round the largest doubles up to what float64 does not hold. */
    if (status != HF_OK)
        fail_msg("%s", hf_last_error(ctx));
    assert_int_equal(hf_dataset_array(d)->rows, 20000);
    char *p = text;
    for (int i = 0; i < n; i++) {
        const double expected = strtod(p, &p);
        if (memcmp((double *)hf_dataset_array(d)->data + i, &expected, 8) != 0)
            fail_msg("line %d: %.17g, expected %.17g", i + 1, at(hf_dataset_array(d), i, 0),
                     expected);
    }
    hf_dataset_close(d);
    free(values);
    free(text);
}

/* A program whose locale has decimal commas reads the same numbers. */
static void test_locale(void **state) {
    (void)state;
    const double half[2] = {0.5, 1.2345678901234567890123};
    const char *before = setlocale(LC_ALL, NULL);
    char saved[200];
    (void)snprintf(saved, sizeof saved, "%s", before);
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL && setlocale(LC_ALL, "fr_FR.UTF-8") == NULL)
        print_message(
            "no locale with decimal commas is installed: only the current one was tried\n");
    expect_table("0.5,1.2345678901234567890123\n", 1, 2, half);
    (void)setlocale(LC_ALL, saved);
}

/* Many blocks, lines longer than the first buffer, and the limit. */
static void test_large(void **state) {
    (void)state;
    const int rows = 40, cols = 30011;
    char *text = malloc((size_t)rows * cols * 8);
    assert_non_null(text);
    size_t used = 0;
    for (int e = 0; e < rows * cols; e++) {
        used += (size_t)sprintf(text + used, "%d", e);
        text[used++] = (e + 1) % cols == 0 ? '\n' : ',';
    }
    const char *path = make_file("l.csv", text, used);
    hf_dataset *d = open_loaded(path);
    const hf_array *a = hf_dataset_array(d);
    assert_true(a->rows == rows && a->cols == cols);
    for (int e = 0; e < rows * cols; e++)
        assert_true(((float *)a->data)[e] == (float)e);
    hf_dataset_close(d);
    const hf_open_opts exact = {.memory_bytes = (uint64_t)rows * cols * 4};
    const hf_open_opts small = {.memory_bytes = (uint64_t)rows * cols * 4 - 1, .stream = 1};
    const hf_open_opts tiny = {.memory_bytes = 1000};
    hf_dataset_close(open_opts(path, &exact));
    expect_error(path, &small, HF_E_NOMEM, "l.csv: line 40|.npy|4801759 are allowed");
    expect_error(path, &tiny, HF_E_NOMEM, "line 1 is longer than 65536 bytes");
    gzFile gz = gzopen(in_folder("l.csv.gz"), "wb1");
    assert_non_null(gz);
    assert_int_equal(gzwrite(gz, text, (unsigned)used), used);
    assert_int_equal(gzclose(gz), Z_OK);
    d = open_loaded(in_folder("l.csv.gz"));
    assert_true(hf_dataset_array(d)->rows == rows &&
                at(hf_dataset_array(d), 39, 30010) == 40 * 30011 - 1);
    hf_dataset_close(d);
    free(text);
}

/* Every kind of line end at every place of the buffer that lines are read through. */
static void test_line_ends(void **state) {
    (void)state;
    static const char *const ends[] = {"\n", "\r\n", "\r"};
    enum { ROOM = 64 << 10, TAIL = 40 };
    static char text[ROOM + 2 * TAIL];
    for (int e = 0; e < 3; e++)
        for (int shift = -4; shift <= 4; shift++) {
            const size_t first = (size_t)(ROOM + shift);
            memset(text, ' ', first);
            text[0] = '7';
            const int used = sprintf(text + first, "%s8%s9%s", ends[e], ends[e], ends[e]);
            hf_dataset *d = open_loaded(make_file("ends.csv", text, first + (size_t)used));
            const hf_array *a = hf_dataset_array(d);
            assert_int_equal(a->rows, 3);
            assert_true(at(a, 0, 0) == 7 && at(a, 1, 0) == 8 && at(a, 2, 0) == 9);
            hf_dataset_close(d);
        }
}

static void test_real(void **state) {
    (void)state;
    hf_dataset *d = open_loaded(HF_TEST_DATA "/digits-64d/digits.csv.gz");
    const hf_array *a = hf_dataset_array(d);
    assert_true(a->rows == 1797 && a->cols == 65 && a->dtype == HF_F32);
    for (int64_t i = 0; i < a->rows; i++)
        for (int64_t j = 0; j < 65; j++)
            assert_true(at(a, i, j) >= 0 && at(a, i, j) <= (j < 64 ? 16 : 9));
    hf_dataset_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),    cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_wide),     cmocka_unit_test(test_bad),
        cmocka_unit_test(test_rounding), cmocka_unit_test(test_locale),
        cmocka_unit_test(test_large),    cmocka_unit_test(test_line_ends),
        cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests_name("io_csv", tests, io_setup, io_teardown);
}
