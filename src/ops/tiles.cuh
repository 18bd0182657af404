/* SPDX-License-Identifier: Apache-2.0
 * Reference distances of a block of rows to a block of centroids, in registers: thread (tx, ty) of
 * a TX x TY block has R rows and Q centroids, and adds up all their pairs in the order of the
 * features. Shared memory holds HF_TILE_DEPTH columns of both as float64. */
#ifndef HF_TILES_CUH
#define HF_TILES_CUH

#include "ops/chains.cuh"

#define HF_TILE_THREADS 256
#define HF_TILE_DEPTH 16

/* Rows and centroids of a block; their places in it are ty + TY * r and tx + TX * q. */
template <int TX, int R> inline constexpr int hf_tile_rows = HF_TILE_THREADS / TX *R;
template <int TX, int Q> inline constexpr int hf_tile_cents = TX *Q;

/* Vectors [rows] of any type, row_bytes apart. */
struct hf_tile_side {
    const char *data;
    int64_t row_bytes, rows;
    hf_dtype dtype;
};

/* Shared memory; the odd pitch spreads the columns of a row over the banks. */
template <int ROWS, int CENTS> struct hf_tile_smem {
    double x[HF_TILE_DEPTH][ROWS + 1 - ROWS % 2];
    double c[HF_TILE_DEPTH][CENTS + 1 - CENTS % 2];
};

/* This thread's share of columns [from, ...) of vectors [first, first + PER * threads / DEPTH). */
template <int PER>
__device__ __forceinline__ void hf_tile_fetch(double (&v)[PER], const struct hf_tile_side &side,
                                              int64_t first, int64_t from, int64_t d) {
    const int64_t j = from + threadIdx.x % HF_TILE_DEPTH;
#pragma unroll
    for (int i = 0; i < PER; i++) {
        const int64_t row = first + (threadIdx.x + i * HF_TILE_THREADS) / HF_TILE_DEPTH;
        const int64_t row_read = row < side.rows ? row : side.rows - 1;
        v[i] = j < d ? hf_device_load_any(side.data + row_read * side.row_bytes, side.dtype, j) : 0;
    }
}

template <int PER, int W>
__device__ __forceinline__ void hf_tile_put(double (&dst)[HF_TILE_DEPTH][W], const double (&v)[PER],
                                            int vectors) {
#pragma unroll
    for (int i = 0; i < PER; i++) {
        const int row = (int)(threadIdx.x + i * HF_TILE_THREADS) / HF_TILE_DEPTH;
        if (row < vectors)
            dst[threadIdx.x % HF_TILE_DEPTH][row] = v[i];
    }
}

/* dist [R][Q] of the thread; rows and centroids past the end repeat the last. All threads of the
 * block call it; smem is free again when it returns. */
template <int TX, int R, int Q, hf_metric M>
__device__ __forceinline__ void
hf_tile_distances(double (&dist)[R][Q], const struct hf_tile_side &x, const struct hf_tile_side &c,
                  int64_t first_row, int64_t first_cent, int64_t d,
                  hf_tile_smem<hf_tile_rows<TX, R>, hf_tile_cents<TX, Q>> &smem) {
    constexpr int TY = HF_TILE_THREADS / TX;
    constexpr int ROWS = hf_tile_rows<TX, R>, CENTS = hf_tile_cents<TX, Q>;
    constexpr int PER_X = ROWS * HF_TILE_DEPTH / HF_TILE_THREADS;
    constexpr int PER_C = (CENTS * HF_TILE_DEPTH + HF_TILE_THREADS - 1) / HF_TILE_THREADS;
    const int tx = (int)threadIdx.x % TX, ty = (int)threadIdx.x / TX;
    double xx[R] = {}, cc[Q] = {}, next_x[PER_X], next_c[PER_C];
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int q = 0; q < Q; q++)
            dist[r][q] = 0;
    hf_tile_fetch(next_x, x, first_row, 0, d);
    hf_tile_fetch(next_c, c, first_cent, 0, d);
    for (int64_t from = 0; from < d; from += HF_TILE_DEPTH) {
        hf_tile_put(smem.x, next_x, ROWS);
        hf_tile_put(smem.c, next_c, CENTS);
        __syncthreads();
        if (from + HF_TILE_DEPTH < d) {
            hf_tile_fetch(next_x, x, first_row, from + HF_TILE_DEPTH, d);
            hf_tile_fetch(next_c, c, first_cent, from + HF_TILE_DEPTH, d);
        }
        const int depth = d - from < HF_TILE_DEPTH ? (int)(d - from) : HF_TILE_DEPTH;
#pragma unroll 2
        for (int j = 0; j < depth; j++) {
            double a[R], b[Q];
#pragma unroll
            for (int r = 0; r < R; r++)
                a[r] = smem.x[j][ty + TY * r];
#pragma unroll
            for (int q = 0; q < Q; q++)
                b[q] = smem.c[j][tx + TX * q];
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int q = 0; q < Q; q++) {
                    const double diff = M == HF_EUCLIDEAN ? __dsub_rn(a[r], b[q]) : a[r];
                    const double other = M == HF_EUCLIDEAN ? diff : b[q];
                    dist[r][q] = __dadd_rn(dist[r][q], __dmul_rn(diff, other));
                }
            if constexpr (M == HF_COSINE) {
#pragma unroll
                for (int r = 0; r < R; r++)
                    xx[r] = __dadd_rn(xx[r], __dmul_rn(a[r], a[r]));
#pragma unroll
                for (int q = 0; q < Q; q++)
                    cc[q] = __dadd_rn(cc[q], __dmul_rn(b[q], b[q]));
            }
        }
        __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < R; r++)
#pragma unroll
        for (int q = 0; q < Q; q++)
            if (M == HF_COSINE)
                dist[r][q] = hf_cosine_end(dist[r][q], xx[r], cc[q]);
            else if (M == HF_DOT)
                dist[r][q] = -dist[r][q];
}

#endif
