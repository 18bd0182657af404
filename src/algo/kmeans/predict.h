/* SPDX-License-Identifier: Apache-2.0
 * Labels and distances of rows to centroids that are given. Arguments are checked in kmeans_api.c.
 */
#ifndef HF_PREDICT_H
#define HF_PREDICT_H

#include "ops/assign/assign.h"
#include <holdfast/kmeans.h>

struct hf_predict_args {
    const hf_array *x; /* one of the two */
    const hf_source *source;
    struct hf_reader *reader; /* of the rows, or NULL */
    int64_t n, d;
    hf_dtype dtype;
    hf_array centroids; /* [k, d] */
    hf_metric metric;
    hf_precision precision;
    const hf_array *weights; /* [n, 1] or NULL */
    int32_t *labels;         /* [n] out */
    double *distances;       /* [n] out or NULL */
    double *inertia;         /* out or NULL */
};

/* The filter for rows within [min, max] [d]: the mean of the centroids, which the host can read,
 * stands for that of the data and goes to shift [d]. The filter points to all three. */
struct hf_filter hf_predict_filter(hf_metric metric, const hf_array *centroids, const double *min,
                                   const double *max, bool whole, double *shift);

/* Where it fails after a first look at all rows, labels and distances hold anything. */
hf_status hf_predict(hf_context *ctx, const struct hf_predict_args *args);
/* Uses the first eight members. */
hf_status hf_transform(hf_context *ctx, const struct hf_predict_args *args, hf_transform_sink sink,
                       void *user);

#endif
