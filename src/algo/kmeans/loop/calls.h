/* SPDX-License-Identifier: Apache-2.0
 * What the calls of op assign in the parts of a fit have in common. */
#ifndef HF_KMEANS_CALLS_H
#define HF_KMEANS_CALLS_H

#include "algo/kmeans/fit.h"

/* Arguments to assign rows [first, first + panel->rows) to fit->centers.current. bounds are those
 * of all rows, or NULL; *own is where those of the panel go. */
struct hf_assign_args hf_lloyd_args(const struct hf_fit *fit, const hf_array *panel, int64_t first,
                                    const struct hf_assign_bounds *bounds,
                                    struct hf_assign_bounds *own, struct hf_assign_stats *stats);
/* What may be behind arithmetic that contradicts itself: the end of a message. */
const char *hf_suspects(const struct hf_fit_problem *problem);
/* Record which kernel last served an op, unless one is recorded. */
void hf_note_kernel(const struct hf_fit_problem *problem, int op, char name[64]);

/* Rows of x that stay in the caches of all workers until a second pass has read them; all of them
 * where the device is not the host. */
int64_t hf_cached_rows(const hf_context *ctx, const hf_array *x);

#endif
