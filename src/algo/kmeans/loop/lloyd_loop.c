/* SPDX-License-Identifier: Apache-2.0
 * Lloyd's loop. The sums of the clusters are exact integers, so an iteration moves only the rows
 * whose label changed, and the result does not depend on the order of anything. */
#include "algo/kmeans/loop/lloyd_loop.h"
#include "algo/kmeans/checkpoint.h"
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/loop/centers.h"
#include "algo/kmeans/loop/clusters.h"
#include "algo/kmeans/loop/device_loop.h"
#include "algo/kmeans/loop/device_memory.h"
#include "algo/kmeans/loop/digest.h"
#include "algo/kmeans/loop/empty.h"
#include "algo/kmeans/loop/finish.h"
#include "algo/kmeans/loop/iteration.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/guard/bounds.h"
#include "algo/kmeans/guard/device_ledger.h"
#include "algo/kmeans/guard/device_twice.h"
#include "algo/kmeans/guard/ledger.h"
#include "algo/kmeans/mend/mend.h"
#include "algo/kmeans/mend/past.h"
#include "algo/kmeans/loop/light.h"
#include "algo/kmeans/loop/mirror.h"
#include "algo/kmeans/guard/protect.h"
#include "algo/kmeans/guard/update_twice.h"
#include "algo/kmeans/loop/skip.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "guard/guard.h"
#include "ops/sums.h"
#include "rows/reader.h"

struct pass {
    struct hf_fit *fit;
    struct hf_assign_bounds *bounds; /* of all rows, or NULL */
    struct hf_mirror *mirror;        /* NULL: all that the rows need lies in host memory */
    int turn;                        /* as kernels of assign know it */
    struct hf_assign_stats stats;
};

static hf_status assign_panel(void *job, const hf_array *panel, int64_t first) {
    struct pass *p = job;
    struct hf_fit *fit = p->fit;
    const struct hf_fit_problem *problem = &fit->problem;
    const double *weights = fit->weights.scaled ? fit->weights.scaled + first : NULL;
    struct hf_assign_bounds own;
    struct hf_assign_args args = hf_lloyd_args(fit, panel, first, p->bounds, &own, &p->stats);
    args.sums = fit->work.fused ? &fit->centers.sums : NULL;
    args.weights = fit->work.fused ? weights : NULL;
    args.old_labels = fit->work.fused ? NULL : fit->work.panel_labels;
    args.turn = p->turn;
    if (p->mirror) {
        args.c.data = p->mirror->centers;
        args.labels = fit->labels.device + first;
        args.old_labels = p->mirror->old_labels;
        args.stats = p->mirror->stats;
    }
    HF_TRY(hf_assign(problem->ctx, &args));
    hf_note_kernel(problem, HF_OP_ASSIGN, fit->outcome.kernel_assign);
    if (!p->mirror && !(fit->work.fused && hf_ledger_looks(fit)))
        HF_TRY(hf_labels_check(problem, &fit->labels, first, panel->rows));
    HF_TRY(hf_ledger_panel(fit, panel, first));
    if (fit->work.fused)
        return HF_OK;
    const struct hf_update_args update = {.x = *panel,
                                          .metric = problem->opts.metric,
                                          .weights = weights,
                                          .old_labels = args.old_labels,
                                          .labels = args.labels,
                                          .sums =
                                              p->mirror ? &p->mirror->sums : &fit->centers.sums};
    HF_TRY(p->mirror ? hf_update(problem->ctx, &update) : hf_update_twice(fit, &update));
    hf_note_kernel(problem, HF_OP_UPDATE, fit->outcome.kernel_update);
    return HF_OK;
}

/* Rows that pass through a device cost the bus, not the kernels: bounds save nothing there. */
static bool bounds_pay(const struct hf_fit_problem *problem, const struct hf_data *data) {
    return !data->rows.reader || problem->opts.skipping == HF_SKIP_ON;
}

/* Labels for fit->centers.current, and sums that follow them. mirror may be NULL. turn: iterations
 * that there were, 0 where labels are made from nothing. */
