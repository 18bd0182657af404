/* SPDX-License-Identifier: Apache-2.0
 * The rows of a block of op march, in the registers of its workers. */
#ifndef HF_MARCH_ROWS_CUH
#define HF_MARCH_ROWS_CUH

#include "ops/march/march_life.cuh"

#define EACH 4     /* values from outside that a thread asks for at once */
#define RHS_ROWS 8 /* rows of the map of the right side that a warp works on at once */

struct near {
    double *x0; /* [2, extent]: see x() */
    int extent;
    double *p;       /* [rows] of copies */
    double *squares; /* [SLOTS, own] */
    double *factor;  /* [factors, 2] */
    int *source;     /* [extent] places that the block brings from outside */
    int sources;
    struct board *board;

    __device__ __forceinline__ double *x(int side) const { return x0 + side * extent; }
};

/* Where things are in the shared memory of a block of threads. */
static __device__ __forceinline__ struct near lay_out(const struct march_job &job, int block) {
    struct near near;
    double *at = partial_here() + 32;
    near.board = board_here();
    near.factor = at;
    at += 2 * job.factors;
    near.squares = at;
    at += job.map.own * (SLOTS + 1);
    near.p = at;
    at += job.map.rows;
    near.x0 = at;
    near.extent = job.map.extent;
    at += job.map.rhs > 2 * job.map.extent ? job.map.rhs : 2 * job.map.extent;
    near.source = (int *)at;
    near.sources = (int)(job.map.source_start[block + 1] - job.map.source_start[block]);
    return near;
}

static __device__ __forceinline__ void fill(const struct march_job &job, const struct near &near,
                                            int block) {
    const int64_t from = job.map.source_start[block];
    for (int i = (int)threadIdx.x; i < near.sources; i += (int)blockDim.x)
        near.source[i] = job.map.source[from + i];
    for (int i = (int)threadIdx.x; i < 2 * job.factors; i += (int)blockDim.x)
        near.factor[i] = job.factor[i];
    for (int i = (int)threadIdx.x; i < job.map.rows; i += (int)blockDim.x)
        near.p[i] = 0;
}

