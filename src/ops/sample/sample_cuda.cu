/* SPDX-License-Identifier: Apache-2.0
 * sample on CUDA: sums of tiles of rows, their running sum, then each tile serves the draws that
 * fall into it. Both halves go side by side. */
#include "core/kernel.h"
#include "device/cuda/rng.cuh"
#include "device/cuda/stage.h"
#include "ops/sample/sample.h"
#include "ops/seed/seed_device.cuh"

#define THREADS 256
#define EACH 4 /* rows of a thread */
#define TILE (THREADS * EACH)
#define SCAN_THREADS 1024
#define WARP 32
#define HALVES 2

__extension__ typedef unsigned __int128 u128;

struct sample_job {
    int64_t n, tiles, count;
    int bits;
    const double *weights, *distance;
    uint64_t seed, stream;
    hf_u64 *most;  /* [2] bits of the largest v, which is not negative */
    hf_u64 *total; /* [2] */
    hf_u64 *sum;   /* [2, tiles] of each tile, then of all tiles before it */
    int64_t *index;
    double *drawn_distance, *weight, *sums; /* drawn_distance, weight: NULL when not wanted */
};

static __device__ __forceinline__ double weight_of(const struct sample_job &job, int64_t i) {
    return job.weights ? job.weights[i] : 1;
}

/* How a half turns values into integers. */
struct half {
    bool flat;
    double unit, limit;
};

static __device__ struct half half_of(const struct sample_job &job, int number) {
    const double most = __longlong_as_double((long long)job.most[number]);
    struct half h;
    h.limit = ldexp(1.0, job.bits);
    h.unit = hf_seed_unit(job.bits, most);
    h.flat = hf_seed_quantum_of(most, 1, h.unit, h.limit) == 0;
    if (h.flat)
        h.unit = 1;
    return h;
}

static __device__ __forceinline__ hf_u64 quantum(const struct sample_job &job, const struct half h,
                                                 int number, int64_t i) {
    if (h.flat)
        return 1;
    return hf_seed_quantum_of(number ? job.distance[i] : 1, weight_of(job, i), h.unit, h.limit);
}

static __global__ void sample_most(const struct sample_job job) {
    hf_u64 most[HALVES] = {0, 0};
    for (int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x; i < job.n;
         i += (int64_t)gridDim.x * THREADS) {
        const double weight = weight_of(job, i);
        if (!(weight > 0))
            continue;
        const double v = __dmul_rn(weight, job.distance[i]);
        most[0] = max(most[0], (hf_u64)__double_as_longlong(weight));
        most[1] = max(most[1], (hf_u64)__double_as_longlong(v));
    }
    for (int number = 0; number < HALVES; number++) {
        for (int step = WARP / 2; step > 0; step /= 2)
            most[number] = max(most[number], __shfl_xor_sync(0xffffffffu, most[number], step));
        if (threadIdx.x % WARP == 0 && most[number] > 0)
            atomicMax(&job.most[number], most[number]);
    }
}

/* Block (tile, half). */
static __global__ void sample_tiles(const struct sample_job job) {
    const int number = (int)blockIdx.y;
    const struct half h = half_of(job, number);
    hf_u64 sum = 0, before;
    for (int e = 0; e < EACH; e++) {
        const int64_t i = (int64_t)blockIdx.x * TILE + e * THREADS + threadIdx.x;
        sum += i < job.n ? quantum(job, h, number, i) : 0;
    }
    sum = hf_block_scan<THREADS>(sum, &before);
    if (threadIdx.x == 0)
        job.sum[number * job.tiles + blockIdx.x] = sum;
}

/* A block for each half: sums of tiles become those of all tiles in front. */
static __global__ void sample_scan(const struct sample_job job) {
    const int number = (int)blockIdx.x;
    hf_u64 *const sum = job.sum + number * job.tiles;
    hf_u64 carry = 0, before;
    for (int64_t base = 0; base < job.tiles; base += SCAN_THREADS) {
        const int64_t t = base + threadIdx.x;
        const hf_u64 all = hf_block_scan<SCAN_THREADS>(t < job.tiles ? sum[t] : 0, &before);
        if (t < job.tiles)
            sum[t] = carry + before;
        carry += all;
    }
    if (threadIdx.x != 0)
        return;
    const struct half h = half_of(job, number);
    job.total[number] = carry;
    job.sums[number] = h.flat && number ? 0 : __ddiv_rn((double)carry, h.unit);
}

