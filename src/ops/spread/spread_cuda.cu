/* SPDX-License-Identifier: Apache-2.0
 * spread on CUDA: four small launches over tiles of rows. What the host used to do between two
 * launches costs more than they do. */
#include "core/kernel.h"
#include "device/cuda/rng.cuh"
#include "device/cuda/stage.h"
#include "ops/seed/seed_device.cuh"
#include "ops/spread/spread.h"

#define THREADS 256
#define EACH 4 /* rows of a thread */
#define TILE (THREADS * EACH)
#define WARP 32

__extension__ typedef unsigned __int128 u128;

/* Zeroed at the start; behind it counts of the tiles, then a bit for each row. */
struct spread_state {
    hf_u64 most;     /* bits of the largest weight * nearest */
    hf_u64 total[2]; /* with the scale that came in, and with the one that goes out */
};

struct spread_job {
    int64_t n, tiles;
    int bits;
    const double *weights, *far;
    const int32_t *nearest_candidate;
    int32_t first_label;
    uint64_t wanted, seed, stream;
    double limit;
    double *unit, *nearest;
    int32_t *label;
    uint64_t *total;
    int64_t *index, *count;
    struct spread_state *state;
    unsigned *drawn; /* [tiles] how many */
    unsigned *bit;   /* [tiles, TILE / 32] a bit a row: is it drawn? */
};

static __device__ __forceinline__ double weight_of(const struct spread_job &job, int64_t i) {
    return job.weights ? job.weights[i] : 1;
}

static __device__ __forceinline__ hf_u64 quantum(const struct spread_job &job, double unit,
                                                 int64_t i) {
    return hf_seed_quantum_of(job.nearest[i], weight_of(job, i), unit, job.limit);
}

/* The scale that goes out, once all blocks of spread_take() are through. */
static __device__ double unit_of(const struct spread_job &job) {
    const double unit = *job.unit;
    const bool small = (double)job.state->total[0] < job.limit * HF_SPREAD_FINER;
    if (unit != 0 && !(job.far && small))
        return unit;
    return hf_seed_unit(job.bits, __longlong_as_double((long long)job.state->most));
}

static __global__ void spread_take(const struct spread_job job) {
    const double unit = *job.unit;
    hf_u64 most = 0, sum = 0, before;
    for (int e = 0; e < EACH; e++) {
        const int64_t i = (int64_t)blockIdx.x * TILE + e * THREADS + threadIdx.x;
        if (i >= job.n)
            continue;
        if (job.far && job.far[i] < job.nearest[i]) {
            job.nearest[i] = job.far[i];
            job.label[i] = job.first_label + job.nearest_candidate[i];
        }
        const double weight = weight_of(job, i);
        if (weight > 0)
            most = max(most, (hf_u64)__double_as_longlong(__dmul_rn(weight, job.nearest[i])));
        sum += quantum(job, unit, i);
    }
    for (int step = WARP / 2; step > 0; step /= 2)
        most = max(most, __shfl_xor_sync(0xffffffffu, most, step));
    if (threadIdx.x % WARP == 0 && most > 0)
        atomicMax(&job.state->most, most);
    sum = hf_block_scan<THREADS>(sum, &before);
    if (threadIdx.x == 0 && sum > 0)
        atomicAdd(&job.state->total[0], sum);
}

static __global__ void spread_total(const struct spread_job job) {
    const double unit = unit_of(job);
    hf_u64 sum = 0, before;
    for (int e = 0; e < EACH; e++) {
        const int64_t i = (int64_t)blockIdx.x * TILE + e * THREADS + threadIdx.x;
        sum += i < job.n ? quantum(job, unit, i) : 0;
    }
    sum = hf_block_scan<THREADS>(sum, &before);
    if (threadIdx.x == 0 && sum > 0)
        atomicAdd(&job.state->total[1], sum);
}

static __device__ __forceinline__ bool is_drawn(const struct spread_job &job, double unit,
                                                int64_t i) {
    const hf_u64 total = job.state->total[1];
    const u128 wanted = (u128)quantum(job, unit, i) * job.wanted;
    if (wanted == 0 || wanted >= total)
        return wanted != 0;
    return (u128)hf_device_rng_bits(job.seed, job.stream, (uint64_t)i) * total < wanted << 64;
}

static __global__ void spread_draw(const struct spread_job job) {
    const double unit = unit_of(job);
    for (int e = 0; e < EACH; e++) {
        const int64_t i = (int64_t)blockIdx.x * TILE + e * THREADS + threadIdx.x;
        const unsigned bits = __ballot_sync(0xffffffffu, i < job.n && is_drawn(job, unit, i));
        if (threadIdx.x % WARP != 0 || bits == 0)
            continue;
        job.bit[i / WARP] = bits;
        atomicAdd(&job.drawn[blockIdx.x], (unsigned)__popc(bits));
    }
}

