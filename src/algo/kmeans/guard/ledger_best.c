/* SPDX-License-Identifier: Apache-2.0
 * The best centroids of the restarts so far, before they become the result. */
#include "algo/kmeans/guard/ledger.h"
#include "algo/kmeans/loop/clusters.h"
#include "guard/guard.h"
#include <string.h>

hf_status hf_ledger_check_best(struct hf_fit *fit) {
    const struct hf_ledger *l = &fit->ledger;
    hf_context *ctx = fit->problem.ctx;
    const size_t bytes = hf_center_bytes(&fit->problem);
    if (!l->block || !l->best_signed || !hf_guard_checks(ctx, HF_FAULT_STATE) ||
        hf_guard_sign(fit->centers.best, bytes) == l->best_sign)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_STATE, -1, -1);
    const hf_status status = hf_ctx_fail(
        ctx, HF_E_CORRUPT,
        "the best centroids changed in memory: the machine or a program writes where it must not");
    if (!hf_guard_retries(ctx, status) ||
        hf_guard_sign(fit->centers.current, bytes) != l->best_sign)
        return status;
    memcpy(fit->centers.best, fit->centers.current, bytes);
    hf_guard_repaired(ctx, HF_FAULT_TRANSIENT, 0);
    return HF_OK;
}

void hf_ledger_keep_best(struct hf_fit *fit) {
    struct hf_ledger *l = &fit->ledger;
    if (!l->block || !hf_guard_checks(fit->problem.ctx, HF_FAULT_STATE))
        return;
    l->best_sign = hf_guard_sign(fit->centers.current, hf_center_bytes(&fit->problem));
    l->best_signed = true;
}
