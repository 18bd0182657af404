/* SPDX-License-Identifier: Apache-2.0
 * Data files opened with columns, missing values, a header and a scaling asked for. */
#include "test_io.h"

#include <math.h>
#include <zlib.h>

/* text must become rows x cols with these values, NaN for NaN. */
static void expect_opened(const char *text, const hf_open_opts *opts, int64_t rows, int64_t cols,
                          const double *values) {
    hf_dataset *d = open_opts(make_text("t.csv", text), opts);
    const hf_array *a = hf_dataset_array(d);
    assert_non_null(a);
    if (a->rows != rows || a->cols != cols)
        fail_msg("[%lld, %lld] of: %s", (long long)a->rows, (long long)a->cols, text);
    for (int64_t e = 0; e < rows * cols; e++) {
        const double v = at(a, 0, e);
        if (isnan(values[e]) ? !isnan(v) : v != (double)(float)values[e])
            fail_msg("element %lld is %g in: %s", (long long)e, v, text);
    }
    hf_dataset_close(d);
}

static const char table[] = "id,city,lat,\"lon, east\",2019\n"
                            "1,Bern,46.5,7.25,12\n"
                            "2,\"Basel, \"\"BS\"\"\",47.5,7.5,13\n";

static void test_columns_of_text(void **state) {
    (void)state;
    static const struct {
        const char *keep, *skip;
        int64_t cols;
        double values[8];
    } cases[] = {
        {"3,4", NULL, 2, {46.5, 7.25, 47.5, 7.5}},
        {"4,3", NULL, 2, {7.25, 46.5, 7.5, 47.5}},
        {"lat", NULL, 1, {46.5, 47.5}},
        {" lat , \"lon, east\" ", NULL, 2, {46.5, 7.25, 47.5, 7.5}},
        {"\"2019\",id", NULL, 2, {12, 1, 13, 2}},
        {"3-", NULL, 3, {46.5, 7.25, 12, 47.5, 7.5, 13}},
        {"-1,5-5", NULL, 2, {1, 12, 2, 13}},
        {NULL, "city", 4, {1, 46.5, 7.25, 12, 2, 47.5, 7.5, 13}},
        {NULL, "-2,2,city,5", 2, {46.5, 7.25, 47.5, 7.5}},
        {"1-5", "2-4", 2, {1, 12, 2, 13}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const hf_open_opts opts = {
            .columns = cases[i].keep, .skip_columns = cases[i].skip, .header = HF_HEADER_YES};
        expect_opened(table, &opts, 2, cases[i].cols, cases[i].values);
    }
    const hf_open_opts auto_header = {.columns = "id,city"};
    expect_error(make_text("t.csv", table), &auto_header, HF_E_DATA, "column 2 (city) holds text");
    const hf_open_opts opts = {.columns = "2019", .header = HF_HEADER_YES};
    expect_error(make_text("t.csv", table), &opts, HF_E_DATA,
                 "t.csv: opts.columns 2019: there is no such column, its rows have 5|quotes");
}

static void test_what_columns_are_called(void **state) {
    (void)state;
    const hf_open_opts opts = {.columns = "4-5,1", .header = HF_HEADER_YES};
    hf_dataset *d = open_opts(make_text("t.csv", table), &opts);
    const char *name = NULL;
    assert_int_equal(hf_dataset_column(d, 0, &name), 4);
    assert_string_equal(name, "lon, east");
    assert_int_equal(hf_dataset_column(d, 2, &name), 1);
    assert_string_equal(name, "id");
    assert_int_equal(hf_dataset_column(d, 3, &name), 0);
    assert_int_equal(hf_dataset_column(d, -1, NULL), 0);
    assert_int_equal(hf_dataset_column(NULL, 0, NULL), 0);
    assert_null(hf_dataset_scaling(d));
    assert_string_equal(hf_dataset_warning(d), "");
    hf_dataset_close(d);
    d = open_loaded(make_text("t.csv", "1,2\n"));
    assert_int_equal(hf_dataset_column(d, 1, &name), 2);
    assert_null(name);
    hf_dataset_close(d);
}

static void test_lists_that_are_wrong(void **state) {
    (void)state;
    static const struct {
        const char *keep, *skip, *missing;
        hf_status status;
        const char *words;
    } cases[] = {
        {"", NULL, NULL, HF_E_ARG, "opts.columns: an item of the list is empty|2,5-9"},
        {"1,,2", NULL, NULL, HF_E_ARG, "empty"},
        {"1,", NULL, NULL, HF_E_ARG, "empty"},
        {"0", NULL, NULL, HF_E_ARG, "opts.columns: 0: columns are counted from 1"},
        {"0-2", NULL, NULL, HF_E_ARG, "from 1"},
        {"-0", NULL, NULL, HF_E_ARG, "from 1"},
        {"3-2", NULL, NULL, HF_E_ARG, "3-2: a range goes from the lower number"},
        {"\"lat", NULL, NULL, HF_E_ARG, "quotes"},
        {"\"lat\"x", NULL, NULL, HF_E_ARG, "quotes"},
        {NULL, "1,", NULL, HF_E_ARG, "opts.skip_columns"},
        {NULL, NULL, "", HF_E_ARG, "opts.missing: an item of the list is empty|-9999"},
        {"6", NULL, NULL, HF_E_DATA, "opts.columns 6: there is no such column, its rows have 5"},
        {"4-6", NULL, NULL, HF_E_DATA, "4-6: there is no such column"},
        {"6-", NULL, NULL, HF_E_DATA, "6-: there is no such column"},
        {"99999999999999999999", NULL, NULL, HF_E_DATA, "no such column"},
        {"3,2-4", NULL, NULL, HF_E_DATA, "column 3 is in the list twice"},
        {"lat,3", NULL, NULL, HF_E_DATA, "column 3 is in the list twice"},
        {"Lat", NULL, NULL, HF_E_DATA,
         "'Lat': no column has that name; the header has 'id', 'city'"},
        {NULL, "height", NULL, HF_E_DATA, "opts.skip_columns 'height': no column has that name"},
        {"1", "-5", NULL, HF_E_DATA, "opts.skip_columns -5: no column is left"},
        {"1-3", NULL, NULL, HF_E_DATA, "line 2: column 2 (city) holds text (the first 'Bern')|2"},
    };
    const char *path = make_text("t.csv", table);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const hf_open_opts opts = {
            .columns = cases[i].keep, .skip_columns = cases[i].skip, .missing = cases[i].missing};
        expect_error(path, &opts, cases[i].status, cases[i].words);
    }
    const hf_open_opts name = {.columns = "a"};
    expect_error(make_text("t.csv", "a,b,a\n1,2,3\n"), &name, HF_E_DATA,
                 "'a': columns 1 and 3 both have that name");
    const hf_open_opts none = {.columns = "a", .header = HF_HEADER_NO};
    expect_error(make_text("t.csv", "1,2,3\n"), &none, HF_E_DATA, "'a': it has no header");
}

