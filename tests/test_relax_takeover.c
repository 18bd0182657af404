/* SPDX-License-Identifier: Apache-2.0
 * Workers that end or sleep in the middle of a launch of many iterations on a GPU: spare ones take
 * over, and the report says of which block, when and who. Skipped, with the reason, where there is
 * no GPU. test_relax_takeover PART: one part alone. */
#include "core/context.h"
#include "on_device.h"
#include "relax_matrices.h"
#include <holdfast/dev_relax.h>

static hf_context *gpu;

struct system {
    struct matrix m;
    hf_relax *relax;
    double *b, *x;
};

static void open_system(struct system *s, const hf_relax_opts *opts) {
    const size_t n = (size_t)s->m.a.rows;
    s->b = ones(s->m.a.rows);
    s->x = malloc(n * sizeof *s->x);
    if (hf_relax_setup(gpu, &s->m.a, opts, &s->relax) != HF_OK)
        fail_msg("%s", hf_last_error(gpu));
}

static void close_system(struct system *s) {
    hf_relax_destroy(s->relax);
    free(s->b);
    free(s->x);
}

static hf_relax_result strike(struct system *s, const hf_dev_relax_fault *fault) {
    const int64_t n = s->m.a.rows;
    const hf_array rhs = hf_array_view(s->b, HF_F64, n, 1), at = hf_array_view(s->x, HF_F64, n, 1);
    hf_relax_result result = {0};
    memset(s->x, 0, (size_t)n * sizeof *s->x);
    const hf_status status = fault != NULL ? hf_dev_relax_solve(s->relax, &rhs, &at, fault, &result)
                                           : hf_relax_solve_with(s->relax, &rhs, &at, &result);
    if (status != HF_OK)
        fail_msg("%s", hf_last_error(gpu));
    return result;
}

/* Solved, and `least` to `most` blocks were taken over, each once or more. */
static void expect_taken(struct system *s, const hf_dev_relax_fault *fault, const char *what,
                         int least, int most) {
    hf_relax_result r = strike(s, fault);
    const double residual = residual_of(&s->m.a, s->b, s->x);
    const bool fine = r.converged && residual <= 1.001e-10 && r.faults.takeovers >= least &&
                      r.faults.takeovers <= most;
    if (!fine)
        print_message("%s, before or at %d, moment %d, %d us: stop %d, %d iterations, residual %g, "
                      "really %g, %d takeovers (%d to %d)\n",
                      what, (int)fault->iteration, fault->moment, (int)fault->outage, (int)r.stop,
                      (int)r.iterations, r.residual, residual, (int)r.faults.takeovers, least,
                      most);
    for (int i = 0; i < (int)r.faults.taken_count && !fine; i++)
        print_message("  block %d after iteration %d by %d, %.1f us\n",
                      (int)r.faults.taken[i].block, (int)r.faults.taken[i].iteration,
                      (int)r.faults.taken[i].worker, 1e6 * r.faults.taken[i].seconds);
    assert_true(fine);
    for (int i = 0; i < (int)r.faults.taken_count; i++) {
        assert_in_range(r.faults.taken[i].block, 0, r.blocks > 0 ? r.blocks - 1 : 1000);
        assert_true(r.faults.taken[i].seconds > 0 && r.faults.taken[i].seconds < 1);
    }
    hf_relax_result_clear(&r);
}

static void each_moment(hf_relax_opts opts, bool trefethen, const char *what) {
    struct system s;
    if (trefethen)
        make_trefethen(&s.m, 2000);
    else
        make_fv(&s.m, 60, 3.510152);
    opts.one_launch = HF_SWITCH_ON;
    opts.spares = 2;
    open_system(&s, &opts);
    hf_relax_result healthy = strike(&s, NULL);
    assert_true(healthy.converged && healthy.one_launch);
    assert_int_equal(healthy.faults.takeovers, 0);
    hf_relax_result_clear(&healthy);
    for (int moment = 0; moment <= 4; moment++)
        for (int outage = 0; outage <= 200; outage += 200)
            for (int seed = 1; seed <= 3; seed++) {
                const bool check = moment >= 2;
                const hf_dev_relax_fault fault = {.kind = HF_DEV_RELAX_DEAD,
                                                  .iteration = check ? 1 : 4 * (seed - 1),
                                                  .outage = outage,
                                                  .moment = moment,
                                                  .seed = (uint64_t)seed};
                /* what ends with the last test is missed by nobody, unless it was to tell */
                const bool late = moment == 4;
                expect_taken(&s, &fault, what, late ? 0 : 1, 2);
            }
    close_system(&s);
    matrix_free(&s.m);
}

static void jacobi(void **state) {
    (void)state;
    each_moment((hf_relax_opts){.method = HF_RELAX_JACOBI}, false, "jacobi");
}

