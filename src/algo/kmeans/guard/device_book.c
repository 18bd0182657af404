/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/guard/device_book.h"
#include "algo/kmeans/guard/ledger.h"
#include "algo/kmeans/loop/clusters.h"
#include "guard/guard.h"

bool hf_device_ledger_lend(struct hf_fit *fit, struct hf_lloyd_book *book) {
    struct hf_ledger *l = &fit->ledger;
    if (!l->device)
        return false;
    l->lent[0] = l->signs[0];
    l->lent[1] = l->signs[1];
    *book = (struct hf_lloyd_book){.hash = l->hash,
                                   .factor = l->factor,
                                   .labels = l->labels,
                                   .word = l->word,
                                   .count = l->count,
                                   .sign = l->lent,
                                   .packed = &l->packed};
    return true;
}

hf_status hf_device_ledger_hash(struct hf_fit *fit) {
    if (!fit->ledger.device || fit->ledger.hashed)
        return HF_OK;
    HF_TRY(hf_ledger_panel(fit, fit->data.rows.array, 0));
    return hf_ledger_hashed(fit);
}

/* Each of the values of an iteration was looked at once. */
static void count_checks(hf_context *ctx, const struct hf_fit_problem *problem, int iterations) {
    const struct {
        enum hf_fault fault;
        int64_t values;
    } made[] = {{HF_FAULT_SUMS, problem->n},   {HF_FAULT_RANGE, problem->n},
                {HF_FAULT_COUNTS, problem->k}, {HF_FAULT_MEANS, problem->k},
                {HF_FAULT_STATE, problem->k},  {HF_FAULT_CHANGES, 1},
                {HF_FAULT_MOVES, 0},           {HF_FAULT_OPERAND, 0}};
    for (size_t i = 0; iterations > 0 && i < sizeof made / sizeof *made; i++)
        if (hf_guard_checks(ctx, made[i].fault) &&
            (made[i].fault != HF_FAULT_MOVES || problem->opts.precision == HF_EXACT))
            hf_guard_checked(ctx, made[i].fault, iterations * made[i].values);
}

/* Rows that were packed wrongly, or changed since, gave wrong scores in any of the iterations. */
static hf_status check_packed(struct hf_fit *fit) {
    hf_context *ctx = fit->problem.ctx;
    if (fit->ledger.packed == 0)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_OPERAND, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "rows that were packed twice for the device differ: the machine computes "
                       "wrongly, or a program writes where it must not");
}

hf_status hf_device_ledger_returned(struct hf_fit *fit, int iterations) {
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_ledger *l = &fit->ledger;
    hf_context *ctx = problem->ctx;
    const size_t bytes = hf_center_bytes(problem);
    count_checks(ctx, problem, iterations);
    HF_TRY(check_packed(fit));
    if (hf_guard_sign(fit->centers.current, bytes) == l->lent[0] &&
        hf_guard_sign(fit->centers.previous, bytes) == l->lent[1]) {
        l->proven = l->proven || iterations > 0;
        hf_ledger_keep_state(fit);
        return HF_OK;
    }
    hf_guard_found(ctx, HF_FAULT_STATE, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "centroids changed on their way from the device: the machine or a program "
                       "writes where it must not");
}
