/* SPDX-License-Identifier: Apache-2.0
 * Few columns, many centroids: what the filter decided is confirmed by the centroids near the row
 * (host/guard/guard_slab.h), which costs less than a checksum of all scores, and no margin. */
#ifndef HF_ASSIGN_GUARD_NEAR_H
#define HF_ASSIGN_GUARD_NEAR_H

#include "ops/assign/host/differences.h"
#include "ops/assign/host/guard/guard_slab.h"

#define NEAR_CENTROIDS 1500        /* fewer of them are scored in less time */
#define NEAR_SHRINK (1 - 0x1p-16f) /* of lower bounds: more than the rounding of a second look */

/* Keys above this are farther than the label of a slot, whose row is in x64. NaN: not known. */
static double guard_cut(const struct job *job, const struct worker *w, int32_t label, double *own) {
    const double share = (double)(job->d + 64) * 0x1p-52;
    double error = job->difference_least;
    *own = difference_key64(job, w, label);
    if (job->a->metric != HF_EUCLIDEAN) {
        const double norm = difference_norm(w->x64, job->d);
        if (norm == 0 && label == 0 && difference_is_zero(w->x64, job->d))
            return -INFINITY; /* all are as near, so that the first one is right */
        error = difference_bounded(job, norm) ? difference_error(job, norm) : NAN;
    }
    return difference_cut(job, *own + fabs(*own) * share, error);
}

/* Does a call confirm each label so? Before it is prepared; running: not only measured. */
static int guard_takes_near(const struct job *job, int running) {
    return job->a->exact && slab_serves(job) && job->k >= NEAR_CENTROIDS &&
           (!running || slab_in_range(job));
}

/* Are the label of a row and its bounds (if the caller has some) right, beyond doubt? The lower one
 * may be larger than what others are away by the rounding of a second look: NEAR_SHRINK. */
static NOINLINE int guard_near(const struct job *job, struct worker *w, int64_t row, int32_t label,
                               float upper, float lower) {
    int32_t list[2];
    double own;
    if (label < 0 || label >= job->k)
        return 0;
    exact_load(job, w, row);
    w->slot64 = -1;
    w->guard.checked++;
    double cut = guard_cut(job, w, label, &own);
    if (job->a->bounds) {
        const double low = (double)lower * (double)lower * (1 - 0x1p-16);
        if (!((double)upper * (double)upper >= own * (1 - 0x1p-40)))
            return 0;
        cut = cut < low ? low : cut;
    }
    return cut < INFINITY && slab_list(job, w, cut, list, 2) == 1 && list[0] == label;
}

/* The same once more for the row that guard_near() looked at, from one place before: each centroid
 * falls to another lane. */
static NOINLINE int guard_near_again(const struct job *job, struct worker *w, int32_t label) {
    int32_t list[2];
    double own;
    const double cut = guard_cut(job, w, label, &own);
    return slab_list_from(job, w, cut, -1, list, 2) == 1 && list[0] == label;
}

#endif
