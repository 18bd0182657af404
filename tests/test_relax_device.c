/* SPDX-License-Identifier: Apache-2.0
 * Linear systems on a GPU: every method gets to the tolerance, in one launch and with a launch for
 * each step; sweeps have the bits of the CPU. Skipped, with the reason, where there is no GPU. */
#include "core/context.h"
#include "on_device.h"
#include "relax_matrices.h"
#include <holdfast/dev_relax.h>

static hf_context *gpu;

static double true_residual(const hf_csr *a, const double *x) {
    double *b = ones(a->rows);
    const double residual = residual_of(a, b, x);
    free(b);
    return residual;
}

static void expect_solved(const hf_csr *a, hf_relax_opts opts, const char *what) {
    double *x = malloc((size_t)a->rows * sizeof *x);
    for (int launch = HF_SWITCH_AUTO; launch <= HF_SWITCH_OFF; launch += HF_SWITCH_OFF) {
        opts.one_launch = (hf_relax_switch)launch;
        hf_relax_result result = solve_ones(gpu, a, &opts, x);
        if (!result.converged || true_residual(a, x) > 1.001e-10)
            print_message("%s, one_launch %d: stop %d, residual %g, really %g\n", what, launch,
                          (int)result.stop, result.residual, true_residual(a, x));
        assert_true(result.converged);
        assert_true(true_residual(a, x) <= 1.001e-10);
        assert_true(launch == HF_SWITCH_AUTO || !result.one_launch);
        hf_relax_result_clear(&result);
    }
    free(x);
}

static void every_method(void **state) {
    (void)state;
    struct matrix fv, trefethen, wind;
    make_fv(&fv, 40, 3.510152);
    make_trefethen(&trefethen, 700);
    make_poisson(&wind, 30, 1, 0.5);
    for (int method = HF_RELAX_AUTO; method <= HF_RELAX_CHEBYSHEV; method++) {
        const hf_relax_opts opts = {.method = (hf_relax_method)method};
        expect_solved(&fv.a, opts, hf_relax_method_name(opts.method));
        const bool global = method == HF_RELAX_SCHWARZ; /* everything is near everything */
        if (!global)
            expect_solved(&trefethen.a, opts, hf_relax_method_name(opts.method));
        const bool symmetric = method == HF_RELAX_CG || method == HF_RELAX_CHEBYSHEV;
        if (!symmetric && method != HF_RELAX_JACOBI)
            expect_solved(&wind.a, opts, hf_relax_method_name(opts.method));
    }
    matrix_free(&fv);
    matrix_free(&trefethen);
    matrix_free(&wind);
}

static void free_timing_and_float32(void **state) {
    (void)state;
    struct matrix m;
    make_fv(&m, 40, 3.510152);
    expect_solved(&m.a, (hf_relax_opts){.method = HF_RELAX_ASYNC, .timing = HF_TIMING_FREE},
                  "free");
    expect_solved(&m.a, (hf_relax_opts){.method = HF_RELAX_CHEBYSHEV, .inside = HF_F32}, "float32");
    expect_solved(&m.a, (hf_relax_opts){.method = HF_RELAX_CG, .precond = HF_PRECOND_BLOCKS},
                  "blocks");
    matrix_free(&m);
}

static void one_launch_repeats(void **state) {
    (void)state;
    struct matrix m;
    make_fv(&m, 60, 3.510152);
    double *first = malloc((size_t)m.a.rows * sizeof *first);
    double *again = malloc((size_t)m.a.rows * sizeof *again);
    const hf_relax_method methods[] = {HF_RELAX_JACOBI, HF_RELAX_ASYNC, HF_RELAX_SCHWARZ,
                                       HF_RELAX_CHEBYSHEV};
    for (int i = 0; i < 4; i++) {
        const bool blocks = methods[i] == HF_RELAX_SCHWARZ; /* how these are cut decides whether */
        const hf_relax_opts opts = {.method = methods[i],
                                    .one_launch = blocks ? HF_SWITCH_AUTO : HF_SWITCH_ON};
        hf_relax_result a = solve_ones(gpu, &m.a, &opts, first);
        for (int round = 0; round < 5; round++) {
            hf_relax_result b = solve_ones(gpu, &m.a, &opts, again);
            assert_true(b.one_launch || blocks);
            assert_int_equal(a.iterations, b.iterations);
            assert_memory_equal(first, again, (size_t)m.a.rows * sizeof *first);
            hf_relax_result_clear(&b);
        }
        hf_relax_result_clear(&a);
    }
    free(first);
    free(again);
    matrix_free(&m);
}

