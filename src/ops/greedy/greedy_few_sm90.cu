/* SPDX-License-Identifier: Apache-2.0
 * greedy with few rows. A step is as long as its chain of dependent work: with a thread a row, all
 * distances in a table, and blocks of a cluster that send each other what they found, the chain is
 * two messages, one load, and sums within a block. A message is a store into the other block's
 * shared memory that counts at a barrier there: unlike a meeting of the cluster, which waits for
 * all memory accesses, it needs no fence. */
#include "device/cuda/ptx.cuh"
#include "device/cuda/rng.cuh"
#include "ops/chains.cuh"
#include "ops/greedy/greedy_few.h"

#define FEW_BLOCKS 8 /* of the cluster */
#define FEW_THREADS 512
#define FEW_WARPS (FEW_THREADS / GREEDY_WARP)
#define FEW_AIM (FEW_WARPS - 1) /* the warp that aims: most often it has no rows */
#define FEW_HALF 27             /* bits of the lower half of a potential */

#define PAIR_TILE 64 /* rows and columns of a block of distances, */
#define PAIR_SIDE 16 /* threads to a side of it, */
#define PAIR_EACH (PAIR_TILE / PAIR_SIDE)
#define PAIR_COLS 16 /* and features in shared memory at once */

/* C: candidates, rounded up. What blocks tell each other lies in all of them. */
template <int C> struct few_shared {
    /* of even and odd steps: mbarriers of both messages; the rows of the candidates, from their
     * blocks; what they gain in each block, from that block */
    hf_u64 bar[2][2], drawn[2][C], gained[2][FEW_BLOCKS][C];
    hf_u64 part[FEW_BLOCKS]; /* potential of that block */
    hf_u64 most[FEW_BLOCKS]; /* bits of its largest weight * nearest */
    hf_u64 rest[C];          /* what is left of the target, ~0 if not here */
    hf_u64 gain[FEW_WARPS][C];
    hf_u64 largest, warps[FEW_WARPS];
    int chosen[HF_GREEDY_FEW_ROWS]; /* since the start */
};

/* What a thread knows. */
struct few_state {
    uint32_t rank;
    int lane, warp;
    int64_t i; /* its row, -1: none */
    bool idle; /* no thread of the warp has one */
    double nearest, weight;
    hf_u64 q, upto; /* its potential, and with that of the rows in front in the warp */
    int64_t from, count;
    double unit;
    unsigned odd, parity;  /* of the step, and of the phase of its barriers */
    hf_u64 part;           /* potential of block lane % FEW_BLOCKS */
    hf_u64 total;          /* of all blocks */
    struct hf_philox bits; /* for candidate `lane` of the next step; in the warp that aims */
};

/* Features [from, from + PAIR_COLS) of PAIR_TILE rows from `first`; 0 behind the last of either. */
template <hf_dtype T>
static __device__ __forceinline__ void few_stage(const struct greedy_job &job, int64_t first,
                                                 int64_t from,
                                                 double (&to)[PAIR_COLS][PAIR_TILE + 1]) {
    for (int e = (int)threadIdx.x; e < PAIR_TILE * PAIR_COLS; e += PAIR_SIDE * PAIR_SIDE) {
        const int row = e / PAIR_COLS, column = e % PAIR_COLS;
        const bool valid = first + row < job.n && from + column < job.d;
        to[column][row] =
            valid ? hf_device_load<T>(job.x + (first + row) * job.row_bytes, from + column) : 0;
    }
}

/* Reference distances of all rows to each other: those of a pair are the same both ways. Features
 * that are not there add +0, which changes no sum of squares. */
