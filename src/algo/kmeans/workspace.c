/* SPDX-License-Identifier: Apache-2.0
 * All memory of the iterations, taken before they begin, within the context's limit. Labels and one
 * set of centroids become the result's and are not counted. */
#include "algo/kmeans/workspace.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/guard/ledger.h"
#include "algo/kmeans/guard/update_twice.h"
#include "algo/kmeans/memory_plan.h"
#include "algo/kmeans/loop/skip.h"
#include "base/mem.h"
#include <string.h>

#define MOVER_BYTES ((int64_t)256 << 10) /* rows that leave their clusters at once */

static void carve_movers(struct hf_fit *fit, hf_carve *carve) {
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_movers *m = &fit->refill.movers;
    const size_t k = (size_t)problem->k;
    const int64_t room = MOVER_BYTES / (problem->d * (int64_t)sizeof(double));
    m->room = room < 1 ? 1 : hf_min64(room, problem->k);
    const size_t rows = (size_t)m->room;
    m->x = hf_carve_take(carve, rows * (size_t)problem->d * sizeof(double));
    m->weights = fit->weights.scaled ? hf_carve_take(carve, rows * sizeof(double)) : NULL;
    m->index = hf_carve_take(carve, rows * sizeof(int64_t));
    m->from = hf_carve_take(carve, rows * sizeof(int32_t));
    m->to = hf_carve_take(carve, rows * sizeof(int32_t));
    m->count_left = hf_carve_take(carve, k * sizeof(int64_t));
    m->weight_left =
        fit->weights.scaled
            ? hf_carve_take(carve, (size_t)fit->centers.sums.limbs * k * sizeof(int64_t))
            : NULL;
}

/* sums: bytes of those of all clusters. */
static void carve_light(struct hf_fit *fit, hf_carve *carve, size_t sums) {
    struct hf_sums *s = &fit->light.sums;
    const size_t k = (size_t)fit->problem.k;
    *s = fit->centers.sums;
    fit->light.cluster = hf_carve_take(carve, k * sizeof *fit->light.cluster);
    s->sum = hf_carve_take(carve, sums);
    s->count = hf_carve_take(carve, k * sizeof(int64_t));
    s->weight = hf_carve_take(carve, k * (size_t)s->limbs * sizeof(int64_t));
}

/* What is as long as a panel: measured with carve->base == NULL, then taken. */
static void carve_panel(const struct hf_fit_problem *problem, struct hf_work *work,
                        const struct hf_data *data, hf_carve *carve) {
    work->panel_labels =
        hf_carve_take(carve, (size_t)hf_min64(problem->n, data->panel_rows) * sizeof(int32_t));
    if (problem->opts.empty == HF_EMPTY_SPLIT || problem->opts.empty == HF_EMPTY_RELOCATE)
        work->panel_distances =
            hf_carve_take(carve, (size_t)hf_min64(problem->n, data->scan_rows) * sizeof(double));
}

/* What depends on neither panel nor chunk, likewise: close together, for a device's panel may be
 * all rows, and a huge page costs 0.1 ms when it is first written. False when a size overflows. */
static bool carve_fixed(struct hf_fit *fit, hf_carve *carve) {
    const struct hf_fit_problem *problem = &fit->problem;
    struct hf_sums *s = &fit->centers.sums;
    size_t centers;
    size_t sums;
    if (!hf_mul3_size(problem->k, problem->d, 2 * (int64_t)hf_dtype_bytes(problem->center_type),
                      &centers) ||
        !hf_mul3_size(problem->k, problem->d, s->limbs * (int64_t)sizeof(int64_t), &sums))
        return false;
    const size_t k = (size_t)problem->k;
    fit->centers.start = hf_carve_take(carve, centers);
    fit->centers.current = fit->centers.start;
    fit->centers.previous = fit->centers.start ? (char *)fit->centers.start + centers / 2 : NULL;
    s->sum = hf_carve_take(carve, sums);
    s->count = hf_carve_take(carve, k * sizeof(int64_t));
    s->weight =
        fit->weights.scaled ? hf_carve_take(carve, k * (size_t)s->limbs * sizeof(int64_t)) : NULL;
    hf_update_twice_carve(fit, carve);
    hf_skip_carve(&fit->skip, carve, problem->k);
    if (problem->opts.empty == HF_EMPTY_RELOCATE) {
        fit->refill.far = hf_carve_take(carve, k * sizeof(struct hf_far_row));
        fit->refill.relocated = hf_carve_take(carve, k * sizeof(struct hf_moved_row));
    }
    if (problem->opts.empty == HF_EMPTY_RELOCATE || fit->weights.uneven)
        carve_movers(fit, carve);
    if (fit->weights.uneven)
        carve_light(fit, carve, sums);
    if (problem->opts.empty == HF_EMPTY_SPLIT)
        fit->refill.share = hf_carve_take(carve, k * sizeof(int64_t));
    return true;
}

