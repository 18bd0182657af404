/* SPDX-License-Identifier: Apache-2.0
 * Sums of rows and columns on a GPU. A warp has 8 numbers of each lane in a band of rows; what a
 * block has of the columns it adds up first. */
#include "device/cuda/cuda.h"
#include "device/cuda/pack.cuh"
#include "ops/gemm/sums.h"

#define THREADS 256
#define WARPS (THREADS / 32)
#define EACH 8              /* columns of a lane */
#define COLS (32 * EACH)    /* of a block, */
#define BAND 16             /* rows of a warp, */
#define ROWS (WARPS * BAND) /* and of a block */

struct sums_job {
    struct hf_sums_pass p;
    bool wide; /* EACH numbers from a multiple of EACH on may be read at once */
};

/* EACH numbers, those past the end 0. */
template <typename T>
static __device__ __forceinline__ void load_each(double (&x)[EACH], const T *at, int64_t left,
                                                 bool wide) {
    struct __align__(sizeof(T) * EACH <= 16 ? sizeof(T) * EACH : 16) numbers {
        T e[EACH];
    };
    if (wide && left >= EACH) {
        const numbers v = *(const numbers *)at;
#pragma unroll
        for (int i = 0; i < EACH; i++)
            x[i] = (double)v.e[i];
        return;
    }
#pragma unroll
    for (int i = 0; i < EACH; i++)
        x[i] = i < left ? (double)at[i] : 0;
}

/* Numbers of 16 bits, of which CUDA's types convert through float. */
struct sums_f16 {
    uint16_t bits;
    __device__ __forceinline__ operator double() const {
        return (double)__half2float(__ushort_as_half(bits));
    }
};
struct sums_bf16 {
    uint16_t bits;
    __device__ __forceinline__ operator double() const {
        return (double)__bfloat162float(__ushort_as_bfloat16(bits));
    }
};

static __device__ __forceinline__ double warp_sum(double v) {
#pragma unroll
    for (int step = 16; step > 0; step /= 2)
        v += __shfl_xor_sync(0xffffffffu, v, step);
    return v;
}

/* Of a lane's columns: their weights, and their sums so far. */
struct lane_sums {
    double by[EACH], by_size[EACH], col[EACH], col_size[EACH];
};

/* A row of this warp: its sum, and what it adds to the columns. */
template <bool ROW, bool COL>
static __device__ __forceinline__ void add_row(const struct hf_sums_pass &p, int64_t row,
                                               const double (&x)[EACH], struct lane_sums &lane) {
    double sum = 0, size = 0;
    const double weight = COL && p.by_row != NULL ? p.by_row[row] : 1;
    const double weight_size = COL && p.by_row_size != NULL ? p.by_row_size[row] : 1;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const double v = fabs(x[i]);
        if (ROW) {
            sum = fma(x[i], lane.by[i], sum);
            size = fma(v, lane.by_size[i], size);
        }
        if (COL) {
            lane.col[i] = fma(x[i], weight, lane.col[i]);
            lane.col_size[i] = fma(v, weight_size, lane.col_size[i]);
        }
    }
    if (!ROW)
        return;
    sum = warp_sum(sum);
    size = warp_sum(size);
    if (threadIdx.x % 32 == 0) {
        atomicAdd(&p.row[row], sum);
        atomicAdd(&p.row_size[row], size);
    }
}

/* What the warps of a block have of their columns; neighbours in a bank come one after the
 * other. */
static __device__ __forceinline__ void add_columns(const struct hf_sums_pass &p,
                                                   double (&shared)[2][COLS],
                                                   const double (&col)[EACH],
                                                   const double (&col_size)[EACH]) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        atomicAdd(&shared[0][i * 32 + lane], col[i]);
        atomicAdd(&shared[1][i * 32 + lane], col_size[i]);
    }
    __syncthreads();
    for (int i = (int)threadIdx.x; i < COLS; i += THREADS) {
        const int64_t at = (int64_t)blockIdx.x * COLS + i % 32 * EACH + i / 32;
        if (at < p.cols) {
            atomicAdd(&p.col[at], shared[0][i]);
            atomicAdd(&p.col_size[at], shared[1][i]);
        }
    }
}

template <typename T, bool ROW, bool COL>
static __global__ void __launch_bounds__(THREADS) sums_kernel(const struct sums_job job) {
    __shared__ double shared[2][COLS];
    const struct hf_sums_pass &p = job.p;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const int64_t first = (int64_t)blockIdx.x * COLS + lane * EACH;
    const int64_t begin = (int64_t)blockIdx.y * ROWS + warp * BAND;
    const int64_t end = min(begin + BAND, p.rows), left = p.cols - first;
    struct lane_sums own = {};
    for (int i = (int)threadIdx.x; COL && i < 2 * COLS; i += THREADS)
        shared[i / COLS][i % COLS] = 0;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        own.by[i] = ROW && p.by_col != NULL && i < left ? p.by_col[first + i] : 1;
        own.by_size[i] = ROW && p.by_col_size != NULL && i < left ? p.by_col_size[first + i] : 1;
    }
    for (int64_t row = begin; row < end; row++) {
        double x[EACH];
        load_each(x, (const T *)p.m.data + row * p.m.row + first, left, job.wide);
        add_row<ROW, COL>(p, row, x, own);
    }
    if constexpr (COL)
        add_columns(p, shared, own.col, own.col_size);
}

template <typename T> static void launch(struct hf_cuda *cuda, const struct sums_job &job) {
    const dim3 grid((unsigned)((job.p.cols + COLS - 1) / COLS),
                    (unsigned)((job.p.rows + ROWS - 1) / ROWS));
    if (job.p.row != NULL && job.p.col != NULL)
        sums_kernel<T, true, true><<<grid, THREADS, 0, cuda->stream>>>(job);
    else if (job.p.row != NULL)
        sums_kernel<T, true, false><<<grid, THREADS, 0, cuda->stream>>>(job);
    else
        sums_kernel<T, false, true><<<grid, THREADS, 0, cuda->stream>>>(job);
}

/* The array and that of its sizes, which lie one behind the other. */
static hf_status clear(struct hf_cuda *cuda, double *sums, double *sizes, int64_t n) {
    const size_t bytes = (size_t)n * sizeof *sums;
    if (sums == NULL)
        return HF_OK;
    HF_TRY(hf_cuda_check(cuda, cudaMemsetAsync(sums, 0, bytes, cuda->stream), "gemm sums"));
    return hf_cuda_check(cuda, cudaMemsetAsync(sizes, 0, bytes, cuda->stream), "gemm sums");
}

hf_status hf_gemm_sums_cuda(void *stream, const struct hf_sums_pass *pass) {
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    struct sums_job job = {*pass, false};
    HF_TRY(clear(cuda, pass->row, pass->row_size, pass->rows));
    HF_TRY(clear(cuda, pass->col, pass->col_size, pass->cols));
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
