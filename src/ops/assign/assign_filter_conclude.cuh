/* SPDX-License-Identifier: Apache-2.0
 * The end of a unit's rows: which of them are decided, what is written. */
#ifndef HF_ASSIGN_FILTER_CONCLUDE_CUH
#define HF_ASSIGN_FILTER_CONCLUDE_CUH

#include "ops/assign/assign_filter_rows.cuh"

/* The piece that moves all biases of a problem up, times the unit, as the matrix unit does it. The
 * largest bias, which nobody needs then, becomes what they move by: at least as much. */
template <class S>
static __device__ __forceinline__ uint32_t filter_shift_piece(const struct filter_args &a,
                                                              struct filter_bounds *b) {
    if (!S::BIAS_STEP || !a.shifted)
        return 0;
    const float unit = filter_widen<false>(a.one[1]), pieces = b->bias / unit;
    const uint32_t piece = __half_as_ushort(__float2half_ru(pieces));
    b->bias = filter_widen<false>(piece) * unit;
    return piece;
}

/* Add `what` to *sum where v is at least threshold. */
static __device__ __forceinline__ void filter_count(unsigned *sum, float v, float threshold,
                                                    unsigned what) {
    asm("{\n"
        ".reg .pred p;\n"
        "setp.ge.f32 p, %1, %2;\n"
        "@p add.u32 %0, %0, %3;\n"
        "}"
        : "+r"(*sum)
        : "f"(v), "f"(threshold), "r"(what));
}

/* The end of a unit for most warps: of each of their rows one score alone reaches the threshold:
 * the nearest centroid's. That is counted, for both rows of a lane at once: neither the place of
 * the best in its chunk nor the second best need be looked for, which was a third of a unit's end.
 * Returns that centroid for the row that a lane answers for, or -1: more reach it, or none. All
 * lanes. */
template <int C>
static __device__ __forceinline__ int32_t filter_alone(float error,
                                                       const struct filter_track<C> &t) {
    constexpr unsigned one = 1u << 24; /* above all numbers of centroids, 36 of them at most */
    const bool half = filter_half();
    const unsigned lane = threadIdx.x & 3;
    float best = half ? t.best[1] : t.best[0];
    best = fmaxf(best, __shfl_xor_sync(~0u, half ? t.best[0] : t.best[1], 1));
    best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
    const float own = filter_threshold(best, error);
    const float next = __shfl_xor_sync(~0u, own, 1);
    unsigned found[2];
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float threshold = half == (r == 1) ? own : next;
        unsigned sum = 0;
        filter_count(&sum, t.second[r], threshold, one);
#pragma unroll
        for (int v = 0; v < C; v++)
            filter_count(&sum, t.value[r][v], threshold, one + v / 2 * 8 + v % 2);
        const unsigned first = (unsigned)filter_place_number(t.place[r]) * (C * 4) + 2 * lane;
        found[r] = sum == 0 ? 0 : sum + first;
    }
    unsigned sum = half ? found[1] : found[0];
    sum += __shfl_xor_sync(~0u, half ? found[0] : found[1], 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    /* Bits of negative scores have another order: nothing below 0 counts. */
    return own > 0 && sum / one == 1 ? (int32_t)(sum % one) : -1;
}

/* Labels of a warp's rows and their marks, if `write`, which is the same for all lanes. Without
 * branches: with one the compiler no longer knows that warps stay together, and tiles cost more. */
static __device__ __forceinline__ void filter_put_labels(const struct filter_args &a, int problem,
                                                         int i, bool write, int32_t label,
                                                         int32_t old) {
    const unsigned n = (unsigned)a.rows.n; /* all rows of the batch have numbers below 2^31 */
    const unsigned lane = threadIdx.x & 31;
    const bool mine = write && i < (int)n && (lane & 3) < 2;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.u32 p, %2, 0;\n"
                 "@p st.global.b32 [%0], %1;\n"
                 "}" ::"l"(a.out.label + ((unsigned)problem * n + (unsigned)i)),
                 "r"(label), "r"((unsigned)mine)
                 : "memory");
    if (!a.out.marks.word)
        return;
    const unsigned bits = __reduce_or_sync(~0u, mine && label != old ? 1u << (i & 15) : 0u);
    asm volatile(
        "{\n"
        ".reg .pred p;\n"
        "setp.ne.u32 p, %2, 0;\n"
        "@p st.global.b16 [%0], %1;\n"
        "}" ::"l"((uint16_t *)a.out.marks.word + problem * a.out.marks.words * 2 + (i >> 4)),
        "h"((uint16_t)bits), "r"((unsigned)(write && lane == 0))
        : "memory");
}

/* A problem's bounds, as filter_put_bounds() left them. */
static __device__ __forceinline__ struct filter_bounds filter_get_bounds(uint32_t at) {
    const float4 b = hf_lds4(at);
    return {b.x, b.y, b.z, b.w};
}

/* The end of a unit's rows: merge if they were cut, write. */
template <class S, int MODE, int C>
static __device__ __forceinline__ void
filter_conclude(const struct filter_args &a, const struct filter_segment &s, int wg, int unit,
                uint32_t flag, uint32_t bounds, struct filter_open_rows *opens,
                const struct filter_row_facts &facts, const struct filter_track<C> &track) {
    constexpr bool LIST = filter_lists(MODE);
    const int i = unit * FILTER_WG_ROWS + filter_row() + 8 * filter_half();
    const int32_t old = filter_marks(MODE) ? filter_old_label(a, s.problem, i) : 0;
    if constexpr (MODE == FILTER_TOP2_CHUNK && S::COUNT) {
        const float error = filter_error(a, filter_get_bounds(bounds), facts.norm, facts.loss);
        const bool may = s.tail < 0 && a.labels, there = i < (int)a.rows.n;
        const int32_t label = may ? filter_alone(error, track) : -1;
        /* The same for all lanes, as the compiler knows of a reduction. */
        const unsigned all = __reduce_and_sync(~0u, may && (!there || label >= 0) ? 1u : 0u);
        filter_put_labels(a, s.problem, i, all != 0, label, old);
        if (all != 0)
            return;
    }
    struct filter_found f[1] = {filter_gather_half<MODE>(track)};
    if (s.tail >= 0 &&
        !filter_merge<S>(a, filter_tail_of<S, LIST>(a), s.tail, wg, unit % S::UNITS, flag, f))
        return;
    const struct filter_bounds most = filter_get_bounds(bounds);
    float error = most.rc < INFINITY && most.cm <= a.reach ? 0.0f : INFINITY;
    if constexpr (filter_decides(MODE))
        error = filter_error(a, most, facts.norm, facts.loss);
    filter_finish<S, MODE, 2>(a, s.problem, i, error, a.shifted ? most.bias : 0.0f, opens, f[0],
                              old);
}

/* A warpgroup keeps its problem's bounds in shared memory; one thread writes them. */
static __device__ __forceinline__ void filter_put_bounds(const struct filter_bounds &b, int wg,
                                                         uint32_t at) {
    hf_bar_sync(1 + wg, 128); /* nobody needs the last ones any more */
    if ((threadIdx.x & 127) == 0)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(b.rc), "f"(b.cm),
                     "f"(b.bias), "f"(b.far)
                     : "memory");
    hf_bar_sync(1 + wg, 128);
}

#endif