static void what_does_not_fit_is_said(void **state) {
    (void)state;
    struct matrix m;
    make_poisson(&m, 60, 1, 0);
    double *b = ones(m.a.rows), *x = calloc((size_t)m.a.rows, sizeof *x);
    const hf_array rhs = hf_array_view(b, HF_F64, m.a.rows, 1);
    const hf_array at = hf_array_view(x, HF_F64, m.a.rows, 1);
    const hf_relax_opts opts = {.method = HF_RELAX_GAUSS_SEIDEL, .one_launch = HF_SWITCH_ON};
    assert_int_equal(hf_relax_solve(gpu, &m.a, &rhs, &at, &opts, NULL), HF_E_UNSUPPORTED);
    assert_non_null(strstr(hf_last_error(gpu), "one launch"));
    free(b);
    free(x);
    matrix_free(&m);
}

static void new_values_and_several_columns(void **state) {
    (void)state;
    struct matrix m;
    hf_relax *relax = NULL;
    make_fv(&m, 40, 3.510152);
    const int64_t n = m.a.rows;
    const hf_relax_opts opts = {.method = HF_RELAX_CHEBYSHEV};
    assert_int_equal(hf_relax_setup(gpu, &m.a, &opts, &relax), HF_OK);
    for (int64_t e = 0; e < m.used; e++)
        m.value[e] *= 2;
    assert_int_equal(hf_relax_update_values(relax, &m.a), HF_OK);
    double *b = malloc(3 * (size_t)n * sizeof *b), *x = calloc(3 * (size_t)n, sizeof *x);
    for (int64_t i = 0; i < 3 * n; i++)
        b[i] = (double)(i % 3 == 0 ? 1 : i % 7);
    const hf_array rhs = hf_array_view(b, HF_F64, n, 3), at = hf_array_view(x, HF_F64, n, 3);
    hf_relax_result result = {0};
    assert_int_equal(hf_relax_solve_with(relax, &rhs, &at, &result), HF_OK);
    assert_true(result.converged);
    double *first = malloc((size_t)n * sizeof *first);
    for (int64_t i = 0; i < n; i++)
        first[i] = x[3 * i];
    assert_true(true_residual(&m.a, first) <= 1.001e-10);
    hf_relax_result_clear(&result);
    hf_relax_destroy(relax);
    free(first);
    free(b);
    free(x);
    matrix_free(&m);
}

/* Sweeps from x or from 0, on the host or with vectors in the device's memory. */
struct smoothing {
    int sweeps, guess_zero;
    bool there;
};

static void apply(hf_context *ctx, const hf_csr *a, const hf_relax_opts *opts,
                  const struct smoothing *how, double *x) {
    const size_t bytes = (size_t)a->rows * sizeof *x;
    const bool there = how->there;
    hf_relax *relax = NULL;
    double *b = ones(a->rows);
    void *b_there = there ? hf_ctx_alloc(ctx, bytes) : b;
    void *x_there = there ? hf_ctx_alloc(ctx, bytes) : x;
    assert_int_equal(hf_relax_setup(ctx, a, opts, &relax), HF_OK);
    if (there) {
        assert_int_equal(hf_ctx_copy(ctx, b_there, b, bytes), HF_OK);
        assert_int_equal(hf_ctx_copy(ctx, x_there, x, bytes), HF_OK);
    }
    const hf_array rhs = hf_array_view(b_there, HF_F64, a->rows, 1);
    const hf_array at = hf_array_view(x_there, HF_F64, a->rows, 1);
    assert_int_equal(hf_relax_apply(relax, &rhs, &at, how->sweeps, how->guess_zero), HF_OK);
    if (there) {
        assert_int_equal(hf_ctx_copy(ctx, x, x_there, bytes), HF_OK);
        hf_ctx_release(ctx, b_there);
        hf_ctx_release(ctx, x_there);
    }
    hf_relax_destroy(relax);
    free(b);
}

