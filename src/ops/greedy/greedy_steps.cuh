/* SPDX-License-Identifier: Apache-2.0
 * The steps of greedy: what the last one left, draw, evaluate. */
#ifndef HF_GREEDY_STEPS_CUH
#define HF_GREEDY_STEPS_CUH

#include "device/cuda/rng.cuh"
#include "ops/greedy/greedy_settle.cuh"

#define SHARES 4                   /* loads of a thread that are under way at once */
#define DRAWERS (GREEDY_WARPS / 2) /* warps that look for the rows of candidates */

/* All blocks of the (cooperative) launch wait for each other, and see what the others wrote if they
 * pass by the first cache. */
static __device__ void greedy_meet(const struct greedy_job &job, struct greedy_run *run) {
    run->barriers++;
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned *const arrived = &job.state->arrived;
        const unsigned all = run->barriers * gridDim.x;
        unsigned here;
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" ::"l"(arrived) : "memory");
        do
            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"
                         : "=r"(here)
                         : "l"(arrived)
                         : "memory");
        while ((int)(here - all) < 0);
    }
    __syncthreads();
}

/* This thread's chunks in SHARES runs of `each`, their potentials, and the total of all threads. */
struct share {
    int64_t begin, each;
    hf_u64 run[SHARES], mine, before, total;
};

/* The potential of a chunk, now: what it was before the winner less what that took. */
static __device__ __forceinline__ hf_u64 sum_of_chunk(const struct greedy_job &job,
                                                      const struct greedy_run &run, int64_t c) {
    if (c >= job.chunks)
        return 0;
    const unsigned odd = run.steps % 2;
    if (run.winner < 0)
        return __ldcg(&job.sum[odd][c]);
    const hf_u64 q =
        __ldcg(&job.sum[odd ^ 1][c]) - __ldcg(&job.lost[odd ^ 1][run.winner * job.chunks + c]);
    return c == run.row / GREEDY_CHUNK ? q - run.own : q;
}

static __device__ struct share add_up(const struct greedy_job &job, const struct greedy_run &run) {
    struct share s;
    s.each = (job.chunks + GREEDY_THREADS * SHARES - 1) / (GREEDY_THREADS * SHARES);
    s.begin = threadIdx.x * SHARES * s.each;
#pragma unroll
    for (int r = 0; r < SHARES; r++)
        s.run[r] = sum_of_chunk(job, run, s.begin + r * s.each);
    for (int64_t c = 1; c < s.each; c++)
#pragma unroll
        for (int r = 0; r < SHARES; r++)
            s.run[r] += sum_of_chunk(job, run, s.begin + r * s.each + c);
    s.mine = s.run[0] + s.run[1] + s.run[2] + s.run[3];
    s.total = hf_block_scan<GREEDY_THREADS>(s.mine, &s.before);
    return s;
}

/* Potentials of the block's chunks from its rows, a warp a chunk. */
static __device__ void sum_chunks(const struct greedy_job &job, const struct greedy_run &run) {
    const int lane = (int)threadIdx.x % GREEDY_WARP;
    for (int64_t c = threadIdx.x / GREEDY_WARP; c < run.chunks; c += GREEDY_WARPS) {
        hf_u64 q = 0;
        for (int e = 0; e < GREEDY_CHUNK; e += GREEDY_WARP) {
            const int64_t i = (run.first_chunk + c) * GREEDY_CHUNK + e + lane;
            q += i < job.n ? greedy_quantum(job, run.unit, i, __ldcg(&job.nearest[i])) : 0;
        }
        q = hf_warp_sum(q);
        if (lane == 0)
            __stcg(&job.sum[run.steps % 2][run.first_chunk + c], q);
    }
}

/* A scale that uses the whole range of the integers, and potentials on it. It happens a few times
 * in a run. */
static __device__ void rescale(const struct greedy_job &job, struct greedy_run *run) {
    hf_u64 most = 0;
    const int64_t stop = min((run->first_chunk + run->chunks) * GREEDY_CHUNK, job.n);
    __syncthreads(); /* the rows are written */
    for (int64_t i = run->first_chunk * GREEDY_CHUNK + threadIdx.x; i < stop; i += GREEDY_THREADS) {
        const double weight = greedy_weight(job, i);
        const double v = weight > 0 ? __dmul_rn(weight, __ldcg(&job.nearest[i])) : 0;
        most = max(most, (hf_u64)__double_as_longlong(v));
    }
    if (most > 0)
        atomicMax(&job.state->most, most);
    greedy_meet(job, run);
    run->unit = hf_seed_unit(job.bits, __longlong_as_double((long long)__ldcg(&job.state->most)));
    sum_chunks(job, *run);
    run->winner = -1;
    greedy_meet(job, run);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        __stcg(&job.state->most, 0ull); /* for the next time, many barriers away */
}

