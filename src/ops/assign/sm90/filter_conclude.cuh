/* SPDX-License-Identifier: Apache-2.0
 * The end of a unit's rows: which of them are decided, what is written. */
#ifndef HF_ASSIGN_FILTER_CONCLUDE_CUH
#define HF_ASSIGN_FILTER_CONCLUDE_CUH

#include "ops/assign/cuda/filter_rows.cuh"

/* The piece that moves all biases of a problem up, as the matrix unit does it; b->up becomes what
 * it moves them by. */
template <class S>
static __device__ __forceinline__ uint32_t filter_shift_piece(const struct filter_args &a,
                                                              struct filter_view *b) {
    if (!S::BIAS_STEP || !a.shifted)
        return 0;
    const __half piece = __float2half_ru(fminf(b->up / a.rise, 65504.0f));
    b->up = __half2float(piece) * a.rise;
    return __half_as_ushort(piece);
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

/* The end of a unit for most warps: in each of their rows one lane of four has the nearest
 * centroid, and can tell by itself. It writes the label. */
struct filter_ends {
    int32_t label[2];
    bool mine[2];
};

#define FILTER_QUICK_ONE (1u << 16)  /* counts stand above sums of columns: 36 at most of each */
#define FILTER_QUICK_ODD (64u << 16) /* more than all that are counted of a warp's 16 rows */

/* The best of each of a lane's two rows over its four lanes, as bits. */
template <int C>
static __device__ __forceinline__ void filter_quick_best(const struct filter_track<C> &t,
                                                         int (&best)[2]) {
#pragma unroll
    for (int r = 0; r < 2; r++)
        best[r] = __float_as_int(t.best[r]);
#pragma unroll
    for (int lane = 1; lane < 4; lane *= 2) {
        const int other[2] = {__shfl_xor_sync(~0u, best[0], lane),
                              __shfl_xor_sync(~0u, best[1], lane)};
        best[0] = max(best[0], other[0]);
        best[1] = max(best[1], other[1]);
    }
}

/* The centroid in column `column` of the winning chunk. */
static __device__ __forceinline__ int32_t filter_quick_label(float place, int chunk,
                                                             unsigned column) {
    return filter_place_number(place) * (chunk * 4) + (int32_t)(column + 2 * (threadIdx.x & 3));
}

/* Does each row's best, a score, lie in one lane alone? The same for all lanes, as the compiler
 * knows of a sum over them. */
template <int C>
static __device__ __forceinline__ bool filter_quick_known(bool fine, const int (&best)[2],
                                                          const struct filter_track<C> &t,
                                                          struct filter_ends *q) {
    unsigned count = fine ? 0 : FILTER_QUICK_ODD;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        unsigned column = (C - 1) / 2 * 8 + (C - 1) % 2;
#pragma unroll
        for (int i = C - 2; i >= 0; i--)
            asm("{\n"
                ".reg .pred p;\n"
                "setp.eq.s32 p, %1, %2;\n"
                "selp.b32 %0, %3, %0, p;\n"
                "}"
                : "+r"(column)
                : "r"(__float_as_int(t.value[r][i])), "r"(__float_as_int(t.best[r])),
                  "r"(i / 2 * 8 + i % 2));
        q->mine[r] = __float_as_int(t.best[r]) == best[r];
        q->label[r] = filter_quick_label(t.place[r], C, column);
        count += q->mine[r] ? FILTER_QUICK_ONE : 0;
        count = (unsigned)best[r] < 0x7F800000u ? count : FILTER_QUICK_ODD;
    }
    return __reduce_add_sync(~0u, count) / FILTER_QUICK_ONE == 16;
}

/* Does in each row one score alone reach the threshold: the nearest centroid's? Such scores are
 * counted: neither the place of the best in its chunk nor the second best need be looked for.
 * errors: filter_quick_errors(); best: of both rows. */
template <int C>
static __device__ __forceinline__ bool
filter_quick_decided(bool fine, const struct filter_row_facts &errors, const int (&best)[2],
                     const struct filter_track<C> &t, struct filter_ends *q) {
    unsigned count = fine ? 0 : FILTER_QUICK_ODD;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const float threshold = filter_threshold(__int_as_float(best[r]),
                                                 filter_half() == r ? errors.norm : errors.loss);
        unsigned sum = 0;
        filter_count(&sum, t.second[r], threshold, FILTER_QUICK_ONE);
#pragma unroll
        for (int v = 0; v < C; v++)
            filter_count(&sum, t.value[r][v], threshold, FILTER_QUICK_ONE + v / 2 * 8 + v % 2);
        q->mine[r] = sum != 0;
        q->label[r] = filter_quick_label(t.place[r], C, sum % FILTER_QUICK_ONE);
        /* Bits of negative scores have another order: nothing below 0 counts. */
        count = threshold > 0 ? count + sum : FILTER_QUICK_ODD;
    }
    return __reduce_add_sync(~0u, count) / FILTER_QUICK_ONE == 16;
}

/* Store where `write`, without a branch: with one the compiler no longer knows that warps stay
 * together, and tiles cost more. */
static __device__ __forceinline__ void filter_store_if(bool write, int32_t *at, int32_t v) {
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.u32 p, %2, 0;\n"
                 "@p st.global.b32 [%0], %1;\n"
                 "}" ::"l"(at),
                 "r"(v), "r"((unsigned)write)
                 : "memory");
}

