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
    if constexpr (MODE != FILTER_BEST)
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

/* Keep the best. tile: number of the tile in its problem. */
template <int NT, int MODE>
static __device__ __forceinline__ void filter_keep(const float (&d)[NT / 2], int tile,
                                                   float minus_zero, struct filter_track *t) {
    /* Two that the compiler cannot know to be equal: it would add once for both rows and then need
     * a select for each. */
    const float first = (float)(tile * (NT / 8));
    const float base[2] = {first, first + minus_zero};
#pragma unroll
    for (int j = 0; j < NT / 8; j++)
#pragma unroll
        for (int r = 0; r < 2; r++)
            filter_pair<MODE>(t, r, d[4 * j + 2 * r], d[4 * j + 2 * r + 1], base[r], (float)j,
                              minus_zero);
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