static void test_text_is_named(void **state) {
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"k7,1.5,x\nk8,2.5,y\n",
         "line 1: columns 1, 3 hold text (the first 'k7')|them out with opts.skip_columns 1,3, or|"
         "HF_HEADER_YES"},
        {"id,v,city\n k7,1.5,x\n",
         "line 2: columns 1 (id), 3 (city) hold text (the first 'k7')|opts.skip_columns 1,3"},
        {"a,b\n1,2\n3,four\n",
         "line 3, column 2 (b): 'four' is not a number|opts.missing 'four'|opts.skip_columns 2"},
        {"1;2\n1,5;2\n", "decimals need a point"},
        {"1;2,5\n", "decimals need a point"},
        {"\"a\nb\",c\n1,x\n", "line 3: column 2 (c) holds text"},
        {"1,2,\n3,4,\n", "column 3 has no value in any row|delimiter|opts.skip_columns 3"},
        {"1,NA,2\n3,,4\n", "column 2 has no value in any row; leave"},
        {"a,\"b\n1,2\n", "line 1: a quote opens a field there and nothing closes it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_error(make_text("t.csv", cases[i].text), NULL, HF_E_DATA, cases[i].words);
    /* hundreds of columns of text do not fit a message */
    char wide[4000] = "";
    for (int i = 0; i < 1000; i++)
        (void)strcat(wide, i > 0 ? ",x" : "x");
    (void)strcat(wide, "\n");
    const hf_open_opts row = {.header = HF_HEADER_NO};
    expect_error(make_text("t.csv", wide), &row, HF_E_DATA,
                 "columns 1, 2, 3, 4, 5|skip_columns 1,2");
}