static hf_status assign_all(struct hf_fit *fit, struct hf_mirror *mirror, int turn,
                            struct hf_assign_stats *stats) {
    hf_context *ctx = fit->problem.ctx;
    struct pass p = {.fit = fit, .turn = fit->work.thorough || fit->work.again ? 0 : turn};
    hf_sums_begin(&ctx->comm, &fit->centers.sums);
    if (mirror)
        HF_TRY(hf_mirror_begin(fit, mirror));
    p.mirror = mirror && mirror->block ? mirror : NULL;
    if (bounds_pay(&fit->problem, &fit->data))
        HF_TRY(hf_skip_arm(fit, &p.bounds));
    hf_bounds_begin(fit, p.bounds);
    const hf_status status =
        hf_panels_each(&fit->data.rows, fit->data.panel_rows, assign_panel, &p);
    fit->work.thorough = fit->work.thorough || p.stats.lasting > 0;
    HF_TRY(status);
    HF_TRY(hf_ledger_hashed(fit));
    HF_TRY(hf_bounds_check(fit, p.bounds));
    if (p.mirror)
        HF_TRY(hf_mirror_sums(fit, p.mirror, &p.stats));
    hf_skip_learn(fit, p.bounds, &p.stats);
    *stats = p.stats;
    return hf_ctx_check(
        ctx, hf_sums_reduce(&ctx->comm, ctx->stream, &fit->centers.sums, &stats->changed));
}

hf_status hf_lloyd_clear(struct hf_fit *fit) {
    fit->work.labelled = false;
    hf_sums_clear(&fit->centers.sums);
    hf_skip_reset(&fit->skip);
    HF_TRY(hf_ledger_clear(fit));
    return hf_labels_clear(&fit->problem, &fit->labels);
}

/* Labels of these centroids and their sums, from nothing else. */
static hf_status make_anew(struct hf_fit *fit, void *centers) {
    void *now = fit->centers.current;
    struct hf_assign_stats stats;
    struct hf_mirror mirror = {0};
    HF_TRY(hf_lloyd_clear(fit));
    fit->centers.current = centers;
    const hf_status status = assign_all(fit, fit->labels.device ? &mirror : NULL, 0, &stats);
    fit->centers.current = now;
    hf_mirror_clear(&fit->problem, &mirror);
    HF_TRY(status);
    HF_TRY(hf_ledger_book(fit, HF_LEDGER_ANY));
    return hf_ledger_compare(fit);
}

hf_status hf_lloyd_settle(struct hf_fit *fit) { return make_anew(fit, fit->centers.current); }

hf_status hf_lloyd_rebuild(struct hf_fit *fit) {
    HF_TRY(make_anew(fit, fit->centers.previous));
    if (fit->refill.relocated_count > 0)
        HF_TRY(hf_labels_fetch(&fit->problem, &fit->labels));
    fit->work.labelled = fit->refill.relocated_count == 0;
    return hf_move_rows(fit, fit->refill.relocated, fit->refill.relocated_count);
}

static bool has_empty(const struct hf_fit_problem *problem, const struct hf_centers *centers,
                      const struct hf_light *light) {
    int64_t j = 0;
    while (j < problem->k && !hf_cluster_is_empty(centers, light, j))
        j++;
    return j < problem->k;
}

/* The labels on the host, checked. */
static hf_status fetch_labels(const struct hf_fit_problem *problem, struct hf_labels *labels) {
    if (!labels->device_newer)
        return HF_OK;
    HF_TRY(hf_labels_fetch(problem, labels));
    return hf_labels_check(problem, labels, 0, problem->n);
}

/* Labels in place once more, from another copy of the centroids. */
static hf_status confirm_panel(void *job, const hf_array *panel, int64_t first) {
    struct pass *p = job;
    struct hf_fit *fit = p->fit;
    struct hf_assign_bounds none;
    struct hf_assign_args args = hf_lloyd_args(fit, panel, first, NULL, &none, &p->stats);
    if (p->mirror)
        args.labels = fit->labels.device + first;
    return hf_assign(fit->problem.ctx, &args);
}

/* On a device the first labels, which come from nowhere, are found twice: of later ones it is known
 * that who moved did right. Rows that pass in panels are not at hand any more. */
static hf_status confirm_first(struct hf_fit *fit, struct hf_mirror *mirror) {
    hf_context *ctx = fit->problem.ctx;
    struct pass p = {.fit = fit, .mirror = mirror && mirror->block ? mirror : NULL};
    if (!hf_finish_confirms(fit) || fit->data.rows.reader || !hf_guard_checks(ctx, HF_FAULT_MOVES))
        return HF_OK;
    HF_TRY(hf_panels_each(&fit->data.rows, fit->data.panel_rows, confirm_panel, &p));
    hf_guard_checked(ctx, HF_FAULT_MOVES, fit->problem.n);
    if (p.stats.changed == 0)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_MOVES, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT, "%lld of the first labels came out twice differently: %s",
                       (long long)p.stats.changed, hf_suspects(&fit->problem));
}

