/* SPDX-License-Identifier: Apache-2.0
 * range on CUDA: one pass over x. A thread keeps the extremes of its columns in registers; whether
 * a row is bad is settled by the block that holds the whole row. Rows too long for a block are
 * looked at twice. blockIdx.z is the problem. */
#include "core/kernel.h"
#include "device/cuda/pack.cuh"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"
#include "ops/range/range.h"

#define THREADS 256
#define FLIGHT_BYTES 64 /* loads of a thread that are under way at once */
#define WARP 32

/* What blocks of a problem have in common. Zeroed at the start. */
struct range_common {
    hf_u64 bad_rows;
    unsigned fraction; /* some value is not a whole number */
};

struct range_job {
    const char *x;
    int64_t row_bytes, n, d; /* n rows of a problem */
    int64_t batch;
    uint8_t *row_bad;
    hf_u64 *low, *high;          /* [batch, d] hf_order_key(): of -min and of max */
    struct range_common *common; /* [batch] */
};

/* What a block sees: its problem alone. */
static __device__ __forceinline__ struct range_job own_problem(const struct range_job &all) {
    struct range_job job = all;
    const int64_t p = blockIdx.z;
    job.x += p * job.n * job.row_bytes;
    job.row_bad += p * job.n;
    job.low += p * job.d;
    job.high += p * job.d;
    job.common += p;
    return job;
}

template <hf_dtype T> __device__ __forceinline__ bool is_finite(typename hf_element<T>::wide v) {
    return v * 0 == 0;
}

/* A bit for each row of this thread: does it take no part? `bad` are those where this thread saw
 * NaN or Inf; all threads of a row get the same. */
static __device__ unsigned share_bad_rows(const struct hf_lanes at, unsigned bad) {
    __shared__ unsigned rows[THREADS];
    if (at.active && at.lane == 0)
        rows[at.row] = 0;
    __syncthreads();
    if (at.active && bad)
        atomicOr(&rows[at.row], bad);
    __syncthreads();
    return at.active ? rows[at.row] : 0;
}

/* v of this thread and of those with the same columns, into the first of them. */
template <bool LOW, typename V, int N>
static __device__ void fold_rows(const struct hf_lanes at, V (&all)[N][THREADS], V (&v)[N]) {
#pragma unroll
    for (int e = 0; e < N; e++)
        all[e][threadIdx.x] = v[e];
    for (int rows = at.rows; rows > 1; rows = (rows + 1) / 2) {
        const int half = (rows + 1) / 2;
        __syncthreads();
        if (at.active && at.row + half < rows)
#pragma unroll
            for (int e = 0; e < N; e++) {
                const V other = all[e][threadIdx.x + half * at.lanes];
                all[e][threadIdx.x] = v[e] = LOW ? min(v[e], other) : max(v[e], other);
            }
    }
    __syncthreads();
}

/* How a thread keeps the extremes of columns: 16-bit types two at a time where that is possible. */
template <hf_dtype T, int N> struct range_slot {
    static constexpr bool paired = (T == HF_F16 || T == HF_BF16) && N % 2 == 0;
    static constexpr int count = paired ? N / 2 : N;
    typename hf_slot_type<T, paired>::type low, high;
};

template <hf_dtype T, int N>
__device__ __forceinline__ void slots_start(struct range_slot<T, N> *slot) {
#pragma unroll
    for (int e = 0; e < range_slot<T, N>::count; e++)
        if constexpr (range_slot<T, N>::paired) {
            slot[e].low = hf_pair_of<T>(INFINITY);
            slot[e].high = hf_pair_of<T>(-INFINITY);
        } else {
            slot[e].low = INFINITY;
            slot[e].high = -INFINITY;
        }
}

