/* SPDX-License-Identifier: Apache-2.0
 * Which tile a block computes, and from its sums to C. */
#ifndef HF_GEMM_TILE_CUH
#define HF_GEMM_TILE_CUH

#include "device/cuda/pack.cuh"
#include "device/cuda/room.h"
#include "ops/gemm/cuda/gemm_job.h"

#define GEMM_THREADS 256
#define GEMM_GROUP 8 /* rows of tiles that go together through the columns: their A stays in L2 */

struct gemm_place {
    int64_t batch;
    int row, col; /* number of the tile */
};

static __host__ __device__ __forceinline__ struct gemm_place
gemm_place_of(const struct gemm_job &job, int64_t tile) {
    const int64_t each = job.tiles_m * job.tiles_n;
    const int64_t batch = job.tiles == each ? 0 : tile / each;
    const unsigned rest = (unsigned)(tile - batch * each);
    const unsigned across = (unsigned)job.tiles_n, band = GEMM_GROUP * across;
    const unsigned first = rest / band * GEMM_GROUP, in = rest % band;
    const unsigned high = (unsigned)job.tiles_m - first < GEMM_GROUP ? (unsigned)job.tiles_m - first
                                                                     : (unsigned)GEMM_GROUP;
    return {batch, (int)(first + in % high), (int)(in / high)};
}

/* From a sum to an element: each NaN becomes the same one. */
static __device__ __forceinline__ float gemm_end(const struct gemm_job &job, float sum, float old) {
    const float alpha = (float)job.alpha, beta = (float)job.beta;
    const float v =
        job.beta != 0 ? __fmaf_rn(alpha, sum, __fmul_rn(beta, old)) : __fmul_rn(alpha, sum);
    return v != v ? __int_as_float(0x7fc00000) : v;
}

static __device__ __forceinline__ double gemm_end(const struct gemm_job &job, double sum,
                                                  double old) {
    const double v = job.beta != 0 ? __fma_rn(job.alpha, sum, __dmul_rn(job.beta, old))
                                   : __dmul_rn(job.alpha, sum);
    return v != v ? __longlong_as_double(0x7ff8000000000000) : v;
}

static __device__ __forceinline__ int gemm_end(const struct gemm_job &job, int sum, int old) {
    const unsigned alpha = (unsigned)(int)job.alpha, beta = (unsigned)(int)job.beta;
    return (int)(alpha * (unsigned)sum + (job.beta != 0 ? beta * (unsigned)old : 0));
}

static __device__ __forceinline__ uint16_t gemm_half(float v, hf_dtype dtype) {
    if (v != v)
        return dtype == HF_F16 ? 0x7e00 : 0x7fc0;
    return dtype == HF_F16 ? __half_as_ushort(__float2half_rn(v))
                           : __bfloat16_as_ushort(__float2bfloat16_rn(v));
}

static __device__ __forceinline__ float gemm_unhalf(uint16_t v, hf_dtype dtype) {
    return dtype == HF_F16 ? __half2float(__ushort_as_half(v))
                           : __bfloat162float(__ushort_as_bfloat16(v));
}

template <typename U, int V> struct __align__(V * sizeof(U)) gemm_vec { U e[V]; };

/* An element of C. */
struct gemm_spot {
    int64_t batch, row, col;
};

/* V neighbouring sums of a row from `spot` on to C as elements of type E. */
template <typename E, typename U, int V, typename LOAD, typename END>
static __device__ __forceinline__ void gemm_put(const struct gemm_job &job,
                                                const struct gemm_spot &spot, const U (&sum)[V],
                                                LOAD load, END end) {
    if (spot.row >= job.m || spot.col >= job.n)
        return;
    E *const at = (E *)job.c + spot.batch * job.stride_c + spot.row * job.ldc + spot.col;
    const bool reads = job.beta != 0;
    if (job.c_wide && spot.col + V <= job.n) {
        gemm_vec<E, V> v;
        if (reads)
            v = *(const gemm_vec<E, V> *)at;
#pragma unroll
        for (int j = 0; j < V; j++)
            v.e[j] = end(gemm_end(job, sum[j], reads ? load(v.e[j]) : (U)0));
        *(gemm_vec<E, V> *)at = v;
        return;
    }
#pragma unroll
    for (int j = 0; j < V; j++)
        if (spot.col + j < job.n)
            at[j] = end(gemm_end(job, sum[j], reads ? load(at[j]) : (U)0));
}

