/* SPDX-License-Identifier: Apache-2.0
 * From the sums of the clusters to centroids, how far they moved, and the inertia: float64, in the
 * order of base/tree.h, so that every device gives the same bits. */
#ifndef HF_MEANS_H
#define HF_MEANS_H

#include "ops/update/update.h"
#include <holdfast/kmeans.h>

/* What a centroid is, beside the sums. */
struct hf_center_rule {
    hf_metric metric;
    hf_dtype type;  /* of the centroids in memory: F32 or F64 */
    hf_dtype store; /* what they are rounded to first: `type`, or the 16-bit type of the data */
    const double *shift; /* [d] of the filter; zeros unless the metric is Euclidean */
    const double *unit;  /* [d] 1 / mult where one limb times it is exact, else 0 */
};

static inline double hf_center_at(const void *centers, hf_dtype type, int64_t i) {
    return type == HF_F64 ? ((const double *)centers)[i] : (double)((const float *)centers)[i];
}

/* v, rounded, becomes element i of the centroids dst. */
void hf_center_store(const struct hf_center_rule *rule, void *dst, int64_t i, double v);

/* The weight of a cluster as the sums have it; 0 or less means it is empty. */
double hf_sums_weight(const struct hf_sums *s, int64_t cluster);

/* next [k, d] from the sums; empty clusters (and directions of length 0) are those of now. */
void hf_centers_next(const struct hf_center_rule *rule, const struct hf_sums *s, const void *now,
                     void *next);

/* Centroids [begin, end) of that. */
void hf_centers_next_some(const struct hf_center_rule *rule, const struct hf_sums *s,
                          const void *now, void *next, int64_t begin, int64_t end);

/* Sum of the squared moves from a to b, [k, d] each: the terms of the centroids in the order of
 * base/tree.h. */
double hf_centers_moved(hf_dtype type, const void *a, const void *b, int64_t k, int64_t d);
double hf_center_moved(hf_dtype type, const void *a, const void *b, int64_t j, int64_t d);

/* Inertia of the labels in the sums against c. total_square: of x - shift, Euclidean only. */
double hf_centers_score(const struct hf_center_rule *rule, const struct hf_sums *s, const void *c,
                        double total_square);
/* The terms of clusters [begin, end), and the inertia from the sum of all terms. */
void hf_centers_score_some(const struct hf_center_rule *rule, const struct hf_sums *s,
                           const void *c, int64_t begin, int64_t end, double *term);
double hf_score_total(hf_metric metric, double sum, double total_square);

/* What an iteration makes of the sums of its clusters; next may not be now. The terms are those of
 * clusters `first` and on. */
struct hf_step {
    const void *now;
    void *next;
    int64_t first;
    double *score, *moved; /* terms of hf_centers_score(now) and of hf_centers_moved(now, next) */
};

/* Clusters [begin, end) of hf_centers_score_some(), hf_centers_next_some() and hf_center_moved(),
 * in one pass where that can be. */
void hf_centers_step_some(const struct hf_center_rule *rule, const struct hf_sums *s,
                          const struct hf_step *step, int64_t begin, int64_t end);

#endif
