/* SPDX-License-Identifier: Apache-2.0 */
#include "algo/kmeans/guard/others.h"

#define AWAKE (INT64_C(1) << 20) /* products of an iteration that workers share */

int hf_others_begin(const struct hf_fit_problem *problem, int count) {
    hf_pool *pool = hf_ctx_pool(problem->ctx);
    const int workers = hf_pool_workers(pool);
    int resting = 0;
    if (hf_pool_left(pool) < workers || problem->n < AWAKE / (problem->k * problem->d))
        return 0;
    while (resting < count && hf_pool_exclude(pool, resting, true))
        resting++;
    return resting;
}

void hf_others_end(const struct hf_fit_problem *problem, int resting) {
    for (int w = 0; w < resting; w++)
        (void)hf_pool_exclude(hf_ctx_pool(problem->ctx), w, false);
}
