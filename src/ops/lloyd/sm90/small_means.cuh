/* SPDX-License-Identifier: Apache-2.0
 * New centroids of a problem, a warp for each, packed for the filter at once; and the end of an
 * iteration, which every block of the problem works out for itself. */
#ifndef HF_LLOYD_SMALL_MEANS_CUH
#define HF_LLOYD_SMALL_MEANS_CUH

#include "device/cuda/reduce.cuh"
#include "ops/lloyd/sm90/small.cuh"

/* Sums over the columns of one centroid, as struct pack_sums of cuda/filter_pack.cu; what only
 * bounds something is float32 and rounded up. */
struct small_sums {
    double square; /* |c'|^2 */
    float error;   /* at least |c' - c16|^2 */
};

/* A column of a centroid, c, in 16 bits. */
static __device__ __forceinline__ __half small_round(double c, double shift, double scale,
                                                     struct small_sums *sums) {
    const double v = (c - shift) * scale;
    const __half h = __double2half(v);
    const float lost = __double2float_ru(fabs(v - (double)__half2float(h)));
    sums->square += v * v;
    sums->error = __fmaf_ru(lost, lost, sums->error);
    return h;
}

static __device__ __forceinline__ float small_fold_up(float v) {
    for (int half = 16; half > 0; half /= 2)
        v = __fadd_ru(v, __shfl_xor_sync(~0u, v, half));
    return v;
}

template <class S>
static __device__ __forceinline__ void small_put_bias(uint8_t *tile, int slot, double bias) {
    const int place = slot / 16 * 16 + slot % 8 / 2 * 4 + slot % 16 / 8 * 2 + slot % 2;
    ((float *)(tile + S::TILE))[place] = (float)bias;
}

/* Bias and bounds of a centroid, as pack_kernel() has them, the bounds a little wider: sums of
 * squares that are off by a share of less than 2^-40, their float32 roots rounded up. All lanes
 * know. square: of all lanes. Returns whether 16 bits hold it; if not, its tile must be zeros. */
template <class S>
static __device__ __forceinline__ bool
small_pack_end(const struct small_args &a, uint8_t *tile, int slot, double square,
               const struct small_sums &s, struct small_cluster *to) {
    const float error = small_fold_up(s.error);
    const float length = __fsqrt_ru(__double2float_ru(square)) * (1 + 0x1p-20f);
    const float rc = (__fsqrt_ru(error) + length * 0x1p-51f) * (1 + 0x1p-20f);
    const bool held = rc < INFINITY && square <= 2 * FILTER_BIAS_MOST * (double)a.pieces.unit[0];
    to->fact.rc = rc;
    to->fact.length = length;
    to->lost = !held;
    if (threadIdx.x % 32 == 0)
        small_put_bias<S>(tile, slot, held ? -square / 2 : -(double)INFINITY);
    return held;
}

/* The centroids that came in, into a tile whose padding is zeros and never wins. */
template <class S>
static __device__ void small_pack_first(const struct small_args &a, const struct small_place &w) {
    const struct hf_update_job &u = a.job.update;
    const int lane = (int)threadIdx.x % 32;
    uint8_t *const tile = small_packed<S>(a, w.p);
    for (int j = (int)threadIdx.x / 32 * a.blocks + w.g; j < S::NT; j += S::WARPS * a.blocks) {
        const int64_t at = (w.p * u.k + j) * u.d;
        struct small_sums sums = {0, 0};
        struct small_cluster own = {};
        for (int f = lane; f < S::DP; f += 32) {
            __half h = __float2half(0);
            if (j < u.k && f < u.d)
                h = small_round(center_at(a.job.centers[0], a.job.rule.type, at + f),
                                a.shift != NULL ? a.shift[f] : 0, a.scale, &sums);
            *(__half *)(tile + small_tile_at<S>(j, f)) = h;
        }
        if (!small_pack_end<S>(a, tile, j, fold_warp(sums.square), sums, &own))
            for (int f = lane; f < S::DP; f += 32)
                *(__half *)(tile + small_tile_at<S>(j, f)) = __float2half(0);
        if (j >= u.k && lane == 0)
            small_put_bias<S>(tile, j, -(double)INFINITY);
        if (lane == 0)
            a.clusters[w.p * S::NT + j] = own;
    }
    small_fence_copies();
}

/* Three sums over the lanes of a warp, as fold_warp(), side by side. */
static __device__ __forceinline__ void small_fold_three(double (&v)[3]) {
#pragma unroll
    for (int half = 16; half > 0; half /= 2) {
        double other[3];
#pragma unroll
        for (int i = 0; i < 3; i++)
            other[i] = __shfl_xor_sync(~0u, v[i], half);
#pragma unroll
        for (int i = 0; i < 3; i++)
            v[i] = __dadd_rn(v[i], other[i]);
    }
}

