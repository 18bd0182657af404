/* SPDX-License-Identifier: Apache-2.0
 * Sums over the columns of pairs of a row and a centroid, in float64 and in the reference's order,
 * some pairs of a warp side by side. */
#ifndef HF_ASSIGN_CUDA_PAIRS_CUH
#define HF_ASSIGN_CUDA_PAIRS_CUH

#include "device/cuda/pack.cuh"
#include "ops/assign/cuda/open/exact.cuh"

#define PAIR_SHORT 32        /* up to so many columns each lane reads its own pair */
#define PAIR_TERMS (16 * 33) /* doubles of one of a warp's two buffers of terms */

/* Pairs with more columns that a warp takes at once, and what each lane holds of 32 columns of
 * them. */
template <hf_dtype X, bool C_F64> inline constexpr int pair_group = (X == HF_F64) && C_F64 ? 8 : 16;

template <bool C_F64> inline constexpr hf_dtype pair_center = C_F64 ? HF_F64 : HF_F32;

template <hf_dtype X, bool C_F64, int N> struct pair_piece {
    typename hf_element<X>::type x[N];
    typename hf_element<pair_center<C_F64>>::type c[N];
};

/* Columns [first, first + (32 << shift)) of rows of d columns. */
struct pair_columns {
    int d, first, shift;
};

/* Those columns of the pairs of the first lanes; from d on: the last one again, unused. */
template <hf_dtype X, bool C_F64, int N>
__device__ __forceinline__ void load_piece(const char *x, const char *c,
                                           const struct pair_columns &columns, int pairs,
                                           struct pair_piece<X, C_F64, N> *piece) {
    const int d = columns.d, shift = columns.shift;
    typedef typename hf_element<X>::type row_type;
    typedef typename hf_element<pair_center<C_F64>>::type center_type;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int q = 0; q < N; q++) {
        if (q >= pairs << shift)
            break;
        const int p = q >> shift;
        const int at = columns.first + (q & ((1 << shift) - 1)) * 32 + lane;
        const int j = at < d ? at : d - 1;
        piece->x[q] = reinterpret_cast<const row_type *>(
            __shfl_sync(~0u, reinterpret_cast<unsigned long long>(x), p))[j];
        piece->c[q] = reinterpret_cast<const center_type *>(
            __shfl_sync(~0u, reinterpret_cast<unsigned long long>(c), p))[j];
    }
}

/* The ordered sum of the pair of this lane; x, c: its row and its centroid. The pairs of the first
 * lanes count. All lanes make the terms of some columns, then a lane to a pair adds them up while
 * the next columns are on their way. term: two buffers. */
template <hf_dtype X, bool C_F64, bool PRODUCT>
__device__ static double pair_sum(const char *x, const char *c, int d, int pairs, double *term) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    double sum = 0;
    if (d <= PAIR_SHORT) {
#pragma unroll 16
        for (int j = 0; j < d; j++)
            sum = __dadd_rn(
                sum, hf_exact_term<PRODUCT>(hf_device_load<X>(x, j), hf_exact_center<C_F64>(c, j)));
        return sum;
    }
    constexpr int N = pair_group<X, C_F64>;
    const int shift = pairs <= N / 4 ? 2 : pairs <= N / 2 ? 1 : 0; /* few pairs: more columns */
    const int columns = 32 << shift;
    const int pitch = columns + 1; /* no bank conflicts */
    struct pair_piece<X, C_F64, N> piece;
    load_piece<X, C_F64, N>(x, c, {d, 0, shift}, pairs, &piece);
    for (int first = 0; first < d; first += columns) {
        double *const now = term + (first & columns ? PAIR_TERMS : 0);
#pragma unroll
        for (int q = 0; q < N; q++) {
            if (q >= pairs << shift)
                break;
            const int at = (q & ((1 << shift) - 1)) * 32 + lane;
            now[(q >> shift) * pitch + at] = hf_exact_term<PRODUCT>(
                static_cast<double>(hf_widen<X>(piece.x[q])), static_cast<double>(piece.c[q]));
        }
        __syncwarp();
        if (first + columns < d)
            load_piece<X, C_F64, N>(x, c, {d, first + columns, shift}, pairs, &piece);
        const int width = d - first < columns ? d - first : columns;
        const double *const mine = now + (lane < pairs ? lane : 0) * pitch;
#pragma unroll 8
        for (int t = 0; t < width; t++)
            sum = __dadd_rn(sum, mine[t]);
    }
    __syncwarp(); /* before the buffers are written for other pairs */
    return sum;
}

#endif
