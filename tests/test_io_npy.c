/* SPDX-License-Identifier: Apache-2.0 */
#include "test_io.h"

#include <fcntl.h>
#include <math.h>

#define MAX_FILE 65536

/* A .npy file as this test writes it. */
struct npy {
    unsigned char bytes[MAX_FILE];
    size_t used;
};

static void begin(struct npy *f, int version, const char *dict) {
    const size_t start = version == 1 ? 10 : 12;
    const size_t length = (start + strlen(dict) + 1 + 63) / 64 * 64 - start;
    memset(f->bytes, ' ', start + length);
    memcpy(f->bytes, "\x93NUMPY", 6);
    f->bytes[6] = (unsigned char)version;
    f->bytes[7] = 0;
    for (size_t i = 8; i < start; i++)
        f->bytes[i] = (unsigned char)(length >> (8 * (i - 8)));
    memcpy(f->bytes + start, dict, strlen(dict));
    f->bytes[start + length - 1] = '\n';
    f->used = start + length;
}

static void put(struct npy *f, uint64_t bits, size_t width, bool big) {
    for (size_t b = 0; b < width; b++)
        f->bytes[f->used++] = (unsigned char)(bits >> (8 * (big ? width - 1 - b : b)));
}

static const struct {
    const char *code;
    size_t width;
    hf_dtype dtype;
} kinds[] = {
    {"f4", 4, HF_F32}, {"f8", 8, HF_F64}, {"f2", 2, HF_F16}, {"V2", 2, HF_BF16}, {"u1", 1, HF_U8},
    {"b1", 1, HF_U8},  {"i1", 1, HF_F32}, {"i2", 2, HF_F32}, {"u2", 2, HF_F32},  {"i4", 4, HF_F64},
    {"u4", 4, HF_F64}, {"i8", 8, HF_F64}, {"u8", 8, HF_F64},
};
#define KINDS (sizeof kinds / sizeof *kinds)

/* A value that all types but bool hold exactly, and its bits. */
static double value_of(size_t kind, int64_t e) {
    if (kinds[kind].code[0] == 'b')
        return (double)(e % 2);
    const double v = (double)(e % 100);
    return kinds[kind].code[0] == 'u' || e % 3 != 0 ? v : -v;
}

static uint64_t bits_of(size_t kind, double v) {
    const float f = (float)v;
    uint32_t f4;
    uint64_t f8;
    memcpy(&f4, &f, 4);
    memcpy(&f8, &v, 8);
    if (kinds[kind].code[0] != 'f' && kinds[kind].code[0] != 'V')
        return (uint64_t)(int64_t)v;
    if (kinds[kind].dtype == HF_BF16)
        return hf_f32_to_bf16(f);
    if (kinds[kind].dtype == HF_F16)
        return hf_f32_to_f16(f);
    return kinds[kind].width == 4 ? f4 : f8;
}

static void one_matrix(size_t kind, int version, bool fortran, bool big, int64_t n, int64_t d) {
    static struct npy f;
    char dict[200];
    (void)snprintf(dict, sizeof dict,
                   "{'descr': '%c%s', 'fortran_order': %s, 'shape': (%lld, %lld), }",
                   big                      ? '>'
                   : kinds[kind].width == 1 ? '|'
                                            : '<',
                   kinds[kind].code, fortran ? "True" : "False", (long long)n, (long long)d);
    begin(&f, version, dict);
    for (int64_t e = 0; e < n * d; e++) {
        const int64_t i = fortran ? e % n : e / d;
        const int64_t j = fortran ? e / n : e % d;
        put(&f, bits_of(kind, value_of(kind, i * d + j)), kinds[kind].width, big);
    }
    const char *path = make_file("m.npy", f.bytes, f.used);
    hf_dataset *data = open_loaded(path);
    const hf_array *a = hf_dataset_array(data);
    assert_string_equal(hf_dataset_format(data), "npy");
    assert_true(a->rows == n && a->cols == d && a->dtype == kinds[kind].dtype);
    for (int64_t e = 0; e < n * d; e++)
        if (at(a, e / d, e % d) != value_of(kind, e))
            fail_msg("%s v%d fortran %d big %d: element %lld is %g", kinds[kind].code, version,
                     (int)fortran, (int)big, (long long)e, at(a, e / d, e % d));
    expect_same_streamed(path, a);
    hf_dataset_close(data);
}

