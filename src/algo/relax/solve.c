/* SPDX-License-Identifier: Apache-2.0
 * A solution: rounds of A e = b - A x, each with the residual of the caller's own matrix on its
 * right side (iterative refinement), until that residual is small. What an iteration believes of
 * its residual only says when to look. x is what was last looked at, so a round that went wrong
 * costs nothing but time. */
#include "algo/relax/solve.h"

#include "base/clock.h"
#include "base/mem.h"
#include "core/array.h"
#include "core/run.h"
#include "ops/axpy/axpy.h"
#include "ops/spmv/spmv.h"
#include <math.h>
#include <string.h>

#define STALL_WINDOW 1000 /* iterations in which the residual must fall */
#define STALL_FACTOR 0.99 /* by so much */
#define STALL_GAIN 0.01   /* of a round that is followed by another */
#define DIVERGED 1e8      /* times the residual at the start of the round */
#define SURPRISE 1e3     /* times the least residual so far: no method but CG does that by itself */
#define FLOAT_ROUND 1e-4 /* a round with a float32 matrix gains no more */
#define TOO_OPTIMISTIC 4 /* times what an iteration believed: something else is wrong */
#define FIRST_LOOK 32    /* iterations until checksums are looked at, and most between two looks */
#define MOST_LOOK 1024
#define MOST_STAGNANT 3 /* rounds that gain less than a tenth */
#define MOST_BAD 3      /* rounds that went wrong */

enum event { GOES_ON, CANDIDATE, ENDED, SURPRISED, DAMAGED, WRECKED, OUTGROWN };

struct hf_relax_run {
    hf_relax *relax;
    struct hf_relax_work w;
    hf_relax_column *column;
    hf_relax_faults *faults;
    const double *b; /* [n] of this column, in the caller's order, on a device in that of places */
    double *x, *trial;    /* [n] likewise */
    double *rest, *next;  /* [n] b - A x of x and of trial */
    double scale;         /* |b| */
    double norm;          /* |b - A x| */
    double limit;         /* that iterations work towards */
    double least, window; /* estimates: the least so far, and that at the window's start */
    double mark;          /* estimate when the order of the rows was last thought of */
    int64_t window_start;
    int64_t before;  /* iterations of earlier rounds */
    int64_t look;    /* iteration after which checksums are looked at */
    double begin;    /* of the column */
    double deadline; /* 0: none */
    double told;     /* when progress was called last; at first when the column began */
    int64_t number;  /* of the column */
    int stagnant, bad;
};

/* r = b - A v from the caller's matrix, and its norm */
static hf_status true_residual(struct hf_relax_run *run, const double *v, double *r, double *norm) {
    double square = 0;
    const struct hf_spmv_args args = {
        .a = run->relax->seen.truth, .x = v, .b = run->b, .y = r, .square = &square};
    HF_TRY(hf_queue(run->relax->ctx, HF_OP_SPMV, &args, &run->relax->kernel[HF_CALL_TRUE]));
    *norm = sqrt(square);
    return hf_verify(run->relax->ctx);
}

static hf_status norm_of(hf_relax *relax, const double *v, double *norm) {
    double square = 0;
    const struct hf_axpy_args args = {.n = relax->m.n, .y = (double *)v, .w = v, .dot = &square};
    HF_TRY(hf_queue(relax->ctx, HF_OP_AXPY, &args, &relax->kernel[HF_CALL_AXPY]));
    *norm = sqrt(square);
    return HF_OK;
}

/* Room for one more estimate at least: there is some until their number is a power of two. Then
 * twice as much, or every other one goes. */
static void make_room(hf_relax_column *c) {
    const int64_t count = c->history_count;
    if (count < HF_RELAX_HISTORY_LEAST || (count & (count - 1)) != 0)
        return;
    double *more = count < HF_RELAX_HISTORY ? hf_alloc(2 * (size_t)count * sizeof *more) : NULL;
    if (more != NULL) {
        memcpy(more, c->history, (size_t)count * sizeof *more);
        hf_free(c->history);
        c->history = more;
        return;
    }
    for (int64_t i = 0; i < count / 2; i++)
        c->history[i] = c->history[2 * i];
    c->history_count = count / 2;
    c->history_step *= 2;
}

void hf_relax_note(hf_relax_column *c, int64_t iteration, double estimate) {
    while (iteration >= c->history_count * c->history_step) {
        make_room(c);
        if (iteration >= c->history_count * c->history_step)
            c->history[c->history_count++] = estimate;
    }
}

