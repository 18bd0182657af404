/* SPDX-License-Identifier: Apache-2.0
 * Rows that left a cluster for another one, by the float64 distance that defines labels: are they
 * nearer to its centroid? And were they not so before, by the centroids that their last labels were
 * found for? A row that a wrong score had kept in its cluster is found by that when it leaves. */
#ifndef HF_LLOYD_CUDA_MOVES_CUH
#define HF_LLOYD_CUDA_MOVES_CUH

#include "device/cuda/pack.cuh"
#include "ops/audit/audit.cuh"
#include "ops/lloyd/cuda/book.h"
#include "ops/lloyd/cuda/means.cuh"

#define MOVES_AT_ONCE 4 /* moved rows that a warp looks at */

/* A row that left a cluster for another one. */
struct left_row {
    int32_t row, from, to;
};

/* |x - c|^2 of the reference, by one thread. */
template <hf_dtype T>
static __device__ __noinline__ double ordered_distance(const struct hf_lloyd_job &job,
                                                       const char *x, int64_t center,
                                                       const void *centers) {
    double sum = 0;
    for (int64_t f = 0; f < job.update.d; f++) {
        const double diff = __dsub_rn(hf_device_load<T>(x, f),
                                      center_at(centers, job.rule.type, center * job.update.d + f));
        sum = __dadd_rn(sum, __dmul_rn(diff, diff));
    }
    return sum;
}

/* Less than this times a sum of d squares is all that may be rounded in it, in whatever order. */
static __device__ __forceinline__ double rounding(int64_t d) { return (double)(d + 64) * 0x1p-52; }

/* May it, by the reference? */
template <hf_dtype T>
static __device__ bool may_move(const struct hf_lloyd_job &job, const struct left_row &move,
                                const void *centers) {
    const char *x = job.update.x + move.row * job.update.row_bytes;
    const double was = ordered_distance<T>(job, x, move.from, centers);
    const double is = ordered_distance<T>(job, x, move.to, centers);
    return !(was < is || (was == is && move.from < move.to));
}

/* The type of centroids of rows of type T. */
template <hf_dtype T> inline constexpr hf_dtype center_type = T == HF_F64 ? HF_F64 : HF_F32;

/* Squared distances of some rows, by sums in any order. */
struct ways {
    double from[MOVES_AT_ONCE], to[MOVES_AT_ONCE];
};

/* Columns [f, f + V) of row number i are added. V 1: of any type. */
template <hf_dtype T, int V>
static __device__ __forceinline__ void add_ways(const struct hf_lloyd_job &job,
                                                const struct left_row &move, int f,
                                                const void *centers, int i, struct ways *ways) {
    const struct hf_update_job &u = job.update;
    const char *x = u.x + move.row * u.row_bytes;
    const int64_t from = move.from * u.d + f, to = move.to * u.d + f;
    if constexpr (V == 1) {
        const double v = hf_device_load<T>(x, f);
        const double a = v - center_at(centers, job.rule.type, from);
        const double b = v - center_at(centers, job.rule.type, to);
        ways->from[i] += a * a;
        ways->to[i] += b * b;
    } else {
        typedef hf_pack<center_type<T>, V> some;
        typedef typename hf_element<center_type<T>>::type element;
        const element *const c = (const element *)centers;
        const hf_pack<T, V> v = *(const hf_pack<T, V> *)(x + (int64_t)f * hf_device_bytes<T>);
        const some a = *(const some *)(c + from), b = *(const some *)(c + to);
#pragma unroll
        for (int e = 0; e < V; e++) {
            const double w = (double)hf_widen<T>(v.e[e]);
            ways->from[i] += (w - (double)a.e[e]) * (w - (double)a.e[e]);
            ways->to[i] += (w - (double)b.e[e]) * (w - (double)b.e[e]);
        }
    }
}

