/* SPDX-License-Identifier: Apache-2.0
 * The steps of greedy: draw, evaluate, commit. */
#ifndef HF_GREEDY_STEPS_CUH
#define HF_GREEDY_STEPS_CUH

#include "device/cuda/rng.cuh"
#include "ops/chains.cuh"
#include "ops/greedy/greedy_filter.cuh"

#define SHARES 4 /* loads of a thread that are under way at once */

/* This thread's chunks in SHARES runs of `each`, their potentials, and the total of all threads. */
struct share {
    int64_t begin, each;
    hf_u64 run[SHARES], mine, before, total;
};

static __device__ __forceinline__ hf_u64 sum_of_chunk(const struct greedy_job &job, int64_t c) {
    return c < job.chunks ? __ldcg(&job.sum[c]) : 0;
}

static __device__ struct share add_up(const struct greedy_job &job) {
    struct share s;
    s.each = (job.chunks + GREEDY_THREADS * SHARES - 1) / (GREEDY_THREADS * SHARES);
    s.begin = threadIdx.x * SHARES * s.each;
#pragma unroll
    for (int r = 0; r < SHARES; r++)
        s.run[r] = sum_of_chunk(job, s.begin + r * s.each);
    for (int64_t c = 1; c < s.each; c++)
#pragma unroll
        for (int r = 0; r < SHARES; r++)
            s.run[r] += sum_of_chunk(job, s.begin + r * s.each + c);
    s.mine = s.run[0] + s.run[1] + s.run[2] + s.run[3];
    s.total = hf_block_scan<GREEDY_THREADS>(s.mine, &s.before);
    return s;
}

/* Potentials of the block's chunks, a warp a chunk. */
static __device__ void sum_chunks(const struct greedy_job &job, const struct greedy_run &run) {
    const int lane = (int)threadIdx.x % GREEDY_WARP;
    for (int64_t c = threadIdx.x / GREEDY_WARP; c < run.chunks; c += GREEDY_WARPS) {
        hf_u64 q = 0;
        for (int e = 0; e < GREEDY_CHUNK; e += GREEDY_WARP) {
            const int64_t i = (run.first_chunk + c) * GREEDY_CHUNK + e + lane;
            q += i < job.n ? greedy_quantum(job, run.unit, i, job.nearest[i]) : 0;
        }
        q = hf_warp_sum(q);
        if (lane == 0)
            __stcg(&job.sum[run.first_chunk + c], q);
    }
}

/* A finer scale. It happens a few times in a run. */
static __device__ void refine(const struct greedy_job &job, struct greedy_run *run) {
    hf_u64 most = 0;
    const int64_t stop = min((run->first_chunk + run->chunks) * GREEDY_CHUNK, job.n);
    for (int64_t i = run->first_chunk * GREEDY_CHUNK + threadIdx.x; i < stop; i += GREEDY_THREADS) {
        const double weight = greedy_weight(job, i);
        const double v = weight > 0 ? __dmul_rn(weight, job.nearest[i]) : 0;
        most = max(most, (hf_u64)__double_as_longlong(v));
    }
    if (most > 0)
        atomicMax(&job.state->most, most);
    greedy_meet(job, run);
    run->unit = hf_seed_unit(job.bits, __longlong_as_double((long long)__ldcg(&job.state->most)));
    sum_chunks(job, *run);
    greedy_meet(job, run);
    if (blockIdx.x == 0 && threadIdx.x == 0)
        __stcg(&job.state->most, 0ull); /* for the next time, many barriers away */
}