static void test_types_orders_versions(void **state) {
    (void)state;
    for (size_t kind = 0; kind < KINDS; kind++)
        for (int version = 1; version <= 3; version++)
            for (int order = 0; order < 4; order++)
                one_matrix(kind, version, order & 1, order & 2, 7, 5);
    for (size_t kind = 0; kind < KINDS; kind++) {
        one_matrix(kind, 1, true, false, 1, 9);
        one_matrix(kind, 1, true, true, 9, 1);
        one_matrix(kind, 1, false, true, 300, 17);
    }
}

/* More rows than fit a scratch block, so that pieces of columns are stitched. */
static void test_fortran_blocks(void **state) {
    (void)state;
    const int64_t n = 70001, d = 3;
    const char *path = in_folder("f.npy");
    struct npy *head = malloc(sizeof *head);
    int64_t *values = malloc((size_t)(n * d) * sizeof *values);
    assert_true(head != NULL && values != NULL);
    begin(head, 1, "{'descr': '<i8', 'fortran_order': True, 'shape': (70001, 3), }");
    for (int64_t e = 0; e < n * d; e++)
        values[e] = e % n * 10 + e / n;
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(head->bytes, 1, head->used, f), head->used);
    assert_int_equal(fwrite(values, sizeof *values, (size_t)(n * d), f), n * d);
    assert_int_equal(fclose(f), 0);
    hf_dataset *data = open_loaded(path);
    const hf_array *a = hf_dataset_array(data);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++)
            assert_true(at(a, i, j) == (double)(i * 10 + j));
    expect_same_streamed(path, a);
    hf_dataset_close(data);
    free(values);
    free(head);
}

static void test_shapes(void **state) {
    (void)state;
    static const struct {
        const char *dict;
        size_t elements;
        int64_t rows, cols;
    } cases[] = {
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (6,), }", 6, 6, 1},
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (6,)}", 6, 6, 1},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 4), }", 24, 2, 12},
        {"{\"shape\":(2L,3L),\"fortran_order\":False,\"descr\":\"u1\"}", 6, 2, 3},
        {"{ 'descr' : '=u1' , 'shape' : ( 1 , 3 , ) , 'fortran_order' : True }", 3, 1, 3},
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (1, 1, 4, 1), }", 4, 1, 4},
        {"{'descr': '|u1', 'fortran_order': True, 'shape': (4, 1, 1), }", 4, 4, 1},
    };
    static struct npy f;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        begin(&f, 1, cases[c].dict);
        for (size_t e = 0; e < cases[c].elements; e++)
            put(&f, e, 1, false);
        hf_dataset *data = open_loaded(make_file("shape", f.bytes, f.used));
        const hf_array *a = hf_dataset_array(data);
        assert_true(a->rows == cases[c].rows && a->cols == cases[c].cols);
        for (size_t e = 0; e < cases[c].elements; e++)
            assert_int_equal(((const uint8_t *)a->data)[e], e);
        hf_dataset_close(data);
    }
}

