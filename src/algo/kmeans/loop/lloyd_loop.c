/* SPDX-License-Identifier: Apache-2.0
 * Lloyd's loop. The sums of the clusters are exact integers, so an iteration moves only the rows
 * whose label changed, and the result does not depend on the order of anything. */
#include "algo/kmeans/loop/lloyd_loop.h"
#include "algo/kmeans/checkpoint.h"
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/loop/centers.h"
#include "algo/kmeans/loop/clusters.h"
#include "algo/kmeans/loop/empty.h"
#include "algo/kmeans/loop/finish.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/loop/light.h"
#include "algo/kmeans/loop/mirror.h"
#include "algo/kmeans/loop/skip.h"
#include "algo/kmeans/prepare.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "comm/comm.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "rows/reader.h"
#include "ops/lloyd/lloyd.h"
#include <string.h>

#define MANY 512 /* most iterations between two looks at the state on a device */
#define SMALL_BYTES ((uint64_t)1 << 20) /* counters and the like, in pieces of a device's memory */

struct pass {
    struct hf_fit *fit;
    struct hf_assign_bounds *bounds; /* of all rows, or NULL */
    struct hf_mirror *mirror;        /* NULL: all that the rows need lies in host memory */
    struct hf_assign_stats stats;
};

static hf_status assign_panel(void *job, const hf_array *panel, int64_t first) {
    struct pass *p = job;
    struct hf_fit *fit = p->fit;
    const double *weights = fit->weights ? fit->weights + first : NULL;
    struct hf_assign_bounds own;
    struct hf_assign_args args = hf_lloyd_args(fit, panel, first, p->bounds, &own, &p->stats);
    args.sums = fit->fused ? &fit->sums : NULL;
    args.weights = fit->fused ? weights : NULL;
    args.old_labels = fit->fused ? NULL : fit->panel_labels;
    if (p->mirror) {
        args.c.data = p->mirror->centers;
        args.labels = fit->away.at + first;
        args.old_labels = p->mirror->old_labels;
        args.stats = p->mirror->stats;
    }
    HF_TRY(hf_assign(fit->ctx, &args));
    hf_note_kernel(fit, HF_OP_ASSIGN, fit->kernel_assign);
    if (!p->mirror)
        HF_TRY(hf_labels_check(fit, first, panel->rows));
    if (fit->fused)
        return HF_OK;
    const struct hf_update_args update = {.x = *panel,
                                          .metric = fit->opts.metric,
                                          .weights = weights,
                                          .old_labels = args.old_labels,
                                          .labels = args.labels,
                                          .sums = p->mirror ? &p->mirror->sums : &fit->sums};
    HF_TRY(hf_update(fit->ctx, &update));
    hf_note_kernel(fit, HF_OP_UPDATE, fit->kernel_update);
    return HF_OK;
}

/* Sums over all ranks. Integers: rank 0 keeps the total and the others go on from 0, so that each
 * iteration adds only what changed. */
static hf_status reduce(struct hf_fit *fit, struct hf_assign_stats *stats) {
    const hf_comm *comm = hf_comm_self();
    const struct hf_sums *s = &fit->sums;
    HF_TRY(comm->allreduce(comm, s->sum, s->limbs * s->k * s->d, HF_COMM_SUM_I64));
    HF_TRY(comm->allreduce(comm, s->count, s->k, HF_COMM_SUM_I64));
    if (s->weight)
        HF_TRY(comm->allreduce(comm, s->weight, s->limbs * s->k, HF_COMM_SUM_I64));
    return comm->allreduce(comm, &stats->changed, 1, HF_COMM_SUM_I64);
}

static void clear_sums(const struct hf_sums *s) {
    memset(s->sum, 0, (size_t)(s->limbs * s->k * s->d) * sizeof(int64_t));
    memset(s->count, 0, (size_t)s->k * sizeof(int64_t));
    if (s->weight)
        memset(s->weight, 0, (size_t)(s->limbs * s->k) * sizeof(int64_t));
}

/* Rows that pass through a device cost the bus, not the kernels: bounds save nothing there. */
static bool bounds_pay(const struct hf_fit *fit) {
    return !fit->rows.reader || fit->opts.skipping == HF_SKIP_ON;
}