template <hf_dtype T>
static __global__ void __launch_bounds__(PAIR_SIDE *PAIR_SIDE)
    few_pairs(const struct greedy_job job) {
    __shared__ double a[PAIR_COLS][PAIR_TILE + 1], b[PAIR_COLS][PAIR_TILE + 1];
    const int64_t top = (int64_t)blockIdx.y * PAIR_TILE, left = (int64_t)blockIdx.x * PAIR_TILE;
    const int y = (int)threadIdx.x / PAIR_SIDE, x = (int)threadIdx.x % PAIR_SIDE;
    struct hf_chain sum[PAIR_EACH][PAIR_EACH] = {};
    if (left < top)
        return;
    for (int64_t from = 0; from < job.d; from += PAIR_COLS) {
        __syncthreads();
        few_stage<T>(job, top, from, a);
        few_stage<T>(job, left, from, b);
        __syncthreads();
#pragma unroll 4
        for (int c = 0; c < PAIR_COLS; c++)
#pragma unroll
            for (int i = 0; i < PAIR_EACH; i++)
#pragma unroll
                for (int j = 0; j < PAIR_EACH; j++)
                    hf_chain_add<HF_EUCLIDEAN>(&sum[i][j], a[c][y + i * PAIR_SIDE],
                                               b[c][x + j * PAIR_SIDE]);
    }
#pragma unroll
    for (int i = 0; i < PAIR_EACH; i++)
#pragma unroll
        for (int j = 0; j < PAIR_EACH; j++) {
            const int64_t row = top + y + i * PAIR_SIDE, other = left + x + j * PAIR_SIDE;
            if (row >= job.n || other >= job.n)
                continue;
            job.pairs[row * job.pitch + other] = sum[i][j].sum;
            job.pairs[other * job.pitch + row] = sum[i][j].sum;
        }
}

/* v to where block `rank` has what this block has at p in its shared memory. */
static __device__ __forceinline__ void few_store(hf_u64 *p, uint32_t rank, hf_u64 v) {
    asm volatile("{\n"
                 ".reg .b32 there;\n"
                 "mapa.shared::cluster.u32 there, %0, %1;\n"
                 "st.shared::cluster.u64 [there], %2;\n"
                 "}" ::"r"(hf_shared(p)),
                 "r"(rank), "l"(v)
                 : "memory");
}

/* The same, counted at a barrier there. */
static __device__ __forceinline__ void few_send(hf_u64 *p, hf_u64 *bar, uint32_t rank, hf_u64 v) {
    asm volatile("{\n"
                 ".reg .b32 there, gate;\n"
                 "mapa.shared::cluster.u32 there, %0, %3;\n"
                 "mapa.shared::cluster.u32 gate, %1, %3;\n"
                 "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u64 [there], %2, "
                 "[gate];\n"
                 "}" ::"r"(hf_shared(p)),
                 "r"(hf_shared(bar)), "l"(v), "r"(rank)
                 : "memory");
}

/* few_store() to all blocks. */
static __device__ __forceinline__ void few_tell(hf_u64 *p, hf_u64 v) {
#pragma unroll
    for (uint32_t b = 0; b < FEW_BLOCKS; b++)
        few_store(p, b, v);
}

/* The sum over a warp of 32 potentials, which are 2^50 at most, or of 15 sums of so many: in halves
 * whose sums have 32 bits, for which there is an instruction. Five shuffles that wait for each
 * other would take longer. */
static __device__ __forceinline__ hf_u64 few_warp_sum(hf_u64 v) {
    const unsigned low = (unsigned)v & ((1u << FEW_HALF) - 1);
    const unsigned high = (unsigned)(v >> FEW_HALF);
    return __reduce_add_sync(0xffffffffu, low) +
           ((hf_u64)__reduce_add_sync(0xffffffffu, high) << FEW_HALF);
}

/* The sum of the thread's and the lower lanes' potentials, and that of each warp. */
template <int C>
static __device__ __forceinline__ void few_scan(struct few_state *s, struct few_shared<C> &sh) {
    s->upto = s->q;
    if (s->idle)
        return;
#pragma unroll
    for (int step = 1; step < GREEDY_WARP; step *= 2) {
        const hf_u64 other = __shfl_up_sync(0xffffffffu, s->upto, step);
        s->upto += s->lane >= step ? other : 0;
    }
    if (s->lane == GREEDY_WARP - 1)
        sh.warps[s->warp] = s->upto;
}

static __device__ __forceinline__ hf_u64 few_total(const struct few_state &s) {
    hf_u64 total = s.part;
    for (int step = FEW_BLOCKS / 2; step > 0; step /= 2)
        total += __shfl_xor_sync(0xffffffffu, total, step);
    return total;
}

