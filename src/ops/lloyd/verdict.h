/* SPDX-License-Identifier: Apache-2.0
 * Whether an iteration can be believed and whether another one follows: the rules, once for the
 * loop of the host, the reference of op lloyd and its kernels. */
#ifndef HF_VERDICT_H
#define HF_VERDICT_H

#include "base/compiler.h"
#include <holdfast/kmeans.h>
#include <stdbool.h>

/* Why a problem of op lloyd ended: an hf_stop (NONE: all iterations asked for were made), or an
 * event. With an event the iteration after the last counted one has labels, sums and its entry of
 * the history, but no new centroids. */
enum hf_lloyd_event {
    HF_LLOYD_EMPTY = 16,  /* some clusters are empty, and the policy is not to keep them */
    HF_LLOYD_COUNTS = 17, /* the clusters do not hold all rows: wrong arithmetic */
    HF_LLOYD_ROSE = 18,   /* the inertia rose by more than slack: wrong arithmetic */
    HF_LLOYD_FAULT = 19   /* the guard slot has a finding: hf_verify() says which */
};

/* What the clusters of a problem hold. */
struct hf_lloyd_tally {
    int64_t rows;
    int64_t empty, negative; /* how many clusters */
};

/* Every row is in one cluster, and none in less than none. */
HF_ANYWHERE bool hf_counts_are_wrong(const struct hf_lloyd_tally *tally, int64_t n) {
    return tally->rows != n || tally->negative > 0;
}

/* The iteration before. */
struct hf_lloyd_before {
    int64_t iterations; /* made so far; 0: there was none */
    double inertia;
    int64_t empty; /* clusters that lost their rows in it */
};

/* What holds for all iterations. */
struct hf_lloyd_laws {
    hf_metric metric;
    bool exact; /* the labels */
    hf_empty empty;
    double slack; /* how much rounding may raise the inertia */
};

/* Centroids are means and labels the nearest, so the inertia falls, but for rounding. It need not
 * after a split, which moves centroids off their means. */
HF_ANYWHERE bool hf_inertia_rose(const struct hf_lloyd_laws *laws,
                                 const struct hf_lloyd_before *before, double inertia) {
    if (before->iterations == 0 || laws->metric != HF_EUCLIDEAN || !laws->exact)
        return false;
    if (before->empty > 0 && laws->empty == HF_EMPTY_SPLIT)
        return false;
    return !(inertia <= before->inertia + laws->slack);
}

/* An iteration, but for its new centroids. */
struct hf_lloyd_facts {
    int64_t n;      /* rows of the problem */
    uint32_t fault; /* of the guard slot */
    struct hf_lloyd_tally tally;
    double inertia;
    int64_t changed; /* labels */
};

/* An hf_stop or an hf_lloyd_event; HF_STOP_NONE: the centroids move. */
HF_ANYWHERE int hf_lloyd_decide(const struct hf_lloyd_laws *laws,
                                const struct hf_lloyd_before *before,
                                const struct hf_lloyd_facts *facts) {
    if (facts->fault != 0)
        return HF_LLOYD_FAULT;
    if (hf_counts_are_wrong(&facts->tally, facts->n))
        return HF_LLOYD_COUNTS;
    if (hf_inertia_rose(laws, before, facts->inertia))
        return HF_LLOYD_ROSE;
    if (facts->changed == 0)
        return HF_STOP_LABELS;
    if (facts->tally.empty > 0 && laws->empty != HF_EMPTY_KEEP)
        return HF_LLOYD_EMPTY;
    return HF_STOP_NONE;
}

#endif
