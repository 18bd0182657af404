/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/loop/device_loop.h"
#include "algo/kmeans/guard/device_book.h"
#include "algo/kmeans/guard/device_copies.h"
#include "algo/kmeans/guard/device_screen.h"
#include "algo/kmeans/guard/device_twice.h"
#include "algo/kmeans/guard/ledger.h"
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/loop/clusters.h"
#include "algo/kmeans/loop/device_memory.h"
#include "algo/kmeans/loop/digest.h"
#include "algo/kmeans/loop/iteration.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/loop/skip.h"
#include "base/clock.h"
#include "base/mem.h"
#include "core/kernel.h"
#include "guard/guard.h"
#include "ops/lloyd/lloyd.h"

#define MANY 512 /* most iterations of a call */

/* A run of op lloyd, as its iterations end. */
struct device_run {
    struct hf_fit *fit;
    struct hf_restart *run;
    double begin; /* of the iteration that goes on */
    hf_status status;
};

static int progress(void *user, int iteration, const hf_kmeans_iteration *it) {
    struct device_run *m = user;
    hf_kmeans_iteration own = *it;
    (void)iteration;
    m->status = hf_iteration_record(&m->fit->problem, m->run, m->begin, &own);
    m->begin = hf_now_s();
    if (m->status == HF_OK)
        m->status = hf_iteration_report(&m->fit->problem, &m->fit->weights, m->run);
    return m->status != HF_OK || m->run->cancelled;
}

/* What op lloyd reads and writes beside the arrays of the fit. */
struct device_call {
    struct hf_lloyd_state state;
    struct hf_lloyd_book book;
};

static struct hf_lloyd_args lloyd_args(struct hf_fit *fit, const struct hf_restart *run,
                                       struct device_call *call, hf_kmeans_iteration *history) {
    const hf_kmeans_opts *o = &fit->problem.opts;
    struct hf_lloyd_state *state = &call->state;
    /* Centroids are on the host between two calls only. */
    const bool alone = o->digest || fit->ledger.careful;
    int64_t count = alone ? 1 : hf_min64(o->max_iter - run->iteration, MANY);
    const hf_context *ctx = fit->problem.ctx;
    const bool book = hf_device_ledger_lend(fit, &call->book);
    if (o->checkpoint)
        count = hf_min64(count, o->checkpoint_every - run->iteration % o->checkpoint_every);
    *state = (struct hf_lloyd_state){0};
    if (run->iteration > 0) {
        state->inertia = run->history.it[run->iteration - 1].inertia;
        state->empty = run->history.it[run->iteration - 1].empty;
    }
    return (struct hf_lloyd_args){.x = *fit->data.rows.array,
                                  .batch = 1,
                                  .exact = o->precision == HF_EXACT,
                                  .filter = fit->frame.filter,
                                  .rule = hf_fit_rule(&fit->problem, &fit->columns),
                                  .empty = o->empty,
                                  .skipping = o->skipping,
                                  .settle = fit->work.settles && !book &&
                                            o->max_iter - run->iteration == count,
                                  .first = run->iteration,
                                  .count = (int)count,
                                  .tol = &fit->frame.tol,
                                  .total_square = &fit->frame.total_square,
                                  .slack = &fit->frame.slack,
                                  .weights = fit->weights.scaled,
                                  .weight_mult = &fit->centers.sums.weight_mult,
                                  .sums = &fit->centers.sums,
                                  .labels = fit->labels.host,
                                  .current = fit->centers.current,
                                  .previous = fit->centers.previous,
                                  .state = state,
                                  .history = history,
                                  .checks_tiles = hf_guard_checks(ctx, HF_FAULT_TILE),
                                  .sums_twice = hf_guard_checks(ctx, HF_FAULT_TWICE),
                                  .book = book ? &call->book : NULL};
}

static bool is_possible(const struct hf_fit *fit) {
    return fit->data.rows.array && !fit->data.rows.reader && !fit->weights.uneven;
}

