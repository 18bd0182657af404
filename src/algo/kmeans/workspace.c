/* SPDX-License-Identifier: Apache-2.0
 * All memory of the iterations, taken before they begin, within the context's limit. Labels and one
 * set of centroids become the result's and are not counted. */
#include "algo/kmeans/fit.h"
#include "algo/kmeans/init.h"
#include "base/mem.h"
#include "core/plan.h"
#include "ops/inertia/inertia.h"
#include "ops/seed/seed.h"
#include "ops/update/update.h"
#include <string.h>

#define FUSED_BYTES                                                                                \
    ((int64_t)512 << 10) /* sums up to this size stay in cache while rows are assigned */
#define MOVER_BYTES ((int64_t)256 << 10)  /* rows that leave their clusters at once */
#define CHUNK_BYTES ((uint64_t)128 << 20) /* most that one read asks for */
#define KEEP_ITERATIONS 3                 /* fewer do not pay for packed rows */
#define KERNEL_BYTES ((uint64_t)16 << 20) /* left for kernels at least, where there is room */
#define PANEL_STEP 64                     /* rows: tiles are whole */
#define ROUND_CENTROIDS 3 /* times k: candidates of a round of k-means||, which wants 2 k */

struct panel_job {
    hf_rows_fn *fn;
    void *job;
    int64_t most;
};

hf_array hf_panel(const hf_array *chunk, int64_t first, int64_t count) {
    hf_array panel = *chunk;
    const int64_t stride = chunk->row_stride ? chunk->row_stride : chunk->cols;
    panel.data = (char *)chunk->data + (size_t)(first * stride) * hf_dtype_bytes(chunk->dtype);
    panel.rows = count;
    return panel;
}

bool hf_memory_is_rigid(const hf_context *ctx, hf_precision precision) {
    return precision == HF_FAST && hf_ctx_is_host(ctx);
}

int64_t hf_panel_most(const hf_context *ctx, hf_precision precision, int64_t d, hf_dtype dtype) {
    const int64_t fit = HF_PANEL_BYTES / (d * (int64_t)hf_dtype_bytes(dtype));
    const int64_t whole = fit < PANEL_STEP ? fit : fit / PANEL_STEP * PANEL_STEP;
    return hf_memory_is_rigid(ctx, precision) ? hf_min64(HF_PANEL_ROWS, whole < 1 ? 1 : whole)
                                              : HF_PANEL_ROWS;
}

static hf_status cut_chunk(void *job, const hf_array *chunk, int64_t first) {
    const struct panel_job *p = job;
    for (int64_t at = 0; at < chunk->rows; at += p->most) {
        const hf_array panel = hf_panel(chunk, at, hf_min64(p->most, chunk->rows - at));
        HF_TRY(p->fn(p->job, &panel, first + at));
    }
    return HF_OK;
}

hf_status hf_panels_each(const struct hf_rows *rows, int64_t most, hf_rows_fn *fn, void *job) {
    struct panel_job p = {.fn = fn, .job = job, .most = most};
    return hf_rows_each(rows, cut_chunk, &p);
}

static void carve_movers(struct hf_fit *fit, hf_carve *carve) {
    struct hf_movers *m = &fit->movers;
    const size_t k = (size_t)fit->k;
    const int64_t room = MOVER_BYTES / (fit->d * (int64_t)sizeof(double));
    m->room = room < 1 ? 1 : hf_min64(room, fit->k);
    const size_t rows = (size_t)m->room;
    m->x = hf_carve_take(carve, rows * (size_t)fit->d * sizeof(double));
    m->weights = fit->weights ? hf_carve_take(carve, rows * sizeof(double)) : NULL;
    m->index = hf_carve_take(carve, rows * sizeof(int64_t));
    m->from = hf_carve_take(carve, rows * sizeof(int32_t));
    m->to = hf_carve_take(carve, rows * sizeof(int32_t));
    m->count_left = hf_carve_take(carve, k * sizeof(int64_t));
    m->weight_left =
        fit->weights ? hf_carve_take(carve, (size_t)fit->sums.limbs * k * sizeof(int64_t)) : NULL;
}

/* What does not depend on the chunk: measured with carve->base == NULL, then taken. False when a
 * size overflows. */
