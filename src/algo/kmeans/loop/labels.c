/* SPDX-License-Identifier: Apache-2.0
 * Where the labels of a fit lie. On a device that has all rows they stay there from the first
 * iteration to the end, for a copy takes longer than an iteration does: the host gets them when it
 * must look at rows, and as the result. */
#include "algo/kmeans/loop/labels.h"
#include "base/below.h"
#include <string.h>

static size_t bytes_of(const struct hf_fit *fit) { return (size_t)fit->n * sizeof(int32_t); }

void hf_labels_open(struct hf_fit *fit) {
    if (!fit->away.at)
        fit->away = (struct hf_labels_away){.at = hf_ctx_alloc_copy(fit->ctx, bytes_of(fit))};
}

void hf_labels_close(struct hf_fit *fit) {
    hf_ctx_release(fit->ctx, fit->away.at);
    fit->away = (struct hf_labels_away){0};
}

hf_status hf_labels_clear(struct hf_fit *fit) {
    if (fit->away.at) {
        fit->away.fresh = fit->away.newer = true;
        return hf_ctx_fill(fit->ctx, fit->away.at, 0xff, bytes_of(fit));
    }
    memset(fit->labels, 0xff, bytes_of(fit));
    return HF_OK;
}

hf_status hf_labels_for_ops(struct hf_fit *fit, int32_t **labels) {
    struct hf_labels_away *away = &fit->away;
    *labels = away->at ? away->at : fit->labels;
    if (!away->at || away->fresh)
        return HF_OK;
    away->fresh = true;
    return hf_ctx_copy(fit->ctx, away->at, fit->labels, bytes_of(fit));
}

void hf_labels_by_ops(struct hf_fit *fit) { fit->away.newer = fit->away.at != NULL; }

void hf_labels_by_host(struct hf_fit *fit) { fit->away.fresh = false; }

hf_status hf_labels_bring(struct hf_fit *fit, bool now) {
    if (!fit->away.newer)
        return HF_OK;
    fit->away.newer = false;
    return (now ? hf_ctx_fetch : hf_ctx_copy)(fit->ctx, fit->labels, fit->away.at, bytes_of(fit));
}

void hf_labels_touch(struct hf_fit *fit) {
    if (fit->away.newer && !fit->away.touched)
        hf_touch(fit->labels, bytes_of(fit));
    fit->away.touched = true;
}

static hf_status verdict(const struct hf_fit *fit, int64_t first, int64_t count, bool wrong) {
    return wrong
               ? hf_ctx_fail(fit->ctx, HF_E_CORRUPT,
                             "a label of rows %lld to %lld lies outside 0..%lld: the machine or a "
                             "kernel computes wrongly",
                             (long long)first, (long long)(first + count - 1),
                             (long long)fit->k - 1)
               : HF_OK;
}

hf_status hf_labels_check(const struct hf_fit *fit, int64_t first, int64_t count) {
    hf_pool *pool = hf_ctx_pool(fit->ctx);
    return verdict(fit, first, count,
                   !hf_all_below(pool, fit->labels + first, count, (int32_t)fit->k));
}

hf_status hf_labels_ask(struct hf_fit *fit) {
    fit->away.asked = true;
    return hf_ctx_ask_below(fit->ctx, fit->away.at, fit->n, (int32_t)fit->k);
}

hf_status hf_labels_answer(struct hf_fit *fit) {
    const bool asked = fit->away.asked;
    fit->away.asked = false;
    if (asked)
        return verdict(fit, 0, fit->n, !hf_ctx_answer(fit->ctx));
    HF_TRY(hf_labels_bring(fit, false));
    return hf_labels_check(fit, 0, fit->n);
}
