/* SPDX-License-Identifier: Apache-2.0
 * Sums of squared differences decide most rows that the filter leaves open, because their error is
 * relative to the distance and not to the lengths. They are in float32 if that holds rows and
 * centroids exactly, else in float64 with terms in any order; cosine and dot have sums of products
 * instead. What they leave open is for the reference's own order (host/exact.h). See
 * docs/numerics/differences.md.
 *
 * The key of a centroid is the sum of squares, or -x.c (dot), or -x.c / |c| (cosine): the nearer
 * the centroid, the smaller its key. Let `best` be a row's least key. A centroid whose key is above
 * difference_cut() of it is farther for the reference, too, and not in a tie. */
#ifndef HF_ASSIGN_DIFFERENCES_H
#define HF_ASSIGN_DIFFERENCES_H

#include "ops/assign/host/exact.h"

#define DIFFERENCE_FAR 1e37 /* float32 sums from here on may have overflowed */
#define DIFFERENCE_FAR64 1e300
#define DIFFERENCE_LEAST 0x1p-140     /* underflow of a feature's square, */
#define DIFFERENCE_LEAST64 0x1p-1070  /* in float64 */
#define DIFFERENCE_FEATURES (1 << 24) /* for more of them no bound is known */
#define DIFFERENCE_RANGE 0x1p400      /* lengths up to which no product leaves float64's range */

/* Can float32 compare distances? Rows and centroids must be exact in it. */
static int difference_possible(const struct job *job) {
    return job->a->metric == HF_EUCLIDEAN && job->a->c.dtype == HF_F32 &&
           job->a->x.dtype != HF_F64 && job->d <= DIFFERENCE_FEATURES;
}

/* The relative error of difference_square(): m roundings make m u / (1 - 2 m u) of what is
 * computed. Two of them are to spare. */
static double difference_square_share(const struct job *job) {
    const double most = ((double)job->d / (4 * VW) + 14) * 0x1p-24;
    return most / (1 - 2 * most);
}

/* Choose how rows are compared, and bound the error of sums in blocks of DENSE_DEPTH terms or in VW
 * parts. */
static void difference_prepare(struct job *job) {
    const double d = (double)job->d;
    const double scale = (double)job->scale;
    const int plain = job->usable && scale >= 0x1p-50 && scale <= 0x1p50;
    const int wide = job->d <= DIFFERENCE_FEATURES && job->in_range;
    job->difference = difference_possible(job) && plain ? DIFFERENCE_F32
                      : wide                            ? DIFFERENCE_F64
                                                        : DIFFERENCE_NONE;
    const double chain = d / DENSE_DEPTH + DENSE_DEPTH + 8;
    /* in float64 the reference's own roundings of sums and lengths count, too */
    const double most =
        job->difference == DIFFERENCE_F32 ? chain * 0x1p-24 : (chain + 3 * d + 64) * 0x1p-53;
    job->difference_share = most / (1 - 2 * most);
    job->difference_least =
        d * (job->difference == DIFFERENCE_F32 ? DIFFERENCE_LEAST : DIFFERENCE_LEAST64);
}

/* The absolute error of keys; there is a relative one beside. norm: at least |x|. */
static double difference_error(const struct job *job, double norm) {
    return job->a->metric == HF_EUCLIDEAN
               ? job->difference_least
               : job->difference_share * norm * job->difference_reach + job->difference_least;
}

/* A row of zeros has the same distance to all centroids (cosine, dot). */
static int difference_is_zero(const double *x, int64_t d) {
    int zero = 1;
    for (int64_t j = 0; j < d; j++)
        zero &= x[j] == 0;
    return zero;
}

/* Is there a bound on the keys of a row of this length? */
static int difference_bounded(const struct job *job, double norm) {
    return job->a->metric == HF_EUCLIDEAN ||
           (norm > 1 / DIFFERENCE_RANGE && norm < DIFFERENCE_RANGE);
}

/* Keys above this are farther than the one of `best`. Inf or NaN: nothing is known. */
static double difference_cut(const struct job *job, double best, double error) {
    if (job->a->metric != HF_EUCLIDEAN)
        return best + 2.5 * error;
    const double share = job->difference_share;
    const double cut = (best * (1 + share) + 2 * error) / (1 - share) * (1 + 0x1p-48);
    return job->difference == DIFFERENCE_F32 && !(cut < DIFFERENCE_FAR) ? INFINITY : cut;
}