void hf_relax_note_truth(hf_relax_column *c, int64_t iteration, double residual) {
    hf_relax_note(c, iteration, residual);
    if ((c->history_count - 1) * c->history_step == iteration)
        c->history[c->history_count - 1] = residual;
}

static void note_estimate(struct hf_relax_run *run, double estimate) {
    hf_relax_note(run->column, run->before + run->w.made, estimate / run->scale);
}

/* What an estimate says. */
static enum event judge(struct hf_relax_run *run, double estimate) {
    const hf_relax_opts *o = &run->relax->opts;
    const int64_t made = run->w.made;
    if (!isfinite(estimate))
        return WRECKED;
    if (o->tol >= 0 && estimate <= run->limit)
        return CANDIDATE;
    if (estimate > DIVERGED * run->norm)
        return WRECKED;
    const bool surprise = o->method != HF_RELAX_CG && estimate > SURPRISE * run->least;
    run->least = fmin(run->least, estimate);
    if (surprise && o->tol >= 0)
        return SURPRISED;
    if (made - run->window_start >= STALL_WINDOW && o->tol >= 0) {
        const bool stalls = run->least > STALL_FACTOR * run->window;
        run->window = run->least;
        run->window_start = made;
        if (stalls) {
            run->column->stop = HF_RELAX_STOP_STALL;
            return ENDED;
        }
    }
    return GOES_ON;
}

bool hf_relax_due(const hf_relax_opts *o, double *told) {
    if (o->progress == NULL || o->progress_seconds <= 0)
        return o->progress != NULL;
    const double now = hf_now_s();
    if (now < *told + o->progress_seconds)
        return false;
    *told = now;
    return true;
}

/* Is there anything else that ends the solution? */
static enum event look_around(struct hf_relax_run *run, double estimate) {
    const hf_relax_opts *o = &run->relax->opts;
    const int64_t iterations = run->before + run->w.made;
    hf_relax_stop stop = HF_RELAX_STOP_NONE;
    if (run->w.stalled)
        stop = HF_RELAX_STOP_STALL;
    else if (run->w.broke)
        stop = estimate > 0 ? HF_RELAX_STOP_BROKE_DOWN : HF_RELAX_STOP_STALL;
    else if (iterations >= o->max_iter)
        stop = HF_RELAX_STOP_MAX_ITER;
    else if (run->deadline > 0 && hf_now_s() >= run->deadline)
        stop = HF_RELAX_STOP_TIME;
    else if (hf_relax_due(o, &run->told) &&
             o->progress(o->progress_user, run->number, iterations, estimate / run->scale) != 0)
        stop = HF_RELAX_STOP_CANCELLED;
    if (stop == HF_RELAX_STOP_NONE)
        return GOES_ON;
    run->column->stop = stop;
    return ENDED;
}

/* Build again what is damaged; *found: something was. */
static hf_status repair(struct hf_relax_run *run, bool *found) {
    const int64_t before = run->faults->reloads;
    HF_TRY(hf_relax_repair(run->relax, &run->faults->reloads));
    *found = run->faults->reloads > before;
    if (*found) { /* all that went wrong before had a reason */
        run->bad = 0;
        run->stagnant = 0;
        run->column->stop = HF_RELAX_STOP_NONE;
    }
    return HF_OK;
}

/* Damage that only slows the iteration down shows in nothing but checksums: those are looked at
 * after 32 iterations, 64, 128, ..., then every 1024, which takes less time than the iterations
 * between. */
static hf_status look_for_damage(struct hf_relax_run *run, enum event *event) {
    bool found = false;
    if (run->before + run->w.made < run->look)
        return HF_OK;
    run->look += hf_min64(run->look, MOST_LOOK);
    HF_TRY(repair(run, &found));
    if (found)
        *event = DAMAGED;
    return HF_OK;
}

#define ORDER_LOOK 4 /* sweeps between two thoughts of the order of the rows */

/* Sweeps over the rows as they are: would colours of rows pay for the rest of them? */
static void look_at_order(struct hf_relax_run *run, double estimate, enum event *event) {
    const int64_t made = run->w.made;
    if (!run->relax->in_order || made == 0 || made % ORDER_LOOK != 0)
        return;
    const double gain = log(estimate / run->mark) / ORDER_LOOK;
    const double rest = run->relax->opts.tol >= 0 && gain < 0
                            ? fmax(log(run->limit / estimate) / gain, 0)
                            : INFINITY;
    run->mark = estimate;
    const double most = (double)(run->relax->opts.max_iter - run->before);
    if (hf_relax_wants_colours(run->relax, fmin((double)made + rest, most)))
        *event = OUTGROWN;
}

