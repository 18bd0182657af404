/* SPDX-License-Identifier: Apache-2.0
 * Clusters without rows, or whose rows all have weight 0. */
#ifndef HF_KMEANS_EMPTY_H
#define HF_KMEANS_EMPTY_H

#include "algo/kmeans/fit.h"

/* Count the empty clusters and do what the options say, before the centroids are updated: relocate
 * changes labels and sums. */
hf_status hf_empty_clusters(struct hf_fit *fit, int iteration, int64_t *count);
/* HF_EMPTY_SPLIT: after the centroids are updated. */
hf_status hf_empty_split(struct hf_fit *fit);
/* Move rows of the problem, each at most once, into clusters: sums, labels, bounds. */
hf_status hf_move_rows(struct hf_fit *fit, const struct hf_moved_row *moves, int64_t count);

#endif
