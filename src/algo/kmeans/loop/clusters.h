/* SPDX-License-Identifier: Apache-2.0
 * Loops over clusters, and what the centroids of a fit are. */
#ifndef HF_KMEANS_CLUSTERS_H
#define HF_KMEANS_CLUSTERS_H

#include "algo/kmeans/fit.h"

/* A loop over clusters, on the threads of the CPU where they are worth it. */
void hf_for_clusters(const struct hf_fit_problem *problem, int64_t count, hf_range_fn *fn,
                     void *job);
/* Bytes of [k, d] centroids, and a view of them. */
size_t hf_center_bytes(const struct hf_fit_problem *problem);
hf_array hf_centers(const struct hf_fit_problem *problem, void *centers);
/* What its centroids are, for op means. */
struct hf_center_rule hf_fit_rule(const struct hf_fit_problem *problem,
                                  const struct hf_columns *columns);
/* Has a cluster no rows, or only such of weight 0? */
bool hf_cluster_is_empty(const struct hf_centers *centers, const struct hf_light *light,
                         int64_t cluster);

#endif
