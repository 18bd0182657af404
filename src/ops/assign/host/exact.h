/* SPDX-License-Identifier: Apache-2.0
 * Distances in float64 by the reference's operations in the reference's order, for the few rows
 * that nothing else decides. CHAINS centroids are computed side by side, one per lane. */
#ifndef HF_ASSIGN_EXACT_H
#define HF_ASSIGN_EXACT_H

#include "base/dtype.h"
#include "device/host/isa_load.h"
#include "ops/assign/host/gather.h"
#include "ops/assign/host/job.h"
#include "ops/assign/host/strike.h"
#include <math.h>

static void exact_load(const struct job *job, struct worker *w, int64_t row) {
    gather_wide(w->x64, job_row(job, row), job->a->x.dtype, job->d);
    if (job->a->metric == HF_COSINE)
        w->norm64 = hf_reference_norm(w->x64, job->d);
}

static void exact_load_row(const struct job *job, struct worker *w, int slot) {
    exact_load(job, w, w->block.row[slot]);
    w->slot64 = slot;
}

/* The terms that a distance adds up. */
ALWAYS_INLINE vd exact_terms(vd x, vd c, int euclidean) {
    const vd diff = vd_sub(x, c);
    return euclidean ? vd_mul(diff, diff) : vd_mul(x, c);
}

/* CHAINS sums, lane = centroid. Zeros behind the last feature change no sum, because none is -0. */
ALWAYS_INLINE vd exact_sums_as(const double *x, const void *const c[CHAINS], int64_t d,
                               hf_dtype dtype, int euclidean) {
    vd sum = vd_set1(0);
    for (int64_t j = 0; j < d; j += VDW) {
        const int left = d - j < VDW ? (int)(d - j) : VDW;
        vd r[VDW];
        UNROLL(8)
        for (int i = 0; i < CHAINS; i++)
            r[i] = exact_terms(vd_load_as_n(x, HF_F64, j, left), vd_load_as_n(c[i], dtype, j, left),
                               euclidean);
        vd_transpose(r);
        UNROLL(8)
        for (int i = 0; i < VDW; i++)
            sum = vd_add(sum, r[i]);
    }
    return sum;
}

ALWAYS_INLINE vd exact_sums_of(const struct job *job, const double *x, const void *const c[CHAINS],
                               hf_dtype dtype) {
    if (job->a->metric == HF_EUCLIDEAN)
        return exact_sums_as(x, c, job->d, dtype, 1);
    return exact_sums_as(x, c, job->d, dtype, 0);
}

static NOINLINE void exact_sums(const struct job *job, const double *x, const void *const c[CHAINS],
                                double sum[CHAINS]) {
    if (job->a->c.dtype == HF_F32)
        vd_store(sum, exact_sums_of(job, x, c, HF_F32));
    else
        vd_store(sum, exact_sums_of(job, x, c, HF_F64));
}

/* From what exact_sums() found for centroid k and the row in x64 to their distance. */
ALWAYS_INLINE double exact_distance(const struct job *job, const struct worker *w, int32_t k,
                                    double sum) {
    if (job->a->metric == HF_DOT)
        return -sum;
    if (job->a->metric == HF_COSINE)
        return hf_cosine_distance(sum, w->norm64, job->c_norm[k]);
    return sum;
}

/* Take the distance of a slot to a centroid if it is less, or equal with a lower index. */
static void exact_offer(const struct job *job, struct worker *w, int slot, int32_t k, double sum) {
    double d = exact_distance(job, w, k, sum);
    STRIKE_ONE(EXACT, block_row(&w->block, slot), k, &d, NULL);
    if (d < w->least[slot] || (d == w->least[slot] && k < w->least_arg[slot])) {
        w->least[slot] = d;
        w->least_arg[slot] = k;
    }
}

/* Distances of a slot to some centroids. Further calls go on with the least so far. */
static void exact_some(const struct job *job, struct worker *w, int slot, const int32_t *k,
                       int count) {
    if (w->slot64 != slot)
        exact_load_row(job, w, slot);
    for (int done = 0; done < count; done += CHAINS) {
        const int more = count - done < CHAINS ? count - done : CHAINS;
        const void *c[CHAINS];
        double sum[CHAINS];
        for (int i = 0; i < CHAINS; i++) /* chains that are left over repeat the first centroid */
            c[i] = hf_array_row(&job->a->c, k[done + (i < more ? i : 0)]);
        exact_sums(job, w->x64, c, sum);
        for (int i = 0; i < more; i++)
            exact_offer(job, w, slot, k[done + i], sum[i]);
    }
}

/* Distances to all of them. */
static void exact_all(const struct job *job, struct worker *w, int slot) {
    exact_some(job, w, slot, job->live, job->n_live);
    if (w->least_arg[slot] == INT32_MAX) /* every distance is NaN: impossible with finite data */
        w->least_arg[slot] = 0;
}

#endif
