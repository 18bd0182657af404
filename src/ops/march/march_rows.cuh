/* SPDX-License-Identifier: Apache-2.0
 * The rows of a block of op march, in the registers of its workers. */
#ifndef HF_MARCH_ROWS_CUH
#define HF_MARCH_ROWS_CUH

#include "ops/march/march_board.cuh"

#define SUM_LANES 8 /* threads to a row of the true residual */
#define EACH 4      /* values from outside that a thread asks for at once */

struct near {
    double *x[2];    /* [extent] */
    double *p;       /* [rows] of copies */
    double *squares; /* [SLOTS, own] */
    double *factor;  /* [factors, 2] */
    double *partial; /* [32] */
    int *source;     /* [extent] places that the block brings from outside */
    int sources;
    struct board *board;
};

static __host__ __device__ inline size_t near_bytes(const struct march_job &job) {
    const size_t spare =
        job.map.rhs > 2 * job.map.extent ? (size_t)job.map.rhs : 2 * (size_t)job.map.extent;
    return sizeof(double) * (spare + (size_t)job.map.rows + (size_t)job.map.own * (SLOTS + 1) +
                             2 * (size_t)job.factors + 32) +
           sizeof(struct board) + sizeof(int) * (size_t)job.map.extent;
}

/* c of own rows by the map from b, a warp to a row: to `c`. */
static __device__ void map_right_side(const struct march_job &job, int own, double *b, double *c) {
    const int64_t first = job.map.rhs_start[blockIdx.x];
    const int count = (int)(job.map.rhs_start[blockIdx.x + 1] - first);
    const double *map = job.map.rhs_map + job.map.rhs_map_start[blockIdx.x];
    const int threads = job.map.threads, lane = (int)threadIdx.x % 32;
    for (int i = (int)threadIdx.x; i < count; i += threads)
        b[i] = job.b[job.map.rhs_place[first + i]];
    meet(threads);
    for (int r = (int)threadIdx.x / 32; r < own; r += threads / 32) {
        const double *row = map + (int64_t)r * count;
        double sum = 0;
#pragma unroll 4
        for (int i = lane; i < count; i += 32)
            sum = fma(__ldg(row + i), b[i], sum);
        sum = warp_total(sum);
        if (lane == 0)
            c[r] = sum;
    }
    meet(threads);
}

/* May epoch `it` be made? The same answer for all workers: the horizon is behind the last epoch
 * until that is known. */
static __device__ __forceinline__ bool may_go(const struct board *board, int it) {
    for (;;) {
        const bool aborted = board->abort != 0;
        if (it > board->last)
            return false;
        if (it <= board->horizon || aborted)
            return true;
    }
}

/* Rows of a block in registers. */
template <int WIDTH, int LANES> struct rows {
    double value[WIDTH];
    uint16_t column[WIDTH];
    double c, scale; /* scale: the diagonal, for the residual */
    double x, p;
    int row, own, count, begin;
    bool leads, acts, is_own;

    __device__ void load(const struct march_job &job, const struct near &near);
    __device__ double multiply(const double *x_ext) const;
    __device__ void step(const struct march_job &job, const struct near &near, int cur, int it);
    __device__ void publish(const struct march_job &job, int it);
    __device__ void bring(const struct march_job &job, const struct near &near, int cur, int it);
    __device__ double square(const struct march_job &job) const;
};

template <int WIDTH, int LANES>
__device__ void rows<WIDTH, LANES>::load(const struct march_job &job, const struct near &near) {
    const struct hf_march_map &map = job.map;
    const int t = (int)threadIdx.x;
    const int64_t base = (int64_t)blockIdx.x * WIDTH * map.threads + t;
    begin = (int)map.block_start[blockIdx.x];
    own = (int)map.block_start[blockIdx.x + 1] - begin;
    count = map.row_count[blockIdx.x];
    row = t / LANES;
    leads = t % LANES == 0;
    acts = row < count;
    is_own = leads && row < own;
#pragma unroll
    for (int w = 0; w < WIDTH; w++) {
        value[w] = map.value[base + (int64_t)w * map.threads];
        column[w] = map.column[base + (int64_t)w * map.threads];
    }
    c = p = x = 0;
    scale = 1;
    if (map.rhs_map != NULL) {
        map_right_side(job, own, near.x[0], near.squares);
        c = acts ? near.squares[row] : 0;
        meet(map.threads);
    }
    if (acts) {
        const int place = row < own ? begin + row : near.source[row - own];
        c = map.rhs_map != NULL ? c : job.inverse[place] * job.b[place];
        scale = 1 / job.inverse[place];
        x = job.x[place];
    }
    for (int i = t; i < own + near.sources; i += map.threads) {
        const double v = job.x[i < own ? begin + i : near.source[i - own]];
        near.x[0][i] = v;
        near.x[1][i] = v;
    }
}

