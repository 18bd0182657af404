/* SPDX-License-Identifier: Apache-2.0
 * One right-hand side on several devices: legs of iterations, after each the true residual from the
 * parts' second copies of the matrix. A device that is lost is left behind: the others share all
 * rows anew, and go on from what they had; those of the lost one from where the solution began. */
#include "algo/relax/several/several.h"

#include "base/clock.h"
#include "ops/spmv/spmv.h"
#include <math.h>
#include <string.h>

#define MOST_STAGNANT 5       /* legs that gain less than a tenth */
#define MOST_STAGNANT_FREE 50 /* a leg may end after few iterations of one, and none of another */

struct solving {
    struct hf_relax_several *s;
    const struct hf_relax_request *request;
    double *b;    /* [n] of the host, in the order of places, as s->x is */
    double scale; /* |b|, 1 for 0 */
    double norm;  /* |b - A x| of x[0] of the parts */
    double limit; /* that iterations work towards */
    int stagnant; /* legs that gained less than a tenth */
};

/* Places of the host from rows of the caller, and back. */
static void to_places(const hf_relax *relax, const double *v, double *places) {
    for (int64_t p = 0; p < relax->m.n; p++)
        places[p] = v[relax->perm != NULL ? relax->perm[p] : p];
}

static void to_rows(const hf_relax *relax, const double *places, double *v) {
    for (int64_t p = 0; p < relax->m.n; p++)
        v[relax->perm != NULL ? relax->perm[p] : p] = places[p];
}

/* b and x to a part; free timing may read either side. */
static hf_status bring(struct hf_relax_part *part) {
    const struct hf_relax_several *s = part->several;
    const size_t bytes = (size_t)s->relax->m.n * sizeof(double);
    const bool own = s->exchange != HF_EXCHANGE_DK || part->number == 0;
    HF_TRY(hf_ctx_copy(part->ctx, part->b, s->relax->vector[6], bytes));
    for (int i = 0; i < 2; i++) {
        if (own)
            HF_TRY(hf_ctx_copy(part->ctx, part->x[i], s->x, bytes));
        if (part->number == 0 && part->board[i] != NULL)
            HF_TRY(hf_ctx_copy(part->ctx, part->board[i], s->x, bytes));
    }
    part->made = 0;
    return part->ctx->device->sync(part->ctx->stream);
}

static hf_status bring_all(struct hf_relax_several *s) {
    for (int i = 0; i < 2 && s->board[i] != NULL; i++)
        memcpy(s->board[i], s->x, (size_t)s->relax->m.n * sizeof(double));
    return hf_relax_each_part(s, bring);
}

/* What a part has computed last. */
static hf_status fetch(struct hf_relax_part *part) {
    const int64_t first = part->first;
    return hf_ctx_copy(part->ctx, part->several->x + first, part->x[part->made % 2] + first,
                       (size_t)(part->last - first) * sizeof(double));
}

/* The squared true residual of a part's rows, to `seen`. */
static hf_status check_part(struct hf_relax_part *part) {
    struct hf_sparse own = part->truth;
    own.rows = part->last - part->first;
    own.row_start += part->first;
    const struct hf_spmv_args args = {.a = own,
                                      .x = part->x[0],
                                      .b = part->b + part->first,
                                      .y = part->rest + part->first,
                                      .square = part->square};
    HF_TRY(hf_queue(part->ctx, HF_OP_SPMV, &args, &part->spmv));
    return hf_ctx_copy(part->ctx, &part->seen, part->square, sizeof part->seen);
}

static hf_status true_residual(struct solving *g, double *norm) {
    double square = 0;
    HF_TRY(hf_relax_each_part(g->s, check_part));
    for (int i = 0; i < g->s->count; i++)
        square += g->s->part[i]->seen;
    *norm = sqrt(square);
    return HF_OK;
}

/* Drop the parts that are lost; s->x is where the others are. */
static hf_status leave_behind(struct solving *g) {
    struct hf_relax_several *s = g->s;
    int kept = 0;
    for (int i = 0; i < s->count; i++) {
        struct hf_relax_part *part = s->part[i];
        if (part->lost) {
            g->request->faults->takeovers += part->blocks;
            s->gone[s->lost++] = part;
            continue;
        }
        HF_TRY(fetch(part));
        s->part[kept++] = part;
    }
    s->count = kept;
    if (kept == 0)
        return hf_ctx_fail(s->relax->ctx, HF_E_DEVICE, "all devices were lost, the last one %s: %s",
                           hf_context_device(s->gone[s->lost - 1]->ctx),
                           hf_last_error(s->gone[s->lost - 1]->ctx));
    HF_TRY(hf_relax_several_load(s));
    return bring_all(s);
}

static bool lost_any(const struct hf_relax_several *s) {
    for (int i = 0; i < s->count; i++)
        if (s->part[i]->lost)
            return true;
    return false;
}

