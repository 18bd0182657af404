/* SPDX-License-Identifier: Apache-2.0
 * Many right-hand sides, one after another: to be solved, or smoothed. */
#include "algo/relax/several/several.h"

#include "base/clock.h"
#include "base/mem.h"
#include "core/array.h"
#include "core/run.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Column j of an array of the host, in its order. */
static void get_column(const hf_array *a, int64_t j, double *v) {
    const int64_t stride = hf_array_stride(a);
    for (int64_t i = 0; i < a->rows; i++)
        v[i] = sparse_value(a->data, a->dtype, i * stride + j);
}

static void put_column(const hf_array *a, int64_t j, const double *v) {
    const int64_t stride = hf_array_stride(a);
    for (int64_t i = 0; i < a->rows; i++)
        ((double *)a->data)[i * stride + j] = v[i];
}

/* What is needed beside the set-up. */
struct columns {
    hf_relax_column *column; /* [count] */
    double *b, *x, *spare;   /* [n]; solutions go to the caller when all is done */
    double *solution;        /* [n, count]; of a single one x itself */
};

/* Is it a vector that can be read where it lies? */
static bool is_vector(const hf_array *a) {
    return a->cols == 1 && a->dtype == HF_F64 && hf_array_stride(a) == 1;
}

static void drop_columns(struct columns *c, int64_t count) {
    for (int64_t j = 0; c->column != NULL && j < count; j++)
        hf_free(c->column[j].history);
    hf_free(c->column);
    c->column = NULL;
}

/* Give back the room that a history does not need. */
static hf_status trim_history(hf_relax *relax, hf_relax_column *column) {
    const size_t bytes = (size_t)column->history_count * sizeof(double);
    double *kept = hf_alloc(bytes);
    if (kept == NULL)
        return hf_relax_no_memory(relax, "the history of residuals");
    memcpy(kept, column->history, bytes);
    hf_free(column->history);
    column->history = kept;
    return HF_OK;
}

static hf_status solve_one(hf_relax *relax, struct columns *c, const hf_array *b, const hf_array *x,
                           const struct hf_relax_request *request) {
    hf_relax_column *column = request->column;
    column->history = hf_alloc(HF_RELAX_HISTORY_LEAST * sizeof(double));
    if (column->history == NULL)
        return hf_relax_no_memory(relax, "the history of residuals");
    if (c->b != NULL)
        get_column(b, request->number, c->b);
    get_column(x, request->number, c->x);
    HF_TRY(relax->several != NULL ? hf_relax_several_column(relax, request)
                                  : hf_relax_solve_column(relax, request));
    HF_TRY(trim_history(relax, column));
    if (c->solution == c->x)
        return HF_OK;
    const hf_array all = hf_array_view(c->solution, HF_F64, x->rows, x->cols);
    put_column(&all, request->number, c->x);
    return HF_OK;
}

static hf_status solve_all(hf_relax *relax, struct columns *c, const hf_array *b, const hf_array *x,
                           hf_relax_result *result) {
    const int64_t n = x->rows, count = x->cols;
    const double begin = hf_now_s(), seconds = relax->opts.max_seconds;
    size_t bytes, histories;
    HF_TRY(hf_relax_refine_spectrum(relax));
    if (!hf_mul3_size(n, count, sizeof(double), &bytes) ||
        !hf_mul_size(count, sizeof *c->column, &histories))
        return hf_relax_no_memory(relax, "the solutions");
    c->column = hf_alloc_zero(histories);
    const bool lies = is_vector(b);
    if (!lies)
        c->b = hf_alloc((size_t)n * sizeof(double));
    c->x = hf_alloc((size_t)n * sizeof(double));
    c->spare = hf_alloc((size_t)n * sizeof(double));
    c->solution = count > 1 ? hf_alloc(bytes) : c->x;
    if (!c->column || (!c->b && !lies) || !c->x || !c->spare || !c->solution)
        return hf_relax_no_memory(relax, "the solutions");
    for (int64_t j = 0; j < count; j++) {
        const struct hf_relax_request request = {.b = lies ? b->data : c->b,
                                                 .x = c->x,
                                                 .spare = c->spare,
                                                 .number = j,
                                                 .deadline = seconds > 0 ? begin + seconds : 0,
                                                 .column = &c->column[j],
                                                 .faults = &result->faults};
        HF_TRY(solve_one(relax, c, b, x, &request));
    }
    const hf_array all = hf_array_view(c->solution, HF_F64, n, count);
    for (int64_t j = 0; j < count; j++) {
        if (c->solution != c->x)
            get_column(&all, j, c->x);
        put_column(x, j, c->x);
    }
    result->seconds_solve = hf_now_s() - begin;
    return HF_OK;
}

/* Words that only the solution gives reason to. */
static void advise(hf_relax *relax, hf_relax_result *result) {
    if (!result->converged && !relax->symmetry_known)
        (void)hf_relax_test_symmetry(relax, false);
    const size_t used = strlen(result->advice), room = sizeof result->advice - used;
    const char *gap = used > 0 ? "; " : "";
    if (result->method == HF_RELAX_CG && result->lambda_max > 2)
        (void)snprintf(
            result->advice + used, room,
            "%srelaxation is the wrong tool here: the spectrum of D^-1 A reaches %.3g, so "
            "Jacobi diverges undamped, and no asynchronous method is sure to converge",
            gap, result->lambda_max);
    else if (result->stop == HF_RELAX_STOP_MAX_ITER || result->stop == HF_RELAX_STOP_TIME)
        (void)snprintf(result->advice + used, room,
                       "%snot there yet: allow more of it, or solve in blocks (schwarz, precond)",
                       gap);
    else if (!result->converged && result->method != HF_RELAX_CG && relax->symmetric &&
             relax->positive)
        (void)snprintf(result->advice + used, room,
                       "%s%s did not get there; the matrix is symmetric: try cg", gap,
                       hf_relax_method_name(result->method));
    else if (!result->converged)
        (void)snprintf(result->advice + used, room,
                       "%snot solved: GMRES or a direct solver may be the better tool", gap);
}

