/* SPDX-License-Identifier: Apache-2.0
 * Tables 2 to 6. What the paper ran: no damping, rows in their order. */
#include "relaxation/relax_study.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#define MOST_ROUNDS 31

struct expected {
    double at, residual, varies;
};

static const struct expected table2[] = {
    {10, 7.8284e-02, NAN},         {20, 6.3243e-03, 3.1782e-04},  {30, 5.1392e-04, 3.1716e-04},
    {40, 4.1902e-05, 4.2002e-04},  {50, 3.4238e-06, 3.7969e-04},  {60, 2.8019e-07, 4.7467e-04},
    {70, 2.2956e-08, 4.2254e-04},  {80, 1.8825e-09, 5.0995e-04},  {90, 1.5449e-10, 5.4372e-04},
    {100, 1.2685e-11, 5.2025e-04}, {110, 1.0422e-12, 6.9082e-04}, {120, 8.5725e-14, 6.6724e-04},
    {130, 7.1399e-15, 1.5823e-03}, {140, 9.2748e-16, 1.1608e-02}, {150, 6.5579e-16, 1.8243e-02},
};
static const struct expected table3[] = {
    {5, 8.02e-04, NAN},           {10, 8.43e-06, NAN},          {15, 8.8600e-08, 1.4462e-01},
    {20, 9.3022e-10, 1.6309e-01}, {25, 9.7817e-12, 1.8524e-01}, {30, 1.0260e-13, 2.1747e-01},
    {35, 1.0906e-15, 2.0818e-01}, {40, 1.1012e-16, 0.9880e-01}, {45, 1.0811e-16, 3.2261e-02},
    {50, 1.0811e-16, 3.0875e-02},
};
/* Seconds of async-(k) on fv3 after 100 and 500 iterations */
static const double table4[][2] = {
    {1.376425, 5.624792}, {1.431110, 5.891870}, {1.482574, 6.156434},
    {1.532940, 6.410378}, {1.577105, 6.655686}, {1.629628, 6.879329},
    {1.680975, 7.144304}, {1.736295, 7.409536}, {1.786658, 7.676786}};
/* Seconds of an iteration: Gauss-Seidel on a CPU, Jacobi and async-(5) on a GPU */
static const struct {
    const char *matrix;
    double seconds[3];
} table5[] = {{"Chem97ZtZ (rebuilt)", {0.008448, 0.002051, 0.001742}},
              {"fv1", {0.120191, 0.019449, 0.012964}},
              {"fv2", {0.125572, 0.020997, 0.014729}},
              {"fv3", {0.125577, 0.021009, 0.014737}},
              {"s1rmt3m1", {0.039530, 0.006442, 0.004967}},
              {"Trefethen_2000", {0.007603, 0.001494, 0.001305}}};

hf_relax_opts relax_paper_opts(int k, int64_t block) {
    return (hf_relax_opts){.method = HF_RELAX_ASYNC,
                           .partition = HF_PARTITION_STRIPS,
                           .local_sweeps = k,
                           .block_rows = block,
                           .damping = 1};
}

int relax_solve(struct relax_study *s, const struct relax_system *system, const hf_relax_opts *opts,
                hf_relax_result *result) {
    double *x = calloc((size_t)system->a.rows, sizeof *x);
    const hf_array b = hf_array_view(system->b, HF_F64, system->a.rows, 1);
    const hf_array to = hf_array_view(x, HF_F64, system->a.rows, 1);
    errno = 0;
    const hf_status status =
        x ? hf_relax_solve(s->ctx, &system->a, &b, &to, opts, result) : HF_E_NOMEM;
    free(x);
    return status == HF_OK ? EXIT_DONE : tool_fail(s->ctx, status, STAGE_COMPUTE);
}

/* What all runs left after so many iterations. */
struct spread {
    double sum, least, most;
};

static int run_free(struct relax_study *s, const struct relax_system *system, hf_relax *relax,
                    const struct expected *e, struct spread *spread) {
    const int64_t n = system->a.rows;
    double *x = malloc((size_t)n * sizeof *x);
    const hf_array b = hf_array_view(system->b, HF_F64, n, 1), to = hf_array_view(x, HF_F64, n, 1);
    hf_status status = x ? HF_OK : HF_E_NOMEM;
    *spread = (struct spread){0, INFINITY, 0};
    for (int64_t run = 0; run < s->runs && status == HF_OK; run++) {
        status = hf_relax_apply(relax, &b, &to, (int)e->at, 1);
        const double residual = relax_residual(system, x);
        spread->sum += residual;
        spread->least = fmin(spread->least, residual);
        spread->most = fmax(spread->most, residual);
    }
    free(x);
    return status == HF_OK ? EXIT_DONE : tool_fail(s->ctx, status, STAGE_COMPUTE);
}

