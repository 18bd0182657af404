/* SPDX-License-Identifier: Apache-2.0
 * The sizes of the clusters by the labels, where the sums do not have them: the last labels of a
 * fit are those of centroids that moved once more. */
#include "algo/kmeans/loop/sizes.h"
#include <stdatomic.h>
#include <string.h>

#define GRAIN ((int64_t)1 << 16) /* labels of one range */
#define STACK_CLUSTERS 1024      /* clusters that a range counts on its own stack */
#define ALONE ((int64_t)1 << 20) /* labels for which threads are not worth their start */
#define HELPERS 8                /* started where the context has none: beyond, memory limits */

struct count {
    const int32_t *labels;
    uint32_t k;
    _Atomic int64_t *sizes; /* [k] */
    _Atomic bool wrong;
};

/* Two counters of a cluster in turn: an addition does not wait for the one before it. */
static bool count_on_stack(const struct count *c, int64_t begin, int64_t end) {
    uint32_t own[2][STACK_CLUSTERS];
    bool wrong = false;
    memset(own[0], 0, c->k * sizeof own[0][0]);
    memset(own[1], 0, c->k * sizeof own[1][0]);
    for (int64_t i = begin; i < end; i++) {
        const uint32_t label = (uint32_t)c->labels[i];
        if (label < c->k)
            own[i % 2][label]++;
        else
            wrong = true;
    }
    for (uint32_t j = 0; j < c->k; j++)
        atomic_fetch_add_explicit(&c->sizes[j], (int64_t)own[0][j] + own[1][j],
                                  memory_order_relaxed);
    return wrong;
}

static void count_range(void *job, int worker, int64_t begin, int64_t end) {
    struct count *c = job;
    (void)worker;
    bool wrong = false;
    if (c->k <= STACK_CLUSTERS) {
        wrong = count_on_stack(c, begin, end);
    } else {
        for (int64_t i = begin; i < end; i++) {
            const uint32_t label = (uint32_t)c->labels[i];
            if (label < c->k)
                atomic_fetch_add_explicit(&c->sizes[label], 1, memory_order_relaxed);
            else
                wrong = true;
        }
    }
    if (wrong)
        atomic_store_explicit(&c->wrong, true, memory_order_relaxed);
}

_Static_assert(sizeof(_Atomic int64_t) == sizeof(int64_t), "counted in place");

hf_status hf_count_labels(const struct hf_fit_problem *problem, const struct hf_labels *labels,
                          const struct hf_outcome *outcome) {
    struct count count = {.labels = labels->host,
                          .k = (uint32_t)problem->k,
                          .sizes = (_Atomic int64_t *)outcome->sizes};
    hf_pool *pool = hf_ctx_pool(problem->ctx);
    hf_pool *own = pool || problem->n < ALONE ? NULL : hf_pool_create(HELPERS);
    memset(outcome->sizes, 0, (size_t)problem->k * sizeof(int64_t));
    hf_parallel_for(pool ? pool : own, problem->n, GRAIN, count_range, &count);
    hf_pool_destroy(own);
    return count.wrong ? hf_ctx_fail(problem->ctx, HF_E_CORRUPT,
                                     "a label lies outside 0..%lld: the machine or a kernel "
                                     "computes wrongly",
                                     (long long)problem->k - 1)
                       : HF_OK;
}