bool hf_device_loop_twice(struct hf_fit *fit, const struct hf_restart *run) {
    struct device_call call;
    hf_kmeans_iteration history;
    if (!is_possible(fit) || !fit->ledger.block || fit->ledger.labels)
        return false;
    fit->work.settles = false;
    struct hf_lloyd_args args = lloyd_args(fit, run, &call, &history);
    args.progress = fit->problem.opts.progress ? progress : NULL;
    return hf_device_twice_serves(fit, &args);
}

bool hf_device_loop_serves(struct hf_fit *fit, const struct hf_restart *run) {
    struct device_call call;
    hf_kmeans_iteration history;
    if (!is_possible(fit))
        return false;
    fit->work.settles = false;
    struct hf_lloyd_args args = lloyd_args(fit, run, &call, &history);
    args.progress = fit->problem.opts.progress ? progress : NULL;
    const uint64_t workspace = hf_device_workspace(&fit->problem, HF_OP_LLOYD, &args);
    if (workspace == UINT64_MAX || !hf_device_has_room(fit, workspace))
        return false;
    args.settle = true;
    /* what a book goes back to are labels of the centroids before */
    fit->work.settles = !fit->problem.opts.progress && !fit->problem.opts.digest &&
                        !fit->ledger.device &&
                        hf_device_workspace(&fit->problem, HF_OP_LLOYD, &args) <= workspace;
    return true;
}

/* What the device left to the host: `it` has labels, sums and inertia, or is wrong. */
static hf_status take_over(struct device_run *m, int event, hf_kmeans_iteration *it) {
    struct hf_fit *fit = m->fit;
    const void *used = fit->centers.current;
    fit->ledger.labels_signed = false;
    if (event == HF_LLOYD_COUNTS)
        HF_TRY(hf_iteration_check_counts(&fit->problem, &fit->centers, m->run->iteration + 1));
    HF_TRY(hf_labels_fetch(&fit->problem, &fit->labels));
    HF_TRY(hf_ledger_compare(fit)); /* what is done next goes by the sums */
    HF_TRY(hf_iteration_conclude(fit, m->run, it, false));
    HF_TRY(hf_ledger_compare(fit));
    HF_TRY(hf_ledger_check_used(fit, used));
    HF_TRY(hf_iteration_record(&fit->problem, m->run, m->begin, it));
    hf_ledger_keep_state(fit);
    hf_digest_tell(fit, m->run);
    return hf_iteration_report(&fit->problem, &fit->weights, m->run);
}

/* The iterations of a call with a book are right; keep their centroids. What they were told of
 * stands, unless these do not come to the host as they were. */
static hf_status take_book(struct device_run *m, const struct hf_lloyd_state *state, int before) {
    if (state->iterations > 0)
        m->fit->refill.relocated_count = 0;
    const hf_status status = hf_device_ledger_returned(m->fit, state->iterations);
    if (status != HF_OK)
        m->run->iteration = m->run->history.count = before;
    return status;
}

/* Did the device find a fault? */
static hf_status verify(hf_context *ctx, const struct hf_lloyd_state *state, int iteration) {
    ctx->guard.iteration = iteration;
    hf_status status = hf_verify(ctx);
    if (status == HF_OK && state->stop == HF_LLOYD_FAULT)
        status = hf_ctx_fail(ctx, HF_E_CORRUPT,
                             "the device found a fault in iteration %d and lost its description: "
                             "the machine computes wrongly; run it again, and if that fails too, "
                             "on another machine",
                             iteration);
    ctx->guard.counts.suspected += status == HF_E_CORRUPT;
    return status;
}

/* While the device iterates the host gets the memory ready that the labels will come to: the system
 * takes as long to give it as the copy does. */
static hf_status run_op(const struct hf_fit_problem *problem, struct hf_labels *labels,
                        const struct hf_lloyd_args *args) {
    const struct hf_kernel *kernel = NULL;
    if (args->progress || args->labels == labels->host || !hf_ctx_begin_calls(problem->ctx))
        return hf_lloyd_run(problem->ctx, args);
    hf_status status = hf_queue(problem->ctx, HF_OP_LLOYD, args, &kernel);
    if (status == HF_OK)
        status = hf_labels_start_check(problem, labels);
    hf_labels_touch(problem, labels);
    return hf_ctx_end_calls(problem->ctx, status);
}

