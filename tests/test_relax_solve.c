/* SPDX-License-Identifier: Apache-2.0
 * Solutions of linear systems: every method against a dense solution, the iteration counts of the
 * paper's model and of ours, the same bits for any number of threads, and why solutions end. */
#include "relax_matrices.h"

#define METHODS 9

/* Every method, those of the accelerated kind with both preconditioners. */
static const struct {
    hf_relax_opts opts;
    bool needs_symmetry; /* and a positive definite matrix */
    bool needs_dominance;
} methods[METHODS] = {
    {{.method = HF_RELAX_AUTO}, false, false},
    {{.method = HF_RELAX_JACOBI}, false, true},
    {{.method = HF_RELAX_GAUSS_SEIDEL}, false, true},
    {{.method = HF_RELAX_GAUSS_SEIDEL, .symmetric = 1, .block_rows = 30}, false, true},
    {{.method = HF_RELAX_ASYNC, .block_rows = 50}, false, true},
    {{.method = HF_RELAX_SCHWARZ, .block_rows = 60}, false, true},
    {{.method = HF_RELAX_CG}, true, false},
    {{.method = HF_RELAX_CG, .precond = HF_PRECOND_BLOCKS, .block_rows = 60}, true, false},
    {{.method = HF_RELAX_CHEBYSHEV}, true, false},
};

static void compare(const hf_csr *a, const hf_relax_opts *opts, hf_context *ctx, double slack) {
    double *b = ones(a->rows), *x = ones(a->rows), *exact = ones(a->rows);
    dense_solve(a, b, exact);
    hf_relax_result r = solve_ones(ctx, a, opts, x);
    if (!r.converged)
        fail_msg("%s on %d rows: %s, residual %g", hf_relax_method_name(opts->method), (int)a->rows,
                 hf_relax_stop_text(r.stop), r.residual);
    double largest = 0, wrong = 0;
    for (int64_t i = 0; i < a->rows; i++) {
        largest = fmax(largest, fabs(exact[i]));
        wrong = fmax(wrong, fabs(x[i] - exact[i]));
    }
    /* The error is at most the condition number times the residual. */
    if (wrong > slack * 1e-10 * largest)
        fail_msg("%s on %d rows is wrong by %g", hf_relax_method_name(opts->method), (int)a->rows,
                 wrong / largest);
    hf_relax_result_clear(&r);
    free(b);
    free(x);
    free(exact);
}

static void every_method_is_right(void **state) {
    (void)state;
    hf_context *ctx = cpu_context(2);
    struct matrix m[7];
    make_fv(&m[0], 17, 3.51);
    make_fv(&m[1], 16, 3);
    make_trefethen(&m[2], 300);
    make_poisson(&m[3], 18, 1, 0);
    make_poisson(&m[4], 18, 0.01, 0);
    make_stars(&m[5], 300);
    make_poisson(&m[6], 18, 1, 0.5); /* not symmetric */
    for (int i = 0; i < 7; i++)
        for (int k = 0; k < METHODS; k++)
            if (i != 6 || !methods[k].needs_symmetry)
                compare(&m[i].a, &methods[k].opts, ctx, 3000);
    struct matrix plate; /* Jacobi diverges */
    make_plate(&plate, 14);
    for (int k = 0; k < METHODS; k++)
        if (!methods[k].needs_dominance)
            compare(&plate.a, &methods[k].opts, ctx, 1e6);
    for (int i = 0; i < 7; i++)
        matrix_free(&m[i]);
    matrix_free(&plate);
    hf_context_destroy(ctx);
}

/* Iterations to 1e-10 and the mean contraction over the second half of them. */
static void count(hf_context *ctx, const hf_csr *a, const hf_relax_opts *opts, int64_t *iterations,
                  double *contraction) {
    hf_relax_result r = solve_ones(ctx, a, opts, NULL);
    const hf_relax_column *c = &r.columns[0];
    assert_true(r.converged);
    assert_int_equal(c->history_step, 1);
    assert_int_equal(c->history_count, c->iterations + 1);
    const int64_t half = c->iterations / 2;
    *iterations = c->iterations;
    *contraction =
        pow(c->history[c->iterations] / c->history[half], 1.0 / (double)(c->iterations - half));
    hf_relax_result_clear(&r);
}