static void test_bad_headers(void **state) {
    (void)state;
    static const struct {
        const char *dict;
        const char *words;
    } cases[] = {
        {"", "damaged .npy header|'{'|byte|numpy.save"},
        {"{}", "'descr', 'fortran_order' and 'shape'"},
        {"{'descr': '<f4', 'fortran_order': False}", "each once"},
        {"{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}", "each once"},
        {"{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}", "True or False"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2)}", "','"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': 2}", "'('"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (-2,)}", "a size"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2,", "a size"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775808,)}", "2^63"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (1, 2,)} x", "the end of the header"},
        {"{'descr': '<f4', 'fortran_order': False, 'extra': 1, 'shape': (2,)}", "each once"},
        {"{'descr': '<f4\\n', 'fortran_order': False, 'shape': (2,)}", "plain string"},
        {"{'descr': '<f4", "plain string"},
        {"{'descr': __import__('os').system('x'), 'fortran_order': False, 'shape': (2,)}",
         "a quoted string"},
        {"{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape': (2,)}",
         "dtype '[...]'|structured_to_unstructured"},
        {"{'descr': [('a', '<f4'", "']'"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (2,)}", "dtype '|O'|never loaded"},
        {"{'descr': '<U5', 'fortran_order': False, 'shape': (2,)}", "dtype '<U5'|text|astype"},
        {"{'descr': '<c8', 'fortran_order': False, 'shape': (2,)}", "complex"},
        {"{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (2,)}", "dates"},
        {"{'descr': '<f16', 'fortran_order': False, 'shape': (2,)}", "dtype '<f16'|float32"},
        {"{'descr': '|V3', 'fortran_order': False, 'shape': (2,)}", "dtype '|V3'"},
        {"{'descr': '', 'fortran_order': False, 'shape': (2,)}", "dtype ''"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "single number|shape ()"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (0, 3)}", "no data|(0, 3)"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3, 0)}", "no data|(3, 0)"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2, 2)}",
         "Fortran|ascontiguousarray"},
        {"{'descr': '<f4', 'fortran_order': True, 'shape': (1, 2, 2)}",
         "Fortran|ascontiguousarray"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 2)}", "2^63"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904,)}", "2^63"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4611686018427387904, "
         "4611686018427387904)}",
         "2^63"},
        {"{'descr': '|i1', 'fortran_order': False, 'shape': (4611686018427387904, 1)}", "2^63"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4611686018427387904, 1)}",
         "cut off|promises 4611686018427388032"},
        {"{'descr': '|u1', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "2^63"},
    };
    static struct npy f;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const hf_open_opts stream = {.stream = 1};
        begin(&f, c % 2 == 0 ? 1 : 2, cases[c].dict);
        put(&f, 0, 8, false);
        const char *path = make_file("bad.npy", f.bytes, f.used);
        expect_error(path, NULL, HF_E_DATA, "bad.npy: ");
        expect_error(path, NULL, HF_E_DATA, cases[c].words);
        expect_error(path, &stream, HF_E_DATA, cases[c].words);
    }
}

/* A file cut at any byte is refused, and so is one byte too many. */
static void test_every_length(void **state) {
    (void)state;
    static struct npy f;
    for (int version = 1; version <= 2; version++) {
        begin(&f, version, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 2), }");
        for (int e = 0; e < 6; e++)
            put(&f, 0x3f800000, 4, false);
        for (size_t cut = 1; cut < f.used; cut++)
            expect_error(make_file("cut.npy", f.bytes, cut), NULL, HF_E_DATA,
                         cut < 8 ? "cut.npy: |cut off" : "cut.npy: ");
        for (size_t cut = 1; cut < 7; cut++) /* whatever its name */
            expect_error(make_file("cut", f.bytes, cut), NULL, HF_E_DATA, "cut: |cut off");
        expect_error(make_file("cut.npy", f.bytes, f.used - 1), NULL, HF_E_DATA,
                     "151 bytes|152|cut off");
        f.bytes[f.used] = 0;
        expect_error(make_file("long.npy", f.bytes, f.used + 1), NULL, HF_E_DATA,
                     "153 bytes|152|longer");
        hf_dataset_close(open_loaded(make_file("good.npy", f.bytes, f.used)));
    }
    f.bytes[6] = 4;
    expect_error(make_file("v4.npy", f.bytes, f.used), NULL, HF_E_DATA, "format 4.0|1.0 to 3.0");
    f.bytes[6] = 2;
    f.bytes[11] = 0x7f;
    expect_error(make_file("huge.npy", f.bytes, f.used), NULL, HF_E_DATA, "header of 213");
    expect_error(make_text("text.npy", "\x01\x02 no array at all"), NULL, HF_E_DATA,
                 "not a .npy file");
}

static void one_whole(const char *code, uint64_t bits, bool good, const char *words) {
    static struct npy f;
    char dict[100];
    (void)snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (2, 3), }",
                   code);
    begin(&f, 1, dict);
    for (int e = 0; e < 6; e++)
        put(&f, e == 4 ? bits : 1, 8, code[0] == '>');
    const char *path = make_file("whole.npy", f.bytes, f.used);
    if (!good) {
        expect_error(path, NULL, HF_E_DATA, words);
        return;
    }
    hf_dataset *d = open_loaded(path);
    const double v = at(hf_dataset_array(d), 1, 1);
    assert_true(code[1] == 'i' ? (int64_t)v == (int64_t)bits : (uint64_t)v == bits);
    hf_dataset_close(d);
}

