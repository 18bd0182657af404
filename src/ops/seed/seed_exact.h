/* SPDX-License-Identifier: Apache-2.0
 * The pairs that the filter left open: reference distances, BATCH of them side by side. */
#ifndef HF_SEED_EXACT_H
#define HF_SEED_EXACT_H

#include "ops/seed/seed_job.h"

ALWAYS_INLINE void seed_sums(double *sum, enum chain_kind kind, const void *const *x,
                             hf_dtype dtype, const void *const *c, int64_t d) {
    const struct chain_rows centres = {c, HF_F64};
    switch (dtype) {
    case HF_F64:
        chain_sums(sum, kind, (struct chain_rows){x, HF_F64}, centres, d);
        break;
    case HF_F16:
        chain_sums(sum, kind, (struct chain_rows){x, HF_F16}, centres, d);
        break;
    case HF_BF16:
        chain_sums(sum, kind, (struct chain_rows){x, HF_BF16}, centres, d);
        break;
    case HF_U8:
        chain_sums(sum, kind, (struct chain_rows){x, HF_U8}, centres, d);
        break;
    default:
        chain_sums(sum, kind, (struct chain_rows){x, HF_F32}, centres, d);
        break;
    }
}

/* Evaluate the pairs of the worker and offer them, in order. */
NOINLINE static void seed_flush(const struct seed_job *job, struct seed_worker *w) {
    const struct hf_seed_args *a = job->args;
    if (w->pairs == 0)
        return;
    const void *x[BATCH];
    const void *c[BATCH];
    double sum[BATCH];
    for (int p = 0; p < BATCH; p++) { /* places that are free repeat the last pair */
        const int from = p < w->pairs ? p : w->pairs - 1;
        x[p] = seed_row(job, w->pair_row[from]);
        c[p] = hf_array_row(&a->candidates, w->pair_l[from]);
    }
    if (a->metric == HF_COSINE) {
        double square[BATCH];
        seed_sums(sum, CHAIN_PRODUCT, x, a->x.dtype, c, job->d);
        chain_squares(square, x, a->x.dtype, job->d);
        for (int p = 0; p < w->pairs; p++)
            sum[p] = hf_cosine_distance(sum[p], sqrt(square[p]), job->c_norm[w->pair_l[p]]);
    } else {
        seed_sums(sum, CHAIN_DIFFERENCE, x, a->x.dtype, c, job->d);
    }
    for (int p = 0; p < w->pairs; p++)
        seed_offer(a, w->pair_row[p], w->pair_l[p], sum[p], w->gain);
    w->pairs = 0;
}

ALWAYS_INLINE void seed_push(const struct seed_job *job, struct seed_worker *w, int64_t row,
                             int64_t l) {
    w->pair_row[w->pairs] = row;
    w->pair_l[w->pairs] = l;
    if (++w->pairs == BATCH)
        seed_flush(job, w);
}

#endif
