/* SPDX-License-Identifier: Apache-2.0
 * A few words that stand for the state after an iteration, so that two fits can be compared
 * without keeping their centroids. */
#ifndef HF_KMEANS_DIGEST_H
#define HF_KMEANS_DIGEST_H

#include "algo/kmeans/fit.h"

/* Tell the caller's digest function, if there is one, of the iteration that was recorded last. The
 * centroids and counts of fit->centers are on the host, and those after it. */
void hf_digest_tell(const struct hf_fit *fit, struct hf_restart *run);

#endif