/* Note a bound on the distances of a slot to all centroids but its own: their keys are at least
 * `next`. A sum that overflowed counts as the largest one that did not. */
static void difference_others(const struct job *job, struct worker *w, int slot, double next) {
    const double most = job->difference == DIFFERENCE_F32 ? DIFFERENCE_FAR : DIFFERENCE_FAR64;
    w->others[slot] = fmin(next, most) * (1 - job->difference_share) - job->difference_least;
}

/* At least the squared distance of this key. */
static double difference_upper(const struct job *job, double key) {
    return key * (1 + job->difference_share) + job->difference_least;
}

/* The first n values at p, zeros behind them. */
ALWAYS_INLINE vf difference_load(const float *p, int64_t n) {
    return n >= VW ? vf_load(p) : vf_load_n(p, (int)n);
}

/* Elements of a row from j on, zeros behind d. */
ALWAYS_INLINE vf difference_load_as(const char *x, hf_dtype dtype, int64_t j, int64_t d) {
    const size_t size = gather_bytes(dtype);
    const char *at = x + (size_t)j * size;
    if (j + VW <= d)
        return gather_raw(at, dtype);
    if (dtype == HF_F32)
        return vf_load_n((const float *)(const void *)at, (int)(d - j));
    double tail[VW] = {0}; /* room for VW elements of any type */
    memcpy(tail, at, (size_t)(d - j) * size);
    return gather_raw(tail, dtype);
}

/* |x - c|^2 of row i and centroid k in float32, with at most d / (4 VW) + 12 roundings one after
 * another; what underflows adds up to d DIFFERENCE_LEAST at most. */
