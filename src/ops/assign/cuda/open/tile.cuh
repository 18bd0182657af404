/* SPDX-License-Identifier: Apache-2.0
 * Sums of (x - c)^2 of TILE_ROWS rows and TILE_K centroids, blocked in registers as a matrix
 * product is: columns of both come to shared memory, a thread has TILE_EACH rows and TILE_BESIDE
 * centroids. In float32 or, where rows or centroids are float64, in float64; any order. Twelve
 * loads of shared memory serve 256 operations. */
#ifndef HF_ASSIGN_CUDA_OPEN_TILE_CUH
#define HF_ASSIGN_CUDA_OPEN_TILE_CUH

#include "device/cuda/pack.cuh"
#include "device/cuda/ptx.cuh"

#define TILE_ROWS 128
#define TILE_K 32
#define TILE_THREADS 128
#define TILE_BLOCKS 4 /* of a multiprocessor */
#define TILE_LANES 8  /* side by side along the centroids, */
#define TILE_SIDE 16  /* and along the rows */
#define TILE_EACH (TILE_ROWS / TILE_SIDE)
#define TILE_BESIDE (TILE_K / TILE_LANES)
#define TILE_PIECES 8                       /* of 16 bytes: columns of a row at a time */
#define TILE_PITCH (16 * (TILE_PIECES + 1)) /* neighbours begin in other banks */

/* What sums are added up in. */
template <hf_dtype X, hf_dtype C> inline constexpr bool tile_wide = X == HF_F64 || C == HF_F64;
template <hf_dtype X, hf_dtype C>
using tile_sum = typename hf_element<tile_wide<X, C> ? HF_F64 : HF_F32>::wide;

/* Columns of the 16 bytes of a piece. */
template <typename S> inline constexpr int tile_pack = 16 / static_cast<int>(sizeof(S));
template <typename S> struct __align__(16) tile_piece { S e[tile_pack<S>]; };

struct __align__(16) tile_shared {
    char x[2][TILE_ROWS][TILE_PITCH]; /* what is looked at, and what comes next */
    char c[2][TILE_K][TILE_PITCH];
    int32_t row[TILE_ROWS]; /* within the problem */
    int32_t arg[TILE_K];
};

/* Rows and centroids of a problem. */
struct tile_source {
    const char *x, *c;
    int64_t x_bytes, c_bytes; /* from row to row */
    int d;
    bool aligned; /* pieces can be read at once */
};

__device__ __forceinline__ int tile_lane(void) {
    return static_cast<int>(threadIdx.x) % TILE_LANES;
}

/* The first of this thread's rows; the others follow TILE_SIDE apart. */
__device__ __forceinline__ int tile_first(void) {
    return static_cast<int>(threadIdx.x) / TILE_LANES;
}

/* The row of the tile that this thread answers for. */
__device__ __forceinline__ int tile_own(void) { return tile_first() + TILE_SIDE * tile_lane(); }

/* Columns from j on, a piece of them, to shared memory; 0 from d on. */
template <hf_dtype T, typename S>
__device__ __forceinline__ void tile_bring(char *to, const char *row, int j, int d, bool aligned) {
    constexpr int W = tile_pack<S>;
    typedef typename hf_element<T>::type element;
    const char *const from = row + static_cast<int64_t>(j) * hf_device_bytes<T>;
    if constexpr (hf_device_bytes<T> == sizeof(S)) {
        if (aligned) {
            hf_copy_async(hf_shared(to), j < d ? from : row, j < d ? 16 : 0);
            return;
        }
    }
    struct tile_piece<S> piece = {};
    if (aligned && j < d) {
        const struct hf_pack<T, W> v = *reinterpret_cast<const struct hf_pack<T, W> *>(from);
#pragma unroll
        for (int e = 0; e < W; e++)
            piece.e[e] = static_cast<S>(hf_widen<T>(v.e[e]));
    } else {
#pragma unroll
        for (int e = 0; e < W; e++)
            if (j + e < d)
                piece.e[e] =
                    static_cast<S>(hf_widen<T>(reinterpret_cast<const element *>(from)[e]));
    }
    *reinterpret_cast<struct tile_piece<S> *>(to) = piece;
}

