/* SPDX-License-Identifier: Apache-2.0
 * Rows by slices (ops/slices.h) on CUDA: a thread for each row, eight for a slice, whose values lie
 * side by side. Nothing passes through shared memory. Sums are those of ops/sparse.h. */
#ifndef HF_SLICES_CUH
#define HF_SLICES_CUH

#include "ops/slices.h"
#include "ops/sparse.cuh"

#define SLICE_EACH 6 /* elements that a thread asks for at once */

/* Are there slices that kernels of a GPU read? */
static inline bool hf_has_slices(const struct hf_sparse &a) {
    return a.slices != NULL && a.slices->ranges == 1;
}

/* A device view of the slices of a matrix; without any, nothing. */
static inline struct hf_slices hf_stage_slices(struct hf_stage *stage, const struct hf_sparse &a) {
    struct hf_slices seen = {};
    if (!hf_has_slices(a))
        return seen;
    seen = *a.slices;
    const size_t count = (size_t)seen.count, slots = (size_t)seen.slots;
    seen.slot = (int64_t *)hf_stage_in(stage, seen.slot, (count + 1) * sizeof *seen.slot);
    seen.list = (int64_t *)hf_stage_in(stage, seen.list, count * sizeof *seen.list);
    seen.base = (int32_t *)hf_stage_in(stage, seen.base, slots * sizeof *seen.base);
    seen.column = (int32_t *)hf_stage_in(stage, seen.column,
                                         (size_t)seen.lists * SLICE_ROWS * sizeof *seen.column);
    seen.value =
        (void *)hf_stage_in(stage, seen.value, slots * SLICE_ROWS * hf_dtype_bytes(a.dtype));
    return seen;
}

/* *v = *p if at < end, else nothing is read. All of these are asked for in the order in which they
 * are written: the compiler would wait for some before it asks for the rest. */
static __device__ __forceinline__ void slice_ask(int32_t *v, const int32_t *p, uint64_t policy,
                                                 int at, int end) {
    asm volatile("{.reg .pred there; setp.lt.s32 there, %3, %4;"
                 "@there ld.global.nc.L1::no_allocate.L2::cache_hint.b32 %0, [%1], %2;}"
                 : "+r"(*v)
                 : "l"(p), "l"(policy), "r"(at), "r"(end));
}

static __device__ __forceinline__ void slice_ask(float *v, const float *p, uint64_t policy, int at,
                                                 int end) {
    asm volatile("{.reg .pred there; setp.lt.s32 there, %3, %4;"
                 "@there ld.global.nc.L1::no_allocate.L2::cache_hint.f32 %0, [%1], %2;}"
                 : "+f"(*v)
                 : "l"(p), "l"(policy), "r"(at), "r"(end));
}

static __device__ __forceinline__ void slice_ask(double *v, const double *p, uint64_t policy,
                                                 int at, int end) {
    asm volatile("{.reg .pred there; setp.lt.s32 there, %3, %4;"
                 "@there ld.global.nc.L1::no_allocate.L2::cache_hint.f64 %0, [%1], %2;}"
                 : "+d"(*v)
                 : "l"(p), "l"(policy), "r"(at), "r"(end));
}

/* The same of x, which others read, too. */
static __device__ __forceinline__ void slice_ask_x(double *v, const double *p, int at, int end) {
    asm volatile("{.reg .pred there; setp.lt.s32 there, %2, %3;"
                 "@there ld.global.nc.f64 %0, [%1];}"
                 : "+d"(*v)
                 : "l"(p), "r"(at), "r"(end));
}

/* Slots [first, first + count) of a lane. */
struct slice_slots {
    int64_t first;
    int count, lane;
    const int32_t *column; /* of the first list, if there are LISTED ones */
};

/* All places are asked for, then all x. */
template <typename V, bool LISTED>
static __device__ __forceinline__ double slice_sum(const struct hf_slices &s,
                                                   const struct slice_slots &slots, uint64_t policy,
                                                   const double *x) {
    const int count = slots.count, lane = slots.lane;
    const int32_t *base = s.base + slots.first, *column = slots.column;
    const V *value = (const V *)s.value + slots.first * SLICE_ROWS + lane;
    double sum = 0;
    x += lane;
    for (int at = 0; at < count; at += SLICE_EACH) {
        int32_t place[SLICE_EACH] = {};
        V own[SLICE_EACH] = {};
        double factor[SLICE_EACH] = {};
#pragma unroll
        for (int u = 0; u < SLICE_EACH; u++)
            slice_ask(&place[u], base + u, policy, at + u, count);
#pragma unroll
        for (int u = 0; u < SLICE_EACH; u++)
            slice_ask(&own[u], value + u * SLICE_ROWS, policy, at + u, count);
        base += SLICE_EACH;
        value += SLICE_EACH * SLICE_ROWS;
#pragma unroll
        for (int u = 0; LISTED && u < SLICE_EACH; u++)
            if (place[u] < 0) {
                place[u] = sparse_load(column, policy) - lane;
                column += SLICE_ROWS;
            }
#pragma unroll
        for (int u = 0; u < SLICE_EACH; u++)
            slice_ask_x(&factor[u], x + place[u], at + u, count);
#pragma unroll
        for (int u = 0; u < SLICE_EACH; u++) /* beyond the last one 0 * 0 */
            sum = __dadd_rn(sum, __dmul_rn((double)own[u], factor[u]));
    }
    return sum;
}

/* The sum of row i. */
template <typename V>
static __device__ __forceinline__ double slice_row(const struct hf_slices &s, int64_t i,
                                                   uint64_t policy, const double *x) {
    const int64_t slice = i / SLICE_ROWS, first = s.slot[slice], list = s.list[slice];
    const int count = (int)(s.slot[slice + 1] - first), lane = (int)(i % SLICE_ROWS);
    if (list < 0)
        return slice_sum<V, false>(s, {first, count, lane, NULL}, policy, x);
    const int32_t *column = s.column + list * SLICE_ROWS + lane;
    return slice_sum<V, true>(s, {first, count, lane, column}, policy, x);
}

#endif
