/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/guard/protect.h"
#include "algo/kmeans/guard/ledger.h"
#include "algo/kmeans/mend/past.h"
#include "algo/kmeans/loop/device_loop.h"
#include "algo/kmeans/loop/skip.h"
#include "core/run.h"
#include "guard/guard.h"
#include <stdio.h>

#define ATTEMPTS 3      /* with all workers: more are not worth it where a worker is the cause */
#define MENDS 4         /* of one iteration */
#define MENDED_WITHIN 8 /* iterations: a fault of the same kind again may be a worker's */

bool hf_protects(const struct hf_fit *fit) {
    return fit->ledger.block && hf_guard_retries(fit->problem.ctx, HF_E_CORRUPT);
}

/* Labels, sums and centroids as they were after the last iteration, from its centroids alone:
 * whatever else is in memory may be wrong. */
static hf_status roll_back(struct hf_fit *fit, struct hf_restart *run,
                           const struct hf_protected *work) {
    HF_TRY(hf_ctx_check(fit->problem.ctx, hf_guard_forget(fit->problem.ctx)));
    fit->ledger.hashed = false;
    run->stop = work->stop;
    if (!hf_ledger_restore_state(fit))
        return HF_E_CORRUPT;
    hf_skip_reset(&fit->skip);
    HF_TRY(hf_past_check(fit)); /* a label may have come from a wrong one, and */
    hf_past_drop(fit);          /* all may have been packed by scales that were wrong */
    if (run->iteration > 0)
        return work->rebuild(fit);
    fit->refill.relocated_count = 0;
    return work->clear(fit);
}

/* Is what was found older than the work that failed? Bounds had kept a wrong label, rows that stay
 * packed changed, or a row should have moved before. */
static bool is_older(const hf_context *ctx, const struct hf_finding *f) {
    return f->fault == HF_FAULT_FINISH ||
           (hf_ctx_is_host(ctx) && f->unit < 0 &&
            (f->fault == HF_FAULT_OPERAND || f->fault == HF_FAULT_MOVES));
}

/* What is found from here on is of this attempt; what was found before is told if it succeeds. */
static hf_status attempt(struct hf_fit *fit, const struct hf_protected *work) {
    hf_context *ctx = fit->problem.ctx;
    const struct hf_finding found = ctx->guard.found;
    const char *by = ctx->guard.found_by;
    const int lane = ctx->guard.lane;
    hf_guard_nothing(ctx);
    const hf_status status = work->run(work->user);
    if (status == HF_OK) {
        ctx->guard.found = found;
        ctx->guard.found_by = by;
        ctx->guard.lane = lane;
    }
    return status;
}

static hf_status again(struct hf_fit *fit, struct hf_restart *run,
                       const struct hf_protected *work) {
    hf_status status = roll_back(fit, run, work);
    fit->work.again = true;
    if (status == HF_OK)
        status = attempt(fit, work);
    fit->work.again = false;
    /* rows that a fault made NaN are no bad data */
    return status == HF_E_DATA && fit->problem.opts.empty != HF_EMPTY_ERROR ? HF_E_CORRUPT : status;
}

static void exclude(const struct hf_fit *fit, int begin, int end, bool excluded) {
    for (int w = begin; w < end; w++)
        (void)hf_pool_exclude(hf_ctx_pool(fit->problem.ctx), w, excluded);
}

/* Which worker computes wrongly: the work is right without it. Halves are left out in turn. The
 * worker stays excluded; *worker: its number. */