/* The rows of the candidates into sh.drawn: first the chunk where the running sum passes the
 * target, then, a warp a candidate, the row in it. */
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
        for (hf_u64 q; s.each > 1 && rest >= (q = __ldcg(&job.sum[chunk])); chunk++)
            rest -= q;
        sh.chunk[l] = chunk;
        sh.rest[l] = rest;
    }
    __syncthreads();
    constexpr int EACH = GREEDY_CHUNK / GREEDY_WARP;
    const int lane = (int)threadIdx.x % GREEDY_WARP;
    for (int l = (int)threadIdx.x / GREEDY_WARP; l < job.trials; l += GREEDY_WARPS) {
        const int64_t first = sh.chunk[l] * GREEDY_CHUNK + lane * EACH;
        hf_u64 q[EACH], sum = 0;
        float2 size[EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const bool there = first + e < job.n;
            const double v = there ? __ldcg(&job.nearest[first + e]) : 0;
            size[e] = there ? job.size[first + e] : make_float2(0, 0);
            q[e] = there ? greedy_quantum(job, run.unit, first + e, v) : 0;
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
    __syncthreads();
}

/* Columns [from, from + cols) of both vectors of all pairs of this warp into shared memory, all
 * loads under way at once. */
template <hf_dtype T, int C>
static __device__ __forceinline__ void bring_as(const struct greedy_job &job,
                                                const int64_t (&row)[2][GREEDY_PAIRS], int64_t from,
                                                int cols, struct greedy_shared<C> &sh) {
    constexpr int EACH = greedy_exact<C> / GREEDY_WARP;
    const int warp = (int)threadIdx.x / GREEDY_WARP, lane = (int)threadIdx.x % GREEDY_WARP;
    double v[2][GREEDY_PAIRS][EACH];
#pragma unroll
    for (int side = 0; side < 2; side++)
#pragma unroll
        for (int p = 0; p < GREEDY_PAIRS; p++)
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const int at = e * GREEDY_WARP + lane;
                v[side][p][e] =
                    at < cols ? hf_device_load<T>(job.x + row[side][p] * job.row_bytes, from + at)
                              : 0;
            }
#pragma unroll
    for (int side = 0; side < 2; side++)
#pragma unroll
        for (int p = 0; p < GREEDY_PAIRS; p++)
#pragma unroll
            for (int e = 0; e < EACH; e++)
                sh.exact[warp][side][p][e * GREEDY_WARP + lane] = v[side][p][e];
}

template <int C>
static __device__ void bring(const struct greedy_job &job, const int64_t (&row)[2][GREEDY_PAIRS],
                             int64_t from, int cols, struct greedy_shared<C> &sh) {
    switch (job.dtype) {
    case HF_F64:
        return bring_as<HF_F64, C>(job, row, from, cols, sh);
    case HF_F16:
        return bring_as<HF_F16, C>(job, row, from, cols, sh);
    case HF_BF16:
        return bring_as<HF_BF16, C>(job, row, from, cols, sh);
    case HF_U8:
        return bring_as<HF_U8, C>(job, row, from, cols, sh);
    default:
        return bring_as<HF_F32, C>(job, row, from, cols, sh);
    }
}

/* Reference distances of pairs [from, from + GREEDY_PAIRS) of the queue, in this warp. The warp
 * brings columns of both vectors into shared memory; a lane a pair (and, for the cosine, a lane for
 * each of the squares) adds them up in order. */
template <int C, bool COSINE>
static __device__ double exact_pairs(const struct greedy_job &job, int64_t first, unsigned from,
                                     struct greedy_shared<C> &sh) {
    const int warp = (int)threadIdx.x / GREEDY_WARP, lane = (int)threadIdx.x % GREEDY_WARP;
    const int pairs = (int)min(sh.queued - from, (unsigned)GREEDY_PAIRS);
    const int pair = lane % GREEDY_PAIRS, kind = lane / GREEDY_PAIRS; /* product, squares of x, c */
    double sum = 0;
    int64_t row[2][GREEDY_PAIRS];
#pragma unroll
    for (int p = 0; p < GREEDY_PAIRS; p++) {
        const int entry = sh.queue[p < pairs ? from + p : from];
        row[0][p] = first + entry / C;
        row[1][p] = sh.drawn[entry % C];
    }
    for (int64_t j = 0; j < job.d; j += greedy_exact<C>) {
        const int cols = (int)min(job.d - j, (int64_t)greedy_exact<C>);
        __syncwarp();
        bring<C>(job, row, j, cols, sh);
        __syncwarp();
        const double *a = sh.exact[warp][COSINE && kind == 2][pair];
        const double *b = sh.exact[warp][COSINE ? kind != 1 : 1][pair];
        if (kind > (COSINE ? 2 : 0))
            continue;
#pragma unroll 16
        for (int e = 0; e < cols; e++) {
            const double diff = COSINE ? a[e] : __dsub_rn(a[e], b[e]);
            sum = __dadd_rn(sum, __dmul_rn(diff, COSINE ? b[e] : diff));
        }
    }
    if (!COSINE)
        return sum;
    const double xx = __shfl_sync(0xffffffffu, sum, pair + GREEDY_PAIRS);
    const double cc = __shfl_sync(0xffffffffu, sum, pair + 2 * GREEDY_PAIRS);
    const double v = hf_cosine_end(sum, xx, cc);
    return v < 0 ? 0 : v;
}

