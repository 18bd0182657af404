/* SPDX-License-Identifier: Apache-2.0
 * What a filter kernel knows of a row between tiles and at the end: its best centroids, its error
 * bound, what is written. A thread looks at two rows, lane / 4 and lane / 4 + 8 of its warp's 16;
 * after filter_gather() the four lanes of a row know the same. */
#ifndef HF_ASSIGN_FILTER_ROWS_CUH
#define HF_ASSIGN_FILTER_ROWS_CUH

#include "ops/assign/assign_filter_schedule.cuh"
#include <float.h>
#include <limits.h>

/* The best of the tiles so far of one thread's columns. `place` counts groups of eight columns, gap
 * is the first less the second of the winning pair of columns: one number instead of two. */
struct filter_track {
    float best[2], place[2], gap[2], second[2];
    int limit[2];    /* screens: bits of the score that a pair must pass to be looked at */
    float margin[2]; /* screens: how far that is below the best */
};

/* A row: its best centroid (lowest index among equals) and the best score of all others. */
struct filter_found {
    float best, second;
    int id;
};

/* max over the problem's infos. */
struct filter_bounds {
    float rc, cm, bias, far;
};

static __device__ __forceinline__ void filter_track_begin(const float (&margin)[2],
                                                          struct filter_track *t) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        t->best[r] = t->second[r] = -INFINITY;
        t->place[r] = t->gap[r] = 0;
        t->limit[r] = INT_MIN;
        t->margin[r] = margin[r];
    }
}

static __device__ __forceinline__ void filter_join(struct filter_found *a, float best, float second,
                                                   int id) {
    a->second = fmaxf(fmaxf(a->second, second), fminf(a->best, best));
    const bool take = (int)(best > a->best) | ((int)(best == a->best) & (int)(id < a->id));
    a->best = take ? best : a->best;
    a->id = take ? id : a->id;
}

/* Bring the four lanes of row r together. */
template <int MODE>
static __device__ __forceinline__ struct filter_found filter_gather(const struct filter_track &t,
                                                                    int r) {
    struct filter_found f;
    f.best = t.best[r];
    f.second = -INFINITY;
    if (filter_decides(MODE))
        f.second = fmaxf(t.second[r], t.best[r] - fabsf(t.gap[r]));
    f.id = (int)t.place[r] * 8 + 2 * (int)(threadIdx.x & 3) + (t.gap[r] < 0);
#pragma unroll
    for (int lane = 1; lane < 4; lane <<= 1) {
        const float best = __shfl_xor_sync(~0u, f.best, lane);
        const int id = __shfl_xor_sync(~0u, f.id, lane);
        if (filter_decides(MODE))
            filter_join(&f, best, __shfl_xor_sync(~0u, f.second, lane), id);
        else
            filter_join(&f, best, -INFINITY, id);
    }
    return f;
}

static __device__ __forceinline__ void filter_put_part(float *part, int row,
                                                       const struct filter_found &f) {
    part[row * FILTER_PART] = f.best;
    part[row * FILTER_PART + 1] = __int_as_float(f.id);
    part[row * FILTER_PART + 2] = f.second;
}

static __device__ __forceinline__ void filter_join_part(const float *part, int row,
                                                        struct filter_found *f) {
    const volatile float *p = part + row * FILTER_PART;
    filter_join(f, p[0], p[2], __float_as_int(p[1]));
}

/* All lanes of a warp: the largest of the problem's infos. */
static __device__ __forceinline__ struct filter_bounds filter_bounds_of(const struct filter_args &a,
                                                                        int problem) {
    const struct filter_info *info = a.info + (int64_t)problem * a.infos_per_problem;
    struct filter_bounds b = {0, 0, 0, 0};
    for (int i = (int)(threadIdx.x & 31); i < a.infos_per_problem; i += 32) {
        b.rc = fmaxf(b.rc, info[i].rc);
        b.cm = fmaxf(b.cm, info[i].cm);
        b.bias = fmaxf(b.bias, info[i].bias);
        b.far = fmaxf(b.far, info[i].far);
    }
#pragma unroll
    for (int lane = 1; lane < 32; lane <<= 1) {
        b.rc = fmaxf(b.rc, __shfl_xor_sync(~0u, b.rc, lane));
        b.cm = fmaxf(b.cm, __shfl_xor_sync(~0u, b.cm, lane));
        b.bias = fmaxf(b.bias, __shfl_xor_sync(~0u, b.bias, lane));
        b.far = fmaxf(b.far, __shfl_xor_sync(~0u, b.far, lane));
    }
    return b;
}

/* E of a row, see assign_filter.h; the last factor pays for this arithmetic. |x| <= norm, |x'| at
 * most norm + loss. The reference's own roundings move its squares by a share of at most
 * (d + 4) 2^-53 of (|x| + |c|)^2, so scores by half of that: a.slack is twice as much. */
static __device__ __forceinline__ float
filter_error(const struct filter_args &a, const struct filter_bounds &b, float norm, float loss) {
    const float reach = norm + loss + b.far;
    const float e = norm * b.rc + loss * b.cm + a.acc * (norm * (b.cm + b.rc) + b.bias) +
                    a.slack * reach * reach + a.tiny;
    return e * (1 + 0x1p-10f);
}

/* What a score must reach to matter: best less 2 E. 2^-22: the differences and gap are rounded. */
static __device__ __forceinline__ float filter_threshold(float best, float error) {
    return best - 2 * error - fabsf(best) * 0x1p-22f;
}

static __device__ __forceinline__ void filter_open(const struct filter_args &a, int problem,
                                                   int row, bool open, float threshold) {
    const unsigned mask = __ballot_sync(~0u, open);
    if (mask == 0)
        return;
    const struct hf_filter_open &list = a.out.open;
    const int lane = (int)(threadIdx.x & 31);
    const int leader = __ffs((int)mask) - 1;
    int at = 0;
    if (lane == leader)
        at = atomicAdd(list.count + problem, __popc(mask));
    at = __shfl_sync(~0u, at, leader) + __popc(mask & ((1u << lane) - 1));
    if (!open || at >= list.cap)
        return;
    const int64_t entry = problem * list.cap + at;
    list.row[entry] = row;
    list.threshold[entry] = threshold;
    if (list.emitted)
        list.emitted[entry] = 0;
}

/* The end of a row: all lanes of a warp, lanes 0 mod 4 write. i: the row's place in the problem or
 * its list. */
template <int MODE>
static __device__ __forceinline__ void filter_finish(const struct filter_args &a, int problem,
                                                     int i, float error, float shift,
                                                     const struct filter_found &f) {
    constexpr bool LIST = filter_lists(MODE);
    const bool mine = (threadIdx.x & 3) == 0 && i < filter_rows_of<LIST>(a, problem);
    int row = i;
    if (mine && LIST)
        row = a.rows.list[problem * a.rows.n + i];
    const int64_t at = problem * a.rows.n + row;
    if (mine) {
        a.out.label[at] = f.id;
        if (a.out.best)
            a.out.best[at] = f.best - shift;
    }
    if constexpr (filter_decides(MODE)) {
        if (mine && a.out.second)
            a.out.second[at] = f.second - shift;
        if (mine && a.out.error)
            a.out.error[at] = error;
        float threshold = filter_threshold(f.best, error);
        const bool open = mine && !(f.second < threshold);
        if (!(threshold > -FLT_MAX))
            threshold = NAN;
        filter_open(a, problem, row, open, threshold);
    }
}

#endif
