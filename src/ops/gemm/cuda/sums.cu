/* SPDX-License-Identifier: Apache-2.0
 * Sums of rows and columns on a GPU. A warp has 8 numbers of each lane in a band of rows, and loads
 * a few rows at once; what the warps of a block have of the columns is added up at the end. Until
 * then sums of floating-point numbers of up to 32 bits are float32: HF_SUMS_SHORT_ERROR. */
#include "device/cuda/cuda.h"
#include "device/cuda/pack.cuh"
#include "device/cuda/stage_direct.h"
#include "ops/gemm/sums.h"

#define THREADS 256
#define WARPS (THREADS / 32)
#define EACH 8              /* columns of a lane */
#define COLS (32 * EACH)    /* of a block, */
#define BAND 32             /* rows of a warp, */
#define ROWS (WARPS * BAND) /* and of a block */

struct sums_job {
    struct hf_sums_pass p;
    bool wide; /* EACH numbers from a multiple of EACH on may be read at once */
};

template <typename T> struct __align__(sizeof(T) * EACH <= 16 ? sizeof(T) * EACH : 16) numbers {
    T e[EACH];
};

/* One after the other, those past the end 0. Seldom called, and apart, so that code is small. */
template <typename T>
static __device__ __noinline__ numbers<T> load_singly(const T *at, int64_t left) {
    numbers<T> v = {};
#pragma unroll
    for (int i = 0; i < EACH; i++)
        if (i < left)
            v.e[i] = at[i];
    return v;
}

template <typename T>
static __device__ __forceinline__ numbers<T> load_each(const T *at, int64_t left, bool wide) {
    return wide && left >= EACH ? *(const numbers<T> *)at : load_singly(at, left);
}

/* Numbers of 16 bits, of which CUDA's types convert through float. */
struct sums_f16 {
    uint16_t bits;
    __device__ __forceinline__ operator float() const {
        return __half2float(__ushort_as_half(bits));
    }
};
struct sums_bf16 {
    uint16_t bits;
    __device__ __forceinline__ operator float() const {
        return __bfloat162float(__ushort_as_bfloat16(bits));
    }
};

/* What a thread sums in. */
template <typename T> struct sums_short { typedef float type; };
template <> struct sums_short<double> { typedef double type; };
template <> struct sums_short<int8_t> { typedef double type; };
template <> struct sums_short<int32_t> { typedef double type; };

/* Of a lane's columns: their weights, and their sums so far. */
template <typename U> struct lane_sums { U by[EACH], by_size[EACH], col[EACH], col_size[EACH]; };

/* What a row's numbers of this lane add to the row, and to the columns. Both at once: the columns
 * have no weights, or there were too few registers. */
template <bool ROW, bool COL, typename T, typename U>
static __device__ __forceinline__ void add_row(const struct hf_sums_pass &p, int64_t row,
                                               const numbers<T> &v, lane_sums<U> &lane, U &sum,
                                               U &size) {
    const U weight = COL && p.by_row != NULL ? (U)p.by_row[row] : (U)1;
    const U weight_size = COL && p.by_row_size != NULL ? (U)p.by_row_size[row] : (U)1;
    sum = size = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const U x = (U)v.e[i], positive = fabs(x);
        if (ROW) {
            sum = COL ? sum + x : fma(x, lane.by[i], sum);
            size = COL ? size + positive : fma(positive, lane.by_size[i], size);
        }
        if (COL) {
            lane.col[i] = fma(x, weight, lane.col[i]);
            lane.col_size[i] = fma(positive, weight_size, lane.col_size[i]);
        }
    }
}

/* The sums over the warp of N numbers of each lane: of number lane / (32 / N) in a lane. */
template <typename U, int N> static __device__ __forceinline__ U warp_sums(U (&v)[N]) {
    const int lane = (int)threadIdx.x % 32;
    int bit = 16;
#pragma unroll
    for (int half = N / 2; half > 0; half /= 2, bit /= 2)
#pragma unroll
        for (int i = 0; i < half; i++) {
            const bool upper = (lane & bit) != 0;
            const U mine = upper ? v[i + half] : v[i], other = upper ? v[i] : v[i + half];
            v[i] = mine + __shfl_xor_sync(0xffffffffu, other, bit);
        }
#pragma unroll
    for (; bit > 0; bit /= 2)
        v[0] += __shfl_xor_sync(0xffffffffu, v[0], bit);
    return v[0];
}

/* What the warps of a block have of their columns. */
template <typename U>
static __device__ __forceinline__ void add_columns(const struct hf_sums_pass &p,
                                                   U (*shared)[2][COLS], const lane_sums<U> &own) {
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32, t = (int)threadIdx.x;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        shared[warp][0][i * 32 + lane] = own.col[i];
        shared[warp][1][i * 32 + lane] = own.col_size[i];
    }
    __syncthreads();
    const int64_t at = (int64_t)blockIdx.x * COLS + t % 32 * EACH + t / 32;
    double sum = 0, size = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) {
        sum += shared[w][0][t];
        size += shared[w][1][t];
    }
    if (at < p.cols) {
        atomicAdd(&p.col[at], sum);
        atomicAdd(&p.col_size[at], size);
    }
}

