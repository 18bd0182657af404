/* SPDX-License-Identifier: Apache-2.0
 * Clusters that weigh so little that their sums do not tell their means. */
#ifndef HF_KMEANS_LIGHT_H
#define HF_KMEANS_LIGHT_H

#include "algo/kmeans/fit.h"

/* The smallest weight given but 0. */
double hf_least_weight(const struct hf_fit_problem *problem, const struct hf_weights *weights);
/* Can there be any? */
bool hf_light_possible(const struct hf_fit_problem *problem, const struct hf_weights *weights,
                       const struct hf_centers *centers);
/* Mark those whose sums say so; are there any? */
bool hf_light_mark(struct hf_fit *fit);
/* Of those marked, find the heaviest rows, by labels on the host; one without is not light, but
 * empty. */
void hf_light_weigh(struct hf_fit *fit);
/* After hf_centers_update(), labels on the host: centroids of the clusters that are light now. */
hf_status hf_light_means(struct hf_fit *fit);

#endif
