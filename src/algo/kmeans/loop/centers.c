/* SPDX-License-Identifier: Apache-2.0
 * The centroids of a fit: op means with what the fit knows. */
#include "algo/kmeans/loop/centers.h"
#include "algo/kmeans/guard/others.h"
#include "algo/kmeans/loop/clusters.h"
#include "core/plan.h"
#include "guard/guard.h"
#include <string.h>

/* Of the sums as they are, the centroids that the labels were found for, and those to come. */
static struct hf_means_args means_args(const struct hf_fit *fit) {
    return (struct hf_means_args){.rule = hf_fit_rule(&fit->problem, &fit->columns),
                                  .sums = &fit->centers.sums,
                                  .total_square = fit->frame.total_square,
                                  .now = fit->centers.current};
}

/* A call of op means, which gives the same bits each time. */
struct twice {
    struct hf_fit *fit;
    const struct hf_means_args *args;
};

static hf_status run_kernel(void *user, int turn) {
    const struct twice *t = user;
    const struct hf_work *work = &t->fit->work;
    const int resting = turn % 2 ? hf_others_begin(&t->fit->problem, 1) : 0;
    const hf_status status = hf_run_kernel(t->fit->problem.ctx, HF_OP_MEANS,
                                           turn % 2 ? work->twin : work->means, t->args);
    hf_others_end(&t->fit->problem, resting);
    return status;
}

static uint64_t sign_outputs(const void *user) {
    const struct twice *t = user;
    const struct hf_means_args *a = t->args;
    const size_t k = (size_t)t->fit->problem.k;
    const size_t values = k * (size_t)t->fit->problem.d;
    uint64_t sign = 0;
    if (a->next && !a->given)
        sign += hf_guard_sign(a->next, values * hf_dtype_bytes(t->fit->problem.center_type));
    sign = 3 * sign + (a->moved ? hf_guard_sign(a->moved, k * sizeof(double)) : 0);
    sign = 3 * sign + (a->shift ? hf_guard_sign(a->shift, sizeof(double)) : 0);
    return 3 * sign + (a->inertia ? hf_guard_sign(a->inertia, sizeof(double)) : 0);
}

/* All calls of a fit have one shape. They are planned once: small fits have little else to do. */
static hf_status run_means(struct hf_fit *fit, const struct hf_means_args *args) {
    hf_context *ctx = fit->problem.ctx;
    if (!fit->work.means) {
        HF_TRY(hf_plan(ctx, HF_OP_MEANS, args, &fit->work.means, NULL));
        fit->work.twin = hf_guard_twin(ctx, HF_OP_MEANS, fit->work.means, args);
    }
    struct twice twice = {fit, args};
    const struct hf_repeated work = {.fault = HF_FAULT_MEANS,
                                     .run = run_kernel,
                                     .sign = sign_outputs,
                                     .what = "the centroids, their moves or the inertia",
                                     .host_only = !fit->ledger.block};
    return hf_guard_repeat(ctx, &work, &twice);
}

void hf_center_put(const struct hf_fit_problem *problem, const struct hf_columns *columns,
                   void *dst, int64_t i, double v) {
    const struct hf_center_rule rule = hf_fit_rule(problem, columns);
    hf_center_store(&rule, dst, i, v);
}

void hf_centers_store(const struct hf_fit_problem *problem, const struct hf_columns *columns,
                      void *dst, const double *src, int64_t count) {
    const struct hf_center_rule rule = hf_fit_rule(problem, columns);
    const bool plain = rule.type == HF_F32 && rule.store == HF_F32;
    double piece[64]; /* copied out first: dst may lie over src */
    for (int64_t at = 0; at < count; at += 64) {
        const int64_t some = hf_min64(64, count - at);
        memcpy(piece, src + at, (size_t)some * sizeof(double));
        for (int64_t i = 0; plain && i < some; i++)
            ((float *)dst)[at + i] = (float)piece[i];
        for (int64_t i = 0; !plain && i < some; i++)
            hf_center_store(&rule, dst, at + i, piece[i]);
    }
}

void hf_centers_swap(struct hf_centers *centers) {
    void *next = centers->previous;
    centers->previous = centers->current;
    centers->current = next;
}

hf_status hf_centers_update(struct hf_fit *fit) {
    struct hf_means_args args = means_args(fit);
    args.next = fit->centers.previous;
    HF_TRY(run_means(fit, &args));
    hf_centers_swap(&fit->centers);
    fit->skip.square_known = false;
    return HF_OK;
}

hf_status hf_centers_moves(struct hf_fit *fit, double *square, double *shift) {
    struct hf_means_args args = means_args(fit);
    args.now = fit->centers.previous;
    args.next = fit->centers.current;
    args.given = true;
    args.moved = square;
    args.shift = shift;
    const size_t bytes = hf_center_bytes(&fit->problem);
    const bool signs = fit->ledger.block && hf_guard_checks(fit->problem.ctx, HF_FAULT_STATE);
    const uint64_t before = signs ? hf_guard_sign(args.next, bytes) : 0;
    HF_TRY(run_means(fit, &args));
    if (!signs || hf_guard_sign(args.next, bytes) == before)
        return HF_OK;
    hf_guard_found(fit->problem.ctx, HF_FAULT_STATE, -1, -1);
    return hf_ctx_fail(fit->problem.ctx, HF_E_CORRUPT,
                       "the new centroids changed in memory before they were used: the machine or "
                       "a program writes where it must not");
}

hf_status hf_centers_inertia(struct hf_fit *fit, double *inertia) {
    struct hf_means_args args = means_args(fit);
    args.inertia = inertia;
    return run_means(fit, &args);
}

hf_status hf_centers_step(struct hf_fit *fit, double *shift, double *inertia) {
    struct hf_means_args args = means_args(fit);
    args.next = fit->centers.previous;
    args.moved = fit->skip.square;
    args.shift = shift;
    args.inertia = inertia;
    fit->skip.square_known = true;
    return run_means(fit, &args);
}
