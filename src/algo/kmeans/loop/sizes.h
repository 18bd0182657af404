/* SPDX-License-Identifier: Apache-2.0
 * The sizes of the clusters by the labels. */
#ifndef HF_KMEANS_SIZES_H
#define HF_KMEANS_SIZES_H

#include "algo/kmeans/fit.h"

/* Count the labels into fit->outcome.sizes; one that is no cluster's is HF_E_CORRUPT. */
hf_status hf_count_labels(const struct hf_fit_problem *problem, const struct hf_labels *labels,
                          const struct hf_outcome *outcome);

#endif
