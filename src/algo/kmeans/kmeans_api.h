/* SPDX-License-Identifier: Apache-2.0
 * A fit inside of a public call: begun, and its result handed over. */
#ifndef HF_KMEANS_API_H
#define HF_KMEANS_API_H

#include "algo/kmeans/fit.h"

/* hf_kmeans_fit() or hf_kmeans_fit_source() inside a public call. */
hf_status hf_fit_rows(hf_context *ctx, const hf_array *x, const hf_source *source,
                      const hf_kmeans_opts *opts, hf_kmeans_result *result);
/* Look at the data and take all memory. fit: ctx, opts, x or source, n_all, k, d and types are set.
 */
hf_status hf_fit_begin(struct hf_fit *fit);
/* Move what a finished fit holds into the result. */
void hf_fit_move_result(struct hf_fit *fit, struct hf_restart *best, hf_kmeans_result *result);

#endif