static void test_whole_numbers(void **state) {
    (void)state;
    const uint64_t limit = (uint64_t)1 << 53;
    one_whole("<i8", limit, true, "");
    one_whole(">i8", limit + 2, true, "");
    one_whole("<i8", limit + 1, false, "row 1, column 1|int64 9007199254740993|astype('float64')");
    one_whole(">i8", 0 - (limit + 1), false, "int64 -9007199254740993");
    one_whole("<i8", (uint64_t)1 << 63, true, "");
    one_whole("<i8", INT64_MAX, false, "int64 9223372036854775807");
    one_whole("<u8", (uint64_t)1 << 63, true, "");
    one_whole("<u8", UINT64_MAX, false, "uint64 18446744073709551615");
    one_whole("<u8", 0 - ((uint64_t)1 << 11), true, "");
}

/* The same while streaming: the message comes from the source. */
static void test_whole_numbers_streamed(void **state) {
    (void)state;
    static struct npy f;
    const hf_open_opts opts = {.stream = 1};
    char message[300] = "";
    double row[3];
    begin(&f, 1, "{'descr': '<i8', 'fortran_order': True, 'shape': (2, 3), }");
    for (int e = 0; e < 6; e++)
        put(&f, e == 5 ? INT64_MAX : 1, 8, false);
    hf_dataset *d = open_opts(make_file("w.npy", f.bytes, f.used), &opts);
    const hf_source *s = hf_dataset_source(d);
    assert_int_equal(s->read(s->user, 0, 1, row, message, sizeof message), HF_OK);
    assert_int_equal(s->read(s->user, 1, 1, row, message, sizeof message), HF_E_DATA);
    assert_non_null(strstr(message, "row 1, column 2"));
    hf_dataset_close(d);
}

/* More elements than 2^31, in a file with holes. */
static void test_large(void **state) {
    (void)state;
    static struct npy f;
    const int64_t n = 600000011, d = 5;
    begin(&f, 1, "{'descr': '|u1', 'fortran_order': False, 'shape': (600000011, 5), }");
    const char *path = make_file("large.npy", f.bytes, f.used);
    const int fd = open(path, O_WRONLY);
    assert_true(fd >= 0);
    const char last[5] = {1, 2, 3, 4, 5};
    const off_t at_last = (off_t)f.used + (off_t)((n - 1) * d);
    if (pwrite(fd, last, 5, at_last) != 5) {
        (void)close(fd);
        print_message("skipped: no file of 3 GB with holes can be made in %s\n", folder);
        skip();
    }
    (void)close(fd);
    const hf_open_opts small = {.memory_bytes = 1 << 20};
    hf_dataset *data = open_opts(path, &small);
    const hf_source *s = hf_dataset_source(data);
    assert_non_null(s);
    assert_true(s->rows == n && s->cols == d && s->dtype == HF_U8);
    char rows[2][5];
    char message[200];
    assert_int_equal(s->read(s->user, n - 2, 2, rows, message, sizeof message), HF_OK);
    assert_memory_equal(rows[0], "\0\0\0\0\0", 5);
    assert_memory_equal(rows[1], last, 5);
    assert_int_equal(s->read(s->user, n - 1, 2, rows, message, sizeof message), HF_E_ARG);
    assert_int_equal(s->read(s->user, INT64_MAX, INT64_MAX, rows, message, sizeof message),
                     HF_E_ARG);
    hf_dataset_close(data);
}

