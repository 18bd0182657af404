/* SPDX-License-Identifier: Apache-2.0
 * The first centroids of a restart. */
#ifndef HF_FIRST_CENTROIDS_H
#define HF_FIRST_CENTROIDS_H

#include "algo/kmeans/fit.h"

/* Into fit->centers.current. A protected fit on the host makes them twice, by different kernels,
 * and goes on when both agree (check `start`). HF_E_CORRUPT: they never did. */
hf_status hf_fit_start(struct hf_fit *fit, int restart);

#endif
