/* SPDX-License-Identifier: Apache-2.0
 * What a fit does with the memory of a device: how much the kernels of the iterations need, and
 * which rows stay there. On the CPU memory_plan.c divides the memory. */
#ifndef HF_DEVICE_MEMORY_H
#define HF_DEVICE_MEMORY_H

#include "algo/kmeans/fit.h"

/* Bytes of workspace that the kernel planned for a call asks for; UINT64_MAX: there is none but the
 * reference. */
uint64_t hf_device_workspace(const struct hf_fit_problem *problem, enum hf_op_id op,
                             const void *args);

/* Is there memory for a call of op lloyd with that workspace, and what it copies to the device? */
bool hf_device_has_room(const struct hf_fit *fit, uint64_t workspace);

/* Rows that are read panel by panel (rows.reader): let those panels stay that there is memory for
 * beside the calls of ops assign and update, whose other arguments are on the device already. */
hf_status hf_device_cache_panels(struct hf_fit *fit);

#endif