/* Potentials from the distances, and their sums in all blocks. */
template <int C>
static __device__ void few_sums(const struct greedy_job &job, struct few_state *s,
                                struct few_shared<C> &sh) {
    s->q = hf_seed_quantum_of(s->nearest, s->weight, s->unit, job.limit);
    few_scan(s, sh);
    __syncthreads();
    hf_u64 sum = 0;
    for (int w = 0; w < FEW_WARPS; w++)
        sum += sh.warps[w];
    if (threadIdx.x == 0)
        few_tell(&sh.part[s->rank], sum);
    __syncwarp();
    hf_cluster_sync();
    s->part = sh.part[s->lane % FEW_BLOCKS];
    s->total = few_total(*s);
}

/* A scale that uses the whole range of the integers, and potentials on it. */
template <int C>
static __device__ void few_rescale(const struct greedy_job &job, struct few_state *s,
                                   struct few_shared<C> &sh) {
    if (threadIdx.x == 0)
        sh.largest = 0;
    __syncthreads();
    if (s->weight > 0)
        atomicMax(&sh.largest, (hf_u64)__double_as_longlong(__dmul_rn(s->weight, s->nearest)));
    __syncthreads();
    if (threadIdx.x == 0)
        few_tell(&sh.most[s->rank], sh.largest);
    __syncwarp();
    hf_cluster_sync();
    hf_u64 most = 0;
    for (int b = 0; b < FEW_BLOCKS; b++)
        most = max(most, sh.most[b]);
    s->unit = hf_seed_unit(job.bits, __longlong_as_double((long long)most));
    few_sums(job, s, sh);
}

/* Random numbers of the candidates of the next step but `ahead`: a lane a candidate. */
static __device__ __forceinline__ void few_roll(const struct greedy_job &job, struct few_state *s,
                                                int ahead) {
    const uint64_t at = (uint64_t)(s->count + ahead) * (uint64_t)job.trials + (uint64_t)s->lane;
    const struct hf_philox c = {{at, job.stream}};
    s->bits = hf_philox_block(c, job.seed);
}

/* hf_device_rng_below() from the first block of its numbers, which is there before n is known. */
static __device__ __forceinline__ uint64_t few_below(struct hf_philox b, uint64_t seed,
                                                     uint64_t n) {
    for (;; b = hf_philox_block(b, seed))
        for (int i = 0; i < 2; i++)
            if (b.half[i] * n >= n || b.half[i] * n >= (0 - n) % n)
                return __umul64hi(b.half[i], n);
}

/* The block that holds each target, and what is left of the target there: one warp's work. */
template <int C>
static __device__ __forceinline__ void
few_aim(const struct greedy_job &job, const struct few_state &s, struct few_shared<C> &sh) {
    hf_u64 rest = few_below(s.bits, job.seed, s.total);
    uint32_t owner = 0;
    bool found = false;
#pragma unroll
    for (int b = 0; b < FEW_BLOCKS; b++) {
        const hf_u64 part = __shfl_sync(0xffffffffu, s.part, b);
        found = found || rest < part;
        owner += !found;
        rest -= found ? 0 : part;
    }
    if (s.lane < job.trials)
        sh.rest[s.lane] = owner == s.rank ? rest : ~0ull;
}

/* The messages of a step. No block is more than a step ahead: it waits for what this one gains. */
template <int C>
static __device__ __forceinline__ void
few_expect(const struct greedy_job &job, const struct few_state &s, struct few_shared<C> &sh) {
    const uint32_t bytes = (uint32_t)job.trials * (uint32_t)sizeof(hf_u64);
    hf_mbar_expect(hf_shared(&sh.bar[0][s.odd]), bytes);
    hf_mbar_expect(hf_shared(&sh.bar[1][s.odd]), bytes * FEW_BLOCKS);
}

/* The rows of the candidates, told by the threads that have them. */
template <int C>
static __device__ void few_draw(const struct greedy_job &job, const struct few_state &s,
                                struct few_shared<C> &sh) {
    if (s.warp == FEW_AIM)
        few_aim(job, s, sh);
    __syncthreads();
    if (s.idle)
        return;
    static_assert(FEW_WARPS - 1 <= 15, "sums of so many warps in front");
    const hf_u64 front = few_warp_sum(s.lane < s.warp ? sh.warps[s.lane] : 0);
    const hf_u64 before = front + s.upto - s.q;
#pragma unroll
    for (int l = 0; l < C; l++)
        if (l < job.trials && sh.rest[l] - before < s.q)
            for (uint32_t b = 0; b < FEW_BLOCKS; b++)
                few_send(&sh.drawn[s.odd][l], &sh.bar[0][s.odd], b, (hf_u64)s.i);
}