/* Cluster j: its centroid into centers[1 - side] and the tile. All loads come first, all stores
 * last: there is little but latency here. */
template <class S, bool PLAIN>
static __device__ void small_move_center(const struct small_args &a,
                                         const struct small_memory<S> *m, int p, int j, int side) {
    const struct hf_update_job &u = a.job.update;
    const int lane = (int)threadIdx.x % 32, d = (int)u.d;
    const hf_dtype type = a.job.rule.type;
    uint8_t *const tile = small_packed<S>(a, p);
    struct cluster c;
    c.sum = u.sum + (p * u.limbs * u.k + j) * u.d;
    c.unit = m->unit;
    c.p = p;
    c.at = (p * u.k + j) * u.d;
    int64_t sum[S::COLUMNS];
    double value[S::COLUMNS];
    const int64_t count = u.count[p * u.k + j];
#pragma unroll
    for (int i = 0; i < S::COLUMNS; i++) {
        const int f = lane + 32 * i;
        sum[i] = f < d ? c.sum[f] : 0;
        value[i] = f < d ? center_at(a.job.centers[side], type, c.at + f) : 0;
    }
    c.weight = PLAIN ? (double)count : weight_of(u, p, j);
    const struct divisor divisor = {c.weight, PLAIN ? __drcp_rn(c.weight) : 0};
    struct lane_sums sums = {0, 0, 0};
    struct small_sums pack = {0, 0};
    __half h[S::COLUMNS];
#pragma unroll
    for (int i = 0; i < S::COLUMNS; i++) {
        const int f = lane + 32 * i;
        h[i] = __float2half(0);
        if (f < d) {
            const double total = sum_at<PLAIN>(u, c, f, sum[i]);
            add_inertia(HF_EUCLIDEAN, m->shift[f], c, total, value[i], sums);
            value[i] = moved_to<PLAIN>(a.job.rule, divisor, total, value[i], sums);
            h[i] = small_round(value[i], m->base[f], a.scale, &pack);
        }
    }
    double all[3] = {sums.part, sums.moved, pack.square};
    small_fold_three(all);
    struct small_cluster own = {};
    own.inertia = c.weight > 0 ? all[0] : 0;
    own.shift = all[1];
    own.count = count;
    own.empty = !(c.weight > 0);
    own.fault = j == 0 ? hf_slot_fault(a.job.slot) : (uint32_t)HF_FAULT_NONE;
    const bool held = small_pack_end<S>(a, tile, j, all[2], pack, &own);
#pragma unroll
    for (int i = 0; i < S::COLUMNS; i++) {
        const int f = lane + 32 * i;
        if (f < d) {
            put_center(a.job.centers[1 - side], type, c.at + f, value[i]);
            *(__half *)(tile + small_tile_at<S>(j, f)) = held ? h[i] : __float2half(0);
        }
    }
    if (lane == 0)
        a.clusters[p * S::NT + j] = own;
}

/* This block's share of the clusters. */
template <class S>
static __device__ void small_move(const struct small_args &a, const struct small_memory<S> *m,
                                  const struct small_place &w) {
    for (int j = (int)threadIdx.x / 32 * a.blocks + w.g; j < (int)a.job.update.k;
         j += S::WARPS * a.blocks) {
        if (m->plain)
            small_move_center<S, true>(a, m, w.p, j, m->moves & 1);
        else
            small_move_center<S, false>(a, m, w.p, j, m->moves & 1);
    }
    small_fence_copies();
}

/* Of floats that are not negative. */
static __device__ __forceinline__ float small_most(float v) {
    return __int_as_float(__reduce_max_sync(~0u, __float_as_int(v)));
}

static __device__ __forceinline__ float small_least(float v) {
    return __int_as_float(__reduce_min_sync(~0u, __float_as_int(v)));
}

/* Largest rc and length of a warp's centroids of each level. level: this lane's, -1: none. */
static __device__ __forceinline__ void small_levels(const struct filter_fact &fact, int level,
                                                    struct filter_fact (&most)[FILTER_LEVELS + 1]) {
    const int lane = (int)threadIdx.x % 32;
    for (int i = 0; i <= FILTER_LEVELS; i++) {
        const float rc = small_most(level == i ? fact.rc : 0);
        const float length = small_most(level == i ? fact.length : 0);
        if (lane == i)
            most[i] = {rc, length};
    }
}