/* The distance that row i has now: its owner may not have written it yet. */
static __device__ __forceinline__ double nearest_now(const struct greedy_job &job,
                                                     const struct greedy_run &run, int64_t i) {
    const double v = __ldcg(&job.nearest[i]);
    if (run.winner < 0)
        return v;
    const unsigned odd = run.steps % 2 ^ 1;
    const unsigned mask = __ldcg(&job.mask[odd][i]);
    const double found = __ldcg(&job.found[odd][run.winner * job.n + i]);
    return i == run.row ? 0 : mask >> run.winner & 1 ? found : v;
}

/* The row of candidate l, whose chunk is known, into sh.drawn: a warp's work. */
template <int C>
static __device__ __forceinline__ void draw_row(const struct greedy_job &job,
                                                const struct greedy_run &run, int l,
                                                struct greedy_shared<C> &sh) {
    constexpr int EACH = GREEDY_CHUNK / GREEDY_WARP;
    const int lane = (int)threadIdx.x % GREEDY_WARP;
    const int64_t first = sh.chunk[l] * GREEDY_CHUNK + lane * EACH;
    hf_u64 q[EACH], sum = 0;
    float2 size[EACH];
    double v[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const bool valid = first + e < job.n;
        v[e] = valid ? nearest_now(job, run, first + e) : 0;
        size[e] = valid ? job.size[first + e] : make_float2(0, 0);
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        q[e] = first + e < job.n ? greedy_quantum(job, run.unit, first + e, v[e]) : 0;
        sum += q[e];
    }
    hf_u64 upto = sum;
    for (int step = 1; step < GREEDY_WARP; step *= 2) {
        const hf_u64 other = __shfl_up_sync(0xffffffffu, upto, step);
        upto += lane >= step ? other : 0;
    }
    hf_u64 passed = upto - sum;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        if (sh.rest[l] >= passed && sh.rest[l] < passed + q[e]) {
            sh.drawn[l] = first + e;
            sh.size[l] = size[e];
        }
        passed += q[e];
    }
}

/* The block's rows and chunks after the winner, by threads [from, GREEDY_THREADS). */
template <int C>
static __device__ void commit_rows(const struct greedy_job &job, const struct greedy_run &run,
                                   int from, struct greedy_shared<C> &sh) {
    const unsigned odd = run.steps % 2 ^ 1;
    const int64_t base = run.first_chunk * GREEDY_CHUNK;
    const int64_t stop = min(base + run.chunks * GREEDY_CHUNK, job.n);
    const int step = GREEDY_THREADS - from, thread = (int)threadIdx.x - from;
    if (run.winner < 0 || thread < 0)
        return;
    for (int64_t i = base + thread; i < stop; i += step) {
        const int at = (int)(i - base) % GREEDY_PASS;
        const unsigned mask = run.one_pass ? sh.mask[at] : __ldcg(&job.mask[odd][i]);
        if (i != run.row && !(mask >> run.winner & 1))
            continue;
        const double v = i == run.row ? 0 : __ldcg(&job.found[odd][run.winner * job.n + i]);
        __stcg(&job.nearest[i], v);
        if (!run.one_pass)
            continue;
        sh.nearest[at] = v;
        sh.row[at].y = row_radius(job, v, job.size[i].y);
    }
    for (int64_t c = thread; c < run.chunks; c += step)
        __stcg(&job.sum[run.steps % 2][run.first_chunk + c],
               sum_of_chunk(job, run, run.first_chunk + c));
}

/* The rows of the candidates into sh.drawn: first the chunk where the running sum passes the
 * target, then, a warp a candidate, the row in it. The other warps bring the block's rows up to
 * date. */
