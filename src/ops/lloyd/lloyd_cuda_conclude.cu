/* SPDX-License-Identifier: Apache-2.0
 * One cooperative launch that ends an iteration. Three parts, between which all blocks wait:
 * the sums follow the labels; a warp computes the centroid of a cluster, how far it moved and its
 * part of the inertia; a block adds these up for a problem and decides whether it goes on. The
 * float64 operations and their order are those of ops/means.c. */
#include "base/scaled.h"
#include "base/tree.h"
#include "ops/lloyd/lloyd_cuda.h"
#include "ops/update/update_cuda.cuh"

#define FEW_VALUES (1 << 22) /* as long as so few values move, they go to memory one by one; */
#define FEW_ROWS 3           /* as well as so many rows for each cluster */
#define LANES HF_TREE_CLUSTERS
#define ALL 0xffffffffu

static_assert(HF_TREE_COLUMNS == UPDATE_WARP, "a sum over columns is one of a warp");

/* ---- sums */

static __device__ void clear_sums(const struct hf_update_job &job) {
    const int64_t step = (int64_t)gridDim.x * blockDim.x;
    const int64_t first = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    for (int64_t i = first; i < job.batch * job.limbs * job.k * job.d; i += step)
        job.sum[i] = 0;
    for (int64_t i = first; i < job.batch * job.k; i += step)
        job.count[i] = 0;
    for (int64_t i = first; job.weight != NULL && i < job.batch * job.limbs * job.k; i += step)
        job.weight[i] = 0;
}

/* The rows whose labels changed are moved; when that is more work than to add up all, all are. */
template <hf_dtype T>
static __device__ void follow_labels(const struct hf_lloyd_job &job, int side, uint32_t *shared) {
    const struct hf_update_job &u = job.update;
    const int64_t rows = u.batch * u.n;
    const int64_t moved = job.control->moved;
    if ((moved - FEW_ROWS * u.batch * u.k) * u.d * u.limbs <= FEW_VALUES) {
        update_few<T>(job.update, job.moved, moved, job.labels[side], job.labels[1 - side]);
        return;
    }
    struct update_source from;
    from.moves = moved * 2 < rows;
    from.labels = job.labels[1 - side];
    from.old_labels = job.labels[side];
    from.list = job.moved;
    from.entries = (uint32_t)(from.moves ? 2 * moved : rows);
    if (!from.moves)
        clear_sums(job.update); /* the blocks wait before anything is added */
    update_many<T>(job.update, from, shared);
}

/* ---- centroids */

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

