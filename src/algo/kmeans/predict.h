/* SPDX-License-Identifier: Apache-2.0
 * Labels and distances of rows to centroids that are given. Arguments are checked in kmeans_api.c.
 */
#ifndef HF_PREDICT_H
#define HF_PREDICT_H

#include "rows/resident.h"
#include "ops/assign/assign.h"
#include <holdfast/kmeans.h>

struct hf_predict_args {
    const hf_array *x; /* one of the two */
    const hf_source *source;
    struct hf_resident *resident; /* the rows on the device, or their reader */
    int64_t n, d;
    hf_dtype dtype;
    hf_array centroids; /* [k, d] F32 or F64 */
    hf_predict_opts opts;
    hf_prediction out;
};

/* The filter for rows within [min, max] [d]: the mean of the centroids, which the host can read,
 * stands for that of the data and goes to shift [d]. The filter points to all three. */
struct hf_filter hf_predict_filter(hf_metric metric, const hf_array *centroids, const double *min,
                                   const double *max, bool whole, double *shift);

/* After a failure labels and distances are undefined: the second pass may have begun. */
hf_status hf_predict(hf_context *ctx, const struct hf_predict_args *args);
/* Uses all members but `out`. */
hf_status hf_transform(hf_context *ctx, const struct hf_predict_args *args, hf_transform_sink sink);

#endif