template <int C>
static __device__ void draw(const struct greedy_job &job, const struct greedy_run &run,
                            const struct share s, struct greedy_shared<C> &sh) {
    if (threadIdx.x < job.trials)
        sh.target[threadIdx.x] =
            hf_device_rng_below(job.seed, job.stream,
                                (uint64_t)run.count * (uint64_t)job.trials + threadIdx.x, s.total);
    __syncthreads();
    for (int l = 0; l < job.trials; l++) {
        hf_u64 rest = sh.target[l] - s.before;
        if (rest >= s.mine)
            continue;
        int64_t chunk = s.begin;
#pragma unroll
        for (int r = 0; r < SHARES - 1; r++)
            if (chunk == s.begin + r * s.each && rest >= s.run[r]) {
                rest -= s.run[r];
                chunk += s.each;
            }
        for (hf_u64 q; s.each > 1 && rest >= (q = sum_of_chunk(job, run, chunk)); chunk++)
            rest -= q;
        sh.chunk[l] = chunk;
        sh.rest[l] = rest;
    }
    __syncthreads();
    const int warp = (int)threadIdx.x / GREEDY_WARP;
    for (int l = warp; l < job.trials && warp < DRAWERS; l += DRAWERS)
        draw_row<C>(job, run, l, sh);
    commit_rows<C>(job, run, min(job.trials, DRAWERS) * GREEDY_WARP, sh);
    __syncthreads();
}

/* The candidate of the last step that gained most, the first of equals, in every warp; its row, and
 * what that keeps. */
template <int C>
static __device__ void take_winner(const struct greedy_job &job, struct greedy_run *run,
                                   const struct greedy_shared<C> &sh) {
    constexpr int LANES = C <= 8 ? 8 : C <= 16 ? 16 : 32;
    const hf_u64 *const gain = job.state->gain[(run->steps + 2) % 3];
    int winner = (int)threadIdx.x % LANES;
    hf_u64 most = winner < job.trials ? __ldcg(&gain[winner]) : 0;
    for (int step = LANES / 2; step > 0; step /= 2) {
        const hf_u64 other_gain = __shfl_xor_sync(0xffffffffu, most, step);
        const int other = __shfl_xor_sync(0xffffffffu, winner, step);
        if (other_gain > most || (other_gain == most && other < winner)) {
            most = other_gain;
            winner = other;
        }
    }
    run->winner = winner;
    run->row = sh.drawn[winner];
    run->own = __ldcg(&job.state->own[run->steps % 2 ^ 1][winner]);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        job.chosen[run->count] = run->row;
    run->count++;
}

/* Clear what the next rows leave in shared memory. */
template <int C>
static __device__ void clear_pass(const struct greedy_job &job, const struct greedy_run &run,
                                  int64_t first, int64_t stop, struct greedy_shared<C> &sh) {
    __syncthreads();
    if (threadIdx.x == 0)
        sh.queued = 0;
    for (int e = (int)threadIdx.x; e < C * GREEDY_PARTS; e += GREEDY_THREADS)
        (&sh.gain[0][0])[e] = 0;
    if (run.one_pass)
        sh.mask[threadIdx.x] = 0;
    else
        look_at_rows<C>(job, first, stop, sh);
}

/* What the candidates gain in the rows of a pass, for all blocks. */
template <int C>
static __device__ void publish(const struct greedy_job &job, const struct greedy_run &run,
                               int64_t first, int64_t stop, struct greedy_shared<C> &sh) {
    const unsigned odd = run.steps % 2;
    const int l = (int)threadIdx.x / GREEDY_PARTS, part = (int)threadIdx.x % GREEDY_PARTS;
    hf_u64 gain = l < C ? sh.gain[l < C ? l : 0][part] : 0;
    const int64_t chunk = first / GREEDY_CHUNK + part;
    if (l < job.trials && chunk < stop / GREEDY_CHUNK)
        __stcg(&job.lost[odd][l * job.chunks + chunk], gain);
    for (int step = GREEDY_PARTS / 2; step > 0; step /= 2)
        gain += __shfl_xor_sync(0xffffffffu, gain, step);
    if (part == 0 && gain > 0)
        atomicAdd(&job.state->gain[run.steps % 3][l], gain);
    const int64_t i = first + threadIdx.x;
    if (i < stop && i < job.n)
        __stcg(&job.mask[odd][i], sh.mask[threadIdx.x]);
    const int64_t row = threadIdx.x < job.trials ? sh.drawn[threadIdx.x] : -1;
    if (row < first || row >= stop || row >= first + GREEDY_PASS)
        return;
    const int at = (int)(row - first);
    const bool nearer = sh.mask[at] >> threadIdx.x & 1;
    const double v = nearer ? __ldcg(&job.found[odd][threadIdx.x * job.n + row]) : sh.nearest[at];
    __stcg(&job.state->own[odd][threadIdx.x], greedy_quantum(job, run.unit, row, v));
}