static void test_missing_fields(void **state) {
    (void)state;
    const double nan = (double)NAN;
    expect_opened("a,b\n1,\n,2\n3,4\n", NULL, 3, 2, (const double[]){1, nan, nan, 2, 3, 4});
    expect_opened("1,2\n\"\",  \nNA,NaN\nnull,NULL\nN/A,#N/A\nnan,<NA>\nNone,-nan\nn/a,#NA\n", NULL,
                  8, 2,
                  (const double[]){1, 2, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan,
                                   nan, nan});
    expect_opened("1;;3\n4;5;\n", NULL, 2, 3, (const double[]){1, nan, 3, 4, 5, nan});
    expect_opened("1\t\t3\n4\t5\t6\n", NULL, 2, 3, (const double[]){1, nan, 3, 4, 5, 6});
    expect_opened("NA,,x\n,1,2\n3,4,5\n", NULL, 2, 3, (const double[]){nan, 1, 2, 3, 4, 5});
    expect_error(make_text("t.csv", "1,2\n3,na?\n"), NULL, HF_E_DATA, "'na?' is not a number");
    const hf_open_opts opts = {.missing = "-9999, ?,\"a,\"\"b\"\"\",1e20"};
    expect_opened("1,2\n-9999,?\n-9999.0,-9.999e3\n\"a,\"\"b\"\"\",5\n100000000000000000000,6\n",
                  &opts, 5, 2, (const double[]){1, 2, nan, nan, nan, nan, nan, 5, nan, 6});
    /* the last stays float32 although 1e20 + 1 is there: it means a missing value */
    const hf_open_opts large = {.missing = "123456789"};
    expect_opened("0.1\n123456789\n", &large, 2, 1, (const double[]){0.1, nan});
}

static void test_headers(void **state) {
    (void)state;
    static const char years[] = "2019,2020,2021\n1.5,2.5,3.5\n4.5,5.5,6.5\n";
    const double all[9] = {2019, 2020, 2021, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5};
    const hf_open_opts yes = {.header = HF_HEADER_YES};
    const hf_open_opts no = {.header = HF_HEADER_NO};
    expect_opened(years, NULL, 3, 3, all);
    expect_opened(years, &no, 3, 3, all);
    expect_opened(years, &yes, 2, 3, all + 3);
    const hf_open_opts named = {.columns = "\"2020\""};
    expect_opened(years, &named, 2, 1, (const double[]){2.5, 5.5});
    expect_opened("name,2019\nx,1\n", &(hf_open_opts){.header = HF_HEADER_YES, .columns = "2"}, 1,
                  1, (const double[]){1});
    expect_opened("\"a\nb\",\"c\r\n\r\n,d\"\n1,2\n", NULL, 1, 2, (const double[]){1, 2});
    expect_opened("a,note\n1,\"first\n\n2,3\nlast\"\n4,\"\"\"\n\"\"\"\n",
                  &(hf_open_opts){.skip_columns = "note"}, 2, 1, (const double[]){1, 4});
    expect_opened("a,b\n1,5\"\n2,7\"\n", &(hf_open_opts){.columns = "1"}, 2, 1,
                  (const double[]){1, 2});
    expect_error(make_text("t.csv", "a,b\n1,2\n"), &no, HF_E_DATA,
                 "line 1: columns 1, 2 hold text (the first 'a'); leave them out");
    expect_error(make_text("t.csv", "1,2\n"), &yes, HF_E_DATA, "only a header");
}