template <hf_dtype T, int N>
__device__ __forceinline__ void slots_add(struct range_slot<T, N> *slot, const hf_pack<T, N> &v) {
#pragma unroll
    for (int e = 0; e < range_slot<T, N>::count; e++)
        if constexpr (range_slot<T, N>::paired) {
            const auto t = ((const typename hf_slot_type<T, true>::type *)v.e)[e];
            slot[e].low = __hmin2(slot[e].low, t);
            slot[e].high = __hmax2(slot[e].high, t);
        } else {
            slot[e].low = min(slot[e].low, hf_widen<T>(v.e[e]));
            slot[e].high = max(slot[e].high, hf_widen<T>(v.e[e]));
        }
}

/* Is there NaN or Inf in v? Times 0 that is NaN, and all else +-0. */
template <hf_dtype T, int N> __device__ __forceinline__ bool has_bad_value(const hf_pack<T, N> &v) {
    if constexpr (range_slot<T, N>::paired) {
        auto zero = hf_pair_of<T>(0);
#pragma unroll
        for (int e = 0; e < N / 2; e++)
            zero = __hfma2(((const typename hf_slot_type<T, true>::type *)v.e)[e], hf_pair_of<T>(0),
                           zero);
        return (*(const unsigned *)&zero & 0x7fff7fffu) != 0;
    } else {
        typename hf_element<T>::wide zero = 0;
#pragma unroll
        for (int e = 0; e < N; e++)
            zero = fma(hf_widen<T>(v.e[e]), (typename hf_element<T>::wide)0, zero);
        return zero != 0;
    }
}

/* Column e of the extremes. */
template <hf_dtype T, int N>
__device__ __forceinline__ typename hf_element<T>::wide
slot_value(const struct range_slot<T, N> *slot, int e, bool high) {
    if constexpr (range_slot<T, N>::paired) {
        const auto pair = high ? slot[e / 2].high : slot[e / 2].low;
        return hf_widen<T>(e % 2 ? pair.y : pair.x);
    } else {
        return high ? slot[e].high : slot[e].low;
    }
}

/* N columns a thread. KNOWN: row_bad is there already. */
template <hf_dtype T, int N, bool KNOWN>
static __global__ void __launch_bounds__(THREADS) range_columns(const struct range_job all) {
    const struct range_job job = own_problem(all);
    constexpr int SIZE = hf_device_bytes<T> * N;
    constexpr int UNROLL = FLIGHT_BYTES / SIZE < 8 ? FLIGHT_BYTES / SIZE : 8;
    constexpr bool ALL_FINITE = T == HF_U8;
    const struct hf_lanes at = hf_lanes_of(job.d, N);
    const char *const own = job.x + at.column * (SIZE / N);
    struct range_slot<T, N> slot[range_slot<T, N>::count];
    bool whole = true;
    hf_u64 bad = 0;
    slots_start<T, N>(slot);
    const int64_t step = (int64_t)at.rows * UNROLL;
    if (blockIdx.x > 0 && blockIdx.x * step >= job.n)
        return;
    for (int64_t base = blockIdx.x * step; base < job.n; base += gridDim.x * step) {
        hf_pack<T, N> v[UNROLL];
        unsigned out = 0, bad_rows = 0; /* a bit for each row: none, or a bad one */
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            const int64_t row = base + u * at.rows + at.row;
            const bool valid = at.active && row < job.n;
            out |= (unsigned)!valid << u;
            v[u] = *(const hf_pack<T, N> *)(own + (valid ? row : base) * job.row_bytes);
            if (KNOWN && valid)
                bad_rows |= (unsigned)job.row_bad[row] << u;
        }
        if constexpr (!KNOWN && !ALL_FINITE) {
#pragma unroll
            for (int u = 0; u < UNROLL; u++)
                bad_rows |= (unsigned)has_bad_value<T, N>(v[u]) << u;
            bad_rows &= ~out;
            if (__syncthreads_or((int)bad_rows))
                bad_rows = share_bad_rows(at, bad_rows);
            if (at.lane == 0)
                for (int u = 0; u < UNROLL; u++)
                    if (!(out >> u & 1))
                        job.row_bad[base + u * at.rows + at.row] = bad_rows >> u & 1;
            bad += at.lane == 0 ? __popc(bad_rows) : 0;
        }
        out |= bad_rows;
#pragma unroll
        for (int u = 0; u < UNROLL; u++) {
            if (out >> u & 1)
                continue;
            slots_add<T, N>(slot, v[u]);
            if (!ALL_FINITE && whole)
#pragma unroll
                for (int e = 0; e < N; e++)
                    whole = whole && hf_widen<T>(v[u].e[e]) == rint(hf_widen<T>(v[u].e[e]));
        }
    }
    __shared__ typename hf_element<T>::wide shared[N][THREADS];
    typename hf_element<T>::wide least[N], most[N];
