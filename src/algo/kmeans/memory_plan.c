/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/memory_plan.h"
#include "algo/kmeans/fit.h"
#include "algo/kmeans/init/init.h"
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/guard/ledger.h"
#include "algo/kmeans/panel_rows.h"
#include "base/mem.h"
#include "core/plan.h"
#include "ops/inertia/inertia.h"
#include "ops/seed/seed.h"
#include "ops/update/update.h"

#define CHUNK_BYTES ((uint64_t)128 << 20) /* most that one read asks for */
#define KEEP_ITERATIONS 3                 /* fewer do not pay for packed rows */
#define KERNEL_BYTES ((uint64_t)16 << 20) /* left for kernels at least, where there is room */

static uint64_t init_bytes(const struct hf_fit_problem *problem, const struct hf_data *data) {
    const struct hf_init_args args = {.k = problem->k, .init = problem->opts.init};
    return problem->opts.init == HF_INIT_GIVEN ? 0 : hf_kmeans_init_bytes(&data->rows, &args);
}

/* What the data need anyway: reading in chunks, or copying where rows are left out. A reader has
 * memory of its own for both. */
static bool is_buffered(const struct hf_fit_problem *problem, const struct hf_data *data) {
    return !data->rows.reader && (problem->source || data->rows.dropped_count > 0);
}

hf_status hf_memory_too_little(const struct hf_fit_problem *problem, uint64_t needed) {
    return hf_ctx_fail(problem->ctx, HF_E_NOMEM,
                       "k-means with %lld rows, %lld columns and %lld clusters needs %llu bytes "
                       "beside data, labels and centroids, but memory_bytes allows %llu: raise it, "
                       "or ask for fewer clusters%s or another init",
                       (long long)problem->n, (long long)problem->d, (long long)problem->k,
                       (unsigned long long)needed, (unsigned long long)problem->ctx->memory_bytes,
                       problem->opts.precision == HF_FAST ? ", exact labels, no work skipping"
                                                          : "");
}

static bool seeds(const struct hf_fit_problem *problem) {
    return problem->opts.init == HF_INIT_KMEANSPP || problem->opts.init == HF_INIT_KMEANS_PARALLEL;
}

static bool wants_bounds(const struct hf_fit_problem *problem) {
    return problem->opts.skipping != HF_SKIP_OFF && problem->opts.metric == HF_EUCLIDEAN &&
           problem->opts.max_iter > 1;
}

static bool is_rigid(const struct hf_fit_problem *problem) {
    return hf_memory_is_rigid(problem->ctx, problem->opts.precision);
}

/* Must there be a float64 for each row? */
static bool needs_nearest(const struct hf_fit_problem *problem) {
    return seeds(problem) || (is_rigid(problem) && wants_bounds(problem));
}

static uint64_t nearest_bytes(const struct hf_fit_problem *problem) {
    return (uint64_t)problem->n * sizeof(double);
}

/* Bytes of the rows that are read at once, or of a part of them: a row, or a panel. */
static uint64_t least_chunk(const struct hf_fit_problem *problem, const struct hf_data *data) {
    const uint64_t row = (uint64_t)problem->d * hf_dtype_bytes(problem->dtype);
    const uint64_t rows = is_rigid(problem) ? (uint64_t)hf_min64(problem->n, data->panel_rows) : 1;
    return is_buffered(problem, data) ? rows * row : 0;
}

static uint64_t assign_bytes(const struct hf_fit *fit, const hf_array *panel,
                             struct hf_sums *sums) {
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_assign_bounds all = {.valid = true, .sweep = true, .n_moved = problem->k};
    const struct hf_assign_args args = {
        .x = *panel,
        .c = hf_array_view(NULL, problem->center_type, problem->k, problem->d),
        .metric = problem->opts.metric,
        .exact = problem->opts.precision == HF_EXACT,
        .filter = fit->frame.filter,
        .bounds = wants_bounds(problem) ? &all : NULL,
        .weights = fit->work.fused ? fit->weights.scaled : NULL,
        .sums = fit->work.fused ? sums : NULL};
    return hf_plan_workspace(problem->ctx, HF_OP_ASSIGN, &args);
}