template <int WIDTH, int LANES>
__device__ __forceinline__ double rows<WIDTH, LANES>::multiply(const double *x_ext) const {
    double sum[3] = {0, 0, 0};
#pragma unroll
    for (int w = 0; w < WIDTH; w++)
        sum[w % 3] = fma(value[w], x_ext[column[w]], sum[w % 3]);
    double all = sum[0] + sum[1] + sum[2];
#pragma unroll
    for (int o = LANES / 2; o > 0; o /= 2)
        all += __shfl_xor_sync(0xffffffffu, all, o);
    return all;
}

/* The sweeps of epoch `it`: x_ext in near.x[cur], which stays as it is but for sweeps > 1. */
template <int WIDTH, int LANES>
__device__ __forceinline__ void rows<WIDTH, LANES>::step(const struct march_job &job,
                                                         const struct near &near, int cur, int it) {
    for (int s = 0; s < job.sweeps; s++) {
        const int64_t made = (int64_t)(it - 1) * job.sweeps + s;
        const double *factor = near.factor + 2 * (made < job.factors ? (int)made : job.factors - 1);
        const double g = multiply(near.x[cur]) + c;
        p = fma(factor[1], p, factor[0] * g);
        x += p;
        if (s == 0 && job.tested && is_own && it % job.every == 0) {
            const double r = scale * g;
            near.squares[it / job.every % SLOTS * job.map.own + row] = r * r;
        }
        if (s + 1 == job.sweeps)
            break;
        if (leads && acts)
            near.x[cur ^ 1][row] = x;
        meet(job.map.threads);
        cur ^= 1;
    }
}

template <int WIDTH, int LANES>
__device__ __forceinline__ void rows<WIDTH, LANES>::publish(const struct march_job &job, int it) {
    const int64_t at = (job.free ? 0 : it % 2) * job.n + begin + row;
    if (!is_own)
        return;
    store_tag(job.x_tag + at, x, job.first + (hf_u64)it);
    if (job.momentum)
        store_tag(job.p_tag + at, p, job.first + (hf_u64)it);
}

static __device__ __forceinline__ double
bring_momentum(const struct march_job &job, const struct near &near, int64_t at, hf_u64 epoch) {
    struct tag seen = load_tag(job.p_tag + at);
    while (seen.epoch != epoch && !job.free && !near.board->abort)
        seen = load_tag(job.p_tag + at);
    return seen.epoch > job.first ? seen.value : 0;
}

/* What others have computed, to near.x[cur]; with several sweeps to the other buffer as well. */
template <int WIDTH, int LANES>
__device__ __forceinline__ void
rows<WIDTH, LANES>::bring(const struct march_job &job, const struct near &near, int cur, int it) {
    const hf_u64 epoch = job.first + (hf_u64)it;
    const int64_t side = (job.free ? 0 : it % 2) * job.n;
    const int threads = job.map.threads;
    for (int base = (int)threadIdx.x; base < near.sources; base += EACH * threads) {
        struct tag seen[EACH];
        int source[EACH];
        bool missing;
#pragma unroll
        for (int u = 0; u < EACH; u++)
            source[u] = base + u * threads < near.sources ? near.source[base + u * threads] : -1;
        do {
            missing = false;
#pragma unroll
            for (int u = 0; u < EACH; u++)
                if (source[u] >= 0)
                    seen[u] = load_tag(job.x_tag + side + source[u]);
#pragma unroll
            for (int u = 0; u < EACH; u++)
                missing = missing || (source[u] >= 0 && seen[u].epoch != epoch);
        } while (missing && !job.free && !near.board->abort);
#pragma unroll
        for (int u = 0; u < EACH; u++) {
            const int at = own + base + u * threads;
            if (source[u] < 0 || seen[u].epoch <= job.first)
                continue; /* of an earlier call: the start stays */
            near.x[cur][at] = seen[u].value;
            if (job.sweeps > 1)
                near.x[cur ^ 1][at] = seen[u].value;
            if (job.momentum && at < count)
                near.p[at] = bring_momentum(job, near, side + source[u], epoch);
        }
    }
}

/* The squared true residual of this thread's rows; x of all blocks has arrived. */
template <int WIDTH, int LANES>
__device__ double rows<WIDTH, LANES>::square(const struct march_job &job) const {
    const int each = job.map.threads / SUM_LANES, lane = (int)threadIdx.x % SUM_LANES;
    double square = 0;
    for (int base = 0; base < own; base += each) {
        const int r = base + (int)threadIdx.x / SUM_LANES;
        const int64_t i = begin + r;
        double sum = 0;
        const int64_t last = r < own ? job.a.row_start[i + 1] : 0;
        for (int64_t e = r < own ? job.a.row_start[i] + lane : 0; e < last; e += SUM_LANES)
            sum = fma(job.a.dtype == HF_F32 ? (double)((const float *)job.a.value)[e]
                                            : ((const double *)job.a.value)[e],
                      __ldcg(&job.x[job.a.column[e]]), sum);
        for (int o = SUM_LANES / 2; o > 0; o /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, o);
        const double rest = r < own && lane == 0 ? job.b[i] - sum : 0;
        square = fma(rest, rest, square);
    }
    return square;
}

#endif
