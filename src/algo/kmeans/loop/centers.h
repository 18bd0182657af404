/* SPDX-License-Identifier: Apache-2.0
 * From the sums of the clusters to centroids. */
#ifndef HF_KMEANS_CENTERS_H
#define HF_KMEANS_CENTERS_H

#include "algo/kmeans/fit.h"

/* Store v, rounded, as element i of the centroids dst. */
void hf_center_put(const struct hf_fit_problem *problem, const struct hf_columns *columns,
                   void *dst, int64_t i, double v);
/* fit->centers.previous becomes the new centroids, then the two are swapped. Empty clusters stay.
 * */
void hf_centers_update(struct hf_fit *fit);
void hf_centers_swap(struct hf_centers *centers);
/* Sum of the squared moves between fit->centers.previous and fit->centers.current. */
double hf_centers_shift(struct hf_fit *fit);
/* Inertia of the labels in the sums against fit->centers.current. */
double hf_centers_inertia(struct hf_fit *fit);
/* All of these and the drifts of fit->skip in one pass over the sums, for an iteration that will
 * not look for rows to move: gives the inertia, and *shift. The new centroids wait in
 * fit->centers.previous for hf_centers_swap(). */
double hf_centers_step(struct hf_fit *fit, double *shift);
/* Float64 centroids [k, d] rounded to their storage. dst may be src. */
void hf_centers_store(const struct hf_fit_problem *problem, const struct hf_columns *columns,
                      void *dst, const double *src, int64_t count);

#endif