static void one_round_trip(hf_dtype dtype, int64_t n, int64_t d, int64_t stride, bool matrix) {
    const size_t size = hf_dtype_bytes(dtype);
    unsigned char *x = malloc((size_t)(n * stride) * size + 1);
    assert_non_null(x);
    for (size_t b = 0; b < (size_t)(n * stride) * size; b++)
        x[b] = (unsigned char)(b * 37 % 61);
    hf_array a = hf_array_view(x, dtype, n, d);
    a.row_stride = stride;
    const char *path = in_folder("out.npy");
    assert_int_equal((matrix ? hf_write_npy_matrix : hf_write_npy)(ctx, path, &a), HF_OK);
    hf_dataset *data = open_loaded(path);
    const hf_array *b = hf_dataset_array(data);
    assert_true(b->rows == n && b->cols == d);
    assert_int_equal(b->dtype, dtype == HF_I32 ? HF_F64 : dtype);
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < d; j++) {
            int32_t whole;
            memcpy(&whole, x + (size_t)(i * stride) * size, dtype == HF_I32 ? 4 : 1);
            if (dtype != HF_I32)
                assert_memory_equal((char *)b->data + (size_t)(i * d + j) * size,
                                    x + (size_t)(i * stride + j) * size, size);
            else if (j == 0)
                assert_true(at(b, i, 0) == whole);
        }
    char head[129] = "";
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    assert_int_equal(fread(head, 1, 128, f), 128);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    assert_int_equal(ftell(f), 128 + n * d * (int64_t)size);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(head[127], '\n');
    char shape[64];
    (void)snprintf(shape, sizeof shape, d == 1 && !matrix ? "(%lld,)" : "(%lld, %lld)",
                   (long long)n, (long long)d);
    assert_non_null(strstr(head + 10, shape));
    hf_dataset_close(data);
    free(x);
}

static void test_write(void **state) {
    (void)state;
    for (hf_dtype t = HF_F32; t <= HF_I32; t = (hf_dtype)(t + 1)) {
        one_round_trip(t, 5, 3, 3, false);
        one_round_trip(t, 5, 3, 8, false);
        one_round_trip(t, 9, 1, 1, false);
        one_round_trip(t, 9, 1, 1, true);
        one_round_trip(t, 1, 1000, 1000, true);
        one_round_trip(t, 300, 7, 9, false);
    }
}

static void test_write_refuses(void **state) {
    (void)state;
    float x[4] = {0};
    hf_array a = hf_array_view(x, HF_F32, 2, 2);
    assert_int_equal(hf_write_npy(NULL, "x", &a), HF_E_ARG);
    assert_int_equal(hf_write_npy(ctx, NULL, &a), HF_E_ARG);
    assert_int_equal(hf_write_npy(ctx, "", &a), HF_E_ARG);
    assert_int_equal(hf_write_npy(ctx, in_folder("no.npy"), NULL), HF_E_ARG);
    a.row_stride = 1;
    assert_int_equal(hf_write_npy(ctx, in_folder("no.npy"), &a), HF_E_ARG);
    a.row_stride = 0;
    a.dtype = (hf_dtype)99;
    assert_int_equal(hf_write_npy(ctx, in_folder("no.npy"), &a), HF_E_ARG);
    a.dtype = HF_F32;
    a.rows = (int64_t)1 << 62;
    assert_int_equal(hf_write_npy(ctx, in_folder("no.npy"), &a), HF_E_ARG);
    a.rows = -1;
    assert_int_equal(hf_write_npy(ctx, in_folder("no.npy"), &a), HF_E_ARG);
    a.rows = 2;
    a.data = NULL;
    assert_int_equal(hf_write_npy(ctx, in_folder("no.npy"), &a), HF_E_ARG);
    a.data = x;
    assert_int_equal(hf_write_npy(ctx, in_folder("no/such/folder.npy"), &a), HF_E_IO);
    assert_int_equal(hf_write_npy(ctx, folder, &a), HF_E_IO);
    assert_int_not_equal(access(in_folder("no.npy"), F_OK), 0);
    assert_int_equal(hf_write_file(ctx, in_folder("f.txt"), "abc", 3), HF_OK);
    assert_int_equal(hf_write_file(ctx, in_folder("f.txt"), "", 0), HF_OK);
    assert_int_equal(hf_write_file(ctx, in_folder("f.txt"), NULL, 1), HF_E_ARG);
    assert_int_equal(hf_write_file(NULL, in_folder("f.txt"), "", 0), HF_E_ARG);
    struct stat st;
    assert_int_equal(stat(in_folder("f.txt"), &st), 0);
    assert_int_equal(st.st_size, 0);
}

static bool there(const char *name) { return access(in_folder(name), F_OK) == 0; }

