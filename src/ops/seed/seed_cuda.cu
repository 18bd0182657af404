/* SPDX-License-Identifier: Apache-2.0
 * seed on CUDA: float64 register tiles for the rows that the triangle inequality leaves. */
#include "core/kernel.h"
#include "device/cuda/stage.h"
#include "ops/seed/seed_device.cuh"
#include "ops/tiles.cuh"

#define FEW 8 /* candidates that get a tile of their own */
#define WARP 32
#define ONE_THREADS 128 /* of a block that has one candidate */

struct seed_job {
    struct hf_tile_side x, c;
    int64_t d, first;
    struct hf_seed_scale scale;
    double *nearest;
    int32_t *label;
    const double *reach;
    hf_u64 *gain;
    struct hf_seed_pair *pairs;
    int64_t pairs_room;
    hf_u64 *pairs_count;
    int32_t first_label;
    hf_u64 *block;
};

/* Can a candidate be nearer to row i? */
static __device__ __forceinline__ bool is_open(const struct seed_job &job, int64_t i) {
    if (i >= job.x.rows)
        return false;
    if (!job.reach || job.label[i] < 0)
        return job.nearest[i] > 0;
    return job.nearest[i] > job.reach[job.label[i]];
}

/* A place in the list for each lane that calls. */
static __device__ int64_t next_place(hf_u64 *count) {
    const unsigned lanes = __activemask();
    const int lane = (int)threadIdx.x % WARP;
    const int leader = __ffs((int)lanes) - 1;
    hf_u64 base = 0;
    if (lane == leader)
        base = atomicAdd(count, (hf_u64)__popc(lanes));
    base = __shfl_sync(lanes, base, leader);
    return (int64_t)(base + (hf_u64)__popc(lanes & ((1u << lane) - 1)));
}

/* Candidate l brings row i to distance v: what that gains. */
static __device__ hf_u64 offer(const struct seed_job &job, int64_t i, int64_t l, double nearest,
                               double v) {
    const hf_u64 gain =
        hf_seed_potential(job.scale, i, nearest) - hf_seed_potential(job.scale, i, v);
    if (job.pairs) {
        const int64_t at = next_place(job.pairs_count);
        if (at < job.pairs_room) {
            job.pairs[at].row = job.first + i;
            job.pairs[at].d = v;
            job.pairs[at].candidate = (int32_t)l;
        }
    }
    return gain;
}

template <int TX, int R, int Q, hf_metric M>
static __global__ void __launch_bounds__(HF_TILE_THREADS, 2)
    seed_evaluate(const struct seed_job job) {
    constexpr int TY = HF_TILE_THREADS / TX;
    constexpr int ROWS = hf_tile_rows<TX, R>, CENTS = hf_tile_cents<TX, Q>;
    __shared__ hf_tile_smem<ROWS, CENTS> smem;
    __shared__ hf_u64 gains[CENTS];
    const int64_t first = (int64_t)blockIdx.x * ROWS;
    unsigned open = 0;
    for (int r = 0; r < R; r++)
        open |= (unsigned)is_open(job, first + threadIdx.x / TX + TY * r) << r;
    if (!__syncthreads_or((int)open))
        return;
    for (int64_t cent = 0; cent < job.c.rows; cent += CENTS) {
        double dist[R][Q];
        hf_tile_distances<TX, R, Q, M>(dist, job.x, job.c, first, cent, job.d, smem);
        if (threadIdx.x < CENTS)
            gains[threadIdx.x] = 0;
        __syncthreads();
#pragma unroll
        for (int q = 0; q < Q; q++) {
            const int64_t l = cent + threadIdx.x % TX + TX * q;
            hf_u64 gain = 0;
#pragma unroll
            for (int r = 0; r < R; r++) {
                const int64_t i = first + threadIdx.x / TX + TY * r;
                const double v = M == HF_COSINE && dist[r][q] < 0 ? 0 : dist[r][q];
                if ((open >> r & 1) && l < job.c.rows && v < job.nearest[i])
                    gain += offer(job, i, l, job.nearest[i], v);
            }
            if (gain > 0)
                atomicAdd(&gains[threadIdx.x % TX + TX * q], gain);
        }
        __syncthreads();
        if (threadIdx.x < CENTS && gains[threadIdx.x] > 0)
            atomicAdd(&job.gain[cent + threadIdx.x], gains[threadIdx.x]);
    }
}

/* The nearest of all candidates, the first of equals. */
struct best {
    double d;
    int64_t l;
};

template <int TX> static __device__ struct best best_of_row(struct best own) {
    for (int step = TX / 2; step > 0; step /= 2) {
        const double d = __shfl_xor_sync(0xffffffffu, own.d, step);
        const int64_t l = __shfl_xor_sync(0xffffffffu, own.l, step);
        if (d < own.d || (d == own.d && l < own.l)) {
            own.d = d;
            own.l = l;
        }
    }
    return own;
}