/* In all lanes of the warp. */
template <hf_dtype T, int V>
static __device__ __forceinline__ void measure_ways(const struct hf_lloyd_job &job,
                                                    const struct left_row (&move)[MOVES_AT_ONCE],
                                                    const void *centers, struct ways *ways) {
    const int d = (int)job.update.d;
    *ways = {};
    for (int f = (int)threadIdx.x % UPDATE_WARP * V; f < d; f += UPDATE_WARP * V)
#pragma unroll
        for (int i = 0; i < MOVES_AT_ONCE; i++)
            add_ways<T, V>(job, move[i], f, centers, i, ways);
#pragma unroll
    for (int i = 0; i < MOVES_AT_ONCE; i++) {
        ways->from[i] = fold_warp(ways->from[i]);
        ways->to[i] = fold_warp(ways->to[i]);
    }
}

/* Up to MOVES_AT_ONCE rows of a warp, in its first lanes; a row that is not there is -1. now: the
 * centroids of their labels, before: those of the labels before, NULL: not known. Where sums in any
 * order are too close the reference tells, or nothing is told. */
template <hf_dtype T, int V>
static __device__ __forceinline__ void
look_at_some_moves(const struct hf_lloyd_job &job, const struct hf_lloyd_checks &checks,
                   const struct left_row &own, const void *now, const void *before) {
    const int d = (int)job.update.d;
    struct left_row move[MOVES_AT_ONCE];
    struct ways ways;
    const unsigned there = __ballot_sync(ALL, own.row >= 0);
#pragma unroll
    for (int i = 0; i < MOVES_AT_ONCE; i++) {
        move[i].row = max(__shfl_sync(ALL, own.row, i), 0);
        move[i].from = __shfl_sync(ALL, own.from, i);
        move[i].to = __shfl_sync(ALL, own.to, i);
    }
    measure_ways<T, V>(job, move, now, &ways);
#pragma unroll
    for (int i = 0; i < MOVES_AT_ONCE; i++) {
        const double from = ways.from[i], to = ways.to[i];
        if ((there >> i & 1) == 0 || to < from - rounding(d) * (from + to))
            continue;
        if (!may_move<T>(job, move[i], now) && threadIdx.x % UPDATE_WARP == 0)
            audit_note(&checks.ledger->found.farther, move[i].row);
    }
    if (before == NULL)
        return;
    measure_ways<T, V>(job, move, before, &ways);
#pragma unroll
    for (int i = 0; i < MOVES_AT_ONCE; i++) {
        const double from = ways.from[i], to = ways.to[i];
        const double least = from - 2 * rounding(d) * (from + to) - (double)d * 0x1p-1000;
        if ((there >> i & 1) != 0 && to < least && threadIdx.x % UPDATE_WARP == 0)
            audit_note(&checks.ledger->late, move[i].row);
    }
}

/* Rows of a list in shared memory, by all warps of the block. */
template <hf_dtype T, int V>
static __device__ void
look_at_list_by(const struct hf_lloyd_job &job, const struct hf_lloyd_checks &checks,
                const struct left_row *list, int count, const void *now, const void *before) {
    const int lane = (int)threadIdx.x % UPDATE_WARP, warp = (int)threadIdx.x / UPDATE_WARP;
    const int step = (int)blockDim.x / UPDATE_WARP * MOVES_AT_ONCE;
    for (int base = warp * MOVES_AT_ONCE; base < count; base += step) {
        const bool mine = lane < MOVES_AT_ONCE && base + lane < count;
        const struct left_row none = {-1, 0, 0}, own = mine ? list[base + lane] : none;
        look_at_some_moves<T, V>(job, checks, own, now, before);
    }
}

template <hf_dtype T>
static __device__ void
look_at_list(const struct hf_lloyd_job &job, const struct hf_lloyd_checks &checks,
             const struct left_row *list, int count, const void *now, const void *before) {
    constexpr int V = T == HF_F64 ? 2 : 4;
    const struct hf_update_job &u = job.update;
    const uintptr_t rows = (uintptr_t)u.x | (uintptr_t)u.row_bytes;
    if (rows % (V * hf_device_bytes<T>) == 0 && u.d % V == 0 && job.rule.type == center_type<T> &&
        ((uintptr_t)now | (uintptr_t)before) % 16 == 0)
        look_at_list_by<T, V>(job, checks, list, count, now, before);
    else
        look_at_list_by<T, 1>(job, checks, list, count, now, before);
}

#endif