/* Iterations until something happens. The x of the event is w.x, *estimate what it believes. */
static hf_status iterate(struct hf_relax_run *run, enum event *event, double *estimate) {
    const hf_relax_opts *o = &run->relax->opts;
    struct hf_relax_probe *probe = run->relax->probe;
    for (;;) {
        const double limit = o->tol >= 0 ? run->limit * run->limit : -1;
        const int64_t made = run->w.made;
        double square = 0;
        run->w.most = o->max_iter - run->before - made;
        if (probe != NULL && probe->until > run->before + made)
            run->w.most = hf_min64(run->w.most, probe->until - run->before - made);
        if (probe != NULL && probe->before != NULL)
            probe->before(probe->user, run->relax, run->w.x, run->before + made);
        /* The last estimate is that of the x that max_iter iterations made. */
        HF_TRY(hf_relax_step(&run->w, run->w.most <= 0 ? INFINITY : limit, &square));
        HF_TRY(hf_verify(run->relax->ctx));
        const int64_t after = run->w.made;
        run->w.made = made; /* the estimate is of the x before */
        *estimate = sqrt(square);
        note_estimate(run, *estimate);
        *event = judge(run, *estimate);
        if (*event == GOES_ON)
            *event = look_around(run, *estimate);
        if (*event == GOES_ON)
            HF_TRY(look_for_damage(run, event));
        if (*event == GOES_ON)
            look_at_order(run, *estimate, event);
        if ((*event == ENDED || *event == OUTGROWN) && run->w.most > 0 && after > made)
            run->w.made = after; /* x has moved on, which is as good */
        if (*event != GOES_ON)
            return HF_OK;
        run->w.made = after;
    }
}

/* trial = x + e, on a device */
static hf_status add_there(struct hf_relax_run *run) {
    hf_relax *relax = run->relax;
    const int64_t n = relax->m.n;
    const struct hf_axpy_args args = {
        .n = n, .alpha = 1, .x = run->w.x, .beta = 1, .y = run->trial};
    HF_TRY(hf_ctx_copy(relax->ctx, run->trial, run->x, (size_t)n * sizeof(double)));
    return run->w.zero ? HF_OK
                       : hf_queue(relax->ctx, HF_OP_AXPY, &args, &relax->kernel[HF_CALL_AXPY]);
}

/* trial = x + e in the order of both, and its true residual */
static hf_status try_x(struct hf_relax_run *run, double *norm) {
    const hf_relax *relax = run->relax;
    const int64_t n = relax->m.n;
    const bool there = hf_relax_on_device(relax);
    if (there)
        HF_TRY(add_there(run));
    for (int64_t p = 0; !there && p < n; p++) {
        const int64_t i = relax->perm != NULL ? relax->perm[p] : p;
        run->trial[i] = run->x[i] + (run->w.zero ? 0 : run->w.x[p]);
    }
    run->column->checks++;
    HF_TRY(true_residual(run, run->trial, run->next, norm));
    hf_relax_note_truth(run->column, run->before + run->w.made, *norm / run->scale);
    return HF_OK;
}

static void accept(struct hf_relax_run *run, double norm) {
    double *const x = run->x, *const rest = run->rest;
    run->x = run->trial;
    run->trial = x;
    run->rest = run->next;
    run->next = rest;
    run->norm = norm;
}

static double goal(const struct hf_relax_run *run) { return run->relax->opts.tol * run->scale; }

/* The right-hand side of a round: what is left of b. */
static hf_status begin_round(struct hf_relax_run *run) {
    const hf_relax *relax = run->relax;
    double *b = relax->vector[6];
    const size_t bytes = (size_t)relax->m.n * sizeof(double);
    if (hf_relax_on_device(relax))
        HF_TRY(hf_ctx_copy(relax->ctx, b, run->rest, bytes));
    for (int64_t p = 0; !hf_relax_on_device(relax) && p < relax->m.n; p++)
        b[p] = run->rest[relax->perm != NULL ? relax->perm[p] : p];
    run->before += run->w.made;
    hf_relax_begin(&run->w, run->relax);
    run->w.earlier = run->before;
    run->w.b = b;
    run->w.zero = true;
    run->w.square = run->norm * run->norm;
    run->w.recording = relax->opts.method == HF_RELAX_CG;
    run->w.faults = run->faults;
    run->least = run->norm;
    run->window = INFINITY;
    run->window_start = 0;
    run->mark = run->norm;
    run->limit = goal(run);
    if (relax->opts.inside == HF_F32 && FLOAT_ROUND * run->norm > run->limit)
        run->limit = FLOAT_ROUND * run->norm;
    return HF_OK;
}

