/* SPDX-License-Identifier: Apache-2.0
 * inertia on CUDA: a lane has a row, its ordered float64 sum and a share of the exact sum. */
#include "core/kernel.h"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"
#include "ops/chains.cuh"
#include "ops/inertia/inertia.h"

#define THREADS 128
#define WARPS (THREADS / HF_CHAIN_WARP)
#define DIGITS 3 /* base 2^32 digits of a term of a bin: 85 bits */

struct inertia_job {
    const char *x, *c;
    int64_t x_bytes, c_bytes; /* from row to row */
    int64_t n, k, d;
    int piece; /* of hf_chain_pair() */
    const int32_t *labels;
    const double *weights;
    double *distances;
    hf_wide *sum;
};

/* What a lane has added to one bin since it last changed bins. A lane has two, for even and odd
 * bins: distances lie on both sides of a power of two, and lanes that put away what they have all
 * wait for the same few words of shared memory. */
struct run {
    int bin;
    hf_u64 digit[DIGITS]; /* signed */
};

static __device__ __forceinline__ void run_flush(struct run *run, hf_u64 bins[][DIGITS]) {
    for (int i = 0; i < DIGITS; i++) {
        if (run->digit[i] != 0)
            atomicAdd(&bins[run->bin][i], run->digit[i]);
        run->digit[i] = 0;
    }
}

/* The last of a run, of all lanes of a warp together where they have the same bin. */
static __device__ void run_end(struct run *run, hf_u64 bins[][DIGITS]) {
    int same = 0;
    (void)__match_all_sync(~0u, run->bin, &same);
    if (same) {
        for (int i = 0; i < DIGITS; i++) {
            const hf_u64 all = hf_warp_sum(run->digit[i]);
            run->digit[i] = threadIdx.x % HF_CHAIN_WARP == 0 ? all : 0;
        }
    }
    run_flush(run, bins);
}

/* hf_wide_add(); what is not finite goes to `special` at once. */
static __device__ void run_add(struct run (&runs)[2], double v, hf_u64 bins[][DIGITS],
                               double *special) {
    const hf_u64 bits = (hf_u64)__double_as_longlong(v);
    const int biased = (int)(bits >> 52 & 0x7ff);
    const hf_u64 fraction = bits & ((1ull << 52) - 1);
    if (biased == 0x7ff) {
        atomicAdd(special, v);
        return;
    }
    const int bin = biased / 32;
    const hf_u64 mantissa = biased ? fraction | 1ull << 52 : fraction << 1;
    const int shift = biased % 32;
    const hf_u64 low = mantissa << shift;
    const hf_u64 digit[DIGITS] = {low & 0xffffffffu, low >> 32,
                                  shift ? mantissa >> (64 - shift) : 0};
#pragma unroll
    for (int odd = 0; odd < 2; odd++) {
        struct run *const run = &runs[odd];
        if (bin % 2 != odd)
            continue;
        if (run->bin != bin) {
            run_flush(run, bins);
            run->bin = bin;
        }
        for (int i = 0; i < DIGITS; i++)
            run->digit[i] += bits >> 63 ? 0 - digit[i] : digit[i];
    }
}

/* Bins of a block onto those of all: 128-bit sums, the carry by hand. */
static __device__ __noinline__ void add_bins(const hf_u64 bins[][DIGITS], hf_wide *sum) {
    for (int b = (int)threadIdx.x; b < HF_WIDE_BINS; b += THREADS) {
        __extension__ typedef __int128 wide;
        wide v = 0;
        for (int i = DIGITS - 1; i >= 0; i--)
            v = v * ((wide)1 << 32) + (long long)bins[b][i];
        if (v == 0)
            continue;
        hf_u64 *half = (hf_u64 *)&sum->bin[b];
        const hf_u64 low = (hf_u64)v;
        const hf_u64 before = atomicAdd(half, low);
        atomicAdd(half + 1, (hf_u64)(v >> 64) + (before + low < before));
    }
}

template <hf_dtype T, hf_dtype C, hf_metric M>
static __global__ void __launch_bounds__(THREADS, 4) inertia_rows(const struct inertia_job job) {
    extern __shared__ __align__(16) char smem[];
    __shared__ hf_u64 bins[HF_WIDE_BINS][DIGITS];
    for (int i = (int)threadIdx.x; i < HF_WIDE_BINS * DIGITS; i += THREADS)
        bins[i / DIGITS][i % DIGITS] = 0;
    __syncthreads();
    const int warp = (int)threadIdx.x / HF_CHAIN_WARP;
    const int lane = (int)threadIdx.x % HF_CHAIN_WARP;
    struct run runs[2] = {{0, {0, 0, 0}}, {1, {0, 0, 0}}};
    const int64_t step = (int64_t)gridDim.x * THREADS;
    const int64_t begin = (int64_t)blockIdx.x * THREADS + warp * HF_CHAIN_WARP;
    int32_t next = begin < job.n ? job.labels[min(begin + lane, job.n - 1)] : 0;
    for (int64_t base = begin; base < job.n; base += step) {
        const int64_t i = min(base + lane, job.n - 1);
        const bool there = (uint32_t)next < (uint32_t)job.k; /* else it addresses nothing */
        const char *const c = job.c + (there ? next : 0) * job.c_bytes;
        if (base + step < job.n) /* on its way while this one's row is looked at */
            next = job.labels[min(base + step + lane, job.n - 1)];
        const struct hf_chain s = hf_chain_pair<T, C, M>(
            job.x + i * job.x_bytes, c, job.d, job.piece, smem + warp * hf_chain_bytes<T, C>());
        if (base + lane >= job.n)
            continue;
        const double distance = there ? hf_chain_distance<M>(s) : NAN;
        if (job.distances)
            job.distances[i] = distance;
        run_add(runs, job.weights ? __dmul_rn(job.weights[i], distance) : distance, bins,
                &job.sum->special);
    }
    __syncwarp();
    run_end(&runs[0], bins);
    run_end(&runs[1], bins);
    __syncthreads();
    add_bins(bins, job.sum);
}

