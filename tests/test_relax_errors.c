/* SPDX-License-Identifier: Apache-2.0
 * What the functions of relax.h refuse, with words that say where, and systems at the edge that
 * they must solve: one row, a singular matrix, no element off the diagonal. */
#include "relax_matrices.h"

static hf_context *ctx;

/* Expect a status and words; x must stay as it was. */
static void refused(const hf_csr *a, const hf_relax_opts *opts, hf_status status,
                    const char *words) {
    double b[8] = {1, 1, 1, 1, 1, 1, 1, 1}, x[8] = {5, 5, 5, 5, 5, 5, 5, 5};
    const hf_array bv = hf_array_view(b, HF_F64, a->rows, 1);
    const hf_array xv = hf_array_view(x, HF_F64, a->rows, 1);
    hf_relax_result r = {.n = 77};
    const hf_status got = hf_relax_solve(ctx, a, &bv, &xv, opts, &r);
    if (got != status || strstr(hf_last_error(ctx), words) == NULL)
        fail_msg("status %d: \"%s\" lacks \"%s\"", (int)got, hf_last_error(ctx), words);
    assert_int_equal(r.n, 77);
    for (int i = 0; i < 8; i++)
        assert_true(x[i] == 5);
}

/* 3 x 3 with a changed element */
struct small {
    int64_t row_start[4];
    int32_t column[7];
    double value[7];
    hf_csr a;
};

static void make_small(struct small *s) {
    *s = (struct small){.row_start = {0, 2, 5, 7},
                        .column = {0, 1, 0, 1, 2, 1, 2},
                        .value = {4, -1, -1, 4, -1, -1, 4}};
    s->a = (hf_csr){3, 3, HF_F64, s->row_start, s->column, s->value};
}

static void bad_matrices(void **state) {
    (void)state;
    struct small s;
    make_small(&s);
    s.a.cols = 4;
    refused(&s.a, NULL, HF_E_ARG, "3 x 4");
    make_small(&s);
    s.a.rows = s.a.cols = 0;
    refused(&s.a, NULL, HF_E_ARG, "0 x 0");
    make_small(&s);
    s.a.dtype = HF_F16;
    refused(&s.a, NULL, HF_E_ARG, "f16");
    make_small(&s);
    s.a.column = NULL;
    refused(&s.a, NULL, HF_E_ARG, "no column array");
    make_small(&s);
    s.row_start[0] = 1;
    refused(&s.a, NULL, HF_E_DATA, "row_start[0] is 1");
    make_small(&s);
    s.row_start[2] = 1;
    refused(&s.a, NULL, HF_E_DATA, "row_start[2] is 1");
    make_small(&s);
    s.column[4] = 3;
    refused(&s.a, NULL, HF_E_DATA, "row 1 has an element in column 3");
    make_small(&s);
    s.column[4] = -1;
    refused(&s.a, NULL, HF_E_DATA, "column -1");
    make_small(&s);
    s.value[4] = NAN;
    refused(&s.a, NULL, HF_E_DATA, "row 1, column 2 is nan");
    make_small(&s);
    s.value[6] = 0;
    refused(&s.a, NULL, HF_E_DATA, "diagonal element of row 2 is zero or missing");
    make_small(&s);
    s.column[6] = 0;
    refused(&s.a, NULL, HF_E_DATA, "diagonal element of row 2 is zero or missing");
    make_small(&s);
    s.value[6] = 1e-310;
    refused(&s.a, NULL, HF_E_DATA, "too small");
    make_small(&s);
    s.value[1] = -2;
    const hf_relax_opts cg = {.method = HF_RELAX_CG}, chebyshev = {.method = HF_RELAX_CHEBYSHEV};
    refused(&s.a, &cg, HF_E_DATA, "elements (0, 1) and (1, 0) differ");
    refused(&s.a, &chebyshev, HF_E_DATA, "symmetric");
    make_small(&s);
    s.value[3] = -4;
    refused(&s.a, &cg, HF_E_DATA, "negative diagonal");
}

