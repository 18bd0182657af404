/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/guard/device_twice.h"
#include "algo/kmeans/guard/device_ledger.h"
#include "algo/kmeans/guard/ledger.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "core/plan.h"
#include "guard/guard.h"
#include <string.h>

#define MOST_ROWS 262144 /* more are better off with a book */

static void count_step(void *user, int op, const void *args) {
    (void)op, (void)args;
    ++*(int *)user;
}

bool hf_device_twice_serves(const struct hf_fit *fit, const struct hf_lloyd_args *args) {
    hf_context *ctx = fit->problem.ctx;
    const struct hf_call call = {.device = &ctx->props, .comm = &ctx->comm, .args = args};
    const struct hf_kernel *kernel = NULL;
    int steps = 0;
    if (fit->problem.n > MOST_ROWS || args->progress || !hf_guard_checks(ctx, HF_FAULT_MEANS) ||
        hf_plan(ctx, HF_OP_LLOYD, args, &kernel, NULL) != HF_OK)
        return false;
    if (kernel->steps)
        kernel->steps(&call, count_step, &steps);
    return steps == 0 && !(kernel->traits & HF_TRAIT_REFERENCE);
}

/* The sums as they came in, and one turn after the other. */
struct twice {
    struct hf_fit *fit;
    const struct hf_lloyd_args *args;
    char *saved; /* sums, counts and weights, */
    struct hf_lloyd_state state;
    uint64_t sign; /* of what came out */
};

struct piece {
    void *at;
    size_t bytes;
};

static void list_sums(const struct hf_sums *s, struct piece piece[3]) {
    const size_t clusters = (size_t)(s->limbs * s->k) * sizeof(int64_t);
    piece[0] = (struct piece){s->sum, clusters * (size_t)s->d};
    piece[1] = (struct piece){s->count, (size_t)s->k * sizeof(int64_t)};
    piece[2] = (struct piece){s->weight, s->weight ? clusters : 0};
}

static size_t copy_sums(const struct hf_sums *s, char *saved, bool back) {
    struct piece piece[3];
    size_t used = 0;
    list_sums(s, piece);
    for (int i = 0; i < 3; used += piece[i++].bytes)
        if (saved && piece[i].bytes > 0)
            memcpy(back ? piece[i].at : saved + used, back ? saved + used : piece[i].at,
                   piece[i].bytes);
    return used;
}

static size_t center_bytes(const struct hf_fit *fit) {
    return (size_t)(fit->problem.k * fit->problem.d) * hf_dtype_bytes(fit->problem.center_type);
}

static size_t label_bytes(const struct hf_fit *fit) {
    return (size_t)fit->problem.n * sizeof(int32_t);
}

/* Everything as it came in. */
static hf_status begin_turn(const struct twice *t) {
    struct hf_fit *fit = t->fit;
    const struct hf_lloyd_args *a = t->args;
    if (!hf_ledger_restore_state(fit))
        return HF_E_CORRUPT;
    copy_sums(a->sums, t->saved, true);
    *a->state = t->state;
    memset(a->history, 0, (size_t)a->count * sizeof *a->history);
    return hf_ctx_copy(fit->problem.ctx, a->labels, fit->ledger.labels, label_bytes(fit));
}

static hf_status sign_outputs(struct twice *t) {
    struct hf_fit *fit = t->fit;
    const struct hf_lloyd_args *a = t->args;
    struct piece piece[3];
    HF_TRY(hf_device_ledger_sign(fit, a->labels, label_bytes(fit), &t->sign));
    list_sums(a->sums, piece);
    for (int i = 0; i < 3; i++)
        t->sign = 3 * t->sign + hf_guard_sign(piece[i].at, piece[i].bytes);
    t->sign = 3 * t->sign + hf_guard_sign(fit->centers.current, center_bytes(fit));
    t->sign = 3 * t->sign + hf_guard_sign(a->state, sizeof *a->state);
    t->sign = 3 * t->sign + hf_guard_sign(a->history, (size_t)a->count * sizeof *a->history);
    return HF_OK;
}

static hf_status run_turn(void *user, int turn) {
    struct twice *t = user;
    (void)turn;
    HF_TRY(begin_turn(t));
    HF_TRY(hf_lloyd_run(t->fit->problem.ctx, t->args));
    return sign_outputs(t);
}

static uint64_t sign_of(const void *user) { return ((const struct twice *)user)->sign; }

static hf_status run_turns(struct twice *t) {
    hf_context *ctx = t->fit->problem.ctx;
    const struct hf_repeated work = {.fault = HF_FAULT_MEANS,
                                     .run = run_turn,
                                     .sign = sign_of,
                                     .what = "the iterations of the device"};
    HF_TRY(hf_guard_repeat(ctx, &work, t));
    hf_guard_checked(ctx, HF_FAULT_CHANGES, t->args->state->iterations);
    HF_TRY(hf_device_ledger_book(t->fit, -1, false));
    HF_TRY(hf_device_ledger_compare(t->fit));
    if (t->args->state->iterations > 0)
        t->fit->refill.relocated_count = 0;
    hf_ledger_keep_state(t->fit);
    return HF_OK;
}

hf_status hf_device_twice(struct hf_fit *fit, const struct hf_lloyd_args *args) {
    struct twice t = {.fit = fit, .args = args, .state = *args->state};
    t.saved = hf_alloc(copy_sums(args->sums, NULL, false));
    if (!t.saved)
        return hf_ctx_fail(fit->problem.ctx, HF_E_NOMEM,
                           "no memory for a copy of the sums of %lld clusters",
                           (long long)fit->problem.k);
    copy_sums(args->sums, t.saved, false);
    const hf_status status = run_turns(&t);
    hf_free(t.saved);
    return status;
}