static void carve_packed(const struct hf_fit_problem *problem, struct hf_work *work,
                         hf_carve *carve, size_t bytes) {
    if (bytes == 0)
        return;
    work->packed = hf_carve_take(carve, sizeof(*work->packed));
    *work->packed =
        (struct hf_assign_packed){.data = hf_carve_take(carve, bytes), .rows = problem->n};
}

hf_status hf_fit_workspace(struct hf_fit *fit) {
    const struct hf_fit_problem *problem = &fit->problem;
    hf_carve fixed = {0};
    hf_carve carve = {0};
    struct hf_memory_plan plan;
    carve_panel(problem, &fit->work, &fit->data, &carve);
    if (!carve_fixed(fit, &fixed))
        return hf_memory_too_little(problem, UINT64_MAX);
    fit->work.fused = !fit->ledger.before && hf_assign_fuses(problem->ctx, &fit->centers.sums);
    if (fit->work.fused)
        memcpy(fit->outcome.kernel_update, "fused", sizeof("fused"));
    HF_TRY(hf_memory_plan(fit, fixed.used + carve.used, &plan));
    const uint64_t row = (uint64_t)problem->d * hf_dtype_bytes(problem->dtype);
    const size_t total = carve.used + hf_align_up((size_t)plan.nearest) +
                         hf_align_up((size_t)(plan.chunk / row * row)) +
                         hf_align_up((size_t)plan.packed) +
                         hf_align_up(sizeof(struct hf_assign_packed)) + HF_ALIGN;
    fit->memory.fixed = hf_alloc(fixed.used);
    fit->memory.block = hf_alloc(total);
    size_t centers;
    const bool fits = hf_mul3_size(problem->k, problem->d,
                                   (int64_t)hf_dtype_bytes(problem->center_type), &centers);
    fit->centers.best = fits ? hf_alloc(centers) : NULL;
    fit->labels.host = hf_alloc((size_t)problem->n_all * sizeof(int32_t));
    fit->outcome.sizes = hf_alloc((size_t)problem->k * sizeof(int64_t));
    if (!fit->memory.fixed || !fit->memory.block || !fit->centers.best || !fit->labels.host ||
        !fit->outcome.sizes)
        return hf_ctx_fail(problem->ctx, HF_E_NOMEM,
                           "the system gave no memory for %llu bytes of workspace, %lld labels and "
                           "%lld centroids",
                           (unsigned long long)(fixed.used + total), (long long)problem->n_all,
                           (long long)problem->k);
    fixed = (hf_carve){.base = fit->memory.fixed};
    carve = (hf_carve){.base = fit->memory.block};
    carve_fixed(fit, &fixed);
    carve_panel(problem, &fit->work, &fit->data, &carve);
    fit->work.nearest = plan.nearest ? hf_carve_take(&carve, (size_t)plan.nearest) : NULL;
    fit->data.rows.chunk_rows = hf_min64(problem->n, fit->data.panel_rows);
    if (plan.chunk > 0) {
        fit->data.rows.chunk_rows = (int64_t)(plan.chunk / row);
        fit->data.rows.buffer = hf_carve_take(&carve, (size_t)(plan.chunk / row * row));
    }
    carve_packed(problem, &fit->work, &carve, (size_t)plan.packed);
    if (plan.ledger > 0)
        HF_TRY(hf_ledger_open(fit));
    fit->skip.allocated = plan.keep_bounds;
    fit->skip.bounds.upper = (float *)fit->work.nearest;
    fit->skip.bounds.lower = fit->work.nearest ? (float *)fit->work.nearest + problem->n : NULL;
    fit->memory.held_bytes =
        fixed.used + total + plan.ledger + hf_prepared_bytes(problem, &fit->weights, &fit->data);
    return HF_OK;
}

void hf_fit_free(struct hf_fit *fit) {
    fit->problem.ctx->held_bytes = 0;
    hf_labels_close(&fit->problem, &fit->labels);
    hf_resident_clear(fit->problem.ctx, &fit->data.resident);
    hf_free(fit->data.dropped);
    if (fit->weights.scaled != fit->weights.given)
        hf_free(fit->weights.scaled);
    hf_free(fit->weights.given);
    hf_free(fit->weights.directed);
    hf_free(fit->saves.log.entry);
    hf_free(fit->columns.block);
    hf_ledger_close(fit->problem.ctx, &fit->ledger);
    hf_free(fit->memory.fixed);
    hf_free(fit->memory.block);
    hf_free(fit->labels.host);
    hf_free(fit->outcome.sizes);
    hf_free(fit->centers.best);
}
