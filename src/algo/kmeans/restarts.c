/* SPDX-License-Identifier: Apache-2.0
 * From the first restart to the last, keeping the centroids of the least inertia. */
#include "algo/kmeans/restarts.h"
#include "algo/kmeans/checkpoint.h"
#include "algo/kmeans/init/first_centroids.h"
#include "algo/kmeans/loop/centers.h"
#include "algo/kmeans/loop/device_loop.h"
#include "algo/kmeans/loop/finish.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/guard/device_ledger.h"
#include "algo/kmeans/guard/device_twice.h"
#include "algo/kmeans/guard/ledger.h"
#include "algo/kmeans/mend/past.h"
#include "algo/kmeans/loop/lloyd_loop.h"
#include "algo/kmeans/guard/protect.h"
#include "algo/kmeans/loop/skip.h"
#include "algo/kmeans/loop/clusters.h"
#include "base/clock.h"
#include "base/mem.h"
#include "core/run.h"
#include "guard/guard.h"
#include "ops/reference.h"
#include <math.h>
#include <string.h>

#define ATTEMPTS 3 /* of a restart that failed */

#define START_SECONDS 0.2 /* least time between two checkpoints of a start, */
#define START_SHARE 20    /* and least multiple of the time that one took */

/* Ties go to the earlier restart. */
static bool keep_if_better(const struct hf_fit_problem *problem, const struct hf_centers *centers,
                           struct hf_restart *run, struct hf_restart *best) {
    if (best->number >= 0 && !(run->inertia < best->inertia))
        return false;
    const struct hf_history spare = best->history;
    memcpy(centers->best, centers->current, hf_center_bytes(problem));
    *best = *run;
    run->history = spare;
    return true;
}

/* A long start is saved now and then. */
struct start {
    struct hf_fit *fit;
    const struct hf_restart *run, *best;
    double saved, cost; /* when, and how many seconds it took */
};

static void save_start(void *user) {
    struct start *s = user;
    const double now = hf_now_s();
    if (now - s->saved < fmax(START_SECONDS, START_SHARE * s->cost))
        return;
    hf_checkpoint_write(s->fit, s->run, s->best);
    s->saved = hf_now_s();
    s->cost = s->saved - now;
}

/* One that is cancelled, or fails, leaves what it has: it is made twice, and only the first turn is
 * saved now and then. Where it came out wrong, that may be wrong as well, and is forgotten. */
static hf_status start_from(struct hf_fit *fit, struct hf_restart *run,
                            const struct hf_restart *best) {
    struct start start = {.fit = fit, .run = run, .best = best, .saved = hf_now_s()};
    fit->saves.log.save = save_start;
    fit->saves.log.user = &start;
    const hf_status status = hf_device_ledger_blame(fit, hf_fit_start(fit, run->number));
    run->cancelled = status == HF_E_CANCELLED;
    if (status == HF_E_CORRUPT)
        fit->saves.log.count = fit->saves.log.at = 0;
    if (status != HF_OK && (fit->saves.log.count > 0 || (run->cancelled && best->number >= 0)))
        hf_checkpoint_write(fit, run, best);
    fit->saves.log.save = NULL;
    return status;
}

/* hf_finish() of a restart, made again where a check of it fails. */
struct finishing {
    struct hf_fit *fit;
    enum hf_finish_labels labels, again; /* at first; and when it is made again */
    bool verify;
    double *inertia;
};

static hf_status run_finish(void *user) {
    struct finishing *f = user;
    const enum hf_finish_labels labels = f->labels;
    f->labels = f->again;
    return hf_finish(f->fit, labels, f->verify, f->inertia);
}

/* Did bounds decide rows in the last iteration? */
static bool skipped_last(const struct hf_restart *run) {
    const struct hf_history *h = &run->history;
    return h->count > 0 && h->it[h->count - 1].rows_skipped + h->it[h->count - 1].rows_partial > 0;
}

static hf_status finish(struct hf_fit *fit, struct hf_restart *run, bool verify, double *inertia) {
    const bool fresh = run->stop == HF_STOP_LABELS || run->settled;
    const bool twice = fit->ledger.twice && fresh; /* the labels came out twice */
    const bool confirm =
        fit->ledger.block && fresh && !twice &&
        ((skipped_last(run) && hf_guard_checks(fit->problem.ctx, HF_FAULT_FINISH)) ||
         hf_finish_confirms(fit));
    struct finishing f = {.fit = fit, .verify = verify, .inertia = inertia};
    f.labels = confirm ? HF_LABELS_CONFIRM : fresh ? HF_LABELS_FRESH : HF_LABELS_OLD;
    f.again = twice ? HF_LABELS_CONFIRM : f.labels;
    const struct hf_protected work = {.run = run_finish,
                                      .user = &f,
                                      .stop = run->stop,
                                      .clear = hf_lloyd_clear,
                                      .rebuild = twice ? hf_lloyd_settle : hf_lloyd_rebuild};
    return hf_protect(fit, run, &work);
}

static hf_status run_one(struct hf_fit *fit, struct hf_restart *run,
                         const struct hf_restart *best) {
    const double begin = hf_now_s();
    run->settled = false;
    if (run->iteration == 0)
        HF_TRY(start_from(fit, run, best));
    else
        HF_TRY(hf_lloyd_rebuild(fit));
    const double started = hf_now_s();
    fit->outcome.seconds_init += started - begin;
    HF_TRY(hf_lloyd(fit, run, best));
    const double stopped = hf_now_s();
    fit->outcome.seconds_iterate += stopped - started;
    HF_TRY(finish(fit, run, true, &run->inertia));
    fit->outcome.seconds_finish += hf_now_s() - stopped;
    return HF_OK;
}

