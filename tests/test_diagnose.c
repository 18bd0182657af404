/* SPDX-License-Identifier: Apache-2.0
 * Diagnosis in service: what is known of the fixed products, verdicts, replicas. */
#include "emulate.h"
#include "unit.h"

#include "algo/diagnose/pattern.h"
#include "base/affinity.h"
#include "base/dtype.h"
#include "core/context.h"
#include "core/kernel.h"
#include <holdfast/diagnose.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

static const struct hf_kernel *reference_of(int probe) {
    const struct hf_kernel *kernel;
    for (int i = 0; (kernel = hf_kernel_at((int)hf_probe_op(probe), i)) != NULL; i++)
        if (kernel->traits & HF_TRAIT_REFERENCE && kernel->device == HF_DEV_HOST)
            return kernel;
    return NULL;
}

static void by_tensor_cores(const hf_gemm_args *args) {
    for (int64_t i = 0; i < args->m * args->n; i++)
        hf_store_f64(args->c, args->dtype_c, i, (double)tensor_sum(args, i / args->n, i % args->n));
}

static void by_amx(const hf_gemm_args *args) {
    for (int64_t i = 0; i < args->m * args->n; i++)
        hf_store_f64(args->c, args->dtype_c, i, (double)amx_sum(args, i / args->n, i % args->n));
}

static struct hf_probe_value expected(hf_context *ctx, int probe, int pattern) {
    struct hf_probe_value value = {0, 0};
    if (hf_probe_form(probe) == HF_PROBE_TENSOR)
        return hf_probe_computed(probe, pattern, by_tensor_cores);
    if (hf_probe_form(probe) == HF_PROBE_AMX)
        return hf_probe_computed(probe, pattern, by_amx);
    assert_int_equal(hf_probe_run(ctx, probe, pattern, reference_of(probe), false, &value), HF_OK);
    return value;
}

/* The known signatures are those of the reference kernels, or of what is known of the unit. */
static void test_golden(void **state) {
    (void)state;
    const hf_context_opts opts = {.device = "cpu", .threads = 1};
    hf_context *ctx = NULL;
    int wrong = 0;
    assert_int_equal(hf_context_create(&ctx, &opts), HF_OK);
    for (int probe = 0; probe < HF_PROBES; probe++) {
        for (int pattern = 0; pattern < HF_PATTERNS; pattern++) {
            const struct hf_probe_value want = hf_probe_golden(probe, pattern);
            const struct hf_probe_value got = expected(ctx, probe, pattern);
            if (got.c != want.c || got.signature != want.signature) {
                printf("probe %d pattern %d: {0x%08x, 0x%08x}\n", probe, pattern, got.c,
                       got.signature);
                wrong++;
            }
        }
    }
    hf_context_destroy(ctx);
    assert_int_equal(wrong, 0);
}

struct seen {
    int reports, unsafe;
    hf_verdict verdict[8];
};

static int count_report(void *user, const hf_diagnosis *test) {
    struct seen *s = user;
    s->verdict[s->reports++ % 8] = test->verdict;
    return 0;
}

static int count_unsafe(void *user, const hf_diagnosis *test) {
    struct seen *s = user;
    assert_int_not_equal(test->verdict, HF_VERDICT_PASS);
    s->unsafe++;
    return 0;
}

static void test_passes(void **state) {
    (void)state;
    hf_diagnosis last;
    assert_int_equal(hf_diagnose(NULL, &last), HF_OK);
    assert_int_equal(last.verdict, HF_VERDICT_PASS);
    assert_true(last.parts > 0 && last.passed == last.parts && last.cores >= 1);
    assert_string_equal(last.text, "");
}

static void test_interval(void **state) {
    (void)state;
    struct seen s = {0};
    hf_diagnosis last;
    int core[1];
    assert_true(hf_affinity_cores(core, 1) >= 1);
    const hf_diagnose_opts opts = {.interval_s = 200,
                                   .tests = 1,
                                   .cores = core,
                                   .core_count = 1,
                                   .report = count_report,
                                   .safe_state = count_unsafe,
                                   .user = &s};
    assert_int_equal(hf_diagnose(&opts, &last), HF_OK);
    assert_int_equal(s.reports, 1);
    assert_int_equal(s.unsafe, 0);
    assert_int_equal(last.cores, 1);
}