/* What the candidates gain in the block's rows. */
template <int C, bool COSINE>
static __device__ void evaluate(const struct greedy_job &job, const struct greedy_run &run,
                                const uint4 *own, struct greedy_shared<C> &sh) {
    const int64_t base = run.first_chunk * GREEDY_CHUNK;
    const int64_t stop = base + run.chunks * GREEDY_CHUNK;
    if (blockIdx.x == 0 && threadIdx.x < job.trials)
        __stcg(&job.state->gain[(run.steps + 1) % 3][threadIdx.x], 0ull);
    for (int64_t first = base; first < stop; first += GREEDY_PASS) {
        clear_pass<C>(job, run, first, stop, sh);
        filter_pass<C>(job, base, first, stop, own, sh);
        __syncthreads();
        settle_pass<C, COSINE>(job, run, first, sh);
        publish<C>(job, run, first, stop, sh);
    }
}

/* The block's rows of t, in shared memory where there is room. */
static __device__ const uint4 *own_rows(const struct greedy_job &job, const struct greedy_run &run,
                                        uint4 *room) {
    const uint4 *rows = job.t + run.first_chunk * (GREEDY_CHUNK / GREEDY_M) * job.kp * GREEDY_WARP;
    if (!job.resident)
        return rows;
    const int64_t all = run.chunks * (GREEDY_CHUNK / GREEDY_M) * job.kp * GREEDY_WARP;
    for (int64_t i = threadIdx.x; i < all; i += GREEDY_THREADS)
        room[i] = rows[i];
    __syncthreads();
    return room;
}

/* The values of the centroids chosen since `from`, and what the caller wants to know. */
static __device__ void finish(const struct greedy_job &job, struct greedy_run *run, int64_t from) {
    greedy_meet(job, run);
    const int64_t all = job.centroids ? (run->count - from) * job.d : 0;
    for (int64_t e = (int64_t)blockIdx.x * GREEDY_THREADS + threadIdx.x; e < all;
         e += (int64_t)gridDim.x * GREEDY_THREADS) {
        const int64_t row = __ldcg(&job.chosen[from + e / job.d]);
        job.centroids[from * job.d + e] =
            hf_device_load_any(job.x + row * job.row_bytes, job.dtype, e % job.d);
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *job.count = run->count;
        *job.unit = run->unit;
    }
}

static __device__ struct greedy_run begin(const struct greedy_job &job) {
    struct greedy_run run;
    run.count = *job.count;
    run.unit = *job.unit;
    run.barriers = 0;
    run.steps = 0;
    run.winner = -1;
    run.row = -1;
    run.own = 0;
    run.first_chunk = job.chunks * blockIdx.x / gridDim.x;
    run.chunks = job.chunks * (blockIdx.x + 1) / gridDim.x - run.first_chunk;
    run.one_pass = run.chunks * GREEDY_CHUNK <= GREEDY_PASS;
    return run;
}

template <int C, bool COSINE>
static __global__ void __launch_bounds__(GREEDY_THREADS, 1)
    greedy_steps(const struct greedy_job job) {
    extern __shared__ __align__(16) char smem[];
    struct greedy_shared<C> &sh = *(struct greedy_shared<C> *)smem;
    struct greedy_run run = begin(job);
    const int64_t from = run.count;
    const uint4 *own = own_rows(job, run, (uint4 *)(smem + sizeof sh));
    if (run.one_pass)
        look_at_rows<C>(job, run.first_chunk * GREEDY_CHUNK,
                        (run.first_chunk + run.chunks) * GREEDY_CHUNK, sh);
    if (run.unit == 0) {
        rescale(job, &run);
    } else {
        sum_chunks(job, run);
        greedy_meet(job, &run);
    }
    for (;;) {
        struct share s = add_up(job, run);
        const bool finer = run.steps > 0 && (double)s.total < job.limit * HF_GREEDY_FINER;
        const bool last = run.count >= job.upto || s.total == 0;
        if (finer || last)
            commit_rows<C>(job, run, 0, sh);
        if (finer)
            rescale(job, &run);
        if (last)
            break;
        if (finer)
            s = add_up(job, run);
        draw<C>(job, run, s, sh);
        evaluate<C, COSINE>(job, run, own, sh);
        run.steps++;
        greedy_meet(job, &run);
        take_winner<C>(job, &run, sh);
    }
    finish(job, &run, from);
}

#endif
