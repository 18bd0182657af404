/* SPDX-License-Identifier: Apache-2.0
 * All restarts of a fit, of which the best is kept. */
#ifndef HF_RESTARTS_H
#define HF_RESTARTS_H

#include "algo/kmeans/fit.h"

/* The first centroids of a restart, into fit->centers.current. */
hf_status hf_fit_start(struct hf_fit *fit, int restart);
hf_status hf_restarts(struct hf_fit *fit, struct hf_restart *best);

#endif
