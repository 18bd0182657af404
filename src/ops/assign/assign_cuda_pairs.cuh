/* SPDX-License-Identifier: Apache-2.0
 * Sums over the columns of pairs of a row and a centroid, in float64, some pairs of a warp side by
 * side: in the reference's order, or in any order, which is quicker. */
#ifndef HF_ASSIGN_CUDA_PAIRS_CUH
#define HF_ASSIGN_CUDA_PAIRS_CUH

#include "device/cuda/pack.cuh"
#include "ops/assign/assign_cuda_exact.cuh"

#define PAIR_SHORT 32        /* up to so many columns each lane reads its own pair */
#define PAIR_QUICK 4         /* pairs with more that are summed side by side in any order */
#define PAIR_TERMS (16 * 33) /* doubles of one of a warp's two buffers of terms */

/* Pairs with more columns that a warp takes at once, and what each lane holds of some columns of
 * them: W neighbouring elements of row and centroid for each 32 W. */
template <hf_dtype X, bool C_F64> inline constexpr int pair_group = (X == HF_F64) && C_F64 ? 8 : 16;

template <bool C_F64> inline constexpr hf_dtype pair_center = C_F64 ? HF_F64 : HF_F32;

template <hf_dtype X, bool C_F64, int N, int W> struct pair_piece {
    struct hf_pack<X, W> x[N];
    struct hf_pack<pair_center<C_F64>, W> c[N];
};

/* Neighbouring elements that sums in any order read at once, where they lie as that needs it. With
 * one they took 1.4 times as long at d = 1024: their bytes under way are what limits them. */
template <hf_dtype X, bool C_F64> inline constexpr int pair_wide = X == HF_F64 || C_F64 ? 2 : 4;

/* Columns from first on, 32 W << shift of them, of the pairs of the first lanes; behind d: the last
 * ones again, which nobody looks at. */
template <hf_dtype X, bool C_F64, int N, int W>
__device__ __forceinline__ void load_piece(const char *x, const char *c, int d, int first,
                                           int pairs, int shift,
                                           struct pair_piece<X, C_F64, N, W> *piece) {
    typedef struct hf_pack<X, W> row_type;
    typedef struct hf_pack<pair_center<C_F64>, W> center_type;
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int q = 0; q < N; q++) {
        if (q >= pairs << shift)
            break;
        const int p = q >> shift;
        const int at = first + ((q & ((1 << shift) - 1)) * 32 + lane) * W;
        const int j = (at < d ? at : d - W) / W;
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
    struct pair_piece<X, C_F64, N, 1> piece;
    load_piece<X, C_F64, N, 1>(x, c, d, 0, pairs, shift, &piece);
    for (int first = 0; first < d; first += columns) {
        double *const now = term + (first & columns ? PAIR_TERMS : 0);
#pragma unroll
        for (int q = 0; q < N; q++) {
            if (q >= pairs << shift)
                break;
            const int at = (q & ((1 << shift) - 1)) * 32 + lane;
            now[(q >> shift) * pitch + at] =
                hf_exact_term<PRODUCT>(static_cast<double>(hf_widen<X>(piece.x[q].e[0])),
                                       static_cast<double>(piece.c[q].e[0]));
        }
        __syncwarp();
        if (first + columns < d)
            load_piece<X, C_F64, N, 1>(x, c, d, first + columns, pairs, shift, &piece);
        const int width = d - first < columns ? d - first : columns;
        const double *const mine = now + (lane < pairs ? lane : 0) * pitch;
#pragma unroll 8
        for (int t = 0; t < width; t++)
            sum = __dadd_rn(sum, mine[t]);
    }
    __syncwarp(); /* before the buffers are written for other pairs */
    return sum;
}

/* The sum of the pair of this lane in any order, of squares alone: lanes add up what they read,
 * then two lanes what all have of one piece, then those of a pair come together. At most d + 37
 * additions to a term. One buffer of terms. */
template <hf_dtype X, bool C_F64, int W>
__device__ static double pair_sum_quick(const char *x, const char *c, int d, int pairs,
                                        double *term) {
    constexpr int N = W == 1 ? 2 * PAIR_QUICK : PAIR_QUICK;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int shift = 0; /* few pairs: more columns at once */
    while (pairs << (shift + 1) <= N)
        shift++;
    struct pair_piece<X, C_F64, N, W> piece;
    double sums[N];
#pragma unroll
    for (int q = 0; q < N; q++)
        sums[q] = 0;
    for (int first = 0; first < d; first += 32 * W << shift) {
        load_piece<X, C_F64, N, W>(x, c, d, first, pairs, shift, &piece);
#pragma unroll
        for (int q = 0; q < N; q++) {
            if (q >= pairs << shift)
                break;
            const bool there = first + ((q & ((1 << shift) - 1)) * 32 + lane) * W < d;
#pragma unroll
            for (int e = 0; e < W; e++) {
                const double its =
                    hf_exact_term<false>(static_cast<double>(hf_widen<X>(piece.x[q].e[e])),
                                         static_cast<double>(piece.c[q].e[e]));
                sums[q] = __dadd_rn(sums[q], there ? its : 0);
            }
        }
    }
#pragma unroll
    for (int q = 0; q < N; q++)
        term[q * 33 + lane] = sums[q];
    __syncwarp();
    const double *const mine = term + lane / 2 % N * 33 + lane % 2 * 16;
    double sum = 0;
#pragma unroll
    for (int t = 0; t < 16; t++)
        sum = __dadd_rn(sum, mine[t]);
    for (int step = 1; step < 2 << shift; step *= 2)
        sum = __dadd_rn(sum, __shfl_xor_sync(~0u, sum, step));
    __syncwarp(); /* before the buffer is written for other pairs */
    return __shfl_sync(~0u, sum, (lane < pairs ? lane : 0) << (shift + 1));
}

#endif