/* What the clusters of a problem told: threads below NT. */
template <class S>
static __device__ void small_gather(const struct small_args &a, struct small_memory<S> *m, int p) {
    const int j = (int)threadIdx.x;
    struct small_cluster own = {};
    const bool valid = j < (int)a.job.update.k;
    if (valid)
        own = a.clusters[p * S::NT + j];
    if (j == 0)
        m->totals.known.fault = own.fault;
    m->lane[0][j] = __dadd_rn(0, own.inertia);
    m->lane[1][j] = __dadd_rn(0, own.shift);
    struct small_part part;
    const bool held = valid && own.lost == 0;
    const float length = fminf(own.fact.length, FLT_MAX);
    const float low = own.fact.length >= 0 ? length * (1 - 0x1p-18f) : 0;
    small_levels(own.fact, held ? filter_level(a.filter.inverse, own.fact.length) : -1,
                 m->part[j / 32].most);
    part.least = small_least(held ? own.fact.length : INFINITY);
    part.lost = small_least(valid && !held ? low : INFINITY);
    part.count = (int64_t)hf_warp_sum((hf_u64)own.count);
    part.empty = __popc(__ballot_sync(~0u, valid && own.empty != 0));
    part.negative = __popc(__ballot_sync(~0u, own.count < 0));
    if (j % 32 == 0) {
        struct small_part *const to = &m->part[j / 32];
        to->least = part.least;
        to->lost = part.lost;
        to->count = part.count;
        to->empty = part.empty;
        to->negative = part.negative;
    }
}

/* hf_tree_fold() of NT lanes, by one warp. */
template <class S> static __device__ __forceinline__ double small_fold(const double *lane) {
    static_assert(S::NT == 128, "four lanes a thread");
    lane += threadIdx.x % 32;
    return fold_warp(__dadd_rn(__dadd_rn(lane[0], lane[64]), __dadd_rn(lane[32], lane[96])));
}

/* Bounds for the filter, and the tally. */
template <class S>
static __device__ void small_join(const struct small_args &a, struct small_memory<S> *m) {
    float least = INFINITY, lost = INFINITY;
    struct filter_fact most = {0, 0};
    struct hf_lloyd_tally tally = {0, 0, 0};
    for (int i = 0; i < S::NT / 32; i++) {
        const struct small_part &part = m->part[i];
        least = fminf(least, part.least);
        lost = fminf(lost, part.lost);
        tally.rows += part.count;
        tally.empty += part.empty;
        tally.negative += part.negative;
    }
    for (int level = 0; level <= FILTER_LEVELS; level++) {
        for (int i = 0; i < S::NT / 32; i++) {
            most.rc = fmaxf(most.rc, m->part[i].most[level].rc);
            most.length = fmaxf(most.length, m->part[i].most[level].length);
        }
        m->bounds.most[level] = most;
    }
    filter_bounds_from(a.filter, least, lost, most.length, &m->bounds);
    m->totals.known.tally = tally;
}

/* The iteration is over: thread 0 of every block comes to the same end, one writes it down. */
template <class S>
static __device__ void small_end_iteration(const struct small_args &a, struct small_memory<S> *m,
                                           const struct small_place &w) {
    const struct hf_lloyd_job &job = a.job;
    struct hf_lloyd_state state;
    hf_kmeans_iteration it;
    const bool moved = end_iteration(job, m->totals, &state, &it);
    if (w.g == 0) {
        job.history[w.p * job.count + m->totals.known.state.iterations] = it;
        job.state[w.p] = state;
    }
    m->totals.known.state = state;
    m->moves += moved;
    m->go = state.stop == HF_STOP_NONE && state.iterations < job.count;
}

/* The tile of the next iteration on its way; bounds; and the end of the last iteration, unless
 * there was none. */
template <class S>
static __device__ void small_turn(const struct small_args &a, struct small_memory<S> *m,
                                  struct small_place *w, bool ended) {
    if (threadIdx.x == 0) {
        const uint32_t bar = hf_shared(&m->ready);
        const uint8_t *packed = small_packed<S>(a, w->p);
        small_fence_copies();
        hf_mbar_expect(bar, S::TILE + S::NT * 4);
        hf_bulk_copy(hf_shared(m->tile), packed, S::TILE, bar);
        hf_bulk_copy(hf_shared(m->bias), packed + S::TILE, S::NT * 4, bar);
    }
    if (threadIdx.x < S::NT)
        small_gather(a, m, w->p);
    __syncthreads();
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    if (warp < 2) {
        const double sum = small_fold<S>(m->lane[warp]);
        if (lane == 0)
            (warp == 0 ? m->totals.inertia : m->totals.shift) = sum;
    }
    if (warp == 2 && lane == 0) {
        small_join(a, m);
        m->opens = 0;
    }
    __syncthreads();
    if (threadIdx.x == 0 && ended)
        small_end_iteration(a, m, *w);
    __syncthreads();
    hf_mbar_wait(hf_shared(&m->ready), w->ready);
    w->ready ^= 1;
}

#endif