#pragma unroll
    for (int e = 0; e < N; e++) {
        least[e] = slot_value<T, N>(slot, e, false);
        most[e] = slot_value<T, N>(slot, e, true);
    }
    fold_rows<true>(at, shared, least);
    fold_rows<false>(at, shared, most);
#pragma unroll
    for (int e = 0; e < N; e++) {
        if (at.row != 0)
            continue;
        atomicMax(&job.low[at.column + e], hf_order_key(-(double)least[e]));
        atomicMax(&job.high[at.column + e], hf_order_key((double)most[e]));
    }
    if (__syncthreads_or(!whole) && threadIdx.x == 0)
        job.common->fraction = 1;
    if (bad > 0)
        atomicAdd(&job.common->bad_rows, bad);
}

/* A warp looks at a row. */
template <hf_dtype T> static __global__ void range_rows(const struct range_job all) {
    const struct range_job job = own_problem(all);
    const int64_t warps = (int64_t)gridDim.x * (blockDim.x / WARP);
    hf_u64 bad = 0;
    for (int64_t i = (int64_t)blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP; i < job.n;
         i += warps) {
        bool finite = true;
        for (int64_t j = threadIdx.x % WARP; j < job.d; j += WARP)
            finite = finite &&
                     is_finite<T>(hf_widen<T>(
                         ((const typename hf_element<T>::type *)(job.x + i * job.row_bytes))[j]));
        finite = __all_sync(0xffffffffu, finite);
        bad += !finite;
        if (threadIdx.x % WARP == 0)
            job.row_bad[i] = !finite;
    }
    if (threadIdx.x % WARP == 0 && bad > 0)
        atomicAdd(&job.common->bad_rows, bad);
}

/* Onto what came in. Adding +0 turns -0 into +0, as in the reference. */
static __global__ void range_end(const struct range_job job, double *low, double *high, bool *whole,
                                 int64_t *bad_rows) {
    const int64_t at = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (at < job.batch * job.d) {
        low[at] = fmin(low[at], -hf_order_value(job.low[at]) + 0.0);
        high[at] = fmax(high[at], hf_order_value(job.high[at]) + 0.0);
    }
    if (at < job.batch) {
        whole[at] = whole[at] && job.common[at].fraction == 0;
        bad_rows[at] += (int64_t)job.common[at].bad_rows;
    }
}

/* The blocks of hf_lanes_grid(), shared out to the problems. */
template <typename F>
static dim3 grid_of(const struct hf_cuda *cuda, F *kernel, const struct range_job &job,
                    int64_t packs) {
    const int64_t most = (job.n * packs + THREADS - 1) / THREADS;
    dim3 grid = hf_lanes_grid(cuda, kernel, THREADS, packs, most * job.batch);
    grid.x = (unsigned)((grid.x + job.batch - 1) / job.batch);
    grid.z = (unsigned)job.batch;
    return grid;
}

template <hf_dtype T, int N>
static void launch_columns(struct hf_cuda *cuda, const struct range_job &job) {
    const int64_t packs = (job.d + N - 1) / N;
    if (T != HF_U8 && packs > THREADS) {
        const unsigned blocks = (unsigned)((cuda->sms * 8 + job.batch - 1) / job.batch);
        range_rows<T><<<dim3(blocks, 1, (unsigned)job.batch), THREADS, 0, cuda->stream>>>(job);
        range_columns<T, N, true>
            <<<grid_of(cuda, range_columns<T, N, true>, job, packs), THREADS, 0, cuda->stream>>>(
                job);
    } else {
        range_columns<T, N, false>
            <<<grid_of(cuda, range_columns<T, N, false>, job, packs), THREADS, 0, cuda->stream>>>(
                job);
    }
}

