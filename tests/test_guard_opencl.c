/* SPDX-License-Identifier: Apache-2.0
 * Protection on an OpenCL device: words of a fit's memory flip before or after a call, or in every
 * one of a kernel; the result is bit for bit that of the fit without a fault, or with detect the
 * fit ends. Skipped, with the reason, where there is no device. */
#include "core/context.h"
#include "kmeans_device.h"
#include <holdfast/dev_faults.h>

static hf_context *device;

static const hf_kmeans_opts options = {
    .k = 14, .init = HF_INIT_RANDOM, .seed = 5, .max_iter = 12, .guard = HF_GUARD_CORRECT};

static void take_note(void *user, const hf_fault_note *note) {
    *(hf_fault_kind *)user = note->kind;
    assert_non_null(note->text);
}

static struct problem make_rows(hf_dtype dtype, double **values) {
    *values = blobs(11, 3000, 24, 40, 6);
    return problem_from(*values, 3000, 24, dtype, 0);
}

/* Faults that have consequences, and labels that address nothing. The second call of op assign
 * finds the first labels once more. */
static const char *const lines[] = {
    "op=assign where=call iteration=5 do=skip",
    "op=assign where=labels iteration=4 word=100 mask=0x1 when=after do=flip",
    "op=assign where=labels iteration=4 word=101 mask=0x40000000 when=after do=flip",
    "op=assign where=labels iteration=5 word=102 mask=0x40000000 do=flip",
    "op=assign where=rows iteration=4 word=77 mask=0x40000000 do=flip",
    "op=update where=sums iteration=2 word=5 mask=0x10 when=after do=flip",
    "op=update where=counts iteration=2 word=2 mask=0x2 when=after do=flip",
    "op=update where=labels iteration=1 word=9 mask=0x40000000 do=flip",
    "op=means where=next iteration=3 word=17 mask=0x400000 when=after do=flip",
    "op=inertia where=labels iteration=1 word=9 mask=0x40000000 do=flip",
    "op=inertia where=total iteration=1 word=0 mask=0x4000 when=after do=flip",
    "op=rowhash where=hash iteration=1 word=50 mask=0x10 when=after do=flip",
    "op=range where=rows iteration=1 word=77 mask=0x40000000 do=flip",
    "op=range where=max iteration=1 word=3 mask=0x10000000000000 when=after do=flip",
    "op=moments where=rows iteration=1 word=77 mask=0x40000000 do=flip",
    "op=moments where=sums iteration=1 word=3 mask=0x10000000 when=after do=flip",
    "op=assign where=rows iteration=1 word=77 mask=0x40000000 do=flip",
    "op=assign where=centroids iteration=1 word=7 value=0x0 do=replace",
    "op=assign where=labels iteration=1 word=100 mask=0x1 when=after do=flip",
    "op=assign where=labels iteration=2 word=100 mask=0x1 when=after do=flip",
    "op=audit where=booked_words hit=3 word=3 mask=0x10 do=flip",
    "op=audit where=booked_counts hit=3 word=3 mask=0x10 do=flip",
    "op=audit where=booked_labels hit=2 word=50 mask=0x40000000 do=flip",
};

static hf_status fit_struck(const hf_array *x, hf_kmeans_opts o, const char *line,
                            hf_fault_kind *kind, hf_kmeans_result *r) {
    char why[300] = "";
    hf_dev_fault_proof proof;
    o.on_fault = take_note;
    o.on_fault_user = kind;
    if (hf_dev_fault_plant(line, why, sizeof why) != HF_OK)
        fail_msg("%s: %s", line, why);
    const hf_status status = hf_kmeans_fit(device, x, &o, r);
    hf_dev_fault_remove(&proof);
    if (proof.altered == 0)
        fail_msg("%s: struck %d, altered nothing", line, (int)proof.struck);
    return status;
}

static void corrects(const hf_array *x, const char *line, hf_fault_kind *kind) {
    hf_kmeans_opts off = options;
    hf_kmeans_result clean = {0};
    hf_kmeans_result r = {0};
    off.guard = HF_GUARD_OFF;
    FIT_OK(device, hf_kmeans_fit(device, x, &off, &clean));
    if (fit_struck(x, options, line, kind, &r) != HF_OK)
        fail_msg("%s: %s", line, hf_last_error(device));
    expect_same(&clean, &r, line);
    if (r.faults.repaired == 0)
        fail_msg("%s: nothing was repaired", line);
    hf_kmeans_result_clear(&clean);
    hf_kmeans_result_clear(&r);
}

static void faults_are_corrected(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F32, HF_F64};
    for (int t = 0; t < 2; t++) {
        double *values = NULL;
        struct problem p = make_rows(types[t], &values);
        hf_fault_kind kind;
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
            corrects(&p.x, lines[i], &kind);
        problem_free(&p);
        free(values);
    }
}

static void faults_are_detected(void **state) {
    (void)state;
    double *values = NULL;
    struct problem p = make_rows(HF_F32, &values);
    hf_kmeans_opts o = options;
    o.guard = HF_GUARD_DETECT;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        hf_kmeans_result r = {0};
        hf_fault_kind kind;
        const hf_status status = fit_struck(&p.x, o, lines[i], &kind, &r);
        if (status != HF_E_CORRUPT)
            fail_msg("%s: %s", lines[i], hf_status_text(status));
    }
    problem_free(&p);
    free(values);
}

/* A kernel that is wrong each time is given up for another one. */
static void other_kernels_serve(void **state) {
    (void)state;
    double *values = NULL;
    struct problem p = make_rows(HF_F32, &values);
    hf_kmeans_result r = {0};
    hf_fault_kind kind = HF_FAULT_KIND_UNKNOWN;
    char line[160];
    FIT_OK(device, hf_kmeans_fit(device, &p.x, &options, &r));
    snprintf(
        line, sizeof line,
        "op=assign kernel=%s where=labels word=100 mask=0x1 when=after do=flip hit=3 repeat=always",
        r.kernel_assign);
    hf_kmeans_result_clear(&r);
    corrects(&p.x, line, &kind);
    assert_int_equal(kind, HF_FAULT_PERMANENT);
    problem_free(&p);
    free(values);
}

static void no_false_alarms(void **state) {
    (void)state;
    const hf_dtype types[] = {HF_F32, HF_F64, HF_F16, HF_BF16, HF_U8};
    for (int t = 0; t < 5; t++)
        for (int metric = HF_EUCLIDEAN; metric <= HF_DOT; metric++) {
            double *values = NULL;
            struct problem p = make_rows(types[t], &values);
            hf_kmeans_opts o = options;
            hf_kmeans_result a = {0};
            hf_kmeans_result b = {0};
            o.metric = (hf_metric)metric;
            FIT_OK(device, hf_kmeans_fit(device, &p.x, &o, &a));
            o.guard = HF_GUARD_OFF;
            FIT_OK(device, hf_kmeans_fit(device, &p.x, &o, &b));
            expect_same(&b, &a, "guarded");
            assert_int_equal(a.faults.suspected, 0);
            assert_true(a.faults.checked > 0);
            hf_kmeans_result_clear(&a);
            hf_kmeans_result_clear(&b);
            problem_free(&p);
            free(values);
        }
}

int main(void) {
    const hf_context_opts o = {.device = "opencl"};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_false_alarms), cmocka_unit_test(faults_are_corrected),
        cmocka_unit_test(faults_are_detected), cmocka_unit_test(other_kernels_serve)};
    if (hf_context_create(&device, &o) != HF_OK) {
        printf("skipped: %s\n", hf_last_error(NULL));
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hf_context_destroy(device);
    return failed;
}
