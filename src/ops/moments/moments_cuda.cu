/* SPDX-License-Identifier: Apache-2.0
 * moments on CUDA: one pass over x, sums of a thread's columns in registers. A term costs ten
 * float64 operations, which for 16-bit data take longer than the memory. */
#include "core/kernel.h"
#include "device/cuda/pack.cuh"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"
#include "ops/moments/moments.h"

#define THREADS 256
#define FLIGHT_BYTES 64 /* loads of a thread that are under way at once */
#define SUMS 4          /* both limbs of both sums */

struct moments_job {
    const char *x;
    int64_t row_bytes, n, d;
    const double *shift, *mult, *mult_square;
    double limb; /* 2^bits */
    hf_u64 *sum; /* [2, d] */
    hf_u64 *square;
};

/* Both limbs of v onto sum[0] and sum[1], each with the bits of HF_RINT_MAGIC on top: mult is a
 * power of two, so v * mult is exact and one fma rounds it to a whole number. */
static __device__ __forceinline__ void add_limbs(double v, double mult, double limb, hf_u64 *sum) {
    const double high = __fma_rn(v, mult, HF_RINT_MAGIC);
    const double rest = __fma_rn(v, mult, -__dsub_rn(high, HF_RINT_MAGIC));
    const double low = __fma_rn(rest, limb, HF_RINT_MAGIC);
    sum[0] += (hf_u64)__double_as_longlong(high);
    sum[1] += (hf_u64)__double_as_longlong(low);
}

/* The sum over the threads with the same columns, for the first of them. */
static __device__ hf_u64 fold_rows(const struct hf_lanes at, hf_u64 v) {
    __shared__ hf_u64 all[THREADS];
    all[threadIdx.x] = v;
    __syncthreads();
    if (at.row == 0)
        for (int r = 1; r < at.rows; r++)
            v += all[r * at.lanes + at.lane];
    __syncthreads();
    return v;
}

template <hf_dtype T, int N>
static __global__ void __launch_bounds__(THREADS, 3) moments_columns(const struct moments_job job) {
    constexpr int SIZE = hf_device_bytes<T> * N;
    constexpr int UNROLL = FLIGHT_BYTES / SIZE < 8 ? FLIGHT_BYTES / SIZE : 8;
    const struct hf_lanes at = hf_lanes_of(job.d, N);
    const char *const own = job.x + at.column * (SIZE / N);
    double shift[N], mult[N], mult_square[N];
    hf_u64 sum[N][SUMS], terms = 0;
#pragma unroll
    for (int e = 0; e < N; e++) {
        shift[e] = job.shift[at.column + e];
        mult[e] = job.mult[at.column + e];
        mult_square[e] = job.mult_square[at.column + e];
        for (int s = 0; s < SUMS; s++)
            sum[e][s] = 0;
    }
    const int64_t step = (int64_t)at.rows * UNROLL;
    for (int64_t base = blockIdx.x * step; at.active && base < job.n; base += gridDim.x * step) {
        hf_pack<T, N> v[UNROLL];
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const int64_t row = base + u * at.rows + at.row;
            v[u] = *(const hf_pack<T, N> *)(own + (row < job.n ? row : base) * job.row_bytes);
        }
        terms += UNROLL; /* rows behind the last add 0, and the bits of the magic number */
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const bool there = base + u * at.rows + at.row < job.n;
#pragma unroll
            for (int e = 0; e < N; e++) {
                const double x = (double)hf_widen<T>(v[u].e[e]);
                const double t = there ? __dsub_rn(x, shift[e]) : 0;
                add_limbs(t, mult[e], job.limb, sum[e]);
                add_limbs(__dmul_rn(t, t), mult_square[e], job.limb, sum[e] + 2);
            }
        }
    }
#pragma unroll
    for (int e = 0; e < N; e++) {
        const hf_u64 magic = terms * (hf_u64)__double_as_longlong(HF_RINT_MAGIC);
        for (int s = 0; s < SUMS; s++) {
            const hf_u64 all = fold_rows(at, sum[e][s] - magic);
            hf_u64 *dst = (s < 2 ? job.sum : job.square) + (s & 1) * job.d + at.column + e;
            if (at.row == 0)
                atomicAdd(dst, all);
        }
    }
}

template <hf_dtype T, int N>
static void launch_columns(struct hf_cuda *cuda, const struct moments_job &job) {
    const int64_t packs = (job.d + N - 1) / N;
    const int64_t most = (job.n * packs + THREADS - 1) / THREADS;
    moments_columns<T, N><<<hf_lanes_grid(cuda, moments_columns<T, N>, THREADS, packs, most),
                            THREADS, 0, cuda->stream>>>(job);
}

template <hf_dtype T> static void launch_type(struct hf_cuda *cuda, const struct moments_job &job) {
    constexpr int N = 2; /* more would take registers from the warps that hide the loads */
    constexpr int SIZE = hf_device_bytes<T> * N;
    if (((uintptr_t)job.x | (uintptr_t)job.row_bytes) % SIZE == 0 && job.d % N == 0)
        launch_columns<T, N>(cuda, job);
    else
        launch_columns<T, 1>(cuda, job);
}

static hf_status moments_run(void *stream, const void *p, void *ws) {
    (void)ws;
    const struct hf_moments_args *args = (const struct hf_moments_args *)p;
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    struct hf_stage stage;
    hf_stage_begin(&stage, stream);
    const hf_array x = hf_stage_array(&stage, &args->x);
    const size_t column_bytes = (size_t)x.cols * sizeof(double);
    struct moments_job job;
    job.shift = (const double *)hf_stage_in(&stage, args->shift, column_bytes);
    job.mult = (const double *)hf_stage_in(&stage, args->mult, column_bytes);
    job.mult_square = (const double *)hf_stage_in(&stage, args->mult_square, column_bytes);
    job.sum = (hf_u64 *)hf_stage_inout(&stage, args->sum, 2 * column_bytes);
    job.square = (hf_u64 *)hf_stage_inout(&stage, args->sum_square, 2 * column_bytes);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    job.x = (const char *)x.data;
    job.row_bytes = (x.row_stride ? x.row_stride : x.cols) * (int64_t)hf_dtype_bytes(x.dtype);
    job.n = x.rows;
    job.d = x.cols;
    job.limb = (double)((int64_t)1 << args->bits);
    hf_for_dtype(x.dtype, [&](auto type) { launch_type<decltype(type)::value>(cuda, job); });
    return hf_stage_end(&stage, hf_cuda_launched(cuda, "moments"));
}

static double moments_estimate(const void *p) {
    const struct hf_moments_args *args = (const struct hf_moments_args *)p;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_cuda_pass_ns(values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel rows[] = {{"moments_any_cuda",
                                         HF_DEV_CUDA,
                                         HF_DT_DATA,
                                         80,
                                         HF_TRAIT_FIXED_ORDER,
                                         0,
                                         {0, 0, 0},
                                         NULL,
                                         NULL,
                                         moments_run,
                                         moments_estimate}};

extern "C" {
extern const struct hf_kernel_table hf_moments_rows_cuda;
const struct hf_kernel_table hf_moments_rows_cuda = {rows, 1};
}
