/* SPDX-License-Identifier: Apache-2.0
 * The float64 distances that decide where the filter could not: the reference's operations in the
 * reference's order, CHAINS centroids side by side so that the ordered additions overlap. */
#ifndef HF_ASSIGN_EXACT_H
#define HF_ASSIGN_EXACT_H

#include "base/dtype.h"
#include "ops/assign/assign_job.h"
#include <math.h>

static void exact_load_row(const struct job *job, struct worker *w, int slot) {
    const struct hf_array *x = &job->a->x;
    hf_to_f64(w->x64, job_row(job, w->block.row[slot]), x->dtype, job->d);
    if (job->a->metric == HF_COSINE)
        w->norm64 = hf_reference_norm(w->x64, job->d);
    w->slot64 = slot;
}

/* squares[j * CHAINS + chain] = the term of feature j. */
static void exact_terms(const struct job *job, struct worker *w, const double *c, int chain) {
    double *out = w->squares + chain;
    const double *x = w->x64;
    if (job->a->metric == HF_EUCLIDEAN) {
        for (int64_t j = 0; j < job->d; j++) {
            const double diff = x[j] - c[j];
            out[j * CHAINS] = diff * diff;
        }
        return;
    }
    for (int64_t j = 0; j < job->d; j++)
        out[j * CHAINS] = x[j] * c[j];
}

ALWAYS_INLINE void exact_sum(const double *squares, int64_t d, double sum[CHAINS]) {
    vd s[CHAINS / VDW];
    UNROLL(2)
    for (int i = 0; i < CHAINS / VDW; i++)
        s[i] = vd_set1(0);
    for (int64_t j = 0; j < d; j++) {
        UNROLL(2)
        for (int i = 0; i < CHAINS / VDW; i++)
            s[i] = vd_add(s[i], vd_load(squares + j * CHAINS + i * VDW));
    }
    UNROLL(2)
    for (int i = 0; i < CHAINS / VDW; i++)
        vd_store(sum + i * VDW, s[i]);
}

/* Offer the distance of a slot to a centroid; the least wins, then the lowest index. */
static void exact_offer(const struct job *job, struct worker *w, int slot, int32_t k, double sum) {
    double d = sum;
    if (job->a->metric == HF_DOT)
        d = -sum;
    else if (job->a->metric == HF_COSINE)
        d = hf_cosine_distance(sum, w->norm64, job->c_norm[k]);
    if (d < w->least[slot] || (d == w->least[slot] && k < w->least_arg[slot])) {
        w->least[slot] = d;
        w->least_arg[slot] = k;
    }
}

/* Distances of one slot to `count` <= CHAINS centroids. */
static void exact_batch(const struct job *job, struct worker *w, int slot, const int32_t *k,
                        int count) {
    if (w->slot64 != slot)
        exact_load_row(job, w, slot);
    for (int i = 0; i < count; i++)
        exact_terms(job, w, job->c64 + (int64_t)k[i] * job->d, i);
    double sum[CHAINS];
    exact_sum(w->squares, job->d, sum);
    for (int i = 0; i < count; i++)
        exact_offer(job, w, slot, k[i], sum[i]);
    w->stats.pairs += count;
}

static uint64_t pair_key(struct pair p) {
    return (uint64_t)(uint32_t)p.slot << 32 | (uint32_t)p.centroid;
}

/* By slot, then centroid. Shell sort: the list is short and nothing may be allocated here. */
static void sort_pairs(struct pair *p, int count) {
    for (int gap = count / 2; gap > 0; gap /= 2) {
        for (int i = gap; i < count; i++) {
            const struct pair x = p[i];
            int j = i;
            for (; j >= gap && pair_key(p[j - gap]) > pair_key(x); j -= gap)
                p[j] = p[j - gap];
            p[j] = x;
        }
    }
}

/* Evaluate the pairs that wait, row by row. */
static void exact_drain(const struct job *job, struct worker *w) {
    sort_pairs(w->pairs, w->n_pairs);
    for (int i = 0; i < w->n_pairs;) {
        int32_t k[CHAINS];
        const int slot = w->pairs[i].slot;
        int count = 0;
        while (i < w->n_pairs && w->pairs[i].slot == slot && count < CHAINS)
            k[count++] = w->pairs[i++].centroid;
        exact_batch(job, w, slot, k, count);
    }
    w->n_pairs = 0;
}

/* A slot that the filter cannot handle: all centroids. */
static void exact_all(const struct job *job, struct worker *w, int slot) {
    w->least[slot] = INFINITY;
    w->least_arg[slot] = INT32_MAX;
    for (int64_t k = 0; k < job->k; k += CHAINS) {
        int32_t list[CHAINS];
        int count = 0;
        for (; count < CHAINS && k + count < job->k; count++)
            list[count] = (int32_t)(k + count);
        exact_batch(job, w, slot, list, count);
    }
    if (w->least_arg[slot] == INT32_MAX) /* every distance is NaN: cannot be with finite data */
        w->least_arg[slot] = 0;
}

#endif
