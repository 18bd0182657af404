/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/memory_plan.h"
#include "algo/kmeans/fit.h"
#include "algo/kmeans/init/init.h"
#include "algo/kmeans/loop/calls.h"
#include "algo/kmeans/panel_rows.h"
#include "base/mem.h"
#include "core/plan.h"
#include "ops/inertia/inertia.h"
#include "ops/seed/seed.h"
#include "ops/update/update.h"

#define CHUNK_BYTES ((uint64_t)128 << 20) /* most that one read asks for */
#define KEEP_ITERATIONS 3                 /* fewer do not pay for packed rows */
#define KERNEL_BYTES ((uint64_t)16 << 20) /* left for kernels at least, where there is room */

static uint64_t init_bytes(const struct hf_fit *fit) {
    const struct hf_init_args args = {.k = fit->k, .init = fit->opts.init};
    return fit->opts.init == HF_INIT_GIVEN ? 0 : hf_kmeans_init_bytes(&fit->rows, &args);
}

/* What the data need anyway: reading in chunks, or copying where rows are left out. */
static bool is_buffered(const struct hf_fit *fit) {
    return fit->source || fit->rows.dropped_count > 0;
}

hf_status hf_memory_too_little(const struct hf_fit *fit, uint64_t needed) {
    return hf_ctx_fail(fit->ctx, HF_E_NOMEM,
                       "k-means with %lld rows, %lld columns and %lld clusters needs %llu bytes "
                       "beside data, labels and centroids, but memory_bytes allows %llu: raise it, "
                       "or ask for fewer clusters%s or another init",
                       (long long)fit->n, (long long)fit->d, (long long)fit->k,
                       (unsigned long long)needed, (unsigned long long)fit->ctx->memory_bytes,
                       fit->opts.precision == HF_FAST ? ", exact labels, no work skipping" : "");
}

static bool seeds(const struct hf_fit *fit) {
    return fit->opts.init == HF_INIT_KMEANSPP || fit->opts.init == HF_INIT_KMEANS_PARALLEL;
}

static bool wants_bounds(const struct hf_fit *fit) {
    return fit->opts.skipping != HF_SKIP_OFF && fit->opts.metric == HF_EUCLIDEAN &&
           fit->opts.max_iter > 1;
}

static bool is_rigid(const struct hf_fit *fit) {
    return hf_memory_is_rigid(fit->ctx, fit->opts.precision);
}

/* Must there be a float64 for each row? */
static bool needs_nearest(const struct hf_fit *fit) {
    return seeds(fit) || (is_rigid(fit) && wants_bounds(fit));
}

static uint64_t nearest_bytes(const struct hf_fit *fit) {
    return (uint64_t)fit->n * sizeof(double);
}

/* Bytes of the rows that are read at once, or of a part of them: a row, or a panel. */
static uint64_t least_chunk(const struct hf_fit *fit) {
    const uint64_t row = (uint64_t)fit->d * hf_dtype_bytes(fit->dtype);
    const uint64_t rows = is_rigid(fit) ? (uint64_t)hf_min64(fit->n, fit->panel_rows) : 1;
    return is_buffered(fit) ? rows * row : 0;
}

static uint64_t assign_bytes(const struct hf_fit *fit, const hf_array *panel,
                             struct hf_sums *sums) {
    struct hf_assign_bounds all = {.valid = true, .sweep = true, .n_moved = fit->k};
    const struct hf_assign_args args = {.x = *panel,
                                        .c = hf_array_view(NULL, fit->center_type, fit->k, fit->d),
                                        .metric = fit->opts.metric,
                                        .exact = fit->opts.precision == HF_EXACT,
                                        .filter = fit->filter,
                                        .bounds = wants_bounds(fit) ? &all : NULL,
                                        .weights = fit->fused ? fit->weights : NULL,
                                        .sums = fit->fused ? sums : NULL};
    return hf_plan_workspace(fit->ctx, HF_OP_ASSIGN, &args);
}

static uint64_t seed_bytes(const struct hf_fit *fit, const hf_array *panel) {
    const bool rounds = fit->opts.init == HF_INIT_KMEANS_PARALLEL;
    const int64_t candidates = rounds ? hf_init_round_most(fit->k) : hf_init_trials(fit->k);
    const struct hf_seed_args args = {.x = *panel,
                                      .candidates = hf_array_view(NULL, HF_F64, candidates, fit->d),
                                      .metric = fit->opts.metric,
                                      .weights = hf_start_weights(fit),
                                      .filter = fit->filter};
    return hf_plan_workspace(fit->ctx, HF_OP_SEED, &args);
}

/* The most workspace that a call of a kernel asks for once the fit has its memory. */
static uint64_t kernel_bytes(const struct hf_fit *fit) {
    int64_t weight = 0; /* stands for sums that are not there yet: workers will have their own */
    struct hf_sums sums = fit->sums;
    sums.weight = fit->weights ? &weight : NULL;
    const int64_t rows = hf_min64(fit->n, fit->panel_rows);
    const hf_array panel = hf_array_view(NULL, fit->dtype, rows, fit->d);
    const struct hf_update_args update = {.x = panel, .metric = fit->opts.metric, .sums = &sums};
    const struct hf_inertia_args inertia = {
        .x = panel,
        .c = hf_array_view(NULL, fit->center_type, fit->k, fit->d),
        .metric = fit->opts.metric};
    const uint64_t each[] = {assign_bytes(fit, &panel, &sums),
                             hf_plan_workspace(fit->ctx, HF_OP_UPDATE, &update),
                             hf_plan_workspace(fit->ctx, HF_OP_INERTIA, &inertia),
                             seeds(fit) ? seed_bytes(fit, &panel) : 0};
    uint64_t most = 0;
    for (size_t i = 0; i < sizeof each / sizeof *each; i++)
        most = each[i] > most ? each[i] : most;
    return most;
}

