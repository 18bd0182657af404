/* SPDX-License-Identifier: Apache-2.0
 * What tests of fits on a GPU share: the comparison with the same fit on the CPU. */
#ifndef KMEANS_DEVICE_H
#define KMEANS_DEVICE_H

#include "kmeans_brute.h"

/* slack: how much the inertia of an iteration may differ. It is 0 but for batches, which look at
 * their data from one common origin. */
static inline void expect_same_but(const hf_kmeans_result *a, const hf_kmeans_result *b,
                                   double slack, const char *what) {
    char text[160];
    const size_t centroids = (size_t)(a->k * a->d) * hf_dtype_bytes(a->centroids.dtype);
    snprintf(text, sizeof text, "%s (%s, %s)", what, b->kernel_assign, b->kernel_update);
    assert_true(a->n == b->n && a->k == b->k && a->d == b->d);
    assert_int_equal(a->centroids.dtype, b->centroids.dtype);
    if (a->iterations != b->iterations || a->stop != b->stop || a->restart != b->restart)
        fail_msg("%s: %d iterations (%s) on the CPU, %d (%s) on the GPU", text, a->iterations,
                 hf_stop_text(a->stop), b->iterations, hf_stop_text(b->stop));
    for (int64_t i = 0; i < a->n; i++)
        if (a->labels[i] != b->labels[i])
            fail_msg("%s: row %d: label %d on the CPU, %d on the GPU", text, (int)i, a->labels[i],
                     b->labels[i]);
    check_sizes(b);
    if (memcmp(a->centroids.data, b->centroids.data, centroids) != 0)
        fail_msg("%s: the centroids differ", text);
    if (memcmp(&a->inertia, &b->inertia, sizeof a->inertia) != 0)
        fail_msg("%s: inertia %.17g on the CPU, %.17g on the GPU", text, a->inertia, b->inertia);
    for (int i = 0; i < a->iterations; i++) {
        const hf_kmeans_iteration *p = &a->history[i];
        const hf_kmeans_iteration *q = &b->history[i];
        if (!(fabs(p->inertia - q->inertia) <= slack * fabs(p->inertia)) || p->shift != q->shift ||
            p->changed != q->changed || p->empty != q->empty)
            fail_msg("%s: iteration %d: inertia %.17g and %.17g, shift %g and %g, changed %d and "
                     "%d",
                     text, i + 1, p->inertia, q->inertia, p->shift, q->shift, (int)p->changed,
                     (int)q->changed);
    }
}

static inline void expect_same(const hf_kmeans_result *a, const hf_kmeans_result *b,
                               const char *what) {
    expect_same_but(a, b, 0, what);
}

/* Progress that ends a fit. */
static inline int stop_at_three(void *user, int restart, int iteration,
                                const hf_kmeans_iteration *it, int64_t done, int64_t total) {
    (void)user, (void)restart, (void)it, (void)done, (void)total;
    return iteration >= 3;
}

#endif
