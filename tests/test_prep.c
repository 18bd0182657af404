/* SPDX-License-Identifier: Apache-2.0
 * Prepared rows: columns, missing values, scaling; the parameters against plain float64. */
#include "test_io.h"

#include "base/rng.h"

#include <math.h>

enum { ROWS = 1000, COLS = 5 };

/* Reads from an array, so many rows at a time at most, and counts the rows read. */
struct feed {
    hf_array x;
    int64_t read;
};

static hf_status feed_read(void *user, int64_t first, int64_t count, void *dst, char *message,
                           size_t message_bytes) {
    struct feed *f = user;
    (void)message;
    (void)message_bytes;
    const size_t row = (size_t)f->x.cols * hf_dtype_bytes(f->x.dtype);
    memcpy(dst, (const char *)f->x.data + (size_t)first * row, (size_t)count * row);
    f->read += count;
    return HF_OK;
}

static hf_source source_of(struct feed *f) {
    return (hf_source){f->x.rows, f->x.cols, f->x.dtype, feed_read, f};
}

static hf_prep *make(const hf_array *x, const hf_prep_opts *opts) {
    hf_prep *p = NULL;
    if (hf_prep_create(ctx, x, NULL, opts, &p) != HF_OK)
        fail_msg("%s", hf_last_error(ctx));
    return p;
}

/* All rows, `chunk` at a time, to be freed. */
static void *read_all(const hf_prep *p, int64_t chunk) {
    const hf_source *s = hf_prep_source(p);
    const size_t row = (size_t)s->cols * hf_dtype_bytes(s->dtype);
    char *rows = malloc((size_t)s->rows * row);
    char message[300] = "";
    assert_non_null(rows);
    for (int64_t i = 0; i < s->rows; i += chunk) {
        const int64_t now = s->rows - i < chunk ? s->rows - i : chunk;
        if (s->read(s->user, i, now, rows + (size_t)i * row, message, sizeof message) != HF_OK)
            fail_msg("%s", message);
    }
    return rows;
}

/* Columns of different size and spread; the last one is constant. */
static void fill(double *v, int64_t rows) {
    struct hf_rng rng = {.seed = 7};
    for (int64_t i = 0; i < rows; i++) {
        v[i * COLS] = hf_rng_next_unit(&rng);
        v[i * COLS + 1] = -1e6 + 1e3 * hf_rng_next_unit(&rng);
        v[i * COLS + 2] = exp(20 * hf_rng_next_unit(&rng) - 10);
        v[i * COLS + 3] = floor(hf_rng_next_unit(&rng) * 4);
        v[i * COLS + 4] = 0.1;
    }
}

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a;
    const double y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The value at q of n sorted ones, between two neighbours on a line. */
static double quantile(const double *sorted, int64_t n, double q) {
    const double at = q * (double)(n - 1);
    const int64_t low = (int64_t)floor(at);
    const int64_t high = low + 1 < n ? low + 1 : low;
    return sorted[low] + (sorted[high] - sorted[low]) * (at - (double)low);
}

/* Shift and unit of column j by the definitions, rows without NaN alone. */
static void define(const hf_array *x, int64_t j, hf_scale method, double *shift, double *unit) {
    double *v = malloc((size_t)x->rows * sizeof *v);
    long double sum = 0;
    long double squares = 0;
    int64_t n = 0;
    assert_non_null(v);
    for (int64_t i = 0; i < x->rows; i++) {
        bool whole = true;
        for (int64_t c = 0; c < x->cols; c++)
            whole = whole && isfinite(at(x, i, c));
        if (whole)
            v[n++] = at(x, i, j);
    }
    qsort(v, (size_t)n, sizeof *v, compare);
    for (int64_t i = 0; i < n; i++)
        sum += v[i];
    for (int64_t i = 0; i < n; i++)
        squares += (v[i] - sum / n) * (v[i] - sum / n);
    *shift = method == HF_SCALE_STANDARD ? (double)(sum / n)
             : method == HF_SCALE_ROBUST ? quantile(v, n, 0.5)
                                         : v[0];
    *unit = method == HF_SCALE_STANDARD ? (double)sqrtl(squares / n)
            : method == HF_SCALE_ROBUST ? quantile(v, n, 0.75) - quantile(v, n, 0.25)
                                        : v[n - 1] - v[0];
    *unit = v[0] == v[n - 1] || *unit == 0 ? 1 : *unit;
    free(v);
}

