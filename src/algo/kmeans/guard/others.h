/* SPDX-License-Identifier: Apache-2.0
 * A second look by other cores: one that always errs must not err twice alike. */
#ifndef HF_OTHERS_H
#define HF_OTHERS_H

#include "algo/kmeans/fit.h"

/* The first `count` workers get no work until hf_others_end(), at least one is left. Returns how
 * many rest: none on a device, where a worker is left out already, and in fits so small that their
 * workers are asleep, where waking one would take longer than the work. */
int hf_others_begin(const struct hf_fit_problem *problem, int count);
void hf_others_end(const struct hf_fit_problem *problem, int resting);

#endif