template <int TX, int R, int Q, hf_metric M>
static __global__ void __launch_bounds__(HF_TILE_THREADS, 2)
    seed_commit(const struct seed_job job) {
    constexpr int TY = HF_TILE_THREADS / TX;
    constexpr int ROWS = hf_tile_rows<TX, R>, CENTS = hf_tile_cents<TX, Q>;
    __shared__ hf_tile_smem<ROWS, CENTS> smem;
    const int64_t first = (int64_t)blockIdx.x * ROWS;
    struct best best[R];
    bool open = false;
    for (int r = 0; r < R; r++) {
        best[r].d = INFINITY;
        best[r].l = INT64_MAX;
        open = open || is_open(job, first + threadIdx.x / TX + TY * r);
    }
    if (!__syncthreads_or(open))
        return;
    for (int64_t cent = 0; cent < job.c.rows; cent += CENTS) {
        double dist[R][Q];
        hf_tile_distances<TX, R, Q, M>(dist, job.x, job.c, first, cent, job.d, smem);
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int q = 0; q < Q; q++) {
                const int64_t l = cent + threadIdx.x % TX + TX * q;
                const double v = M == HF_COSINE && dist[r][q] < 0 ? 0 : dist[r][q];
                if (l < job.c.rows && v < best[r].d) {
                    best[r].d = v;
                    best[r].l = l;
                }
            }
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        const int64_t i = first + threadIdx.x / TX + TY * r;
        const struct best row = best_of_row<TX>(best[r]);
        if (threadIdx.x % TX != 0 || !is_open(job, i) || !(row.d < job.nearest[i]))
            continue;
        job.nearest[i] = row.d;
        if (job.label)
            job.label[i] = job.first_label + (int32_t)row.l;
    }
}

/* One candidate: a lane a row, bound by the memory. */
template <hf_dtype T, hf_metric M>
static __global__ void __launch_bounds__(ONE_THREADS, 4)
    seed_commit_one(const struct seed_job job, int piece) {
    extern __shared__ __align__(16) char smem[];
    const int warp = (int)threadIdx.x / WARP, lane = (int)threadIdx.x % WARP;
    const int64_t step = (int64_t)gridDim.x * ONE_THREADS;
    for (int64_t base = (int64_t)blockIdx.x * ONE_THREADS + warp * WARP; base < job.x.rows;
         base += step) {
        const bool open = is_open(job, base + lane);
        if (!__any_sync(0xffffffffu, open))
            continue;
        const int64_t i = min(base + lane, job.x.rows - 1);
        const struct hf_chain s =
            hf_chain_to<T, M>(job.x.data + i * job.x.row_bytes, (const double *)job.c.data, job.d,
                              piece, smem + warp * hf_chain_to_bytes<T>());
        const double d = hf_chain_distance<M>(s);
        const double v = M == HF_COSINE && d < 0 ? 0 : d;
        if (!open || !(v < job.nearest[i]))
            continue;
        job.nearest[i] = v;
        if (job.label)
            job.label[i] = job.first_label;
    }
}

/* Potentials of HF_SEED_BLOCK rows of the whole problem each, onto job.block. */
static __global__ void seed_blocks(const struct seed_job job) {
    const int64_t number = job.first / HF_SEED_BLOCK + blockIdx.x;
    const int64_t begin = number * HF_SEED_BLOCK - job.first;
    const int64_t stop = begin + HF_SEED_BLOCK < job.x.rows ? begin + HF_SEED_BLOCK : job.x.rows;
    hf_u64 sum = 0;
    for (int64_t i = (begin > 0 ? begin : 0) + threadIdx.x; i < stop; i += blockDim.x)
        sum += hf_seed_potential(job.scale, i, job.nearest[i]);
    sum = hf_warp_sum(sum);
    if (threadIdx.x % WARP == 0 && sum > 0)
        atomicAdd(&job.block[number], sum);
}