/* The pairs that the filter left open, onto mask, found and gain. */
template <int C, bool COSINE>
static __device__ void settle_pass(const struct greedy_job &job, const struct greedy_run &run,
                                   int64_t first, struct greedy_shared<C> &sh) {
    const int warp = (int)threadIdx.x / GREEDY_WARP, lane = (int)threadIdx.x % GREEDY_WARP;
    for (unsigned from = warp * GREEDY_PAIRS; from < sh.queued;
         from += GREEDY_WARPS * GREEDY_PAIRS) {
        const double v = exact_pairs<C, COSINE>(job, first, from, sh);
        if (lane >= GREEDY_PAIRS || from + lane >= sh.queued)
            continue;
        const int at = sh.queue[from + lane] / C, l = sh.queue[from + lane] % C;
        const int64_t i = first + at;
        const double nearest = sh.nearest[at];
        if (!(v < nearest))
            continue;
        job.found[l * job.n + i] = v;
        atomicOr(&sh.mask[at], 1u << l);
        atomicAdd(&sh.gain[l],
                  greedy_quantum(job, run.unit, i, nearest) - greedy_quantum(job, run.unit, i, v));
    }
    __syncthreads();
    if (run.one_pass)
        return; /* sh.mask is all that commit_rows() needs */
    for (int at = (int)threadIdx.x; at < GREEDY_PASS && first + at < job.n; at += GREEDY_THREADS)
        if (first + at < (run.first_chunk + run.chunks) * GREEDY_CHUNK)
            job.mask[first + at] = sh.mask[at];
}

/* What the candidates gain in the block's rows, onto those of all. */
template <int C, bool COSINE>
static __device__ void evaluate(const struct greedy_job &job, const struct greedy_run &run,
                                const uint4 *own, struct greedy_shared<C> &sh) {
    const int64_t base = run.first_chunk * GREEDY_CHUNK;
    const int64_t stop = base + run.chunks * GREEDY_CHUNK;
    if (threadIdx.x < C)
        sh.gain[threadIdx.x] = 0;
    for (int64_t first = base; first < stop; first += GREEDY_PASS) {
        __syncthreads();
        if (threadIdx.x == 0)
            sh.queued = 0;
        if (!run.one_pass)
            look_at_rows<C>(job, first, stop, sh);
        filter_pass<C>(job, base, first, stop, own, sh);
        __syncthreads();
        settle_pass<C, COSINE>(job, run, first, sh);
    }
    __syncthreads();
    if (threadIdx.x < job.trials && sh.gain[threadIdx.x] > 0)
        atomicAdd(&job.state->gain[run.count & 1][threadIdx.x], sh.gain[threadIdx.x]);
}

/* The candidate that gains most, the first of equals: a lane a candidate, in every warp. */
static __device__ int winner_of(const struct greedy_job &job, int64_t count) {
    int winner = (int)threadIdx.x % GREEDY_WARP;
    hf_u64 most = winner < job.trials ? __ldcg(&job.state->gain[count & 1][winner]) : 0;
    for (int step = GREEDY_WARP / 2; step > 0; step /= 2) {
        const hf_u64 gain = __shfl_xor_sync(0xffffffffu, most, step);
        const int other = __shfl_xor_sync(0xffffffffu, winner, step);
        if (gain > most || (gain == most && other < winner)) {
            most = gain;
            winner = other;
        }
    }
    return winner;
}

