/* SPDX-License-Identifier: Apache-2.0
 * Op means as the lanes of a warp and a block make it, in the order of float64 operations that the
 * op has on the host; and whether a problem of op lloyd goes on. */
#ifndef HF_LLOYD_CUDA_MEANS_CUH
#define HF_LLOYD_CUDA_MEANS_CUH

#include "base/scaled.h"
#include "base/tree.h"
#include "device/cuda/slot.cuh"
#include "ops/lloyd/cuda/lloyd_cuda.h"
#include "ops/update/update_cuda.cuh"

#define ALL 0xffffffffu
#define TREE_LANES HF_TREE_CLUSTERS

static_assert(HF_TREE_COLUMNS == UPDATE_WARP, "a sum over columns is one of a warp");

/* A cluster, as a warp sees it. */
struct cluster {
    const int64_t *sum; /* [d] the first limbs */
    const double *unit; /* [d] */
    int32_t p;          /* its problem */
    int64_t at;         /* of its centroid in [batch, k, d] */
    double weight;
};

/* The sum over the lanes of a warp, in all of them, as hf_tree_fold(). */
static __device__ __forceinline__ double fold_warp(double v) {
    for (int half = UPDATE_WARP / 2; half > 0; half /= 2)
        v = __dadd_rn(v, __shfl_xor_sync(ALL, v, half));
    return v;
}

/* The sum of column f, of which `sum` is the first limb. PLAIN: see is_plain(). */
template <bool PLAIN>
static __device__ __forceinline__ double sum_at(const struct hf_update_job &u,
                                                const struct cluster &c, int f, int64_t sum) {
    if (PLAIN || c.unit[f] > 0)
        return __dmul_rn((double)sum, c.unit[f]);
    return hf_scaled_limbs(sum, u.limbs > 1 ? c.sum[u.k * u.d + f] : 0, u.limbs, u.bits,
                           u.mult[c.p * u.mult_stride + f]);
}

static __device__ double weight_of(const struct hf_update_job &u, int64_t p, int64_t j) {
    if (u.weight == NULL)
        return (double)u.count[p * u.k + j];
    const int64_t *w = u.weight + p * u.limbs * u.k + j;
    return hf_scaled_limbs(w[0], u.limbs > 1 ? w[u.k] : 0, u.limbs, u.bits, u.weight_mult[p]);
}

static __device__ __forceinline__ double center_at(const void *centers, hf_dtype type, int64_t i) {
    return type == HF_F64 ? ((const double *)centers)[i] : (double)((const float *)centers)[i];
}

/* As hf_round_to(): to float32 with the last bit set when inexact, then to 16 bits. */
static __device__ __forceinline__ float to_odd(double v) {
    const float f = __double2float_rz(v);
    return (double)f == v || isnan(v) ? f : __int_as_float(__float_as_int(f) | 1);
}

static __device__ __forceinline__ double rounded(double v, hf_dtype store) {
    switch (store) {
    case HF_F16:
        return (double)__half2float(__float2half_rn(to_odd(v)));
    case HF_BF16:
        return (double)__bfloat162float(__float2bfloat16_rn(to_odd(v)));
    case HF_F32:
        return (double)__double2float_rn(v);
    default:
        return v;
    }
}

static __device__ __forceinline__ void put_center(void *dst, hf_dtype type, int64_t i, double v) {
    if (type == HF_F64)
        ((double *)dst)[i] = v;
    else
        ((float *)dst)[i] = (float)v;
}

/* A divisor and, where PLAIN, its reciprocal. */
struct divisor {
    double b, y;
};

/* a / b, rounded to nearest. PLAIN: by two corrections of a * y, after the first of which the
 * quotient is off by less than its last bit and after the second right (Markstein 1990). b is a
 * whole number then, so not all bits of its significand are 1, and no remainder underflows. */
template <bool PLAIN>
static __device__ __forceinline__ double divide(double a, const struct divisor &d) {
    if (!PLAIN)
        return __ddiv_rn(a, d.b);
    double q = __dmul_rn(a, d.y);
    q = __fma_rn(__fma_rn(-d.b, q, a), d.y, q);
    return __fma_rn(__fma_rn(-d.b, q, a), d.y, q);
}