template <typename T, bool ROW, bool COL>
static __global__ void __launch_bounds__(THREADS, 2) sums_kernel(const struct sums_job job) {
    constexpr int R = 2; /* rows at once */
    typedef typename sums_short<T>::type U;
    __shared__ U shared[COL ? WARPS : 1][2][COLS];
    const struct hf_sums_pass &p = job.p;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int64_t first = (int64_t)blockIdx.x * COLS + lane * EACH;
    const int64_t begin = (int64_t)blockIdx.y * ROWS + warp * BAND;
    const int64_t end = min(begin + BAND, p.rows), left = p.cols - first;
    lane_sums<U> own = {};
#pragma unroll
    for (int i = 0; i < EACH && !COL; i++) {
        own.by[i] = ROW && p.by_col != NULL && i < left ? (U)p.by_col[first + i] : (U)1;
        own.by_size[i] =
            ROW && p.by_col_size != NULL && i < left ? (U)p.by_col_size[first + i] : (U)1;
    }
#pragma unroll 1
    for (int64_t row = begin; row < end; row += R) {
        numbers<T> v[R];
        U sums[2 * R]; /* of R rows, then their sizes */
#pragma unroll
        for (int r = 0; r < R; r++)
            v[r] = load_each((const T *)p.m.data + (row + r) * p.m.row + first,
                             row + r < end ? left : 0, job.wide);
#pragma unroll
        for (int r = 0; r < R; r++)
            add_row<ROW, COL>(p, min(row + r, end - 1), v[r], own, sums[r], sums[R + r]);
        if (!ROW)
            continue;
        const double sum = (double)warp_sums(sums);
        const int number = lane / (16 / R);
        if (lane % (16 / R) == 0 && row + number % R < end)
            atomicAdd((number < R ? p.row : p.row_size) + row + number % R, sum);
    }
    if constexpr (COL)
        add_columns(p, shared, own);
}

template <typename T> static void launch(struct hf_cuda *cuda, const struct sums_job &job) {
    const dim3 grid((unsigned)((job.p.cols + COLS - 1) / COLS),
                    (unsigned)((job.p.rows + ROWS - 1) / ROWS));
    const bool both = job.p.by_col == NULL && job.p.by_col_size == NULL;
    if (job.p.row != NULL && job.p.col != NULL && both) {
        sums_kernel<T, true, true><<<grid, THREADS, 0, cuda->stream>>>(job);
        return;
    }
    if (job.p.row != NULL)
        sums_kernel<T, true, false><<<grid, THREADS, 0, cuda->stream>>>(job);
    if (job.p.col != NULL)
        sums_kernel<T, false, true><<<grid, THREADS, 0, cuda->stream>>>(job);
}

hf_status hf_gemm_sums_cuda(void *stream, const struct hf_sums_pass *pass) {
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    struct sums_job job = {*pass, false};
    job.wide = (uintptr_t)pass->m.data % 16 == 0 && pass->m.row % 16 == 0;
    switch (pass->m.dtype) {
    case HF_F32:
        launch<float>(cuda, job);
        break;
    case HF_F64:
        launch<double>(cuda, job);
        break;
    case HF_F16:
        launch<sums_f16>(cuda, job);
        break;
    case HF_BF16:
        launch<sums_bf16>(cuda, job);
        break;
    case HF_I8:
        launch<int8_t>(cuda, job);
        break;
    default:
        launch<int32_t>(cuda, job);
    }
    return hf_cuda_launched(cuda, "gemm sums");
}

/* Lines [0, n), whose six arrays begin at `of`. */
static __device__ void check_lines(const struct hf_sums_bound &bound, const double *of, int64_t n,
                                   int64_t length, uint32_t *suspect) {
    for (int64_t i = blockIdx.x * THREADS + threadIdx.x; i < n; i += gridDim.x * THREADS)
        if (!hf_sums_plausible(&bound, length, hf_sums_line(of, n, i)))
            *suspect = 1;
}

static __global__ void __launch_bounds__(THREADS)
    check_kernel(const struct hf_sums_bound bound, const double *sums, uint32_t *suspect) {
    check_lines(bound, sums, bound.m, bound.n, suspect);
    check_lines(bound, sums + 6 * bound.m, bound.n, bound.m, suspect);
}

hf_status hf_gemm_suspects_cuda(void *stream, const struct hf_sums_bound *bound, const double *sums,
                                uint32_t *suspect) {
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    const int64_t lines = bound->m > bound->n ? bound->m : bound->n;
    const int64_t blocks = (lines + THREADS - 1) / THREADS, most = 2 * (int64_t)cuda->sms;
    struct hf_stage stage;
    hf_status status = HF_OK;
    *suspect = 0;
    hf_stage_begin(&stage, stream);
    uint32_t *const told = (uint32_t *)hf_stage_direct(&stage, suspect, sizeof *suspect);
    if (hf_stage_ready(&stage)) {
        check_kernel<<<(unsigned)(blocks < most ? blocks : most), THREADS, 0, cuda->stream>>>(
            *bound, sums, told);
        status = hf_cuda_launched(cuda, "gemm sums");
    }
    return hf_stage_end(&stage, status);
}