static void expect_warning(const char *text, bool warns) {
    hf_dataset *d = open_loaded(make_text("t.csv", text));
    const char *words = hf_dataset_warning(d);
    if ((strstr(words, "t.csv: its first line was taken for a row") != NULL) != warns)
        fail_msg("warning '%s' of: %s", words, text);
    hf_dataset_close(d);
    const hf_open_opts no = {.header = HF_HEADER_NO};
    d = open_opts(in_folder("t.csv"), &no);
    assert_string_equal(hf_dataset_warning(d), "");
    hf_dataset_close(d);
}

static void test_first_lines_that_look_like_headers(void **state) {
    (void)state;
    expect_warning("2019,2020\n1.5,2.5\n3,4\n", true);
    expect_warning("1990,1995,2010\n5,6,7\n8,9,9\n", true);
    expect_warning("0,1,2,3\n0.5,0.25,0.5,0.75\n", true);
    expect_warning("1,2,3\n100,200,300\n150,250,350\n", true);
    expect_warning("10,20,30\n1,2,3\n4,5,6\n", true);
    /* whole numbers like those below or that go on below, no run, one column, one row */
    expect_warning("1,2,3\n4,5,6\n7,8,9\n", false);
    expect_warning("1,2,3\n4,,6\n", false);
    expect_warning("1,2,3\n3,2,1\n0,4,2\n", false);
    expect_warning("2019,2020\n2018,2021\n2022,2017\n", false);
    expect_warning("10,25\n0.5,0.5\n", false);
    expect_warning("1,2,4\n0.5,0.5,0.5\n", false);
    expect_warning("1.0,2.0,3.0\n0.5,0.5,0.5\n", false);
    expect_warning("7,7,7\n0.5,0.5,0.5\n", false);
    expect_warning("2019\n1.5\n", false);
    expect_warning("2019,2020\n", false);
}

/* A .npy of float32 0, 1, 2, ...; [rows, 4]; a gzip of it with the ending .gz. */
static const char *make_npy(const char *name, int64_t rows, float first) {
    float *v = malloc((size_t)rows * 4 * sizeof *v);
    assert_non_null(v);
    for (int64_t e = 0; e < rows * 4; e++)
        v[e] = first + (float)e;
    const hf_array a = hf_array_view(v, HF_F32, rows, 4);
    const char *path = in_folder(name);
    assert_int_equal(hf_write_npy(ctx, path, &a), HF_OK);
    free(v);
    return path;
}

/* Loaded and read in chunks, a table gives the same prepared rows. */
static void test_tables(void **state) {
    (void)state;
    const char *path = make_npy("t.npy", 50, 0);
    for (hf_scale m = HF_SCALE_NONE; m <= HF_SCALE_MINMAX; m++) {
        const hf_open_opts load = {.columns = "4,2", .missing = "9,99.0", .scale = m};
        hf_open_opts stream = load;
        stream.stream = 1;
        hf_dataset *d = open_opts(path, &load);
        hf_dataset *e = open_opts(path, &stream);
        const hf_array *a = hf_dataset_array(d);
        const hf_source *s = hf_dataset_source(e);
        assert_true(a != NULL && s != NULL && hf_dataset_array(e) == NULL);
        assert_true(a->rows == 50 && a->cols == 2 && s->rows == 50 && s->cols == 2);
        assert_int_equal(hf_dataset_column(d, 0, NULL), 4);
        assert_true((hf_dataset_scaling(e) != NULL) == (m != HF_SCALE_NONE));
        float rows[100];
        for (int64_t i = 0; i < 50; i += 7)
            assert_int_equal(s->read(s->user, i, i + 7 > 50 ? 50 - i : 7, rows + 2 * i, NULL, 0),
                             HF_OK);
        assert_memory_equal(rows, a->data, sizeof rows);
        assert_true(isnan(at(a, 2, 1)) && isnan(at(a, 24, 0)));
        hf_dataset_close(d);
        hf_dataset_close(e);
    }
    const hf_open_opts name = {.skip_columns = "lat"};
    expect_error(path, &name, HF_E_DATA, "t.npy: opts.skip_columns 'lat': it has no header");
    const hf_open_opts word = {.missing = "1,?"};
    expect_error(path, &word, HF_E_DATA, "t.npy: opts.missing '?'|numbers alone");
    const hf_open_opts five = {.columns = "5"};
    expect_error(path, &five, HF_E_DATA, "no such column, its rows have 4");
    const double one[1] = {1};
    const hf_scaling narrow = {HF_SCALE_MINMAX, 1, one, one};
    const hf_open_opts given = {.scaling = &narrow};
    expect_error(path, &given, HF_E_DATA, "of 1 columns, but its rows have 4|opts.columns");
}

