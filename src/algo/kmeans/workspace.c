/* SPDX-License-Identifier: Apache-2.0
 * All memory of the iterations, taken before they begin, within the context's limit. Labels and one
 * set of centroids become the result's and are not counted. */
#include "algo/kmeans/workspace.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/memory_plan.h"
#include "algo/kmeans/loop/skip.h"
#include "base/mem.h"
#include <string.h>

#define MOVER_BYTES ((int64_t)256 << 10) /* rows that leave their clusters at once */

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

/* sums: bytes of those of all clusters. */
static void carve_light(struct hf_fit *fit, hf_carve *carve, size_t sums) {
    struct hf_sums *s = &fit->light_sums;
    const size_t k = (size_t)fit->k;
    *s = fit->sums;
    fit->light = hf_carve_take(carve, k * sizeof *fit->light);
    s->sum = hf_carve_take(carve, sums);
    s->count = hf_carve_take(carve, k * sizeof(int64_t));
    s->weight = hf_carve_take(carve, k * (size_t)s->limbs * sizeof(int64_t));
}

/* What is as long as a panel: measured with carve->base == NULL, then taken. */
static void carve_panel(struct hf_fit *fit, hf_carve *carve) {
    fit->panel_labels =
        hf_carve_take(carve, (size_t)hf_min64(fit->n, fit->panel_rows) * sizeof(int32_t));
    if (fit->opts.empty == HF_EMPTY_SPLIT || fit->opts.empty == HF_EMPTY_RELOCATE)
        fit->panel_distances =
            hf_carve_take(carve, (size_t)hf_min64(fit->n, fit->scan_rows) * sizeof(double));
}

/* What depends on neither panel nor chunk, likewise: close together, for a device's panel may be
 * all rows, and a huge page costs 0.1 ms when it is first written. False when a size overflows. */
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
    hf_skip_carve(&fit->skip, carve, fit->k);
    if (fit->opts.empty == HF_EMPTY_RELOCATE) {
        fit->far = hf_carve_take(carve, k * sizeof(struct hf_far_row));
        fit->relocated = hf_carve_take(carve, k * sizeof(struct hf_moved_row));
    }
    if (fit->opts.empty == HF_EMPTY_RELOCATE || fit->uneven)
        carve_movers(fit, carve);
    if (fit->uneven)
        carve_light(fit, carve, sums);
    if (fit->opts.empty == HF_EMPTY_SPLIT)
        fit->share = hf_carve_take(carve, k * sizeof(int64_t));
    return true;
}

static void carve_kept(struct hf_fit *fit, hf_carve *carve, size_t bytes) {
    if (bytes == 0)
        return;
    fit->kept = hf_carve_take(carve, sizeof(*fit->kept));
    *fit->kept = (struct hf_assign_kept){.data = hf_carve_take(carve, bytes), .rows = fit->n};
}

hf_status hf_fit_workspace(struct hf_fit *fit) {
    hf_carve fixed = {0};
    hf_carve carve = {0};
    struct hf_memory_plan plan;
    carve_panel(fit, &carve);
    if (!carve_fixed(fit, &fixed))
        return hf_memory_too_little(fit, UINT64_MAX);
    fit->fused = hf_assign_fuses(fit->ctx, &fit->sums);
    if (fit->fused)
        memcpy(fit->kernel_update, "fused", sizeof("fused"));
    HF_TRY(hf_memory_plan(fit, fixed.used + carve.used, &plan));
    const uint64_t row = (uint64_t)fit->d * hf_dtype_bytes(fit->dtype);
    const size_t total = carve.used + hf_align_up((size_t)plan.nearest) +
                         hf_align_up((size_t)(plan.chunk / row * row)) +
                         hf_align_up((size_t)plan.kept) +
                         hf_align_up(sizeof(struct hf_assign_kept)) + HF_ALIGN;
    fit->fixed = hf_alloc(fixed.used);
    fit->block = hf_alloc(total);
    size_t centers;
    const bool fits =
        hf_mul3_size(fit->k, fit->d, (int64_t)hf_dtype_bytes(fit->center_type), &centers);
    fit->best = fits ? hf_alloc(centers) : NULL;
    fit->labels = hf_alloc((size_t)fit->n_all * sizeof(int32_t));
    fit->sizes = hf_alloc((size_t)fit->k * sizeof(int64_t));
    if (!fit->fixed || !fit->block || !fit->best || !fit->labels || !fit->sizes)
        return hf_ctx_fail(fit->ctx, HF_E_NOMEM,
                           "the system gave no memory for %llu bytes of workspace, %lld labels and "
                           "%lld centroids",
                           (unsigned long long)(fixed.used + total), (long long)fit->n_all,
                           (long long)fit->k);
    fixed = (hf_carve){.base = fit->fixed};
    carve = (hf_carve){.base = fit->block};
    carve_fixed(fit, &fixed);
    carve_panel(fit, &carve);
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
    fit->held_bytes = fixed.used + total + hf_prepared_bytes(fit);
    return HF_OK;
}

void hf_fit_free(struct hf_fit *fit) {
    fit->ctx->held_bytes = 0;
    hf_labels_close(fit);
    hf_resident_clear(fit->ctx, &fit->resident);
    hf_free(fit->dropped);
    if (fit->weights != fit->given)
        hf_free(fit->weights);
    hf_free(fit->given);
    hf_free(fit->pull);
    hf_free(fit->log.entry);
    hf_free(fit->col.block);
    hf_free(fit->fixed);
    hf_free(fit->block);
    hf_free(fit->labels);
    hf_free(fit->sizes);
    hf_free(fit->best);
}