/* Extremes and order statistics are exact. A mean is: a compensated sum has an error of two units
 * in the last place of the sum of absolute deviations, and its square enters the variance. */
static void expect_parameters(const hf_array *x, hf_scale method) {
    const hf_prep_opts opts = {.scale = method};
    hf_prep *p = make(x, &opts);
    const hf_scaling *s = hf_prep_scaling(p);
    assert_true(s->method == method && s->cols == x->cols);
    const double slack = method == HF_SCALE_STANDARD ? 8 * 0x1p-52 : 2 * 0x1p-52;
    for (int64_t j = 0; j < x->cols; j++) {
        double shift, unit;
        define(x, j, method, &shift, &unit);
        const double size = fabs(shift) + unit;
        if (fabs(s->shift[j] - shift) > slack * size || fabs(s->unit[j] - unit) > slack * size)
            fail_msg("%s, column %lld: %.17g %.17g, not %.17g %.17g", hf_scale_name(method),
                     (long long)j, s->shift[j], s->unit[j], shift, unit);
    }
    hf_prep_destroy(p);
}

static void test_parameters(void **state) {
    (void)state;
    double wide[ROWS * COLS];
    float narrow[ROWS * COLS];
    static const hf_scale methods[] = {HF_SCALE_STANDARD, HF_SCALE_ROBUST, HF_SCALE_MINMAX};
    static const int64_t rows[] = {1, 2, 3, 4, 5, 6, 7, 8, 997, ROWS};
    fill(wide, ROWS);
    for (int e = 0; e < ROWS * COLS; e++)
        narrow[e] = (float)wide[e];
    for (int r = 0; r < 10; r++)
        for (int m = 0; m < 3; m++) {
            const hf_array x = hf_array_view(wide, HF_F64, rows[r], COLS);
            const hf_array y = hf_array_view(narrow, HF_F32, rows[r], COLS);
            expect_parameters(&x, methods[m]);
            expect_parameters(&y, methods[m]);
        }
    /* rows with NaN or Inf count in no column */
    wide[3] = (double)NAN;
    wide[17 * COLS] = HUGE_VAL;
    wide[18 * COLS + 4] = -HUGE_VAL;
    const hf_array x = hf_array_view(wide, HF_F64, ROWS, COLS);
    for (int m = 0; m < 3; m++)
        expect_parameters(&x, methods[m]);
}

/* Every type of rows, scaled, is (x - shift) / unit in float64, rounded once. */
static void test_scaled(void **state) {
    (void)state;
    static const hf_dtype types[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};
    double wide[ROWS * COLS];
    char *raw = malloc(sizeof wide);
    assert_non_null(raw);
    fill(wide, ROWS);
    for (int t = 0; t < 5; t++)
        for (hf_scale m = HF_SCALE_STANDARD; m <= HF_SCALE_MINMAX; m++) {
            for (int e = 0; e < ROWS * COLS; e++)
                hf_store_f64(raw, types[t], e,
                             types[t] == HF_U8 ? fabs(fmod(wide[e], 200)) : fmod(wide[e], 500));
            const hf_array x = hf_array_view(raw, types[t], ROWS, COLS);
            const hf_prep_opts opts = {.scale = m};
            expect_parameters(&x, m);
            hf_prep *p = make(&x, &opts);
            const hf_scaling *s = hf_prep_scaling(p);
            const hf_dtype out = types[t] == HF_F64 ? HF_F64 : HF_F32;
            assert_int_equal(hf_prep_source(p)->dtype, out);
            void *rows = read_all(p, 333);
            for (int64_t e = 0; e < ROWS * COLS; e++) {
                const double v =
                    (hf_load_f64(raw, types[t], e) - s->shift[e % COLS]) / s->unit[e % COLS];
                assert_true(hf_load_f64(rows, out, e) == (out == HF_F32 ? (double)(float)v : v));
            }
            free(rows);
            hf_prep_destroy(p);
        }
    free(raw);
}