static __device__ hf_u64 target_of(const struct sample_job &job, int number, int64_t j) {
    const uint64_t bits = hf_device_rng_bits(job.seed, job.stream + (uint64_t)number, (uint64_t)j);
    const u128 start = (u128)(uint64_t)j * job.total[number];
    return (hf_u64)((start + __umul64hi(bits, job.total[number])) / (uint64_t)job.count);
}

/* The draw whose stratum holds `target`, within the draws there are. */
static __device__ int64_t draw_at(const struct sample_job &job, int number, hf_u64 target) {
    const int64_t j = (int64_t)((u128)target * (uint64_t)job.count / job.total[number]);
    return j < job.count ? j : job.count - 1;
}

/* hf_sample_weight() */
static __device__ double weight_of_draw(const struct sample_job &job, double drawn_distance) {
    const double even = __ddiv_rn(1, job.sums[0]);
    const double by_distance = job.sums[1] > 0 ? __ddiv_rn(drawn_distance, job.sums[1]) : even;
    return __ddiv_rn(2, __dmul_rn(2 * (double)job.count, __dadd_rn(even, by_distance)));
}

/* Block (tile, half): strata round down, so a draw may lie one further than its stratum. */
static __global__ void sample_draw(const struct sample_job job) {
    __shared__ hf_u64 upto[TILE];
    const int number = (int)blockIdx.y;
    const struct half h = half_of(job, number);
    const hf_u64 front = job.sum[number * job.tiles + blockIdx.x];
    hf_u64 q[EACH], sum = 0, before;
    const int64_t first = (int64_t)blockIdx.x * TILE;
    for (int e = 0; e < EACH; e++) {
        const int64_t i = first + (int64_t)threadIdx.x * EACH + e;
        q[e] = i < job.n ? quantum(job, h, number, i) : 0;
        sum += q[e];
    }
    const hf_u64 all = hf_block_scan<THREADS>(sum, &before);
    if (all == 0)
        return;
    for (int e = 0; e < EACH; e++) {
        before += q[e];
        upto[threadIdx.x * EACH + e] = front + before;
    }
    __syncthreads();
    const int64_t low = draw_at(job, number, front) - 1;
    const int64_t high = draw_at(job, number, front + all) + 1;
    for (int64_t j = (low > 0 ? low : 0) + threadIdx.x; j <= high && j < job.count; j += THREADS) {
        const hf_u64 target = target_of(job, number, j);
        if (target < front || target >= front + all)
            continue;
        int left = 0, right = TILE - 1; /* the first row whose running sum exceeds the target */
        while (left < right) {
            const int middle = (left + right) / 2;
            if (upto[middle] > target)
                right = middle;
            else
                left = middle + 1;
        }
        job.index[number * job.count + j] = first + left;
        const double drawn_distance = job.distance[first + left];
        if (job.drawn_distance)
            job.drawn_distance[number * job.count + j] = drawn_distance;
        if (job.weight)
            job.weight[number * job.count + j] = weight_of_draw(job, drawn_distance);
    }
}

/* Rows index[0..count) of x, in pieces of type P. */
template <typename P>
static __global__ void sample_rows(const char *x, int64_t row_bytes, const int64_t *index,
                                   int64_t count, int64_t pieces, P *dst) {
    const int64_t step = (int64_t)gridDim.x * (THREADS / WARP);
    for (int64_t j = (int64_t)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP; j < count;
         j += step)
        for (int64_t p = threadIdx.x % WARP; p < pieces; p += WARP)
            dst[j * pieces + p] = ((const P *)(x + index[j] * row_bytes))[p];
}

template <typename P>
static void gather(struct hf_cuda *cuda, const struct hf_array *x, int64_t row_bytes,
                   const struct sample_job &job, void *rows) {
    const int64_t pieces = x->cols * (int64_t)hf_dtype_bytes(x->dtype) / (int64_t)sizeof(P);
    sample_rows<P><<<cuda->sms * 8, THREADS, 0, cuda->stream>>>(
        (const char *)x->data, row_bytes, job.index, HALVES * job.count, pieces, (P *)rows);
}