/* A file of a set that grows piece by piece. */
static void test_file_in_pieces(void **state) {
    (void)state;
    const double rows[6] = {1, 2, 3, 4, 5, 6};
    const char *path = in_folder("pieces.npy");
    hf_file_set *set = NULL;
    assert_int_equal(hf_file_set_create(ctx, &set), HF_OK);
    assert_int_equal(hf_file_set_append(set, rows, 8), HF_E_ARG);
    assert_int_equal(hf_file_set_end(set), HF_E_ARG);
    assert_int_equal(hf_file_set_begin(set, path, HF_F64, -1, 2), HF_E_ARG);
    assert_int_equal(hf_file_set_begin(set, path, HF_DTYPE_NONE, 3, 2), HF_E_ARG);
    assert_int_equal(hf_file_set_begin(set, in_folder("no/a.npy"), HF_F64, 3, 2), HF_E_IO);
    assert_int_equal(hf_file_set_begin(set, path, HF_F64, 3, 2), HF_OK);
    assert_int_equal(hf_file_set_append(set, rows, 4 * sizeof *rows), HF_OK);
    assert_int_equal(hf_file_set_file(set, in_folder("other"), "x", 1), HF_E_ARG);
    assert_int_equal(hf_file_set_commit(set, NULL), HF_E_ARG);
    assert_non_null(strstr(hf_last_error(ctx), "not ended"));
    assert_int_equal(hf_file_set_end(set), HF_E_ARG); /* two values are missing */
    assert_non_null(strstr(hf_last_error(ctx), "160 bytes"));
    assert_int_equal(hf_file_set_begin(set, path, HF_F64, 3, 2), HF_OK);
    assert_int_equal(hf_file_set_append(set, rows, 5 * sizeof *rows), HF_OK);
    assert_int_equal(hf_file_set_append(set, rows + 5, sizeof *rows), HF_OK);
    assert_int_equal(hf_file_set_end(set), HF_OK);
    assert_int_equal(hf_file_set_begin(set, in_folder("pieces.txt"), HF_DTYPE_NONE, 0, 0), HF_OK);
    assert_int_equal(hf_file_set_append(set, "1\n2\n", 4), HF_OK);
    assert_int_equal(hf_file_set_end(set), HF_OK);
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(hf_file_set_begin(set, in_folder("late.npy"), HF_F64, 3, 2), HF_OK);
    assert_int_equal(hf_file_set_append(set, rows, 8), HF_OK);
    hf_file_set_destroy(set); /* gives up the one that was begun, too */
    assert_int_equal(access(path, F_OK), -1);
    assert_int_equal(hf_file_set_create(ctx, &set), HF_OK);
    assert_int_equal(hf_file_set_begin(set, path, HF_F64, 3, 2), HF_OK);
    assert_int_equal(hf_file_set_append(set, rows, sizeof rows), HF_OK);
    assert_int_equal(hf_file_set_end(set), HF_OK);
    assert_int_equal(hf_file_set_commit(set, NULL), HF_OK);
    hf_file_set_destroy(set);
    hf_dataset *d = open_loaded(path);
    const hf_array *a = hf_dataset_array(d);
    assert_true(a->rows == 3 && a->cols == 2 && a->dtype == HF_F64);
    assert_memory_equal(a->data, rows, sizeof rows);
    hf_dataset_close(d);
}