hf_status hf_device_loop(struct hf_fit *fit, struct hf_restart *run, bool *serves) {
    hf_kmeans_iteration history[MANY] = {0};
    struct device_call call;
    const struct hf_lloyd_state *state = &call.state;
    struct device_run m = {.fit = fit, .run = run, .begin = hf_now_s()};
    HF_TRY(hf_device_twice_end(fit, run));
    struct hf_lloyd_args args = lloyd_args(fit, run, &call, history);
    const double begin = m.begin;
    HF_TRY(hf_labels_for_ops(&fit->problem, &fit->labels, &args.labels));
    const bool tells = fit->problem.opts.progress != NULL;
    args.progress = tells ? progress : NULL;
    args.progress_user = &m;
    const int before = run->iteration;
    hf_skip_reset(&fit->skip);
    HF_TRY(hf_device_ledger_hash(fit));
    const bool twice = fit->ledger.twice;
    const hf_status status =
        twice ? hf_device_twice(fit, &args) : run_op(&fit->problem, &fit->labels, &args);
    *serves = status != HF_E_NOMEM || run->iteration > before; /* nothing told can be taken back */
    fit->ledger.twice = fit->ledger.twice && *serves;
    if (status != HF_OK)
        return *serves ? status : HF_OK;
    if (twice && !fit->ledger.twice && state->iterations == 0) /* the first one is the host's */
        return HF_OK;
    HF_TRY(m.status);
    hf_note_kernel(&fit->problem, HF_OP_LLOYD, fit->outcome.kernel_assign);
    hf_note_kernel(&fit->problem, HF_OP_LLOYD, fit->outcome.kernel_update);
    hf_labels_by_ops(&fit->labels);
    run->settled = state->settled;
    const hf_status once = twice ? HF_OK : hf_copies_once(fit->problem.ctx, state);
    hf_status labels = hf_labels_end_check(&fit->problem, &fit->labels);
    labels = once == HF_OK ? labels : once;
    /* struck behind the last iteration: the call is made again, not one iteration more */
    if (args.book && labels != HF_OK && state->stop != HF_LLOYD_FAULT) {
        run->iteration = run->history.count = before;
        return labels;
    }
    if (args.book)
        HF_TRY(take_book(&m, state, before));
    const double each = (hf_now_s() - begin) / (state->iterations > 0 ? state->iterations : 1);
    for (int i = 0; !tells && i < state->iterations; i++)
        HF_TRY(hf_iteration_record(&fit->problem, run, hf_now_s() - each, &history[i]));
    if (state->iterations > 0)
        hf_digest_tell(fit, run);
    HF_TRY(verify(fit->problem.ctx, state, run->iteration + 1));
    HF_TRY(labels);
    if (state->iterations > 0)
        fit->refill.relocated_count = 0;
    if (state->stop >= HF_LLOYD_EMPTY)
        return take_over(&m, state->stop, &history[state->iterations]);
    if (state->stop != HF_STOP_CANCELLED)
        run->stop = (hf_stop)state->stop;
    return HF_OK;
}

bool hf_device_loop_accuse(struct hf_fit *fit, const struct hf_restart *run) {
    hf_context *ctx = fit->problem.ctx;
    struct hf_guard_state *guard = &ctx->guard;
    const struct hf_guard_state before = *guard;
    const hf_error why = ctx->error;
    struct device_call call;
    hf_kmeans_iteration history;
    int32_t unit = -1;
    int lane = -1;
    if (ctx->device->id != HF_DEV_CUDA || !fit->data.rows.array || !fit->ledger.block)
        return false;
    const struct hf_lloyd_args args = lloyd_args(fit, run, &call, &history);
    const hf_status status = hf_screen_units(fit, &args, &unit, &lane);
    guard->found = before.found;
    guard->found_by = before.found_by;
    guard->lane = before.lane;
    ctx->error = why;
    if (status != HF_OK || unit < 0)
        return false;
    guard->found.unit = unit;
    guard->lane = lane;
    (void)hf_ctx_fail(ctx, HF_OK, "%.800s; multiprocessor %d computes wrongly", why.text,
                      (int)unit);
    return true;
}