/* async-(5) with blocks of 128 rows is the synchronous model of the paper's method: within 2 %. */
static void counts_of_the_paper_s_model(void **state) {
    (void)state;
    hf_context *ctx = cpu_context(2);
    const hf_relax_opts opts = {.method = HF_RELAX_ASYNC, .block_rows = 128, .local_sweeps = 5};
    struct matrix fv1, trefethen;
    int64_t iterations = 0;
    double contraction = 0;
    make_fv(&fv1, 98, 3.510152);
    count(ctx, &fv1.a, &opts, &iterations, &contraction);
    assert_in_range(iterations, 83, 85);
    assert_true(fabs(contraction / 0.758 - 1) < 0.02);
    make_trefethen(&trefethen, 2000);
    count(ctx, &trefethen.a, &opts, &iterations, &contraction);
    assert_in_range(iterations, 28, 28);
    assert_true(fabs(contraction / 0.470 - 1) < 0.02);
    matrix_free(&fv1);
    matrix_free(&trefethen);
    hf_context_destroy(ctx);
}

static void counts_of_our_methods(void **state) {
    (void)state;
    static const hf_relax_opts schwarz = {.method = HF_RELAX_SCHWARZ};
    static const hf_relax_opts blocks = {.method = HF_RELAX_CG, .precond = HF_PRECOND_BLOCKS};
    static const hf_relax_opts damped = {.method = HF_RELAX_ASYNC, .damping = 0.85};
    hf_context *ctx = cpu_context(2);
    struct matrix fv1, fv3, trefethen, stars;
    int64_t iterations = 0;
    double unused = 0;
    make_fv(&fv1, 98, 3.510152);
    make_fv(&fv3, 99, 3);
    make_trefethen(&trefethen, 2000);
    make_stars(&stars, 2410);
    count(ctx, &fv1.a, &schwarz, &iterations, &unused);
    assert_in_range(iterations, 1, 12);
    count(ctx, &fv3.a, &blocks, &iterations, &unused);
    assert_in_range(iterations, 1, 120);
    count(ctx, &trefethen.a, &damped, &iterations, &unused);
    assert_in_range(iterations, 1, 12);
    hf_relax_result r = solve_ones(ctx, &stars.a, &schwarz, NULL); /* exactly, by components */
    assert_in_range(r.iterations, 1, 2);
    assert_string_equal(r.partition, "components");
    hf_relax_result_clear(&r);
    matrix_free(&fv1);
    matrix_free(&fv3);
    matrix_free(&trefethen);
    matrix_free(&stars);
    hf_context_destroy(ctx);
}

static void same_bits_for_any_threads(void **state) {
    (void)state;
    static const int threads[] = {1, 2, 7};
    struct matrix m;
    make_fv(&m, 60, 3.1);
    const size_t bytes = (size_t)m.a.rows * sizeof(double);
    double *first = malloc(bytes), *x = malloc(bytes);
    for (int k = 0; k < METHODS; k++)
        for (int t = 0; t < 3; t++) {
            hf_context *ctx = cpu_context(threads[t]);
            hf_relax_opts opts = methods[k].opts;
            opts.max_iter = 30;
            hf_relax_result r = solve_ones(ctx, &m.a, &opts, t == 0 ? first : x);
            if (t > 0)
                assert_memory_equal(first, x, bytes);
            assert_true(r.repeatable);
            hf_relax_result_clear(&r);
            hf_context_destroy(ctx);
        }
    free(first);
    free(x);
    matrix_free(&m);
}

/* Free timing says that it is not repeatable; what it returns as converged is. */
static void free_timing_is_true(void **state) {
    (void)state;
    hf_context *ctx = cpu_context(3);
    const hf_relax_opts opts = {
        .method = HF_RELAX_ASYNC, .timing = HF_TIMING_FREE, .block_rows = 40};
    struct matrix m;
    make_fv(&m, 40, 3.51);
    for (int i = 0; i < 20; i++) {
        hf_relax_result r = solve_ones(ctx, &m.a, &opts, NULL);
        assert_true(r.converged && !r.repeatable && r.residual <= 1e-10);
        assert_int_equal(r.faults.takeovers, 0);
        hf_relax_result_clear(&r);
    }
    matrix_free(&m);
    hf_context_destroy(ctx);
}