static void fill_result(hf_relax *relax, struct columns *c, int64_t count,
                        hf_relax_result *result) {
    result->n = relax->m.n;
    result->rhs = count;
    result->columns = c->column;
    result->converged = 1;
    for (int64_t j = 0; c->column != NULL && j < count; j++) {
        const hf_relax_column *column = &c->column[j];
        if (j == 0 || column->residual > result->residual) {
            result->residual = column->residual;
            result->stop = column->stop;
        }
        result->converged = result->converged && column->stop == HF_RELAX_STOP_TOL;
        if (column->iterations > result->iterations)
            result->iterations = column->iterations;
    }
    const bool blocks = relax->opts.method == HF_RELAX_ASYNC ||
                        relax->opts.method == HF_RELAX_GAUSS_SEIDEL || relax->patched;
    result->method = relax->opts.method;
    result->precond = relax->opts.precond;
    result->repeatable =
        relax->opts.method != HF_RELAX_ASYNC || relax->opts.timing == HF_TIMING_TAGGED;
    result->lambda_min = relax->lambda_min;
    result->lambda_max = relax->lambda_max;
    result->damping = relax->damping;
    result->blocks = relax->by_rows ? relax->m.n : blocks ? relax->blocks.count : 0;
    result->overlap = relax->opts.overlap;
    result->coarse = relax->coarse != NULL;
    (void)snprintf(result->partition, sizeof result->partition, "%s",
                   relax->by_rows ? "rows"
                   : blocks       ? relax->partition
                                  : "");
    (void)snprintf(result->advice, sizeof result->advice, "%s", relax->advice);
    advise(relax, result);
    result->seconds_setup = relax->seconds_setup;
    result->setup_bytes = relax->bytes;
    result->one_launch = relax->march.on;
    result->devices = relax->several != NULL ? relax->several->count : 1;
    result->devices_lost = relax->several != NULL ? relax->several->lost : 0;
    result->exchange = relax->several != NULL ? relax->several->exchange : HF_EXCHANGE_PUSH;
    c->column = NULL;
}

hf_status hf_relax_solve_columns(hf_relax *relax, const hf_array *b, const hf_array *x,
                                 hf_relax_result *result) {
    struct columns c = {.column = NULL};
    hf_relax_result filled = {0};
    const hf_status status = solve_all(relax, &c, b, x, &filled);
    if (status == HF_OK && result != NULL) {
        fill_result(relax, &c, x->cols, &filled);
        *result = filled;
    }
    drop_columns(&c, x->cols);
    if (c.solution != c.x)
        hf_free(c.solution);
    hf_free(c.b);
    hf_free(c.x);
    hf_free(c.spare);
    return status;
}

/* Chebyshev's polynomial for smoothing: the upper part of the spectrum, as multigrid wants. */
#define SMOOTH_HIGH 1.05
#define SMOOTH_LOW 0.1

/* x and b where they lie, or copies. Methods that write the new x beside the old one change their
 * places with each sweep: one that begins at 0 may begin at either, so the last one writes x. */
static hf_status begin_smoothing(struct hf_relax_work *w, const hf_array *b, const hf_array *x,
                                 int64_t j, int sweeps) {
    hf_relax *relax = w->relax;
    double *const there = hf_relax_column_there(relax, x, j);
    w->b = hf_relax_column_there(relax, b, j);
    if (w->b == NULL) {
        w->b = relax->vector[6];
        HF_TRY(hf_relax_get_column(relax, b, j, relax->vector[6]));
    }
    if (there != NULL && w->zero && sweeps % 2 != 0 && hf_relax_swaps(relax))
        w->other = there;
    else if (there != NULL)
        w->x = there;
    else if (!w->zero)
        HF_TRY(hf_relax_get_column(relax, x, j, w->x));
    return HF_OK;
}

static hf_status smooth_column(hf_relax *relax, const hf_array *b, const hf_array *x, int64_t j,
                               const struct hf_relax_sweeps *sweeps) {
    struct hf_relax_work w = {.zero = sweeps->guess_zero, .quiet = true};
    hf_relax_begin(&w, relax);
    HF_TRY(begin_smoothing(&w, b, x, j, sweeps->count));
    w.low = fmax(relax->smooth_min, SMOOTH_LOW * relax->smooth_max);
    w.high = SMOOTH_HIGH * relax->smooth_max;
    while (w.made < sweeps->count) {
        double unused = 0;
        w.most = sweeps->count - w.made;
        HF_TRY(hf_relax_step(&w, -1, &unused));
    }
    if (w.x != hf_relax_column_there(relax, x, j))
        HF_TRY(hf_relax_put_column(relax, x, j, w.x));
    return hf_verify(relax->ctx);
}

hf_status hf_relax_smooth(hf_relax *relax, const hf_array *b, const hf_array *x,
                          const struct hf_relax_sweeps *sweeps) {
    for (int64_t j = 0; j < x->cols; j++)
        HF_TRY(smooth_column(relax, b, x, j, sweeps));
    return HF_OK;
}
