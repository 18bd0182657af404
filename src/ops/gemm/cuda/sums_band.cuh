/* SPDX-License-Identifier: Apache-2.0
 * Sums of rows and columns by a warp: 8 numbers of each lane in a band of rows, of which it loads a
 * few at once. Until the end of a band sums of floating-point numbers of up to 32 bits are float32:
 * HF_SUMS_SHORT_ERROR. */
#ifndef HF_GEMM_SUMS_BAND_CUH
#define HF_GEMM_SUMS_BAND_CUH

#include "device/cuda/pack.cuh"
#include "ops/gemm/sums.h"

#define SUMS_EACH 8                /* columns of a lane */
#define SUMS_COLS (32 * SUMS_EACH) /* of a warp */
#define SUMS_BAND 32               /* rows of a band at most */

template <typename T>
struct __align__(sizeof(T) * SUMS_EACH <= 16 ? sizeof(T) * SUMS_EACH : 16) numbers {
    T e[SUMS_EACH];
};

/* One after the other, those past the end 0. Seldom called, and apart, so that code is small. */
template <typename T>
static __device__ __noinline__ numbers<T> load_singly(const T *at, int64_t left) {
    numbers<T> v = {};
#pragma unroll
    for (int i = 0; i < SUMS_EACH; i++)
        if (i < left)
            v.e[i] = at[i];
    return v;
}

template <typename T>
static __device__ __forceinline__ numbers<T> load_each(const T *at, int64_t left, bool wide) {
    return wide && left >= SUMS_EACH ? *(const numbers<T> *)at : load_singly(at, left);
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
template <typename U> struct lane_sums {
    U by[SUMS_EACH], by_size[SUMS_EACH], col[SUMS_EACH], col_size[SUMS_EACH];
};

/* What a row's numbers of this lane add to the row, and to the columns. Both at once: the columns
 * have no weights, or there were too few registers. */
template <bool ROW, bool COL, typename T, typename U>
static __device__ __forceinline__ void add_row(const struct hf_sums_pass &p, int64_t row,
                                               const numbers<T> &v, lane_sums<U> &lane, U &sum,
                                               U &size) {
    const U weight = COL && p.by_row != NULL ? (U)__ldcg(p.by_row + row) : (U)1;
    const U weight_size = COL && p.by_row_size != NULL ? (U)__ldcg(p.by_row_size + row) : (U)1;
    sum = size = 0;
#pragma unroll
    for (int i = 0; i < SUMS_EACH; i++) {
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

/* Rows [begin, end) of the warp's columns, which begin at p's column `first` - 8 * lane. Sums of
 * rows are added to p's arrays; those of the columns are left in `own`, which is 0 before. R: rows
 * at once. */
template <typename T, bool ROW, bool COL, int R, typename U>
static __device__ __forceinline__ void sums_band(const struct hf_sums_pass &p, bool wide,
                                                 int64_t first, int64_t begin, int64_t end,
                                                 lane_sums<U> &own) {
    const int lane = (int)threadIdx.x % 32;
    const int64_t left = p.cols - first;
#pragma unroll
    for (int i = 0; i < SUMS_EACH && !COL; i++) {
        own.by[i] = ROW && p.by_col != NULL && i < left ? (U)__ldcg(p.by_col + first + i) : (U)1;
        own.by_size[i] =
            ROW && p.by_col_size != NULL && i < left ? (U)__ldcg(p.by_col_size + first + i) : (U)1;
    }
#pragma unroll 1
    for (int64_t row = begin; row < end; row += R) {
        numbers<T> v[R];
        U sums[2 * R]; /* of R rows, then their sizes */
#pragma unroll
        for (int r = 0; r < R; r++)
            v[r] = load_each((const T *)p.m.data + (row + r) * p.m.row + first,
                             row + r < end ? left : 0, wide);
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
}

#endif