/* Labels for fit->current, and sums that follow them. mirror may be NULL. */
static hf_status assign_all(struct hf_fit *fit, struct hf_mirror *mirror,
                            struct hf_assign_stats *stats) {
    const hf_comm *comm = hf_comm_self();
    struct pass p = {.fit = fit};
    if (comm->rank(comm) > 0)
        clear_sums(&fit->sums);
    if (mirror)
        HF_TRY(hf_mirror_begin(fit, mirror));
    p.mirror = mirror && mirror->block ? mirror : NULL;
    if (bounds_pay(fit))
        HF_TRY(hf_skip_arm(fit, &p.bounds));
    HF_TRY(hf_panels_each(&fit->rows, fit->panel_rows, assign_panel, &p));
    if (p.mirror)
        HF_TRY(hf_mirror_sums(fit, p.mirror, &p.stats));
    hf_skip_learn(fit, p.bounds, &p.stats);
    *stats = p.stats;
    return reduce(fit, stats);
}

static hf_status clear_state(struct hf_fit *fit) {
    clear_sums(&fit->sums);
    hf_skip_reset(&fit->skip);
    return hf_labels_clear(fit);
}

hf_status hf_lloyd_rebuild(struct hf_fit *fit) {
    void *now = fit->current;
    struct hf_assign_stats stats;
    HF_TRY(clear_state(fit));
    fit->current = fit->previous;
    const hf_status status = assign_all(fit, NULL, &stats);
    fit->current = now;
    HF_TRY(status);
    return hf_move_rows(fit, fit->relocated, fit->relocated_count);
}

static hf_status check_counts(const struct hf_fit *fit, int iteration) {
    const struct hf_lloyd_tally tally = hf_lloyd_tally(fit->sums.count, fit->k);
    if (!hf_counts_are_wrong(&tally, fit->n))
        return HF_OK;
    return hf_ctx_fail(fit->ctx, HF_E_CORRUPT,
                       "iteration %d: the clusters hold %lld rows%s, not %lld: %s", iteration,
                       (long long)tally.rows, tally.negative > 0 ? ", some less than none" : "",
                       (long long)fit->n, hf_suspects(fit));
}

static hf_status check_inertia(const struct hf_fit *fit, const struct hf_restart *run,
                               double inertia) {
    const struct hf_lloyd_laws laws = {.metric = fit->opts.metric,
                                       .exact = fit->opts.precision == HF_EXACT,
                                       .empty = fit->opts.empty,
                                       .slack = fit->slack};
    struct hf_lloyd_before before = {.iterations = run->iteration};
    if (run->iteration > 0) {
        before.inertia = run->history.it[run->iteration - 1].inertia;
        before.empty = run->history.it[run->iteration - 1].empty;
    }
    if (!hf_inertia_rose(&laws, &before, inertia))
        return HF_OK;
    return hf_ctx_fail(fit->ctx, HF_E_CORRUPT,
                       "iteration %d: the inertia rose from %.17g to %.17g, beyond rounding: %s",
                       run->iteration + 1, hf_inertia_given(fit, before.inertia),
                       hf_inertia_given(fit, inertia), hf_suspects(fit));
}

static hf_status remember(const struct hf_fit *fit, struct hf_history *h,
                          const hf_kmeans_iteration *it) {
    if (h->count == h->room) {
        const int room = h->room ? h->room * 2 : 64;
        hf_kmeans_iteration *more = hf_alloc((size_t)room * sizeof(*more));
        if (!more)
            return hf_ctx_fail(fit->ctx, HF_E_NOMEM, "no memory for a history of %d iterations",
                               room);
        if (h->count > 0)
            memcpy(more, h->it, (size_t)h->count * sizeof(*more));
        hf_free(h->it);
        h->it = more;
        h->room = room;
    }
    h->it[h->count++] = *it;
    return HF_OK;
}

/* An iteration from the inertia of its labels on: new centroids, shift; `stepped`: by
 * hf_centers_step(). */