/* The same bits; of Chebyshev's method, whose spectrum each device finds by itself, nearly. */
static void assert_same_sweeps(const hf_relax_opts *opts, int sweeps, double *x[3], int64_t n) {
    const bool exact = opts->method != HF_RELAX_CHEBYSHEV;
    for (int i = 1; i < 3; i++)
        for (int64_t p = 0; p < n; p++) {
            const bool same = exact ? x[0][p] == x[i][p] : fabs(x[0][p] - x[i][p]) < 1e-6;
            if (!same)
                print_message("%s, %d sweeps: x[%d] is %g on the cpu, %g %s\n",
                              hf_relax_method_name(opts->method), sweeps, (int)p, x[0][p], x[i][p],
                              i == 1 ? "from the host's memory" : "from the device's");
            assert_true(same);
        }
}

static void compare_sweeps(const hf_csr *a, const hf_relax_opts *kinds, int count) {
    const hf_context_opts one = {.device = "cpu", .threads = 1};
    hf_context *cpu = NULL;
    double *x[3];
    assert_int_equal(hf_context_create(&cpu, &one), HF_OK);
    for (int i = 0; i < 3; i++)
        x[i] = malloc((size_t)a->rows * sizeof *x[i]);
    for (int k = 0; k < count; k++)
        for (int sweeps = 1; sweeps <= 4; sweeps++)
            for (int zero = 0; zero < 2; zero++) {
                for (int i = 0; i < 3; i++)
                    for (int64_t p = 0; p < a->rows; p++)
                        x[i][p] = (double)(p % 11) / 7;
                for (int i = 0; i < 3; i++)
                    apply(i == 0 ? cpu : gpu, a, &kinds[k],
                          &(struct smoothing){sweeps, zero, i == 2}, x[i]);
                assert_same_sweeps(&kinds[k], sweeps, x, a->rows);
            }
    for (int i = 0; i < 3; i++)
        free(x[i]);
    hf_context_destroy(cpu);
}

static void sweeps_have_the_bits_of_the_cpu(void **state) {
    (void)state;
    struct matrix m;
    make_fv(&m, 40, 3.510152);
    const hf_relax_opts kinds[] = {
        {.method = HF_RELAX_JACOBI, .damping = 0.8, .partition = HF_PARTITION_STRIPS},
        {.method = HF_RELAX_ASYNC, .block_rows = 100, .partition = HF_PARTITION_STRIPS},
        {.method = HF_RELAX_GAUSS_SEIDEL, .block_rows = 60, .partition = HF_PARTITION_STRIPS},
        {.method = HF_RELAX_CHEBYSHEV, .partition = HF_PARTITION_STRIPS},
        {.method = HF_RELAX_ASYNC, .block_rows = 100, .partition = HF_PARTITION_GRAPH}};
    compare_sweeps(&m.a, kinds, 5);
    matrix_free(&m);
}

/* Other numbers in each row, so that none is a stencil: A stays symmetric, and diagonally dominant
 * as long as they are smaller by 10 % at most. */
static void disturb(struct matrix *m) {
    for (int64_t i = 0; i < m->a.rows; i++)
        for (int64_t e = m->a.row_start[i]; e < m->a.row_start[i + 1]; e++) {
            const int64_t j = m->a.column[e], low = i < j ? i : j, high = i < j ? j : i;
            m->value[e] *= 1 - 1e-4 * (double)((low * 7919 + high * 104729) % 1000);
        }
}

