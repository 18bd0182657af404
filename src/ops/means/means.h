/* SPDX-License-Identifier: Apache-2.0
 * means: from the sums of the clusters to centroids, how far they moved, and the inertia: float64,
 * in the order of base/tree.h, so that every device gives the same bits. */
#ifndef HF_MEANS_H
#define HF_MEANS_H

#include "ops/update/update.h"
#include <holdfast/kmeans.h>

#ifdef __cplusplus
extern "C" {
#endif

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

/* What is wanted of the clusters; at least one of the outputs. */
struct hf_means_args {
    struct hf_center_rule rule;
    const struct hf_sums *sums;
    double total_square; /* of x - shift over all rows; Euclidean, for the inertia */
    const void *now;     /* [k, d] rule.type: the centroids that the labels in the sums are of */
    void *next;          /* [k, d] out: the means; empty clusters, and directions of length 0, are
                            those of now. May be now where nothing else is wanted.
                            NULL: not wanted */
    bool given;          /* next is an input; the sums are looked at for the inertia alone */
    double *moved;       /* [k] out: square of the way from now to next, NULL: not wanted */
    double *shift;       /* [1] out: the sum of these, NULL: not wanted */
    double *inertia;     /* [1] out: of the labels in the sums against now, NULL: not wanted */
};

/* The inertia, when this is the sum over the clusters. */
static inline double hf_means_inertia(const struct hf_means_args *args, double sum) {
    if (args->rule.metric != HF_EUCLIDEAN)
        return sum;
    return args->total_square + sum > 0 ? args->total_square + sum : 0;
}

static inline hf_status hf_means(hf_context *ctx, const struct hf_means_args *args) {
    return hf_run(ctx, HF_OP_MEANS, args);
}

#ifdef __cplusplus
}
#endif

#endif