/* float32 inside: the answer is that of the float64 matrix all the same. */
static void float32_inside(void **state) {
    (void)state;
    hf_context *ctx = cpu_context(2);
    struct matrix m;
    make_fv(&m, 17, 3.123456789);
    for (int k = 1; k < METHODS; k++) {
        hf_relax_opts opts = methods[k].opts;
        opts.inside = HF_F32;
        compare(&m.a, &opts, ctx, 3000);
    }
    matrix_free(&m);
    hf_context_destroy(ctx);
}

/* The same matrix with columns in disorder and elements in two parts. */
static void disorder_does_not_matter(void **state) {
    (void)state;
    hf_context *ctx = cpu_context(2);
    struct matrix m, shuffled;
    make_fv(&m, 15, 3.25); /* halves are exact */
    matrix_open(&shuffled, m.a.rows);
    for (int64_t i = 0; i < m.a.rows; i++) {
        for (int64_t e = m.row_start[i + 1] - 1; e >= m.row_start[i]; e--)
            matrix_put(&shuffled, i, m.column[e], m.value[e] / 2);
        for (int64_t e = m.row_start[i]; e < m.row_start[i + 1]; e++)
            matrix_put(&shuffled, i, m.column[e], m.value[e] / 2);
    }
    (void)matrix_close(&shuffled);
    double *x = ones(m.a.rows), *y = ones(m.a.rows);
    for (int k = 0; k < METHODS; k++) {
        hf_relax_opts opts = methods[k].opts;
        opts.tol = -1;
        opts.max_iter = 5;
        hf_relax_result r = solve_ones(ctx, &m.a, &opts, x);
        hf_relax_result s = solve_ones(ctx, &shuffled.a, &opts, y);
        assert_memory_equal(x, y, (size_t)m.a.rows * sizeof *x);
        assert_int_equal(r.stop, HF_RELAX_STOP_MAX_ITER);
        assert_int_equal(s.iterations, 5);
        hf_relax_result_clear(&r);
        hf_relax_result_clear(&s);
    }
    free(x);
    free(y);
    matrix_free(&m);
    matrix_free(&shuffled);
    hf_context_destroy(ctx);
}

/* Columns of b, one of them 0 and one with its solution given; each as if it were alone. */
static void many_right_hand_sides(void **state) {
    (void)state;
    enum { RHS = 4, GAP = 6 };
    hf_context *ctx = cpu_context(2);
    struct matrix m;
    make_fv(&m, 20, 3.2);
    const int64_t n = m.a.rows;
    double *b = calloc((size_t)n * GAP, sizeof *b), *x = calloc((size_t)n * GAP, sizeof *x);
    double *alone = ones(n);
    hf_relax_result r = solve_ones(ctx, &m.a, &(hf_relax_opts){0}, alone);
    hf_relax_result_clear(&r);
    for (int64_t i = 0; i < n; i++) {
        b[i * GAP] = b[i * GAP + 2] = 1;
        b[i * GAP + 3] = -2; /* column 1 stays 0, but x is not */
        x[i * GAP + 1] = 7;
        x[i * GAP + 2] = alone[i];
        x[i * GAP + 4] = x[i * GAP + 5] = 99;
    }
    hf_array bv = hf_array_view(b, HF_F64, n, RHS), xv = hf_array_view(x, HF_F64, n, RHS);
    bv.row_stride = xv.row_stride = GAP;
    assert_int_equal(hf_relax_solve(ctx, &m.a, &bv, &xv, NULL, &r), HF_OK);
    assert_true(r.converged);
    assert_int_equal(r.rhs, RHS);
    assert_int_equal(r.columns[1].iterations, 0);
    assert_int_equal(r.columns[2].iterations, 0);
    for (int64_t i = 0; i < n; i++) {
        assert_true(x[i * GAP] == alone[i] && x[i * GAP + 1] == 0 && x[i * GAP + 2] == alone[i]);
        assert_true(x[i * GAP + 4] == 99 && x[i * GAP + 5] == 99);
    }
    hf_relax_result_clear(&r);
    free(b);
    free(x);
    free(alone);
    matrix_free(&m);
    hf_context_destroy(ctx);
}