/* The widest loads that the rows allow. */
template <hf_dtype T, int BYTES>
static void launch_wide(struct hf_cuda *cuda, const struct range_job &job) {
    constexpr int N = BYTES / hf_device_bytes<T>;
    if constexpr (N <= 1)
        launch_columns<T, 1>(cuda, job);
    else if (((uintptr_t)job.x | (uintptr_t)job.row_bytes) % BYTES == 0 && job.d % N == 0)
        launch_columns<T, N>(cuda, job);
    else
        launch_wide<T, BYTES / 2>(cuda, job);
}

static size_t common_bytes(int64_t batch, int64_t d) {
    return (size_t)batch * (sizeof(struct range_common) + 2 * (size_t)d * sizeof(hf_u64));
}

static size_t range_workspace(const struct hf_call *call) {
    const struct hf_range_args *args = (const struct hf_range_args *)call->args;
    return common_bytes(hf_range_batch(args), args->x.cols);
}

/* What blockIdx.z can count. */
static bool range_supports(const struct hf_call *call) {
    const struct hf_range_args *args = (const struct hf_range_args *)call->args;
    return hf_range_batch(args) <= 65535 && args->sums == NULL;
}

static hf_status range_run(const struct hf_call *call) {
    const struct hf_range_args *args = (const struct hf_range_args *)call->args;
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    const hf_array x = hf_stage_array(&stage, &args->x);
    const int64_t batch = hf_range_batch(args);
    const size_t count = (size_t)batch, column_bytes = count * (size_t)x.cols * sizeof(double);
    double *low = (double *)hf_stage_inout(&stage, args->min, column_bytes);
    double *high = (double *)hf_stage_inout(&stage, args->max, column_bytes);
    bool *whole = (bool *)hf_stage_inout(&stage, args->whole, count * sizeof *whole);
    int64_t *bad_rows = (int64_t *)hf_stage_inout(&stage, args->bad_rows, count * sizeof *bad_rows);
    struct range_job job;
    job.row_bad = (uint8_t *)hf_stage_out(&stage, args->row_bad, (size_t)x.rows);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    job.x = (const char *)x.data;
    job.row_bytes = (x.row_stride ? x.row_stride : x.cols) * (int64_t)hf_dtype_bytes(x.dtype);
    job.n = x.rows / batch;
    job.batch = batch;
    job.d = x.cols;
    job.common = (struct range_common *)call->ws;
    job.low = (hf_u64 *)(job.common + batch);
    job.high = job.low + batch * job.d;
    cudaError_t error = cudaMemsetAsync(call->ws, 0, common_bytes(batch, job.d), cuda->stream);
    if (error == cudaSuccess && x.dtype == HF_U8)
        error = cudaMemsetAsync(job.row_bad, 0, (size_t)x.rows, cuda->stream);
    hf_status status = hf_cuda_check(cuda, error, "range");
    if (status == HF_OK) {
        hf_for_dtype(x.dtype,
                     [&](auto type) { launch_wide<decltype(type)::value, 16>(cuda, job); });
        range_end<<<(unsigned)((batch * job.d + THREADS - 1) / THREADS), THREADS, 0,
                    cuda->stream>>>(job, low, high, whole, bad_rows);
        status = hf_cuda_launched(cuda, "range");
    }
    return hf_stage_end(&stage, status);
}

static double range_estimate(const struct hf_call *call) {
    const struct hf_range_args *args = (const struct hf_range_args *)call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_cuda_pass_ns(values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("range_any_cuda", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE,
                   range_supports, range_workspace, range_run, range_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_range_kernels_cuda;
const struct hf_kernel_table hf_range_kernels_cuda = {kernels, 1};
}