static void begin_leg(struct solving *g) {
    struct hf_relax_team *team = &g->s->team;
    const hf_relax_opts *o = &g->s->relax->opts;
    team->most = o->max_iter - g->request->column->iterations;
    team->tested = o->tol >= 0;
    team->target = g->limit * g->limit;
    team->begin = g->norm * g->norm;
    team->estimate = team->least = team->window = team->begin;
    team->window_start = 0;
    team->stop = HF_RELAX_STOP_NONE;
    team->column = g->request->column;
    team->before = g->request->column->iterations;
    team->scale = g->scale;
}

static int64_t most_made(const struct hf_relax_several *s) {
    int64_t made = 0;
    for (int i = 0; i < s->count; i++)
        made = s->part[i]->made > made ? s->part[i]->made : made;
    return made;
}

/* The leg ended too early. What parts tell in free timing may be of different times, and their sum
 * then far too small: the target is not to blame for that. */
static void refuse(struct solving *g, double norm) {
    hf_relax_column *column = g->request->column;
    const double goal = g->s->relax->opts.tol * g->scale;
    column->refused++;
    const bool tagged = g->s->relax->opts.timing == HF_TIMING_TAGGED;
    if (tagged)
        g->limit = fmin(g->limit, 0.9 * g->limit * goal / norm);
    g->stagnant = norm < 0.9 * g->norm ? 0 : g->stagnant + 1;
    if (g->stagnant >= (tagged ? MOST_STAGNANT : MOST_STAGNANT_FREE) || g->limit < 0.01 * goal)
        column->stop = HF_RELAX_STOP_STALL;
}

/* What the residual after a leg means. */
static void weigh(struct solving *g, double norm) {
    hf_relax_column *column = g->request->column;
    const hf_relax_opts *o = &g->s->relax->opts;
    const struct hf_relax_team *team = &g->s->team;
    const double goal = o->tol * g->scale;
    column->checks++;
    hf_relax_note_truth(column, column->iterations, norm / g->scale);
    if (o->tol >= 0 && norm <= goal)
        column->stop = HF_RELAX_STOP_TOL;
    else if (!isfinite(norm))
        column->stop = HF_RELAX_STOP_DIVERGED;
    else if (team->stop != HF_RELAX_STOP_NONE)
        column->stop = team->stop;
    else if (column->iterations >= o->max_iter)
        column->stop = HF_RELAX_STOP_MAX_ITER;
    else if (!team->broken)
        refuse(g, norm);
    g->norm = norm;
}

static hf_status make_leg(struct solving *g) {
    struct hf_relax_several *s = g->s;
    hf_relax_column *column = g->request->column;
    double norm = 0;
    const double begin = hf_now_s();
    begin_leg(g);
    HF_TRY(hf_relax_run_parts(s, g->request));
    column->iterations += most_made(s);
    if (lost_any(s))
        HF_TRY(leave_behind(g));
    else
        HF_TRY(hf_relax_settle(s));
    HF_TRY(true_residual(g, &norm));
    weigh(g, norm);
    column->seconds_launch += hf_now_s() - begin;
    return HF_OK;
}

static hf_status begin(struct solving *g) {
    hf_relax *relax = g->s->relax;
    const struct hf_relax_request *request = g->request;
    hf_relax_column *column = request->column;
    g->b = relax->vector[6];
    to_places(relax, request->b, g->b);
    HF_TRY(hf_relax_scale(relax, request, g->b, &g->scale));
    if (g->scale == 0 && relax->opts.tol >= 0)
        memset(request->x, 0, (size_t)relax->m.n * sizeof(double));
    g->scale = g->scale > 0 ? g->scale : 1;
    g->limit = relax->opts.tol * g->scale;
    to_places(relax, request->x, g->s->x);
    HF_TRY(bring_all(g->s));
    HF_TRY(true_residual(g, &g->norm));
    if (!isfinite(g->norm))
        return hf_ctx_fail(relax->ctx, HF_E_DATA,
                           "the residual of the start is %g in column %lld; begin with smaller "
                           "values of x",
                           g->norm, (long long)request->number);
    column->history_step = HF_RELAX_LOOK;
    hf_relax_note(column, 0, g->norm / g->scale);
    if (relax->opts.tol >= 0 && g->norm <= g->limit)
        column->stop = HF_RELAX_STOP_TOL;
    return HF_OK;
}

hf_status hf_relax_several_column(hf_relax *relax, const struct hf_relax_request *request) {
    struct solving g = {.s = relax->several, .request = request};
    hf_relax_column *column = request->column;
    const double started = hf_now_s();
    HF_TRY(begin(&g));
    const double first = g.norm;
    while (column->stop == HF_RELAX_STOP_NONE)
        HF_TRY(make_leg(&g));
    if (g.norm <= first) {
        HF_TRY(hf_relax_each_part(g.s, fetch));
        to_rows(relax, g.s->x, request->x);
    } else {
        g.norm = first; /* x is never worse than it was */
    }
    column->residual = g.norm / g.scale;
    column->seconds = hf_now_s() - started;
    return HF_OK;
}
