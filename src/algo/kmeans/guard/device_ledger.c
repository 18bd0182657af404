/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/guard/device_ledger.h"
#include "algo/kmeans/guard/device_scan.h"
#include "algo/kmeans/guard/ledger.h"
#include "algo/kmeans/loop/skip.h"
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/loop/clusters.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/loop/mirror.h"
#include "base/dtype.h"
#include "base/mem.h"
#include "guard/guard.h"
#include "ops/audit/audit.h"

#define SHARE 4 /* of the device's free memory the ledger takes at most one in so many */

static size_t factor_bytes(const struct hf_fit *fit) {
    const struct hf_sums *s = &fit->centers.sums;
    return (size_t)(s->limbs * (s->d + 1)) * sizeof(uint64_t);
}

/* carve->base NULL: measure. */
static void carve_device(const struct hf_fit *fit, hf_carve *carve, struct hf_ledger *l) {
    const size_t n = (size_t)fit->problem.n;
    const size_t k = (size_t)fit->problem.k;
    l->factor = hf_mirror_take(carve, factor_bytes(fit));
    l->hash = hf_mirror_take(carve, n * sizeof(uint64_t));
    l->labels = hf_mirror_take(carve, n * sizeof(int32_t));
    l->word = hf_mirror_take(carve, k * sizeof(uint64_t));
    l->count = hf_mirror_take(carve, k * sizeof(int64_t));
}

hf_status hf_device_ledger_open(struct hf_fit *fit, const uint64_t *factor) {
    struct hf_ledger *l = &fit->ledger;
    hf_context *ctx = fit->problem.ctx;
    hf_carve carve = {0};
    carve_device(fit, &carve, l);
    const bool fits = carve.used <= hf_ctx_room(ctx) / SHARE;
    l->device = fits ? hf_ctx_alloc(ctx, carve.used) : NULL;
    if (!l->device)
        return HF_OK;
    carve = (hf_carve){.base = l->device};
    carve_device(fit, &carve, l);
    return hf_ctx_copy(ctx, l->factor, factor, factor_bytes(fit));
}

void hf_device_ledger_close(hf_context *ctx, struct hf_ledger *ledger) {
    hf_ctx_release(ctx, ledger->device);
    hf_ctx_release(ctx, ledger->twin);
    ledger->device = ledger->twin = NULL;
}

hf_status hf_device_ledger_clear(struct hf_fit *fit) {
    const struct hf_ledger *l = &fit->ledger;
    hf_context *ctx = fit->problem.ctx;
    const size_t k = (size_t)fit->problem.k;
    HF_TRY(hf_ctx_fill(ctx, l->labels, 0xff, (size_t)fit->problem.n * sizeof *l->labels));
    HF_TRY(hf_ctx_fill(ctx, l->word, 0, k * sizeof *l->word));
    return hf_ctx_fill(ctx, l->count, 0, k * sizeof *l->count);
}

hf_status hf_device_ledger_sign(struct hf_fit *fit, const void *data, size_t bytes,
                                uint64_t *sign) {
    struct hf_audit_found found;
    const struct hf_audit_args args = {
        .words = data, .n_words = (int64_t)(bytes / sizeof(uint32_t)), .found = &found};
    HF_TRY(hf_audit(fit->problem.ctx, &args));
    *sign = found.sign;
    return HF_OK;
}

hf_status hf_device_ledger_blame(struct hf_fit *fit, hf_status status) {
    const struct hf_ledger *l = &fit->ledger;
    hf_context *ctx = fit->problem.ctx;
    uint64_t now = 0;
    if ((status != HF_E_DATA && status != HF_E_ARG) || !l->block || !l->rows_signed ||
        hf_ctx_is_host(ctx) || !fit->data.rows.array)
        return status;
    HF_TRY(hf_device_scan_sign(fit, fit->data.rows.array, &now));
    if (now == l->rows)
        return status;
    hf_guard_found(ctx, HF_FAULT_STATE, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT, "rows are not what they were: %s",
                       hf_suspects(&fit->problem));
}

static struct hf_audit_args audit_args(const struct hf_fit *fit, struct hf_audit_found *found) {
    return (struct hf_audit_args){.word = fit->ledger.word,
                                  .rows = fit->ledger.count,
                                  .n = fit->problem.n,
                                  .k = fit->problem.k,
                                  .found = found};
}

/* ---- booking */

static hf_status check_rows(struct hf_fit *fit, const struct hf_audit_found *found) {
    const struct hf_fit_problem *problem = &fit->problem;
    hf_context *ctx = problem->ctx;
    if (found->outside >= 0)
        return hf_labels_outside(problem, found->outside);
    if (found->farther < 0)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_MOVES, found->farther, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT, "row %lld moved to a centroid that is not nearer: %s",
                       (long long)found->farther, hf_suspects(problem));
}

static hf_status check_changed(struct hf_fit *fit, int64_t booked, int64_t changed) {
    hf_context *ctx = fit->problem.ctx;
    if (changed == HF_LEDGER_ANY || !hf_guard_checks(ctx, HF_FAULT_CHANGES))
        return HF_OK;
    hf_guard_checked(ctx, HF_FAULT_CHANGES, 1);
    if (booked == changed)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_CHANGES, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "%lld labels changed where the kernels count %lld: the machine or a kernel "
                       "computes wrongly",
                       (long long)booked, (long long)changed);
}

