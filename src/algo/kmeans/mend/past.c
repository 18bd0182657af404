/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/mend/past.h"
#include "algo/kmeans/mend/gathered.h"
#include "algo/kmeans/loop/clusters.h"
#include "guard/guard.h"
#include <string.h>

#define DEPTH 32      /* iterations, at most, */
#define SHARE 8       /* and at most this part of what the rows take */
#define MOST_GROUPS 8 /* of packed rows that are looked at one by one */

void hf_past_carve(const struct hf_fit *fit, hf_carve *carve, struct hf_past *past) {
    const struct hf_fit_problem *problem = &fit->problem;
    const int64_t depth = problem->n / (SHARE * problem->k);
    past->depth = depth < DEPTH ? (int)depth : DEPTH;
    past->centers = NULL;
    if (!hf_ctx_is_host(problem->ctx) || hf_assign_packed_bytes(problem->n, problem->d) == 0 ||
        past->depth < 2)
        return;
    past->centers = hf_carve_take(carve, (size_t)past->depth * hf_center_bytes(problem));
    past->sign = hf_carve_take(carve, (size_t)past->depth * sizeof *past->sign);
}

static char *place(const struct hf_fit *fit, int at) {
    const struct hf_past *p = &fit->ledger.past;
    return (char *)p->centers + (size_t)(at % p->depth) * hf_center_bytes(&fit->problem);
}

void hf_past_keep(struct hf_fit *fit, int iteration, bool first) {
    struct hf_past *p = &fit->ledger.past;
    if (!fit->ledger.labels || !p->centers)
        return;
    if (first)
        p->begin = iteration;
    p->end = iteration + 1;
    memcpy(place(fit, iteration), fit->centers.current, hf_center_bytes(&fit->problem));
    p->sign[iteration % p->depth] = fit->ledger.signs[0];
}

/* Have these rows had the labels that are booked all the time? */
static bool kept_labels(struct hf_fit *fit, int64_t first, int64_t count) {
    const struct hf_past *p = &fit->ledger.past;
    struct hf_gathered g;
    bool kept = hf_gather_open(fit, &g) == HF_OK;
    for (int64_t i = first; kept && i < first + count && i < fit->problem.n; i++)
        hf_gather_row(&g, i);
    const int open = fit->ledger.changed < 0; /* the last ones have no labels yet */
    for (int at = p->begin; kept && at < p->end - open; at++) {
        kept = hf_guard_sign(place(fit, at), hf_center_bytes(&fit->problem)) ==
                   p->sign[at % p->depth] &&
               hf_gather_decide(&g, place(fit, at)) == HF_OK;
        for (int64_t i = 0; kept && i < g.count; i++)
            kept = g.label[i] == fit->ledger.labels[g.row[i]];
    }
    hf_gather_close(&g);
    return kept;
}

bool hf_past_excuses(struct hf_fit *fit, bool at_work) {
    const struct hf_past *p = &fit->ledger.past;
    const struct hf_assign_packed *packed = fit->work.packed;
    int64_t first[MOST_GROUPS];
    if (!fit->ledger.labels || !p->centers || !packed || p->end - p->begin > p->depth)
        return false;
    const int count =
        hf_assign_packed_wrong(hf_ctx_pool(fit->problem.ctx), packed, first, MOST_GROUPS);
    for (int i = 0; i < count; i++)
        if (count > MOST_GROUPS || !kept_labels(fit, first[i], packed->lanes))
            return false;
    for (int i = 0; at_work && i < count; i++)
        for (int64_t row = first[i]; row < first[i] + packed->lanes && row < fit->problem.n; row++)
            fit->labels.host[row] = -1;
    hf_past_drop(fit);
    return true;
}

void hf_past_drop(struct hf_fit *fit) {
    if (!fit->work.packed)
        return;
    fit->work.packed->form = 0;
    fit->ledger.past.begin = fit->ledger.past.end - 1;
}

/* Are there packed rows to look at? Not those that a kernel has found wrong, and told. */
static bool has_packed(const struct hf_fit *fit) {
    const struct hf_assign_packed *packed = fit->work.packed;
    return packed && packed->summed && packed->form != 0 && fit->ledger.block &&
           hf_guard_checks(fit->problem.ctx, HF_FAULT_OPERAND);
}

hf_status hf_past_check(struct hf_fit *fit) {
    hf_context *ctx = fit->problem.ctx;
    struct hf_assign_packed *packed = fit->work.packed;
    if (!has_packed(fit))
        return HF_OK;
    hf_guard_checked(ctx, HF_FAULT_OPERAND, packed->filled);
    if (hf_assign_packed_right(hf_ctx_pool(ctx), packed)) {
        fit->ledger.past.begin = fit->ledger.past.end - 1;
        return HF_OK;
    }
    const struct hf_finding found = ctx->guard.found;
    const hf_error why = ctx->error;
    hf_guard_found(ctx, HF_FAULT_OPERAND, -1, -1);
    const hf_status status = hf_ctx_fail(ctx, HF_E_CORRUPT,
                                         "packed rows changed in memory: the machine or a program "
                                         "writes where it must not");
    if (!hf_guard_retries(ctx, status) || !hf_past_excuses(fit, false))
        return status;
    hf_guard_repaired(ctx, HF_FAULT_TRANSIENT, 0);
    ctx->guard.found = found;
    ctx->error = why;
    return HF_OK;
}

hf_status hf_past_check_due(struct hf_fit *fit) {
    const struct hf_past *p = &fit->ledger.past;
    return p->centers && p->end - p->begin >= p->depth ? hf_past_check(fit) : HF_OK;
}