/* Distances of the row to the candidates, and what these gain in the block, for all blocks. */
template <int C>
static __device__ __forceinline__ void few_evaluate(const struct greedy_job &job,
                                                    const struct few_state &s, double (&v)[C],
                                                    struct few_shared<C> &sh) {
    const int64_t i = s.i < 0 ? 0 : s.i;
#pragma unroll
    for (int l = 0; l < C; l++)
        v[l] = l < job.trials && !s.idle
                   ? __ldcg(&job.pairs[(int64_t)sh.drawn[s.odd][l] * job.pitch + i])
                   : INFINITY;
    hf_u64 own = 0; /* what candidate `lane` gains in the warp */
#pragma unroll
    for (int l = 0; l < C; l++) {
        if (!__any_sync(0xffffffffu, v[l] < s.nearest))
            continue;
        hf_u64 gain = 0;
        if (v[l] < s.nearest)
            gain = s.q - hf_seed_quantum_of(v[l], s.weight, s.unit, job.limit);
        gain = few_warp_sum(gain);
        own = s.lane == l ? gain : own;
    }
    if (s.lane < C)
        sh.gain[s.warp][s.lane] = own;
    __syncthreads();
    const int l = (int)threadIdx.x % C;
    if (threadIdx.x >= FEW_BLOCKS * C || l >= job.trials)
        return;
    hf_u64 gain = 0;
#pragma unroll
    for (int w = 0; w < FEW_WARPS; w++)
        gain += sh.gain[w][l];
    few_send(&sh.gained[s.odd][s.rank][l], &sh.bar[1][s.odd], threadIdx.x / C, gain);
}

/* The candidate that gained most, the first of equals, becomes a centroid. */
template <int C>
static __device__ __forceinline__ void few_take(const struct greedy_job &job, struct few_state *s,
                                                const double (&v)[C], struct few_shared<C> &sh) {
    constexpr int LANES = C <= 8 ? 8 : C <= 16 ? 16 : 32;
    int winner = s->lane % LANES;
    hf_u64 most = 0;
    for (int b = 0; b < FEW_BLOCKS && winner < job.trials; b++)
        most += sh.gained[s->odd][b][winner];
    for (int step = LANES / 2; step > 0; step /= 2) {
        const hf_u64 other_gain = __shfl_xor_sync(0xffffffffu, most, step);
        const int other = __shfl_xor_sync(0xffffffffu, winner, step);
        if (other_gain > most || (other_gain == most && other < winner)) {
            most = other_gain;
            winner = other;
        }
    }
    double own = INFINITY;
#pragma unroll
    for (int l = 0; l < C; l++)
        own = l == winner ? v[l] : own;
    if (own < s->nearest) {
        s->nearest = own;
        s->q = hf_seed_quantum_of(own, s->weight, s->unit, job.limit);
    }
    s->part -= sh.gained[s->odd][s->lane % FEW_BLOCKS][winner];
    s->total -= most;
    if (threadIdx.x == 0)
        sh.chosen[s->count - s->from] = (int)sh.drawn[s->odd][winner];
    s->count++;
    s->parity ^= s->odd;
    s->odd ^= 1;
    few_scan(s, sh);
}

template <int C>
static __device__ struct few_state few_begin(const struct greedy_job &job,
                                             struct few_shared<C> &sh) {
    struct few_state s;
    const int64_t each = (job.n + FEW_BLOCKS - 1) / FEW_BLOCKS;
    s.rank = hf_cluster_rank();
    s.lane = (int)threadIdx.x % GREEDY_WARP;
    s.warp = (int)threadIdx.x / GREEDY_WARP;
    s.i = s.rank * each + threadIdx.x;
    s.i = threadIdx.x < each && s.i < job.n ? s.i : -1;
    s.nearest = s.i < 0 ? 0 : job.nearest[s.i];
    s.weight = s.i < 0 ? 0 : greedy_weight(job, s.i);
    s.from = s.count = *job.count;
    s.unit = *job.unit;
    s.idle = s.warp * GREEDY_WARP >= each;
    if (s.idle && s.lane == 0)
        sh.warps[s.warp] = 0;
    s.odd = s.parity = 0;
    for (int e = 0; e < 4 && threadIdx.x == 0; e++)
        hf_mbar_init(hf_shared(&sh.bar[e / 2][e % 2]), 1);
    hf_mbar_init_fence();
    few_roll(job, &s, 0);
    __syncwarp();
    hf_cluster_sync(); /* all blocks are there */
    if (s.unit == 0)
        few_rescale(job, &s, sh);
    else
        few_sums(job, &s, sh);
    return s;
}

