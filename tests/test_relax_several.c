/* SPDX-License-Identifier: Apache-2.0
 * One system on several devices: the bits of one device where they wait for each other, the
 * solution however they exchange values, and the end of one of them. By default groups of threads;
 * test_relax_several cuda:0,cuda:1 [PART] takes other devices. */
#include "relax_matrices.h"
#include <holdfast/dev_relax.h>

static const char *names = "cpu,cpu";
static hf_context *ctx;

/* The names in turn, `count` of them. */
static const char *list(int count) {
    static char text[256];
    const char *at = names;
    text[0] = '\0';
    for (int i = 0; i < count; i++) {
        const size_t length = strcspn(at, ",");
        strncat(text, at, length);
        strcat(text, i + 1 < count ? "," : "");
        at = at[length] == ',' ? at + length + 1 : names;
    }
    return text;
}

static double true_residual(const hf_csr *a, const double *x) {
    double *b = ones(a->rows);
    const double residual = residual_of(a, b, x);
    free(b);
    return residual;
}

static hf_relax_result solve_for(const hf_csr *a, const hf_relax_opts *opts, double *x) {
    memset(x, 0, (size_t)a->rows * sizeof *x);
    return solve_ones(ctx, a, opts, x);
}

static void waiting_gives_the_bits_of_one_device(void **state) {
    (void)state;
    struct matrix m;
    make_fv(&m, 50, 3.510152);
    const size_t bytes = (size_t)m.a.rows * sizeof(double);
    double *alone = malloc(bytes), *shared = malloc(bytes);
    for (int kind = 0; kind < 4; kind++) {
        hf_relax_opts opts = {.method = kind % 2 ? HF_RELAX_JACOBI : HF_RELAX_ASYNC,
                              .partition = kind / 2 ? HF_PARTITION_GRAPH : HF_PARTITION_STRIPS,
                              .block_rows = 100,
                              .damping = 0.9,
                              .tol = -1,
                              .max_iter = 21};
        opts.one_launch = HF_SWITCH_OFF;
        hf_relax_result one = solve_for(&m.a, &opts, alone);
        for (int exchange = HF_EXCHANGE_PUSH; exchange <= HF_EXCHANGE_DK; exchange++)
            for (int count = 2; count <= 4; count++) {
                opts.devices = list(count);
                opts.exchange = (hf_relax_exchange)exchange;
                hf_relax_result all = solve_for(&m.a, &opts, shared);
                assert_int_equal(all.devices, count);
                assert_int_equal(all.iterations, 21);
                if (memcmp(alone, shared, bytes) != 0)
                    print_message("%s, kind %d, %s: other bits\n", opts.devices, kind,
                                  hf_relax_exchange_name(opts.exchange));
                assert_memory_equal(alone, shared, bytes);
                hf_relax_result_clear(&all);
            }
        hf_relax_result_clear(&one);
    }
    free(alone);
    free(shared);
    matrix_free(&m);
}

static void every_exchange_solves(void **state) {
    (void)state;
    struct matrix m[2];
    make_fv(&m[0], 40, 3.510152);
    make_trefethen(&m[1], 900);
    for (int i = 0; i < 2; i++) {
        double *x = malloc((size_t)m[i].a.rows * sizeof *x);
        for (int exchange = HF_EXCHANGE_PUSH; exchange <= HF_EXCHANGE_DK; exchange++)
            for (int kind = 0; kind < 4; kind++) {
                const int timing = kind % 2, count = 2 + kind / 2 * 2;
                const hf_relax_opts opts = {.method = HF_RELAX_ASYNC,
                                            .timing = (hf_relax_timing)timing,
                                            .block_rows = 64,
                                            .devices = list(count),
                                            .exchange = (hf_relax_exchange)exchange};
                hf_relax_result result = solve_for(&m[i].a, &opts, x);
                if (!result.converged || true_residual(&m[i].a, x) > 1.001e-10)
                    print_message("matrix %d, %s, timing %d: stop %d, residual %g, really %g\n", i,
                                  hf_relax_exchange_name(opts.exchange), timing, (int)result.stop,
                                  result.residual, true_residual(&m[i].a, x));
                assert_true(result.converged);
                assert_true(true_residual(&m[i].a, x) <= 1.001e-10);
                assert_int_equal(result.repeatable, timing == HF_TIMING_TAGGED);
                hf_relax_result_clear(&result);
            }
        free(x);
        matrix_free(&m[i]);
    }
}