/* One right-hand side: rows in their own order, and colours where many sweeps are to follow. Both
 * the same for any number of threads, from any start, and for a pattern that is not symmetric. */
static void gauss_seidel_begins_in_order(void **state) {
    (void)state;
    static const hf_relax_opts opts = {.method = HF_RELAX_GAUSS_SEIDEL};
    struct {
        struct matrix m;
        bool colours;
        int least, most; /* sweeps */
    } cases[4] = {{.colours = false, .least = 10, .most = 16},
                  {.colours = true, .least = 100, .most = 3000},
                  {.colours = true, .least = 100, .most = 3000},
                  {.colours = false, .least = 1, .most = 60}};
    make_trefethen(&cases[0].m, 2000);
    make_fv(&cases[1].m, 60, 3.02);
    make_poisson(&cases[2].m, 40, 1, 0.3);
    make_stars(&cases[3].m, 600); /* short rows */
    for (int k = 0; k < 4; k++) {
        const hf_csr *a = &cases[k].m.a;
        double *first = calloc((size_t)a->rows, sizeof *first), *x = NULL;
        for (int threads = 1; threads <= 3; threads += 2) {
            hf_context *ctx = cpu_context(threads);
            x = calloc((size_t)a->rows, sizeof *x);
            hf_relax_result r = solve_ones(ctx, a, &opts, x);
            assert_true(r.converged);
            assert_string_equal(r.partition, cases[k].colours ? "rows" : "strips");
            assert_in_range(r.iterations, cases[k].least, cases[k].most);
            assert_int_equal(r.columns[0].history_count,
                             r.iterations / r.columns[0].history_step + 1);
            if (threads > 1)
                assert_memory_equal(x, first, (size_t)a->rows * sizeof *x);
            memcpy(first, x, (size_t)a->rows * sizeof *x);
            const hf_relax_column *c = &r.columns[0];
            assert_true(c->history_step > 1 || c->history[r.iterations] == c->residual);
            const int64_t whole = r.iterations;
            hf_relax_result_clear(&r);
            x[0] += 1e-3; /* a start that is nearly right */
            double *b = ones(a->rows);
            const hf_array bv = hf_array_view(b, HF_F64, a->rows, 1);
            const hf_array xv = hf_array_view(x, HF_F64, a->rows, 1);
            assert_int_equal(hf_relax_solve(ctx, a, &bv, &xv, &opts, &r), HF_OK);
            assert_true(r.converged && r.iterations < whole);
            free(b);
            hf_relax_result_clear(&r);
            hf_context_destroy(ctx);
            free(x);
        }
        free(first);
        matrix_free(&cases[k].m);
    }
}

static int stop_at_seven(void *user, int64_t rhs, int64_t iteration, double residual) {
    (void)user, (void)rhs, (void)residual;
    return iteration >= 7;
}

/* However it ends: the iterate that was made last has its place, with what it really leaves. */
static void histories_end_with_what_was_checked(void **state) {
    (void)state;
    hf_context *ctx = cpu_context(2);
    struct matrix m;
    make_fv(&m, 40, 3.510152);
    for (int method = HF_RELAX_JACOBI; method <= HF_RELAX_CHEBYSHEV; method++)
        for (int devices = 0; devices < 2; devices++)
            for (int ends = 0; ends < 3; ends++) {
                if (devices > 0 && method != HF_RELAX_JACOBI && method != HF_RELAX_ASYNC)
                    continue;
                const hf_relax_opts opts = {.method = (hf_relax_method)method,
                                            .block_rows = 200,
                                            .devices = devices > 0 ? "cpu,cpu" : NULL,
                                            .max_iter = ends == 1 ? 16 : 0,
                                            .progress = ends == 2 ? stop_at_seven : NULL};
                hf_relax_result r = solve_ones(ctx, &m.a, &opts, NULL);
                const hf_relax_column *c = &r.columns[0];
                assert_int_equal(c->history_count, c->iterations / c->history_step + 1);
                if (c->iterations % c->history_step == 0)
                    assert_true(c->history[c->history_count - 1] == c->residual);
                hf_relax_result_clear(&r);
            }
    matrix_free(&m);
    hf_context_destroy(ctx);
}

