/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/loop/clusters.h"
#include "base/dtype.h"

/* Centroids of a range of a loop: so many values, and what one costs beside its own. */
#define GRAIN_VALUES 4608
#define GRAIN_BESIDE 16

void hf_for_clusters(const struct hf_fit_problem *problem, int64_t count, hf_range_fn *fn,
                     void *job) {
    hf_parallel_for(hf_ctx_pool(problem->ctx), count,
                    1 + GRAIN_VALUES / (problem->d + GRAIN_BESIDE), fn, job);
}

size_t hf_center_bytes(const struct hf_fit_problem *problem) {
    return (size_t)(problem->k * problem->d) * hf_dtype_bytes(problem->center_type);
}

hf_array hf_centers(const struct hf_fit_problem *problem, void *centers) {
    return hf_array_view(centers, problem->center_type, problem->k, problem->d);
}

struct hf_center_rule hf_fit_rule(const struct hf_fit_problem *problem,
                                  const struct hf_columns *columns) {
    const bool same = problem->opts.store == HF_CENTROIDS_SAME;
    return (struct hf_center_rule){.metric = problem->opts.metric,
                                   .type = problem->center_type,
                                   .store = same ? problem->dtype : problem->center_type,
                                   .shift = columns->shift,
                                   .unit = columns->unit};
}

bool hf_cluster_is_empty(const struct hf_centers *centers, const struct hf_light *light,
                         int64_t cluster) {
    return hf_sums_weight(&centers->sums, cluster) <= 0 &&
           !(light->cluster && light->cluster[cluster].is);
}