static bool carve_fixed(struct hf_fit *fit, hf_carve *carve) {
    struct hf_sums *s = &fit->sums;
    size_t centers;
    size_t sums;
    if (!hf_mul3_size(fit->k, fit->d, 2 * (int64_t)hf_dtype_bytes(fit->center_type), &centers) ||
        !hf_mul3_size(fit->k, fit->d, s->limbs * (int64_t)sizeof(int64_t), &sums))
        return false;
    const size_t k = (size_t)fit->k;
    fit->start = hf_carve_take(carve, centers);
    fit->current = fit->start;
    fit->previous = fit->start ? (char *)fit->start + centers / 2 : NULL;
    s->sum = hf_carve_take(carve, sums);
    s->count = hf_carve_take(carve, k * sizeof(int64_t));
    s->weight = fit->weights ? hf_carve_take(carve, k * (size_t)s->limbs * sizeof(int64_t)) : NULL;
    fit->panel_labels =
        hf_carve_take(carve, (size_t)hf_min64(fit->n, fit->panel_rows) * sizeof(int32_t));
    hf_skip_carve(&fit->skip, carve, fit->k);
    if (fit->opts.empty == HF_EMPTY_RELOCATE) {
        fit->far = hf_carve_take(carve, k * sizeof(struct hf_far_row));
        fit->relocated = hf_carve_take(carve, k * sizeof(struct hf_moved_row));
        fit->panel_distances =
            hf_carve_take(carve, (size_t)hf_min64(fit->n, fit->scan_rows) * sizeof(double));
        carve_movers(fit, carve);
    }
    if (fit->opts.empty == HF_EMPTY_SPLIT)
        fit->share = hf_carve_take(carve, k * sizeof(int64_t));
    return true;
}

/* The float64 start lies over both sets of centroids: for F64 over the first, for F32 over the two.
 */
static uint64_t init_bytes(const struct hf_fit *fit) {
    const struct hf_init_args args = {.k = fit->k, .init = fit->opts.init};
    return fit->opts.init == HF_INIT_GIVEN ? 0 : hf_kmeans_init_bytes(&fit->rows, &args);
}

/* What the data need anyway: reading in chunks, or copying where rows are left out. */
static bool is_buffered(const struct hf_fit *fit) {
    return fit->source || fit->rows.dropped_count > 0;
}

struct plan {
    uint64_t kernels; /* bytes of workspace */
    uint64_t nearest; /* bytes of two float32 or one float64 a row */
    uint64_t chunk;
    bool keep_bounds;
    uint64_t kept; /* bytes of packed rows; 0: none are kept */
};