static hf_relax_result struck(const hf_csr *a, const hf_relax_opts *opts,
                              const hf_dev_relax_fault *fault, double *x) {
    hf_relax *relax = NULL;
    hf_relax_result result = {0};
    double *b = ones(a->rows);
    const hf_array rhs = hf_array_view(b, HF_F64, a->rows, 1);
    const hf_array at = hf_array_view(x, HF_F64, a->rows, 1);
    memset(x, 0, (size_t)a->rows * sizeof *x);
    if (hf_relax_setup(ctx, a, opts, &relax) != HF_OK ||
        hf_dev_relax_solve(relax, &rhs, &at, fault, &result) != HF_OK)
        fail_msg("%s", hf_last_error(ctx));
    hf_relax_destroy(relax);
    free(b);
    return result;
}

static void the_others_adopt_the_blocks_of_a_lost_device(void **state) {
    (void)state;
    struct matrix m;
    make_fv(&m, 50, 3.510152);
    double *x = malloc((size_t)m.a.rows * sizeof *x);
    for (int timing = HF_TIMING_TAGGED; timing <= HF_TIMING_FREE; timing++)
        for (int lost = 0; lost < 3; lost++) {
            const hf_relax_opts opts = {.method = HF_RELAX_ASYNC,
                                        .timing = (hf_relax_timing)timing,
                                        .block_rows = 100,
                                        .devices = list(3)};
            const hf_dev_relax_fault fault = {
                .kind = HF_DEV_RELAX_SILENT, .iteration = 17, .device = lost};
            hf_relax_result result = struck(&m.a, &opts, &fault, x);
            assert_true(result.converged);
            assert_true(true_residual(&m.a, x) <= 1.001e-10);
            assert_int_equal(result.devices, 2);
            assert_int_equal(result.devices_lost, 1);
            assert_true(result.faults.takeovers >= 8 && result.faults.takeovers <= 9);
            hf_relax_result_clear(&result);
        }
    free(x);
    matrix_free(&m);
}

static void a_slow_device_holds_up_nobody_for_ever(void **state) {
    (void)state;
    struct matrix m;
    make_fv(&m, 40, 3.510152);
    double *x = malloc((size_t)m.a.rows * sizeof *x);
    for (int timing = HF_TIMING_TAGGED; timing <= HF_TIMING_FREE; timing++) {
        const hf_relax_opts opts = {.method = HF_RELAX_ASYNC,
                                    .timing = (hf_relax_timing)timing,
                                    .block_rows = 100,
                                    .devices = list(2)};
        const hf_dev_relax_fault fault = {.kind = HF_DEV_RELAX_SLOW, .outage = 3, .device = 1};
        hf_relax_result result = struck(&m.a, &opts, &fault, x);
        assert_true(result.converged);
        assert_true(true_residual(&m.a, x) <= 1.001e-10);
        assert_int_equal(result.devices_lost, 0);
        hf_relax_result_clear(&result);
    }
    free(x);
    matrix_free(&m);
}

static int cancel_at_forty(void *user, int64_t rhs, int64_t iteration, double residual) {
    (void)user;
    assert_int_equal(rhs, 0);
    assert_true(residual >= 0);
    return iteration >= 40;
}