template <typename U, int V>
static __device__ __forceinline__ void gemm_store(const struct gemm_job &job, int64_t batch,
                                                  int64_t row, int64_t col, const U (&sum)[V]) {
    const hf_dtype dtype = job.dtype_c;
    const struct gemm_spot spot = {batch, row, col};
    const auto same = [](U v) { return v; };
    if constexpr (sizeof(U) == 4 && (U)0.5f != (U)0) {
        if (dtype != HF_F32) {
            gemm_put<uint16_t>(
                job, spot, sum, [dtype](uint16_t v) { return gemm_unhalf(v, dtype); },
                [dtype](float v) { return gemm_half(v, dtype); });
            return;
        }
    }
    gemm_put<U>(job, spot, sum, same, same);
}

/* Through shared memory a warp stores blocks of 16 x 32 sums that it has as mma gives them. */
#define GEMM_BLOCK_ROWS 16
#define GEMM_BLOCK_COLS 32
#define GEMM_BLOCK_PITCH 40 /* numbers; so that pairs of eight rows meet all banks */
#define GEMM_BLOCK_BYTES (GEMM_BLOCK_ROWS * GEMM_BLOCK_PITCH * 4)

/* Four blocks of 8 columns: sums d[4 j + 2 h], d[4 j + 2 h + 1] stand in row lane / 4 + 8 h,
 * columns 8 j + lane % 4 * 2 on. */
static __device__ __forceinline__ void gemm_block_keep(float *block, const float (&d)[16]) {
    const int lane = (int)threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 8; i++)
        *(float2 *)(block + (lane / 4 + i % 2 * 8) * GEMM_BLOCK_PITCH + i / 2 * 8 + lane % 4 * 2) =
            make_float2(d[i / 2 * 4 + i % 2 * 2], d[i / 2 * 4 + i % 2 * 2 + 1]);
}

/* The block whose first element is `spot`. see(spot, sums) looks at four neighbours before. */
template <typename U, typename SEE>
static __device__ __forceinline__ void gemm_block_store(const struct gemm_job &job,
                                                        const struct gemm_spot &spot,
                                                        const U *block, SEE see) {
    const int lane = (int)threadIdx.x % 32, at = lane % 8 * 4;
    __syncwarp();
#pragma unroll 1
    for (int i = lane / 8; i < GEMM_BLOCK_ROWS; i += 4) {
        const struct gemm_spot own = {spot.batch, spot.row + i, spot.col + at};
        gemm_vec<U, 4> v = *(const gemm_vec<U, 4> *)(block + i * GEMM_BLOCK_PITCH + at);
        see(own, v.e);
        gemm_store<U, 4>(job, own.batch, own.row, own.col, v.e);
    }
    __syncwarp();
}

/* ---- host */

/* A block for each tile, with so many bytes of shared memory. */
static inline hf_status gemm_start(struct hf_cuda *cuda, void (*kernel)(const struct gemm_job),
                                   const struct gemm_job *job, unsigned blocks, int shared) {
    cudaError_t error = hf_cuda_room(cuda, (const void *)kernel);
    if (error == cudaSuccess) /* two blocks of float32 need nearly all of it */
        error = cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout,
                                     cudaSharedmemCarveoutMaxShared);
    if (error != cudaSuccess)
        return hf_cuda_check(cuda, error, "gemm");
    kernel<<<blocks, GEMM_THREADS, (size_t)shared, cuda->stream>>>(*job);
    return hf_cuda_launched(cuda, "gemm");
}

#endif
