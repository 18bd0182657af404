/* SPDX-License-Identifier: Apache-2.0
 * An op that the library does not know: a sparse matrix times a vector, with outputs of two types.
 * It is checked, planned, timed and tuned like the library's own. */
#include "unit.h"

#include "base/mem.h"
#include "core/plan.h"
#include "device/host/isa.h"
#include "harness/harness.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TUNE_FILE HF_TEST_BUILD "/test_toy_op.tune"
#define MOST_PLANNED 64 /* rows of a matrix that only a plan looks at */

/* y = A x, or y += A x, and how large the terms are: size_i = sum of |a_ij x_j|. */
struct spmv_args {
    int64_t rows, cols, nnz;
    const int64_t *row; /* [rows + 1] first element of each row, in compressed rows */
    const int32_t *col; /* [nnz] */
    const float *value; /* [nnz] */
    const float *x;     /* [cols] */
    bool add;
    double *y;   /* [rows] in, out */
    float *size; /* [rows] out */
};

enum { OUT_Y, OUT_SIZE };
enum { UNIFORM, BAND };

static void spmv_key(const void *args_, struct hf_key *key) {
    const struct spmv_args *a = args_;
    *key = (struct hf_key){
        .dtype = {HF_F32, HF_F64, HF_F32}, .dim = {a->rows, a->cols, a->nnz}, .flags = a->add};
}

static void spmv_cost(const void *args_, double *flops, double *bytes) {
    const struct spmv_args *a = args_;
    *flops = 4 * (double)a->nnz;
    *bytes = 8 * (double)a->nnz + 20 * (double)a->rows + 4 * (double)a->cols;
}

static bool spmv_unanimous(const void *args) {
    (void)args;
    return false; /* the order of the terms is the kernel's */
}

/* Products are exact in float64; each sum of m terms has m - 1 roundings, and one with y. */
static double spmv_bound(const void *args_, int out, int64_t i) {
    const struct spmv_args *a = args_;
    double terms = 0;
    for (int64_t e = a->row[i]; e < a->row[i + 1]; e++)
        terms += fabs((double)a->value[e] * a->x[a->col[e]]);
    const double m = (double)(a->row[i + 1] - a->row[i]);
    const double sum = (m + 2) * 0x1p-53 * (terms + (a->add ? 1 : 0)); /* |y| comes in below 1 */
    return out == OUT_Y ? sum : sum + 0x1p-24 * terms;
}

static const struct hf_op spmv_op = {
    .name = "spmv",
    .args_size = sizeof(struct spmv_args),
    .type = {"a", "y", "size"},
    .dim = {"rows", "cols", "nnz"},
    .flag = {"add"},
    .key = spmv_key,
    .cost = spmv_cost,
    .unanimous = spmv_unanimous,
    .bound = spmv_bound,
};

/* ---- cases */

static bool fill(struct hf_rng *rng, struct hf_case *c, int data, int64_t filled_rows) {
    struct spmv_args *a = c->args;
    const int64_t each = a->nnz / a->rows, filled = filled_rows * each;
    int64_t *row = hf_case_alloc(c, (size_t)(filled_rows + 1) * sizeof *row, false);
    int32_t *col = hf_case_alloc(c, (size_t)filled * sizeof *col, false);
    float *value = hf_case_alloc(c, (size_t)filled * sizeof *value, false);
    float *x = hf_case_alloc(c, (size_t)a->cols * sizeof *x, false);
    a->y = hf_case_alloc_output(c, HF_F64, filled_rows, OUT_Y);
    a->size = hf_case_alloc_output(c, HF_F32, filled_rows, OUT_SIZE);
    if (c->failed)
        return false;
    for (int64_t i = 0; i < filled_rows; i++) {
        row[i + 1] = (i + 1) * each;
        a->y[i] = hf_rng_next_unit(rng);
    }
    for (int64_t e = 0; e < filled; e++) {
        const uint64_t r = hf_rng_next(rng);
        col[e] = (int32_t)((data == BAND ? (uint64_t)(e / each) + r % 8 : r) % (uint64_t)a->cols);
        value[e] = (float)hf_rng_next_normal(rng);
    }
    for (int64_t j = 0; j < a->cols; j++)
        x[j] = (float)hf_rng_next_normal(rng);
    a->row = row;
    a->col = col;
    a->value = value;
    a->x = x;
    return true;
}

