/* SPDX-License-Identifier: Apache-2.0
 * A kernel that writes a bound adds the new word to a sum and takes away what it finds there. So
 * the sum of all words in memory says whether each of them is what was written last: a word that
 * changed at any time, one that was not written and one that was written elsewhere all leave a
 * difference that is not 0 modulo 2^32. */
#include "algo/kmeans/guard/bounds.h"
#include "base/parallel.h"
#include "core/run.h"
#include "guard/guard.h"
#include <stdatomic.h>

#define GRAIN 65536

bool hf_bounds_accounts(const struct hf_fit *fit) {
    return fit->ledger.block && hf_guard_checks_on_host(fit->problem.ctx, HF_FAULT_BOUNDS);
}

struct adding {
    const struct hf_assign_bounds *bounds;
    _Atomic uint32_t sum;
};

static void add_range(void *user, int worker, int64_t begin, int64_t end) {
    struct adding *a = user;
    const uint32_t *upper = (const uint32_t *)(const void *)a->bounds->upper;
    const uint32_t *lower = (const uint32_t *)(const void *)a->bounds->lower;
    uint32_t sum = 0;
    (void)worker;
    for (int64_t i = begin; i < end; i++)
        sum += upper[i] + lower[i];
    atomic_fetch_add_explicit(&a->sum, sum, memory_order_relaxed);
}

static uint32_t add_words(const struct hf_fit *fit) {
    struct adding a = {.bounds = &fit->skip.bounds};
    hf_parallel_for(hf_ctx_pool(fit->problem.ctx), fit->problem.n, GRAIN, add_range, &a);
    return a.sum;
}

/* Of all that valid bounds are moved by. */
static uint64_t sign_moves(const struct hf_fit *fit) {
    const struct hf_assign_bounds *b = &fit->skip.bounds;
    const size_t bytes = (size_t)fit->problem.k * sizeof(float);
    const float numbers[] = {b->drift_max, b->drift_second, (float)b->drift_max_index,
                             (float)b->n_moved};
    return hf_guard_sign(b->drift, bytes) + 3 * (b->half ? hf_guard_sign(b->half, bytes) : 0) +
           5 * hf_guard_sign(b->moved, (size_t)b->n_moved * sizeof *b->moved) +
           7 * hf_guard_sign(numbers, sizeof numbers);
}

void hf_bounds_begin(struct hf_fit *fit, struct hf_assign_bounds *bounds) {
    fit->skip.bounds.sum = NULL;
    if (!bounds || !hf_bounds_accounts(fit))
        return;
    fit->skip.bounds.sum = &fit->skip.sum;
    if (bounds->valid)
        fit->ledger.moves_sign = sign_moves(fit);
    else
        fit->skip.sum = add_words(fit);
}

static hf_status wrong(hf_context *ctx, const char *what) {
    hf_guard_found(ctx, HF_FAULT_BOUNDS, -1, -1);
    return hf_ctx_fail(ctx, HF_E_CORRUPT,
                       "%s are not what was written: the machine or a program writes where it must "
                       "not",
                       what);
}

hf_status hf_bounds_moves_wrong(struct hf_fit *fit) {
    return wrong(fit->problem.ctx, "moves of the centroids, or distances between them,");
}

hf_status hf_bounds_check(struct hf_fit *fit, const struct hf_assign_bounds *bounds) {
    hf_context *ctx = fit->problem.ctx;
    if (!bounds || !hf_bounds_accounts(fit))
        return HF_OK;
    hf_guard_checked(ctx, HF_FAULT_BOUNDS, fit->problem.n);
    if (add_words(fit) != fit->skip.sum)
        return wrong(ctx, "bounds of the rows");
    if (bounds->valid && sign_moves(fit) != fit->ledger.moves_sign)
        return hf_bounds_moves_wrong(fit);
    return HF_OK;
}