/* Labels of a warp's rows, if `write`, which is the same for all lanes. i: a lane's first row. */
static __device__ __forceinline__ void filter_put_labels(const struct filter_args &a, int problem,
                                                         int i, bool write,
                                                         const struct filter_ends &q) {
    const unsigned n = (unsigned)a.rows.n; /* all rows of the batch have numbers below 2^31 */
    int32_t *const at = a.out.label + ((unsigned)problem * n + (unsigned)i);
    const bool put[2] = {write && q.mine[0] && i < (int)n, write && q.mine[1] && i + 8 < (int)n};
    filter_store_if(put[0], at, q.label[0]);
    filter_store_if(put[1], at + 8, q.label[1]);
}

/* At least the length of the row that this lane answers for; all lanes, each with what
 * filter_squares() gave it. The last factor pays for float32, its root among it (2^-22). */
template <class S>
static __device__ __forceinline__ float filter_length(const struct filter_args &a, float squares) {
    constexpr float share = 1.0f / (1.0f - (S::DP / 8 + 1) * 0x1p-11f) + 0x1p-18f;
    const int bits = __float_as_int(squares);
    const float2 both = __half22float2(*(const __half2 *)&bits);
    float sum = filter_half() ? both.y : both.x, root;
    sum += __shfl_xor_sync(~0u, filter_half() ? both.x : both.y, 1);
    sum += __shfl_xor_sync(~0u, sum, 2);
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(sum * share + S::DP * 0x1p-24f));
    return root * a.measured;
}

/* A problem's bounds, as filter_put_bounds() left them. */
static __device__ __forceinline__ struct filter_view filter_get_bounds(const struct filter_args &a,
                                                                       int problem, uint32_t at) {
    const float4 b = hf_lds4(at);
    return {b.x, b.y, b.z, a.bounds[problem].most};
}

template <class S, int MODE> static __device__ __forceinline__ constexpr bool filter_quick(void) {
    return filter_chunks(MODE) && S::COUNT;
}

/* What takes the place of norm, until then what filter_squares() gave, and loss of the row that a
 * lane answers for: its error, and that of the lane's other row. */
template <class S>
static __device__ __forceinline__ struct filter_row_facts
filter_quick_errors(const struct filter_args &a, int problem, uint32_t bounds,
                    const struct filter_row_facts &facts) {
    const float length = filter_length<S>(a, facts.norm); /* no branch: under other trips */
    const float error = filter_error(a, filter_get_bounds(a, problem, bounds),
                                     a.rows.norm ? facts.norm : length, facts.loss);
    return {error, __shfl_xor_sync(~0u, error, 1)};
}

/* The quick end: true if all has been done. */
template <class S, int MODE, int C>
static __device__ __forceinline__ bool
filter_conclude_quick(const struct filter_args &a, const struct filter_segment &s, int unit,
                      uint32_t bounds, const struct filter_row_facts &facts,
                      const struct filter_track<C> &track) {
    const int i = unit * FILTER_WG_ROWS + filter_row();
    const bool may = s.tail < 0 && a.labels;
    int best[2];
    struct filter_ends q;
    bool all;
    filter_quick_best(track, best);
    if constexpr (filter_decides(MODE)) {
        all = filter_quick_decided(may, facts, best, track, &q);
    } else {
        const struct filter_view most = filter_get_bounds(a, s.problem, bounds);
        all = filter_quick_known(may && filter_worth(most) == 0, best, track, &q);
    }
    filter_put_labels(a, s.problem, i, all, q);
    return all;
}

/* The end of a unit's rows: merge if they were cut, write. */
template <class S, int MODE, int C>
static __device__ __forceinline__ void
filter_conclude(const struct filter_args &a, const struct filter_segment &s,
                const struct filter_warpgroup &wg, int unit, struct filter_row_facts facts,
                const struct filter_track<C> &track) {
    constexpr bool LIST = filter_lists(MODE);
    const int i = unit * FILTER_WG_ROWS + filter_row() + 8 * filter_half();
    if constexpr (filter_quick<S, MODE>()) {
        if (filter_decides(MODE) && s.t1 - s.t0 == 1)
            facts = filter_quick_errors<S>(a, s.problem, wg.bounds, facts);
        if (filter_conclude_quick<S, MODE>(a, s, unit, wg.bounds, facts, track))
            return;
    }
    struct filter_found f[1] = {filter_gather_half<MODE>(track)};
    if (s.tail >= 0 &&
        !filter_merge<S>(a, filter_tail_of<S, LIST>(a), s.tail, unit % S::UNITS, wg, f))
        return;
    const struct filter_view most = filter_get_bounds(a, s.problem, wg.bounds);
    float error = filter_worth(most);
    if constexpr (filter_decides(MODE))
        error =
            filter_quick<S, MODE>() ? facts.norm : filter_error(a, most, facts.norm, facts.loss);
    filter_finish<S, MODE, 2>(a, {s.problem, i}, error, most, wg.opens, f[0]);
}

/* A warpgroup keeps its problem's bounds in shared memory; one thread writes them. */
static __device__ __forceinline__ void filter_put_bounds(const struct filter_view &b, int wg,
                                                         uint32_t at) {
    hf_bar_sync(1 + wg, 128); /* nobody needs the last ones any more */
    if ((threadIdx.x & 127) == 0)
        asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(at), "f"(b.reach_base),
                     "f"(b.lost), "f"(b.up), "f"(0.0f)
                     : "memory");
    hf_bar_sync(1 + wg, 128);
}

#endif