static bool make_case(struct hf_rng *rng, int64_t id, struct hf_case *c) {
    static const int64_t shapes[][3] = {{1, 1, 1}, {3, 7, 0}, {40, 30, 400}, {300, 900, 6000}};
    struct spmv_args *a = c->args;
    if (id >= 8)
        return false;
    a->rows = shapes[id / 2][0];
    a->cols = shapes[id / 2][1];
    a->nnz = shapes[id / 2][2];
    a->add = id % 2;
    snprintf(c->name, sizeof c->name, "rows=%d nnz=%d%s", (int)a->rows, (int)a->nnz,
             a->add ? " add" : "");
    return fill(rng, c, (int)(id % 2), a->rows);
}

static bool make_bench(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c) {
    struct spmv_args *a = c->args;
    const struct hf_key *key = &bench->key;
    if (key->dtype[0] != HF_F32 || key->dtype[1] != HF_F64 || key->dtype[2] != HF_F32)
        return false;
    a->rows = key->dim[0];
    a->cols = key->dim[1];
    a->nnz = key->dim[2];
    a->add = key->flags & 1;
    return fill(rng, c, bench->data,
                bench->plan_only && a->rows > MOST_PLANNED ? MOST_PLANNED : a->rows);
}

static const struct hf_op_cases spmv_cases = {
    .make_case = make_case,
    .make_bench = make_bench,
    .data = {"uniform", "band"},
    .example = {{HF_F32, HF_F64, HF_F32}, {2000, 1000, 16000}, 0},
};

/* ---- kernels */

/* Two sums of every other term, which differ in the last bits from the sum in order. */
static void multiply(const struct spmv_args *a, bool in_order) {
    for (int64_t i = 0; i < a->rows; i++) {
        double sum[2] = {0, 0}, size = 0;
        for (int64_t e = a->row[i]; e < a->row[i + 1]; e++) {
            const double term = (double)a->value[e] * a->x[a->col[e]];
            sum[in_order ? 0 : e & 1] += term;
            size += fabs(term);
        }
        a->y[i] = (a->add ? a->y[i] : 0) + (sum[0] + sum[1]);
        a->size[i] = (float)size;
    }
}

static hf_status run_reference(const struct hf_call *call) {
    multiply(call->args, true);
    return HF_OK;
}

static hf_status run_pairs(const struct hf_call *call) {
    multiply(call->args, false);
    return HF_OK;
}

/* Right, and so slow that no measurement prefers it. */
static hf_status run_slow(const struct hf_call *call) {
    struct spmv_args again = *(const struct spmv_args *)call->args;
    double *lost = call->ws;
    again.add = false;
    again.y = lost;
    for (int i = 0; i < 30; i++)
        multiply(&again, true);
    multiply(call->args, true);
    return HF_OK;
}

static size_t slow_workspace(const struct hf_call *call) {
    const struct spmv_args *a = call->args;
    return (size_t)a->rows * sizeof(double);
}

/* Rounds one sum to float32. */
static hf_status run_coarse(const struct hf_call *call) {
    const struct spmv_args *a = call->args;
    multiply(a, true);
    a->y[a->rows / 2] = (float)a->y[a->rows / 2];
    return HF_OK;
}

/* An element of the other output is off by three units in the last place. */
static hf_status run_loose(const struct hf_call *call) {
    const struct spmv_args *a = call->args;
    multiply(a, true);
    a->size[0] = nextafterf(nextafterf(nextafterf(a->size[0], 1e30F), 1e30F), 1e30F);
    return HF_OK;
}

static double estimate_slow(const struct hf_call *call) {
    (void)call;
    return 1;
}

static double estimate_pairs(const struct hf_call *call) {
    (void)call;
    return 2;
}

#define ON_HOST .device = HF_DEV_HOST, .dtypes = HF_DT(HF_F32), .isa = HF_ISA_ID_scalar
static const struct hf_kernel reference = {
    .name = "spmv_ref", ON_HOST, .traits = HF_TRAIT_REFERENCE, .run = run_reference};
static const struct hf_kernel pairs = {
    .name = "spmv_f32_pairs", ON_HOST, .run = run_pairs, .estimate = estimate_pairs};
static const struct hf_kernel slow = {.name = "spmv_f32_slow",
                                      ON_HOST,
                                      .workspace = slow_workspace,
                                      .run = run_slow,
                                      .estimate = estimate_slow};