/* History beyond the room that there is at first, and beyond the most that is kept. */
static void histories_grow(void **state) {
    (void)state;
    hf_context *ctx = cpu_context(1);
    struct matrix m;
    make_poisson(&m, 3, 1, 0);
    static const int64_t counts[] = {511, 512, 513, 5000, 65535, 65536, 200000};
    for (int i = 0; i < 7; i++) {
        const hf_relax_opts opts = {.method = HF_RELAX_JACOBI, .tol = -1, .max_iter = counts[i]};
        hf_relax_result r = solve_ones(ctx, &m.a, &opts, NULL);
        const hf_relax_column *c = &r.columns[0];
        assert_int_equal(c->iterations, counts[i]);
        assert_int_equal(c->history_count, counts[i] / c->history_step + 1);
        assert_int_equal(c->history_step, counts[i] < 65536 ? 1 : counts[i] < 131072 ? 2 : 4);
        assert_true(c->history[0] == 1);
        hf_relax_result_clear(&r);
    }
    matrix_free(&m);
    hf_context_destroy(ctx);
}

static int stop_at_five(void *user, int64_t rhs, int64_t iteration, double residual) {
    int *calls = user;
    ++*calls;
    assert_true(rhs == 0 && residual > 0);
    return iteration >= 5;
}

static void expect_stop(hf_context *ctx, const hf_csr *a, const hf_relax_opts *opts,
                        hf_relax_stop stop) {
    hf_relax_result r = solve_ones(ctx, a, opts, NULL);
    if (r.stop != stop)
        fail_msg("%s stopped because %s, residual %g", hf_relax_method_name(opts->method),
                 hf_relax_stop_text(r.stop), r.residual);
    assert_true(r.converged == (stop == HF_RELAX_STOP_TOL));
    assert_true(r.residual <= 1); /* never worse than the start */
    hf_relax_result_clear(&r);
}

static void each_stop_has_its_reason(void **state) {
    (void)state;
    hf_context *ctx = cpu_context(2);
    struct matrix m, plate, saddle;
    int calls = 0;
    make_fv(&m, 30, 3.0);
    make_plate(&plate, 20);
    make_poisson(&saddle, 12, 1, 0);
    for (int64_t i = 0; i < saddle.a.rows; i++) /* shifted: indefinite, diagonal positive */
        for (int64_t e = saddle.row_start[i]; e < saddle.row_start[i + 1]; e++)
            saddle.value[e] -= saddle.column[e] == i ? 2 : 0;
    const hf_relax_opts slow = {.method = HF_RELAX_JACOBI, .max_iter = 40};
    const hf_relax_opts hurried = {.method = HF_RELAX_JACOBI, .max_seconds = 1e-9};
    const hf_relax_opts asked = {
        .method = HF_RELAX_CG, .progress = stop_at_five, .progress_user = &calls};
    const hf_relax_opts seldom = {.method = HF_RELAX_CG,
                                  .progress = stop_at_five,
                                  .progress_user = &calls,
                                  .progress_seconds = 3600};
    const hf_relax_opts wild = {.method = HF_RELAX_JACOBI, .damping = 1.9};
    const hf_relax_opts greedy = {.method = HF_RELAX_CG, .tol = 1e-30};
    const hf_relax_opts cg = {.method = HF_RELAX_CG};
    expect_stop(ctx, &m.a, &slow, HF_RELAX_STOP_MAX_ITER);
    expect_stop(ctx, &m.a, &hurried, HF_RELAX_STOP_TIME);
    expect_stop(ctx, &m.a, &asked, HF_RELAX_STOP_CANCELLED);
    const int told = calls;
    expect_stop(ctx, &m.a, &seldom, HF_RELAX_STOP_TOL);
    assert_int_equal(calls, told);
    assert_int_equal(calls, 6);
    expect_stop(ctx, &plate.a, &wild, HF_RELAX_STOP_DIVERGED);
    expect_stop(ctx, &m.a, &greedy, HF_RELAX_STOP_STALL);
    expect_stop(ctx, &saddle.a, &cg, HF_RELAX_STOP_BROKE_DOWN);
    matrix_free(&m);
    matrix_free(&plate);
    matrix_free(&saddle);
    hf_context_destroy(ctx);
}