/* A check failed, and going back an iteration did not help: what is behind it may be older, such as
 * bounds that were wrong all along, or rows that changed on a device. Once more from the first
 * centroids, without skipping rows. Not where rows on a device are no more those that were first
 * read, and nothing shows which of them ranges and moments are of: then the whole fit is made
 * again. */
static hf_status run_safely(struct hf_fit *fit, struct hf_restart *run,
                            const struct hf_restart *best) {
    hf_context *ctx = fit->problem.ctx;
    hf_kmeans_opts *o = &fit->problem.opts;
    const hf_skipping skipping = o->skipping;
    hf_status status = run_one(fit, run, best);
    for (int turn = 0; status == HF_E_CORRUPT && hf_protects(fit) && turn < ATTEMPTS; turn++) {
        const int iterations = run->iteration;
        const struct hf_finding found = ctx->guard.found;
        const hf_error why = ctx->error;
        HF_TRY(hf_ctx_check(ctx, hf_guard_forget(ctx)));
        fit->doubted = hf_ledger_doubts_rows(fit) && fit->data.resident.origin;
        if (fit->doubted)
            return status;
        HF_TRY(hf_resident_refresh(ctx, &fit->data.resident));
        hf_device_twice_forget(fit);
        hf_past_drop(fit);
        run->iteration = run->history.count = 0;
        run->stop = HF_STOP_NONE;
        run->cancelled = false;
        o->skipping = HF_SKIP_OFF;
        fit->work.thorough = true;
        status = run_one(fit, run, best);
        o->skipping = skipping;
        if (status != HF_OK)
            continue;
        ctx->guard.found = found;
        ctx->error = why;
        hf_guard_repaired(ctx, HF_FAULT_KIND_UNKNOWN, iterations);
    }
    return status;
}

/* All restarts that are left; *fresh: the labels are those of the best centroids. */
static hf_status run_all(struct hf_fit *fit, struct hf_restart *run, struct hf_restart *best,
                         bool *fresh) {
    while (run->number < fit->problem.opts.n_init) {
        const hf_status status = run_safely(fit, run, best);
        if (status == HF_E_CANCELLED && best->number >= 0) {
            best->stop = HF_STOP_CANCELLED; /* while seeding: what is finished stands, but for */
            *fresh = false;                 /* the labels, which the seeding wrote over */
            return HF_OK;
        }
        HF_TRY(status);
        const bool last = run->number + 1 == fit->problem.opts.n_init;
        const bool cancelled = run->cancelled;
        const hf_stop stop = run->stop;
        const int number = run->number;
        *fresh = keep_if_better(&fit->problem, &fit->centers, run, best);
        if (*fresh)
            hf_ledger_keep_best(fit);
        run->number = number + 1;
        run->iteration = run->history.count = 0;
        run->stop = HF_STOP_NONE;
        if (stop == HF_STOP_LABELS || stop == HF_STOP_TOL || (stop == HF_STOP_MAX_ITER && !last))
            hf_checkpoint_write(fit, run, best);
        if (!cancelled)
            continue;
        if (!last || stop == HF_STOP_CANCELLED)
            best->stop = HF_STOP_CANCELLED;
        return HF_OK;
    }
    return HF_OK;
}

/* Labels and inertia of the best centroids once more, when the last restart was not the best. */
static hf_status revisit_best(struct hf_fit *fit, struct hf_restart *best) {
    const struct hf_fit_problem *problem = &fit->problem;
    const double begin = hf_now_s();
    memcpy(fit->centers.current, fit->centers.best, hf_center_bytes(problem));
    struct hf_restart run = {0};
    HF_TRY(hf_lloyd_clear(fit));
    hf_ledger_keep_state(fit);
    HF_TRY(finish(fit, &run, false, &best->inertia));
    fit->outcome.seconds_finish += hf_now_s() - begin;
    return HF_OK;
}

/* Labels and centroids, just before they are handed over. */
static hf_status check_result(struct hf_fit *fit, struct hf_restart *best) {
    hf_context *ctx = fit->problem.ctx;
    HF_TRY(hf_ledger_check_best(fit));
    const hf_status status = hf_ledger_check_labels(fit);
    if (!hf_guard_retries(ctx, status))
        return status;
    HF_TRY(revisit_best(fit, best));
    HF_TRY(hf_ledger_check_labels(fit));
    hf_guard_repaired(ctx, HF_FAULT_TRANSIENT, 0);
    return HF_OK;
}

hf_status hf_restarts(struct hf_fit *fit, struct hf_restart *best) {
    struct hf_restart run = {0};
    bool fresh = false;
    best->number = -1;
    hf_status status = hf_checkpoint_mark(fit);
    if (status == HF_OK && fit->problem.opts.resume)
        status = hf_checkpoint_resume(fit, &run, best);
    if (status == HF_OK)
        status = run_all(fit, &run, best, &fresh);
    if (status == HF_OK && !fresh)
        status = revisit_best(fit, best);
    if (status == HF_OK)
        status = hf_labels_fetch(&fit->problem, &fit->labels);
    if (status == HF_OK)
        status = check_result(fit, best);
    if (status == HF_E_CORRUPT && !fit->doubted && fit->problem.ctx->guard.scheme != HF_SCHEME_OFF)
        hf_guard_lost(fit->problem.ctx, hf_device_loop_accuse(fit, &run) ? HF_FAULT_PERMANENT
                                                                         : HF_FAULT_KIND_UNKNOWN);
    hf_free(run.history.it);
    return status;
}