/* Pieces from `first` on of the tile's rows and centroids, on their way. */
template <hf_dtype X, hf_dtype C>
__device__ __forceinline__ void tile_fetch(const struct tile_source &t, struct tile_shared &sm,
                                           int first, int to) {
    typedef tile_sum<X, C> S;
    const int p = tile_lane(), j = (first + p) * tile_pack<S>;
    if (j < (t.d + tile_pack<S> - 1) / tile_pack<S> * tile_pack<S>) {
#pragma unroll
        for (int i = 0; i < TILE_EACH; i++) {
            const int r = tile_first() + TILE_SIDE * i;
            tile_bring<X, S>(&sm.x[to][r][16 * p], t.x + sm.row[r] * t.x_bytes, j, t.d, t.aligned);
        }
#pragma unroll
        for (int i = 0; i < TILE_K / TILE_SIDE; i++) {
            const int r = tile_first() + TILE_SIDE * i;
            tile_bring<C, S>(&sm.c[to][r][16 * p], t.c + sm.arg[r] * t.c_bytes, j, t.d, t.aligned);
        }
    }
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* The columns that lie in shared memory. */
template <typename S>
__device__ __forceinline__ void tile_add(const struct tile_shared &sm, int from, int pieces,
                                         S (&sum)[TILE_EACH][TILE_BESIDE]) {
    typedef struct tile_piece<S> piece;
    const char *const x = &sm.x[from][tile_first()][0], *const c = &sm.c[from][tile_lane()][0];
#pragma unroll 1
    for (int p = 0; p < pieces; p++) {
        piece at[TILE_BESIDE];
#pragma unroll
        for (int i = 0; i < TILE_BESIDE; i++)
            at[i] = *reinterpret_cast<const piece *>(c + TILE_LANES * TILE_PITCH * i + 16 * p);
#pragma unroll
        for (int r = 0; r < TILE_EACH; r++) {
            const piece v =
                *reinterpret_cast<const piece *>(x + TILE_SIDE * TILE_PITCH * r + 16 * p);
#pragma unroll
            for (int i = 0; i < TILE_BESIDE; i++)
#pragma unroll
                for (int e = 0; e < tile_pack<S>; e++) {
                    const S apart = v.e[e] - at[i].e[e];
                    sum[r][i] = fma(apart, apart, sum[r][i]);
                }
        }
    }
}

/* The sums of all columns. All threads; sm.row and sm.arg have been written and are seen. */
template <hf_dtype X, hf_dtype C>
__device__ __forceinline__ void tile_sums(const struct tile_source &t, struct tile_shared &sm,
                                          tile_sum<X, C> (&sum)[TILE_EACH][TILE_BESIDE]) {
    constexpr int W = tile_pack<tile_sum<X, C>>;
    const int pieces = (t.d + W - 1) / W;
#pragma unroll
    for (int r = 0; r < TILE_EACH; r++)
#pragma unroll
        for (int i = 0; i < TILE_BESIDE; i++)
            sum[r][i] = 0;
    tile_fetch<X, C>(t, sm, 0, 0);
    for (int first = 0, from = 0; first < pieces; first += TILE_PIECES, from ^= 1) {
        if (first + TILE_PIECES < pieces)
            tile_fetch<X, C>(t, sm, first + TILE_PIECES, from ^ 1);
        else
            asm volatile("cp.async.commit_group;" ::: "memory");
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        tile_add(sm, from, min(TILE_PIECES, pieces - first), sum);
        __syncthreads();
    }
}

/* ---- host */

/* Can W columns of rows and centroids be read at a time? */
template <hf_dtype X, hf_dtype C>
static bool tile_aligned(const void *x, int64_t x_bytes, const void *c, int64_t d) {
    constexpr int W = tile_pack<tile_sum<X, C>>;
    const uint64_t rows = (uintptr_t)x | (uint64_t)x_bytes;
    return d % W == 0 && rows % (W * hf_device_bytes<X>) == 0 &&
           (uintptr_t)c % (W * hf_device_bytes<C>) == 0;
}

/* The share of itself that a sum, and the reference's, is off by at most: two roundings of the
 * difference, one of each addition; the reference has d + 4. And what underflows. */
template <hf_dtype X, hf_dtype C> static double tile_share(int64_t d) {
    return 1.02 *
           ((double)(d + 4) * (tile_wide<X, C> ? 0x1p-53 : 0x1p-24) + (double)(d + 4) * 0x1p-53);
}

template <hf_dtype X, hf_dtype C> static double tile_tiny(int64_t d) {
    return tile_wide<X, C> ? 0x1p-1000 : (double)(d + 1) * 0x1p-140;
}

#endif
