/* SPDX-License-Identifier: Apache-2.0
 * The centroids of a fit: ops/means.h with what the fit knows, a cluster an item of a loop over the
 * host's threads. */
#include "algo/kmeans/loop/centers.h"
#include "algo/kmeans/loop/clusters.h"
#include "algo/kmeans/loop/skip.h"
#include "base/mem.h"
#include "base/tree.h"
#include <string.h>

/* A loop over clusters; of those from `first` on, term[i] is that of cluster first + i. */
struct clusters {
    struct hf_fit *fit;
    struct hf_center_rule rule;
    int64_t first;
    double term[HF_TREE_CLUSTERS];
    double moved[HF_TREE_CLUSTERS]; /* terms of a second sum, if there is one */
};

/* Lanes of sums over the clusters: those without a term are +0 and change nothing. */
static int lanes_of(int64_t k) {
    int lanes = HF_TREE_CLUSTERS;
    while (lanes > 1 && lanes / 2 >= k)
        lanes /= 2;
    return lanes;
}

static void add_terms(double *lane, const double *term, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        lane[i] += term[i];
}

/* The terms of all clusters, added up as base/tree.h says. *moved: the second ones, or NULL. */
static double sum_terms(struct clusters *c, hf_range_fn *fn, double *moved) {
    const int lanes = lanes_of(c->fit->problem.k);
    double total[HF_TREE_CLUSTERS];
    double total_moved[HF_TREE_CLUSTERS];
    memset(total, 0, (size_t)lanes * sizeof(double));
    memset(total_moved, 0, (size_t)lanes * sizeof(double));
    for (c->first = 0; c->first < c->fit->problem.k; c->first += HF_TREE_CLUSTERS) {
        const int64_t count = hf_min64(HF_TREE_CLUSTERS, c->fit->problem.k - c->first);
        hf_for_clusters(&c->fit->problem, count, fn, c);
        add_terms(total, c->term, count);
        if (moved)
            add_terms(total_moved, c->moved, count);
    }
    if (moved)
        *moved = hf_tree_fold(total_moved, lanes);
    return hf_tree_fold(total, lanes);
}

static void next_range(void *job, int worker, int64_t begin, int64_t end) {
    const struct clusters *c = job;
    const struct hf_fit *fit = c->fit;
    (void)worker;
    hf_centers_next_some(&c->rule, &fit->centers.sums, fit->centers.current, fit->centers.previous,
                         begin, end);
}

static void moved_range(void *job, int worker, int64_t begin, int64_t end) {
    struct clusters *c = job;
    const struct hf_fit *fit = c->fit;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        c->term[i] = hf_center_moved(fit->problem.center_type, fit->centers.previous,
                                     fit->centers.current, c->first + i, fit->problem.d);
}

static void step_range(void *job, int worker, int64_t begin, int64_t end) {
    struct clusters *c = job;
    struct hf_fit *fit = c->fit;
    const struct hf_step step = {.now = fit->centers.current,
                                 .next = fit->centers.previous,
                                 .first = c->first,
                                 .score = c->term,
                                 .moved = c->moved};
    (void)worker;
    hf_centers_step_some(&c->rule, &fit->centers.sums, &step, c->first + begin, c->first + end);
    hf_skip_moved(fit, c->first + begin, c->first + end, c->moved + begin);
}

static void score_range(void *job, int worker, int64_t begin, int64_t end) {
    struct clusters *c = job;
    (void)worker;
    hf_centers_score_some(&c->rule, &c->fit->centers.sums, c->fit->centers.current,
                          c->first + begin, c->first + end, c->term + begin);
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

void hf_centers_update(struct hf_fit *fit) {
    struct clusters c = {.fit = fit, .rule = hf_fit_rule(&fit->problem, &fit->columns)};
    hf_for_clusters(&fit->problem, fit->problem.k, next_range, &c);
    hf_centers_swap(&fit->centers);
    fit->skip.drift_known = false;
}

double hf_centers_shift(struct hf_fit *fit) {
    struct clusters c = {.fit = fit};
    return sum_terms(&c, moved_range, NULL);
}

double hf_centers_inertia(struct hf_fit *fit) {
    struct clusters c = {.fit = fit, .rule = hf_fit_rule(&fit->problem, &fit->columns)};
    return hf_score_total(c.rule.metric, sum_terms(&c, score_range, NULL), fit->frame.total_square);
}

double hf_centers_step(struct hf_fit *fit, double *shift) {
    struct clusters c; /* its terms are not read before they are written */
    c.fit = fit;
    c.rule = hf_fit_rule(&fit->problem, &fit->columns);
    fit->skip.drift_known = true;
    return hf_score_total(c.rule.metric, sum_terms(&c, step_range, shift), fit->frame.total_square);
}