struct iteration {
    struct hf_fit *fit;
    struct hf_restart *run;
    struct hf_mirror *mirror;
    double begin;
    bool sound;   /* labels were found by what was kept */
    bool by_hand; /* rows have got other labels than the nearest, or may have */
    struct hf_assign_stats stats;
};

/* Labels and sums. */
static hf_status relabel(struct iteration *i) {
    struct hf_fit *fit = i->fit;
    i->begin = hf_now_s();
    i->sound = i->by_hand = false;
    i->stats = (struct hf_assign_stats){0};
    fit->ledger.changed = -1;
    HF_TRY(hf_device_twice_end(fit, i->run));
    HF_TRY(hf_device_ledger_check_bounds(fit));
    HF_TRY(hf_past_check_due(fit));
    const hf_status status = assign_all(fit, i->mirror, i->run->iteration, &i->stats);
    i->sound = fit->ledger.block && hf_mend_sound(fit);
    HF_TRY(status);
    HF_TRY(hf_verify(fit->problem.ctx));
    HF_TRY(hf_iteration_check_counts(&fit->problem, &fit->centers, i->run->iteration + 1));
    HF_TRY(hf_ledger_book(fit, i->stats.changed));
    HF_TRY(hf_ledger_check_old(fit));
    return i->run->iteration == 0 ? confirm_first(fit, i->mirror) : HF_OK;
}

/* Inertia and new centroids. */
static hf_status move_on(struct iteration *i) {
    struct hf_fit *fit = i->fit;
    hf_kmeans_iteration it = {.changed = i->stats.changed,
                              .rows_skipped = i->stats.skipped,
                              .rows_partial = i->stats.partial,
                              .rows_rechecked = i->stats.rechecked,
                              .rows_float64 = i->stats.float64};
    const void *used = fit->centers.current;
    const bool light = hf_light_mark(fit);
    if (light) {
        HF_TRY(fetch_labels(&fit->problem, &fit->labels));
        hf_light_weigh(fit);
    }
    const bool stepped =
        it.changed > 0 && !light && !has_empty(&fit->problem, &fit->centers, &fit->light);
    if (stepped)
        HF_TRY(hf_centers_step(fit, &it.shift, &it.inertia));
    else
        HF_TRY(hf_centers_inertia(fit, &it.inertia));
    if (!stepped && it.changed > 0 && fit->problem.opts.empty != HF_EMPTY_KEEP)
        HF_TRY(
            fetch_labels(&fit->problem, &fit->labels)); /* rows are looked at in their clusters */
    if (!stepped)                                       /* what is done next goes by the sums */
        HF_TRY(hf_ledger_compare(fit));
    i->by_hand = !stepped;
    HF_TRY(hf_iteration_conclude(fit, i->run, &it, stepped));
    HF_TRY(hf_ledger_compare(fit));
    HF_TRY(hf_ledger_check_used(fit, used));
    HF_TRY(hf_iteration_record(&fit->problem, i->run, i->begin, &it));
    fit->work.labelled =
        it.changed > 0 && (it.empty == 0 || fit->problem.opts.empty == HF_EMPTY_KEEP);
    hf_ledger_keep_step(fit, used);
    hf_past_keep(fit, i->run->iteration, false);
    fit->ledger.changed = -1;
    return HF_OK;
}

/* One iteration: labels, sums, inertia, new centroids. */
static hf_status run_iteration(void *user) {
    struct iteration *i = user;
    HF_TRY(relabel(i));
    return move_on(i);
}

/* Labels of all rows once more, in place, whatever they are. */
static hf_status relabel_all(struct iteration *i) {
    struct hf_fit *fit = i->fit;
    const bool labelled = fit->work.labelled;
    fit->work.labelled = false;
    fit->work.again = true;
    const hf_status status = assign_all(fit, NULL, 0, &i->stats);
    fit->work.again = false;
    fit->work.labelled = labelled;
    i->sound = hf_mend_sound(fit);
    HF_TRY(status);
    return hf_verify(fit->problem.ctx);
}

/* What a check found wrong in the iteration, and what follows from it. */
static hf_status mend_iteration(void *user) {
    struct iteration *i = user;
    struct hf_mend mend = {.sound = i->sound, .first = i->run->iteration == 0};
    if (i->by_hand)
        return HF_E_CORRUPT;
    HF_TRY(hf_mend_begin(i->fit, &mend));
    if (mend.all)
        HF_TRY(relabel_all(i));
    HF_TRY(hf_mend_clusters(i->fit, &mend, &i->stats.changed));
    return move_on(i);
}

