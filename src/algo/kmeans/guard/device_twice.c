/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/guard/device_twice.h"
#include "algo/kmeans/guard/device_book.h"
#include "algo/kmeans/guard/device_copies.h"
#include "algo/kmeans/guard/device_scan.h"
#include "algo/kmeans/guard/device_screen.h"
#include "algo/kmeans/guard/ledger.h"
#include "core/plan.h"
#include "guard/guard.h"

#define MOST_ROWS 262144 /* more are better off with a book */
#define PAIRS 2          /* so often two copies may disagree, */
#define TRIPLES 2        /* and so often three, of which two agreeing ones are believed */
#define SHARE 4          /* of the device's free memory the copies take at most one in so many */

/* ---- before the fit */

static void count_step(void *user, int op, const void *args) {
    (void)op, (void)args;
    ++*(int *)user;
}

/* One launch, by its kernel. */
static bool is_one_launch(hf_context *ctx, const struct hf_lloyd_args *args) {
    const struct hf_call call = {.device = &ctx->props, .comm = &ctx->comm, .args = args};
    const struct hf_kernel *kernel = NULL;
    int steps = 0;
    if (hf_plan(ctx, HF_OP_LLOYD, args, &kernel, NULL) != HF_OK)
        return false;
    if (kernel->steps)
        kernel->steps(&call, count_step, &steps);
    return steps == 0 && !(kernel->traits & HF_TRAIT_REFERENCE);
}

/* Both copies of the rows. */
static bool take_rows(struct hf_fit *fit, const struct hf_lloyd_args *args) {
    struct hf_ledger *l = &fit->ledger;
    hf_context *ctx = fit->problem.ctx;
    const size_t bytes = hf_copies_device_bytes(args, 2);
    if (l->twin)
        return true;
    l->twin = bytes <= hf_ctx_room(ctx) / SHARE ? hf_ctx_alloc(ctx, bytes) : NULL;
    l->twin_known = false;
    if (l->twin && hf_copies_take_rows(ctx, args, 2, l->twin) == HF_OK)
        return true;
    hf_ctx_release(ctx, l->twin);
    l->twin = NULL;
    return false;
}

bool hf_device_twice_serves(struct hf_fit *fit, const struct hf_lloyd_args *args) {
    struct hf_copies c;
    if (fit->problem.n > MOST_ROWS || args->progress ||
        !hf_guard_checks(fit->problem.ctx, HF_FAULT_MEANS))
        return false;
    hf_copies_describe(&c, fit, args, 2);
    return is_one_launch(fit->problem.ctx, &c.args) && take_rows(fit, args);
}

/* ---- a call */

/* Is the first copy of the rows as these were first read? If the other one is not, the two do not
 * agree. Wrong copies are given up. */
static hf_status check_rows(struct hf_fit *fit, const struct hf_copies *c) {
    struct hf_ledger *l = &fit->ledger;
    hf_context *ctx = fit->problem.ctx;
    hf_guard_checked(ctx, HF_FAULT_STATE, c->asked->x.rows);
    if (*c->rows == l->rows) {
        l->twin_known = true;
        return HF_OK;
    }
    hf_device_twice_forget(fit);
    hf_guard_found(ctx, HF_FAULT_STATE, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "rows changed while they were first read: the machine or a program writes "
                       "where it must not; load the data again");
}

static hf_status disagree(struct hf_fit *fit) {
    hf_guard_found(fit->problem.ctx, HF_FAULT_MEANS, -1, -1);
    return hf_ctx_fail(fit->problem.ctx, HF_E_CORRUPT,
                       "the iterations of the device came out differently on parts of its "
                       "multiprocessors: the machine computes wrongly; run it again, and if that "
                       "fails too, on another machine");
}

/* What copy i came to is believed, unless it is the host that ends its last iteration: there is to
 * be a book from that one on then, and nothing comes of this. */
static hf_status take(struct hf_fit *fit, const struct hf_copies *c, int i) {
    struct hf_ledger *l = &fit->ledger;
    l->twice = c->args.state[i].stop < HF_LLOYD_EMPTY;
    l->agreed = c->args.state[i].iterations;
    if (!l->twice)
        return hf_copies_take_back(c);
    HF_TRY(hf_copies_give(c, i));
    l->twin_labels = c->device ? NULL : c->args.labels + c->asked->x.rows;
    l->labels_sign = c->sign[i];
    l->labels_signed = true;
    if (c->asked->state->iterations > 0)
        fit->refill.relocated_count = 0;
    hf_ledger_keep_state(fit);
    return HF_OK;
}

/* Up to `turns` runs of some copies until two of them agree: their number, -1: they never did.
 * *odd: another one did not. */
