/* SPDX-License-Identifier: Apache-2.0
 * The float64 distances that decide where the filter could not: the reference's operations in the
 * reference's order, CHAINS centroids side by side, one a lane. */
#ifndef HF_ASSIGN_EXACT_H
#define HF_ASSIGN_EXACT_H

#include "base/dtype.h"
#include "device/host/isa_load.h"
#include "ops/assign/assign_gather.h"
#include "ops/assign/assign_job.h"
#include <math.h>

#define NEAR_MAX 64             /* candidates of a row that float32 looks at */
#define NEAR_FAR 1e37           /* squares from here on may overflow */
#define NEAR_LEAST 0x1p-140     /* underflow of a feature's square */
#define NEAR_FEATURES (1 << 24) /* more are not compared in float32 */

/* Can float32 compare distances? Rows and centroids must be exact in it. */
static int near_possible(const struct job *job) {
    return job->a->metric == HF_EUCLIDEAN && job->a->c.dtype == HF_F32 &&
           job->a->x.dtype != HF_F64 && job->d <= NEAR_FEATURES;
}

/* |x - c|^2 of row i and centroid k in float32. Differences, products and sums are off by at most
 * d / (4 VW) + 12 roundings, see near_share(); what underflows adds up to d NEAR_LEAST at most. */
ALWAYS_INLINE double near_square_as(const struct job *job, int64_t i, int32_t k, hf_dtype dtype) {
    const char *x = job_row(job, i);
    const float *c = hf_array_row(&job->a->c, k);
    const size_t size = hf_dtype_bytes(dtype);
    vf sum[4] = {vf_set1(0), vf_set1(0), vf_set1(0), vf_set1(0)};
    int64_t j = 0;
    for (; j + 4 * VW <= job->d; j += 4 * VW) {
        UNROLL(4)
        for (int t = 0; t < 4; t++) {
            const char *at = x + (size_t)(j + t * VW) * size;
            const vf diff = vf_sub(gather_raw(at, dtype), vf_load(c + j + t * VW));
            sum[t] = vf_fma(diff, diff, sum[t]);
        }
    }
    for (; j + VW <= job->d; j += VW) {
        const vf diff = vf_sub(gather_raw(x + (size_t)j * size, dtype), vf_load(c + j));
        sum[0] = vf_fma(diff, diff, sum[0]);
    }
    double total = (double)vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
    for (; j < job->d; j++) {
        const double diff = hf_load_f64(x, dtype, j) - (double)c[j];
        total += diff * diff;
    }
    return total;
}

static NOINLINE double near_square(const struct job *job, int64_t i, int32_t k) {
    switch (job->a->x.dtype) {
    case HF_F16:
        return near_square_as(job, i, k, HF_F16);
    case HF_BF16:
        return near_square_as(job, i, k, HF_BF16);
    case HF_U8:
        return near_square_as(job, i, k, HF_U8);
    default:
        return near_square_as(job, i, k, HF_F32);
    }
}

/* near_square() is off by at most this share of itself: m roundings make m u / (1 - m u) of what is
 * computed, with two roundings to spare. */
static double near_share(const struct job *job) {
    const double most = ((double)job->d / (4 * VW) + 14) * 0x1p-24;
    return most / (1 - most);
}

static void exact_load_row(const struct job *job, struct worker *w, int slot) {
    const struct hf_array *x = &job->a->x;
    gather_wide(w->x64, job_row(job, w->block.row[slot]), x->dtype, job->d);
    if (job->a->metric == HF_COSINE)
        w->norm64 = hf_reference_norm(w->x64, job->d);
    w->slot64 = slot;
}

/* The terms of features that distances add up. */
ALWAYS_INLINE vd exact_terms(vd x, vd c, int euclidean) {
    const vd diff = vd_sub(x, c);
    return euclidean ? vd_mul(diff, diff) : vd_mul(x, c);
}

/* CHAINS sums, lane = centroid. Zeros behind the last feature change none: no sum is -0. */
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
    const void *c[CHAINS];
    double sum[CHAINS];
    for (int i = 0; i < CHAINS; i++) /* chains without a centroid go along */
        c[i] = hf_array_row(&job->a->c, k[i < count ? i : 0]);
    exact_sums(job, w->x64, c, sum);
    for (int i = 0; i < count; i++)
        exact_offer(job, w, slot, k[i], sum[i]);
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

/* Of the pairs of one slot those that float32 cannot tell from the nearest; 0 when it is sure of
 * one, which is then the slot's, or none. The reference's own roundings are far below the two that
 * `share` has to spare. */
static int near_prune(const struct job *job, struct worker *w, struct pair *p, int count) {
    double square[NEAR_MAX];
    const int slot = p[0].slot;
    const double share = near_share(job);
    const double least = (double)job->d * NEAR_LEAST;
    double nearest = INFINITY;
    if (count > NEAR_MAX || !near_possible(job))
        return count;
    for (int i = 0; i < count; i++) {
        square[i] = near_square(job, w->block.row[slot], p[i].centroid);
        if (!(square[i] < NEAR_FAR))
            return count;
        nearest = fmin(nearest, square[i] * (1 + share) + least);
    }
    int left = 0;
    for (int i = 0; i < count; i++)
        if (square[i] * (1 - share) - least <= nearest)
            p[left++] = p[i];
    if (left > 1 || w->least_arg[slot] != INT32_MAX)
        return left;
    w->least[slot] = nearest;
    w->least_arg[slot] = p[0].centroid;
    w->unsure[slot] = 1;
    return 0;
}

/* A slot whose centroid float32 found meets more candidates: its distance is needed after all. */
static void exact_own(const struct job *job, struct worker *w, int slot) {
    const int32_t k = w->least_arg[slot];
    w->unsure[slot] = 0;
    w->least[slot] = INFINITY;
    w->least_arg[slot] = INT32_MAX;
    exact_batch(job, w, slot, &k, 1);
}

/* Evaluate the pairs that wait, row by row. */
static void exact_drain(const struct job *job, struct worker *w) {
    sort_pairs(w->pairs, w->n_pairs);
    for (int i = 0; i < w->n_pairs;) {
        struct pair *p = w->pairs + i;
        const int slot = p->slot;
        int count = 0;
        while (i < w->n_pairs && w->pairs[i].slot == slot) {
            count++;
            i++;
        }
        w->stats.pairs += count;
        if (w->unsure[slot])
            exact_own(job, w, slot);
        count = near_prune(job, w, p, count);
        for (int done = 0; done < count; done += CHAINS) {
            int32_t k[CHAINS];
            const int more = count - done < CHAINS ? count - done : CHAINS;
            for (int t = 0; t < more; t++)
                k[t] = p[done + t].centroid;
            exact_batch(job, w, slot, k, more);
        }
    }
    w->n_pairs = 0;
}

/* A slot that the filter cannot handle: all centroids. */
static void exact_all(const struct job *job, struct worker *w, int slot) {
    w->least[slot] = INFINITY;
    w->least_arg[slot] = INT32_MAX;
    w->stats.pairs += job->k;
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
