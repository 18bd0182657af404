/* SPDX-License-Identifier: Apache-2.0
 * hf_relax_apply(): a fixed linear operator, symmetric where it says so, with the same bits each
 * time; and new values for a set-up. */
#include "relax_matrices.h"

#define COUNT 10
static const struct {
    hf_relax_opts opts;
    bool symmetric;
} smoothers[COUNT] = {
    {{.method = HF_RELAX_JACOBI}, true},
    {{.method = HF_RELAX_GAUSS_SEIDEL}, false},
    {{.method = HF_RELAX_GAUSS_SEIDEL, .symmetric = 1}, true},
    {{.method = HF_RELAX_GAUSS_SEIDEL, .symmetric = 1, .block_rows = 40, .damping = 1.2}, true},
    {{.method = HF_RELAX_ASYNC, .block_rows = 64}, true},
    {{.method = HF_RELAX_ASYNC, .block_rows = 64, .inside = HF_F32}, true},
    {{.method = HF_RELAX_SCHWARZ, .block_rows = 70}, false},
    {{.method = HF_RELAX_SCHWARZ, .block_rows = 70, .symmetric = 1}, true},
    {{.method = HF_RELAX_CHEBYSHEV}, true},
    {{.method = HF_RELAX_CHEBYSHEV, .precond = HF_PRECOND_BLOCKS, .block_rows = 70}, true},
};

static double number(int64_t i, int64_t which) {
    return sin((double)(i * 37 + which * 11 + 1)) + 0.1 * (double)(which + 1);
}

/* x = M(b), from zero; other [n] is what x holds before */
static void apply(hf_relax *relax, double *b, double *x, int64_t n, int sweeps, int guess_zero) {
    const hf_array bv = hf_array_view(b, HF_F64, n, 1), xv = hf_array_view(x, HF_F64, n, 1);
    assert_int_equal(hf_relax_apply(relax, &bv, &xv, sweeps, guess_zero), HF_OK);
}