static hf_status run_copies(struct hf_copies *c, int turns, int *agreed, bool *odd) {
    hf_context *ctx = c->fit->problem.ctx;
    *agreed = -1;
    *odd = false;
    for (int turn = 0; *agreed < 0 && turn < turns; turn++) {
        HF_TRY(hf_copies_run(c));
        if (c->rows && !c->fit->ledger.twin_known)
            HF_TRY(check_rows(c->fit, c));
        hf_guard_checked(ctx, HF_FAULT_MEANS, c->args.state->iterations);
        hf_guard_checked(ctx, HF_FAULT_CHANGES, c->args.state->iterations);
        for (int i = 0; *agreed < 0 && i < c->count; i++)
            if (hf_copies_agree(c, i, (i + 1) % c->count))
                *agreed = i;
        *odd |= *agreed < 0 || !hf_copies_agree(c, *agreed, (*agreed + c->count - 1) % c->count);
        if (*agreed >= 0)
            return HF_OK;
        const hf_status status = disagree(c->fit);
        if (!hf_guard_retries(ctx, status) || !hf_ledger_restore_state(c->fit))
            return HF_E_CORRUPT;
    }
    return HF_OK;
}

/* Two halves of the multiprocessors went on to disagree: two of three parts that agree are right,
 * and the work is given to each of them alone to see which it is. */
static hf_status run_three(struct hf_fit *fit, const struct hf_lloyd_args *args) {
    hf_context *ctx = fit->problem.ctx;
    struct hf_copies c;
    int agreed;
    bool odd;
    hf_copies_describe(&c, fit, args, 3);
    if (!is_one_launch(ctx, &c.args))
        return HF_E_CORRUPT;
    HF_TRY(hf_copies_open(&c, fit, args, 3, NULL));
    hf_status status = run_copies(&c, TRIPLES, &agreed, &odd);
    if (status == HF_OK && agreed < 0)
        status = HF_E_CORRUPT;
    if (status == HF_OK) {
        int32_t unit = -1;
        int lane = -1;
        if (odd)
            status = hf_screen_units(fit, args, &unit, &lane);
        ctx->guard.found.unit = unit;
        ctx->guard.lane = lane;
        hf_guard_repaired(ctx, unit >= 0 ? HF_FAULT_PERMANENT : HF_FAULT_INTERMITTENT, 0);
    }
    if (status == HF_OK)
        status = take(fit, &c, agreed);
    if (status == HF_OK && fit->ledger.twin) /* one of its copies may be why */
        status = hf_copies_take_rows(ctx, args, 2, fit->ledger.twin);
    hf_copies_close(&c);
    return status;
}

void hf_device_twice_forget(struct hf_fit *fit) {
    hf_ctx_release(fit->problem.ctx, fit->ledger.twin);
    fit->ledger.twin = NULL;
    fit->ledger.twin_known = false;
    fit->ledger.twin_labels = NULL;
}

hf_status hf_device_twice_end(struct hf_fit *fit, const struct hf_restart *run) {
    const struct hf_ledger *l = &fit->ledger;
    if (!l->block || l->labels || l->twice)
        return HF_OK;
    hf_device_twice_forget(fit);
    HF_TRY(hf_ledger_clear(fit));
    if (!l->labels || run->iteration == 0)
        return HF_OK;
    HF_TRY(hf_device_ledger_hash(fit));
    HF_TRY(hf_ledger_book(fit, HF_LEDGER_ANY));
    return hf_ledger_compare(fit);
}

static hf_status run_twice(struct hf_fit *fit, const struct hf_lloyd_args *args) {
    struct hf_copies c;
    int agreed;
    bool odd;
    uint64_t rows;
    HF_TRY(hf_copies_open(&c, fit, args, 2, fit->ledger.twin));
    c.rows = fit->ledger.rows_signed && !fit->ledger.twin_known ? &rows : NULL;
    hf_status status = run_copies(&c, PAIRS, &agreed, &odd);
    if (status == HF_OK && agreed >= 0) {
        if (fit->problem.ctx->guard.found.fault == HF_FAULT_MEANS)
            hf_guard_repaired(fit->problem.ctx, HF_FAULT_TRANSIENT, 0);
        status = take(fit, &c, agreed);
    }
    hf_copies_close(&c);
    return status == HF_OK && agreed < 0 ? run_three(fit, args) : status;
}

hf_status hf_device_twice(struct hf_fit *fit, const struct hf_lloyd_args *args) {
    struct hf_lloyd_args before = *args;
    struct hf_copies c;
    HF_TRY(run_twice(fit, args));
    before.count = fit->ledger.agreed;
    before.settle = false;
    if (fit->ledger.twice || before.count == 0)
        return HF_OK;
    hf_copies_describe(&c, fit, &before, 2);
    if (!is_one_launch(fit->problem.ctx, &c.args))
        return HF_OK;
    const hf_status status = run_twice(fit, &before);
    fit->ledger.twice = false;
    return status;
}
