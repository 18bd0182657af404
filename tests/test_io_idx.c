/* SPDX-License-Identifier: Apache-2.0
 * IDX, plain and compressed. */
#include "test_io.h"

#include <zlib.h>

#define MAX_FILE 65536

static size_t head(unsigned char *file, int type, int dims, const uint32_t *sizes) {
    const unsigned char start[4] = {0, 0, (unsigned char)type, (unsigned char)dims};
    memcpy(file, start, 4);
    for (int i = 0; i < dims; i++)
        for (int b = 0; b < 4; b++)
            file[4 + 4 * i + b] = (unsigned char)(sizes[i] >> (24 - 8 * b));
    return 4 + 4 * (size_t)dims;
}

static size_t put(unsigned char *file, size_t used, uint64_t bits, size_t width) {
    for (size_t b = 0; b < width; b++)
        file[used + b] = (unsigned char)(bits >> (8 * (width - 1 - b)));
    return used + width;
}

/* A gzip file of `bytes` bytes. */
static const char *make_gz(const char *name, const void *data, size_t bytes) {
    const char *path = in_folder(name);
    gzFile gz = gzopen(path, "wb9");
    assert_non_null(gz);
    assert_int_equal(gzwrite(gz, data, (unsigned)bytes), bytes);
    assert_int_equal(gzclose(gz), Z_OK);
    return path;
}

static size_t read_back(const char *path, unsigned char *file) {
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    const size_t bytes = fread(file, 1, MAX_FILE, f);
    assert_int_equal(fclose(f), 0);
    return bytes;
}

static const struct {
    int type;
    size_t width;
    hf_dtype dtype;
} kinds[] = {{0x08, 1, HF_U8},  {0x09, 1, HF_F32}, {0x0B, 2, HF_F32},
             {0x0C, 4, HF_F64}, {0x0D, 4, HF_F32}, {0x0E, 8, HF_F64}};

static uint64_t bits_of(int type, int v) {
    const float f = (float)v;
    const double d = v;
    uint32_t f4;
    uint64_t f8;
    memcpy(&f4, &f, 4);
    memcpy(&f8, &d, 8);
    return type == 0x0D ? f4 : type == 0x0E ? f8 : (uint64_t)(int64_t)v;
}

static int value_of(int type, int e) { return type == 0x08 ? e % 250 : e % 120 - 60; }

static void check_values(const hf_array *a, int type) {
    for (int e = 0; e < 4 * 30; e++)
        if (at(a, 0, e) != value_of(type, e))
            fail_msg("type %d element %d is %g", type, e, at(a, 0, e));
}

static void test_types(void **state) {
    (void)state;
    static unsigned char file[MAX_FILE];
    const uint32_t sizes[3] = {4, 5, 6};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        size_t used = head(file, kinds[k].type, 3, sizes);
        for (int e = 0; e < 4 * 30; e++)
            used =
                put(file, used, bits_of(kinds[k].type, value_of(kinds[k].type, e)), kinds[k].width);
        const char *path = make_file("images-idx3", file, used);
        hf_dataset *d = open_loaded(path);
        const hf_array *a = hf_dataset_array(d);
        assert_string_equal(hf_dataset_format(d), "idx");
        assert_true(a->rows == 4 && a->cols == 30 && a->dtype == kinds[k].dtype);
        check_values(a, kinds[k].type);
        expect_same_streamed(path, a);
        hf_dataset_close(d);
        d = open_loaded(make_gz("images-idx3.gz", file, used));
        assert_true(hf_dataset_array(d)->rows == 4 && hf_dataset_array(d)->cols == 30);
        check_values(hf_dataset_array(d), kinds[k].type);
        hf_dataset_close(d);
    }
}

static void test_bad(void **state) {
    (void)state;
    static unsigned char file[MAX_FILE];
    const uint32_t sizes[2] = {3, 4};
    size_t used = head(file, 0x08, 2, sizes) + 12;
    for (size_t cut = 1; cut < used; cut++)
        expect_error(make_file("cut-ubyte", file, cut), NULL, HF_E_DATA, "cut-ubyte: ");
    expect_error(make_file("cut-ubyte", file, used - 1), NULL, HF_E_DATA, "23 bytes|24|cut off");
    expect_error(make_file("cut-ubyte", file, used + 1), NULL, HF_E_DATA, "25 bytes|24|longer");
    file[2] = 0x0A;
    expect_error(make_file("type-ubyte", file, used), NULL, HF_E_DATA, "element type 0x0a|byte 2");
    file[0] = 1;
    expect_error(make_file("magic-ubyte", file, used), NULL, HF_E_DATA, "not an IDX|01 00 0a 02");
    const uint32_t none[2] = {3, 0};
    used = head(file, 0x08, 2, none);
    expect_error(make_file("none-ubyte", file, used), NULL, HF_E_DATA, "no data|size 2");
    const uint32_t huge[3] = {UINT32_MAX, UINT32_MAX, UINT32_MAX};
    used = head(file, 0x0E, 3, huge);
    expect_error(make_file("huge-ubyte", file, used), NULL, HF_E_DATA, "2^63");
    expect_error(make_gz("huge-ubyte.gz", file, used), NULL, HF_E_DATA, "2^63");
    used = head(file, 0x08, 2, huge);
    expect_error(make_file("huge-ubyte", file, used), NULL, HF_E_DATA, "2^63|damaged");
}

