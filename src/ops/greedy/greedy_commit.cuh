/* SPDX-License-Identifier: Apache-2.0
 * The winner of a step becomes a centroid, and the block that is through last draws the candidates
 * of the next one. */
#ifndef HF_GREEDY_COMMIT_CUH
#define HF_GREEDY_COMMIT_CUH

#include "device/cuda/rng.cuh"
#include "ops/greedy/greedy_state.cuh"

/* nearest after the winner; the sum of the potentials of the tile. */
static __device__ void commit_tile(const struct greedy_job &job, int64_t first, int winner) {
    const struct greedy_state *state = job.state;
    const int64_t i = first + threadIdx.x;
    hf_u64 q = 0, before;
    if (i < job.n) {
        double v = job.nearest[i];
        const bool nearer = winner >= 0 && (job.mask[i] >> winner & 1);
        if (nearer)
            v = job.found[winner * job.n + i];
        if (winner >= 0 && i == state->drawn[winner])
            v = 0;
        job.nearest[i] = v;
        q = greedy_quantum(job, state->unit, i, v);
    }
    q = hf_block_scan<GREEDY_TILE>(q, &before);
    if (threadIdx.x == 0)
        job.tile[blockIdx.x] = q;
}

static __device__ int winner_of(const struct greedy_job &job) {
    int winner = 0;
    for (int l = 1; l < job.trials; l++)
        if (job.state->gain[l] > job.state->gain[winner])
            winner = l;
    return winner;
}

/* ---- from here on: the last block, which sees what all others wrote (__ldcg: not from the first
 * cache, which may be older) */

static __device__ hf_u64 total_of_tiles(const struct greedy_job &job, hf_u64 *mine,
                                        hf_u64 *before) {
    const int64_t each = (job.tiles + GREEDY_TILE - 1) / GREEDY_TILE;
    *mine = 0;
    for (int64_t t = threadIdx.x * each; t < (threadIdx.x + 1) * each && t < job.tiles; t++)
        *mine += __ldcg(&job.tile[t]);
    return hf_block_scan<GREEDY_TILE>(*mine, before);
}

/* A finer scale, and the sums on it. It happens a few times in a run. */
static __device__ void refine(const struct greedy_job &job) {
    __shared__ hf_u64 most;
    hf_u64 own = 0;
    if (threadIdx.x == 0)
        most = 0;
    __syncthreads();
    for (int64_t i = threadIdx.x; i < job.n; i += GREEDY_TILE) {
        const double weight = greedy_weight(job, i);
        const double v = weight > 0 ? __dmul_rn(weight, __ldcg(&job.nearest[i])) : 0;
        own = max(own, (hf_u64)__double_as_longlong(v));
    }
    atomicMax(&most, own);
    __syncthreads();
    const double unit = hf_seed_unit(job.bits, __longlong_as_double((long long)most));
    if (threadIdx.x == 0)
        job.state->unit = unit;
    for (int64_t t = 0; t < job.tiles; t++) {
        const int64_t i = t * GREEDY_TILE + threadIdx.x;
        hf_u64 before;
        const hf_u64 q = i < job.n ? greedy_quantum(job, unit, i, __ldcg(&job.nearest[i])) : 0;
        const hf_u64 sum = hf_block_scan<GREEDY_TILE>(q, &before);
        if (threadIdx.x == 0)
            __stcg(&job.tile[t], sum);
    }
    __threadfence_block();
    __syncthreads();
}

/* The rows of the candidates: first the tile where the running sum passes the target, then, a warp
 * a candidate, the row in it. */
static __device__ void draw(const struct greedy_job &job, hf_u64 total, hf_u64 mine,
                            hf_u64 before) {
    __shared__ hf_u64 target[HF_GREEDY_TRIALS], in_tile[HF_GREEDY_TRIALS];
    __shared__ int64_t tile[HF_GREEDY_TRIALS];
    struct greedy_state *state = job.state;
    if (threadIdx.x < job.trials)
        target[threadIdx.x] = hf_device_rng_below(
            job.seed, job.stream,
            (uint64_t)state->count * (uint64_t)job.trials + (uint64_t)threadIdx.x, total);
    __syncthreads();
    const int64_t each = (job.tiles + GREEDY_TILE - 1) / GREEDY_TILE;
    for (int l = 0; l < job.trials; l++) {
        hf_u64 rest = target[l];
        if (rest < before || rest >= before + mine)
            continue;
        rest -= before;
        int64_t t = threadIdx.x * each;
        for (hf_u64 q; rest >= (q = __ldcg(&job.tile[t])); t++)
            rest -= q;
        tile[l] = t;
        in_tile[l] = rest;
    }
    __syncthreads();
    const int lane = (int)threadIdx.x % GREEDY_WARP;
    constexpr int EACH = GREEDY_TILE / GREEDY_WARP;
    for (int l = (int)threadIdx.x / GREEDY_WARP; l < job.trials; l += GREEDY_TILE / GREEDY_WARP) {
        const int64_t first = tile[l] * GREEDY_TILE + lane * EACH;
        hf_u64 q[EACH], sum = 0;
        for (int e = 0; e < EACH; e++) {
            const int64_t i = first + e;
            q[e] = i < job.n ? greedy_quantum(job, state->unit, i, __ldcg(&job.nearest[i])) : 0;
            sum += q[e];
        }
        hf_u64 upto = sum;
        for (int step = 1; step < GREEDY_WARP; step *= 2) {
            const hf_u64 other = __shfl_up_sync(0xffffffffu, upto, step);
            upto += lane >= step ? other : 0;
        }
        if (in_tile[l] < upto - sum || in_tile[l] >= upto)
            continue;
        hf_u64 passed = upto - sum;
        for (int e = 0; e < EACH; e++) {
            if (in_tile[l] >= passed && in_tile[l] < passed + q[e])
                state->drawn[l] = first + e;
            passed += q[e];
        }
    }
    __syncthreads();
}