static const struct hf_kernel coarse = {.name = "spmv_f32_coarse", ON_HOST, .run = run_coarse};
static const struct hf_kernel loose = {.name = "spmv_f32_loose", ON_HOST, .run = run_loose};

static const struct hf_kernel *const kernels[] = {&reference, &slow, &pairs, &coarse, &loose};
static const struct hf_subject spmv = {&spmv_op, &spmv_cases, kernels, 5};
static const struct hf_subject right = {&spmv_op, &spmv_cases, kernels, 3};

/* ---- tests */

struct verdicts {
    char failed[200], passed[200];
};

static void note_verdict(void *user, const hf_dev_check_event *event) {
    struct verdicts *v = user;
    char *list = event->verdict == HF_DEV_PASSED ? v->passed : v->failed;
    if (event->case_name == NULL)
        strcat(strcat(list, event->kernel), " ");
    else if (strcmp(event->kernel, coarse.name) == 0)
        assert_non_null(strstr(event->text, "of output 0"));
    else
        assert_non_null(strstr(event->text, "of output 1"));
}

/* Sums in another order pass, within the bound that the op gives; what is off by more fails. */
static void checked(void **state) {
    (void)state;
    struct verdicts v = {"", ""};
    hf_dev_tally tally = {0};
    const hf_dev_check_opts opts = {.seed = 1};
    assert_int_equal(hf_check_subject(&spmv, &opts, note_verdict, &v, &tally), HF_OK);
    assert_string_equal(v.passed, "spmv_ref spmv_f32_slow spmv_f32_pairs ");
    assert_string_equal(v.failed, "spmv_f32_coarse spmv_f32_loose ");
}

static hf_context *open_context(void) {
    const hf_context_opts opts = {.device = "cpu", .threads = 1};
    hf_context *ctx = NULL;
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    return ctx;
}

static hf_dev_choice planned(const hf_dev_shape *shape) {
    hf_context *ctx = open_context();
    hf_dev_choice choice = {NULL, NULL};
    const hf_status status = hf_plan_subject(ctx, &right, shape, &choice, NULL, NULL);
    if (status != HF_OK)
        fail_msg("%s", hf_last_error(ctx));
    hf_context_destroy(ctx);
    return choice;
}

static hf_dev_shape shape_of(int64_t rows, int64_t cols, int64_t nnz, uint32_t flags) {
    return (hf_dev_shape){{HF_F32, HF_F64, HF_F32}, {rows, cols, nnz}, flags};
}

static void count_candidate(void *user, const hf_dev_candidate *candidate) {
    int *chosen = user;
    assert_true(candidate->why[0] != '\0');
    if (candidate->chosen) {
        assert_string_equal(candidate->kernel, slow.name);
        assert_int_equal(candidate->workspace_bytes, (1 << 20) * sizeof(double));
        ++*chosen;
    }
}

/* By the estimates, and by the variable of its name; nothing of that size is made. */
static void planned_by_its_name(void **state) {
    (void)state;
    const hf_dev_shape shape = shape_of(1 << 20, 1 << 10, 1 << 23, 0);
    hf_context *ctx = open_context();
    int chosen = 0;
    assert_string_equal(planned(&shape).kernel, slow.name);
    assert_int_equal(hf_plan_subject(ctx, &right, &shape, NULL, count_candidate, &chosen), HF_OK);
    assert_int_equal(chosen, 1);
    assert_int_equal(setenv("HF_KERNEL_SPMV", pairs.name, 1), 0);
    assert_string_equal(planned(&shape).kernel, pairs.name);
    assert_int_equal(setenv("HF_KERNEL_SPMV", "spmv_abacus", 1), 0);
    assert_int_equal(hf_plan_subject(ctx, &right, &shape, NULL, NULL, NULL), HF_E_ARG);
    assert_non_null(strstr(hf_last_error(ctx), "HF_KERNEL_SPMV=spmv_abacus"));
    (void)unsetenv("HF_KERNEL_SPMV");
    hf_context_destroy(ctx);
}

