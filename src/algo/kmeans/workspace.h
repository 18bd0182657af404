/* SPDX-License-Identifier: Apache-2.0
 * All memory of the iterations, taken before they begin. */
#ifndef HF_KMEANS_WORKSPACE_H
#define HF_KMEANS_WORKSPACE_H

#include "algo/kmeans/fit.h"

/* Take all memory that the iterations need, within the context's limit. */
hf_status hf_fit_workspace(struct hf_fit *fit);
/* Free all that a fit owns. */
void hf_fit_free(struct hf_fit *fit);

#endif