static hf_status iterate_once(struct hf_fit *fit, struct hf_restart *run,
                              struct hf_mirror *mirror) {
    if (fit->data.rows.reader && !mirror->block && !mirror->none) {
        HF_TRY(hf_mirror_begin(fit, mirror));
        HF_TRY(hf_device_cache_panels(fit));
    }
    struct iteration i = {.fit = fit, .run = run, .mirror = mirror};
    const struct hf_protected work = {.run = run_iteration,
                                      .mend = mend_iteration,
                                      .user = &i,
                                      .stop = run->stop,
                                      .clear = hf_lloyd_clear,
                                      .rebuild = hf_lloyd_rebuild};
    fit->problem.ctx->guard.iteration = run->iteration + 1;
    HF_TRY(hf_protect(fit, run, &work));
    hf_digest_tell(fit, run);
    return hf_iteration_report(&fit->problem, &fit->weights, run);
}

/* Many iterations in calls of op lloyd; *serves: they go on there. */
struct device_work {
    struct hf_fit *fit;
    struct hf_restart *run;
    bool *serves;
    bool again; /* what failed is made again: alone, so that the next fault is another one */
};

static hf_status run_device(void *user) {
    struct device_work *w = user;
    w->fit->ledger.careful = w->again;
    w->again = true;
    const hf_status status = hf_device_loop(w->fit, w->run, w->serves);
    w->fit->ledger.careful = false;
    return status;
}

static hf_status iterate_on_device(struct hf_fit *fit, struct hf_restart *run, bool *serves) {
    struct device_work w = {.fit = fit, .run = run, .serves = serves};
    const struct hf_protected work = {.run = run_device,
                                      .user = &w,
                                      .stop = run->stop,
                                      .clear = hf_lloyd_clear,
                                      .rebuild = hf_lloyd_rebuild};
    return hf_protect(fit, run, &work);
}

/* A file must not vouch for centroids that changed in memory. */
static hf_status save(struct hf_fit *fit, const struct hf_restart *run,
                      const struct hf_restart *best) {
    if (fit->problem.opts.checkpoint)
        HF_TRY(hf_ledger_check_state(fit));
    hf_checkpoint_write(fit, run, best);
    return HF_OK;
}

static hf_status loop(struct hf_fit *fit, struct hf_restart *run, const struct hf_restart *best,
                      struct hf_mirror *mirror) {
    const hf_kmeans_opts *o = &fit->problem.opts;
    if (!fit->data.rows.reader) /* else panels may need the memory */
        hf_labels_open(&fit->problem, &fit->labels);
    if (run->iteration == 0) {
        fit->ledger.twice = hf_device_loop_twice(fit, run);
        HF_TRY(hf_lloyd_clear(fit));
        fit->refill.relocated_count = 0;
    }
    hf_ledger_keep_state(fit);
    hf_past_keep(fit, run->iteration, true);
    bool serves = run->iteration < o->max_iter && hf_device_loop_serves(fit, run);
    while (run->stop == HF_STOP_NONE) {
        if (run->iteration >= o->max_iter) {
            run->stop = HF_STOP_MAX_ITER;
            break;
        }
        if (serves)
            HF_TRY(iterate_on_device(fit, run, &serves));
        else
            HF_TRY(iterate_once(fit, run, mirror));
        if (run->stop == HF_STOP_NONE && run->cancelled)
            run->stop = HF_STOP_CANCELLED;
        else if (run->stop == HF_STOP_NONE && run->iteration > 0 &&
                 run->iteration % o->checkpoint_every == 0)
            HF_TRY(save(fit, run, best));
    }
    if (run->stop == HF_STOP_CANCELLED || run->stop == HF_STOP_MAX_ITER)
        HF_TRY(save(fit, run, best));
    return HF_OK;
}

hf_status hf_lloyd(struct hf_fit *fit, struct hf_restart *run, const struct hf_restart *best) {
    struct hf_mirror mirror = {0};
    struct hf_reader *reader = fit->data.rows.reader;
    hf_status status = loop(fit, run, best, &mirror);
    if (status == HF_OK && mirror.block)
        status = fetch_labels(&fit->problem, &fit->labels);
    hf_mirror_clear(&fit->problem, &mirror);
    if (reader) {
        hf_labels_close(&fit->problem, &fit->labels);
        if (status == HF_OK && fit->problem.opts.n_init > 1) /* the next start needs the memory */
            status = hf_reader_cache(reader, UINT64_MAX);
    }
    return status;
}