/* What is wrong is said in the op's words. */
static void wrong_shapes_are_refused(void **state) {
    (void)state;
    static const struct {
        hf_dev_shape shape;
        const char *data, *words;
    } wrong[] = {
        {{{HF_F32, HF_F64, HF_F32}, {9, 9, 0}, 0}, NULL, "nnz is 0"},
        {{{HF_F32, HF_F64, HF_F32}, {9, 9, 9, 9}, 0}, NULL, "no dimension number 4"},
        {{{HF_F32, HF_F64, HF_F32}, {9, 9, 9}, 2}, NULL, "flags 0x2"},
        {{{HF_F32, HF_F64}, {9, 9, 9}, 0}, NULL, "type 3 is missing"},
        {{{HF_F32, HF_F64, HF_F32}, {INT64_MAX, 9, 9}, 0}, NULL, "rows = 9223372036854775807"},
        {{{HF_F32, HF_F64, HF_F32}, {9, 9, 9}, 0}, "blobs", "it has uniform, band"},
        {{{HF_F64, HF_F64, HF_F32}, {9, 9, 9}, 0}, NULL, "no problem of f64 data"},
    };
    hf_context *ctx = open_context();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        const hf_dev_time_opts opts = {.data = wrong[i].data};
        const hf_status status = hf_time_subject(ctx, &right, &wrong[i].shape, &opts, NULL, NULL);
        assert_true(status == HF_E_ARG || status == HF_E_UNSUPPORTED);
        if (strstr(hf_last_error(ctx), wrong[i].words) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", hf_last_error(ctx), wrong[i].words);
    }
    hf_context_destroy(ctx);
}

struct timings {
    hf_dev_timing first;
    char names[200];
};

static void keep_timing(void *user, const hf_dev_timing *timing) {
    struct timings *t = user;
    assert_true(timing->median_s > 0 && timing->flops == 4.0 * 16000);
    if (t->names[0] == '\0')
        t->first = *timing;
    strcat(strcat(t->names, timing->kernel), " ");
}

static void expect_line(const char *text) {
    char line[300] = "";
    FILE *file = fopen(TUNE_FILE, "r");
    assert_non_null(file);
    while (fgets(line, sizeof line, file) != NULL && strncmp(line, text, strlen(text)) != 0)
        line[0] = '\0';
    (void)fclose(file);
    assert_string_not_equal(line, "");
}

/* The fastest of those that are right goes into a file, which plans of like calls follow. */
static void timed_and_tuned(void **state) {
    (void)state;
    static const char *const kinds[] = {NULL, "band"};
    struct timings t[2] = {{.names = ""}, {.names = ""}};
    const hf_dev_shape shape = shape_of(2000, 1000, 16000, 0);
    hf_context *ctx = open_context();
    for (int i = 0; i < 2; i++) {
        const hf_dev_time_opts opts = {
            .kernel = "all", .rounds = 3, .checked_only = 1, .data = kinds[i]};
        assert_int_equal(hf_time_subject(ctx, &spmv, &shape, &opts, keep_timing, &t[i]), HF_OK);
        assert_string_equal(t[i].names, "spmv_f32_pairs spmv_f32_slow ");
        assert_memory_equal(&t[i].first.shape, &shape, sizeof shape);
    }
    (void)remove(TUNE_FILE);
    assert_int_equal(hf_tune_winners(ctx, TUNE_FILE, &spmv_op, &t[0].first, 1), HF_OK);
    assert_int_equal(hf_tune_winners(ctx, TUNE_FILE, &spmv_op, &t[1].first, 1), HF_OK);
    hf_context_destroy(ctx);
    expect_line("spmv a=f32,y=f64,size=f32 rows=2^10,cols=2^9,nnz=2^13 - ");
    assert_int_equal(setenv("HF_TUNE_FILE", TUNE_FILE, 1), 0);
    const hf_dev_shape like = shape_of(4000, 1000, 16000, 0), far = shape_of(2000, 9000, 16000, 0),
                       other = shape_of(2000, 1000, 16000, 1);
    assert_string_equal(planned(&like).source, "tuned");
    assert_string_equal(planned(&like).kernel, pairs.name);
    assert_string_equal(planned(&far).source, "model");
    assert_string_equal(planned(&other).source, "model"); /* another flag is another kind of call */
    (void)unsetenv("HF_TUNE_FILE");
    (void)remove(TUNE_FILE);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(checked),
        cmocka_unit_test(planned_by_its_name),
        cmocka_unit_test(wrong_shapes_are_refused),
        cmocka_unit_test(timed_and_tuned),
    };
    (void)unsetenv("HF_TUNE_FILE");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
