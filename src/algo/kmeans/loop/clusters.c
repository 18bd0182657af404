/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/loop/clusters.h"

/* Centroids of a range of a loop: so many values, and what one costs beside its own. */
#define GRAIN_VALUES 4608
#define GRAIN_BESIDE 16

void hf_for_clusters(const struct hf_fit *fit, int64_t count, hf_range_fn *fn, void *job) {
    hf_parallel_for(hf_ctx_pool(fit->ctx), count, 1 + GRAIN_VALUES / (fit->d + GRAIN_BESIDE), fn,
                    job);
}

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

bool hf_cluster_is_empty(const struct hf_fit *fit, int64_t cluster) {
    return hf_sums_weight(&fit->sums, cluster) <= 0 && !(fit->light && fit->light[cluster].is);
}