static void it_ends_for_other_reasons_too(void **state) {
    (void)state;
    struct matrix m;
    make_fv(&m, 40, 3.0); /* singular but for the border: it takes thousands of iterations */
    double *x = malloc((size_t)m.a.rows * sizeof *x);
    hf_relax_opts opts = {
        .method = HF_RELAX_ASYNC, .block_rows = 100, .devices = list(2), .max_iter = 30};
    hf_relax_result result = solve_for(&m.a, &opts, x);
    assert_int_equal(result.stop, HF_RELAX_STOP_MAX_ITER);
    assert_int_equal(result.iterations, 30);
    assert_true(result.residual < 1 && result.residual > 1e-10);
    hf_relax_result_clear(&result);
    opts.max_iter = 0;
    opts.progress = cancel_at_forty;
    result = solve_for(&m.a, &opts, x);
    assert_true(result.stop == HF_RELAX_STOP_CANCELLED || result.converged);
    hf_relax_result_clear(&result);
    free(x);
    matrix_free(&m);
}

static void what_cannot_be_done_is_said(void **state) {
    (void)state;
    struct matrix m;
    make_fv(&m, 20, 3.510152);
    double *b = ones(m.a.rows), *x = calloc((size_t)m.a.rows, sizeof *x);
    const hf_array rhs = hf_array_view(b, HF_F64, m.a.rows, 1);
    const hf_array at = hf_array_view(x, HF_F64, m.a.rows, 1);
    const struct {
        hf_relax_opts opts;
        hf_status status;
        const char *words;
    } wrong[] = {
        {{.devices = "cpu,,cpu"}, HF_E_ARG, "empty"},
        {{.devices = "cpu,nonsense"}, HF_E_ARG, "nonsense"},
        {{.devices = "cpu,cpu", .method = HF_RELAX_CG}, HF_E_UNSUPPORTED, "one device"},
        {{.devices = "cpu,cpu", .method = HF_RELAX_ASYNC, .block_rows = 400}, HF_E_ARG, "blocks"},
        {{.devices = "cpu,cpu", .exchange = (hf_relax_exchange)7}, HF_E_ARG, "exchange"}};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        assert_int_equal(hf_relax_solve(ctx, &m.a, &rhs, &at, &wrong[i].opts, NULL),
                         wrong[i].status);
        if (strstr(hf_last_error(ctx), wrong[i].words) == NULL)
            print_message("%s\n", hf_last_error(ctx));
        assert_non_null(strstr(hf_last_error(ctx), wrong[i].words));
    }
    hf_relax *relax = NULL;
    const hf_relax_opts opts = {.method = HF_RELAX_JACOBI, .block_rows = 50, .devices = "cpu,cpu"};
    assert_int_equal(hf_relax_setup(ctx, &m.a, &opts, &relax), HF_OK);
    assert_int_equal(hf_relax_apply(relax, &rhs, &at, 1, 1), HF_E_UNSUPPORTED);
    for (int64_t e = 0; e < m.used; e++)
        m.value[e] *= 2;
    assert_int_equal(hf_relax_update_values(relax, &m.a), HF_OK);
    assert_int_equal(hf_relax_solve_with(relax, &rhs, &at, NULL), HF_OK);
    assert_true(true_residual(&m.a, x) <= 1.001e-10);
    hf_relax_destroy(relax);
    free(b);
    free(x);
    matrix_free(&m);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_gives_the_bits_of_one_device),
        cmocka_unit_test(every_exchange_solves),
        cmocka_unit_test(the_others_adopt_the_blocks_of_a_lost_device),
        cmocka_unit_test(a_slow_device_holds_up_nobody_for_ever),
        cmocka_unit_test(it_ends_for_other_reasons_too),
        cmocka_unit_test(what_cannot_be_done_is_said),
    };
    names = argc > 1 ? argv[1] : names;
    if (argc > 2)
        cmocka_set_test_filter(argv[2]);
    const char *first = list(1);
    const hf_context_opts opts = {.device = first, .threads = 2};
    if (hf_context_create(&ctx, &opts) != HF_OK) {
        printf("skipped: %s\n", hf_last_error(NULL));
        return 77;
    }
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hf_context_destroy(ctx);
    return failed;
}