ALWAYS_INLINE double difference_square_as(const struct job *job, int64_t i, int32_t k,
                                          hf_dtype dtype) {
    const char *x = job_row(job, i);
    const float *c = hf_array_row(&job->a->c, k);
    vf sum[4] = {vf_set1(0), vf_set1(0), vf_set1(0), vf_set1(0)};
    int64_t j = 0;
    for (; j + 4 * VW <= job->d; j += 4 * VW) {
        UNROLL(4)
        for (int t = 0; t < 4; t++) {
            const int64_t at = j + t * VW;
            const vf diff = vf_sub(difference_load_as(x, dtype, at, job->d), vf_load(c + at));
            sum[t] = vf_fma(diff, diff, sum[t]);
        }
    }
    for (; j < job->d; j += VW) {
        const vf diff =
            vf_sub(difference_load_as(x, dtype, j, job->d), difference_load(c + j, job->d - j));
        sum[0] = vf_fma(diff, diff, sum[0]);
    }
    return (double)vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

static NOINLINE double difference_square(const struct job *job, int64_t i, int32_t k) {
    switch (job->a->x.dtype) {
    case HF_F16:
        return difference_square_as(job, i, k, HF_F16);
    case HF_BF16:
        return difference_square_as(job, i, k, HF_BF16);
    case HF_U8:
        return difference_square_as(job, i, k, HF_U8);
    default:
        return difference_square_as(job, i, k, HF_F32);
    }
}

/* A row as float32 to out [d_pad], zeros behind d. */
ALWAYS_INLINE void difference_row_as(const struct job *job, int64_t i, hf_dtype dtype, float *out) {
    const char *x = job_row(job, i);
    int64_t j = 0;
    for (; j < job->d; j += VW)
        vf_store(out + j, difference_load_as(x, dtype, j, job->d));
    for (; j < job->d_pad; j += VW)
        vf_store(out + j, vf_set1(0));
}

static void difference_row(const struct job *job, int64_t i, float *out) {
    switch (job->a->x.dtype) {
    case HF_F16:
        difference_row_as(job, i, HF_F16, out);
        break;
    case HF_BF16:
        difference_row_as(job, i, HF_BF16, out);
        break;
    case HF_U8:
        difference_row_as(job, i, HF_U8, out);
        break;
    default:
        difference_row_as(job, i, HF_F32, out);
        break;
    }
}

/* |x - c|^2 of a row as difference_row() leaves it. */
static float difference_sum(const float *x, const float *c, int64_t d) {
    vf sum[4] = {vf_set1(0), vf_set1(0), vf_set1(0), vf_set1(0)};
    int64_t j = 0;
    for (; j + 4 * VW <= d; j += 4 * VW) {
        UNROLL(4)
        for (int t = 0; t < 4; t++) {
            const vf diff = vf_sub(vf_load(x + j + t * VW), vf_load(c + j + t * VW));
            sum[t] = vf_fma(diff, diff, sum[t]);
        }
    }
    for (int t = 0; j < d; j += VW, t++) {
        const vf diff = vf_sub(vf_load(x + j), difference_load(c + j, d - j));
        sum[t & 3] = vf_fma(diff, diff, sum[t & 3]);
    }
    return vf_sum(vf_add(vf_add(sum[0], sum[1]), vf_add(sum[2], sum[3])));
}

ALWAYS_INLINE double difference_sum64_as(const double *x, const void *c, int64_t d, hf_dtype dtype,
                                         int euclidean) {
    vd sum[2] = {vd_set1(0), vd_set1(0)};
    for (int64_t j = 0; j < d; j += VDW) {
        const int n = d - j < VDW ? (int)(d - j) : VDW;
        const vd a = vd_load_as_n(x, HF_F64, j, n);
        const vd b = vd_load_as_n(c, dtype, j, n);
        const vd diff = vd_sub(a, b);
        const int t = (int)(j / VDW & 1);
        sum[t] = euclidean ? vd_fma(diff, diff, sum[t]) : vd_fma(a, b, sum[t]);
    }
    return vd_sum(vd_add(sum[0], sum[1]));
}

/* From x.c to the key of centroid k. */
static inline double difference_key(const struct job *job, double sum, int32_t k) {
    const hf_metric metric = job->a->metric;
    return metric == HF_EUCLIDEAN ? sum : metric == HF_DOT ? -sum : -sum * job->c_inverse[k];
}

/* The key of the row in x64. */
static double difference_key64(const struct job *job, const struct worker *w, int32_t k) {
    const void *c = hf_array_row(&job->a->c, k);
    const int euclidean = job->a->metric == HF_EUCLIDEAN;
    double sum;
    if (job->a->c.dtype == HF_F32)
        sum = euclidean ? difference_sum64_as(w->x64, c, job->d, HF_F32, 1)
                        : difference_sum64_as(w->x64, c, job->d, HF_F32, 0);
    else
        sum = euclidean ? difference_sum64_as(w->x64, c, job->d, HF_F64, 1)
                        : difference_sum64_as(w->x64, c, job->d, HF_F64, 0);
    return difference_key(job, sum, k);
}

/* At least |x|, and hardly more. */
static double difference_norm(const double *x, int64_t d) {
    return sqrt(difference_sum64_as(x, x, d, HF_F64, 0)) * (1 + 0x1p-20);
}

/* Keys of the candidates of a slot. Returns their absolute error; < 0: there is no bound. */
static double difference_keys(const struct job *job, struct worker *w, int slot,
                              const int32_t *list, int count, double *key) {
    if (job->difference == DIFFERENCE_NONE)
        return -1;
    if (job->difference == DIFFERENCE_F32) {
        difference_row(job, w->block.row[slot], w->row32);
        for (int i = 0; i < count; i++)
            key[i] = (double)difference_sum(w->row32, hf_array_row(&job->a->c, list[i]), job->d);
        return job->difference_least;
    }
    exact_load_row(job, w, slot);
    const double norm = job->a->metric == HF_EUCLIDEAN ? 0 : difference_norm(w->x64, job->d);
    for (int i = 0; i < count; i++)
        key[i] = difference_key64(job, w, list[i]);
    return difference_bounded(job, norm) ? difference_error(job, norm) : -1;
}

/* The label of a slot among `count` <= CANDIDATES_MAX candidates: by their keys or, if these do not
 * decide, in float64 in order. */
static void difference_list(const struct job *job, struct worker *w, int slot, int32_t *list,
                            int count) {
    double key[CANDIDATES_MAX] = {0};
    const double error = difference_keys(job, w, slot, list, count, key);
    STRIKE_KEYS(w, slot, list, count, key);
    w->stats.pairs += count;
    int left = count;
    if (error >= 0) {
        int nearest = 0;
        for (int i = 1; i < count; i++)
            nearest = key[i] < key[nearest] ? i : nearest;
        const double cut = difference_cut(job, key[nearest], error);
        w->least_arg[slot] = list[nearest];
        left = 0;
        for (int i = 0; i < count; i++)
            if (!(key[i] > cut))
                list[left++] = list[i];
        if (left == 1) {
            w->least[slot] = difference_upper(job, key[nearest]);
            w->decided[slot] = 1;
            return;
        }
    }
    w->least_arg[slot] = INT32_MAX;
    exact_some(job, w, slot, list, left);
}

#endif
