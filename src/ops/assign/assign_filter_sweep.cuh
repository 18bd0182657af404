/* SPDX-License-Identifier: Apache-2.0
 * What is done with the accumulators of one tile: 64 rows x NT centroids, float d[NT / 2] a
 * thread. */
#ifndef HF_ASSIGN_FILTER_SWEEP_CUH
#define HF_ASSIGN_FILTER_SWEEP_CUH

#include "ops/assign/assign_filter_rows.cuh"
#include "device/cuda/ptx.cuh"

/* One pair of neighbouring columns of row r. m = max(v0, v1). Copies are additions of -0: they go
 * to the pipe that the comparisons leave idle (a predicated move would not). */
template <int MODE>
static __device__ __forceinline__ void filter_pair(struct filter_track *t, int r, float v0,
                                                   float v1, float base, float j,
                                                   float minus_zero) {
    const float m = fmaxf(v0, v1);
    if constexpr (filter_decides(MODE))
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "setp.gt.f32 p, %4, %0;\n"
                     "@!p max.f32 %3, %3, %4;\n"
                     "@p add.f32 %3, %0, %7;\n"
                     "@p add.f32 %0, %4, %7;\n"
                     "@p add.f32 %1, %5, %6;\n"
                     "@p sub.f32 %2, %8, %9;\n"
                     "}"
                     : "+f"(t->best[r]), "+f"(t->place[r]), "+f"(t->gap[r]), "+f"(t->second[r])
                     : "f"(m), "f"(base), "f"(j), "f"(minus_zero), "f"(v0), "f"(v1));
    else
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "setp.gt.f32 p, %3, %0;\n"
                     "@p add.f32 %0, %3, %6;\n"
                     "@p add.f32 %1, %4, %5;\n"
                     "@p sub.f32 %2, %7, %8;\n"
                     "}"
                     : "+f"(t->best[r]), "+f"(t->place[r]), "+f"(t->gap[r])
                     : "f"(m), "f"(base), "f"(j), "f"(minus_zero), "f"(v0), "f"(v1));
}

/* Add the biases that lie beside the tile: [NT / 16][4 lanes][4]. */
template <int NT>
static __device__ __forceinline__ void filter_add_bias(float (&d)[NT / 2], uint32_t bias) {
#pragma unroll
    for (int g = 0; g < NT / 16; g++) {
        const float4 b = hf_lds4(bias + g * 64 + (threadIdx.x & 3) * 16);
#pragma unroll
        for (int r = 0; r < 2; r++) {
            d[8 * g + 2 * r] += b.x;
            d[8 * g + 2 * r + 1] += b.y;
            d[8 * g + 4 + 2 * r] += b.z;
            d[8 * g + 4 + 2 * r + 1] += b.w;
        }
    }
}

/* Keep the best of column groups [J0, J1) of eight; base: number of the tile's first group, once for
 * each row, so that the compiler cannot know them to be equal: it would add once for both rows and
 * then need a select for each. */
template <int NT, int MODE, int J0, int J1>
static __device__ __forceinline__ void filter_keep(const float (&d)[NT / 2], const float (&base)[2],
                                                   float minus_zero, struct filter_track *t) {
#pragma unroll
    for (int j = J0; j < J1; j++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            filter_pair<MODE>(t, r, d[4 * j + 2 * r], d[4 * j + 2 * r + 1], base[r], (float)j,
                              minus_zero);
}

/* max of the bits of the scores of row r in groups [j0, j0 + 4), as integers: two at once, and in
 * the order of the scores as far as these are positive. */
template <int NT>
static __device__ __forceinline__ int filter_peak(const float (&d)[NT / 2], int j0, int r) {
    const int i = 4 * j0 + 2 * r;
    int m = max(__float_as_int(d[i]), __float_as_int(d[i + 1]));
#pragma unroll
    for (int j = 1; j < 4; j++)
        m = __vimax3_s32(m, __float_as_int(d[i + 4 * j]), __float_as_int(d[i + 4 * j + 1]));
    return m;
}

/* The same result (second: as far as it is within the margin) when few scores come near the best:
 * 32 columns are looked at closely only if one of the warp's rows has a score there above its limit:
 * the best of all its four lanes, less the margin. */
template <int NT, int MODE, int J0>
static __device__ __forceinline__ void filter_screen(const float (&d)[NT / 2],
                                                     const float (&base)[2], float minus_zero,
                                                     struct filter_track *t) {
    if constexpr (J0 < NT / 8) {
        const bool pass = (int)(filter_peak<NT>(d, J0, 0) > t->limit[0]) |
                          (int)(filter_peak<NT>(d, J0, 1) > t->limit[1]);
        if (__any_sync(~0u, pass)) {
            filter_keep<NT, MODE, J0, J0 + 4>(d, base, minus_zero, t);
#pragma unroll
            for (int r = 0; r < 2; r++) {
                float best = fmaxf(t->best[r], __shfl_xor_sync(~0u, t->best[r], 1));
                best = fmaxf(best, __shfl_xor_sync(~0u, best, 2));
                const float limit = MODE == FILTER_TOP2_SCREEN
                                        ? filter_threshold(best, t->margin[r])
                                        : best;
                /* Bits of negative scores have another order: all pass then. */
                t->limit[r] = limit >= 0 ? __float_as_int(limit) : INT_MIN;
            }
        }
        filter_screen<NT, MODE, J0 + 4>(d, base, minus_zero, t);
    }
}

/* tile: number of the tile in its problem. */
template <int NT, int MODE>
static __device__ __forceinline__ void filter_look(const float (&d)[NT / 2], int tile,
                                                   float minus_zero, struct filter_track *t) {
    const float first = (float)(tile * (NT / 8));
    const float base[2] = {first, first + minus_zero};
    if constexpr (filter_screens(MODE))
        filter_screen<NT, MODE, 0>(d, base, minus_zero, t);
    else
        filter_keep<NT, MODE, 0, NT / 8>(d, base, minus_zero, t);
}

/* List the centroids that reach the row's threshold; entry: of the open row, -1: none. */
template <int NT>
static __device__ __forceinline__ void filter_list(const struct filter_args &a,
                                                   const float (&d)[NT / 2], int tile, int r,
                                                   float threshold, int64_t entry) {
    float m = d[2 * r];
#pragma unroll
    for (int j = 0; j < NT / 8; j++)
        m = fmaxf(m, fmaxf(d[4 * j + 2 * r], d[4 * j + 2 * r + 1]));
    if (!(m >= threshold))
        return;
#pragma unroll
    for (int i = 0; i < NT / 4; i++) {
        if (!(d[i / 2 * 4 + 2 * r + i % 2] >= threshold))
            continue;
        const int at = atomicAdd(a.out.open.emitted + entry, 1);
        if (at < HF_FILTER_SLOTS)
            a.slots[entry * HF_FILTER_SLOTS + at] =
                tile * NT + i / 2 * 8 + (int)(threadIdx.x & 3) * 2 + i % 2;
    }
}

#endif