/* c of own rows by the map from b, a warp to a row: to `c`. */
static __device__ __noinline__ void map_right_side(const struct march_job &job, int own, double *b,
                                                   double *c) {
    const int block = block_at(board_here());
    const int64_t first = job.map.rhs_start[block];
    const int count = (int)(job.map.rhs_start[block + 1] - first);
    const double *map = job.map.rhs_map + job.map.rhs_map_start[block];
    const int threads = job.map.threads, lane = (int)threadIdx.x % 32;
    for (int i = (int)threadIdx.x; i < count; i += threads)
        b[i] = job.b[job.map.rhs_place[first + i]];
    meet(threads);
    const int warps = threads / 32;
    for (int r = (int)threadIdx.x / 32; r < own; r += RHS_ROWS * warps) {
        double sum[RHS_ROWS] = {};
#pragma unroll 2
        for (int i = lane; i < count; i += 32)
#pragma unroll
            for (int u = 0; u < RHS_ROWS; u++) /* a row too many is read twice */
                sum[u] = fma(__ldg(map + (int64_t)min(r + u * warps, own - 1) * count + i), b[i],
                             sum[u]);
#pragma unroll
        for (int u = 0; u < RHS_ROWS; u++) {
            sum[u] = warp_total(sum[u]);
            if (lane == 0 && r + u * warps < own)
                c[r + u * warps] = sum[u];
        }
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

/* The row of a thread, without its elements. */
struct row {
    double c, scale; /* scale: the diagonal, for the residual */
    double x, p;
    int row, own, count, begin;
    bool leads, acts, is_own;
};

/* At the beginning of a call. */
static __device__ void load_row(const struct march_job &job, const struct near &near,
                                struct row *r) {
    const struct hf_march_map &map = job.map;
    const int t = (int)threadIdx.x, block = block_at(near.board);
    r->begin = (int)map.block_start[block];
    r->own = (int)map.block_start[block + 1] - r->begin;
    r->count = map.row_count[block];
    r->row = t / map.lanes;
    r->leads = t % map.lanes == 0;
    r->acts = r->row < r->count;
    r->is_own = r->leads && r->row < r->own;
    r->c = r->p = r->x = 0;
    r->scale = 1;
    if (is_spare(job)) {
        const double *c = near.squares + SLOTS * map.own; /* by take_over() */
        if (r->acts) {
            const int place = r->row < r->own ? r->begin + r->row : near.source[r->row - r->own];
            r->c = map.rhs_map != NULL ? c[r->row] : job.inverse[place] * job.b[place];
            r->scale = 1 / job.inverse[place];
            r->x = near.x(0)[r->row];
            r->p = near.p[r->row];
        }
        return;
    }
    if (map.rhs_map != NULL) {
        map_right_side(job, r->own, near.x(0), near.squares);
        r->c = r->acts ? near.squares[r->row] : 0;
        meet(map.threads);
    }
    if (r->acts) {
        const int place = r->row < r->own ? r->begin + r->row : near.source[r->row - r->own];
        r->c = map.rhs_map != NULL ? r->c : job.inverse[place] * job.b[place];
        r->scale = 1 / job.inverse[place];
        r->x = job.x[place];
    }
    for (int i = t; i < r->own + near.sources; i += map.threads) {
        const double v = job.x[i < r->own ? r->begin + i : near.source[i - r->own]];
        near.x(0)[i] = v;
        near.x(1)[i] = v;
    }
}

/* Rows of a block in registers. */
template <int WIDTH, int LANES> struct rows : row {
    double value[WIDTH];
    int at[WIDTH];  /* bytes from the beginning of x_ext */
    int look, slot; /* the next epoch whose squares are told, and to where */
    int step_made;  /* the next step's factors */

    __device__ void load_elements(const struct march_job &job);
    __device__ void begin_round(const struct march_job &job, int it);
    __device__ double multiply(const double *x_ext) const;
    __device__ void step(const struct march_job &job, const struct near &near, int cur, int it);
    __device__ void publish(const struct march_job &job, int it);
    __device__ void bring(const struct march_job &job, const struct near &near, int cur, int it);
    template <bool MOMENTUM>
    __device__ void bring_some(const struct march_job &job, const struct near &near, int cur,
                               int it, int base);
};

template <int WIDTH, int LANES>
__device__ __forceinline__ void rows<WIDTH, LANES>::load_elements(const struct march_job &job) {
    const int64_t base = (int64_t)block_at(board_here()) * WIDTH * job.map.threads + threadIdx.x;
#pragma unroll
    for (int w = 0; w < WIDTH; w++) {
        value[w] = job.map.value[base + (int64_t)w * job.map.threads];
        at[w] = (int)sizeof(double) * job.map.column[base + (int64_t)w * job.map.threads];
    }
}

template <int WIDTH, int LANES>
__device__ __forceinline__ double rows<WIDTH, LANES>::multiply(const double *x_ext) const {
    double sum[3] = {0, 0, 0};
#pragma unroll
    for (int w = 0; w < WIDTH; w++)
        sum[w % 3] = fma(value[w], *(const double *)((const char *)x_ext + at[w]), sum[w % 3]);
    double all = sum[0] + sum[1] + sum[2];
#pragma unroll
    for (int o = LANES / 2; o > 0; o /= 2)
        all += __shfl_xor_sync(0xffffffffu, all, o);
    return all;
}

/* Before the first epoch of a round, `it`. */
template <int WIDTH, int LANES>
__device__ __forceinline__ void rows<WIDTH, LANES>::begin_round(const struct march_job &job,
                                                                int it) {
    const int64_t made = (int64_t)(it - 1) * job.sweeps;
    step_made = made < job.factors ? (int)made : job.factors - 1;
    look = (it + job.every - 1) / job.every * job.every;
    slot = look / job.every % SLOTS;
}

/* The sweeps of epoch `it`: x_ext in near.x(cur), which stays as it is but for sweeps > 1. */
template <int WIDTH, int LANES>
__device__ __forceinline__ void rows<WIDTH, LANES>::step(const struct march_job &job,
                                                         const struct near &near, int cur, int it) {
    for (int s = 0; s < job.sweeps; s++) {
        const double2 factor = ((const double2 *)near.factor)[step_made];
        const double g = multiply(near.x(cur)) + c;
        step_made += step_made < job.factors - 1;
        p = fma(factor.y, p, factor.x * g);
        x += p;
        if (s == 0 && it == look) {
            const double r = scale * g;
            if (job.tested && is_own)
                near.squares[slot * job.map.own + row] = r * r;
            look += job.every;
            slot = (slot + 1) % SLOTS;
        }
        if (s + 1 == job.sweeps)
            break;
        if (leads && acts)
            near.x(cur ^ 1)[row] = x;
        meet(job.map.threads);
        cur ^= 1;
    }
}

template <int WIDTH, int LANES>
__device__ __forceinline__ void rows<WIDTH, LANES>::publish(const struct march_job &job, int it) {
    const int64_t at = (job.free || it % 2 == 0 ? 0 : job.n) + begin + row;
    if (!is_own || !may_tell(job, board_here()))
        return;
    store_tag(job.x_tag + at, x, job.first + (hf_u64)it);
    if (job.tells_p)
        store_tag(job.p_tag + at, p, job.first + (hf_u64)it);
}

/* Values from outside that a thread asks for at once. */
template <bool MOMENTUM, int COUNT> struct asked {
    struct tag x[COUNT], p[MOMENTUM ? COUNT : 1];
    int source[COUNT];
};

/* What others have computed, to near.x(cur); with several sweeps to the other buffer as well. */
template <int WIDTH, int LANES>
template <bool MOMENTUM>
__device__ __forceinline__ void rows<WIDTH, LANES>::bring_some(const struct march_job &job,
                                                               const struct near &near, int cur,
                                                               int it, int base) {
    const hf_u64 epoch = job.first + (hf_u64)it;
    const int64_t side = job.free || it % 2 == 0 ? 0 : job.n;
    const int threads = job.map.threads;
    constexpr int COUNT = MOMENTUM ? EACH / 2 : EACH;
    struct asked<MOMENTUM, COUNT> asked;
    bool missing;
#pragma unroll
    for (int u = 0; u < COUNT; u++)
        asked.source[u] = base + u * threads < near.sources ? near.source[base + u * threads] : -1;
    do {
        missing = false;
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            if (asked.source[u] >= 0)
                asked.x[u] = load_tag(job.x_tag + side + asked.source[u]);
            if (MOMENTUM && asked.source[u] >= 0 && own + base + u * threads < count)
                asked.p[MOMENTUM ? u : 0] = load_tag(job.p_tag + side + asked.source[u]);
        }
#pragma unroll
        for (int u = 0; u < COUNT; u++) {
            missing = missing || (asked.source[u] >= 0 && asked.x[u].epoch != epoch);
            if (MOMENTUM && asked.source[u] >= 0 && own + base + u * threads < count)
                missing = missing || asked.p[MOMENTUM ? u : 0].epoch != epoch;
        }
    } while (missing && !job.free && !near.board->abort);
#pragma unroll
    for (int u = 0; u < COUNT; u++) {
        const int at = own + base + u * threads;
        if (asked.source[u] < 0 || asked.x[u].epoch <= job.first)
            continue; /* of an earlier call: the start stays */
        near.x(cur)[at] = asked.x[u].value;
        if (job.sweeps > 1)
            near.x(cur ^ 1)[at] = asked.x[u].value;
        if (MOMENTUM && at < count) {
            const struct tag p = asked.p[MOMENTUM ? u : 0];
            near.p[at] = p.epoch > job.first ? p.value : 0;
        }
    }
}

template <int WIDTH, int LANES>
__device__ __forceinline__ void
rows<WIDTH, LANES>::bring(const struct march_job &job, const struct near &near, int cur, int it) {
    const int threads = job.map.threads, first = (int)threadIdx.x;
    if (job.momentum)
        for (int base = first; base < near.sources; base += EACH / 2 * threads)
            bring_some<true>(job, near, cur, it, base);
    else
        for (int base = first; base < near.sources; base += EACH * threads)
            bring_some<false>(job, near, cur, it, base);
}

#endif
