/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/loop/device_loop.h"
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/loop/clusters.h"
#include "algo/kmeans/loop/device_memory.h"
#include "algo/kmeans/loop/iteration.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/loop/skip.h"
#include "base/clock.h"
#include "base/mem.h"
#include "core/kernel.h"
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
    m->status = hf_iteration_record(m->fit, m->run, m->begin, &own);
    m->begin = hf_now_s();
    if (m->status == HF_OK)
        hf_iteration_report(m->fit, m->run);
    return m->status != HF_OK || m->run->cancelled;
}

static struct hf_lloyd_args lloyd_args(struct hf_fit *fit, const struct hf_restart *run,
                                       struct hf_lloyd_state *state, hf_kmeans_iteration *history) {
    const hf_kmeans_opts *o = &fit->opts;
    int64_t count = hf_min64(o->max_iter - run->iteration, MANY);
    if (o->checkpoint)
        count = hf_min64(count, o->checkpoint_every - run->iteration % o->checkpoint_every);
    *state = (struct hf_lloyd_state){0};
    if (run->iteration > 0) {
        state->inertia = run->history.it[run->iteration - 1].inertia;
        state->empty = run->history.it[run->iteration - 1].empty;
    }
    return (struct hf_lloyd_args){.x = *fit->rows.array,
                                  .batch = 1,
                                  .exact = o->precision == HF_EXACT,
                                  .filter = fit->filter,
                                  .rule = hf_fit_rule(fit),
                                  .empty = o->empty,
                                  .skipping = o->skipping,
                                  .settle = fit->settles && o->max_iter - run->iteration == count,
                                  .first = run->iteration,
                                  .count = (int)count,
                                  .tol = &fit->tol,
                                  .total_square = &fit->total_square,
                                  .slack = &fit->slack,
                                  .weights = fit->weights,
                                  .weight_mult = &fit->sums.weight_mult,
                                  .sums = &fit->sums,
                                  .labels = fit->labels,
                                  .current = fit->current,
                                  .previous = fit->previous,
                                  .state = state,
                                  .history = history};
}

bool hf_device_loop_serves(struct hf_fit *fit, const struct hf_restart *run) {
    struct hf_lloyd_state state;
    hf_kmeans_iteration history;
    if (!fit->rows.array || fit->rows.reader || fit->uneven)
        return false;
    fit->settles = false;
    struct hf_lloyd_args args = lloyd_args(fit, run, &state, &history);
    const uint64_t workspace = hf_device_workspace(fit, HF_OP_LLOYD, &args);
    if (workspace == UINT64_MAX || !hf_device_has_room(fit, workspace))
        return false;
    args.settle = true;
    fit->settles = !fit->opts.progress && hf_device_workspace(fit, HF_OP_LLOYD, &args) <= workspace;
    return true;
}

/* What the device left to the host: `it` has labels, sums and inertia, or is wrong. */
static hf_status take_over(struct device_run *m, int event, hf_kmeans_iteration *it) {
    if (event == HF_LLOYD_COUNTS)
        HF_TRY(hf_iteration_check_counts(m->fit, m->run->iteration + 1));
    HF_TRY(hf_labels_bring(m->fit, false));
    HF_TRY(hf_iteration_conclude(m->fit, m->run, it, false));
    HF_TRY(hf_iteration_record(m->fit, m->run, m->begin, it));
    hf_iteration_report(m->fit, m->run);
    return HF_OK;
}

/* While the device iterates the host gets the memory ready that the labels will come to: the system
 * takes as long to give it as the copy does. */
static hf_status run_op(struct hf_fit *fit, const struct hf_lloyd_args *args) {
    const struct hf_kernel *kernel = NULL;
    if (args->progress || args->labels == fit->labels || !hf_ctx_begin_calls(fit->ctx))
        return hf_lloyd_run(fit->ctx, args);
    hf_status status = hf_queue(fit->ctx, HF_OP_LLOYD, args, &kernel);
    if (status == HF_OK)
        status = hf_labels_ask(fit);
    hf_labels_touch(fit);
    return hf_ctx_end_calls(fit->ctx, status);
}

hf_status hf_device_loop(struct hf_fit *fit, struct hf_restart *run, bool *serves) {
    hf_kmeans_iteration history[MANY] = {0};
    struct hf_lloyd_state state;
    struct device_run m = {.fit = fit, .run = run, .begin = hf_now_s()};
    struct hf_lloyd_args args = lloyd_args(fit, run, &state, history);
    const double begin = m.begin;
    HF_TRY(hf_labels_for_ops(fit, &args.labels));
    const bool tells = fit->opts.progress != NULL;
    args.progress = tells ? progress : NULL;
    args.progress_user = &m;
    const int before = run->iteration;
    hf_skip_reset(&fit->skip);
    const hf_status status = run_op(fit, &args);
    *serves = status != HF_E_NOMEM || run->iteration > before; /* nothing told can be taken back */
    if (status != HF_OK)
        return *serves ? status : HF_OK;
    HF_TRY(m.status);
    HF_TRY(hf_verify(fit->ctx));
    hf_note_kernel(fit, HF_OP_LLOYD, fit->kernel_assign);
    hf_note_kernel(fit, HF_OP_LLOYD, fit->kernel_update);
    hf_labels_by_ops(fit);
    HF_TRY(hf_labels_answer(fit));
    run->settled = state.settled;
    if (state.iterations > 0)
        fit->relocated_count = 0;
    const double each = (hf_now_s() - begin) / (state.iterations > 0 ? state.iterations : 1);
    for (int i = 0; !tells && i < state.iterations; i++)
        HF_TRY(hf_iteration_record(fit, run, hf_now_s() - each, &history[i]));
    if (state.stop >= HF_LLOYD_EMPTY)
        return take_over(&m, state.stop, &history[state.iterations]);
    if (state.stop != HF_STOP_CANCELLED)
        run->stop = (hf_stop)state.stop;
    return HF_OK;
}