static double product(const double *a, const double *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

static void check_linear(hf_relax *relax, int64_t n, int sweeps) {
    double *u = ones(n), *v = ones(n), *w = ones(n), *mu = ones(n), *mv = ones(n), *mw = ones(n);
    for (int64_t i = 0; i < n; i++) {
        u[i] = number(i, 0);
        v[i] = number(i, 1);
        w[i] = 3 * u[i] - 2 * v[i];
        mv[i] = mw[i] = 0;
    }
    apply(relax, u, mu, n, sweeps, 1); /* mu held ones: they must not matter */
    apply(relax, v, mv, n, sweeps, 0); /* from zeros */
    apply(relax, w, mw, n, sweeps, 1);
    double size = 0;
    for (int64_t i = 0; i < n; i++)
        size = fmax(size, fabs(mu[i]) + fabs(mv[i]));
    for (int64_t i = 0; i < n; i++)
        assert_true(fabs(mw[i] - 3 * mu[i] + 2 * mv[i]) <= 1e-12 * size);
    memcpy(mw, mu, (size_t)n * sizeof *mw);
    for (int64_t i = 0; i < n; i++)
        mu[i] = 5;
    apply(relax, u, mu, n, sweeps, 1);
    assert_memory_equal(mu, mw, (size_t)n * sizeof *mw);
    free(u);
    free(v);
    free(w);
    free(mu);
    free(mv);
    free(mw);
}

static void check_symmetric(hf_relax *relax, int64_t n, int sweeps) {
    double *u = ones(n), *v = ones(n), *mu = ones(n), *mv = ones(n);
    for (int64_t i = 0; i < n; i++) {
        u[i] = number(i, 2);
        v[i] = number(i, 3);
    }
    apply(relax, u, mu, n, sweeps, 1);
    apply(relax, v, mv, n, sweeps, 1);
    const double left = product(v, mu, n), right = product(u, mv, n);
    if (fabs(left - right) > 1e-11 * fabs(left))
        fail_msg("v.Mu = %.15g but u.Mv = %.15g", left, right);
    assert_true(product(u, mu, n) > 0 && product(v, mv, n) > 0);
    free(u);
    free(v);
    free(mu);
    free(mv);
}

static void linear_and_symmetric(void **state) {
    (void)state;
    hf_context *ctx = cpu_context(2);
    struct matrix m;
    make_fv(&m, 24, 3.2);
    for (int k = 0; k < COUNT; k++) {
        hf_relax *relax = NULL;
        assert_int_equal(hf_relax_setup(ctx, &m.a, &smoothers[k].opts, &relax), HF_OK);
        for (int sweeps = 1; sweeps <= 3; sweeps++) {
            check_linear(relax, m.a.rows, sweeps);
            if (smoothers[k].symmetric)
                check_symmetric(relax, m.a.rows, sweeps);
        }
        hf_relax_destroy(relax);
    }
    matrix_free(&m);
    hf_context_destroy(ctx);
}

/* Sweeps one by one are the sweeps at once (not Chebyshev, whose polynomial depends on the number);
 * they reduce the error, from any start and for any number of columns. */
static void sweeps_add_up(void **state) {
    (void)state;
    hf_context *ctx = cpu_context(2);
    struct matrix m;
    make_fv(&m, 24, 3.2);
    const int64_t n = m.a.rows;
    double *b = calloc((size_t)n * 2, sizeof *b), *x = calloc((size_t)n * 2, sizeof *x);
    double *y = ones(n), *first = ones(n);
    const hf_array bv = hf_array_view(b, HF_F64, n, 2), xv = hf_array_view(x, HF_F64, n, 2);
    for (int k = 0; k < COUNT; k++) {
        hf_relax *relax = NULL;
        assert_int_equal(hf_relax_setup(ctx, &m.a, &smoothers[k].opts, &relax), HF_OK);
        for (int64_t i = 0; i < n; i++) {
            b[2 * i] = first[i] = 1;
            b[2 * i + 1] = number(i, 4);
            x[2 * i] = y[i] = number(i, 5);
            x[2 * i + 1] = 0;
        }
        const double before = residual_of(&m.a, first, y);
        assert_int_equal(hf_relax_apply(relax, &bv, &xv, 4, 0), HF_OK);
        for (int sweep = 0; sweep < 4 && smoothers[k].opts.method != HF_RELAX_CHEBYSHEV; sweep++)
            apply(relax, first, y, n, 1, 0);
        for (int64_t i = 0; i < n; i++) {
            assert_true(smoothers[k].opts.method == HF_RELAX_CHEBYSHEV || y[i] == x[2 * i]);
            y[i] = x[2 * i];
        }
        assert_true(residual_of(&m.a, first, y) < 0.8 * before);
        hf_relax_destroy(relax);
    }
    free(b);
    free(x);
    free(y);
    free(first);
    matrix_free(&m);
    hf_context_destroy(ctx);
}

/* As if set up anew. */
static void new_values(void **state) {
    (void)state;
    hf_context *ctx = cpu_context(2);
    struct matrix m, other;
    make_fv(&m, 24, 3.2);
    make_fv(&other, 24, 3.7);
    const int64_t n = m.a.rows;
    double *b = ones(n), *x = ones(n), *y = ones(n);
    for (int k = 0; k < COUNT; k++) {
        hf_relax *relax = NULL, *fresh = NULL;
        assert_int_equal(hf_relax_setup(ctx, &m.a, &smoothers[k].opts, &relax), HF_OK);
        assert_int_equal(hf_relax_update_values(relax, &other.a), HF_OK);
        assert_int_equal(hf_relax_setup(ctx, &other.a, &smoothers[k].opts, &fresh), HF_OK);
        apply(relax, b, x, n, 3, 1);
        apply(fresh, b, y, n, 3, 1);
        /* Where the graph is cut depends on values, so strips alone are the same. */
        if (smoothers[k].opts.block_rows != 70)
            assert_memory_equal(x, y, (size_t)n * sizeof *x);
        hf_relax_result r;
        const hf_array bv = hf_array_view(b, HF_F64, n, 1), xv = hf_array_view(x, HF_F64, n, 1);
        assert_int_equal(hf_relax_solve_with(relax, &bv, &xv, &r), HF_OK);
        assert_true(r.converged && residual_of(&other.a, b, x) <= 1.001e-10);
        hf_relax_result_clear(&r);
        hf_relax_destroy(relax);
        hf_relax_destroy(fresh);
    }
    free(b);
    free(x);
    free(y);
    matrix_free(&m);
    matrix_free(&other);
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(linear_and_symmetric),
        cmocka_unit_test(sweeps_add_up),
        cmocka_unit_test(new_values),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