static void bad_options(void **state) {
    (void)state;
    const struct {
        hf_relax_opts opts;
        const char *words;
    } wrong[] = {
        {{.method = (hf_relax_method)7}, "method is 7"},
        {{.precond = (hf_relax_precond)3}, "precond is 3"},
        {{.partition = (hf_relax_partition)3}, "partition is 3"},
        {{.timing = (hf_relax_timing)2}, "timing is 2"},
        {{.coarse = (hf_relax_switch)3}, "coarse is 3"},
        {{.inside = HF_U8}, "inside is u8"},
        {{.tol = NAN}, "tol is nan"},
        {{.tol = 1}, "tol is 1"},
        {{.tol = -1}, "nothing but max_iter"},
        {{.max_iter = -1}, "max_iter is -1"},
        {{.max_seconds = -2}, "max_seconds -2"},
        {{.progress_seconds = -1}, "progress_seconds is -1"},
        {{.block_rows = -1}, "block_rows is -1"},
        {{.local_sweeps = 1001}, "local_sweeps 1001"},
        {{.overlap = 65}, "overlap is 65"},
        {{.spares = 65}, "spares is 65"},
        {{.damping = 2}, "damping is 2"},
        {{.damping = -0.5}, "damping is -0.5"},
        {{.damping = NAN}, "damping is nan"},
    };
    struct small s;
    make_small(&s);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        refused(&s.a, &wrong[i].opts, HF_E_ARG, wrong[i].words);
}