static hf_status conclude(struct hf_fit *fit, struct hf_restart *run, hf_kmeans_iteration *it,
                          bool stepped) {
    const int number = run->iteration + 1;
    HF_TRY(check_inertia(fit, run, it->inertia));
    it->empty = 0;
    if (it->changed == 0) {
        run->stop = HF_STOP_LABELS;
        for (int64_t j = 0; j < fit->k; j++)
            it->empty += hf_cluster_is_empty(fit, j);
    } else {
        HF_TRY(hf_empty_clusters(fit, number, &it->empty));
        if (stepped) {
            hf_centers_swap(fit);
        } else {
            hf_centers_update(fit);
            HF_TRY(hf_light_means(fit));
            if (it->empty > 0)
                HF_TRY(hf_empty_split(fit)); /* only if that is the policy */
            it->shift = hf_centers_shift(fit);
        }
        if (it->shift <= fit->tol)
            run->stop = HF_STOP_TOL;
    }
    return HF_OK;
}

static hf_status keep(const struct hf_fit *fit, struct hf_restart *run, double begin,
                      hf_kmeans_iteration *it) {
    it->seconds = hf_now_s() - begin;
    HF_TRY(remember(fit, &run->history, it));
    run->iteration++;
    return HF_OK;
}

static bool has_empty(const struct hf_fit *fit) {
    int64_t j = 0;
    while (j < fit->k && !hf_cluster_is_empty(fit, j))
        j++;
    return j < fit->k;
}

/* The labels on the host, checked. */
static hf_status bring_labels(struct hf_fit *fit) {
    if (!fit->away.newer)
        return HF_OK;
    HF_TRY(hf_labels_bring(fit, false));
    return hf_labels_check(fit, 0, fit->n);
}

/* One iteration: labels, sums, inertia, new centroids. */
static hf_status iterate(struct hf_fit *fit, struct hf_restart *run, struct hf_mirror *mirror) {
    const double begin = hf_now_s();
    struct hf_assign_stats stats;
    hf_kmeans_iteration it = {0};
    HF_TRY(assign_all(fit, mirror, &stats));
    HF_TRY(hf_verify(fit->ctx));
    HF_TRY(check_counts(fit, run->iteration + 1));
    const bool light = hf_light_look(fit);
    if (light) {
        HF_TRY(bring_labels(fit));
        hf_light_weigh(fit);
    }
    const bool stepped = stats.changed > 0 && !light && !has_empty(fit);
    it.inertia = stepped ? hf_centers_step(fit, &it.shift) : hf_centers_inertia(fit);
    it.changed = stats.changed;
    it.rows_skipped = stats.skipped;
    it.rows_partial = stats.partial;
    it.rows_rechecked = stats.rechecked;
    it.rows_float64 = stats.float64;
    if (!stepped && it.changed > 0 && fit->opts.empty != HF_EMPTY_KEEP)
        HF_TRY(bring_labels(fit)); /* rows are looked at in their clusters */
    HF_TRY(conclude(fit, run, &it, stepped));
    return keep(fit, run, begin, &it);
}

static void report(const struct hf_fit *fit, struct hf_restart *run) {
    const hf_kmeans_opts *o = &fit->opts;
    hf_kmeans_iteration it = run->history.it[run->iteration - 1];
    it.inertia = hf_inertia_given(fit, it.inertia);
    if (o->progress && o->progress(o->progress_user, run->number, run->iteration, &it,
                                   run->iteration, o->max_iter))
        run->cancelled = true;
}

/* ---- many iterations at once, where the device has a row for that */

/* A run of op lloyd, as its iterations end. */
struct many {
    struct hf_fit *fit;
    struct hf_restart *run;
    double begin; /* of the iteration that goes on */
    hf_status status;
};

static int many_progress(void *user, int iteration, const hf_kmeans_iteration *it) {
    struct many *m = user;
    hf_kmeans_iteration own = *it;
    (void)iteration;
    m->status = keep(m->fit, m->run, m->begin, &own);
    m->begin = hf_now_s();
    if (m->status == HF_OK)
        report(m->fit, m->run);
    return m->status != HF_OK || m->run->cancelled;
}