/* A round after which x is no better: three of those end the solution. */
static void count_gain(struct hf_relax_run *run, double norm) {
    run->stagnant = norm < 0.9 * run->norm ? 0 : run->stagnant + 1;
    if (run->stagnant >= MOST_STAGNANT)
        run->column->stop = HF_RELAX_STOP_STALL;
}

static void count_bad(struct hf_relax_run *run) {
    run->faults->rollbacks++;
    if (++run->bad >= MOST_BAD)
        run->column->stop = HF_RELAX_STOP_DIVERGED;
}

/* The iteration believes to be there. *again: the round goes on, a little further. */
static hf_status weigh_candidate(struct hf_relax_run *run, double estimate, bool *again) {
    double norm = 0;
    HF_TRY(try_x(run, &norm));
    if (norm <= goal(run)) {
        accept(run, norm);
        run->column->stop = HF_RELAX_STOP_TOL;
        return HF_OK;
    }
    run->column->refused++;
    const bool plain = run->relax->opts.inside == HF_F64;
    if (plain && norm <= TOO_OPTIMISTIC * estimate && run->limit > 0.1 * goal(run)) {
        run->limit = 0.9 * estimate * goal(run) / norm;
        *again = true;
        return HF_OK;
    }
    bool found = false;
    if (norm > TOO_OPTIMISTIC * estimate)
        HF_TRY(repair(run, &found));
    if (!found)
        count_gain(run, norm);
    if (norm < run->norm)
        accept(run, norm);
    else
        run->faults->rollbacks++;
    return HF_OK;
}

/* The residual jumped up: x or the matrix may be damaged, or the method does that. */
static hf_status weigh_surprise(struct hf_relax_run *run) {
    double norm = 0;
    bool found = false;
    run->faults->missed_forecasts++;
    HF_TRY(try_x(run, &norm));
    if (norm < run->norm)
        accept(run, norm);
    else
        count_bad(run);
    return repair(run, &found);
}

/* Time, iterations, the caller or a stall ended it: the better of both x stays. After a stall that
 * came late, or for which there was a reason, another round follows: it sees smaller numbers, which
 * rounding disturbs less. */
static hf_status weigh_end(struct hf_relax_run *run) {
    double norm = 0;
    bool found = false;
    HF_TRY(try_x(run, &norm));
    const hf_relax_stop stop = run->column->stop;
    if (stop == HF_RELAX_STOP_STALL || stop == HF_RELAX_STOP_BROKE_DOWN)
        HF_TRY(repair(run, &found));
    if (stop == HF_RELAX_STOP_STALL && norm < STALL_GAIN * run->norm)
        run->column->stop = HF_RELAX_STOP_NONE;
    if (norm < run->norm)
        accept(run, norm);
    if (run->relax->opts.tol >= 0 && run->norm <= goal(run))
        run->column->stop = HF_RELAX_STOP_TOL;
    return HF_OK;
}

/* What CG tells of the spectrum of D^-1 A by the way. */
static void learn_spectrum(const struct hf_relax_run *run) {
    hf_relax *relax = run->relax;
    double least = 0, most = 0;
    hf_relax_read_spectrum(&run->w, &least, &most);
    if (relax->lambda_max == 0 || least < relax->lambda_min)
        relax->lambda_min = least;
    relax->lambda_max = fmax(relax->lambda_max, most);
}