/* What zlib cannot vouch for is refused, wherever the file is cut. */
static void test_bad_gz(void **state) {
    (void)state;
    static unsigned char file[MAX_FILE];
    const uint32_t sizes[2] = {100, 60};
    size_t used = head(file, 0x08, 2, sizes);
    for (int e = 0; e < 6000; e++)
        used = put(file, used, (uint64_t)(e * e % 251), 1);
    expect_error(make_gz("more.gz", file, used + 1), NULL, HF_E_DATA,
                 "more.gz: has more than|6012");
    expect_error(make_gz("less.gz", file, used - 1), NULL, HF_E_DATA,
                 "less.gz: ends after|6011|6012");
    size_t packed = read_back(make_gz("good.gz", file, used), file);
    hf_dataset_close(open_loaded(make_file("good.gz", file, packed)));
    for (size_t cut = 2; cut < packed; cut += 7)
        expect_error(make_file("cut.gz", file, cut), NULL, HF_E_DATA, "cut.gz: |cut off");
    memset(file + packed, 0, 100);
    hf_dataset_close(open_loaded(make_file("zeros.gz", file, packed + 100)));
    file[packed] = 'x';
    expect_error(make_file("junk.gz", file, packed + 1), NULL, HF_E_DATA, "no gzip data follow");
    file[packed - 6] ^= 1;
    expect_error(make_file("crc.gz", file, packed), NULL, HF_E_DATA, "crc.gz: |damaged");
    file[packed / 2] ^= 0x55;
    expect_error(make_file("bits.gz", file, packed), NULL, HF_E_DATA, "bits.gz: ");
}

/* A header that promises more than deflate can hold, and one beyond the limit. */
static void test_bombs(void **state) {
    (void)state;
    static unsigned char file[MAX_FILE];
    const uint32_t huge[2] = {2000000000, 4};
    size_t used = head(file, 0x08, 2, huge);
    expect_error(make_gz("bomb.gz", file, used), NULL, HF_E_DATA, "8000000012|compressed");
    const uint32_t large[2] = {40000, 1000};
    const char *path = in_folder("large.gz");
    gzFile gz = gzopen(path, "wb9");
    assert_non_null(gz);
    used = head(file, 0x08, 2, large);
    assert_int_equal(gzwrite(gz, file, (unsigned)used), used);
    memset(file, 0, sizeof file);
    for (int64_t left = 40000000; left > 0; left -= MAX_FILE)
        (void)gzwrite(gz, file, left < MAX_FILE ? (unsigned)left : MAX_FILE);
    assert_int_equal(gzclose(gz), Z_OK);
    const hf_open_opts small = {.memory_bytes = 1 << 20};
    expect_error(path, &small, HF_E_NOMEM, "40000000|1048576|gunzip");
    hf_dataset *d = open_loaded(path);
    assert_true(hf_dataset_array(d)->rows == 40000);
    hf_dataset_close(d);
}

/* Two members, the border in the middle of the data, and an empty one. */
static void test_members(void **state) {
    (void)state;
    static unsigned char file[MAX_FILE], both[MAX_FILE];
    const uint32_t sizes[2] = {100, 60};
    size_t used = head(file, 0x08, 2, sizes);
    for (int e = 0; e < 6000; e++)
        used = put(file, used, (uint64_t)(e % 251), 1);
    size_t packed = read_back(make_gz("a.gz", file, 5000), both);
    packed += read_back(make_gz("b.gz", file, 0), both + packed);
    packed += read_back(make_gz("c.gz", file + 5000, used - 5000), both + packed);
    hf_dataset *d = open_loaded(make_file("both.gz", both, packed));
    for (int e = 0; e < 6000; e++)
        assert_true(at(hf_dataset_array(d), 0, e) == e % 251);
    hf_dataset_close(d);
    expect_error(make_gz("empty.gz", file, 0), NULL, HF_E_DATA, "empty.gz: |no data");
}

static void test_real(void **state) {
    (void)state;
    hf_dataset *d = open_loaded(HF_TEST_DATA "/fashion-mnist/t10k-images-idx3-ubyte.gz");
    const hf_array *a = hf_dataset_array(d);
    assert_true(a->rows == 10000 && a->cols == 784 && a->dtype == HF_U8);
    hf_dataset *l = open_loaded(HF_TEST_DATA "/fashion-mnist/t10k-labels-idx1-ubyte.gz");
    const hf_array *labels = hf_dataset_array(l);
    assert_true(labels->rows == 10000 && labels->cols == 1);
    int64_t count[10] = {0};
    for (int64_t i = 0; i < 10000; i++) {
        assert_true(at(labels, i, 0) < 10);
        count[(int)at(labels, i, 0)]++;
    }
    for (int c = 0; c < 10; c++)
        assert_int_equal(count[c], 1000);
    hf_dataset_close(l);
    hf_dataset_close(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types), cmocka_unit_test(test_bad),     cmocka_unit_test(test_bad_gz),
        cmocka_unit_test(test_bombs), cmocka_unit_test(test_members), cmocka_unit_test(test_real),
    };
    return cmocka_run_group_tests_name("io_idx", tests, io_setup, io_teardown);
}
