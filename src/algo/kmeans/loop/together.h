/* SPDX-License-Identifier: Apache-2.0
 * A batch of small problems on a device, iterated in one call of op lloyd. */
#ifndef HF_TOGETHER_H
#define HF_TOGETHER_H

#include <holdfast/kmeans.h>
#include <stdbool.h>

/* Fit x[0..count) into fits, or those of them that the device can iterate together: done[p] says
 * which. The others, and all when it cannot, are left to be fitted one by one. opts are checked. */
hf_status hf_fit_together(hf_context *ctx, const hf_array *x, int64_t count,
                          const hf_kmeans_opts *opts, int64_t first, hf_kmeans_result *fits,
                          bool *done);

#endif