/* Chunks and sources give the bits of the array; x may be read over itself. */
static void test_chunks(void **state) {
    (void)state;
    double wide[ROWS * COLS];
    fill(wide, ROWS);
    wide[77] = -9999;
    static const int64_t columns[] = {4, 0, 2};
    static const double missing[] = {-9999};
    for (hf_scale m = HF_SCALE_NONE; m <= HF_SCALE_MINMAX; m++) {
        hf_array x = hf_array_view(wide, HF_F64, ROWS, COLS);
        const hf_prep_opts opts = {columns, 3, missing, 1, m, NULL};
        hf_prep *p = make(&x, &opts);
        void *whole = read_all(p, ROWS);
        struct feed feed = {x, 0};
        const hf_source source = source_of(&feed);
        hf_prep *q = NULL;
        assert_int_equal(hf_prep_create(ctx, NULL, &source, &opts, &q), HF_OK);
        assert_int_equal(feed.read, (m == HF_SCALE_NONE       ? 0
                                     : m == HF_SCALE_STANDARD ? 2
                                     : m == HF_SCALE_ROBUST   ? 7
                                                              : 1) *
                                        ROWS);
        for (int64_t chunk = 1; chunk <= ROWS; chunk = chunk * 5 + 2) {
            void *rows = read_all(q, chunk);
            assert_memory_equal(rows, whole, ROWS * 3 * sizeof(double));
            free(rows);
        }
        hf_prep_destroy(q);
        double copy[ROWS * COLS];
        memcpy(copy, wide, sizeof wide);
        x.data = copy;
        hf_prep_destroy(p);
        p = make(&x, &opts);
        const hf_source *s = hf_prep_source(p);
        assert_int_equal(s->read(s->user, 0, ROWS, copy, NULL, 0), HF_OK);
        assert_memory_equal(copy, whole, ROWS * 3 * sizeof(double));
        hf_prep_destroy(p);
        free(whole);
    }
}

/* Many columns are counted a part at a time where the limit asks for it. */
static void test_few_columns_at_a_time(void **state) {
    (void)state;
    double wide[ROWS * COLS];
    fill(wide, ROWS);
    const hf_array x = hf_array_view(wide, HF_F64, ROWS, COLS);
    const hf_context_opts tight = {.device = "cpu", .threads = 1, .memory_bytes = 1 << 20};
    const hf_prep_opts opts = {.scale = HF_SCALE_ROBUST};
    hf_context *small = NULL;
    assert_int_equal(hf_context_create(&small, &tight), HF_OK);
    struct feed feed = {x, 0};
    const hf_source source = source_of(&feed);
    hf_prep *p = make(&x, &opts);
    hf_prep *q = NULL;
    assert_int_equal(hf_prep_create(small, NULL, &source, &opts, &q), HF_OK);
    assert_int_equal(feed.read, (1 + 6 * COLS) * ROWS);
    assert_memory_equal(hf_prep_scaling(p)->shift, hf_prep_scaling(q)->shift,
                        COLS * sizeof(double));
    assert_memory_equal(hf_prep_scaling(p)->unit, hf_prep_scaling(q)->unit, COLS * sizeof(double));
    hf_prep_destroy(p);
    hf_prep_destroy(q);
    hf_context_destroy(small);
}

static void test_missing(void **state) {
    (void)state;
    /* -99.9 is not a float32, but means the float32 that is nearest to it */
    const float f[6] = {1, -99.9f, 3, 4, 0, -1};
    const double missing[] = {-99.9, 0, 255};
    const hf_prep_opts opts = {.missing = missing, .missing_count = 3};
    const hf_array x = hf_array_view((void *)f, HF_F32, 2, 3);
    hf_prep *p = make(&x, &opts);
    float *rows = read_all(p, 2);
    assert_int_equal(hf_prep_source(p)->dtype, HF_F32);
    assert_true(rows[0] == 1 && isnan(rows[1]) && rows[2] == 3 && isnan(rows[4]) && rows[5] == -1);
    free(rows);
    hf_prep_destroy(p);
    const unsigned char u[4] = {255, 7, 0, 9};
    const hf_array bytes = hf_array_view((void *)u, HF_U8, 2, 2);
    p = make(&bytes, &opts);
    rows = read_all(p, 1);
    assert_int_equal(hf_prep_source(p)->dtype, HF_F32);
    assert_true(isnan(rows[0]) && rows[1] == 7 && isnan(rows[2]) && rows[3] == 9);
    free(rows);
    hf_prep_destroy(p);
    uint16_t h[2] = {hf_f32_to_f16(-99.9f), hf_f32_to_f16(2)};
    const hf_array half = hf_array_view(h, HF_F16, 1, 2);
    p = make(&half, &opts);
    uint16_t *halves = read_all(p, 1);
    assert_int_equal(hf_prep_source(p)->dtype, HF_F16);
    assert_true(isnan(hf_f16_to_f32(halves[0])) && halves[1] == h[1]);
    free(halves);
    hf_prep_destroy(p);
}