static hf_status make_round(struct hf_relax_run *run) {
    bool again = true;
    HF_TRY(begin_round(run));
    while (again) {
        enum event event = GOES_ON;
        double estimate = 0, norm = 0;
        bool found = false;
        again = false;
        HF_TRY(iterate(run, &event, &estimate));
        switch (event) {
        case CANDIDATE:
            HF_TRY(weigh_candidate(run, estimate, &again));
            break;
        case SURPRISED:
            HF_TRY(weigh_surprise(run));
            break;
        case DAMAGED:
        case OUTGROWN:
            HF_TRY(try_x(run, &norm));
            if (norm < run->norm)
                accept(run, norm);
            if (event == OUTGROWN)
                HF_TRY(hf_relax_leave_order(run->relax));
            break;
        case WRECKED:
            count_bad(run);
            HF_TRY(repair(run, &found));
            break;
        default:
            HF_TRY(weigh_end(run));
            break;
        }
    }
    if (run->relax->opts.method == HF_RELAX_CG && run->relax->opts.precond == HF_PRECOND_JACOBI)
        learn_spectrum(run);
    if (run->column->stop == HF_RELAX_STOP_NONE &&
        run->before + run->w.made >= run->relax->opts.max_iter)
        run->column->stop = HF_RELAX_STOP_MAX_ITER;
    return HF_OK;
}

hf_status hf_relax_scale(hf_relax *relax, const struct hf_relax_request *request,
                         const double *there, double *scale) {
    double most = 0;
    for (int64_t i = 0; i < relax->m.n; i++)
        most = fmax(most, fabs(request->b[i]));
    HF_TRY(norm_of(relax, there, scale));
    if (!isfinite(*scale) || (most > 0 && *scale < 1e-150))
        return hf_ctx_fail(relax->ctx, HF_E_DATA,
                           "column %lld of b has norm %g; scale it so that its square can be "
                           "computed",
                           (long long)request->number, *scale);
    return HF_OK;
}

/* The residual of the start: b itself, whose norm is `scale`, where that is 0. */
static hf_status begin_residual(struct hf_relax_run *run, const struct hf_relax_request *request,
                                double scale) {
    const int64_t n = run->relax->m.n;
    int64_t i = 0;
    while (i < n && request->x[i] == 0)
        i++;
    if (i < n)
        return true_residual(run, run->x, run->rest, &run->norm);
    run->norm = scale;
    return hf_ctx_copy(run->relax->ctx, run->rest, run->b, (size_t)n * sizeof(double));
}

/* b = 0 has the solution 0; a start that is there already is one, too. */
static hf_status begin_column(struct hf_relax_run *run, const struct hf_relax_request *request) {
    HF_TRY(hf_relax_scale(run->relax, request, run->b, &run->scale));
    const double scale = run->scale;
    if (run->scale == 0 && run->relax->opts.tol >= 0)
        HF_TRY(hf_relax_zero(run->relax, run->x));
    run->scale = run->scale > 0 ? run->scale : 1;
    HF_TRY(begin_residual(run, request, scale));
    if (!isfinite(run->norm))
        return hf_ctx_fail(run->relax->ctx, HF_E_DATA,
                           "the residual of the start is %g in column %lld; begin with smaller "
                           "values of x",
                           run->norm, (long long)run->number);
    if (run->relax->opts.tol >= 0 && run->norm <= goal(run))
        run->column->stop = HF_RELAX_STOP_TOL;
    return HF_OK;
}

hf_status hf_relax_solve_column(hf_relax *relax, const struct hf_relax_request *request) {
    hf_relax_column *column = request->column;
    struct hf_relax_run run = {.relax = relax,
                               .column = column,
                               .faults = request->faults,
                               .b = request->b,
                               .x = relax->vector[7],
                               .trial = relax->vector[8],
                               .rest = relax->vector[9],
                               .next = request->spare,
                               .number = request->number,
                               .look = FIRST_LOOK,
                               .deadline = request->deadline,
                               .begin = hf_now_s()};
    const bool there = hf_relax_on_device(relax);
    run.told = run.begin;
    if (there) {
        run.b = relax->vector[10];
        run.next = relax->vector[11];
        HF_TRY(hf_relax_bring(relax, request->b, relax->vector[10]));
        HF_TRY(hf_relax_bring(relax, request->x, run.x));
    } else {
        memcpy(run.x, request->x, (size_t)relax->m.n * sizeof(double));
    }
    column->history_step = 1;
    HF_TRY(begin_column(&run, request));
    if (column->stop == HF_RELAX_STOP_TOL)
        note_estimate(&run, run.norm);
    while (column->stop == HF_RELAX_STOP_NONE)
        HF_TRY(make_round(&run));
    if (there)
        HF_TRY(hf_relax_fetch(relax, run.x, request->x));
    else
        memcpy(request->x, run.x, (size_t)relax->m.n * sizeof(double));
    column->seconds_launch = run.w.seconds;
    column->iterations = run.before + run.w.made;
    column->residual = run.norm / run.scale;
    column->seconds = hf_now_s() - run.begin;
    return HF_OK;
}
