/* SPDX-License-Identifier: Apache-2.0
 * The centroids of a fit: ops/means.h with what the fit knows. All loops run on one thread: n * k *
 * d work surrounds this k * d. */
#include "algo/kmeans/fit.h"
#include <string.h>

hf_array hf_centers(const struct hf_fit *fit, void *centers) {
    return hf_array_view(centers, fit->center_type, fit->k, fit->d);
}

struct hf_center_rule hf_fit_rule(const struct hf_fit *fit) {
    const bool same = fit->opts.store == HF_CENTROIDS_SAME;
    return (struct hf_center_rule){.metric = fit->opts.metric,
                                   .type = fit->center_type,
                                   .store = same ? fit->dtype : fit->center_type,
                                   .shift = fit->col.shift,
                                   .unit = fit->col.unit};
}

double hf_cluster_weight(const struct hf_fit *fit, int64_t cluster) {
    return hf_sums_weight(&fit->sums, cluster);
}

void hf_center_put(const struct hf_fit *fit, void *dst, int64_t i, double v) {
    const struct hf_center_rule rule = hf_fit_rule(fit);
    hf_center_store(&rule, dst, i, v);
}

void hf_centers_store(const struct hf_fit *fit, void *dst, const double *src, int64_t count) {
    const struct hf_center_rule rule = hf_fit_rule(fit);
    double piece[64]; /* copied out first: dst may lie over src */
    for (int64_t at = 0; at < count; at += 64) {
        const int64_t some = hf_min64(64, count - at);
        memcpy(piece, src + at, (size_t)some * sizeof(double));
        for (int64_t i = 0; i < some; i++)
            hf_center_store(&rule, dst, at + i, piece[i]);
    }
}

void hf_centers_update(struct hf_fit *fit) {
    const struct hf_center_rule rule = hf_fit_rule(fit);
    void *next = fit->previous;
    hf_centers_next(&rule, &fit->sums, fit->current, next);
    fit->previous = fit->current;
    fit->current = next;
}

double hf_centers_shift(const struct hf_fit *fit) {
    return hf_centers_moved(fit->center_type, fit->previous, fit->current, fit->k, fit->d);
}

double hf_centers_inertia(const struct hf_fit *fit) {
    const struct hf_center_rule rule = hf_fit_rule(fit);
    return hf_centers_score(&rule, &fit->sums, fit->current, fit->total_square);
}