/* Bytes of rows that lie in memory as they are. */
static uint64_t data_bytes(const struct hf_fit *fit) {
    return is_buffered(fit) ? 0 : (uint64_t)(fit->n * fit->d) * hf_dtype_bytes(fit->dtype);
}

/* What is not needed but saves time may take half of what is left of the limit, and none that the
 * data need. */
static bool affords(const struct hf_fit *fit, uint64_t bytes, uint64_t left) {
    return bytes <= left / 2 && bytes + data_bytes(fit) <= left;
}

/* Packed rows spare each iteration their packing: kept where all rows lie in memory. */
static uint64_t kept_bytes(const struct hf_fit *fit, uint64_t left) {
    if (!hf_assign_keeps(fit->ctx) || is_buffered(fit) || fit->opts.max_iter < KEEP_ITERATIONS)
        return 0;
    const uint64_t bytes = hf_assign_kept_bytes(fit->n, fit->d);
    return affords(fit, bytes, left) ? bytes : 0;
}

uint64_t hf_prepared_bytes(const struct hf_fit *fit) {
    return (uint64_t)fit->d * HF_COLUMN_ARRAYS * sizeof(double) +
           (fit->given ? (uint64_t)fit->n * sizeof(double) : 0) +
           (fit->weights != fit->given ? (uint64_t)fit->n * sizeof(double) : 0) +
           (fit->pull ? (uint64_t)fit->n * sizeof(double) : 0) +
           (uint64_t)fit->rows.dropped_count * sizeof(int64_t);
}

/* Kernels are planned within what remains of the limit. */
static void plan_kernels(struct hf_fit *fit, uint64_t held, struct hf_memory_plan *plan) {
    if (hf_ctx_hold(fit->ctx, held))
        plan->kernels = kernel_bytes(fit);
}

/* What must be, with the workspace of the kernels. *left: of the limit, for buffer, bounds and
 * packed rows; at least least_chunk(). */
static hf_status plan_needed(struct hf_fit *fit, size_t carved, uint64_t *left,
                             struct hf_memory_plan *plan) {
    const uint64_t limit = hf_ctx_host_limit(fit->ctx);
    const uint64_t least = least_chunk(fit);
    uint64_t needed = carved + init_bytes(fit) + hf_prepared_bytes(fit);
    plan->nearest = needs_nearest(fit) ? nearest_bytes(fit) : 0;
    plan_kernels(fit, needed + plan->nearest + least, plan);
    needed += plan->nearest + plan->kernels;
    if (needed + least > limit)
        return hf_memory_too_little(fit, needed + least);
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
    const struct hf_init_args args = {.k = fit->k, .init = fit->opts.init};
    struct hf_assign_stats stats;
    const hf_array panel =
        hf_array_view(NULL, fit->dtype, hf_min64(fit->n, fit->panel_rows), fit->d);
    const struct hf_assign_args assign = hf_lloyd_args(fit, &panel, 0, NULL, NULL, &stats);
    const uint64_t start =
        fit->opts.init == HF_INIT_GIVEN ? 0 : hf_kmeans_init_device_bytes(&fit->rows, &args);
    const uint64_t kernel =
        fit->rows.reader ? hf_plan_workspace(fit->ctx, HF_OP_ASSIGN, &assign) : 0;
    const uint64_t most = start > kernel ? start : kernel;
    return most > hf_ctx_device_limit(fit->ctx) ? hf_memory_too_little(fit, most) : HF_OK;
}

hf_status hf_memory_plan(struct hf_fit *fit, size_t carved, struct hf_memory_plan *plan) {
    const uint64_t row = (uint64_t)fit->d * hf_dtype_bytes(fit->dtype);
    const uint64_t limit = hf_ctx_host_limit(fit->ctx);
    uint64_t left = 0;
    *plan = (struct hf_memory_plan){0};
    HF_TRY(check_device(fit));
    HF_TRY(plan_needed(fit, carved, &left, plan));
    const uint64_t least = least_chunk(fit);
    if (wants_bounds(fit) && plan->nearest == 0 && affords(fit, nearest_bytes(fit), left - least)) {
        plan->nearest = nearest_bytes(fit);
        left -= plan->nearest;
    }
    plan->keep_bounds = wants_bounds(fit) && plan->nearest > 0;
    plan->kept = kept_bytes(fit, left);
    const uint64_t all = (uint64_t)fit->n * row;
    plan->chunk = left < CHUNK_BYTES ? left : CHUNK_BYTES;
    plan->chunk = plan->chunk < all ? plan->chunk : all;
    plan->chunk = plan->chunk < least ? least : plan->chunk;
    plan->chunk = least > 0 ? plan->chunk / least * least : 0;
    const uint64_t held = limit - plan->kernels - left + plan->chunk + plan->kept;
    if (hf_ctx_hold(fit->ctx, held))
        hf_workspace_trim(fit->ctx, plan->kernels);
    return HF_OK;
}