template <hf_metric M> static void launch_one(struct hf_cuda *cuda, const struct seed_job &job) {
    const int64_t blocks = (job.x.rows + ONE_THREADS - 1) / ONE_THREADS;
    const int64_t full = (int64_t)cuda->sms * 12;
    const int64_t size = (int64_t)hf_dtype_bytes(job.x.dtype);
    const int piece = hf_chain_piece((uintptr_t)job.x.data | (uintptr_t)job.x.row_bytes |
                                     (uintptr_t)(job.d * size));
    hf_for_dtype(job.x.dtype, [&](auto type) {
        constexpr hf_dtype T = decltype(type)::value;
        constexpr int smem = ONE_THREADS / WARP * hf_chain_to_bytes<T>();
        (void)cudaFuncSetAttribute(seed_commit_one<T, M>,
                                   cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
        seed_commit_one<T, M>
            <<<(unsigned)(blocks < full ? blocks : full), ONE_THREADS, smem, cuda->stream>>>(job,
                                                                                             piece);
    });
}

template <int TX, int R, int Q, hf_metric M>
static void launch_tile(struct hf_cuda *cuda, const struct seed_job &job, bool commit) {
    constexpr int ROWS = hf_tile_rows<TX, R>;
    const unsigned tiles = (unsigned)((job.x.rows + ROWS - 1) / ROWS);
    if (!commit) {
        seed_evaluate<TX, R, Q, M><<<tiles, HF_TILE_THREADS, 0, cuda->stream>>>(job);
        return;
    }
    if (job.c.rows == 1)
        launch_one<M>(cuda, job);
    else
        seed_commit<TX, R, Q, M><<<tiles, HF_TILE_THREADS, 0, cuda->stream>>>(job);
    const int64_t last = (job.first + job.x.rows - 1) / HF_SEED_BLOCK;
    if (job.block)
        seed_blocks<<<(unsigned)(last - job.first / HF_SEED_BLOCK + 1), HF_TILE_THREADS, 0,
                      cuda->stream>>>(job);
}

template <hf_metric M>
static void launch_metric(struct hf_cuda *cuda, const struct seed_job &job, bool commit) {
    if (job.c.rows <= FEW)
        launch_tile<FEW, 4, 1, M>(cuda, job, commit);
    else
        launch_tile<16, 4, 4, M>(cuda, job, commit);
}

static struct hf_tile_side side_of(const hf_array *a) {
    struct hf_tile_side side;
    side.data = (const char *)a->data;
    side.row_bytes = (a->row_stride ? a->row_stride : a->cols) * (int64_t)hf_dtype_bytes(a->dtype);
    side.rows = a->rows;
    side.dtype = a->dtype;
    return side;
}

/* Device views of everything. How long reach is, only the labels know: it cannot be staged as it
 * is, so with it the labels must be on the host too. */
static void view(struct hf_stage *stage, const struct hf_seed_args *a, struct seed_job *job) {
    const size_t n = (size_t)a->x.rows;
    const hf_array x = hf_stage_array(stage, &a->x);
    const hf_array c = hf_stage_array(stage, &a->candidates);
    job->x = side_of(&x);
    job->c = side_of(&c);
    job->d = x.cols;
    job->first = a->first;
    job->scale.weights = (const double *)hf_stage_in(stage, a->weights, n * sizeof(double));
    job->scale.unit = a->unit;
    job->scale.limit = a->limit;
    job->first_label = a->first_label;
    size_t reaches = 0;
    for (size_t i = 0; a->reach && !hf_cuda_owns(a->reach) && i < n; i++)
        if (a->label[i] >= 0 && (size_t)a->label[i] >= reaches)
            reaches = (size_t)a->label[i] + 1;
    job->reach = (const double *)hf_stage_in(stage, a->reach, reaches * sizeof(double));
    if (a->commit) {
        const int64_t skip = a->first / HF_SEED_BLOCK;
        const size_t blocks = (size_t)((a->first + a->x.rows - 1) / HF_SEED_BLOCK - skip + 1);
        job->nearest = (double *)hf_stage_inout(stage, a->nearest, n * sizeof(double));
        job->label = (int32_t *)hf_stage_inout(stage, a->label, n * sizeof(int32_t));
        uint64_t *block = a->block ? a->block + skip : NULL;
        job->block = (hf_u64 *)hf_stage_inout(stage, block, blocks * sizeof *block);
        job->block = job->block ? job->block - skip : NULL;
        return;
    }
    job->nearest = (double *)(uintptr_t)hf_stage_in(stage, a->nearest, n * sizeof(double));
    job->label = (int32_t *)(uintptr_t)hf_stage_in(stage, a->label, n * sizeof(int32_t));
    job->gain = (hf_u64 *)hf_stage_inout(stage, a->gain, (size_t)c.rows * sizeof(hf_u64));
    job->pairs_room = a->pairs_room;
    job->pairs = (struct hf_seed_pair *)hf_stage_inout(stage, a->pairs,
                                                       (size_t)a->pairs_room * sizeof *job->pairs);
    job->pairs_count = (hf_u64 *)hf_stage_inout(stage, a->pairs_count, sizeof(hf_u64));
}

static hf_status seed_run(const struct hf_call *call) {
    const struct hf_seed_args *args = (const struct hf_seed_args *)call->args;
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    struct hf_stage stage;
    struct seed_job job = {};
    hf_stage_begin(&stage, call->stream);
    view(&stage, args, &job);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    if (args->metric == HF_COSINE)
        launch_metric<HF_COSINE>(cuda, job, args->commit);
    else
        launch_metric<HF_EUCLIDEAN>(cuda, job, args->commit);
    return hf_stage_end(&stage, hf_cuda_launched(cuda, "seed"));
}

static double seed_estimate(const struct hf_call *call) {
    const struct hf_seed_args *a = (const struct hf_seed_args *)call->args;
    const double pairs = (double)a->x.rows * (double)a->candidates.rows;
    return 8000 + 3 * pairs * (double)a->x.cols / 12000.0;
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("seed_any_cuda", HF_DT_DATA, 80, 0, HF_TILE(64, 64, HF_TILE_DEPTH), NULL, NULL,
                   seed_run, seed_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_seed_kernels_cuda;
const struct hf_kernel_table hf_seed_kernels_cuda = {kernels, 1};
}