static hf_status search_worker(struct hf_fit *fit, struct hf_restart *run,
                               const struct hf_protected *work, int *worker) {
    int begin = 0;
    int end = hf_pool_workers(hf_ctx_pool(fit->problem.ctx));
    hf_status status = HF_E_CORRUPT;
    while (end - begin > 1) {
        const int middle = begin + (end - begin) / 2;
        exclude(fit, begin, middle, true);
        status = again(fit, run, work);
        exclude(fit, begin, middle, false);
        if (status != HF_OK && status != HF_E_CORRUPT)
            return status;
        begin = status == HF_OK ? begin : middle;
        end = status == HF_OK ? middle : end;
        if (end - begin > 1)
            continue;
        *worker = begin;
        exclude(fit, begin, end, true);
        if (status != HF_OK)
            status = again(fit, run, work);
    }
    if (status != HF_OK && end - begin == 1)
        exclude(fit, begin, end, false);
    return status;
}

/* Is the work right without the worker that a check blames? Then it stays excluded. */
static hf_status leave_out(struct hf_fit *fit, struct hf_restart *run,
                           const struct hf_protected *work, int blamed) {
    if (!hf_pool_exclude(hf_ctx_pool(fit->problem.ctx), blamed, true))
        return HF_E_CORRUPT;
    const hf_status status = again(fit, run, work);
    if (status != HF_OK)
        exclude(fit, blamed, blamed + 1, false);
    return status;
}

/* A row should have moved before: once more, if it was its label alone that had changed in memory.
 * If the second book had the wrong label, too, centroids came from it. */
static hf_status again_by_book(struct hf_fit *fit, struct hf_restart *run,
                               const struct hf_protected *work, int *failed) {
    const struct hf_ledger *l = &fit->ledger;
    const size_t bytes = (size_t)fit->problem.n * sizeof *l->labels;
    if (fit->problem.ctx->guard.found.fault != HF_FAULT_MOVES || !l->labels || run->iteration == 0)
        return HF_E_CORRUPT;
    hf_pool *pool = hf_ctx_pool(fit->problem.ctx);
    const uint64_t booked = hf_guard_sign_by(pool, l->labels, bytes);
    HF_TRY(roll_back(fit, run, work));
    if (hf_guard_sign_by(pool, l->labels, bytes) != booked)
        return HF_E_CORRUPT;
    ++*failed;
    return attempt(fit, work);
}

/* Again and again. If the same worker is to blame twice, once without it, and *worker is it. */
static hf_status repeat(struct hf_fit *fit, struct hf_restart *run, const struct hf_protected *work,
                        int *failed, int *worker) {
    const struct hf_guard_state *guard = &fit->problem.ctx->guard;
    hf_status status = HF_E_CORRUPT;
    while (status == HF_E_CORRUPT && *failed < ATTEMPTS) {
        const int blamed = guard->found.unit;
        ++*failed;
        status = again(fit, run, work);
        if (status != HF_E_CORRUPT || blamed < 0 || guard->found.unit != blamed)
            continue;
        const int lane = guard->lane;
        ++*failed;
        status = leave_out(fit, run, work, blamed);
        if (status == HF_OK) {
            *worker = blamed;
            fit->problem.ctx->guard.lane = lane;
        }
    }
    return status;
}

/* Is the work right with other kernels? They stay for what is left of the call. */
static hf_status try_elsewhere(struct hf_fit *fit, struct hf_restart *run,
                               const struct hf_protected *work) {
    struct hf_guard_state *guard = &fit->problem.ctx->guard;
    guard->elsewhere = true;
    const hf_status status = again(fit, run, work);
    guard->elsewhere = status == HF_OK;
    return status;
}

/* Done, after `attempts` that failed. worker: the one that was left out, -1: none was. */
static void conclude(struct hf_fit *fit, const struct hf_restart *run, int attempts, int worker) {
    hf_context *ctx = fit->problem.ctx;
    hf_fault_kind kind = attempts > 1 ? HF_FAULT_INTERMITTENT : HF_FAULT_TRANSIENT;
    if (ctx->guard.elsewhere) {
        const hf_error why = ctx->error;
        kind = HF_FAULT_PERMANENT;
        (void)hf_ctx_fail(ctx, HF_OK, "%.800s; other kernels are used from here on", why.text);
    } else if (worker >= 0) {
        const hf_error why = ctx->error;
        kind = HF_FAULT_PERMANENT;
        ctx->guard.found.unit = worker;
        (void)hf_ctx_fail(ctx, HF_OK, "%.800s; worker %d is left out from here on", why.text,
                          worker);
    } else if (attempts > 1 && hf_device_loop_accuse(fit, run)) {
        kind = HF_FAULT_PERMANENT;
    }
    hf_guard_repaired(ctx, kind, attempts);
}

