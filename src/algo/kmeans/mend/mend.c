/* SPDX-License-Identifier: Apache-2.0
 * What was found wrong in an iteration comes again, and nothing else. Labels do not depend on those
 * that came in, sums are integers, and both are compared with the second book in the end: so it
 * does not matter in which order faults came, or how many there were. */
#include "algo/kmeans/mend/mend.h"
#include "algo/kmeans/mend/gathered.h"
#include "algo/kmeans/guard/ledger.h"
#include "algo/kmeans/mend/past.h"
#include "algo/kmeans/loop/clusters.h"
#include "algo/kmeans/loop/skip.h"
#include "core/array.h"
#include "core/run.h"
#include "guard/guard.h"
#include <string.h>

#define MOST_CLUSTERS 16 /* whose sums are made anew; more, and the iteration is made again */

/* ---- a batch of rows at a time */

typedef hf_status batch_fn(struct hf_gathered *g, void *user);

/* All rows that `wanted` says yes to, a batch at a time. */
static hf_status each_batch(struct hf_fit *fit, bool (*wanted)(void *user, int64_t i), batch_fn *fn,
                            void *user) {
    struct hf_gathered g;
    hf_status status = hf_gather_open(fit, &g);
    for (int64_t i = 0; status == HF_OK && i < fit->problem.n; i++) {
        if (wanted(user, i))
            hf_gather_row(&g, i);
        if (g.count == 0 || (g.count < HF_GATHERED && i + 1 < fit->problem.n))
            continue;
        status = fn(&g, user);
        hf_gather_forget(&g);
    }
    hf_gather_close(&g);
    return status;
}

/* ---- what can be wrong */

static bool is_cluster(const struct hf_fit *fit, int32_t label) {
    return (uint32_t)label < (uint32_t)fit->problem.k;
}

/* Rows lie in memory, all sums in those of the clusters. */
static bool serves(const struct hf_fit *fit) {
    const struct hf_rows *rows = &fit->data.rows;
    return hf_ctx_is_host(fit->problem.ctx) && fit->ledger.labels && fit->ledger.kept &&
           rows->array && !rows->buffer && !rows->reader && !fit->light.cluster &&
           fit->problem.opts.precision == HF_EXACT;
}

bool hf_mend_sound(const struct hf_fit *fit) {
    return !serves(fit) || (hf_ledger_facts_hold(fit) &&
                            hf_guard_sign(fit->centers.current, hf_center_bytes(&fit->problem)) ==
                                fit->ledger.signs[0]);
}

/* Does a finding of this kind leave doubts about the labels of all rows? For the centroids see
 * hf_mend_sound(). */
static bool doubts_all(enum hf_fault fault) {
    return fault == HF_FAULT_BOUNDS || fault == HF_FAULT_PACK || fault == HF_FAULT_OPEN;
}

/* Are others about single labels, clusters or numbers? */
static bool is_single(enum hf_fault fault) {
    return fault == HF_FAULT_SUMS || fault == HF_FAULT_COUNTS || fault == HF_FAULT_CHANGES ||
           fault == HF_FAULT_RANGE || fault == HF_FAULT_INERTIA || fault == HF_FAULT_STATE;
}

/* May they be about something that was wrong before? */
static bool is_older(enum hf_fault fault) {
    return fault == HF_FAULT_MOVES || fault == HF_FAULT_OPERAND;
}

static bool is_other(void *user, int64_t i) {
    const struct hf_fit *fit = user;
    return fit->labels.host[i] != fit->ledger.labels[i];
}

static hf_status were_right(struct hf_gathered *g, void *user) {
    (void)user;
    HF_TRY(hf_gather_decide(g, g->fit->centers.previous));
    for (int64_t i = 0; i < g->count; i++)
        if (g->label[i] != g->fit->ledger.labels[g->row[i]])
            return HF_E_CORRUPT;
    return HF_OK;
}

/* Was nothing wrong before this iteration? */
static hf_status check_before(struct hf_fit *fit, enum hf_fault fault) {
    if (!is_older(fault))
        return HF_OK;
    if (fit->ledger.changed >= 0)
        return HF_E_CORRUPT;
    if (fault == HF_FAULT_OPERAND)
        return hf_past_excuses(fit, true) ? HF_OK : HF_E_CORRUPT;
    return fit->work.labelled ? each_batch(fit, is_other, were_right, fit) : HF_E_CORRUPT;
}

hf_status hf_mend_begin(struct hf_fit *fit, struct hf_mend *mend) {
    hf_context *ctx = fit->problem.ctx;
    const enum hf_fault fault = (enum hf_fault)ctx->guard.found.fault;
    if (!serves(fit) || ctx->guard.found.unit >= 0 ||
        !(doubts_all(fault) || is_single(fault) || is_older(fault)))
        return HF_E_CORRUPT;
    const bool scales = !hf_ledger_facts_hold(fit);
    mend->all = !fit->ledger.hashed || doubts_all(fault) || !mend->sound;
    HF_TRY(hf_ctx_check(ctx, hf_guard_forget(ctx)));
    if (!hf_ledger_restore_state(fit))
        return HF_E_CORRUPT;
    HF_TRY(check_before(fit, fault));
    if (scales) { /* rows may have been packed by them */
        HF_TRY(hf_past_check(fit));
        hf_past_drop(fit);
    }
    if (mend->all)
        hf_skip_reset(&fit->skip);
    for (int64_t i = 0; i < fit->problem.n; i++)
        if (!is_cluster(fit, fit->labels.host[i]))
            fit->labels.host[i] = -1;
    return HF_OK;
}