static uint64_t seed_bytes(const struct hf_fit_problem *problem, const struct hf_weights *weights,
                           const struct hf_frame *frame, const hf_array *panel) {
    const bool rounds = problem->opts.init == HF_INIT_KMEANS_PARALLEL;
    const int64_t candidates = rounds ? hf_init_round_most(problem->k) : hf_init_trials(problem->k);
    const struct hf_seed_args args = {.x = *panel,
                                      .candidates =
                                          hf_array_view(NULL, HF_F64, candidates, problem->d),
                                      .metric = problem->opts.metric,
                                      .weights = hf_start_weights(weights),
                                      .filter = frame->filter};
    return hf_plan_workspace(problem->ctx, HF_OP_SEED, &args);
}

/* The most workspace that a call of a kernel asks for once the fit has its memory. */
static uint64_t kernel_bytes(const struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    int64_t weight = 0; /* stands for sums that are not there yet: workers will have their own */
    struct hf_sums sums = fit->centers.sums;
    sums.weight = fit->weights.scaled ? &weight : NULL;
    const int64_t rows = hf_min64(problem->n, fit->data.panel_rows);
    const hf_array panel = hf_array_view(NULL, problem->dtype, rows, problem->d);
    const struct hf_update_args update = {
        .x = panel, .metric = problem->opts.metric, .sums = &sums};
    const struct hf_inertia_args inertia = {
        .x = panel,
        .c = hf_array_view(NULL, problem->center_type, problem->k, problem->d),
        .metric = problem->opts.metric};
    const uint64_t each[] = {
        assign_bytes(fit, &panel, &sums), hf_plan_workspace(problem->ctx, HF_OP_UPDATE, &update),
        hf_plan_workspace(problem->ctx, HF_OP_INERTIA, &inertia),
        seeds(problem) ? seed_bytes(problem, &fit->weights, &fit->frame, &panel) : 0};
    uint64_t most = 0;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        most = each[i] > most ? each[i] : most;
    return most;
}

/* Bytes of rows that lie in memory as they are. */
static uint64_t data_bytes(const struct hf_fit_problem *problem, const struct hf_data *data) {
    return is_buffered(problem, data)
               ? 0
               : (uint64_t)(problem->n * problem->d) * hf_dtype_bytes(problem->dtype);
}

/* What is not needed but saves time may take half of what is left of the limit, and none that the
 * data need. */
static bool affords(const struct hf_fit_problem *problem, const struct hf_data *data,
                    uint64_t bytes, uint64_t left) {
    return bytes <= left / 2 && bytes + data_bytes(problem, data) <= left;
}

/* Packed rows spare each iteration their packing: kept where all rows lie in memory. */
static uint64_t packed_bytes(const struct hf_fit_problem *problem, const struct hf_data *data,
                             uint64_t left) {
    if (!hf_assign_packs(problem->ctx) || is_buffered(problem, data) ||
        problem->opts.max_iter < KEEP_ITERATIONS)
        return 0;
    const uint64_t bytes = hf_assign_packed_bytes(problem->n, problem->d);
    return affords(problem, data, bytes, left) ? bytes : 0;
}

uint64_t hf_prepared_bytes(const struct hf_fit_problem *problem, const struct hf_weights *weights,
                           const struct hf_data *data) {
    return (uint64_t)problem->d * HF_COLUMN_ARRAYS * sizeof(double) +
           (weights->given ? (uint64_t)problem->n * sizeof(double) : 0) +
           (weights->scaled != weights->given ? (uint64_t)problem->n * sizeof(double) : 0) +
           (weights->directed ? (uint64_t)problem->n * sizeof(double) : 0) +
           (uint64_t)data->rows.dropped_count * sizeof(int64_t);
}

/* Kernels are planned within what remains of the limit. */
static void plan_kernels(struct hf_fit *fit, uint64_t held, struct hf_memory_plan *plan) {
    if (hf_ctx_hold(fit->problem.ctx, held))
        plan->kernels = kernel_bytes(fit);
}

