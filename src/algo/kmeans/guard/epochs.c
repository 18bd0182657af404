/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/guard/epochs.h"
#include "algo/kmeans/guard/ledger.h"
#include "base/dtype.h"
#include "guard/guard.h"
#include <string.h>

#define EPOCH 8 /* iterations: as many as rows that stay packed are looked at in */

static size_t center_bytes(const struct hf_fit_problem *problem) {
    return (size_t)(problem->k * problem->d) * hf_dtype_bytes(problem->center_type);
}

void hf_epochs_keep(struct hf_fit *fit, const struct hf_restart *run) {
    struct hf_ledger *l = &fit->ledger;
    const size_t bytes = center_bytes(&fit->problem);
    const struct hf_epoch oldest = l->epoch[0];
    if (!l->labels || l->device || !fit->work.labelled || run->iteration % EPOCH != 0)
        return;
    l->epoch[0] = l->epoch[1];
    l->epoch[1] = oldest;
    memcpy(oldest.current, fit->centers.current, bytes);
    memcpy(oldest.previous, fit->centers.previous, bytes);
    l->epoch[1].signs[0] = hf_guard_sign(oldest.current, bytes);
    l->epoch[1].signs[1] = hf_guard_sign(oldest.previous, bytes);
    l->epoch[1].iteration = run->iteration;
    l->epoch[1].chain = run->chain;
}

void hf_epochs_forget(struct hf_fit *fit) {
    fit->ledger.epoch[0].iteration = fit->ledger.epoch[1].iteration = 0;
}

void hf_epochs_restore(struct hf_fit *fit, struct hf_restart *run) {
    const struct hf_epoch *e = &fit->ledger.epoch[0];
    const size_t bytes = center_bytes(&fit->problem);
    const bool there = e->iteration > 0 && e->iteration < run->iteration &&
                       hf_guard_sign(e->current, bytes) == e->signs[0] &&
                       hf_guard_sign(e->previous, bytes) == e->signs[1] &&
                       hf_ledger_restore_facts(fit);
    run->iteration = run->history.count = there ? e->iteration : 0;
    fit->ledger.epoch[1].iteration = 0;
    if (!there)
        return;
    run->chain = e->chain;
    memcpy(fit->centers.current, e->current, bytes);
    memcpy(fit->centers.previous, e->previous, bytes);
    fit->refill.relocated_count = 0;
}