/* Columns alone leave every bit, NaN included, and every type. */
static void test_columns(void **state) {
    (void)state;
    const uint32_t bits[6] = {0x7fc12345, 0x80000000, 1, 0xffa00001, 5, 6};
    static const int64_t columns[] = {2, 0};
    const hf_prep_opts opts = {.columns = columns, .columns_count = 2};
    const hf_array x = hf_array_view((void *)bits, HF_F32, 2, 3);
    hf_prep *p = make(&x, &opts);
    uint32_t *rows = read_all(p, 1);
    const uint32_t expected[4] = {1, 0x7fc12345, 6, 0xffa00001};
    assert_memory_equal(rows, expected, sizeof expected);
    assert_null(hf_prep_scaling(p));
    free(rows);
    hf_prep_destroy(p);
    const hf_array gaps = {(void *)bits, HF_U8, 3, 2, 4};
    p = make(&gaps, NULL);
    unsigned char *two = read_all(p, 2);
    for (int i = 0; i < 3; i++)
        assert_memory_equal(two + 2 * i, (const unsigned char *)bits + 4 * i, 2);
    free(two);
    hf_prep_destroy(p);
}

static void expect_refused(const hf_array *x, const hf_prep_opts *opts, hf_status status,
                           const char *words) {
    hf_prep *p = (hf_prep *)ctx;
    assert_int_equal(hf_prep_create(ctx, x, NULL, opts, &p), status);
    assert_null(p);
    if (strstr(hf_last_error(ctx), words) == NULL)
        fail_msg("no \"%s\" in: %s", words, hf_last_error(ctx));
}

static void test_refused(void **state) {
    (void)state;
    double v[4] = {1, 2, (double)NAN, 4};
    const hf_array x = hf_array_view(v, HF_F64, 2, 2);
    int32_t labels[2] = {1, 2};
    const hf_array whole = hf_array_view(labels, HF_I32, 2, 1);
    static const int64_t twice[] = {1, 1}, outside[] = {0, 2}, below[] = {-1};
    const double zero[2] = {0, 0}, odd[2] = {1, HUGE_VAL}, one[2] = {1, 1};
    const hf_scaling narrow = {HF_SCALE_MINMAX, 1, zero, one};
    const hf_scaling flat = {HF_SCALE_MINMAX, 2, zero, zero};
    const hf_scaling far = {HF_SCALE_MINMAX, 2, odd, one};
    expect_refused(&x, &(hf_prep_opts){.columns = twice, .columns_count = 2}, HF_E_ARG, "twice");
    expect_refused(&x, &(hf_prep_opts){.columns = outside, .columns_count = 2}, HF_E_ARG,
                   "column 2 (counted from 0) is not there");
    expect_refused(&x, &(hf_prep_opts){.columns = below, .columns_count = 1}, HF_E_ARG,
                   "column -1");
    expect_refused(&x, &(hf_prep_opts){.columns = twice}, HF_E_ARG, "0 columns");
    expect_refused(&x, &(hf_prep_opts){.missing_count = 1}, HF_E_ARG, "without values");
    expect_refused(&x, &(hf_prep_opts){.scale = (hf_scale)9}, HF_E_ARG, "no scaling 9");
    expect_refused(&x, &(hf_prep_opts){.scaling = &narrow}, HF_E_ARG, "of 1 columns");
    expect_refused(&x, &(hf_prep_opts){.scaling = &flat}, HF_E_ARG, "unit 0");
    expect_refused(&x, &(hf_prep_opts){.scaling = &far}, HF_E_ARG, "shift inf");
    expect_refused(&whole, NULL, HF_E_ARG, "i32");
    expect_refused(NULL, NULL, HF_E_ARG, "x or source");
    v[0] = (double)NAN;
    expect_refused(&x, &(hf_prep_opts){.scale = HF_SCALE_STANDARD}, HF_E_DATA, "every row");
    v[0] = 1;
    v[1] = 1e151;
    expect_refused(&x, &(hf_prep_opts){.scale = HF_SCALE_ROBUST}, HF_E_DATA,
                   "column 2 holds 1e+151");
    assert_int_equal(hf_prep_create(ctx, &x, NULL, NULL, NULL), HF_E_ARG);
    assert_int_equal(hf_prep_create(NULL, &x, NULL, NULL, NULL), HF_E_ARG);
}

