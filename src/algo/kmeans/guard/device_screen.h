/* SPDX-License-Identifier: Apache-2.0
 * Which multiprocessor computes wrongly? Each gets the same small part of a fit, alone. */
#ifndef HF_DEVICE_SCREEN_H
#define HF_DEVICE_SCREEN_H

#include "algo/kmeans/fit.h"
#include "ops/lloyd/lloyd.h"

/* *unit: the one whose results differ, twice, from those that most agree upon; -1: none does, or
 * more than one, or there is no kernel that gives one of them a problem of its own. *lane: its only
 * lane, 32 of each of its four parts, whose arithmetic is wrong (op lanes); -1: none, or several.
 */
hf_status hf_screen_units(struct hf_fit *fit, const struct hf_lloyd_args *args, int32_t *unit,
                          int *lane);

#endif