/* A header that promises more columns than the file has is no reason to ask for memory for them. */
static void test_promised_columns(void **state) {
    (void)state;
    const unsigned char idx[24] = {0, 0, 13, 3, 0, 0, 0, 1, 127, 255, 255, 255, 0, 0, 0, 40};
    const char *path = make_file("promise.idx", idx, sizeof idx);
    expect_error(path, &(hf_open_opts){.columns = "1-7"}, HF_E_DATA, "promise.idx");
    expect_error(path, &(hf_open_opts){.scale = HF_SCALE_ROBUST}, HF_E_DATA, "promise.idx");
}

/* Bytes grow when they are scaled: what does not fit any more is read in chunks, from the file or
 * from what was decompressed. A few columns of a file that is too large are loaded. */
static void test_limits(void **state) {
    (void)state;
    enum { N = 200000 };
    unsigned char *bytes = malloc(N);
    assert_non_null(bytes);
    for (int i = 0; i < N; i++)
        bytes[i] = (unsigned char)(i * 7);
    const hf_array a = hf_array_view(bytes, HF_U8, N / 4, 4);
    const char *plain = in_folder("b.npy");
    assert_int_equal(hf_write_npy(ctx, plain, &a), HF_OK);
    char content[N + 128];
    FILE *f = fopen(plain, "rb");
    assert_non_null(f);
    assert_int_equal(fread(content, 1, sizeof content, f), sizeof content);
    (void)fclose(f);
    gzFile gz = gzopen(in_folder("b.npy.gz"), "wb1");
    assert_int_equal(gzwrite(gz, content, sizeof content), sizeof content);
    assert_int_equal(gzclose(gz), Z_OK);
    hf_dataset *fits = open_opts(plain, &(hf_open_opts){.scale = HF_SCALE_ROBUST});
    const hf_array *x = hf_dataset_array(fits);
    assert_true(x != NULL && x->dtype == HF_F32);
    const char *const paths[] = {plain, in_folder("b.npy.gz")};
    for (int p = 0; p < 2; p++) {
        const hf_open_opts tight = {.scale = HF_SCALE_ROBUST, .memory_bytes = N * 3};
        hf_dataset *d = open_opts(paths[p], &tight);
        const hf_source *s = hf_dataset_source(d);
        assert_non_null(s);
        float *rows = malloc(N * sizeof *rows);
        assert_non_null(rows);
        for (int64_t i = 0; i < N / 4; i += 999)
            assert_int_equal(
                s->read(s->user, i, i + 999 > N / 4 ? N / 4 - i : 999, rows + 4 * i, NULL, 0),
                HF_OK);
        assert_memory_equal(rows, x->data, N * sizeof *rows);
        free(rows);
        hf_dataset_close(d);
    }
    hf_dataset_close(fits);
    hf_dataset *few = open_opts(plain, &(hf_open_opts){.columns = "3", .memory_bytes = N / 2});
    assert_non_null(hf_dataset_array(few));
    assert_int_equal(hf_dataset_array(few)->cols, 1);
    for (int i = 0; i < N / 4; i++)
        assert_true(at(hf_dataset_array(few), i, 0) == bytes[4 * i + 2]);
    hf_dataset_close(few);
    free(bytes);
}

