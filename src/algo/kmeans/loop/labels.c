/* SPDX-License-Identifier: Apache-2.0
 * Where the labels of a fit lie. On a device that has all rows they stay there from the first
 * iteration to the end, for a copy takes longer than an iteration does: the host gets them when it
 * must look at rows, and as the result. */
#include "algo/kmeans/loop/labels.h"
#include "base/below.h"
#include "guard/guard.h"
#include <string.h>

static size_t bytes_of(const struct hf_fit_problem *problem) {
    return (size_t)problem->n * sizeof(int32_t);
}

void hf_labels_open(const struct hf_fit_problem *problem, struct hf_labels *labels) {
    if (!labels->device)
        labels->device = hf_ctx_alloc_copy(problem->ctx, bytes_of(problem));
}

void hf_labels_close(const struct hf_fit_problem *problem, struct hf_labels *labels) {
    hf_ctx_release(problem->ctx, labels->device);
    labels->device = NULL;
    labels->device_fresh = labels->device_newer = labels->touched = labels->checking = false;
}

hf_status hf_labels_clear(const struct hf_fit_problem *problem, struct hf_labels *labels) {
    if (labels->device) {
        labels->device_fresh = labels->device_newer = true;
        return hf_ctx_fill(problem->ctx, labels->device, 0xff, bytes_of(problem));
    }
    memset(labels->host, 0xff, bytes_of(problem));
    return HF_OK;
}

hf_status hf_labels_for_ops(const struct hf_fit_problem *problem, struct hf_labels *labels,
                            int32_t **at) {
    *at = labels->device ? labels->device : labels->host;
    if (!labels->device || labels->device_fresh)
        return HF_OK;
    labels->device_fresh = true;
    return hf_ctx_copy(problem->ctx, labels->device, labels->host, bytes_of(problem));
}

void hf_labels_by_ops(struct hf_labels *labels) { labels->device_newer = labels->device != NULL; }

void hf_labels_by_host(struct hf_labels *labels) { labels->device_fresh = false; }

hf_status hf_labels_fetch(const struct hf_fit_problem *problem, struct hf_labels *labels) {
    if (!labels->device_newer)
        return HF_OK;
    labels->device_newer = false;
    return hf_ctx_copy(problem->ctx, labels->host, labels->device, bytes_of(problem));
}

hf_status hf_labels_start_fetch(const struct hf_fit_problem *problem, struct hf_labels *labels) {
    return labels->device_newer
               ? hf_ctx_start_fetch(problem->ctx, labels->host, labels->device, bytes_of(problem))
               : HF_OK;
}

hf_status hf_labels_end_fetch(const struct hf_fit_problem *problem, struct hf_labels *labels) {
    if (!labels->device_newer)
        return HF_OK;
    labels->device_newer = false;
    return hf_ctx_end_fetch(problem->ctx);
}

void hf_labels_touch(const struct hf_fit_problem *problem, struct hf_labels *labels) {
    if (labels->device_newer && !labels->touched)
        hf_touch(labels->host, bytes_of(problem));
    labels->touched = true;
}

hf_status hf_labels_outside(const struct hf_fit_problem *problem, int64_t row) {
    hf_guard_found(problem->ctx, HF_FAULT_RANGE, row, -1);
    return hf_ctx_fail(problem->ctx, HF_E_CORRUPT,
                       "the label of row %lld lies outside 0..%lld: the machine or a kernel "
                       "computes wrongly",
                       (long long)row, (long long)problem->k - 1);
}

static hf_status verdict(const struct hf_fit_problem *problem, int64_t first, int64_t count,
                         bool wrong) {
    if (!wrong)
        return HF_OK;
    hf_guard_found(problem->ctx, HF_FAULT_RANGE, -1, -1);
    return hf_ctx_fail(problem->ctx, HF_E_CORRUPT,
                       "a label of rows %lld to %lld lies outside 0..%lld: the machine or a kernel "
                       "computes wrongly",
                       (long long)first, (long long)(first + count - 1), (long long)problem->k - 1);
}

hf_status hf_labels_check(const struct hf_fit_problem *problem, const struct hf_labels *labels,
                          int64_t first, int64_t count) {
    hf_pool *pool = hf_ctx_pool(problem->ctx);
    return verdict(problem, first, count,
                   !hf_all_below(pool, labels->host + first, count, (int32_t)problem->k));
}

hf_status hf_labels_start_check(const struct hf_fit_problem *problem, struct hf_labels *labels) {
    labels->checking = true;
    return hf_ctx_start_below(problem->ctx, labels->device, problem->n, (int32_t)problem->k);
}

hf_status hf_labels_end_check(const struct hf_fit_problem *problem, struct hf_labels *labels) {
    const bool checking = labels->checking;
    labels->checking = false;
    if (checking)
        return verdict(problem, 0, problem->n, !hf_ctx_end_below(problem->ctx));
    HF_TRY(hf_labels_fetch(problem, labels));
    return hf_labels_check(problem, labels, 0, problem->n);
}
