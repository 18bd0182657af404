/* SPDX-License-Identifier: Apache-2.0
 * What all formats share: telling them apart, files that are none or change, lack of memory. */
#include "test_io.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/time.h>
#include <zlib.h>

/* hf_alloc() gets its memory here, so that the n-th request can be refused. */
static long requests, refuse_at = -1;

int posix_memalign(void **p, size_t align, size_t bytes) {
    if (requests++ == refuse_at)
        return ENOMEM;
    *p = aligned_alloc(align, (bytes + align - 1) / align * align);
    return *p != NULL ? 0 : ENOMEM;
}

static const char npy[] = "\x93NUMPY\x01\x00\x36\x00"
                          "{'descr':'<f4','fortran_order':False,'shape':(2,2)}  \n"
                          "\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40";
#define NPY_BYTES (sizeof npy - 1)

static void expect_numbers(const char *path, const char *format) {
    hf_dataset *d = open_loaded(path);
    const hf_array *a = hf_dataset_array(d);
    assert_string_equal(hf_dataset_format(d), format);
    assert_true(a->rows == 2 && a->cols == 2);
    for (int e = 0; e < 4; e++)
        assert_true(at(a, 0, e) == e + 1);
    hf_dataset_close(d);
}

/* Content wins over a name that contradicts it. */
static void test_detection(void **state) {
    (void)state;
    expect_numbers(make_file("a.npy", npy, NPY_BYTES), "npy");
    expect_numbers(make_file("nameless", npy, NPY_BYTES), "npy");
    expect_numbers(make_file("a.csv", npy, NPY_BYTES), "npy");
    expect_numbers(make_text("nameless", "1 2\n3 4\n"), "csv");
    expect_numbers(make_text("a.npy", "1,2\n3,4\n"), "csv");
    expect_numbers(make_file("x-ubyte", "\0\0\x08\x02\0\0\0\x02\0\0\0\x02\1\2\3\4", 16), "idx");
    expect_numbers(make_file("x.bin", "\0\0\x08\x02\0\0\0\x02\0\0\0\x02\1\2\3\4", 16), "idx");
    expect_numbers(make_file("x.bvecs", "\2\0\0\0\1\2\2\0\0\0\3\4", 12), "bvecs");
    gzFile gz = gzopen(in_folder("a.npy.gz"), "wb");
    assert_int_equal(gzwrite(gz, npy, NPY_BYTES), NPY_BYTES);
    assert_int_equal(gzclose(gz), Z_OK);
    expect_numbers(in_folder("a.npy.gz"), "npy");
    gz = gzopen(in_folder("a.fvecs.gz"), "wb");
    assert_int_equal(gzwrite(gz, "\1\0\0\0\1\0\0\0", 8), 8);
    assert_int_equal(gzclose(gz), Z_OK);
    expect_error(in_folder("a.fvecs.gz"), NULL, HF_E_DATA, "a.fvecs.gz|gunzip");
}

static void test_foreign(void **state) {
    (void)state;
    expect_error(make_file("a.npz", "PK\3\4\24\0\0\0\0\0", 10), NULL, HF_E_DATA,
                 "a.npz: |ZIP|cut off");
    expect_error(make_file("a.h5", "\x89HDF\r\n\x1a\n\0\0", 10), NULL, HF_E_DATA, "HDF5");
    expect_error(make_file("a.npy", "\x80\x04\x95\x10\0\0", 6), NULL, HF_E_DATA, "pickle");
    expect_error(make_file("a.csv.xz",
                           "\xfd"
                           "7zXZ\0\0",
                           7),
                 NULL, HF_E_DATA, "xz");
    expect_error(make_file("a.bin", "\0\0\0\0\0\1\2", 7), NULL, HF_E_DATA, "format is not known");
    expect_error(make_file("a.bin", "\x10", 1), NULL, HF_E_DATA, "format is not known");
    expect_error(make_file("a.bin", "\x10\0\0\0\1", 5), NULL, HF_E_DATA, "format is not known");
}

static void test_no_file(void **state) {
    (void)state;
    hf_dataset *d = (hf_dataset *)ctx;
    expect_error(in_folder("missing.npy"), NULL, HF_E_IO,
                 "missing.npy: cannot be opened|check the name");
    expect_error(folder, NULL, HF_E_IO, "is a directory");
    expect_error("/dev/null", NULL, HF_E_IO, "/dev/null: is a device|regular file");
    assert_int_equal(mkfifo(in_folder("pipe"), 0600), 0);
    expect_error(in_folder("pipe"), NULL, HF_E_IO, "pipe: is a pipe|regular file");
    expect_error(make_file("empty.npy", "", 0), NULL, HF_E_DATA, "empty.npy: the file is empty");
    const char *path = make_file("secret.npy", npy, NPY_BYTES);
    assert_int_equal(chmod(path, 0), 0);
    if (geteuid() != 0)
        expect_error(path, NULL, HF_E_IO, "secret.npy: cannot be opened|permission");
    else
        print_message("running as root: an unreadable file cannot be tried\n");
    char name[700];
    memset(name, 'n', sizeof name);
    name[699] = '\0';
    expect_error(name, NULL, HF_E_IO, "...nnn|cannot be opened");
    expect_error("bad\x1b[31mname", NULL, HF_E_IO, "bad?[31mname");
    expect_error("", NULL, HF_E_ARG, "file name");
    expect_error(NULL, NULL, HF_E_ARG, "file name");
    assert_int_equal(hf_dataset_open(ctx, "x", NULL, NULL), HF_E_ARG);
    assert_int_equal(hf_dataset_open(NULL, "x", NULL, &d), HF_E_ARG);
    assert_null(d);
    assert_null(hf_dataset_array(NULL));
    assert_null(hf_dataset_source(NULL));
    assert_string_equal(hf_dataset_format(NULL), "");
    hf_dataset_close(NULL);
}