/* What a lane adds up over its columns. */
struct lane_sums {
    double part, square; /* of the inertia of the labels against the centroids they came from */
    double moved;        /* squares of how far the centroid moves */
};

static __device__ __forceinline__ void add_inertia(hf_metric metric, double shift,
                                                   const struct cluster &c, double sum,
                                                   double center, struct lane_sums &lane) {
    if (metric == HF_EUCLIDEAN) {
        center = __dsub_rn(center, shift);
        const double rest = __dsub_rn(sum, __dmul_rn(c.weight, shift));
        const double term = __dsub_rn(__dmul_rn(c.weight, center), __dmul_rn(2, rest));
        lane.part = __dadd_rn(lane.part, __dmul_rn(center, term));
    } else {
        lane.part = __dadd_rn(lane.part, __dmul_rn(sum, center));
        lane.square = __dadd_rn(lane.square, __dmul_rn(center, center));
    }
}

/* What the cluster adds to the inertia. */
static __device__ double inertia_part(hf_metric metric, const struct cluster &c,
                                      const struct lane_sums &lane) {
    const double part = fold_warp(lane.part);
    if (metric == HF_EUCLIDEAN)
        return part;
    if (metric == HF_DOT)
        return -part;
    const double square = fold_warp(lane.square);
    return square > 0 ? __dsub_rn(c.weight, __ddiv_rn(part, __dsqrt_rn(square))) : c.weight;
}

/* What the sum is divided by; 0 or less: the centroid stays. */
static __device__ double divisor_of(const struct hf_lloyd_job &job, const struct cluster &c) {
    if (!(c.weight > 0) || job.rule.metric != HF_COSINE)
        return c.weight;
    double square = 0;
    for (int f = (int)threadIdx.x % UPDATE_WARP; f < job.update.d; f += UPDATE_WARP) {
        const double v = sum_at<false>(job.update, c, f, c.sum[f]);
        square = __dadd_rn(square, __dmul_rn(v, v));
    }
    return __dsqrt_rn(fold_warp(square));
}

/* Where a column of the centroid moves to, which adds to how far it does. */
template <bool PLAIN>
static __device__ __forceinline__ double moved_to(const struct hf_center_rule &rule,
                                                  const struct divisor &divisor, double sum,
                                                  double before, struct lane_sums &lane) {
    double after = before;
    if (divisor.b > 0) {
        after = rounded(divide<PLAIN>(sum, divisor), rule.store);
        after = rule.type == HF_F64 ? after : (double)__double2float_rn(after);
    }
    const double diff = __dsub_rn(after, before);
    lane.moved = __dadd_rn(lane.moved, __dmul_rn(diff, diff));
    return after;
}

/* Column f of a centroid: the first limb of its sum, and where it was. */
struct column {
    int f;
    int64_t limb;
    double before;
};

/* A column's part of the inertia, the new centroid, and how far it moves. */
template <bool PLAIN>
static __device__ __forceinline__ void
move_column(const struct hf_lloyd_job &job, const struct cluster &c, const struct divisor &divisor,
            const struct column &column, void *next, struct lane_sums &lane) {
    const int f = column.f;
    const double sum = sum_at<PLAIN>(job.update, c, f, column.limb);
    const double shift = job.rule.metric == HF_EUCLIDEAN ? job.rule.shift[f] : 0;
    add_inertia(job.rule.metric, shift, c, sum, column.before, lane);
    put_center(next, job.rule.type, c.at + f,
               moved_to<PLAIN>(job.rule, divisor, sum, column.before, lane));
}

/* The sum of lane[HF_TREE_CLUSTERS] as hf_tree_fold(), by one warp: a thread folds the lanes that
 * have its number modulo 32. */