/* ---- labels and sums of some clusters */

struct clusters {
    struct hf_fit *fit;
    bool first;
    int32_t list[MOST_CLUSTERS];
    int count;
};

static bool is_none(void *user, int64_t i) {
    const struct clusters *c = user;
    return c->fit->labels.host[i] < 0;
}

static bool is_listed(void *user, int64_t i) {
    const struct clusters *c = user;
    bool is = false;
    for (int at = 0; at < c->count; at++)
        is |= c->list[at] == c->fit->labels.host[i];
    return is;
}

static hf_status correct_labels(struct hf_gathered *g, void *user) {
    struct hf_fit *fit = g->fit;
    (void)user;
    HF_TRY(hf_gather_decide(g, fit->centers.current));
    for (int64_t i = 0; i < g->count; i++) {
        if (fit->labels.host[g->row[i]] != g->label[i])
            hf_skip_forget_row(&fit->skip, g->row[i]);
        fit->labels.host[g->row[i]] = g->label[i];
    }
    return HF_OK;
}

/* Rows that were booked with another label: had they changed it, and have they? */
static hf_status count_others(struct hf_gathered *g, void *user) {
    struct hf_fit *fit = g->fit;
    (void)user;
    if (!fit->work.labelled)
        return HF_E_CORRUPT;
    HF_TRY(hf_gather_decide(g, fit->centers.previous));
    for (int64_t i = 0; i < g->count; i++)
        fit->ledger.changed += (fit->labels.host[g->row[i]] != g->label[i]) -
                               (fit->ledger.labels[g->row[i]] != g->label[i]);
    return HF_OK;
}

/* Labels that are booked a second time must not count as changed again. */
static hf_status book(const struct clusters *c) {
    struct hf_fit *fit = c->fit;
    const bool booked = fit->ledger.changed >= 0;
    int64_t changed = 0;
    if (booked && !c->first)
        HF_TRY(each_batch(fit, is_other, count_others, fit));
    HF_TRY(hf_ledger_rebook(fit, &changed));
    if (!booked || c->first)
        fit->ledger.changed = c->first ? fit->problem.n : changed;
    return HF_OK;
}

/* Clusters whose sums or sizes are not those of the book. */
static hf_status list_wrong(struct clusters *c) {
    c->count = 0;
    for (int64_t j = 0; j < c->fit->problem.k; j++) {
        if (hf_ledger_word(c->fit, j) == c->fit->ledger.word[j] &&
            c->fit->centers.sums.count[j] == c->fit->ledger.count[j])
            continue;
        if (c->count == MOST_CLUSTERS)
            return HF_E_CORRUPT;
        c->list[c->count++] = (int32_t)j;
    }
    return HF_OK;
}

/* To the sums, and to the book. */
static hf_status add_rows(struct hf_gathered *g, void *user) {
    struct hf_fit *fit = g->fit;
    const struct hf_update_args args = {.x = g->x,
                                        .metric = fit->problem.opts.metric,
                                        .weights = g->weight,
                                        .labels = g->label,
                                        .sums = &fit->centers.sums};
    (void)user;
    for (int64_t i = 0; i < g->count; i++) {
        fit->ledger.word[g->label[i]] += fit->ledger.hash[g->row[i]];
        fit->ledger.count[g->label[i]]++;
    }
    return hf_update(fit->problem.ctx, &args);
}

/* Sums, sizes and words from the rows, by the labels. */
static hf_status add_up(struct clusters *c) {
    const struct hf_sums *s = &c->fit->centers.sums;
    for (int i = 0; i < c->count; i++) {
        const int64_t j = c->list[i];
        for (int limb = 0; limb < s->limbs; limb++) {
            memset(s->sum + (limb * s->k + j) * s->d, 0, (size_t)s->d * sizeof *s->sum);
            if (s->weight)
                s->weight[limb * s->k + j] = 0;
        }
        s->count[j] = 0;
        c->fit->ledger.word[j] = 0;
        c->fit->ledger.count[j] = 0;
    }
    return each_batch(c->fit, is_listed, add_rows, c);
}

hf_status hf_mend_clusters(struct hf_fit *fit, const struct hf_mend *mend, int64_t *changed) {
    struct clusters c = {.fit = fit, .first = mend->first};
    HF_TRY(each_batch(fit, is_none, correct_labels, &c));
    HF_TRY(book(&c));
    HF_TRY(list_wrong(&c));
    if (c.count > 0) { /* a label that is wrong is that of such a cluster */
        HF_TRY(each_batch(fit, is_listed, correct_labels, &c));
        HF_TRY(book(&c));
        HF_TRY(list_wrong(&c));
        HF_TRY(add_up(&c));
    }
    *changed = fit->ledger.changed;
    return hf_ledger_compare(fit);
}