static __device__ __forceinline__ void add_inertia(const struct hf_lloyd_job &job,
                                                   const struct cluster &c, int f, double sum,
                                                   double center, struct lane_sums &lane) {
    if (job.rule.metric == HF_EUCLIDEAN) {
        const double shift = job.rule.shift[f];
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

/* Column f: its part of the inertia, the new centroid, and how far it moves. */
template <bool PLAIN>
static __device__ __forceinline__ void
move_column(const struct hf_lloyd_job &job, const struct cluster &c, const struct divisor &divisor,
            int f, int64_t limb, double before, void *next, struct lane_sums &lane) {
    const double sum = sum_at<PLAIN>(job.update, c, f, limb);
    add_inertia(job, c, f, sum, before, lane);
    double after = before;
    if (divisor.b > 0) {
        after = rounded(divide<PLAIN>(sum, divisor), job.rule.store);
        after = job.rule.type == HF_F64 ? after : (double)__double2float_rn(after);
    }
    put_center(next, job.rule.type, c.at + f, after);
    const double diff = __dsub_rn(after, before);
    lane.moved = __dadd_rn(lane.moved, __dmul_rn(diff, diff));
}

/* A cluster: its new centroid, and its parts of inertia and shift. */
template <bool PLAIN>
static __device__ void move_center(const struct hf_lloyd_job &job, const struct cluster &c, int g,
                                   int side) {
    const void *now = job.centers[side];
    struct divisor divisor;
    divisor.b = PLAIN ? c.weight : divisor_of(job, c);
    divisor.y = PLAIN ? __drcp_rn(divisor.b) : 0;
    struct lane_sums lane = {0, 0, 0};
    const int d = (int)job.update.d;
    constexpr int COLUMNS = PLAIN ? 4 : 1; /* whose loads are under way together */
    int f = (int)threadIdx.x % UPDATE_WARP;
    for (; f + (COLUMNS - 1) * UPDATE_WARP < d; f += COLUMNS * UPDATE_WARP) {
        int64_t sum[COLUMNS];
        double before[COLUMNS];
#pragma unroll
        for (int u = 0; u < COLUMNS; u++) {
            sum[u] = c.sum[f + u * UPDATE_WARP];
            before[u] = center_at(now, job.rule.type, c.at + f + u * UPDATE_WARP);
        }
#pragma unroll
        for (int u = 0; u < COLUMNS; u++)
            move_column<PLAIN>(job, c, divisor, f + u * UPDATE_WARP, sum[u], before[u],
                               job.centers[1 - side], lane);
    }
    for (; f < d; f += UPDATE_WARP)
        move_column<PLAIN>(job, c, divisor, f, c.sum[f], center_at(now, job.rule.type, c.at + f),
                           job.centers[1 - side], lane);
    const double inertia = inertia_part(job.rule.metric, c, lane);
    const double shift = fold_warp(lane.moved);
    if (threadIdx.x % UPDATE_WARP == 0) {
        job.inertia[g] = c.weight > 0 ? inertia : 0;
        job.shift[g] = shift;
    }
}

/* What the warps of a block find in their clusters, for the check of the counts. */
static __device__ __forceinline__ void tally(struct hf_lloyd_tally *t, int64_t count,
                                             double weight) {
    if (threadIdx.x % UPDATE_WARP != 0)
        return;
    atomicAdd((unsigned long long *)&t->rows, (unsigned long long)count);
    if (!(weight > 0))
        atomicAdd((unsigned long long *)&t->empty, 1ull);
    if (count < 0)
        atomicAdd((unsigned long long *)&t->negative, 1ull);
}

/* Clusters [begin, end) of problem p: a warp for each. */
template <bool PLAIN>
static __device__ void move_some(const struct hf_lloyd_job &job, int side, int p, int begin,
                                 int end) {
    __shared__ struct hf_lloyd_tally own;
    const struct hf_update_job &u = job.update;
    __syncthreads();
    if (threadIdx.x == 0)
        memset(&own, 0, sizeof own);
    __syncthreads();
    for (int g = begin + (int)threadIdx.x / UPDATE_WARP; g < end;
         g += (int)blockDim.x / UPDATE_WARP) {
        const int j = g - p * (int)u.k;
        struct cluster c;
        c.sum = u.sum + (p * u.limbs * u.k + j) * u.d;
        c.unit = job.rule.unit + p * u.d;
        c.p = p;
        c.at = (int64_t)g * u.d;
        c.weight = weight_of(u, p, j);
        tally(&own, u.count[g], c.weight);
        move_center<PLAIN>(job, c, g, side);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
        update_red(&job.tally[p].rows, own.rows);
        if (own.empty > 0)
            update_red(&job.tally[p].empty, own.empty);
        if (own.negative > 0)
            update_red(&job.tally[p].negative, own.negative);
    }
}

/* Is every sum one limb times a unit, every divisor a count, and no quotient near the ends of the
 * range? */
static __device__ bool is_plain(const struct hf_lloyd_job &job, int p) {
    bool plain = job.update.limbs == 1 && job.update.weight == NULL && job.rule.metric != HF_COSINE;
    for (int64_t f = threadIdx.x; plain && f < job.update.d; f += blockDim.x) {
        const double unit = job.rule.unit[p * job.update.d + f];
        plain = unit > 0x1p-700 && unit < 0x1p700;
    }
    return __syncthreads_and(plain);
}

/* A block takes neighbouring clusters, so that they belong to few problems. */
static __device__ void move_centers(const struct hf_lloyd_job &job, int side) {
    const int k = (int)job.update.k;
    const int clusters = (int)job.update.batch * k;
    const int share = (clusters + (int)gridDim.x - 1) / (int)gridDim.x;
    int begin = (int)min((int64_t)clusters, (int64_t)blockIdx.x * share);
    const int end = (int)min((int64_t)clusters, (int64_t)begin + share);
    while (begin < end) {
        const int p = begin / k;
        const int stop = (int)min((int64_t)end, ((int64_t)p + 1) * k);
        if (job.state[p].stop == HF_STOP_NONE && job.state[p].iterations < job.count)
            is_plain(job, p) ? move_some<true>(job, side, p, begin, stop)
                             : move_some<false>(job, side, p, begin, stop);
        begin = stop;
    }
}

/* ---- the end */

/* The sum of lane[HF_TREE_CLUSTERS] as hf_tree_fold(), by one warp: a thread folds the lanes that
 * have its number modulo 32. */
static __device__ double fold_lanes(const double *lane) {
    constexpr int HALF = LANES / UPDATE_WARP / 2;
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
static __device__ void fill_lanes(const double *inertia, const double *shift, int64_t k,
                                  double *lane) {
    constexpr int EACH = (LANES + HF_UPDATE_THREADS - 1) / HF_UPDATE_THREADS; /* of a thread */
    double sum[EACH][2] = {};
    for (int64_t base = threadIdx.x; base < k; base += LANES) {
        double v[EACH][2];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int64_t j = base + e * HF_UPDATE_THREADS;
            const bool mine = threadIdx.x + e * HF_UPDATE_THREADS < LANES && j < k;
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
        if (l < LANES) {
            lane[l] = sum[e][0];
            lane[LANES + l] = sum[e][1];
        }
    }
}

/* What is known of a problem before its sums are. */
struct known {
    struct hf_lloyd_tally tally;
    struct hf_lloyd_state state;
    struct hf_assign_counts counts;
    double tol, total_square, slack;
};

static __device__ void learn(const struct hf_lloyd_job &job, int64_t p, struct known *known) {
    const struct known own = {job.tally[p], job.state[p],        job.counts[p],
                              job.tol[p],   job.total_square[p], job.slack[p]};
    *known = own;
}

/* What a block finds out about a problem; for thread 0. */
struct totals {
    double inertia, shift;
    struct known known;
};

static __device__ void total_up(const struct hf_lloyd_job &job, int64_t p, double *lane,
                                struct totals *t) {
    const int64_t k = job.update.k;
    const int warp = (int)threadIdx.x / UPDATE_WARP;
    if (threadIdx.x == HF_UPDATE_THREADS - 1)
        learn(job, p, &t->known);
    fill_lanes(job.inertia + p * k, job.shift + p * k, k, lane);
    __syncthreads();
    if (warp < 2) {
        const double sum = fold_lanes(lane + warp * LANES);
        if (threadIdx.x % UPDATE_WARP == 0)
            (warp == 0 ? t->inertia : t->shift) = sum;
    }
    __syncthreads();
}

static __device__ bool has_risen(const struct hf_lloyd_job &job, const struct known &known,
                                 double inertia) {
    const struct hf_lloyd_state &state = known.state;
    if (job.first + state.iterations == 0 || job.rule.metric != HF_EUCLIDEAN || !job.exact)
        return false;
    if (state.empty > 0 && job.empty == HF_EMPTY_SPLIT)
        return false;
    return !(inertia <= __dadd_rn(state.inertia, known.slack));
}

/* An hf_stop or an hf_lloyd_event. */
static __device__ int decide(const struct hf_lloyd_job &job, const struct totals &t,
                             const hf_kmeans_iteration &it) {
    const struct known &known = t.known;
    if (known.tally.rows != job.update.n || known.tally.negative > 0)
        return HF_LLOYD_COUNTS;
    if (has_risen(job, known, it.inertia))
        return HF_LLOYD_ROSE;
    if (it.changed == 0)
        return HF_STOP_LABELS;
    if (known.tally.empty > 0 && job.empty != HF_EMPTY_KEEP)
        return HF_LLOYD_EMPTY;
    return t.shift <= known.tol ? HF_STOP_TOL : HF_STOP_NONE;
}

/* One thread ends the iteration of a problem that goes on; returns whether its centroids moved. */
static __device__ bool end_iteration(const struct hf_lloyd_job &job, int64_t p,
                                     const struct totals &t) {
    struct hf_lloyd_state state = t.known.state;
    const bool euclidean = job.rule.metric == HF_EUCLIDEAN;
    const double inertia = euclidean ? __dadd_rn(t.known.total_square, t.inertia) : t.inertia;
    hf_kmeans_iteration it;
    memset(&it, 0, sizeof it);
    it.inertia = euclidean && !(inertia > 0) ? 0 : inertia;
    it.changed = (int64_t)t.known.counts.changed;
    it.rows_rechecked = (int64_t)t.known.counts.rechecked;
    it.rows_skipped = (int64_t)t.known.counts.skipped;
    it.empty = t.known.tally.empty;
    state.stop = decide(job, t, it);
    const bool moved = state.stop == HF_STOP_NONE || state.stop == HF_STOP_TOL;
    it.shift = moved ? t.shift : 0;
    job.history[p * job.count + state.iterations] = it;
    if (state.stop < HF_LLOYD_EMPTY) {
        state.inertia = it.inertia;
        state.empty = it.empty;
        state.iterations++;
    }
    job.state[p] = state;
    memset(&job.tally[p], 0, sizeof job.tally[p]);
    const bool ended = state.stop != HF_STOP_NONE || state.iterations == job.count;
    if (ended && atomicSub(&job.control->running, 1) == 1)
        job.control->halt = 1;
    return moved;
}

/* The centroids of a problem that does not move are carried along. */
static __device__ void carry_centers(const struct hf_lloyd_job &job, int64_t p, int side) {
    const int64_t values = job.update.k * job.update.d;
    for (int64_t i = p * values + threadIdx.x; i < (p + 1) * values; i += blockDim.x) {
        if (job.rule.type == HF_F64)
            ((double *)job.centers[1 - side])[i] = ((const double *)job.centers[side])[i];
        else
            ((float *)job.centers[1 - side])[i] = ((const float *)job.centers[side])[i];
    }
}

/* A block for each problem. */
static __device__ void end_problems(const struct hf_lloyd_job &job, int side, double *lane) {
    __shared__ bool moved;
    __shared__ struct totals totals;
    for (int64_t p = blockIdx.x; p < job.update.batch; p += gridDim.x) {
        const bool runs = job.state[p].stop == HF_STOP_NONE && job.state[p].iterations < job.count;
        __syncthreads();
        if (runs) {
            total_up(job, p, lane, &totals);
            if (threadIdx.x == 0)
                moved = end_iteration(job, p, totals);
        } else if (threadIdx.x == 0) {
            moved = false;
        }
        __syncthreads();
        if (!moved && job.update.batch > 1)
            carry_centers(job, p, side);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        job.control->steps++;
        job.control->moves += job.update.batch > 1 || moved;
        update_release(job.update);
    }
}

template <hf_dtype T>
static __global__ void __launch_bounds__(HF_UPDATE_THREADS, HF_UPDATE_BLOCKS)
    lloyd_conclude(const __grid_constant__ struct hf_lloyd_job job, int side) {
    extern __shared__ double shared[];
    if (job.control->halt)
        return;
    follow_labels<T>(job, side, (uint32_t *)shared);
    hf_grid_wait(job.update.scratch.barrier);
    move_centers(job, side);
    hf_grid_wait(job.update.scratch.barrier);
    end_problems(job, side, shared);
}

hf_status hf_lloyd_conclude(struct hf_cuda *cuda, const struct hf_lloyd_job *job, int side) {
    const dim3 grid((unsigned)cuda->sms * HF_UPDATE_BLOCKS);
    const size_t bins = hf_update_bins_bytes(job->update.batch, job->update.k);
    const size_t lanes = 2 * LANES * sizeof(double);
    const size_t shared = bins > lanes ? bins : lanes;
    struct hf_lloyd_job own = *job;
    void *args[] = {&own, &side};
    cudaError_t error = cudaSuccess;
    hf_for_dtype(job->update.dtype, [&](auto type) {
        error =
            cudaLaunchCooperativeKernel((const void *)lloyd_conclude<decltype(type)::value>, grid,
                                        dim3(HF_UPDATE_THREADS), args, shared, cuda->stream);
    });
    return hf_cuda_check(cuda, error, "lloyd_conclude");
}