/* Exact labels are the nearest; rows that pass in panels are not at hand any more. */
static bool can_measure(const struct hf_fit *fit) {
    return fit->problem.opts.precision == HF_EXACT && fit->data.rows.array &&
           !fit->data.rows.reader && hf_guard_checks(fit->problem.ctx, HF_FAULT_MOVES);
}

hf_status hf_device_ledger_book(struct hf_fit *fit, int64_t changed, bool nearest) {
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_audit_found found;
    int32_t *labels = NULL;
    struct hf_audit_args args = audit_args(fit, &found);
    HF_TRY(hf_labels_for_ops(problem, &fit->labels, &labels));
    args.labels = labels;
    args.booked = fit->ledger.labels;
    args.hash = fit->ledger.hash;
    args.metric = problem->opts.metric;
    if (nearest && can_measure(fit)) {
        args.x = *fit->data.rows.array;
        args.c = hf_centers(problem, fit->centers.current);
        hf_guard_checked(problem->ctx, HF_FAULT_MOVES, changed > 0 ? changed : 0);
    }
    HF_TRY(hf_audit(problem->ctx, &args));
    hf_guard_checked(problem->ctx, HF_FAULT_RANGE, problem->n);
    HF_TRY(check_rows(fit, &found));
    return check_changed(fit, found.changed, changed);
}

/* ---- comparing */

hf_status hf_device_ledger_compare(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    hf_context *ctx = problem->ctx;
    struct hf_audit_found found;
    struct hf_audit_args args = audit_args(fit, &found);
    args.sums = &fit->centers.sums;
    args.factor = fit->ledger.factor;
    HF_TRY(hf_audit(ctx, &args));
    if (hf_guard_checks(ctx, HF_FAULT_COUNTS))
        hf_guard_checked(ctx, HF_FAULT_COUNTS, problem->k);
    if (hf_guard_checks(ctx, HF_FAULT_SUMS))
        hf_guard_checked(ctx, HF_FAULT_SUMS, problem->n);
    if (found.count >= 0 && hf_guard_checks(ctx, HF_FAULT_COUNTS)) {
        hf_guard_found(ctx, HF_FAULT_COUNTS, -1, found.count);
        return hf_ctx_fail(ctx, HF_E_CORRUPT,
                           "cluster %lld does not hold as many rows as by its labels: %s",
                           (long long)found.count, hf_suspects(problem));
    }
    if (found.sum >= 0 && hf_guard_checks(ctx, HF_FAULT_SUMS)) {
        hf_guard_found(ctx, HF_FAULT_SUMS, -1, found.sum);
        return hf_ctx_fail(ctx, HF_E_CORRUPT,
                           "the sums of cluster %lld are not those of its rows: %s",
                           (long long)found.sum, hf_suspects(problem));
    }
    fit->ledger.proven = true;
    return HF_OK;
}

hf_status hf_device_ledger_check_labels(struct hf_fit *fit) {
    const struct hf_ledger *l = &fit->ledger;
    hf_context *ctx = fit->problem.ctx;
    const size_t bytes = (size_t)fit->problem.n * sizeof(int32_t);
    uint64_t sign = l->labels_sign;
    if (!hf_guard_checks(ctx, HF_FAULT_LABELS))
        return HF_OK;
    if (!l->labels_signed)
        HF_TRY(hf_device_ledger_sign(fit, l->labels, bytes, &sign));
    hf_guard_checked(ctx, HF_FAULT_LABELS, fit->problem.n);
    if (sign == hf_guard_sign(fit->labels.host, bytes))
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_LABELS, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "labels changed in memory after they were found: the machine or a program "
                       "writes where it must not");
}

/* ---- bounds on other devices, whose kernels keep no account of them */

static uint64_t sign_bounds(const struct hf_fit *fit) {
    hf_pool *pool = hf_ctx_pool(fit->problem.ctx);
    const size_t bytes = (size_t)fit->problem.n * sizeof(float);
    return hf_guard_sign_by(pool, fit->skip.bounds.upper, bytes) +
           3 * hf_guard_sign_by(pool, fit->skip.bounds.lower, bytes);
}

void hf_device_ledger_keep_bounds(struct hf_fit *fit) {
    struct hf_ledger *l = &fit->ledger;
    l->bounds_signed = fit->skip.have && !hf_ctx_is_host(fit->problem.ctx) &&
                       hf_guard_checks(fit->problem.ctx, HF_FAULT_BOUNDS);
    if (l->bounds_signed)
        l->bounds_sign = sign_bounds(fit);
}

/* Bounds only save work: without them all rows are looked at. */
hf_status hf_device_ledger_check_bounds(struct hf_fit *fit) {
    const struct hf_ledger *l = &fit->ledger;
    hf_context *ctx = fit->problem.ctx;
    if (!l->block || !l->kept || !l->bounds_signed || !fit->skip.have)
        return HF_OK;
    hf_guard_checked(ctx, HF_FAULT_BOUNDS, fit->problem.n);
    if (sign_bounds(fit) == l->bounds_sign)
        return HF_OK;
    hf_guard_found(ctx, HF_FAULT_BOUNDS, -1, -1);
    const hf_status status = hf_ctx_fail(
        ctx, HF_E_CORRUPT,
        "bounds of the rows changed in memory between two iterations: the machine or a program "
        "writes where it must not");
    if (!hf_guard_retries(ctx, status))
        return status;
    hf_skip_reset(&fit->skip);
    hf_guard_repaired(ctx, HF_FAULT_TRANSIENT, 0);
    return HF_OK;
}