/* What must be, with the workspace of the kernels. *left: of the limit, for buffer, bounds and
 * packed rows; at least least_chunk(). */
static hf_status plan_needed(struct hf_fit *fit, size_t carved, uint64_t *left,
                             struct hf_memory_plan *plan) {
    const uint64_t limit = hf_ctx_host_limit(fit->problem.ctx);
    const uint64_t least = least_chunk(&fit->problem, &fit->data);
    uint64_t needed = carved + init_bytes(&fit->problem, &fit->data) +
                      hf_prepared_bytes(&fit->problem, &fit->weights, &fit->data);
    plan->nearest = needs_nearest(&fit->problem) ? nearest_bytes(&fit->problem) : 0;
    plan_kernels(fit, needed + plan->nearest + least, plan);
    needed += plan->nearest + plan->kernels;
    if (needed + least > limit)
        return hf_memory_too_little(&fit->problem, needed + least);
    *left = limit - needed;
    if (*left > 2 * KERNEL_BYTES + least && plan->kernels < KERNEL_BYTES) {
        *left -= KERNEL_BYTES - plan->kernels;
        plan->kernels = KERNEL_BYTES;
    }
    return HF_OK;
}

/* What another device will be asked for in any case, before it is asked for anything: the start may
 * take minutes. Rows that are read panel by panel pass op assign, if only at the end. */
static hf_status check_device(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    const struct hf_init_args args = {.k = problem->k, .init = problem->opts.init};
    struct hf_assign_stats stats;
    const hf_array panel =
        hf_array_view(NULL, problem->dtype, hf_min64(problem->n, fit->data.panel_rows), problem->d);
    const struct hf_assign_args assign = hf_lloyd_args(fit, &panel, 0, NULL, NULL, &stats);
    const uint64_t start = problem->opts.init == HF_INIT_GIVEN
                               ? 0
                               : hf_kmeans_init_device_bytes(&fit->data.rows, &args);
    const uint64_t kernel =
        fit->data.rows.reader ? hf_plan_workspace(problem->ctx, HF_OP_ASSIGN, &assign) : 0;
    const uint64_t most = start > kernel ? start : kernel;
    return most > hf_ctx_device_limit(problem->ctx) ? hf_memory_too_little(problem, most) : HF_OK;
}

hf_status hf_memory_plan(struct hf_fit *fit, size_t carved, struct hf_memory_plan *plan) {
    const struct hf_fit_problem *problem = &fit->problem;
    const uint64_t row = (uint64_t)problem->d * hf_dtype_bytes(problem->dtype);
    const uint64_t limit = hf_ctx_host_limit(problem->ctx);
    uint64_t left = 0;
    *plan = (struct hf_memory_plan){0};
    HF_TRY(check_device(fit));
    HF_TRY(plan_needed(fit, carved, &left, plan));
    const uint64_t least = least_chunk(problem, &fit->data);
    if (wants_bounds(problem) && plan->nearest == 0 &&
        affords(problem, &fit->data, nearest_bytes(problem), left - least)) {
        plan->nearest = nearest_bytes(problem);
        left -= plan->nearest;
    }
    plan->keep_bounds = wants_bounds(problem) && plan->nearest > 0;
    plan->ledger = hf_ledger_bytes(fit);
    if (!affords(problem, &fit->data, plan->ledger, left - least))
        plan->ledger = 0;
    left -= plan->ledger;
    plan->packed = packed_bytes(problem, &fit->data, left);
    const uint64_t all = (uint64_t)problem->n * row;
    plan->chunk = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    plan->chunk = plan->chunk < all ? plan->chunk : all;
    plan->chunk = plan->chunk < least ? least : plan->chunk;
    plan->chunk = least > 0 ? plan->chunk / least * least : 0;
    const uint64_t held = limit - plan->kernels - left + plan->chunk + plan->packed;
    if (hf_ctx_hold(problem->ctx, held))
        hf_workspace_trim(problem->ctx, plan->kernels);
    return HF_OK;
}
