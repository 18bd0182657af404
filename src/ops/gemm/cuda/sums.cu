/* SPDX-License-Identifier: Apache-2.0
 * Sums of rows and columns on a GPU. A warp has 8 numbers of each lane in a band of rows, and loads
 * the next few rows while it adds up some; what the warps of a block have of the columns is added
 * up at the end. Until then sums of floating-point numbers of up to 32 bits are float32:
 * HF_SUMS_SHORT_ERROR. */
#include "device/cuda/chain.cuh"
#include "device/cuda/pack.cuh"
#include "device/cuda/stage_direct.h"
#include "ops/gemm/cuda/sums.cuh"

#define THREADS 256
#define WARPS (THREADS / 32)
#define EACH 8              /* columns of a lane */
#define COLS (32 * EACH)    /* of a block, */
#define BAND 32             /* rows of a warp, */
#define ROWS (WARPS * BAND) /* and of a block */

struct sums_job {
    struct hf_sums_pass p;
    bool wide; /* EACH numbers from a multiple of EACH on may be read at once */
    bool back; /* the last rows first: they were touched last */
    /* Of C, whose lines are compared with those of the operands; else NULL. */
    unsigned *tickets; /* [row groups + column groups] of blocks that are done, 0 before */
    const double *lines;
    uint32_t *suspect;
    struct hf_sums_bound bound;
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

/* What a row's numbers of this lane add to the row, and to the columns with these weights. Both at
 * once: the columns have no weights, or there were too few registers. */
template <bool ROW, bool COL, typename T, typename U>
static __device__ __forceinline__ void add_row(const numbers<T> &v, const U (&weight)[2],
                                               lane_sums<U> &lane, U &sum, U &size) {
    sum = size = 0;
#pragma unroll
    for (int i = 0; i < EACH; i++) {
        const U x = (U)v.e[i], positive = fabs(x);
        if (ROW) {
            sum = COL ? sum + x : fma(x, lane.by[i], sum);
            size = COL ? size + positive : fma(positive, lane.by_size[i], size);
        }
        if (COL) {
            lane.col[i] = fma(x, weight[0], lane.col[i]);
            lane.col_size[i] = fma(positive, weight[1], lane.col_size[i]);
        }
    }
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

/* A line whose sums are all there: may it be wrong? */
static __device__ __forceinline__ void check_line(const struct sums_job &job, const double *of,
                                                  int64_t lines, int64_t length, int64_t i) {
    double v[6];
    if (i >= lines)
        return;
#pragma unroll
    for (int a = 0; a < 6; a++)
        v[a] = __ldcg(of + a * lines + i);
    if (!hf_sums_plausible(&job.bound, length, {v[0], v[1], v[2], v[3], v[4], v[5]}))
        *job.suspect = 1;
}

/* The last block of a group of rows, or of columns, checks them. */
static __device__ __noinline__ void check_groups(const struct sums_job &job, unsigned across,
                                                 unsigned down) {
    __shared__ bool last[2];
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last[0] = atomicAdd(&job.tickets[down], 1u) == gridDim.x - 1;
        last[1] = atomicAdd(&job.tickets[gridDim.y + across], 1u) == gridDim.y - 1;
        __threadfence();
    }
    __syncthreads();
    if (last[0])
        check_line(job, job.lines, job.bound.m, job.bound.n, (int64_t)down * ROWS + threadIdx.x);
    if (last[1])
        check_line(job, job.lines + 6 * job.bound.m, job.bound.n, job.bound.m,
                   (int64_t)across * COLS + threadIdx.x);
}

template <typename T, bool ROW, bool COL>
static __global__ void __launch_bounds__(THREADS, 2)
    sums_kernel(const __grid_constant__ struct sums_job job) {
    typedef typename sums_short<T>::type U;
    constexpr int R = sizeof(T) == 2 ? 4 : 2; /* rows at once */
    __shared__ U shared[COL ? WARPS : 1][2][COLS], weights[COL ? ROWS : 1][2];
    const struct hf_sums_pass &p = job.p;
    const int warp = (int)threadIdx.x / 32, lane = (int)threadIdx.x % 32;
    const unsigned down = job.back ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
    const int64_t first = (int64_t)blockIdx.x * COLS + lane * EACH;
    const int64_t begin = (int64_t)down * ROWS + warp * BAND;
    const int64_t end = min(begin + BAND, p.rows), left = p.cols - first;
    const T *at = (const T *)p.m.data + begin * p.m.row + first;
    lane_sums<U> own = {};
    numbers<T> next[R];
    const auto load = [&](int64_t row) {
#pragma unroll
        for (int r = 0; r < R; r++)
            next[r] = load_each(at + r * p.m.row, row + r < end ? left : 0, job.wide);
        at += R * p.m.row;
    };
    hf_chain_next();
    if (job.tickets == NULL) /* nobody on the stream still writes operands */
        load(begin);
    hf_chain_wait();
    if (job.tickets != NULL)
        load(begin);
    if (COL) {
        const int64_t row = min((int64_t)down * ROWS + (int)threadIdx.x, p.rows - 1);
        weights[threadIdx.x][0] = p.by_row != NULL ? (U)p.by_row[row] : (U)1;
        weights[threadIdx.x][1] = p.by_row_size != NULL ? (U)p.by_row_size[row] : (U)1;
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < EACH && !COL; i++) {
        own.by[i] = p.by_col != NULL && i < left ? (U)p.by_col[first + i] : (U)1;
        own.by_size[i] = p.by_col_size != NULL && i < left ? (U)p.by_col_size[first + i] : (U)1;
    }
#pragma unroll 1
    for (int64_t row = begin; row < end; row += R) {
        numbers<T> v[R];
        U sums[2 * R]; /* of R rows, then their sizes */
#pragma unroll
        for (int r = 0; r < R; r++)
            v[r] = next[r];
        if (row + R < end)
            load(row + R);
#pragma unroll
        for (int r = 0; r < R; r++) {
            const U *const w = weights[COL ? warp * BAND + (int)(row - begin) + r : 0];
            const U weight[2] = {COL ? w[0] : (U)1, COL ? w[1] : (U)1};
            add_row<ROW, COL>(v[r], weight, own, sums[r], sums[R + r]);
        }
        if (!ROW)
            continue;
        const double sum = (double)hf_warp_sums(sums);
        const int number = lane / (16 / R);
        if (lane % (16 / R) == 0 && row + number % R < end)
            atomicAdd((number < R ? p.row : p.row_size) + row + number % R, sum);
    }
    if constexpr (COL)
        add_columns(p, shared, own);
    if constexpr (ROW && COL)
        if (job.tickets != NULL)
            check_groups(job, blockIdx.x, down);
}

/* The lines of a product that has been summed. */
static __global__ void __launch_bounds__(THREADS)
    lines_kernel(const __grid_constant__ struct sums_job job) {
    const int64_t i = (int64_t)blockIdx.x * THREADS + threadIdx.x, m = job.bound.m;
    hf_chain_next();
    hf_chain_wait();
    if (i < m)
        check_line(job, job.lines, m, job.bound.n, i);
    else
        check_line(job, job.lines + 6 * m, job.bound.n, m, i - m);
}

static cudaError_t start_lines(const struct hf_cuda *cuda, const struct sums_job &job) {
    const int64_t blocks = (job.bound.m + job.bound.n + THREADS - 1) / THREADS;
    return hf_chain_launch(cuda, lines_kernel, dim3((unsigned)blocks), THREADS, 0, 1, job);
}

template <typename T, bool ROW, bool COL>
static cudaError_t start(const struct hf_cuda *cuda, const struct sums_job &job) {
    const dim3 grid((unsigned)((job.p.cols + COLS - 1) / COLS),
                    (unsigned)((job.p.rows + ROWS - 1) / ROWS));
    return hf_chain_launch(cuda, sums_kernel<T, ROW, COL>, grid, THREADS, 0, 1, job);
}

template <typename T> static cudaError_t launch(const struct hf_cuda *cuda, struct sums_job job) {
    const bool both = job.p.by_col == NULL && job.p.by_col_size == NULL;
    if (job.p.row != NULL && job.p.col != NULL && both)
        return start<T, true, true>(cuda, job);
    cudaError_t error = cudaSuccess;
    if (job.p.row != NULL)
        error = start<T, true, false>(cuda, job);
    if (job.p.col != NULL && error == cudaSuccess)
        error = start<T, false, true>(cuda, job);
    return error;
}

static hf_status launch_as(struct hf_cuda *cuda, struct sums_job job) {
    const struct hf_gemm_view *m = &job.p.m;
    cudaError_t error;
    job.wide = (uintptr_t)m->data % 16 == 0 && m->row % 16 == 0;
    switch (m->dtype) {
    case HF_F32:
        error = launch<float>(cuda, job);
        break;
    case HF_F64:
        error = launch<double>(cuda, job);
        break;
    case HF_F16:
        error = launch<sums_f16>(cuda, job);
        break;
    case HF_BF16:
        error = launch<sums_bf16>(cuda, job);
        break;
    case HF_I8:
        error = launch<int8_t>(cuda, job);
        break;
    default:
        error = launch<int32_t>(cuda, job);
    }
    return hf_cuda_check(cuda, error, "gemm sums");
}

hf_status hf_gemm_sums_cuda(void *stream, const struct hf_sums_pass *pass) {
    struct sums_job job = {};
    job.p = *pass;
    job.back = pass->col == NULL; /* the third pass of a product: see guard/gemm_lines.c */
    return launch_as((struct hf_cuda *)stream, job);
}

hf_status hf_gemm_suspects_cuda(void *stream, const struct hf_sums_pass *c,
                                const struct hf_sums_check *check, uint32_t *suspect) {
    struct hf_cuda *const cuda = (struct hf_cuda *)stream;
    struct hf_stage stage;
    hf_status status = HF_OK;
    struct sums_job job = {};
    *suspect = 0;
    hf_stage_begin(&stage, stream);
    job.p = *c;
    job.back = true;
    job.tickets = check->tickets;
    job.lines = check->lines;
    job.bound = check->bound;
    job.suspect = (uint32_t *)hf_stage_direct(&stage, suspect, sizeof *suspect);
    if (hf_stage_ready(&stage) && check->tickets == NULL)
        status = hf_cuda_check(cuda, start_lines(cuda, job), "gemm lines");
    else if (hf_stage_ready(&stage))
        status = launch_as(cuda, job);
    return hf_stage_end(&stage, status);
}