static void gather_rows(struct hf_cuda *cuda, const hf_array *x, const struct sample_job &job,
                        void *rows) {
    const int64_t size = (int64_t)hf_dtype_bytes(x->dtype);
    const int64_t row_bytes = (x->row_stride ? x->row_stride : x->cols) * size;
    const uintptr_t all =
        (uintptr_t)x->data | (uintptr_t)row_bytes | (uintptr_t)(x->cols * size) | (uintptr_t)rows;
    if (all % sizeof(int4) == 0)
        gather<int4>(cuda, x, row_bytes, job, rows);
    else if (all % sizeof(int) == 0)
        gather<int>(cuda, x, row_bytes, job, rows);
    else
        gather<char>(cuda, x, row_bytes, job, rows);
}

static void launch(struct hf_cuda *cuda, const struct sample_job &job) {
    const dim3 tiles((unsigned)job.tiles, HALVES);
    const int64_t full = (int64_t)cuda->sms * 8;
    sample_most<<<(unsigned)(job.tiles < full ? job.tiles : full), THREADS, 0, cuda->stream>>>(job);
    sample_tiles<<<tiles, THREADS, 0, cuda->stream>>>(job);
    sample_scan<<<HALVES, SCAN_THREADS, 0, cuda->stream>>>(job);
    sample_draw<<<tiles, THREADS, 0, cuda->stream>>>(job);
}

static int64_t tiles_of(int64_t n) { return (n + TILE - 1) / TILE; }

static size_t sample_workspace(const struct hf_call *call) {
    const int64_t n = ((const struct hf_sample_args *)call->args)->x.rows;
    return (size_t)(HALVES * (2 + tiles_of(n))) * sizeof(hf_u64);
}

static hf_status sample_run(const struct hf_call *call) {
    const struct hf_sample_args *a = (const struct hf_sample_args *)call->args;
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    struct hf_stage stage;
    struct sample_job job;
    hf_stage_begin(&stage, call->stream);
    const size_t column = (size_t)a->x.rows * sizeof(double);
    const size_t draws = HALVES * (size_t)a->count;
    const hf_array x = a->rows ? hf_stage_array(&stage, &a->x) : a->x;
    job.n = x.rows;
    job.tiles = tiles_of(x.rows);
    job.count = a->count;
    job.bits = hf_fixed_bits(x.rows);
    job.weights = (const double *)hf_stage_in(&stage, a->weights, column);
    job.distance = (const double *)hf_stage_in(&stage, a->distance, column);
    job.seed = a->seed;
    job.stream = a->stream;
    job.most = (hf_u64 *)call->ws;
    job.total = job.most + HALVES;
    job.sum = job.total + HALVES;
    job.index = (int64_t *)hf_stage_out(&stage, a->index, draws * sizeof *a->index);
    job.drawn_distance =
        (double *)hf_stage_out(&stage, a->drawn_distance, draws * sizeof *a->drawn_distance);
    job.weight = (double *)hf_stage_out(&stage, a->weight, draws * sizeof *a->weight);
    job.sums = (double *)hf_stage_out(&stage, a->sums, HALVES * sizeof *a->sums);
    void *rows = hf_stage_out(&stage, a->rows, draws * (size_t)x.cols * hf_dtype_bytes(x.dtype));
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    hf_status status = hf_cuda_check(
        cuda, cudaMemsetAsync(call->ws, 0, HALVES * sizeof *job.most, cuda->stream), "sample");
    if (status == HF_OK) {
        launch(cuda, job);
        if (rows)
            gather_rows(cuda, &x, job, rows);
        status = hf_cuda_launched(cuda, "sample");
    }
    return hf_stage_end(&stage, status);
}

static double sample_estimate(const struct hf_call *call) {
    const struct hf_sample_args *a = (const struct hf_sample_args *)call->args;
    return 20000 + hf_cuda_pass_ns(24 * (double)a->x.rows);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("sample_any_cuda", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER, HF_TILE(TILE, 0, 0),
                   NULL, sample_workspace, sample_run, sample_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_sample_kernels_cuda;
const struct hf_kernel_table hf_sample_kernels_cuda = {kernels, 1};
}
