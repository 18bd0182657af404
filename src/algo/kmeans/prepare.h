/* SPDX-License-Identifier: Apache-2.0
 * From the data to all that depends on them but not on the iteration: which rows take part, their
 * weights, ranges and means, the filter, the tolerance and the scales of the sums. */
#ifndef HF_PREPARE_H
#define HF_PREPARE_H

#include "algo/kmeans/fit.h"

hf_status hf_prepare(struct hf_fit *fit);
/* prepare_joint.c: the same of `count` fits without weights, whose rows x [count * n, d] lie one
 * behind the other in the device's memory, in three calls for all. Fails where one of them has rows
 * with NaN or Inf. */
hf_status hf_prepare_joint(struct hf_fit *fits, int64_t count, const hf_array *x);
/* The inertia of an iteration by the weights that were given. */
double hf_inertia_given(const struct hf_weights *weights, double inertia);
/* The unit roundoff of stored centroids, and the absolute error where that fails. */
void hf_center_rounding(const struct hf_fit_problem *problem, double *relative, double *absolute);

/* Look at the data from another origin and scale; length: as hf_bulk_length() of it. Only without
 * weights. */
void hf_prepare_filter(struct hf_fit *fit, const double *shift, double scale, double length);

#endif