/* nearest of the block's rows after the winner, and their potentials, a warp a chunk. */
template <int C>
static __device__ void commit_rows(const struct greedy_job &job, const struct greedy_run &run,
                                   int winner, int64_t row, struct greedy_shared<C> &sh) {
    constexpr int EACH = GREEDY_CHUNK / GREEDY_WARP;
    const int lane = (int)threadIdx.x % GREEDY_WARP;
    const double *const found = job.found + winner * job.n;
    for (int64_t c = threadIdx.x / GREEDY_WARP; c < run.chunks; c += GREEDY_WARPS) {
        const int64_t first = (run.first_chunk + c) * GREEDY_CHUNK + lane;
        const int at = (int)(c % (GREEDY_PASS / GREEDY_CHUNK)) * GREEDY_CHUNK + lane;
        unsigned mask[EACH];
        double v[EACH];
        hf_u64 q = 0;
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int64_t i = first + e * GREEDY_WARP;
            const bool there = i < job.n;
            mask[e] = run.one_pass ? sh.mask[at + e * GREEDY_WARP] : there ? job.mask[i] : 0;
            v[e] = run.one_pass ? sh.nearest[at + e * GREEDY_WARP] : there ? job.nearest[i] : 0;
        }
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int64_t i = first + e * GREEDY_WARP;
            if (i == row || (mask[e] >> winner & 1)) {
                v[e] = i == row ? 0 : found[i];
                job.nearest[i] = v[e];
                sh.nearest[at + e * GREEDY_WARP] = v[e]; /* of use with one pass alone */
                sh.row[at + e * GREEDY_WARP].y = row_radius(job, v[e], job.size[i].y);
            }
            sh.mask[at + e * GREEDY_WARP] = 0;
            q += i < job.n ? greedy_quantum(job, run.unit, i, v[e]) : 0;
        }
        q = hf_warp_sum(q);
        if (lane == 0)
            __stcg(&job.sum[run.first_chunk + c], q);
    }
}

/* Block 0 says what the step chose, and clears the gains of the next one. */
static __device__ void record(const struct greedy_job &job, const struct greedy_run &run,
                              int64_t row) {
    if (blockIdx.x != 0)
        return;
    if (threadIdx.x < job.trials)
        __stcg(&job.state->gain[(run.count & 1) ^ 1][threadIdx.x], 0ull);
    if (threadIdx.x == 0)
        job.chosen[run.count] = row;
    for (int64_t j = threadIdx.x; job.centroids && j < job.d; j += GREEDY_THREADS)
        job.centroids[run.count * job.d + j] =
            hf_device_load_any(job.x + row * job.row_bytes, job.dtype, j);
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

template <int C, bool COSINE>
static __global__ void __launch_bounds__(GREEDY_THREADS, 1)
    greedy_steps(const struct greedy_job job) {
    extern __shared__ __align__(16) char smem[];
    struct greedy_shared<C> &sh = *(struct greedy_shared<C> *)smem;
    struct greedy_run run;
    run.count = *job.count;
    run.unit = *job.unit;
    run.barriers = 0;
    run.first_chunk = job.chunks * blockIdx.x / gridDim.x;
    run.chunks = job.chunks * (blockIdx.x + 1) / gridDim.x - run.first_chunk;
    run.one_pass = run.chunks * GREEDY_CHUNK <= GREEDY_PASS;
    const uint4 *own = own_rows(job, run, (uint4 *)(smem + sizeof sh));
    if (run.one_pass)
        look_at_rows<C>(job, run.first_chunk * GREEDY_CHUNK,
                        (run.first_chunk + run.chunks) * GREEDY_CHUNK, sh);
    sum_chunks(job, run);
    greedy_meet(job, &run);
    struct share s = add_up(job);
    while (run.count < job.upto && s.total > 0) {
        draw<C>(job, run, s, sh);
        evaluate<C, COSINE>(job, run, own, sh);
        greedy_meet(job, &run);
        const int winner = winner_of(job, run.count);
        record(job, run, sh.drawn[winner]);
        commit_rows<C>(job, run, winner, sh.drawn[winner], sh);
        run.count++;
        greedy_meet(job, &run);
        s = add_up(job);
        if ((double)s.total < job.limit * HF_GREEDY_FINER) {
            refine(job, &run);
            s = add_up(job);
        }
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        *job.count = run.count;
        *job.unit = run.unit;
    }
}

#endif