static int measure_spread(struct relax_study *s, const char *table, const char *matrix,
                          const struct expected *e, size_t count) {
    const struct relax_system *system = relax_find(s, matrix);
    hf_relax_opts opts = relax_paper_opts(5, 128);
    hf_relax *relax = NULL;
    opts.timing = HF_TIMING_FREE;
    const hf_status status = hf_relax_setup(s->ctx, &system->a, &opts, &relax);
    int code = status == HF_OK ? EXIT_DONE : tool_fail(s->ctx, status, STAGE_COMPUTE);
    for (size_t i = 0; i < count && code == EXIT_DONE; i++) {
        struct spread spread;
        code = run_free(s, system, relax, &e[i], &spread);
        const double mean = spread.sum / (double)s->runs;
        const struct relax_number average = {table,   matrix, "average residual",
                                             e[i].at, mean,   e[i].residual};
        const struct relax_number varies = {
            table,      matrix, "relative variation", e[i].at, (spread.most - spread.least) / mean,
            e[i].varies};
        if (code == EXIT_DONE)
            code = relax_note(s, &average);
        if (code == EXIT_DONE)
            code = relax_note(s, &varies);
    }
    hf_relax_destroy(relax);
    return code;
}

static int ascending(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The median of the seconds of so many iterations without a test. */
static int time_iterations(struct relax_study *s, const struct relax_system *system,
                           const hf_relax_opts *opts, double *seconds) {
    double taken[MOST_ROUNDS];
    int code = EXIT_DONE;
    for (int i = 0; i < s->rounds && code == EXIT_DONE; i++) {
        hf_relax_result r = {0};
        code = relax_solve(s, system, opts, &r);
        taken[i] = r.seconds_solve;
        hf_relax_result_clear(&r);
    }
    qsort(taken, (size_t)s->rounds, sizeof *taken, ascending);
    *seconds = taken[s->rounds / 2];
    return code;
}

static int make_table4(struct relax_study *s) {
    int code = EXIT_DONE;
    for (int k = 1; k <= 9; k++)
        for (int end = 0; end < 2 && code == EXIT_DONE; end++) {
            hf_relax_opts opts = relax_paper_opts(k, 448);
            struct relax_number number = {"Table 4",         "fv3", "", end == 0 ? 100 : 500, 0,
                                          table4[k - 1][end]};
            snprintf(number.series, sizeof number.series, "seconds of async-(%d)", k);
            opts.tol = -1;
            opts.max_iter = (int64_t)number.at;
            code = time_iterations(s, relax_find(s, "fv3"), &opts, &number.ours);
            if (code == EXIT_DONE)
                code = relax_note(s, &number);
        }
    return code;
}

static int make_table5(struct relax_study *s) {
    static const char *const names[] = {"Gauss-Seidel", "Jacobi", "async-(5)"};
    const int64_t whole = INT32_MAX;
    const hf_relax_opts kinds[] = {
        {.method = HF_RELAX_GAUSS_SEIDEL, .block_rows = whole, .damping = 1},
        {.method = HF_RELAX_JACOBI, .damping = 1},
        relax_paper_opts(5, 448)};
    int code = EXIT_DONE;
    for (size_t i = 0; i < sizeof table5 / sizeof table5[0]; i++)
        for (int k = 0; k < 3 && code == EXIT_DONE; k++) {
            const struct relax_system *system = relax_find(s, table5[i].matrix);
            hf_relax_opts opts = kinds[k];
            struct relax_number number = {"Table 5", table5[i].matrix,    "", 1,
                                          0,         table5[i].seconds[k]};
            if (!system)
                continue;
            snprintf(number.series, sizeof number.series, "seconds, %s", names[k]);
            opts.tol = -1;
            opts.max_iter = 100;
            code = time_iterations(s, system, &opts, &number.ours);
            number.ours /= (double)opts.max_iter;
            if (code == EXIT_DONE)
                code = relax_note(s, &number);
        }
    return code;
}

int relax_tables(struct relax_study *s) {
    int code = EXIT_DONE;
    if (relax_wanted(s, "table2"))
        code = measure_spread(s, "Table 2", "fv1", table2, sizeof table2 / sizeof table2[0]);
    if (code == EXIT_DONE && relax_wanted(s, "table3"))
        code = measure_spread(s, "Table 3", "Trefethen_2000", table3,
                              sizeof table3 / sizeof table3[0]);
    if (code == EXIT_DONE && relax_wanted(s, "table4"))
        code = make_table4(s);
    if (code == EXIT_DONE && relax_wanted(s, "table5"))
        code = make_table5(s);
    return code;
}
