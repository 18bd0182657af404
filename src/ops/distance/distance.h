/* SPDX-License-Identifier: Apache-2.0
 * distance: reference distances of rows to all centroids. */
#ifndef HF_DISTANCE_H
#define HF_DISTANCE_H

#include "core/run.h"
#include <holdfast/kmeans.h>
#include <stdbool.h>

/* Outputs, as hf_op::bound() counts them. */
enum { HF_DISTANCE_OUT /* element i * k + l: row i, centroid l */ };

struct hf_distance_args {
    hf_array x; /* [n, d] any data type */
    hf_array c; /* [k, d] F32 or F64 */
    hf_metric metric;
    bool root;   /* HF_EUCLIDEAN: the square root of d */
    double *out; /* [n, k] */
};

static inline hf_status hf_distance(hf_context *ctx, const struct hf_distance_args *args) {
    return hf_run(ctx, HF_OP_DISTANCE, args);
}

#endif
