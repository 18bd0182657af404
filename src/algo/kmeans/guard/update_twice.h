/* SPDX-License-Identifier: Apache-2.0
 * Updates that are made twice, as the scheme `weighted` does. */
#ifndef HF_UPDATE_TWICE_H
#define HF_UPDATE_TWICE_H

#include "algo/kmeans/fit.h"

/* Take memory for the sums before an update; none where the call does not make the check. */
void hf_update_twice_carve(struct hf_fit *fit, hf_carve *carve);

/* hf_update() of fit->centers.sums, twice where the call makes the check `twice`. HF_E_CORRUPT: two
 * turns never agreed. */
hf_status hf_update_twice(struct hf_fit *fit, const struct hf_update_args *args);

#endif
