/* SPDX-License-Identifier: Apache-2.0
 * inertia: the reference distance of each row to the centroid of its label, and their weighted sum.
 */
#ifndef HF_INERTIA_H
#define HF_INERTIA_H

#include "base/fixed.h"
#include "core/run.h"
#include <holdfast/kmeans.h>

struct hf_inertia_args {
    hf_array x; /* [n, d] any data type */
    hf_array c; /* [k, d] F32 or F64 */
    hf_metric metric;
    const double *weights; /* [n], NULL means 1 */
    const int32_t *labels; /* [n] 0 .. k - 1 */
    double *distances;     /* [n] out: d(x_i, c_label) by the reference, NULL when not wanted */
    hf_wide *sum;          /* added to: weight * distance (one rounding each), order-free */
};

static inline hf_status hf_inertia(hf_context *ctx, const struct hf_inertia_args *args) {
    return hf_run(ctx, HF_OP_INERTIA, args);
}

#endif
