/* SPDX-License-Identifier: Apache-2.0
 * What the calls of op assign in the parts of a fit have in common. */
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/loop/clusters.h"
#include "core/kernel.h"
#include <string.h>

void hf_note_kernel(const struct hf_fit *fit, int op, char name[64]) {
    const struct hf_kernel *kernel = fit->ctx->last_kernel[op];
    if (!name[0] && kernel)
        strncpy(name, kernel->name, 63);
}

struct hf_assign_args hf_lloyd_args(const struct hf_fit *fit, const hf_array *panel, int64_t first,
                                    const struct hf_assign_bounds *bounds,
                                    struct hf_assign_bounds *own, struct hf_assign_stats *stats) {
    struct hf_assign_args args = {.x = *panel,
                                  .c = hf_centers(fit, fit->current),
                                  .metric = fit->opts.metric,
                                  .exact = fit->opts.precision == HF_EXACT,
                                  .filter = fit->filter,
                                  .kept = fit->kept,
                                  .kept_first = first,
                                  .labels = fit->labels + first,
                                  .stats = stats};
    if (bounds) {
        *own = *bounds;
        own->upper += first;
        own->lower += first;
        args.bounds = own;
    }
    return args;
}
