/* SPDX-License-Identifier: Apache-2.0
 * Bounds leave out rows whose label cannot change: each row has an upper and a lower bound
 * (Hamerly, Making k-means even faster, SDM 2010), which follow the centroids' moves. */
#ifndef HF_ASSIGN_SKIP_H
#define HF_ASSIGN_SKIP_H

#include "device/host/isa_load.h"
#include "ops/assign/host/gather.h"
#include "ops/assign/host/settle.h"

#define SKIP_UP (1 + 0x1p-22f) /* pays for one rounding of a sum */
#define SKIP_LOW (1 - 0x1p-22f)

/* At least the distance of row i to its own centroid. Sums are in float64, so 2^-20 covers every
 * rounding. */
ALWAYS_INLINE float skip_own_distance_as(const struct job *job, int64_t i, int32_t label,
                                         hf_dtype dtype, hf_dtype c_dtype) {
    const void *x = job_row(job, i);
    const void *c = hf_array_row(&job->a->c, label);
    vd sum[2] = {vd_set1(0), vd_set1(0)};
    int64_t j = 0;
    for (; j + 2 * VDW <= job->d; j += 2 * VDW) {
        const vd a = vd_sub(vd_load_as(x, dtype, j), vd_load_as(c, c_dtype, j));
        const vd b = vd_sub(vd_load_as(x, dtype, j + VDW), vd_load_as(c, c_dtype, j + VDW));
        sum[0] = vd_fma(a, a, sum[0]);
        sum[1] = vd_fma(b, b, sum[1]);
    }
    double total = vd_sum(vd_add(sum[0], sum[1]));
    for (; j < job->d; j++) {
        const double diff = hf_load_f64(x, dtype, j) - hf_load_f64(c, c_dtype, j);
        total += diff * diff;
    }
    return (float)sqrt(total) * (1 + 0x1p-20f) + 0x1p-126f;
}

/* The same in float32, for rows and centroids that are exact in it. sqrt(d) 2^-70 covers underflow.
 */
static float skip_own_distance_f32(const struct job *job, int64_t i, int32_t label) {
    const double total = difference_square(job, i, label);
    return (float)(sqrt(total) * (1 + difference_square_share(job)) +
                   sqrt((double)job->d) * 0x1p-70) *
           (1 + 0x1p-20f);
}

ALWAYS_INLINE float skip_own_distance_of(const struct job *job, int64_t i, int32_t label,
                                         hf_dtype dtype) {
    if (job->a->c.dtype == HF_F32)
        return skip_own_distance_as(job, i, label, dtype, HF_F32);
    return skip_own_distance_as(job, i, label, dtype, HF_F64);
}

static float skip_own_distance(const struct job *job, int64_t i, int32_t label) {
    if (difference_possible(job)) /* bounds are Euclidean */
        return skip_own_distance_f32(job, i, label);
    switch (job->a->x.dtype) {
    case HF_F64:
        return skip_own_distance_of(job, i, label, HF_F64);
    case HF_F16:
        return skip_own_distance_of(job, i, label, HF_F16);
    case HF_BF16:
        return skip_own_distance_of(job, i, label, HF_BF16);
    case HF_U8:
        return skip_own_distance_of(job, i, label, HF_U8);
    default:
        return skip_own_distance_of(job, i, label, HF_F32);
    }
}

/* At most a distance whose square is at least `square`. */
static float skip_lower(double square) {
    return square > 0 ? smaller((float)sqrt(square) * (1 - 0x1p-20f), FLT_MAX) : 0;
}

/* At least a distance whose square is at most `square`. */
static float skip_upper(double square) { return (float)sqrt(square) * (1 + 0x1p-20f) + 0x1p-126f; }

/* One row: skip it, or queue it for the moved or for all centroids. */
static void skip_row(const struct job *job, struct worker *w, int64_t i) {
    struct hf_assign_bounds *b = job->a->bounds;
    const int32_t label = job->a->labels[i];
    if ((uint32_t)label >= (uint32_t)job->k) { /* -1, or a fault */
        w->full[w->n_full++] = i;
        return;
    }
    const float drift = b->drift[label];
    const float others = label == b->drift_max_index ? b->drift_second : b->drift_max;
    const float lower = others > 0 ? larger((b->lower[i] - others) * SKIP_LOW, 0) : b->lower[i];
    const float reach = larger(lower, b->half ? b->half[label] : 0);
    float upper = drift > 0 ? (b->upper[i] + drift) * SKIP_UP : b->upper[i];
    if (!(upper < reach) && drift > 0)
        upper = smaller(upper, skip_own_distance(job, i, label));
    if (upper < reach) {
        w->guard.bounds += hf_bounds_put(b, i, upper, lower);
        guard_note_label(job, w, i, label);
        w->stats.skipped++;
    } else if (drift == 0 && job->moved.count > 0) {
        w->partial[w->n_partial++] =
            i; /* its lower bound still holds for the centroids that stayed */
    } else {
        w->full[w->n_full++] = i;
    }
}

/* The same test for VW rows at once. Returns the bits of rows that need skip_row(). */
ALWAYS_INLINE uint32_t skip_vector(const struct job *job, struct worker *w, int64_t i) {
    struct hf_assign_bounds *b = job->a->bounds;
    const uint32_t all = (uint32_t)((1u << VW) - 1);
    const vi label = vi_load(job->a->labels + i);
    if (vi_beyond(label, (int32_t)job->k))
        return all;
    const vf zero = vf_set1(0);
    const vf drift = vf_gather(b->drift, label);
    const vm largest = vi_eq(label, vi_set1(b->drift_max_index));
    const vf others = vf_select(largest, vf_set1(b->drift_second), vf_set1(b->drift_max));
    const vf upper = vf_load(b->upper + i);
    const vf lower = vf_load(b->lower + i);
    const vf raised = vf_mul(vf_add(upper, drift), vf_set1(SKIP_UP));
    const vf reduced =
        vf_max(vf_mul(vf_sub(lower, others), vf_set1(SKIP_LOW)), zero); /* 0 for NaN */
    const vf up = vf_select(vf_lt(zero, drift), raised, upper);
    const vf low = vf_select(vf_lt(zero, others), reduced, lower);
    const vm skip = vf_lt(up, b->half ? vf_max(low, vf_gather(b->half, label)) : low);
    settle_bounds_all(job, w, i, vf_select(skip, up, upper), vf_select(skip, low, lower));
    return ~vm_bits(skip) & all;
}

/* Skip or queue rows [begin, end). */
static void skip_rows(const struct job *job, struct worker *w, int64_t begin, int64_t end) {
    int64_t i = begin;
    for (; i + VW <= end; i += VW) {
        uint32_t left = skip_vector(job, w, i);
        w->stats.skipped += VW - __builtin_popcount(left);
        guard_note_kept(job, w, i, ~left & (uint32_t)((1u << VW) - 1));
        for (; left; left &= left - 1)
            skip_row(job, w, i + __builtin_ctz(left));
    }
    for (; i < end; i++)
        skip_row(job, w, i);
}

#endif