/* A planted fault is named at its core, and leads to the safe state. */
static void test_planted(void **state) {
    (void)state;
    struct seen s = {0};
    hf_diagnosis last;
    int core[64];
    const int cores = hf_affinity_cores(core, 64);
    const int bad = core[(cores < 64 ? cores : 64) - 1];
    const hf_diagnose_opts opts = {
        .plant = bad + 1, .report = count_report, .safe_state = count_unsafe, .user = &s};
    assert_int_equal(hf_diagnose(&opts, &last), HF_E_CORRUPT);
    assert_int_equal(last.verdict, HF_VERDICT_FAIL);
    assert_int_equal(last.core, bad);
    assert_int_equal(last.failed, 1 + (last.parts - last.passed - 1));
    assert_int_equal(s.unsafe, 1);
    assert_int_equal(s.verdict[0], HF_VERDICT_FAIL);
    assert_non_null(strstr(last.text, "computes wrongly"));
}

/* What did not run is not passed: a core that is not there, a test that is late. */
static void test_not_run(void **state) {
    (void)state;
    struct seen s = {0};
    hf_diagnosis last;
    const int nowhere[] = {32000};
    hf_diagnose_opts opts = {.cores = nowhere,
                             .core_count = 1,
                             .report = count_report,
                             .safe_state = count_unsafe,
                             .user = &s};
    assert_int_equal(hf_diagnose(&opts, &last), HF_E_CANCELLED);
    assert_int_equal(last.verdict, HF_VERDICT_NOT_RUN);
    assert_int_equal(last.core, 32000);
    assert_int_equal(s.unsafe, 1);
    opts = (hf_diagnose_opts){.interval_s = 1e-7, .tests = 2, .go_on = 1, .report = count_report};
    opts.user = &s;
    assert_int_equal(hf_diagnose(&opts, &last), HF_E_CANCELLED);
    assert_int_equal(s.reports, 3);
    assert_non_null(strstr(last.text, "later than the interval"));
    opts = (hf_diagnose_opts){.cores = nowhere, .core_count = 0};
    assert_int_equal(hf_diagnose(&opts, &last), HF_E_ARG);
    assert_int_equal(last.verdict, HF_VERDICT_NOT_RUN);
    opts = (hf_diagnose_opts){.plant = 32001};
    assert_int_equal(hf_diagnose(&opts, &last), HF_E_ARG);
    assert_non_null(strstr(last.text, "core 32000"));
    opts = (hf_diagnose_opts){.interval_s = -1};
    assert_int_equal(hf_diagnose(&opts, &last), HF_E_ARG);
}

enum { M = 13, N = 21, K = 300 };
static float a[M * K], b[K * N], c[M * N], plain[M * N];

static void make_matrices(void) {
    for (int i = 0; i < M * K; i++)
        a[i] = (float)((i * 37 % 101) - 50) / 7;
    for (int i = 0; i < K * N; i++)
        b[i] = (float)((i * 53 % 97) - 48) / 11;
}

static void test_replicas(void **state) {
    (void)state;
    hf_vote vote;
    make_matrices();
    hf_redundant_args args = {.m = M, .n = N, .k = K, .a = a, .b = b, .c = plain, .same_core = 1};
    assert_int_equal(hf_redundant(&args, &vote), HF_OK);
    assert_int_equal(vote.verdict, HF_VERDICT_PASS);
    assert_int_equal(vote.majority, 3);
    for (int wrong = 0; wrong < 3; wrong++) {
        memset(c, 0, sizeof c);
        args.c = c;
        args.plant = wrong + 1;
        assert_int_equal(hf_redundant(&args, &vote), HF_OK);
        assert_int_equal(vote.verdict, HF_VERDICT_FAIL);
        assert_int_equal(vote.outvoted, wrong);
        assert_int_equal(vote.replica[wrong].row, M * N / 2 / N);
        assert_int_equal(vote.replica[wrong].column, M * N / 2 % N);
        assert_memory_equal(c, plain, sizeof c);
    }
}

static void test_two_replicas(void **state) {
    (void)state;
    hf_vote vote;
    int core[2];
    make_matrices();
    memset(c, 0x11, sizeof c);
    hf_redundant_args args = {.m = M, .n = N, .k = K, .a = a, .b = b, .c = c, .replicas = 2};
    args.same_core = hf_affinity_cores(core, 2) < 2;
    args.plant = 2;
    assert_int_equal(hf_redundant(&args, &vote), HF_E_CORRUPT);
    assert_int_equal(vote.majority, 0);
    assert_int_equal(vote.outvoted, -1);
    for (size_t i = 0; i < sizeof c; i++)
        assert_int_equal(((unsigned char *)c)[i], 0x11);
    args.plant = 0;
    assert_int_equal(hf_redundant(&args, &vote), HF_OK);
    assert_true(args.same_core || vote.replica[0].core != vote.replica[1].core);
    args.replicas = 4;
    assert_int_equal(hf_redundant(&args, &vote), HF_E_ARG);
    args.replicas = 2;
    args.k = 0;
    assert_int_equal(hf_redundant(&args, &vote), HF_E_ARG);
}

