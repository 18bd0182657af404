/* SPDX-License-Identifier: Apache-2.0
 * What the calls of op assign in the parts of a fit have in common. */
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/loop/clusters.h"
#include "core/kernel.h"
#include "base/dtype.h"
#include "base/mem.h"
#include <string.h>

#define CACHED_BYTES (INT64_C(512) << 10) /* of rows, for each worker */

void hf_note_kernel(const struct hf_fit_problem *problem, int op, char name[64]) {
    const struct hf_kernel *kernel = problem->ctx->last_kernel[op];
    if (!name[0] && kernel)
        strncpy(name, kernel->name, 63);
}

struct hf_assign_args hf_lloyd_args(const struct hf_fit *fit, const hf_array *panel, int64_t first,
                                    const struct hf_assign_bounds *bounds,
                                    struct hf_assign_bounds *own, struct hf_assign_stats *stats) {
    struct hf_assign_args args = {.x = *panel,
                                  .c = hf_centers(&fit->problem, fit->centers.current),
                                  .metric = fit->problem.opts.metric,
                                  .exact = fit->problem.opts.precision == HF_EXACT,
                                  .filter = fit->frame.filter,
                                  .packed = fit->work.packed,
                                  .packed_first = first,
                                  .labels = fit->labels.host + first,
                                  .stats = stats};
    if (fit->work.labelled && (fit->ledger.block || !hf_ctx_is_host(fit->problem.ctx)))
        args.before = hf_centers(&fit->problem, fit->centers.previous);
    if (bounds) {
        *own = *bounds;
        own->upper += first;
        own->lower += first;
        args.bounds = own;
    }
    return args;
}

const char *hf_suspects(const struct hf_fit_problem *problem) {
    return problem->source
               ? "the source gave other rows than before, or the machine or a kernel "
                 "computes wrongly"
               : "the rows in memory were changed meanwhile, or the machine or a kernel "
                 "computes wrongly";
}

int64_t hf_cached_rows(const hf_context *ctx, const hf_array *x) {
    const int64_t row = x->cols * (int64_t)hf_dtype_bytes(x->dtype);
    return hf_ctx_is_host(ctx) ? hf_min64(x->rows, 1 + CACHED_BYTES * ctx->props.workers / row)
                               : x->rows;
}
