/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/loop/mirror.h"
#include "algo/kmeans/loop/labels.h"
#include "algo/kmeans/loop/clusters.h"
#include "base/mem.h"

static size_t sum_bytes(const struct hf_sums *s) {
    return (size_t)(s->limbs * s->k * s->d) * sizeof(int64_t);
}

static size_t count_bytes(const struct hf_sums *s) { return (size_t)s->k * sizeof(int64_t); }

static size_t weight_bytes(const struct hf_sums *s) {
    return s->weight ? (size_t)s->limbs * count_bytes(s) : 0;
}

void *hf_mirror_take(hf_carve *carve, size_t bytes) {
    carve->used = (carve->used + 255) / 256 * 256;
    return hf_carve_take(carve, bytes);
}

static void carve_mirror(const struct hf_fit *fit, hf_carve *carve, struct hf_mirror *m) {
    m->sums = fit->centers.sums;
    m->old_labels = hf_mirror_take(carve, (size_t)hf_min64(fit->problem.n, fit->data.panel_rows) *
                                              sizeof(int32_t));
    m->centers = hf_mirror_take(carve, hf_center_bytes(&fit->problem));
    m->mult = hf_mirror_take(carve, (size_t)fit->problem.d * sizeof(double));
    m->sums.sum = hf_mirror_take(carve, sum_bytes(&fit->centers.sums));
    m->sums.count = hf_mirror_take(carve, count_bytes(&fit->centers.sums));
    m->sums.weight =
        fit->centers.sums.weight ? hf_mirror_take(carve, weight_bytes(&fit->centers.sums)) : NULL;
    m->sums.mult = m->mult;
    m->stats = hf_mirror_take(carve, sizeof *m->stats);
}

static hf_status open_mirror(struct hf_fit *fit, struct hf_mirror *m) {
    const struct hf_fit_problem *problem = &fit->problem;
    hf_carve carve = {0};
    carve_mirror(fit, &carve, m);
    const uint64_t room = hf_ctx_room(problem->ctx);
    const uint64_t share = fit->data.rows.reader ? room / 2 : room; /* panels need some of it */
    const uint64_t labels = fit->labels.device ? 0 : (uint64_t)problem->n * sizeof(int32_t);
    if (carve.used + labels <= share) {
        hf_labels_open(problem, &fit->labels);
        m->block = fit->labels.device ? hf_ctx_alloc(problem->ctx, carve.used) : NULL;
    }
    m->none = m->block == NULL;
    if (m->none) {
        const hf_status status =
            hf_labels_fetch(problem, &fit->labels); /* panels take the host's */
        hf_labels_close(problem, &fit->labels);
        return status;
    }
    carve = (hf_carve){.base = m->block};
    carve_mirror(fit, &carve, m);
    return hf_ctx_copy(problem->ctx, m->mult, fit->centers.sums.mult,
                       (size_t)problem->d * sizeof(double));
}

hf_status hf_mirror_begin(struct hf_fit *fit, struct hf_mirror *m) {
    const struct hf_sums *s = &fit->centers.sums;
    hf_context *ctx = fit->problem.ctx;
    if (m->none)
        return HF_OK;
    if (!m->block)
        HF_TRY(open_mirror(fit, m));
    if (m->none)
        return HF_OK;
    int32_t *labels = NULL;
    HF_TRY(hf_labels_for_ops(&fit->problem, &fit->labels, &labels));
    HF_TRY(hf_ctx_fill(ctx, m->stats, 0, sizeof *m->stats));
    HF_TRY(hf_ctx_copy(ctx, m->centers, fit->centers.current, hf_center_bytes(&fit->problem)));
    HF_TRY(hf_ctx_copy(ctx, m->sums.sum, s->sum, sum_bytes(s)));
    HF_TRY(hf_ctx_copy(ctx, m->sums.count, s->count, count_bytes(s)));
    return hf_ctx_copy(ctx, m->sums.weight, s->weight, weight_bytes(s));
}

hf_status hf_mirror_sums(struct hf_fit *fit, struct hf_mirror *m, struct hf_assign_stats *stats) {
    const struct hf_fit_problem *problem = &fit->problem;
    const struct hf_sums *s = &fit->centers.sums;
    hf_labels_by_ops(&fit->labels);
    HF_TRY(hf_ctx_copy(problem->ctx, stats, m->stats, sizeof *stats));
    HF_TRY(hf_ctx_copy(problem->ctx, s->sum, m->sums.sum, sum_bytes(s)));
    HF_TRY(hf_ctx_copy(problem->ctx, s->count, m->sums.count, count_bytes(s)));
    return hf_ctx_copy(problem->ctx, s->weight, m->sums.weight, weight_bytes(s));
}

void hf_mirror_clear(const struct hf_fit_problem *problem, struct hf_mirror *m) {
    hf_ctx_release(problem->ctx, m->block);
    m->block = NULL;
}