/* Each way a file may change under a reader is noticed. */
static void one_change(int way) {
    const char *path = make_file("changing.npy", npy, NPY_BYTES);
    const hf_open_opts stream = {.stream = 1};
    hf_dataset *d = open_opts(path, &stream);
    const hf_source *s = hf_dataset_source(d);
    float rows[4];
    char message[300] = "";
    assert_int_equal(s->read(s->user, 0, 2, rows, message, sizeof message), HF_OK);
    const struct timeval old[2] = {{1000, 0}, {1000, 0}};
    FILE *f = fopen(path, "ab");
    assert_non_null(f);
    if (way == 0)
        assert_int_equal(ftruncate(fileno(f), (off_t)NPY_BYTES - 4), 0);
    if (way == 1)
        assert_int_equal(fputc('x', f), 'x');
    assert_int_equal(fclose(f), 0);
    if (way == 2)
        assert_int_equal(utimes(path, old), 0);
    assert_int_equal(s->read(s->user, 0, 2, rows, message, sizeof message), HF_E_IO);
    assert_non_null(strstr(message, "changing.npy: "));
    assert_non_null(strstr(message, "while it was being read"));
    hf_dataset_close(d);
}

static void test_changes(void **state) {
    (void)state;
    for (int way = 0; way < 3; way++)
        one_change(way);
    /* A file that is replaced, as all good writers do, is read to its end. */
    const hf_open_opts stream = {.stream = 1};
    hf_dataset *d = open_opts(make_file("old.npy", npy, NPY_BYTES), &stream);
    assert_int_equal(rename(make_text("new.npy", "1,2\n"), in_folder("old.npy")), 0);
    float rows[4];
    const hf_source *s = hf_dataset_source(d);
    assert_int_equal(s->read(s->user, 0, 2, rows, NULL, 0), HF_OK);
    hf_dataset_close(d);
}

static const char *make_packed_csv(void) {
    gzFile gz = gzopen(in_folder("n.csv.gz"), "wb");
    assert_non_null(gz);
    for (int i = 0; i < 20000; i++)
        assert_true(gzprintf(gz, "%d,%d.25\n", i, i) > 0);
    assert_int_equal(gzclose(gz), Z_OK);
    return in_folder("n.csv.gz");
}

/* Refuse the n-th request for memory, for every n: the call fails with HF_E_NOMEM, leaves nothing
 * behind (the leak check of a sanitizer build sees it) and the next call works. */
static void test_no_memory(void **state) {
    (void)state;
    const float x[4] = {1, 2, 3, 4};
    const hf_array a = hf_array_view((void *)(uintptr_t)x, HF_F32, 2, 2);
    const hf_open_opts opts[2] = {{.stream = 0}, {.stream = 1}};
    const char *paths[3];
    char copy[3][600];
    paths[0] = make_file("n.npy", npy, NPY_BYTES);
    paths[1] = HF_TEST_DATA "/fashion-mnist/t10k-labels-idx1-ubyte.gz";
    paths[2] = make_packed_csv();
    for (int i = 0; i < 3; i++)
        (void)snprintf(copy[i], sizeof copy[i], "%s", paths[i]);
    for (int call = 0; call < 7; call++) {
        hf_status status = HF_E_NOMEM;
        for (long n = 0; status != HF_OK; n++) {
            hf_dataset *d = NULL;
            assert_true(n < 100);
            refuse_at = requests + n;
            if (call < 6)
                status = hf_dataset_open(ctx, copy[call / 2], &opts[call % 2], &d);
            else
                status = hf_write_npy(ctx, in_folder("w.npy"), &a);
            refuse_at = -1;
            assert_true(status == HF_OK || status == HF_E_NOMEM);
            assert_true(status == HF_OK ? n > 0 : hf_last_error(ctx)[0] != '\0');
            assert_true((d != NULL) == (status == HF_OK && call < 6));
            hf_dataset_close(d);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_detection), cmocka_unit_test(test_foreign),
        cmocka_unit_test(test_no_file),   cmocka_unit_test(test_changes),
        cmocka_unit_test(test_no_memory),
    };
    return cmocka_run_group_tests_name("io_dataset", tests, io_setup, io_teardown);
}