/* The candidates as they are and as the filter sees them (seed_filter_candidate()); a warp each. */
static __device__ void take_candidates(const struct greedy_job &job) {
    const int lane = (int)threadIdx.x % GREEDY_WARP;
    for (int l = (int)threadIdx.x / GREEDY_WARP; l < job.trials; l += GREEDY_TILE / GREEDY_WARP) {
        const char *row = (const char *)job.x.data + job.state->drawn[l] * job.row_bytes;
        double square = 0;
        for (int64_t j = lane; j < job.d; j += GREEDY_WARP) {
            const double v = hf_device_load_any(row, job.x.dtype, j);
            job.c64[l * job.d + j] = v;
            square += v * v;
        }
        for (int step = GREEDY_WARP / 2; step > 0; step /= 2)
            square += __shfl_xor_sync(0xffffffffu, square, step);
        const double factor = job.cosine ? 1 / sqrt(square) : job.scale;
        double nc = 0;
        for (int64_t j = lane; j < job.dp; j += GREEDY_WARP) {
            const double s = job.shift && j < job.d ? job.shift[j] : 0;
            const double v = j < job.d ? hf_device_load_any(row, job.x.dtype, j) : 0;
            const float t = j < job.d ? (float)((v - s) * factor) : 0;
            job.c[l * job.dp + j] = t;
            nc += (double)t * (double)t;
        }
        for (int step = GREEDY_WARP / 2; step > 0; step /= 2)
            nc += __shfl_xor_sync(0xffffffffu, nc, step);
        double limit = 0.5 * nc * (1 - job.slack) * (1 - 0x1p-22);
        if (job.cosine)
            limit = square > 1e-280 && square < 1e280 ? 0 : NAN;
        if (lane == 0)
            job.state->limit[l] = (float)limit;
    }
}

static __device__ void finish_step(const struct greedy_job &job, int winner) {
    struct greedy_state *state = job.state;
    hf_u64 mine, before;
    hf_u64 total = total_of_tiles(job, &mine, &before);
    if (winner >= 0 && (double)total < job.limit * HF_GREEDY_FINER) {
        refine(job);
        total = total_of_tiles(job, &mine, &before);
    }
    if (winner >= 0 && job.centroids)
        for (int64_t j = threadIdx.x; j < job.d; j += GREEDY_TILE)
            job.centroids[state->count * job.d + j] = job.c64[winner * job.d + j];
    __syncthreads();
    if (threadIdx.x == 0) {
        if (winner >= 0)
            job.chosen[state->count++] = state->drawn[winner];
        state->stop = state->count >= job.upto || total == 0;
        state->done = 0;
        *job.count = state->count;
        *job.unit = state->unit;
    }
    if (threadIdx.x < job.trials)
        state->gain[threadIdx.x] = 0;
    __syncthreads();
    if (state->stop)
        return;
    draw(job, total, mine, before);
    take_candidates(job);
}

/* FIRST: there is no winner yet, only potentials and candidates are wanted. */
template <bool FIRST>
static __global__ void __launch_bounds__(GREEDY_TILE, 2)
    greedy_commit(const struct greedy_job job) {
    __shared__ bool last;
    struct greedy_state *state = job.state;
    if (!FIRST && state->stop)
        return;
    const int winner = FIRST ? -1 : winner_of(job);
    commit_tile(job, (int64_t)blockIdx.x * GREEDY_TILE, winner);
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(&state->done, 1) == gridDim.x - 1;
    __syncthreads();
    if (!last)
        return;
    __threadfence();
    finish_step(job, winner);
}

#endif