static void test_file_set(void **state) {
    (void)state;
    hf_file_set *set = NULL;
    int64_t bytes = 0;
    uint32_t crc = 0;
    int appeared = -1;
    float x[2] = {1, 2};
    const hf_array a = hf_array_view(x, HF_F32, 2, 1);
    assert_int_equal(hf_file_set_create(ctx, &set), HF_OK);
    assert_int_equal(hf_file_set_npy(set, in_folder("set.npy"), &a), HF_OK);
    assert_int_equal(hf_file_set_npy_matrix(set, in_folder("set2.npy"), &a), HF_OK);
    assert_int_equal(hf_file_set_file(set, in_folder("set.txt"), "123456789", 9), HF_OK);
    /* what cannot be added leaves the set as it was */
    assert_int_equal(hf_file_set_file(set, in_folder("no/set.txt"), "x", 1), HF_E_IO);
    assert_int_equal(hf_file_set_file(set, "", "x", 1), HF_E_ARG);
    assert_int_equal(hf_file_set_npy(set, in_folder("set.npy"), NULL), HF_E_ARG);
    assert_int_equal(hf_file_set_at(set, 0, &bytes, &crc), 1);
    assert_int_equal(bytes, 128 + 8);
    assert_int_equal(hf_file_set_at(set, 2, &bytes, &crc), 1);
    assert_int_equal(bytes, 9);
    assert_int_equal(crc, 0xcbf43926u); /* the check value of CRC-32 */
    assert_int_equal(hf_file_set_at(set, 3, &bytes, &crc), 0);
    assert_false(there("set.npy") || there("set2.npy") || there("set.txt"));
    assert_int_equal(hf_file_set_commit(set, &appeared), HF_OK);
    assert_int_equal(appeared, 3);
    assert_true(there("set.npy") && there("set2.npy") && there("set.txt"));
    assert_int_equal(hf_file_set_commit(set, &appeared), HF_OK); /* nothing is left to do */
    assert_int_equal(appeared, 0);
    assert_int_equal(hf_file_set_file(set, in_folder("late.txt"), "x", 1), HF_OK);
    hf_file_set_destroy(set);
    assert_false(there("late.txt") || there(".late.txt.0.holdfast"));
    assert_int_equal(hf_file_set_create(ctx, &set), HF_OK);
    for (int i = 0; i < 16; i++)
        assert_int_equal(hf_file_set_file(set, in_folder("many.txt"), "x", 1), HF_OK);
    assert_int_equal(hf_file_set_file(set, in_folder("many.txt"), "x", 1), HF_E_ARG);
    hf_file_set_destroy(set);
    hf_file_set_destroy(NULL);
    assert_int_equal(hf_file_set_create(NULL, &set), HF_E_ARG);
    assert_int_equal(hf_file_set_create(ctx, NULL), HF_E_ARG);
    assert_int_equal(hf_file_set_npy(NULL, "x", &a), HF_E_ARG);
    assert_int_equal(hf_file_set_commit(NULL, NULL), HF_E_ARG);
}

static void test_write_check(void **state) {
    (void)state;
    assert_int_equal(hf_write_check(ctx, in_folder("would.npy")), HF_OK);
    assert_false(there("would.npy") || there(".would.npy.0.holdfast"));
    assert_int_equal(hf_write_check(ctx, in_folder("no/such/folder.npy")), HF_E_IO);
    assert_int_equal(hf_write_check(ctx, folder), HF_E_IO);
    assert_int_equal(hf_write_check(ctx, ""), HF_E_ARG);
    assert_int_equal(hf_write_check(NULL, "x"), HF_E_ARG);
}

/* Files that NumPy itself wrote; see data/io/README.md. */
static void test_numpy_wrote(void **state) {
    (void)state;
    static const char *const names[] = {"f2.npy",
                                        "f4.npy",
                                        "f8.npy",
                                        "u1.npy",
                                        "i2.npy",
                                        "i4.npy",
                                        "i8.npy",
                                        "b1.npy",
                                        "f4f.npy",
                                        "f4big.npy",
                                        "f4v2.npy",
                                        "f4v3.npy",
                                        "savez.npz:a",
                                        "savez.npz:b.npy",
                                        "savez_compressed.npz:a",
                                        "savez_compressed.npz:b"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[600];
        (void)snprintf(path, sizeof path, HF_TEST_DATA "/io/numpy_%s", names[k]);
        hf_dataset *d = open_loaded(path);
        const hf_array *a = hf_dataset_array(d);
        assert_true(a->rows == 4 && a->cols == 3);
        for (int64_t e = 0; e < 12; e++)
            assert_true(at(a, e / 3, e % 3) ==
                        (strcmp(names[k], "b1.npy") == 0 ? (double)(e % 2) : (double)e));
        if (strstr(names[k], "compressed") == NULL)
            expect_same_streamed(path, a);
        hf_dataset_close(d);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types_orders_versions),
        cmocka_unit_test(test_fortran_blocks),
        cmocka_unit_test(test_shapes),
        cmocka_unit_test(test_bad_headers),
        cmocka_unit_test(test_every_length),
        cmocka_unit_test(test_whole_numbers),
        cmocka_unit_test(test_whole_numbers_streamed),
        cmocka_unit_test(test_large),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_write_refuses),
        cmocka_unit_test(test_file_in_pieces),
        cmocka_unit_test(test_file_set),
        cmocka_unit_test(test_write_check),
        cmocka_unit_test(test_numpy_wrote),
    };
    return cmocka_run_group_tests_name("io_npy", tests, io_setup, io_teardown);
}