static hf_status too_much(const struct hf_fit *fit, uint64_t needed) {
    return hf_ctx_fail(fit->ctx, HF_E_NOMEM,
                       "k-means with %lld rows, %lld columns and %lld clusters needs %llu bytes "
                       "beside data, labels and centroids, but memory_bytes allows %llu: raise it, "
                       "or ask for fewer clusters%s or another init",
                       (long long)fit->n, (long long)fit->d, (long long)fit->k,
                       (unsigned long long)needed, (unsigned long long)fit->ctx->memory_bytes,
                       fit->opts.precision == HF_FAST ? ", exact labels" : "");
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

/* Must there be a float64 for each row? Where a core is drawn the start does without, at the price
 * of passes over the data. */
static bool needs_nearest(const struct hf_fit *fit) {
    const bool core = hf_ctx_is_host(fit->ctx) && hf_kmeans_init_from_core(&fit->rows, fit->k);
    return (seeds(fit) && !core) || (is_rigid(fit) && wants_bounds(fit));
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

static uint64_t assign_bytes(struct hf_fit *fit, const hf_array *panel, int64_t k) {
    struct hf_assign_bounds all = {.valid = true, .sweep = true, .n_moved = k};
    const struct hf_assign_args args = {.x = *panel,
                                        .c = hf_array_view(NULL, fit->center_type, k, fit->d),
                                        .metric = fit->opts.metric,
                                        .exact = fit->opts.precision == HF_EXACT,
                                        .filter = fit->filter,
                                        .bounds = wants_bounds(fit) ? &all : NULL,
                                        .weights = fit->fused ? fit->weights : NULL,
                                        .sums = fit->fused ? &fit->sums : NULL};
    return hf_plan_workspace(fit->ctx, HF_OP_ASSIGN, &args);
}

static uint64_t seed_bytes(const struct hf_fit *fit, const hf_array *panel) {
    const struct hf_seed_args args = {
        .x = *panel,
        .candidates = hf_array_view(NULL, HF_F64, hf_init_trials(fit->k), fit->d),
        .metric = fit->opts.metric,
        .weights = fit->weights,
        .filter = fit->filter};
    return hf_plan_workspace(fit->ctx, HF_OP_SEED, &args);
}

/* The most workspace that a call of a kernel asks for once the fit has its memory. */
static uint64_t kernel_bytes(struct hf_fit *fit) {
    const int64_t rows = hf_min64(fit->n, fit->panel_rows);
    const hf_array panel = hf_array_view(NULL, fit->dtype, rows, fit->d);
    const struct hf_update_args update = {
        .x = panel, .metric = fit->opts.metric, .sums = &fit->sums};
    const struct hf_inertia_args inertia = {
        .x = panel,
        .c = hf_array_view(NULL, fit->center_type, fit->k, fit->d),
        .metric = fit->opts.metric};
    const bool rounds = fit->opts.init == HF_INIT_KMEANS_PARALLEL;
    const uint64_t each[] = {assign_bytes(fit, &panel, fit->k * (rounds ? ROUND_CENTROIDS : 1)),
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
    return bytes <= left / 2 && (!hf_ctx_is_host(fit->ctx) || bytes + data_bytes(fit) <= left);
}

/* Packed rows spare each iteration their packing: kept where all rows lie in memory. */
static uint64_t kept_bytes(const struct hf_fit *fit, uint64_t left) {
    if (!hf_ctx_is_host(fit->ctx) || is_buffered(fit) || fit->opts.max_iter < KEEP_ITERATIONS)
        return 0;
    const uint64_t bytes = hf_assign_kept_bytes(fit->n, fit->d);
    return affords(fit, bytes, left) ? bytes : 0;
}

/* What the first look at the data has left: statistics of columns, weights, rows left out. */
static uint64_t prepared_bytes(const struct hf_fit *fit) {
    return (uint64_t)fit->d * HF_COLUMN_ARRAYS * sizeof(double) +
           (fit->weights ? (uint64_t)fit->n * sizeof(double) : 0) +
           (uint64_t)fit->rows.dropped_count * sizeof(int64_t);
}

/* Kernels are planned within what remains of the limit. */
static void plan_kernels(struct hf_fit *fit, uint64_t held, struct plan *plan) {
    if (!hf_ctx_is_host(fit->ctx))
        return;
    fit->ctx->held_bytes = held;
    plan->kernels = kernel_bytes(fit);
}

/* What must be, with the workspace of the kernels. *left: of the limit, for buffer, bounds and
 * packed rows; at least least_chunk(). */
static hf_status plan_needed(struct hf_fit *fit, size_t carved, uint64_t *left, struct plan *plan) {
    const uint64_t limit = hf_ctx_is_host(fit->ctx) ? fit->ctx->memory_bytes : INT64_MAX;
    const uint64_t least = least_chunk(fit);
    uint64_t needed = carved + init_bytes(fit) + prepared_bytes(fit);
    plan->nearest = seeds(fit) || needs_nearest(fit) ? nearest_bytes(fit) : 0;
    plan_kernels(fit, needed + plan->nearest + least, plan);
    if (needed + plan->nearest + least + plan->kernels > limit && !needs_nearest(fit)) {
        plan->nearest = 0;
        plan_kernels(fit, needed + least, plan);
    }
    needed += plan->nearest + plan->kernels;
    if (needed + least > limit)
        return too_much(fit, needed + least);
    *left = limit - needed;
    if (*left > 2 * KERNEL_BYTES && plan->kernels < KERNEL_BYTES) {
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
        fit->opts.init == HF_INIT_GIVEN ? 0 : hf_kmeans_init_away_bytes(&fit->rows, &args);
    const uint64_t kernel =
        fit->rows.reader ? hf_plan_workspace(fit->ctx, HF_OP_ASSIGN, &assign) : 0;
    const uint64_t most = start > kernel ? start : kernel;
    return most > fit->ctx->memory_bytes ? too_much(fit, most) : HF_OK;
}

/* Divide the limit: what must be, then bounds and packed rows if they are affordable, then the
 * chunk. All of this is the host's memory, which the limit of another device does not speak of. */
static hf_status plan_memory(struct hf_fit *fit, size_t carved, struct plan *plan) {
    const uint64_t row = (uint64_t)fit->d * hf_dtype_bytes(fit->dtype);
    uint64_t left = 0;
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
    if (hf_ctx_is_host(fit->ctx)) {
        fit->ctx->held_bytes =
            fit->ctx->memory_bytes - plan->kernels - left + plan->chunk + plan->kept;
        hf_workspace_trim(fit->ctx, plan->kernels);
    }
    return HF_OK;
}

static void carve_kept(struct hf_fit *fit, hf_carve *carve, size_t bytes) {
    if (bytes == 0)
        return;
    fit->kept = hf_carve_take(carve, sizeof(*fit->kept));
    *fit->kept = (struct hf_assign_kept){.data = hf_carve_take(carve, bytes), .rows = fit->n};
}

hf_status hf_fit_workspace(struct hf_fit *fit) {
    hf_carve carve = {0};
    struct plan plan = {0};
    if (!carve_fixed(fit, &carve))
        return too_much(fit, UINT64_MAX);
    fit->fused = hf_ctx_is_host(fit->ctx) &&
                 fit->k * fit->d * fit->sums.limbs <= FUSED_BYTES / (int64_t)sizeof(int64_t);
    if (fit->fused)
        memcpy(fit->kernel_update, "fused", sizeof("fused"));
    if (!hf_ctx_is_host(fit->ctx))
        HF_TRY(check_device(fit));
    HF_TRY(plan_memory(fit, carve.used, &plan));
    const uint64_t row = (uint64_t)fit->d * hf_dtype_bytes(fit->dtype);
    const size_t total = carve.used + hf_align_up((size_t)plan.nearest) +
                         hf_align_up((size_t)(plan.chunk / row * row)) +
                         hf_align_up((size_t)plan.kept) +
                         hf_align_up(sizeof(struct hf_assign_kept)) + HF_ALIGN;
    fit->block = hf_alloc(total);
    size_t centers;
    const bool fits =
        hf_mul3_size(fit->k, fit->d, (int64_t)hf_dtype_bytes(fit->center_type), &centers);
    fit->best = fits ? hf_alloc(centers) : NULL;
    fit->labels = hf_alloc((size_t)fit->n_all * sizeof(int32_t));
    if (!fit->block || !fit->best || !fit->labels)
        return hf_ctx_fail(fit->ctx, HF_E_NOMEM,
                           "the system gave no memory for %llu bytes of workspace, %lld labels and "
                           "%lld centroids",
                           (unsigned long long)total, (long long)fit->n_all, (long long)fit->k);
    carve = (hf_carve){.base = fit->block};
    carve_fixed(fit, &carve);
    fit->nearest = plan.nearest ? hf_carve_take(&carve, (size_t)plan.nearest) : NULL;
    fit->rows.chunk_rows = hf_min64(fit->n, fit->panel_rows);
    if (plan.chunk > 0) {
        fit->rows.chunk_rows = (int64_t)(plan.chunk / row);
        fit->rows.buffer = hf_carve_take(&carve, (size_t)(plan.chunk / row * row));
    }
    carve_kept(fit, &carve, (size_t)plan.kept);
    fit->skip.kept = plan.keep_bounds;
    fit->skip.bounds.upper = (float *)fit->nearest;
    fit->skip.bounds.lower = fit->nearest ? (float *)fit->nearest + fit->n : NULL;
    fit->held_bytes = total + prepared_bytes(fit);
    return HF_OK;
}

void hf_fit_free(struct hf_fit *fit) {
    fit->ctx->held_bytes = 0;
    hf_resident_clear(fit->ctx, &fit->resident);
    hf_free(fit->dropped);
    hf_free(fit->weights);
    hf_free(fit->col.block);
    hf_free(fit->block);
    hf_free(fit->labels);
    hf_free(fit->best);
}