/* What is put right is told when all is. */
struct repairs {
    struct hf_finding found[MENDS];
    hf_error why[MENDS];
    int count;
};

static bool is_same(const struct hf_finding *f, const struct hf_finding *g) {
    return f->fault == g->fault && f->row == g->row && f->column == g->column;
}

/* A fault of the same kind as one that was put right shortly before: a worker may be behind both,
 * which shows when the iteration is made again. */
static bool is_worker(const struct hf_fit *fit, const struct hf_restart *run) {
    const struct hf_guard_state *guard = &fit->problem.ctx->guard;
    const struct hf_ledger *l = &fit->ledger;
    return guard->leaves_out && guard->found.fault == l->mended &&
           run->iteration - l->mended_in <= MENDED_WITHIN && run->iteration >= l->mended_in;
}

/* Put right what was found, as long as that is something else each time. */
static hf_status mend(struct hf_fit *fit, struct hf_restart *run, const struct hf_protected *work) {
    hf_context *ctx = fit->problem.ctx;
    struct repairs r = {.count = 0};
    hf_status status = HF_E_CORRUPT;
    while (status == HF_E_CORRUPT && r.count < MENDS && !is_worker(fit, run)) {
        if (r.count > 0 && is_same(&r.found[r.count - 1], &ctx->guard.found))
            return status;
        r.found[r.count] = ctx->guard.found;
        r.why[r.count++] = ctx->error;
        run->stop = work->stop;
        status = work->mend(work->user);
    }
    for (int i = 0; status == HF_OK && i < r.count; i++) {
        fit->ledger.mended = r.found[i].fault;
        fit->ledger.mended_in = run->iteration;
        ctx->guard.found = r.found[i];
        ctx->error = r.why[i];
        hf_guard_repaired(ctx, HF_FAULT_TRANSIENT, 0);
    }
    return status;
}

static hf_status protect(struct hf_fit *fit, struct hf_restart *run,
                         const struct hf_protected *work) {
    hf_context *ctx = fit->problem.ctx;
    int worker = -1;
    int failed = 0;
    hf_guard_nothing(ctx);
    hf_status status = work->run(work->user);
    if (!hf_protects(fit))
        return status;
    const struct hf_finding first = ctx->guard.found;
    if (status == HF_E_CORRUPT && work->mend)
        status = mend(fit, run, work);
    if (status == HF_E_CORRUPT && is_older(ctx, &first)) {
        ctx->guard.found = first;
        status = again_by_book(fit, run, work, &failed);
        if (status == HF_E_CORRUPT && (failed == 0 || is_older(ctx, &ctx->guard.found)))
            return status;
    }
    if (status == HF_E_CORRUPT)
        status = repeat(fit, run, work, &failed, &worker);
    if (status == HF_E_CORRUPT) {
        failed++;
        status = search_worker(fit, run, work, &worker);
    }
    if (status == HF_E_CORRUPT && !ctx->guard.elsewhere) {
        failed++;
        status = try_elsewhere(fit, run, work);
    }
    if (status == HF_OK && failed > 0)
        conclude(fit, run, failed, worker);
    return status;
}

hf_status hf_protect(struct hf_fit *fit, struct hf_restart *run, const struct hf_protected *work) {
    hf_context *ctx = fit->problem.ctx;
    ctx->guard.leaves_out = hf_protects(fit) && hf_pool_left(hf_ctx_pool(ctx)) > 1;
    const hf_status status = protect(fit, run, work);
    ctx->guard.leaves_out = false;
    return status;
}