template <hf_dtype T, hf_dtype C, hf_metric M>
static hf_status launch_metric(struct hf_cuda *cuda, const struct inertia_job &job) {
    const int smem = WARPS * hf_chain_bytes<T, C>();
    int each = 1;
    cudaError_t error = cudaFuncSetAttribute(inertia_rows<T, C, M>,
                                             cudaFuncAttributeMaxDynamicSharedMemorySize, smem);
    if (error == cudaSuccess)
        error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, inertia_rows<T, C, M>, THREADS,
                                                              smem);
    HF_TRY(hf_cuda_check(cuda, error, "inertia"));
    const int64_t most = (job.n + THREADS - 1) / THREADS;
    const int64_t full = (int64_t)each * cuda->sms;
    inertia_rows<T, C, M>
        <<<(unsigned)(most < full ? most : full), THREADS, smem, cuda->stream>>>(job);
    return hf_cuda_launched(cuda, "inertia");
}

template <hf_dtype T, hf_dtype C>
static hf_status launch_types(struct hf_cuda *cuda, hf_metric metric,
                              const struct inertia_job &job) {
    switch (metric) {
    case HF_COSINE:
        return launch_metric<T, C, HF_COSINE>(cuda, job);
    case HF_DOT:
        return launch_metric<T, C, HF_DOT>(cuda, job);
    default:
        return launch_metric<T, C, HF_EUCLIDEAN>(cuda, job);
    }
}

static hf_status launch(struct hf_cuda *cuda, const struct hf_inertia_args *args,
                        const struct inertia_job &job) {
    hf_status status = HF_OK;
    hf_for_dtype(args->x.dtype, [&](auto type) {
        constexpr hf_dtype T = decltype(type)::value;
        status = args->c.dtype == HF_F64 ? launch_types<T, HF_F64>(cuda, args->metric, job)
                                         : launch_types<T, HF_F32>(cuda, args->metric, job);
    });
    return status;
}

static int64_t row_bytes(const hf_array *a) {
    return (a->row_stride ? a->row_stride : a->cols) * (int64_t)hf_dtype_bytes(a->dtype);
}

static uintptr_t alignment(const hf_array *a) {
    return (uintptr_t)a->data | (uintptr_t)row_bytes(a) |
           (uintptr_t)a->cols * hf_dtype_bytes(a->dtype);
}

static hf_status inertia_run(const struct hf_call *call) {
    const struct hf_inertia_args *args = (const struct hf_inertia_args *)call->args;
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    const hf_array x = hf_stage_array(&stage, &args->x);
    const hf_array c = hf_stage_array(&stage, &args->c);
    const size_t n = (size_t)x.rows;
    struct inertia_job job;
    job.labels = (const int32_t *)hf_stage_in(&stage, args->labels, n * sizeof *job.labels);
    job.weights = (const double *)hf_stage_in(&stage, args->weights, n * sizeof *job.weights);
    job.distances = (double *)hf_stage_out(&stage, args->distances, n * sizeof *job.distances);
    job.sum = (hf_wide *)hf_stage_inout(&stage, args->sum, sizeof *job.sum);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    job.x = (const char *)x.data;
    job.c = (const char *)c.data;
    job.x_bytes = row_bytes(&x);
    job.c_bytes = row_bytes(&c);
    job.n = x.rows;
    job.k = c.rows;
    job.d = x.cols;
    job.piece = hf_chain_piece(alignment(&x) | alignment(&c));
    return hf_stage_end(&stage, launch((struct hf_cuda *)call->stream, args, job));
}

/* A row and the centroid it goes with are read, the latter from the cache. */
static double inertia_estimate(const struct hf_call *call) {
    const struct hf_inertia_args *args = (const struct hf_inertia_args *)call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_cuda_pass_ns(values *
                           (double)(hf_dtype_bytes(args->x.dtype) + hf_dtype_bytes(args->c.dtype)));
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("inertia_any_cuda", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE, NULL, NULL,
                   inertia_run, inertia_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_inertia_kernels_cuda;
const struct hf_kernel_table hf_inertia_kernels_cuda = {kernels, 1};
}
