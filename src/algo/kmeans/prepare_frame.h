/* SPDX-License-Identifier: Apache-2.0
 * Origin and scale of the filter, from medians of some rows (op frame). */
#ifndef HF_PREPARE_FRAME_H
#define HF_PREPARE_FRAME_H

#include "algo/kmeans/fit.h"

struct hf_bulk {
    double *median;                    /* [d] of the columns */
    double length_mean, length_median; /* medians of |x - mean| and |x - median| */
};
/* What `sample` takes below. */
size_t hf_frame_sample_bytes(int64_t n, int64_t d);
/* Fills bulk; lengths of 0 where columns are too many. mean [d]; sample: scratch where rows are
 * streamed or dropped, else NULL. */
hf_status hf_frame_measure(const struct hf_rows *rows, double *sample, const double *mean,
                           struct hf_bulk *bulk);
/* shift [d] in: the mean; out: the origin. */
void hf_frame_origin(const struct hf_bulk *bulk, bool euclidean, int64_t d, double *shift);
/* The median of |x - origin|; 0 where it is not known. */
double hf_bulk_length(const struct hf_bulk *bulk, bool euclidean);
/* The scale for rows of that length, where |x - origin| has no component beyond `largest`. */
double hf_frame_scale(double length, double largest);
/* The largest |x - shift| of values in [min, max], [d] each. */
double hf_filter_reach(int64_t d, const double *min, const double *max, const double *shift);
/* Do whole numbers within these fit a byte, less the middle of their column? */
bool hf_filter_bytes(int64_t d, const double *min, const double *max);
/* The power of two that brings values up to `largest` into [-1, 1]. */
double hf_filter_scale(double largest);

#endif