/* Scaled text is scaled where it lies; rows with missing values do not count. */
static void test_scaled_text(void **state) {
    (void)state;
    const hf_open_opts opts = {.scale = HF_SCALE_MINMAX, .columns = "b,a"};
    hf_dataset *d = open_opts(make_text("t.csv", "a,b\n1,10\n3,30\n100,\n2,20\n"), &opts);
    const hf_scaling *s = hf_dataset_scaling(d);
    assert_true(s != NULL && s->cols == 2 && s->shift[0] == 10 && s->unit[0] == 20);
    assert_true(s->shift[1] == 1 && s->unit[1] == 2);
    const hf_array *a = hf_dataset_array(d);
    assert_true(at(a, 0, 0) == 0 && at(a, 1, 1) == 1 && isnan(at(a, 2, 0)) && at(a, 3, 0) == 0.5);
    assert_true(at(a, 2, 1) == 49.5);
    hf_dataset_close(d);
    const hf_open_opts all = {.scale = HF_SCALE_STANDARD};
    expect_error(make_text("t.csv", "1,\n,2\n"), &all, HF_E_DATA, "t.csv: every row has a missing");
}

/* Quartiles that are equal are no unit; constant columns need none. */
static void test_equal_quartiles(void **state) {
    (void)state;
    const char *path = make_text("t.csv", "a,b,c\n0,1,5\n0,2,5\n0,3,5\n0,4,5\n1e6,5,5\n");
    hf_dataset *d = open_opts(path, &(hf_open_opts){.scale = HF_SCALE_ROBUST});
    assert_non_null(strstr(hf_dataset_warning(d), "t.csv: column 1 (a): half of the values"));
    assert_true(hf_dataset_scaling(d)->unit[0] == 1 && hf_dataset_scaling(d)->unit[1] == 2);
    hf_dataset_close(d);
    d = open_opts(path, &(hf_open_opts){.scale = HF_SCALE_ROBUST, .skip_columns = "a"});
    assert_string_equal(hf_dataset_warning(d), "");
    hf_dataset_close(d);
    d = open_opts(path, &(hf_open_opts){.scale = HF_SCALE_STANDARD});
    assert_string_equal(hf_dataset_warning(d), "");
    hf_dataset_close(d);
}

/* Parameters that went through text give the rows, and so the labels, of the fit bit for bit. */
static void test_fit_and_predict(void **state) {
    (void)state;
    const char *path = make_npy("fit.npy", 5000, -1e4F / 3);
    for (hf_scale m = HF_SCALE_STANDARD; m <= HF_SCALE_MINMAX; m++) {
        hf_dataset *d = open_opts(path, &(hf_open_opts){.columns = "2-", .scale = m});
        const hf_array *x = hf_dataset_array(d);
        const hf_kmeans_opts opts = {.k = 40, .seed = 3, .max_iter = 5};
        hf_kmeans_result fit;
        assert_int_equal(hf_kmeans_fit(ctx, x, &opts, &fit), HF_OK);
        double shift[3], unit[3];
        for (int j = 0; j < 3; j++) {
            char text[40];
            (void)snprintf(text, sizeof text, "%.17g", hf_dataset_scaling(d)->shift[j]);
            shift[j] = strtod(text, NULL);
            (void)snprintf(text, sizeof text, "%.17g", hf_dataset_scaling(d)->unit[j]);
            unit[j] = strtod(text, NULL);
        }
        const hf_scaling given = {m, 3, shift, unit};
        hf_dataset *e =
            open_opts(path, &(hf_open_opts){.columns = "2-", .scaling = &given, .stream = 1});
        int32_t labels[5000];
        double inertia = 0;
        assert_int_equal(hf_kmeans_predict(ctx, NULL, hf_dataset_source(e), &fit.centroids,
                                           HF_EUCLIDEAN, HF_EXACT, NULL, labels, NULL, &inertia),
                         HF_OK);
        assert_memory_equal(labels, fit.labels, sizeof labels);
        assert_true(inertia == fit.inertia);
        hf_kmeans_result_clear(&fit);
        hf_dataset_close(d);
        hf_dataset_close(e);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_of_text),
        cmocka_unit_test(test_what_columns_are_called),
        cmocka_unit_test(test_lists_that_are_wrong),
        cmocka_unit_test(test_text_is_named),
        cmocka_unit_test(test_missing_fields),
        cmocka_unit_test(test_headers),
        cmocka_unit_test(test_first_lines_that_look_like_headers),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_promised_columns),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_scaled_text),
        cmocka_unit_test(test_equal_quartiles),
        cmocka_unit_test(test_fit_and_predict),
    };
    return cmocka_run_group_tests(tests, io_setup, io_teardown);
}
