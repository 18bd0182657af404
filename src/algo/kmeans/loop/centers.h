/* SPDX-License-Identifier: Apache-2.0
 * From the sums of the clusters to centroids. */
#ifndef HF_KMEANS_CENTERS_H
#define HF_KMEANS_CENTERS_H

#include "algo/kmeans/fit.h"

/* Store v, rounded, as element i of the centroids dst. */
void hf_center_put(const struct hf_fit_problem *problem, const struct hf_columns *columns,
                   void *dst, int64_t i, double v);
/* fit->centers.previous becomes the new centroids, then they are swapped. Empty clusters stay. */
hf_status hf_centers_update(struct hf_fit *fit);
void hf_centers_swap(struct hf_centers *centers);
/* The squared moves between fit->centers.previous and fit->centers.current, square [k], and their
 * sum; either may be NULL. */
hf_status hf_centers_moves(struct hf_fit *fit, double *square, double *shift);
/* Inertia of the labels in the sums against fit->centers.current. */
hf_status hf_centers_inertia(struct hf_fit *fit, double *inertia);
/* All of these, with the squares for fit->skip, in one pass over the sums, for an iteration that
 * will not look for rows to move. The new centroids wait in fit->centers.previous for
 * hf_centers_swap(). */
hf_status hf_centers_step(struct hf_fit *fit, double *shift, double *inertia);
/* Float64 centroids [k, d] rounded to their storage. dst may be src. */
void hf_centers_store(const struct hf_fit_problem *problem, const struct hf_columns *columns,
                      void *dst, const double *src, int64_t count);

#endif