/* The rows drawn, in order, and what the caller wants to know. */
static __global__ void spread_list(const struct spread_job job) {
    hf_u64 front = 0, before;
    for (int64_t t = threadIdx.x; t < blockIdx.x; t += THREADS)
        front += job.drawn[t];
    front = hf_block_scan<THREADS>(front, &before);
    const int64_t first = (int64_t)blockIdx.x * TILE + threadIdx.x * EACH;
    const unsigned bits = job.bit[first / WARP] >> first % WARP & ((1u << EACH) - 1);
    const hf_u64 all = hf_block_scan<THREADS>((hf_u64)__popc(bits), &before);
    for (int e = 0; e < EACH; e++)
        if (bits >> e & 1)
            job.index[front + before++] = first + e;
    if (threadIdx.x != 0 || blockIdx.x != gridDim.x - 1)
        return;
    *job.count = (int64_t)(front + all);
    *job.total = job.state->total[1];
    *job.unit = unit_of(job);
}

static int64_t tiles_of(int64_t n) { return (n + TILE - 1) / TILE; }

static size_t spread_workspace(const struct hf_call *call) {
    const size_t tiles = (size_t)tiles_of(((const struct hf_spread_args *)call->args)->x.rows);
    return sizeof(struct spread_state) + tiles * (1 + TILE / WARP) * sizeof(unsigned);
}

static void launch(struct hf_cuda *cuda, const struct spread_job &job) {
    const unsigned tiles = (unsigned)job.tiles;
    spread_take<<<tiles, THREADS, 0, cuda->stream>>>(job);
    spread_total<<<tiles, THREADS, 0, cuda->stream>>>(job);
    if (job.wanted > 0)
        spread_draw<<<tiles, THREADS, 0, cuda->stream>>>(job);
    spread_list<<<tiles, THREADS, 0, cuda->stream>>>(job);
}

/* Device views of everything. */
static void view(struct hf_stage *stage, const struct hf_spread_args *a, struct spread_job *job) {
    const size_t n = (size_t)a->x.rows, column = n * sizeof(double);
    job->n = a->x.rows;
    job->tiles = tiles_of(job->n);
    job->bits = hf_fixed_bits(job->n);
    job->weights = (const double *)hf_stage_in(stage, a->weights, column);
    job->far = (const double *)hf_stage_in(stage, a->far, column);
    job->nearest_candidate =
        (const int32_t *)hf_stage_in(stage, a->nearest_candidate, n * sizeof(int32_t));
    job->first_label = a->first_label;
    job->wanted = (uint64_t)a->wanted;
    job->seed = a->seed;
    job->stream = a->stream;
    job->limit = a->limit;
    job->unit = (double *)hf_stage_inout(stage, a->unit, sizeof(double));
    job->nearest = (double *)hf_stage_inout(stage, a->nearest, column);
    job->label = (int32_t *)hf_stage_inout(stage, a->label, n * sizeof(int32_t));
    job->total = (uint64_t *)hf_stage_out(stage, a->total, sizeof(uint64_t));
    job->index = (int64_t *)hf_stage_inout(stage, a->index, n * sizeof(int64_t));
    job->count = (int64_t *)hf_stage_out(stage, a->count, sizeof(int64_t));
}

static hf_status spread_run(const struct hf_call *call) {
    const struct hf_spread_args *a = (const struct hf_spread_args *)call->args;
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    struct hf_stage stage;
    struct spread_job job;
    hf_stage_begin(&stage, call->stream);
    view(&stage, a, &job);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    job.state = (struct spread_state *)call->ws;
    job.drawn = (unsigned *)(job.state + 1);
    job.bit = job.drawn + job.tiles;
    hf_status status = hf_cuda_check(
        cuda, cudaMemsetAsync(call->ws, 0, spread_workspace(call), cuda->stream), "spread");
    if (status == HF_OK) {
        launch(cuda, job);
        status = hf_cuda_launched(cuda, "spread");
    }
    return hf_stage_end(&stage, status);
}

static double spread_estimate(const struct hf_call *call) {
    const struct hf_spread_args *a = (const struct hf_spread_args *)call->args;
    return 20000 + hf_cuda_pass_ns(36 * (double)a->x.rows);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("spread_any_cuda", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER, HF_TILE(TILE, 0, 0),
                   NULL, spread_workspace, spread_run, spread_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_spread_kernels_cuda;
const struct hf_kernel_table hf_spread_kernels_cuda = {kernels, 1};
}
