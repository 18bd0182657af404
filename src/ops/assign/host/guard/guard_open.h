/* SPDX-License-Identifier: Apache-2.0
 * Open rows of a protected call: what decided a row's label is computed a second time in another
 * way. If both ways differ, float64 in order says which one is right. */
#ifndef HF_ASSIGN_GUARD_OPEN_H
#define HF_ASSIGN_GUARD_OPEN_H

#include "ops/assign/host/differences.h"
#include "ops/assign/host/guard/guard_moves.h"

/* |x - c|^2 in float32 with each feature in another lane than difference_sum() has it in. */
ALWAYS_INLINE double guard_square_as(const char *x, hf_dtype dtype, const float *c, int64_t d) {
    const int64_t first = d < VW / 2 ? d : VW / 2;
    const vf begin = vf_sub(difference_load_as(x, dtype, 0, first), difference_load(c, first));
    vf sum[4] = {vf_mul(begin, begin), vf_set1(0), vf_set1(0), vf_set1(0)};
    int64_t j = first;
    for (; j + 4 * VW <= d; j += 4 * VW) {
        UNROLL(4)
        for (int t = 0; t < 4; t++) {
            const int64_t at = j + t * VW;
            sum[t] = guard_add_square(sum[t], difference_load_as(x, dtype, at, d), vf_load(c + at));
        }
    }
    for (; j < d; j += VW)
        sum[0] = guard_add_square(sum[0], difference_load_as(x, dtype, j, d),
                                  difference_load(c + j, d - j));
    return (double)vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

/* The same of float64 rows and centroids. */
ALWAYS_INLINE double guard_square_wide(const double *x, const double *c, int64_t d) {
    const int first = d < VDW / 2 ? (int)d : VDW / 2;
    const vd begin = vd_sub(vd_load_n(x, first), vd_load_n(c, first));
    vd sum[2] = {vd_mul(begin, begin), vd_set1(0)};
    for (int64_t j = first; j < d; j += 2 * VDW) {
        UNROLL(2)
        for (int t = 0; t < 2; t++) {
            const int64_t at = j + t * VDW;
            sum[t] = guard_add_square64(sum[t], guard_load64(x + at, d - at),
                                        guard_load64(c + at, d - at));
        }
    }
    return vd_sum(vd_add(sum[0], sum[1]));
}

static NOINLINE double guard_square(const struct job *job, int64_t i, int32_t k) {
    const char *x = job_row(job, i);
    const void *c = guard_centroid_at(&job->a->c, k);
    switch (job->a->x.dtype) {
    case HF_F64:
        return guard_square_wide((const double *)(const void *)x, c, job->d);
    case HF_F16:
        return guard_square_as(x, HF_F16, c, job->d);
    case HF_BF16:
        return guard_square_as(x, HF_BF16, c, job->d);
    case HF_U8:
        return guard_square_as(x, HF_U8, c, job->d);
    default:
        return guard_square_as(x, HF_F32, c, job->d);
    }
}

/* Does guard_square() compute what differences do? */
static int guard_squares(const struct job *job) {
    return job->difference == DIFFERENCE_F32 ||
           (guard_batches(job) && job->difference == DIFFERENCE_F64 && job->a->x.dtype == HF_F64);
}

/* The relative error of guard_square(), if nothing underflows; in float64 that of the reference,
 * too. */
static double guard_square_share(const struct job *job) {
    return job->a->x.dtype == HF_F64 ? (double)(job->d + 64) * 0x1p-52
                                     : (double)(job->d / VW + 16) * 0x1p-24;
}

/* Do sums of guard_square() leave a doubt that the slot's label is the nearest of these candidates,
 * by more than the reference rounds? */
static int guard_squares_doubt(const struct job *job, const struct worker *w, int slot,
                               const int32_t *list, int count) {
    const int64_t row = w->block.row[slot];
    const int32_t label = w->least_arg[slot];
    const double own = guard_square(job, row, label);
    const double least = own * (1 + 3 * guard_square_share(job));
    int doubt = !(own > 0x1p-80 && own < 0x1p100);
    for (int i = 0; i < count && !doubt; i++)
        doubt = list[i] != label && !(guard_square(job, row, list[i]) > least);
    return doubt;
}

/* The same of float64 sums, in any order. */
static int guard_sums_doubt(const struct job *job, struct worker *w, int slot, const int32_t *list,
                            int count) {
    const double share = (double)(job->d + 64) * 0x1p-52;
    if (w->slot64 != slot)
        exact_load_row(job, w, slot);
    const double own = difference_key64(job, w, w->least_arg[slot]) * (1 + 2 * share);
    int doubt = !(own < INFINITY);
    for (int i = 0; i < count; i++)
        if (list[i] != w->least_arg[slot])
            doubt |= !(difference_key64(job, w, list[i]) > own);
    return doubt;
}

/* The nearest of some candidates by reference distances, from the last one to the first. */
static int32_t guard_nearest_listed(const struct job *job, struct worker *w, int slot,
                                    const int32_t *list, int count) {
    double least = INFINITY;
    int32_t nearest = INT32_MAX;
    if (w->slot64 != slot)
        exact_load_row(job, w, slot);
    for (int left = count; left > 0; left -= CHAINS) {
        const void *c[CHAINS];
        double sum[CHAINS];
        for (int i = 0; i < CHAINS; i++)
            c[i] = hf_array_row(&job->a->c, list[left - 1 - (i < left ? i : 0)]);
        exact_sums(job, w->x64, c, sum);
        for (int i = 0; i < CHAINS && i < left; i++) {
            const int32_t k = list[left - 1 - i];
            const double d = exact_distance(job, w, k, sum[i]);
            if (d < least || (d == least && k < nearest)) {
                least = d;
                nearest = k;
            }
        }
    }
    return nearest;
}

/* Two ways gave different labels to a slot: float64 against all centroids decides, by the second
 * and, if it does not confirm that, by a third look. */
static NOINLINE void guard_disagree(const struct job *job, struct worker *w, int slot) {
    const int64_t row = w->block.row[slot];
    const int32_t had = w->least_arg[slot];
    int32_t right = guard_nearest(job, w, row);
    if (right != had && right != guard_nearest(job, w, row))
        right = guard_nearest(job, w, row);
    w->guard.suspected++;
    w->least_arg[slot] = right;
    w->decided[slot] = 0; /* bounds are made again */
    w->others[slot] = -1;
    guard_tell(job, w, HF_FAULT_SETTLE, row, had, HF_BEHAVIOUR_UNKNOWN);
}

/* A row that differences decided gets its upper bound from its key, which may be too small although
 * the label is right: then bounds are made from the distance. The lower bound of rows that met all
 * centroids is not looked at, and so not used. */
static void guard_check_bounds(const struct job *job, struct worker *w, int slot) {
    if (!job->a->bounds || !w->decided[slot])
        return;
    w->others[slot] = -1;
    if (job->difference == DIFFERENCE_F32 &&
        w->least[slot] >= guard_square(job, w->block.row[slot], w->least_arg[slot]) *
                                  (1 + 2 * guard_square_share(job)) +
                              job->difference_least)
        return;
    if (w->slot64 != slot)
        exact_load_row(job, w, slot);
    const double share = (double)(job->d + 64) * 0x1p-52;
    const double own = difference_key64(job, w, w->least_arg[slot]);
    if (w->least[slot] >= own * (1 - share))
        return;
    w->decided[slot] = 0;
    w->guard.suspected++;
    guard_tell(job, w, HF_FAULT_SETTLE, w->block.row[slot], w->least_arg[slot],
               HF_BEHAVIOUR_UNKNOWN);
}

/* The label of a slot came from these candidates. */
static void guard_check_list(const struct job *job, struct worker *w, int slot, const int32_t *list,
                             int count) {
    const int32_t label = w->least_arg[slot];
    w->guard.checked++;
    if (label < 0 || label >= job->k) {
        guard_disagree(job, w, slot);
        return;
    }
    guard_check_bounds(job, w, slot);
    if (guard_squares(job) && !guard_squares_doubt(job, w, slot, list, count))
        return;
    if (job->difference == DIFFERENCE_F32 && !guard_sums_doubt(job, w, slot, list, count))
        return;
    if (guard_nearest_listed(job, w, slot, list, count) != w->least_arg[slot])
        guard_disagree(job, w, slot);
}

/* A list that cannot be right: it is not what was listed, or too short for an open row, whose
 * threshold two centroids reach; or one, where the second best is a key, whose last bits are not
 * those of its score (host/scan_amx.h). Such a row is suspect. */
static int guard_wrong_list(const struct job *job, struct worker *w, int slot) {
    const int count = w->listed[slot];
    const int32_t *list = w->list + slot * CANDIDATES_MAX;
    uint32_t sum = 0;
    if (count < 0 || count > CANDIDATES_MAX || !(w->block.best[slot] < INFINITY) ||
        !guard_checks(&job->guard, HF_FAULT_OPEN))
        return 0;
    for (int i = 0; i < count; i++)
        sum += (uint32_t)list[i];
    if (sum == w->guard.listed[slot] && count >= (TILE_HAS_SUMS ? 1 : 2))
        return 0;
    w->guard.suspected++;
    guard_tell(job, w, HF_FAULT_OPEN, w->block.row[slot], -1, HF_BEHAVIOUR_UNKNOWN);
    return 1;
}

/* The last `count` open rows of the list as they were left: a row whose number changed is forgotten
 * here and found by the sums of labels, one whose threshold changed is suspect. Returns how many
 * there are. */
static int guard_open_rows(const struct job *job, struct worker *w, int count) {
    struct open_row *open = w->open + w->n_open;
    if (!guard_checks(&job->guard, HF_FAULT_OPEN))
        return count;
    for (int i = 0; i < count; i++) {
        if (guard_fold_row(open[i].row) != open[i].again[0]) {
            open[i--] = open[--count];
        } else if (guard_fold_threshold(open[i].threshold) != open[i].again[1]) {
            w->guard.suspected++;
            guard_tell(job, w, HF_FAULT_OPEN, open[i].row, -1, HF_BEHAVIOUR_UNKNOWN);
            open[i].threshold = NAN;
        }
    }
    return count;
}

#endif
