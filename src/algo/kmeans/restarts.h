/* SPDX-License-Identifier: Apache-2.0
 * All restarts of a fit, of which the best is kept. */
#ifndef HF_RESTARTS_H
#define HF_RESTARTS_H

#include "algo/kmeans/fit.h"

hf_status hf_restarts(struct hf_fit *fit, struct hf_restart *best);

#endif