/* What the caller wants to know. */
template <int C>
static __device__ void few_finish(const struct greedy_job &job, const struct few_state &s,
                                  const struct few_shared<C> &sh) {
    __syncthreads();
    if (s.i >= 0)
        job.nearest[s.i] = s.nearest;
    const int64_t steps = s.count - s.from, first = s.rank * FEW_THREADS + threadIdx.x;
    const int64_t all = job.centroids ? steps * job.d : 0;
    for (int64_t t = first; t < steps; t += FEW_BLOCKS * FEW_THREADS)
        job.chosen[s.from + t] = sh.chosen[t];
    for (int64_t e = first; e < all; e += FEW_BLOCKS * FEW_THREADS)
        job.centroids[s.from * job.d + e] =
            hf_device_load_any(job.x + sh.chosen[e / job.d] * job.row_bytes, job.dtype, e % job.d);
    if (first == 0) {
        *job.count = s.count;
        *job.unit = s.unit;
    }
}

template <int C>
static __global__ void __launch_bounds__(FEW_THREADS, 1) __cluster_dims__(FEW_BLOCKS, 1, 1)
    few_steps(const struct greedy_job job) {
    __shared__ struct few_shared<C> sh;
    struct few_state s = few_begin(job, sh);
    for (;;) {
        const bool finer = s.count > s.from && (double)s.total < job.limit * HF_GREEDY_FINER;
        const bool last = s.count >= job.upto || s.total == 0;
        if (finer)
            few_rescale(job, &s, sh);
        if (last)
            break;
        if (threadIdx.x == 0)
            few_expect(job, s, sh);
        few_draw(job, s, sh);
        hf_mbar_wait(hf_shared(&sh.bar[0][s.odd]), s.parity);
        double v[C];
        few_evaluate(job, s, v, sh);
        if (s.warp == FEW_AIM)
            few_roll(job, &s, 1);
        hf_mbar_wait(hf_shared(&sh.bar[1][s.odd]), s.parity);
        few_take(job, &s, v, sh);
    }
    hf_cluster_sync(); /* nobody tells a block that is gone */
    few_finish(job, s, sh);
}

size_t hf_greedy_few_bytes(int64_t n) { return (size_t)n * (size_t)((n + 3) / 4 * 4) * 8; }

hf_status hf_greedy_few_run(struct hf_cuda *cuda, struct greedy_job job, void *memory) {
    const unsigned tiles = (unsigned)((job.n + PAIR_TILE - 1) / PAIR_TILE);
    static_assert(HF_GREEDY_FEW_ROWS <= FEW_BLOCKS * FEW_THREADS, "a thread a row");
    static_assert(FEW_BLOCKS * HF_GREEDY_TRIALS <= FEW_THREADS, "a thread tells a gain");
    job.pairs = (double *)memory;
    job.pitch = (job.n + 3) / 4 * 4;
    hf_for_dtype(job.dtype, [&](auto type) {
        few_pairs<decltype(type)::value>
            <<<dim3(tiles, tiles), PAIR_SIDE * PAIR_SIDE, 0, cuda->stream>>>(job);
    });
    if (job.trials <= 8)
        few_steps<8><<<FEW_BLOCKS, FEW_THREADS, 0, cuda->stream>>>(job);
    else if (job.trials <= 16)
        few_steps<16><<<FEW_BLOCKS, FEW_THREADS, 0, cuda->stream>>>(job);
    else
        few_steps<HF_GREEDY_TRIALS><<<FEW_BLOCKS, FEW_THREADS, 0, cuda->stream>>>(job);
    return hf_cuda_launched(cuda, "greedy");
}