/* Columns that vary by the least there is, or nearly not, are no division by zero. */
static void test_hardly_any_spread(void **state) {
    (void)state;
    double v[] = {1,      1e-310, 7,     1e150, 1,      3e-310, 7, -1e150, nextafter(1, 2),
                  1e-310, 8,      1e150, 1,     2e-310, 7,      0};
    const hf_array x = hf_array_view(v, HF_F64, 4, 4);
    for (hf_scale m = HF_SCALE_STANDARD; m <= HF_SCALE_MINMAX; m++) {
        const hf_prep_opts opts = {.scale = m};
        hf_prep *p = make(&x, &opts);
        double *rows = read_all(p, 4);
        for (int e = 0; e < 16; e++)
            if (!(fabs(rows[e]) <= 4))
                fail_msg("%s: %g becomes %g", hf_scale_name(m), v[e], rows[e]);
        free(rows);
        hf_prep_destroy(p);
    }
}

/* A value that float32 cannot hold when it is scaled is no Inf in silence. */
static void test_too_large(void **state) {
    (void)state;
    float v[20];
    for (int i = 0; i < 20; i++)
        v[i] = (float)i * 1e-30f;
    v[19] = 1e30f;
    const hf_array x = hf_array_view(v, HF_F32, 20, 1);
    const hf_prep_opts opts = {.scale = HF_SCALE_ROBUST};
    hf_prep *p = make(&x, &opts);
    const hf_source *s = hf_prep_source(p);
    float rows[20];
    char message[300] = "";
    assert_int_equal(s->read(s->user, 0, 20, rows, message, sizeof message), HF_E_DATA);
    assert_non_null(strstr(message, "row 19, column 0"));
    assert_int_equal(s->read(s->user, 0, 19, rows, message, sizeof message), HF_OK);
    assert_int_equal(s->read(s->user, 18, 3, rows, message, sizeof message), HF_E_ARG);
    assert_int_equal(s->read(s->user, -1, 1, rows, NULL, 0), HF_E_ARG);
    hf_prep_destroy(p);
}

/* Given parameters are used as they are; apply and undo are the same arithmetic. */
static void test_given(void **state) {
    (void)state;
    const double shift[2] = {1, -3}, unit[2] = {0.3, 7};
    const hf_scaling s = {HF_SCALE_STANDARD, 2, shift, unit};
    const float v[4] = {0.1f, 2, 3, -4};
    float scaled[4], back[4];
    const hf_array x = hf_array_view((void *)v, HF_F32, 2, 2);
    const hf_array y = hf_array_view(scaled, HF_F32, 2, 2);
    const hf_array z = hf_array_view(back, HF_F32, 2, 2);
    hf_prep *p = make(&x, &(hf_prep_opts){.scaling = &s, .scale = HF_SCALE_ROBUST});
    assert_int_equal(hf_prep_scaling(p)->method, HF_SCALE_STANDARD);
    float *rows = read_all(p, 1);
    assert_int_equal(hf_scaling_apply(ctx, &s, &x, &y), HF_OK);
    assert_memory_equal(rows, scaled, sizeof scaled);
    assert_int_equal(hf_scaling_undo(ctx, &s, &y, &z), HF_OK);
    for (int e = 0; e < 4; e++)
        assert_true(back[e] == (float)((double)scaled[e] * unit[e % 2] + shift[e % 2]));
    const hf_array bytes = hf_array_view(scaled, HF_U8, 2, 2);
    const hf_array wide = hf_array_view(scaled, HF_F32, 1, 3);
    assert_int_equal(hf_scaling_apply(ctx, &s, &x, &bytes), HF_E_ARG);
    assert_int_equal(hf_scaling_apply(ctx, &s, &wide, &wide), HF_E_ARG);
    assert_int_equal(hf_scaling_apply(ctx, NULL, &x, &y), HF_E_ARG);
    free(rows);
    hf_prep_destroy(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parameters), cmocka_unit_test(test_scaled),
        cmocka_unit_test(test_chunks),     cmocka_unit_test(test_few_columns_at_a_time),
        cmocka_unit_test(test_missing),    cmocka_unit_test(test_columns),
        cmocka_unit_test(test_refused),    cmocka_unit_test(test_hardly_any_spread),
        cmocka_unit_test(test_too_large),  cmocka_unit_test(test_given),
    };
    return cmocka_run_group_tests(tests, io_setup, io_teardown);
}