static void expect_vectors(const hf_array *b, const hf_array *x, hf_status status,
                           const char *words) {
    struct small s;
    make_small(&s);
    assert_int_equal(hf_relax_solve(ctx, &s.a, b, x, NULL, NULL), status);
    if (strstr(hf_last_error(ctx), words) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", hf_last_error(ctx), words);
}

static void bad_vectors(void **state) {
    (void)state;
    double b[6] = {1, 2, 3, 4, 5, 6}, x[6] = {0};
    hf_array bv = hf_array_view(b, HF_F64, 3, 1), xv = hf_array_view(x, HF_F64, 3, 1);
    const hf_array longer = hf_array_view(b, HF_F64, 4, 1), two = hf_array_view(b, HF_F64, 3, 2);
    const hf_array bytes = hf_array_view(b, HF_U8, 3, 1), single = hf_array_view(x, HF_F32, 3, 1);
    expect_vectors(NULL, &xv, HF_E_ARG, "b");
    expect_vectors(&bv, NULL, HF_E_ARG, "x");
    expect_vectors(&longer, &xv, HF_E_ARG, "b is [4, 1]");
    expect_vectors(&two, &xv, HF_E_ARG, "b is [3, 2]");
    expect_vectors(&bytes, &xv, HF_E_ARG, "u8");
    expect_vectors(&bv, &single, HF_E_ARG, "f32");
    b[1] = INFINITY;
    expect_vectors(&bv, &xv, HF_E_DATA, "b is inf in row 1");
    b[1] = 2;
    x[2] = NAN;
    expect_vectors(&bv, &xv, HF_E_DATA, "x is nan in row 2");
    x[2] = 1e200;
    expect_vectors(&bv, &xv, HF_E_DATA, "residual of the start");
    x[2] = 0;
    b[0] = b[1] = b[2] = 1e-200;
    expect_vectors(&bv, &xv, HF_E_DATA, "scale it");
    assert_int_equal(hf_relax_solve(NULL, NULL, NULL, NULL, NULL, NULL), HF_E_ARG);
    assert_int_equal(hf_relax_solve(ctx, NULL, &bv, &xv, NULL, NULL), HF_E_ARG);
}

static void bad_calls(void **state) {
    (void)state;
    struct small s, other;
    double b[3] = {1, 2, 3}, x[3] = {0};
    const hf_array bv = hf_array_view(b, HF_F64, 3, 1), xv = hf_array_view(x, HF_F64, 3, 1);
    hf_relax *relax = NULL;
    make_small(&s);
    make_small(&other);
    assert_int_equal(hf_relax_setup(ctx, &s.a, NULL, NULL), HF_E_ARG);
    const hf_relax_opts cg = {.method = HF_RELAX_CG}, jacobi = {.method = HF_RELAX_JACOBI};
    assert_int_equal(hf_relax_setup(ctx, &s.a, &cg, &relax), HF_OK);
    assert_int_equal(hf_relax_apply(relax, &bv, &xv, 1, 1), HF_E_ARG);
    assert_non_null(strstr(hf_last_error(ctx), "cannot smooth"));
    hf_relax_destroy(relax);
    assert_int_equal(hf_relax_setup(ctx, &s.a, &jacobi, &relax), HF_OK);
    assert_int_equal(hf_relax_apply(relax, &bv, &xv, 0, 1), HF_E_ARG);
    other.column[1] = 2;
    assert_int_equal(hf_relax_update_values(relax, &other.a), HF_E_ARG);
    assert_non_null(strstr(hf_last_error(ctx), "another pattern"));
    make_small(&other);
    other.value[1] = -3; /* not symmetric any more: the old values stay */
    assert_int_equal(hf_relax_update_values(relax, &other.a), HF_E_DATA);
    assert_int_equal(hf_relax_solve_with(relax, &bv, &xv, NULL), HF_OK);
    assert_true(residual_of(&s.a, b, x) <= 1e-10);
    hf_relax_destroy(relax);
    hf_relax_destroy(NULL);
    hf_relax_result_clear(NULL);
    assert_int_equal(hf_relax_solve_batch(ctx, &s.a, &bv, &xv, 0, NULL, NULL), HF_E_ARG);
    assert_string_equal(hf_relax_method_name(HF_RELAX_CHEBYSHEV), "chebyshev");
    assert_null(hf_relax_method_name((hf_relax_method)7));
    for (int i = 0; i <= 8; i++)
        assert_true(strlen(hf_relax_stop_text((hf_relax_stop)i)) > 0);
}

/* Every method on systems that have little to them. */
static void edges(void **state) {
    (void)state;
    static const double one_value[] = {-3};
    static const int64_t one_start[] = {0, 1};
    static const int32_t one_column[] = {0};
    const hf_csr one = {1, 1, HF_F64, one_start, one_column, one_value};
    struct matrix diagonal;
    matrix_open(&diagonal, 50);
    for (int64_t i = 0; i < 50; i++)
        matrix_put(&diagonal, i, i, 1.0 + (double)i);
    (void)matrix_close(&diagonal);
    for (int method = HF_RELAX_AUTO; method <= HF_RELAX_CHEBYSHEV; method++) {
        const hf_relax_opts opts = {.method = (hf_relax_method)method};
        hf_relax_result r;
        if (method < HF_RELAX_CG) { /* its only element is negative */
            r = solve_ones(ctx, &one, &opts, NULL);
            assert_true(r.converged && r.iterations <= 2);
            hf_relax_result_clear(&r);
        }
        r = solve_ones(ctx, &diagonal.a, &opts, NULL);
        assert_true(r.converged && r.iterations <= 20);
        hf_relax_result_clear(&r);
    }
    matrix_free(&diagonal);
}

/* Differences of neighbours on a ring: constants are lost. b = 1 has no solution, 1, -1, 1, -1 has.
 * */
static void singular(void **state) {
    (void)state;
    enum { N = 40 };
    struct matrix ring;
    matrix_open(&ring, N);
    for (int64_t i = 0; i < N; i++) {
        matrix_put(&ring, i, i, 2);
        matrix_put(&ring, i, (i + 1) % N, -1);
        matrix_put(&ring, i, (i + N - 1) % N, -1);
    }
    (void)matrix_close(&ring);
    double b[N], x[N];
    const hf_array bv = hf_array_view(b, HF_F64, N, 1), xv = hf_array_view(x, HF_F64, N, 1);
    static const hf_relax_method methods[] = {HF_RELAX_JACOBI, HF_RELAX_GAUSS_SEIDEL,
                                              HF_RELAX_ASYNC, HF_RELAX_CG};
    for (int k = 0; k < 8; k++) {
        hf_relax_result r;
        const hf_relax_opts opts = {.method = methods[k / 2], .block_rows = 7, .max_iter = 3000};
        for (int i = 0; i < N; i++) {
            b[i] = k % 2 && i % 2 ? -1 : 1;
            x[i] = 0;
        }
        const hf_status status = hf_relax_solve(ctx, &ring.a, &bv, &xv, &opts, &r);
        if (status != HF_OK) { /* Lanczos may meet the null space first */
            assert_int_equal(status, HF_E_DATA);
            continue;
        }
        assert_true(r.converged == (residual_of(&ring.a, b, x) <= 1.001e-10));
        assert_true(!r.converged || k % 2);
        assert_true(opts.method != HF_RELAX_CG || r.converged == k % 2);
        hf_relax_result_clear(&r);
    }
    matrix_free(&ring);
}

static int open_all(void **state) {
    (void)state;
    ctx = cpu_context(2);
    return 0;
}

static int close_all(void **state) {
    (void)state;
    hf_context_destroy(ctx);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bad_matrices), cmocka_unit_test(bad_options),
        cmocka_unit_test(bad_vectors),  cmocka_unit_test(bad_calls),
        cmocka_unit_test(edges),        cmocka_unit_test(singular),
    };
    return cmocka_run_group_tests(tests, open_all, close_all);
}