static void auto_says_what_it_did(void **state) {
    (void)state;
    hf_context *ctx = cpu_context(2);
    struct matrix plate, wind, stars;
    make_plate(&plate, 40);
    make_poisson(&wind, 20, 1, 0.5);
    hf_relax_result r = solve_ones(ctx, &plate.a, &(hf_relax_opts){0}, NULL);
    assert_int_equal(r.method, HF_RELAX_CG);
    assert_non_null(strstr(r.advice, "wrong tool"));
    assert_true(r.lambda_max > 2 && r.lambda_min > 0);
    hf_relax_result_clear(&r);
    r = solve_ones(ctx, &wind.a, &(hf_relax_opts){0}, NULL);
    assert_int_not_equal(r.method, HF_RELAX_CG);
    assert_true(r.converged && r.advice[0] != '\0');
    hf_relax_result_clear(&r);
    make_stars(&stars, 200); /* set up once for many b: components are factored */
    hf_relax *relax = NULL;
    double *b = ones(stars.a.rows), *x = ones(stars.a.rows);
    const hf_array bv = hf_array_view(b, HF_F64, stars.a.rows, 1);
    const hf_array xv = hf_array_view(x, HF_F64, stars.a.rows, 1);
    assert_int_equal(hf_relax_setup(ctx, &stars.a, NULL, &relax), HF_OK);
    assert_int_equal(hf_relax_solve_with(relax, &bv, &xv, &r), HF_OK);
    assert_int_equal(r.method, HF_RELAX_SCHWARZ);
    assert_true(r.converged && r.iterations <= 2);
    hf_relax_result_clear(&r);
    hf_relax_destroy(relax);
    free(b);
    free(x);
    matrix_free(&stars);
    matrix_free(&plate);
    matrix_free(&wind);
    hf_context_destroy(ctx);
}

/* As one by one, bit for bit; one bad system is named and nothing is returned. */
static void batches(void **state) {
    (void)state;
    enum { BATCH = 9 };
    hf_context *ctx = cpu_context(3);
    struct matrix m[BATCH];
    hf_csr a[BATCH];
    hf_array b[BATCH], x[BATCH];
    hf_relax_result r[BATCH], one;
    for (int i = 0; i < BATCH; i++) {
        make_poisson(&m[i], 12, 1 + 0.1 * i, 0);
        a[i] = m[i].a;
        a[i].row_start = m[0].row_start; /* of one pattern */
        a[i].column = m[0].column;
        b[i] = hf_array_view(ones(a[i].rows), HF_F64, a[i].rows, 1);
        x[i] = hf_array_view(calloc((size_t)a[i].rows, 8), HF_F64, a[i].rows, 1);
    }
    assert_int_equal(hf_relax_solve_batch(ctx, a, b, x, BATCH, NULL, r), HF_OK);
    double *alone = ones(a[0].rows);
    for (int i = 0; i < BATCH; i++) {
        one = solve_ones(ctx, &a[i], &(hf_relax_opts){0}, alone);
        assert_memory_equal(alone, x[i].data, (size_t)a[i].rows * sizeof *alone);
        assert_int_equal(one.iterations, r[i].iterations);
        hf_relax_result_clear(&one);
        hf_relax_result_clear(&r[i]);
    }
    m[6].value[0] = NAN;
    assert_int_equal(hf_relax_solve_batch(ctx, a, b, x, BATCH, NULL, r), HF_E_DATA);
    assert_non_null(strstr(hf_last_error(ctx), "system 6"));
    for (int i = 0; i < BATCH; i++) {
        free(b[i].data);
        free(x[i].data);
        matrix_free(&m[i]);
    }
    free(alone);
    hf_context_destroy(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_method_is_right),
        cmocka_unit_test(counts_of_the_paper_s_model),
        cmocka_unit_test(counts_of_our_methods),
        cmocka_unit_test(same_bits_for_any_threads),
        cmocka_unit_test(free_timing_is_true),
        cmocka_unit_test(float32_inside),
        cmocka_unit_test(disorder_does_not_matter),
        cmocka_unit_test(many_right_hand_sides),
        cmocka_unit_test(gauss_seidel_begins_in_order),
        cmocka_unit_test(histories_grow),
        cmocka_unit_test(histories_end_with_what_was_checked),
        cmocka_unit_test(each_stop_has_its_reason),
        cmocka_unit_test(auto_says_what_it_did),
        cmocka_unit_test(batches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
