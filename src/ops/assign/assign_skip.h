/* SPDX-License-Identifier: Apache-2.0
 * Which rows need distances at all: one upper and one lower bound a row (Hamerly, Making k-means even
 * faster, SDM 2010), moved by how far the centroids went. */
#ifndef HF_ASSIGN_SKIP_H
#define HF_ASSIGN_SKIP_H

#include "ops/assign/assign_settle.h"

/* At least the distance of row i to its own centroid, in float32: the rounding of each difference, square
 * and addition is at most (d / VW + 12) u of the sum. */
static float skip_own_distance(const struct job *job, struct worker *w, int64_t i, int32_t label) {
    const hf_array *x = &job->a->x;
    const double *c = job->c64 + (int64_t)label * job->d;
    vd sum = vd_set1(0);
    int64_t j = 0;
    hf_to_f64(w->x64, job_row(job, i), x->dtype, job->d);
    w->slot64 = -1;
    for (; j + VDW <= job->d; j += VDW) {
        const vd diff = vd_sub(vd_load(w->x64 + j), vd_load(c + j));
        sum = vd_fma(diff, diff, sum);
    }
    double lanes[VDW];
    vd_store(lanes, sum);
    double total = 0;
    for (int t = 0; t < VDW; t++)
        total += lanes[t];
    for (; j < job->d; j++)
        total += (w->x64[j] - c[j]) * (w->x64[j] - c[j]);
    return (float)sqrt(total) * (1 + 0x1p-20f) + 0x1p-126f;
}

/* Look at rows [begin, end): skip them, or queue them for the moved or for all centroids. */
static void skip_scan(const struct job *job, struct worker *w, int64_t begin, int64_t end) {
    struct hf_assign_bounds *b = job->a->bounds;
    const float up = 1 + 0x1p-22f;
    const float low = 1 - 0x1p-22f;
    for (int64_t i = begin; i < end; i++) {
        const int32_t label = job->a->labels[i];
        if (label < 0) {
            w->full[w->n_full++] = i;
            continue;
        }
        const float drift = b->drift[label];
        const float others = label == b->drift_max_index ? b->drift_second : b->drift_max;
        float upper = drift > 0 ? (b->upper[i] + drift) * up : b->upper[i];
        const float lower = others > 0 ? fmaxf(0, (b->lower[i] - others) * low) : b->lower[i];
        const float half = b->half ? b->half[label] : 0;
        const float reach = fmaxf(lower, half);
        if (!(upper < reach) && drift > 0) {
            upper = fminf(upper, skip_own_distance(job, w, i, label));
        }
        if (upper < reach) {
            b->upper[i] = upper;
            b->lower[i] = lower;
            w->stats.skipped++;
        } else if (drift == 0 && job->moved.count > 0) {
            w->partial[w->n_partial++] =
                i; /* its lower bound is still that of the centroids that stayed */
        } else {
            w->full[w->n_full++] = i;
        }
    }
}

#endif