static struct hf_lloyd_args many_args(struct hf_fit *fit, const struct hf_restart *run,
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

/* Bytes that a plan for the call asks for; UINT64_MAX: there is no row but the reference. */
static uint64_t workspace_of(struct hf_fit *fit, enum hf_op_id op, const void *args) {
    const struct hf_kernel *kernel = NULL;
    if (hf_plan(fit->ctx, op, args, &kernel, NULL) != HF_OK ||
        (kernel->traits & HF_TRAIT_REFERENCE))
        return UINT64_MAX;
    return hf_row_workspace(fit->ctx, kernel, args);
}

/* Is there memory for a run of op lloyd, its workspace and what it copies to the device? */
static bool has_room(const struct hf_fit *fit, uint64_t workspace) {
    const uint64_t held = fit->ctx->workspace_bytes; /* stays, unless more is wanted */
    const uint64_t labels = fit->away.at ? 0 : sizeof(int32_t);
    const uint64_t rows = (uint64_t)fit->n * (labels + (fit->weights ? 8 : 0));
    const uint64_t small = 4 * (uint64_t)(fit->k * fit->d) * sizeof(double) + SMALL_BYTES;
    const uint64_t needed = (workspace > held ? workspace : held) + rows + small;
    const uint64_t room = hf_ctx_room(fit->ctx) + held;
    return needed <= room;
}

/* Is there a row of op lloyd for this fit, and memory? */
static bool has_many(struct hf_fit *fit, const struct hf_restart *run) {
    struct hf_lloyd_state state;
    hf_kmeans_iteration history;
    if (!fit->rows.array || fit->rows.reader || fit->uneven)
        return false;
    fit->settles = false;
    struct hf_lloyd_args args = many_args(fit, run, &state, &history);
    const uint64_t workspace = workspace_of(fit, HF_OP_LLOYD, &args);
    if (workspace == UINT64_MAX || !has_room(fit, workspace))
        return false;
    args.settle = true;
    fit->settles = !fit->opts.progress && workspace_of(fit, HF_OP_LLOYD, &args) <= workspace;
    return true;
}

/* Before the first pass of the host's loop: the panels that there is memory for stay. */
static hf_status keep_panels(struct hf_fit *fit, struct hf_mirror *mirror) {
    if (!fit->rows.reader || mirror->block || mirror->none)
        return HF_OK;
    HF_TRY(hf_mirror_begin(fit, mirror));
    struct hf_assign_stats stats;
    struct hf_assign_bounds own;
    const hf_array panel = hf_array_view(NULL, fit->dtype, fit->panel_rows, fit->d);
    struct hf_assign_args assign =
        hf_lloyd_args(fit, &panel, 0, fit->skip.kept ? &fit->skip.bounds : NULL, &own, &stats);
    const struct hf_update_args update = {.x = panel,
                                          .metric = fit->opts.metric,
                                          .weights = fit->weights,
                                          .old_labels = fit->labels,
                                          .labels = fit->labels,
                                          .sums = &fit->sums};
    const uint64_t a = workspace_of(fit, HF_OP_ASSIGN, &assign);
    const uint64_t u = workspace_of(fit, HF_OP_UPDATE, &update);
    if (a == UINT64_MAX || u == UINT64_MAX)
        return HF_OK;
    const uint64_t staged = (uint64_t)fit->panel_rows * 32; /* weights, bounds, labels */
    return hf_reader_keep(fit->rows.reader, (a > u ? a : u) + staged + SMALL_BYTES);
}

/* What the device left to the host: `it` has labels, sums and inertia, or is wrong. */
static hf_status take_over(struct many *m, int event, hf_kmeans_iteration *it) {
    if (event == HF_LLOYD_COUNTS)
        HF_TRY(check_counts(m->fit, m->run->iteration + 1));
    HF_TRY(hf_labels_bring(m->fit, false));
    HF_TRY(conclude(m->fit, m->run, it, false));
    HF_TRY(keep(m->fit, m->run, m->begin, it));
    report(m->fit, m->run);
    return HF_OK;
}

/* While the device iterates the host gets the memory ready that the labels will come to: the system
 * takes as long to give it as the copy does. */
static hf_status run_many(struct hf_fit *fit, const struct hf_lloyd_args *args) {
    const struct hf_kernel *kernel = NULL;
    if (args->progress || args->labels == fit->labels || !hf_ctx_begin_calls(fit->ctx))
        return hf_lloyd_run(fit->ctx, args);
    hf_status status = hf_queue(fit->ctx, HF_OP_LLOYD, args, &kernel);
    if (status == HF_OK)
        status = hf_labels_ask(fit);
    hf_labels_touch(fit);
    return hf_ctx_end_calls(fit->ctx, status);
}

/* Up to MANY iterations. *many becomes false, and nothing is done, if the device has too little
 * memory. */
static hf_status iterate_many(struct hf_fit *fit, struct hf_restart *run, bool *many) {
    hf_kmeans_iteration history[MANY] = {0};
    struct hf_lloyd_state state;
    struct many m = {.fit = fit, .run = run, .begin = hf_now_s()};
    struct hf_lloyd_args args = many_args(fit, run, &state, history);
    const double begin = m.begin;
    HF_TRY(hf_labels_for_ops(fit, &args.labels));
    const bool tells = fit->opts.progress != NULL;
    args.progress = tells ? many_progress : NULL;
    args.progress_user = &m;
    const int before = run->iteration;
    hf_skip_reset(&fit->skip);
    const hf_status status = run_many(fit, &args);
    *many = status != HF_E_NOMEM || run->iteration > before; /* nothing told can be taken back */
    if (status != HF_OK)
        return *many ? status : HF_OK;
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
        HF_TRY(keep(fit, run, hf_now_s() - each, &history[i]));
    if (state.stop >= HF_LLOYD_EMPTY)
        return take_over(&m, state.stop, &history[state.iterations]);
    if (state.stop != HF_STOP_CANCELLED)
        run->stop = (hf_stop)state.stop;
    return HF_OK;
}

static hf_status iterate_once(struct hf_fit *fit, struct hf_restart *run,
                              struct hf_mirror *mirror) {
    HF_TRY(keep_panels(fit, mirror));
    HF_TRY(iterate(fit, run, mirror));
    report(fit, run);
    return HF_OK;
}

static hf_status loop(struct hf_fit *fit, struct hf_restart *run, const struct hf_restart *best,
                      struct hf_mirror *mirror) {
    const hf_kmeans_opts *o = &fit->opts;
    if (!fit->rows.reader) /* else panels may need the memory */
        hf_labels_open(fit);
    if (run->iteration == 0) {
        HF_TRY(clear_state(fit));
        fit->relocated_count = 0;
    }
    bool many = run->iteration < o->max_iter && has_many(fit, run);
    while (run->stop == HF_STOP_NONE) {
        if (run->iteration >= o->max_iter) {
            run->stop = HF_STOP_MAX_ITER;
            break;
        }
        if (many)
            HF_TRY(iterate_many(fit, run, &many));
        else
            HF_TRY(iterate_once(fit, run, mirror));
        if (run->stop == HF_STOP_NONE && run->cancelled)
            run->stop = HF_STOP_CANCELLED;
        else if (run->stop == HF_STOP_NONE && run->iteration > 0 &&
                 run->iteration % o->checkpoint_every == 0)
            hf_checkpoint_write(fit, run, best);
    }
    if (run->stop == HF_STOP_CANCELLED || run->stop == HF_STOP_MAX_ITER)
        hf_checkpoint_write(fit, run, best);
    return HF_OK;
}

hf_status hf_lloyd(struct hf_fit *fit, struct hf_restart *run, const struct hf_restart *best) {
    struct hf_mirror mirror = {0};
    struct hf_reader *reader = fit->rows.reader;
    hf_status status = loop(fit, run, best, &mirror);
    if (status == HF_OK && mirror.block)
        status = bring_labels(fit);
    hf_mirror_clear(fit, &mirror);
    if (reader) {
        hf_labels_close(fit);
        if (status == HF_OK && fit->opts.n_init > 1) /* the next start needs the memory */
            status = hf_reader_keep(reader, UINT64_MAX);
    }
    return status;
}