/* A device for each replica, at once: which of them is outvoted is told by its name. */
static void test_devices(void **state) {
    (void)state;
    hf_vote vote;
    make_matrices();
    hf_redundant_args args = {.m = M, .n = N, .k = K, .a = a, .b = b, .c = c, .plant = 2};
    args.device = "cpu,cpu,cpu";
    assert_int_equal(hf_redundant(&args, &vote), HF_OK);
    assert_int_equal(vote.outvoted, 1);
    assert_string_equal(vote.replica[1].device, "cpu");
    assert_non_null(strstr(vote.text, "replica 1 on cpu was outvoted"));
    args.device = "cpu,cuda,cpu";
    const hf_status status = hf_redundant(&args, &vote);
    if (vote.replica[1].verdict == HF_VERDICT_NOT_RUN) {
        assert_int_equal(status, HF_E_CANCELLED);
        assert_int_equal(vote.majority, 2);
    } else {
        assert_int_equal(status, HF_OK);
        assert_int_equal(vote.outvoted, 1);
        assert_non_null(strstr(vote.text, "replica 1 on cuda"));
    }
    static const char *const wrong[] = {"cpu,cpu", "cpu,cpu,cpu,cpu", ",cpu,cpu", "cpu,cpu,"};
    for (int i = 0; i < 4; i++) {
        args.device = wrong[i];
        assert_int_equal(hf_redundant(&args, &vote), HF_E_ARG);
        assert_non_null(strstr(vote.text, "one for each of the 3"));
    }
}

/* Every type that is multiplied, in sizes that leave rows of odd bytes. */
static void test_types(void **state) {
    (void)state;
    static const hf_dtype types[] = {HF_F64, HF_F16, HF_BF16, HF_I8};
    static double x[M * K], y[K * N], got[M * N];
    make_matrices();
    for (int t = 0; t < 4; t++) {
        hf_vote vote;
        for (int i = 0; i < M * K; i++)
            hf_store_f64(x, types[t], i, (double)(int)a[i]);
        for (int i = 0; i < K * N; i++)
            hf_store_f64(y, types[t], i, (double)(int)(b[i] / 2));
        const hf_dtype out = types[t] == HF_I8 ? HF_I32 : types[t];
        for (int plant = 0; plant <= 3; plant++) {
            const hf_redundant_args args = {.m = M,
                                            .n = N,
                                            .k = K,
                                            .a = x,
                                            .b = y,
                                            .c = got,
                                            .same_core = 1,
                                            .plant = plant,
                                            .dtype = types[t]};
            assert_int_equal(hf_redundant(&args, &vote), HF_OK);
            assert_int_equal(vote.majority, plant ? 2 : 3);
            assert_int_equal(vote.outvoted, plant - 1);
            if (plant)
                assert_int_equal(vote.replica[plant - 1].row * N + vote.replica[plant - 1].column,
                                 M * N / 2);
        }
        double want = 0;
        for (int k = 0; k < K; k++)
            want += (double)(int)a[2 * K + k] * (double)(int)(b[k * N + 5] / 2);
        const double near = out == HF_BF16 ? fabs(want) / 128 : out == HF_F16 ? 1 : 0;
        assert_true(fabs(hf_load_f64(got, out, 2 * N + 5) - want) <= near);
    }
    const hf_redundant_args wrong = {
        .m = 1, .n = 1, .k = 1, .a = x, .b = y, .c = got, .dtype = HF_U8};
    hf_vote vote;
    assert_int_equal(hf_redundant(&wrong, &vote), HF_E_ARG);
    assert_non_null(strstr(vote.text, "dtype"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),       cmocka_unit_test(test_passes),
        cmocka_unit_test(test_interval),     cmocka_unit_test(test_planted),
        cmocka_unit_test(test_not_run),      cmocka_unit_test(test_replicas),
        cmocka_unit_test(test_two_replicas), cmocka_unit_test(test_devices),
        cmocka_unit_test(test_types),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