/* In groups where rows are few, and by slices where they are many (row_slices.c). */
static void rows_of_which_none_is_like_another(void **state) {
    (void)state;
    const hf_relax_opts kinds[] = {
        {.method = HF_RELAX_JACOBI, .damping = 0.8, .partition = HF_PARTITION_STRIPS},
        {.method = HF_RELAX_JACOBI, .damping = 0.8, .inside = HF_F32, .symmetric = 1},
        {.method = HF_RELAX_CHEBYSHEV, .symmetric = 1},
        {.method = HF_RELAX_CG}};
    for (int64_t side = 60; side <= 260; side += 200) {
        struct matrix m;
        make_fv(&m, side, 3.510152);
        disturb(&m);
        compare_sweeps(&m.a, kinds, 3);
        for (int k = 0; k < 4; k++)
            expect_solved(&m.a, kinds[k], hf_relax_method_name(kinds[k].method));
        matrix_free(&m);
    }
}

/* Faults in what the device has of a system: healed, corrected or refused. */
static void faults_on_the_device(void **state) {
    (void)state;
    struct matrix m;
    make_fv(&m, 60, 3.510152);
    const int64_t n = m.a.rows;
    double *b = ones(n), *x = malloc((size_t)n * sizeof *x);
    const hf_array rhs = hf_array_view(b, HF_F64, n, 1), at = hf_array_view(x, HF_F64, n, 1);
    int64_t reloads = 0;
    for (int method = HF_RELAX_JACOBI; method <= HF_RELAX_CHEBYSHEV; method++)
        for (int launch = HF_SWITCH_AUTO; launch <= HF_SWITCH_OFF; launch += HF_SWITCH_OFF) {
            hf_relax *relax = NULL;
            const hf_relax_opts opts = {.method = (hf_relax_method)method,
                                        .one_launch = (hf_relax_switch)launch};
            assert_int_equal(hf_relax_setup(gpu, &m.a, &opts, &relax), HF_OK);
            for (int kind = HF_DEV_RELAX_X; kind <= HF_DEV_RELAX_FACTOR; kind++)
                for (int bit = 40; bit < 64; bit += 11) {
                    const hf_dev_relax_fault fault = {.kind = (hf_dev_relax_fault_kind)kind,
                                                      .iteration = 2,
                                                      .bit = bit,
                                                      .seed = (uint64_t)(100 * method + kind)};
                    hf_relax_result result = {0};
                    memset(x, 0, (size_t)n * sizeof *x);
                    assert_int_equal(hf_dev_relax_solve(relax, &rhs, &at, &fault, &result), HF_OK);
                    if (!result.converged || true_residual(&m.a, x) > 1.001e-10)
                        print_message("%s, one_launch %d, fault %d, bit %d: stop %d, residual %g\n",
                                      hf_relax_method_name(opts.method), launch, kind, bit,
                                      (int)result.stop, true_residual(&m.a, x));
                    assert_true(!result.converged || true_residual(&m.a, x) <= 1.001e-10);
                    assert_true(result.converged);
                    reloads += result.faults.reloads;
                    hf_relax_result_clear(&result);
                }
            hf_relax_destroy(relax);
        }
    assert_true(reloads > 0);
    free(b);
    free(x);
    matrix_free(&m);
}

/* One part alone: test_relax_device PART */
int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method),
        cmocka_unit_test(free_timing_and_float32),
        cmocka_unit_test(one_launch_repeats),
        cmocka_unit_test(what_does_not_fit_is_said),
        cmocka_unit_test(new_values_and_several_columns),
        cmocka_unit_test(sweeps_have_the_bits_of_the_cpu),
        cmocka_unit_test(rows_of_which_none_is_like_another),
        cmocka_unit_test(faults_on_the_device),
    };
    if (!open_for_tests(&gpu, "cuda", argc, argv))
        return SKIPPED;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hf_context_destroy(gpu);
    return failed;
}