static __device__ __forceinline__ double fold_lanes(const double *lane) {
    constexpr int HALF = TREE_LANES / UPDATE_WARP / 2;
    double v[HALF];
    lane += threadIdx.x % UPDATE_WARP;
#pragma unroll
    for (int m = 0; m < HALF; m++)
        v[m] = __dadd_rn(lane[m * UPDATE_WARP], lane[(m + HALF) * UPDATE_WARP]);
#pragma unroll
    for (int half = HALF / 2; half > 0; half /= 2)
#pragma unroll
        for (int m = 0; m < half; m++)
            v[m] = __dadd_rn(v[m], v[m + half]);
    return fold_warp(v[0]);
}

/* The parts [k] of inertia and shift into lanes, those of the shift behind. All loads of a round
 * are under way together: a block has little but latency here. */
static __device__ __forceinline__ void fill_lanes(const double *inertia, const double *shift,
                                                  int64_t k, double *lane) {
    constexpr int EACH = (TREE_LANES + HF_UPDATE_THREADS - 1) / HF_UPDATE_THREADS; /* of a thread */
    double sum[EACH][2] = {};
    for (int64_t base = threadIdx.x; base < k; base += TREE_LANES) {
        double v[EACH][2];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int64_t j = base + e * HF_UPDATE_THREADS;
            const bool mine = threadIdx.x + e * HF_UPDATE_THREADS < TREE_LANES && j < k;
            v[e][0] = mine ? inertia[j] : 0;
            v[e][1] = mine ? shift[j] : 0;
        }
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            sum[e][0] = __dadd_rn(sum[e][0], v[e][0]);
            sum[e][1] = __dadd_rn(sum[e][1], v[e][1]);
        }
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int l = (int)threadIdx.x + e * HF_UPDATE_THREADS;
        if (l < TREE_LANES) {
            lane[l] = sum[e][0];
            lane[TREE_LANES + l] = sum[e][1];
        }
    }
}

/* What is known of a problem before its sums are. */
struct known {
    struct hf_lloyd_tally tally;
    struct hf_lloyd_state state;
    struct hf_assign_counts counts;
    double tol, total_square, slack;
    uint32_t fault; /* of the guard slot */
};

/* What a block finds out about a problem; for thread 0. */
struct totals {
    double inertia, shift;
    struct known known;
};

/* An hf_stop or an hf_lloyd_event. */
static __device__ int decide(const struct hf_lloyd_job &job, const struct totals &t,
                             const hf_kmeans_iteration &it) {
    const struct known &known = t.known;
    const struct hf_lloyd_laws laws = {job.rule.metric, job.exact, job.empty, known.slack};
    const struct hf_lloyd_before before = {job.first + known.state.iterations, known.state.inertia,
                                           known.state.empty};
    const struct hf_lloyd_facts facts = {job.update.n, known.fault, known.tally, it.inertia,
                                         it.changed};
    const int stop = hf_lloyd_decide(&laws, &before, &facts);
    return stop == HF_STOP_NONE && t.shift <= known.tol ? HF_STOP_TOL : stop;
}

/* The end of an iteration of a problem: *it, its state, and whether its centroids move. */
static __device__ bool end_iteration(const struct hf_lloyd_job &job, const struct totals &t,
                                     struct hf_lloyd_state *state, hf_kmeans_iteration *it) {
    const bool euclidean = job.rule.metric == HF_EUCLIDEAN;
    const double inertia = euclidean ? __dadd_rn(t.known.total_square, t.inertia) : t.inertia;
    *state = t.known.state;
    memset(it, 0, sizeof *it);
    it->inertia = euclidean && !(inertia > 0) ? 0 : inertia;
    it->changed = (int64_t)t.known.counts.changed;
    it->rows_rechecked = (int64_t)t.known.counts.rechecked;
    it->rows_float64 = (int64_t)t.known.counts.float64;
    it->rows_skipped = (int64_t)t.known.counts.skipped;
    it->empty = t.known.tally.empty;
    state->stop = decide(job, t, *it);
    const bool moved = state->stop == HF_STOP_NONE || state->stop == HF_STOP_TOL;
    it->shift = moved ? t.shift : 0;
    if (state->stop < HF_LLOYD_EMPTY) {
        state->inertia = it->inertia;
        state->empty = it->empty;
        state->iterations++;
    }
    return moved;
}

#endif
