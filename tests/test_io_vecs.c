/* SPDX-License-Identifier: Apache-2.0
 * .fvecs and .bvecs. */
#include "test_io.h"

/* n rows of d elements, element (i, j) being i + 2 j mod 100. */
static unsigned char *make_vecs(int64_t n, int64_t d, bool bytes, size_t *used) {
    const size_t row = 4 + (size_t)d * (bytes ? 1 : 4);
    unsigned char *file = malloc((size_t)n * row + 16);
    assert_non_null(file);
    for (int64_t i = 0; i < n; i++) {
        unsigned char *p = file + (size_t)i * row;
        for (int b = 0; b < 4; b++)
            p[b] = (unsigned char)(d >> (8 * b));
        for (int64_t j = 0; j < d; j++) {
            const float v = (float)((i + 2 * j) % 100);
            if (bytes)
                p[4 + j] = (unsigned char)v;
            else
                memcpy(p + 4 + 4 * j, &v, 4);
        }
    }
    *used = (size_t)n * row;
    return file;
}

static void one_file(int64_t n, int64_t d, bool bytes) {
    size_t used;
    unsigned char *file = make_vecs(n, d, bytes, &used);
    const char *path = make_file(bytes ? "x.bvecs" : "x.fvecs", file, used);
    hf_dataset *data = open_loaded(path);
    const hf_array *a = hf_dataset_array(data);
    assert_string_equal(hf_dataset_format(data), bytes ? "bvecs" : "fvecs");
    assert_true(a->rows == n && a->cols == d && a->dtype == (bytes ? HF_U8 : HF_F32));
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++)
            assert_true(at(a, i, j) == (double)((i + 2 * j) % 100));
    expect_same_streamed(path, a);
    hf_dataset_close(data);
    free(file);
}

/* Rows shorter and longer than the scratch memory they are read through. */
static void test_shapes(void **state) {
    (void)state;
    for (int bytes = 0; bytes < 2; bytes++) {
        one_file(1, 1, bytes);
        one_file(43, 128, bytes);
        one_file(3001, 33, bytes);
        one_file(3, 300001, bytes);
    }
}

/* Without a telling name the size decides. */
static void test_by_content(void **state) {
    (void)state;
    size_t used;
    unsigned char *file = make_vecs(7, 5, false, &used);
    hf_dataset *d = open_loaded(make_file("nameless", file, used));
    assert_string_equal(hf_dataset_format(d), "fvecs");
    hf_dataset_close(d);
    free(file);
    file = make_vecs(7, 5, true, &used);
    d = open_loaded(make_file("nameless", file, used));
    assert_string_equal(hf_dataset_format(d), "bvecs");
    hf_dataset_close(d);
    free(file);
}

static void test_bad(void **state) {
    (void)state;
    const hf_open_opts stream = {.stream = 1};
    size_t used;
    unsigned char *file = make_vecs(5, 6, false, &used);
    expect_error(make_file("cut.fvecs", file, used - 9), NULL, HF_E_DATA,
                 "cut.fvecs: row 4|19 of the 28 bytes|6 elements|cut off");
    expect_error(make_file("cut.fvecs", file, 3), NULL, HF_E_DATA, "0 elements");
    for (size_t cut = 1; cut < used; cut++)
        if (cut % 28 != 0)
            expect_error(make_file("cut.fvecs", file, cut), &stream, HF_E_DATA, "cut.fvecs: ");
    file[3 * 28] = 7;
    const char *path = make_file("dim.fvecs", file, used);
    expect_error(path, NULL, HF_E_DATA, "dim.fvecs: row 3|byte 84|7 elements|first row has 6");
    hf_dataset *d = open_opts(path, &stream);
    const hf_source *s = hf_dataset_source(d);
    float rows[5 * 6];
    char message[300] = "";
    assert_int_equal(s->read(s->user, 0, 3, rows, message, sizeof message), HF_OK);
    assert_int_equal(s->read(s->user, 0, 5, rows, message, sizeof message), HF_E_DATA);
    assert_non_null(strstr(message, "row 3"));
    hf_dataset_close(d);
    expect_error(make_file("whole.ivecs", file, used), NULL, HF_E_DATA, "int32|numpy.save");
    memset(file + 3 * 28, 0xff, 4);
    expect_error(make_file("dim.fvecs", file, used), NULL, HF_E_DATA, "-1 elements");
    memset(file, 0xff, 4);
    expect_error(make_file("neg.fvecs", file, used), NULL, HF_E_DATA, "not a .fvecs|-1 elements");
    unsigned char text[12] = {0xff, 0xff, 0xff, 0xff, 'a', 'b', 'c', 'd', 'e', 'f', 'g', 'h'};
    expect_error(make_file("text.fvecs", text, 12), NULL, HF_E_DATA, "not a .fvecs|-1 elements");
    const uint32_t ragged[] = {2, 0, 0, 3, 0, 0, 0}; /* rows of 2 and of 3 elements */
    expect_error(make_file("ragged.fvecs", ragged, sizeof ragged), NULL, HF_E_DATA,
                 "row 1 (counted from 0, at byte 12) says it has 3 elements|first row has 2");
    memset(file, 0, 4);
    expect_error(make_file("zero.bvecs", file, used), NULL, HF_E_DATA, "not a .bvecs|0 elements");
    memcpy(file, "\xff\xff\xff\x7f", 4);
    expect_error(make_file("big.fvecs", file, used), NULL, HF_E_DATA, "row 0|8589934592 bytes");
    free(file);
}

/* The rows of a long row's file must agree too. */
static void test_bad_long_rows(void **state) {
    (void)state;
    size_t used;
    unsigned char *file = make_vecs(3, 100000, false, &used);
    file[2 * 400004 + 1] ^= 1;
    expect_error(make_file("long.fvecs", file, used), NULL, HF_E_DATA, "row 2|byte 800008");
    free(file);
}

static void test_real(void **state) {
    (void)state;
    const char *path = HF_TEST_DATA "/sift5k-128d/sift5k_base.fvecs";
    hf_dataset *d = open_loaded(path);
    const hf_array *a = hf_dataset_array(d);
    assert_true(a->rows == 5000 && a->cols == 128 && a->dtype == HF_F32);
    for (int64_t i = 0; i < a->rows * a->cols; i++) {
        const double v = at(a, 0, i);
        assert_true(v >= 0 && v <= 191 && v == (double)(int)v);
    }
    expect_same_streamed(path, a);
    hf_dataset_close(d);
    const hf_open_opts small = {.memory_bytes = 5000 * 128 * 4 - 1};
    const hf_open_opts enough = {.memory_bytes = 5000 * 128 * 4};
    d = open_opts(path, &small);
    assert_non_null(hf_dataset_source(d));
    hf_dataset_close(d);
    d = open_opts(path, &enough);
    assert_non_null(hf_dataset_array(d));
    hf_dataset_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shapes), cmocka_unit_test(test_by_content),
        cmocka_unit_test(test_bad),    cmocka_unit_test(test_bad_long_rows),
        cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests_name("io_vecs", tests, io_setup, io_teardown);
}
