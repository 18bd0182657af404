/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/loop/device_memory.h"
#include "algo/kmeans/loop/calls.h"
#include "core/kernel.h"
#include "core/plan.h"
#include "rows/reader.h"
#include "ops/update/update.h"

#define SMALL_BYTES ((uint64_t)1 << 20) /* counters and the like, in pieces of a device's memory */

uint64_t hf_device_workspace(const struct hf_fit_problem *problem, enum hf_op_id op,
                             const void *args) {
    const struct hf_kernel *kernel = NULL;
    if (hf_plan(problem->ctx, op, args, &kernel, NULL) != HF_OK ||
        (kernel->traits & HF_TRAIT_REFERENCE))
        return UINT64_MAX;
    return hf_kernel_workspace(problem->ctx, kernel, args);
}

bool hf_device_has_room(const struct hf_fit *fit, uint64_t workspace) {
    const struct hf_fit_problem *problem = &fit->problem;
    const uint64_t held = problem->ctx->workspace_bytes; /* stays, unless more is wanted */
    const uint64_t labels = fit->labels.device ? 0 : sizeof(int32_t);
    const uint64_t rows = (uint64_t)problem->n * (labels + (fit->weights.scaled ? 8 : 0));
    const uint64_t small = 4 * (uint64_t)(problem->k * problem->d) * sizeof(double) + SMALL_BYTES;
    const uint64_t needed = (workspace > held ? workspace : held) + rows + small;
    const uint64_t room = hf_ctx_room(problem->ctx) + held;
    return needed <= room;
}

hf_status hf_device_cache_panels(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_assign_stats stats;
    struct hf_assign_bounds own;
    const hf_array panel = hf_array_view(NULL, problem->dtype, fit->data.panel_rows, problem->d);
    struct hf_assign_args assign =
        hf_lloyd_args(fit, &panel, 0, fit->skip.allocated ? &fit->skip.bounds : NULL, &own, &stats);
    const struct hf_update_args update = {.x = panel,
                                          .metric = problem->opts.metric,
                                          .weights = fit->weights.scaled,
                                          .old_labels = fit->labels.host,
                                          .labels = fit->labels.host,
                                          .sums = &fit->centers.sums};
    const uint64_t a = hf_device_workspace(problem, HF_OP_ASSIGN, &assign);
    const uint64_t u = hf_device_workspace(problem, HF_OP_UPDATE, &update);
    if (a == UINT64_MAX || u == UINT64_MAX)
        return HF_OK;
    const uint64_t staged = (uint64_t)fit->data.panel_rows * 32; /* weights, bounds, labels */
    return hf_reader_cache(fit->data.rows.reader, (a > u ? a : u) + staged + SMALL_BYTES);
}