static void async(void **state) {
    (void)state;
    each_moment((hf_relax_opts){.method = HF_RELAX_ASYNC}, true, "async");
    each_moment((hf_relax_opts){.method = HF_RELAX_ASYNC}, false, "async, grid");
}

static void async_free(void **state) {
    (void)state;
    each_moment((hf_relax_opts){.method = HF_RELAX_ASYNC, .timing = HF_TIMING_FREE}, false, "free");
}

static void schwarz(void **state) {
    (void)state;
    each_moment((hf_relax_opts){.method = HF_RELAX_SCHWARZ, .block_rows = 40, .overlap = 1}, false,
                "schwarz");
}

static void chebyshev(void **state) {
    (void)state;
    each_moment((hf_relax_opts){.method = HF_RELAX_CHEBYSHEV}, false, "chebyshev");
    each_moment((hf_relax_opts){.method = HF_RELAX_CHEBYSHEV}, true, "chebyshev, graph");
}

/* The paper's quarter of the blocks at iteration 10. */
static void a_quarter(void **state) {
    (void)state;
    for (int trefethen = 0; trefethen < 2; trefethen++) {
        struct system s;
        const hf_relax_opts opts = {.method = HF_RELAX_ASYNC,
                                    .block_rows = trefethen ? 32 : 128,
                                    .one_launch = HF_SWITCH_ON,
                                    .spares = 40};
        if (trefethen)
            make_trefethen(&s.m, 2000);
        else
            make_fv(&s.m, 98, 3.510152);
        open_system(&s, &opts);
        for (int seed = 1; seed <= 5; seed++)
            for (int outage = 0; outage <= 100; outage += 100) {
                const hf_dev_relax_fault fault = {.kind = HF_DEV_RELAX_DEAD,
                                                  .iteration = 10,
                                                  .share = 0.25,
                                                  .outage = outage,
                                                  .seed = (uint64_t)seed};
                expect_taken(&s, &fault, "a quarter", 15, 30);
            }
        close_system(&s);
        matrix_free(&s.m);
    }
}

/* Nobody is left: the launch gives up, and the solution goes on with a launch for each step. */
static void more_than_there_are_spares(void **state) {
    (void)state;
    struct system s;
    const hf_relax_opts opts = {.method = HF_RELAX_CHEBYSHEV, .spares = 1};
    const hf_dev_relax_fault fault = {
        .kind = HF_DEV_RELAX_DEAD, .iteration = 8, .share = 0.1, .seed = 1};
    make_fv(&s.m, 60, 3.510152);
    open_system(&s, &opts);
    hf_relax_result r = strike(&s, &fault);
    assert_true(r.converged && residual_of(&s.m.a, s.b, s.x) <= 1.001e-10);
    assert_false(r.one_launch);
    assert_int_equal(r.faults.takeovers, 1);
    assert_non_null(strstr(r.advice, "gave up"));
    hf_relax_result_clear(&r);
    close_system(&s);
    matrix_free(&s.m);
}

/* Without a test for the end every block has its own end. */
static void a_fixed_number_of_iterations(void **state) {
    (void)state;
    struct system s;
    const hf_relax_opts opts = {.method = HF_RELAX_JACOBI,
                                .one_launch = HF_SWITCH_ON,
                                .tol = -1,
                                .max_iter = 50,
                                .spares = 2};
    make_fv(&s.m, 60, 3.510152);
    open_system(&s, &opts);
    const size_t bytes = (size_t)s.m.a.rows * sizeof *s.x;
    double *healthy = malloc(bytes);
    hf_relax_result r = strike(&s, NULL);
    memcpy(healthy, s.x, bytes);
    hf_relax_result_clear(&r);
    for (int at = 0; at < 50; at += 7) {
        const hf_dev_relax_fault fault = {
            .kind = HF_DEV_RELAX_DEAD, .iteration = at, .seed = (uint64_t)at};
        r = strike(&s, &fault);
        if (r.faults.takeovers != 1 || memcmp(healthy, s.x, bytes) != 0)
            print_message("lost before %d: %d takeovers, %s bits\n", at, (int)r.faults.takeovers,
                          memcmp(healthy, s.x, bytes) == 0 ? "the same" : "other");
        assert_int_equal(r.faults.takeovers, 1);
        assert_memory_equal(healthy, s.x, bytes);
        hf_relax_result_clear(&r);
    }
    free(healthy);
    close_system(&s);
    matrix_free(&s.m);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fixed_number_of_iterations),
        cmocka_unit_test(jacobi),
        cmocka_unit_test(async),
        cmocka_unit_test(chebyshev),
        cmocka_unit_test(schwarz),
        cmocka_unit_test(async_free),
        cmocka_unit_test(a_quarter),
        cmocka_unit_test(more_than_there_are_spares),
    };
    if (!open_for_tests(&gpu, "cuda", argc, argv))
        return SKIPPED;
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    hf_context_destroy(gpu);
    return failed;
}
