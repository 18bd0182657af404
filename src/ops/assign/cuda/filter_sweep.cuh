/* SPDX-License-Identifier: Apache-2.0
 * What is done with the accumulators of one tile: 64 rows x NT centroids, float d[NT / 2] a
 * thread. */
#ifndef HF_ASSIGN_FILTER_SWEEP_CUH
#define HF_ASSIGN_FILTER_SWEEP_CUH

#include "ops/assign/cuda/filter_rows.cuh"
#include "device/cuda/ptx.cuh"

/* One pair of neighbouring columns of row r. Copies are additions of -0: they go to the pipe that
 * the comparisons leave idle (a predicated move would not; and a maximum for best, though it need
 * not wait for the predicate, was 10 % slower: that pipe has half the rate). */
template <int MODE>
static __device__ __forceinline__ void filter_pair(struct filter_track<2> *t, int r,
                                                   const float (&v)[2], float base, float j,
                                                   float minus_zero) {
    const float m = fmaxf(v[0], v[1]);
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
                     : "+f"(t->best[r]), "+f"(t->place[r]), "+f"(t->value[r][0]), "+f"(t->second[r])
                     : "f"(m), "f"(base), "f"(j), "f"(minus_zero), "f"(v[0]), "f"(v[1]));
    else
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     "setp.gt.f32 p, %3, %0;\n"
                     "@p add.f32 %0, %3, %6;\n"
                     "@p add.f32 %1, %4, %5;\n"
                     "@p sub.f32 %2, %7, %8;\n"
                     "}"
                     : "+f"(t->best[r]), "+f"(t->place[r]), "+f"(t->value[r][0])
                     : "f"(m), "f"(base), "f"(j), "f"(minus_zero), "f"(v[0]), "f"(v[1]));
}

static __device__ __forceinline__ int filter_max3(float a, float b, float c) {
    return __vimax3_s32(__float_as_int(a), __float_as_int(b), __float_as_int(c));
}

/* The same for four columns; compared as integers, two at once. */
template <int MODE>
static __device__ __forceinline__ void filter_four(struct filter_track<4> *t, int r,
                                                   const float (&v)[4], float base, float j,
                                                   float minus_zero) {
    const int m = max(filter_max3(v[0], v[1], v[2]), __float_as_int(v[3]));
    float(&k)[4] = t->value[r];
    if constexpr (filter_decides(MODE))
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     ".reg .b32 b, s;\n"
                     "mov.b32 b, %0;\n"
                     "setp.gt.s32 p, %7, b;\n"
                     "mov.b32 s, %2;\n"
                     "@!p max.s32 s, s, %7;\n"
                     "mov.b32 %2, s;\n"
                     "@p add.f32 %2, %0, %10;\n"
                     "@p add.f32 %0, %11, %10;\n"
                     "@p add.f32 %1, %8, %9;\n"
                     "@p add.f32 %3, %12, %10;\n"
                     "@p add.f32 %4, %13, %10;\n"
                     "@p add.f32 %5, %14, %10;\n"
                     "@p add.f32 %6, %15, %10;\n"
                     "}"
                     : "+f"(t->best[r]), "+f"(t->place[r]), "+f"(t->second[r]), "+f"(k[0]),
                       "+f"(k[1]), "+f"(k[2]), "+f"(k[3])
                     : "r"(m), "f"(base), "f"(j), "f"(minus_zero), "f"(__int_as_float(m)),
                       "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]));
    else
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     ".reg .b32 b;\n"
                     "mov.b32 b, %0;\n"
                     "setp.gt.s32 p, %5, b;\n"
                     "@p add.f32 %0, %9, %8;\n"
                     "@p add.f32 %1, %6, %7;\n"
                     "@p add.f32 %2, %10, %8;\n"
                     "@p add.f32 %3, %11, %8;\n"
                     "@p add.f32 %4, %12, %8;\n"
                     "}"
                     : "+f"(t->best[r]), "+f"(t->place[r]), "+f"(k[0]), "+f"(k[1]), "+f"(k[2])
                     : "r"(m), "f"(base), "f"(j), "f"(minus_zero), "f"(__int_as_float(m)),
                       "f"(v[0]), "f"(v[1]), "f"(v[2]));
}

/* And for eight. */
template <int MODE>
static __device__ __forceinline__ void filter_eight(struct filter_track<8> *t, int r,
                                                    const float (&v)[8], float base, float j,
                                                    float minus_zero) {
    const int half = filter_max3(v[3], v[4], v[5]);
    const int m = max(__vimax3_s32(filter_max3(v[0], v[1], v[2]), half, __float_as_int(v[6])),
                      __float_as_int(v[7]));
    float(&k)[8] = t->value[r];
    if constexpr (filter_decides(MODE))
        asm volatile(
            "{\n"
            ".reg .pred p;\n"
            ".reg .b32 b, s;\n"
            "mov.b32 b, %0;\n"
            "setp.gt.s32 p, %11, b;\n"
            "mov.b32 s, %2;\n"
            "@!p max.s32 s, s, %11;\n"
            "mov.b32 %2, s;\n"
            "@p add.f32 %2, %0, %14;\n"
            "@p add.f32 %0, %15, %14;\n"
            "@p add.f32 %1, %12, %13;\n"
            "@p add.f32 %3, %16, %14;\n"
            "@p add.f32 %4, %17, %14;\n"
            "@p add.f32 %5, %18, %14;\n"
            "@p add.f32 %6, %19, %14;\n"
            "@p add.f32 %7, %20, %14;\n"
            "@p add.f32 %8, %21, %14;\n"
            "@p add.f32 %9, %22, %14;\n"
            "@p add.f32 %10, %23, %14;\n"
            "}"
            : "+f"(t->best[r]), "+f"(t->place[r]), "+f"(t->second[r]), "+f"(k[0]), "+f"(k[1]),
              "+f"(k[2]), "+f"(k[3]), "+f"(k[4]), "+f"(k[5]), "+f"(k[6]), "+f"(k[7])
            : "r"(m), "f"(base), "f"(j), "f"(minus_zero), "f"(__int_as_float(m)), "f"(v[0]),
              "f"(v[1]), "f"(v[2]), "f"(v[3]), "f"(v[4]), "f"(v[5]), "f"(v[6]), "f"(v[7]));
    else
        asm volatile("{\n"
                     ".reg .pred p;\n"
                     ".reg .b32 b;\n"
                     "mov.b32 b, %0;\n"
                     "setp.gt.s32 p, %9, b;\n"
                     "@p add.f32 %0, %13, %12;\n"
                     "@p add.f32 %1, %10, %11;\n"
                     "@p add.f32 %2, %14, %12;\n"
                     "@p add.f32 %3, %15, %12;\n"
                     "@p add.f32 %4, %16, %12;\n"
                     "@p add.f32 %5, %17, %12;\n"
                     "@p add.f32 %6, %18, %12;\n"
                     "@p add.f32 %7, %19, %12;\n"
                     "@p add.f32 %8, %20, %12;\n"
                     "}"
                     : "+f"(t->best[r]), "+f"(t->place[r]), "+f"(k[0]), "+f"(k[1]), "+f"(k[2]),
                       "+f"(k[3]), "+f"(k[4]), "+f"(k[5]), "+f"(k[6])
                     : "r"(m), "f"(base), "f"(j), "f"(minus_zero), "f"(__int_as_float(m)),
                       "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "f"(v[4]), "f"(v[5]), "f"(v[6]));
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

/* The same biases as what accumulators begin with. TWICE: they lie there twice,
 * [NT / 8][4 lanes][4]: twice the loads, but no copies. */
template <int NT, bool TWICE>
static __device__ __forceinline__ void filter_begin_bias(float (&d)[NT / 2], uint32_t bias) {
    constexpr int EACH = TWICE ? 4 : 8; /* accumulators of one load */
#pragma unroll
    for (int g = 0; g < NT / 2 / EACH; g++) {
        const float4 b = hf_lds4(bias + g * 64 + (threadIdx.x & 3) * 16);
        const float from[8] = {b.x, b.y, TWICE ? b.z : b.x, TWICE ? b.w : b.y, b.z, b.w, b.z, b.w};
#pragma unroll
        for (int i = 0; i < EACH; i++)
            d[EACH * g + i] = from[i];
    }
}

/* Keep the best. tile: number of the tile in its problem. */
template <int NT, int MODE, int CHUNK>
static __device__ __forceinline__ void
filter_keep(const float (&d)[NT / 2], int tile, float minus_zero, struct filter_track<CHUNK> *t) {
    /* The first chunk's number, once for each row so that the compiler cannot know them to be
     * equal: it would add once for both rows and then need a select for each. */
    const float first = filter_place(tile * (NT / 4 / CHUNK));
    const float base[2] = {first, first + minus_zero};
#pragma unroll
    for (int c = 0; c < NT / 4 / CHUNK; c++)
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float v[CHUNK];
#pragma unroll
            for (int i = 0; i < CHUNK; i++)
                v[i] = d[c * CHUNK * 2 + i / 2 * 4 + 2 * r + i % 2];
            if constexpr (CHUNK == 2)
                filter_pair<MODE>(t, r, v, base[r], (float)c, minus_zero);
            else if constexpr (CHUNK == 4)
                filter_four<MODE>(t, r, v, base[r], (float)c, minus_zero);
            else
                filter_eight<MODE>(t, r, v, base[r], (float)c, minus_zero);
        }
}

/* What is known of an open row of whose candidates some may fall away yet. */
struct filter_listed {
    float lower; /* the score of its label is at least that but for rounding; -Inf: not known */
    float norm, loss;
};

/* The threshold is the best score less twice the error of all centroids; here only that of the one
 * which has it counts. */
static __device__ __forceinline__ struct filter_listed
filter_listed_row(const struct filter_args &a, const struct filter_view &bounds, int problem,
                  int place, float threshold) {
    struct filter_listed l = {-INFINITY, 0, a.loss};
    if (!a.rows.norm || !(threshold > -FLT_MAX))
        return l;
    const int64_t at = problem * a.rows.n + a.rows.list[problem * a.out.open.cap + place];
    const struct filter_fact label =
        a.facts[(int64_t)problem * a.infos_per_problem * FILTER_CHUNK + a.found[at]];
    l.norm = a.rows.norm[at];
    l.loss = a.rows.loss ? a.rows.loss[at] : l.loss;
    l.lower = threshold + 2 * filter_error(a, bounds, l.norm, l.loss) * (1 - 0x1p-20f) -
              filter_error_of(a, l.norm, l.loss, label.rc, label.length, bounds.up);
    l.lower -= fabsf(l.lower) * 0x1p-20f;
    return l;
}

/* Can a centroid with that score be the nearest, by the error of its own? */
static __device__ __forceinline__ bool filter_stays(const struct filter_args &a,
                                                    const struct filter_listed &l, float up,
                                                    const struct filter_fact *fact, float score) {
    const struct filter_fact own = *fact;
    const float e = filter_error_of(a, l.norm, l.loss, own.rc, own.length, up);
    return !(score + e + fabsf(score) * 0x1p-20f < l.lower);
}

/* A lane's two open rows, of which candidates are listed. */
struct filter_open_pair {
    int problem;
    int place; /* of the first in the open list; the other is 8 behind */
    float threshold[2];
};

/* List the centroids that reach the thresholds of the two rows and, if ASK, stay. All lanes take
 * part: the four of a row count what they have, and one of them asks for places for all. An
 * addition for each centroid would take a trip to memory each. */
template <int NT, bool ASK>
static __device__ __forceinline__ void
filter_list(const struct filter_args &a, const float (&d)[NT / 2], int tile,
            const struct filter_open_pair &rows, const struct filter_view &bounds) {
    bool any = false;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        float m = d[2 * r];
#pragma unroll
        for (int j = 0; j < NT / 8; j++)
            m = fmaxf(m, fmaxf(d[4 * j + 2 * r], d[4 * j + 2 * r + 1]));
        any |= m >= rows.threshold[r];
    }
    if (!__any_sync(~0u, any))
        return;
    constexpr int WORDS = (NT / 4 + 31) / 32;
    const int lane = (int)(threadIdx.x & 3);
    uint32_t hits[2][WORDS] = {};
    int count = 0; /* of the first row, and 2^16 times that of the second */
    const struct filter_fact *const facts =
        a.facts + (int64_t)rows.problem * a.infos_per_problem * FILTER_CHUNK + tile * NT + lane * 2;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        struct filter_listed listed;
        if constexpr (ASK)
            listed =
                filter_listed_row(a, bounds, rows.problem, rows.place + 8 * r, rows.threshold[r]);
#pragma unroll
        for (int i = 0; i < NT / 4; i++) {
            const float score = d[i / 2 * 4 + 2 * r + i % 2];
            uint32_t hit = score >= rows.threshold[r];
            if (ASK && hit)
                hit = filter_stays(a, listed, bounds.up, facts + i / 2 * 8 + i % 2, score);
            hits[r][i / 32] |= hit << i % 32;
            count += (int)(hit << 16 * r);
        }
    }
    int end = count;
    for (int step = 1; step < 4; step *= 2) {
        const int before = __shfl_up_sync(~0u, end, step, 4);
        end += lane >= step ? before : 0;
    }
    const int all = __shfl_sync(~0u, end, 3, 4);
    const int wanted = lane < 2 ? all >> 16 * lane & 0xFFFF : 0;
    int begin = 0;
    if (wanted > 0)
        begin = atomicAdd(
            a.out.open.emitted + rows.problem * a.out.open.cap + rows.place + 8 * lane, wanted);
    const int64_t entry = rows.problem * a.limit + rows.place;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        int at = __shfl_sync(~0u, begin, r, 4) + ((end - count) >> 16 * r & 0xFFFF);
#pragma unroll
        for (int w = 0; w < WORDS; w++)
            for (uint32_t left = hits[r][w]; left != 0 && at < HF_FILTER_SLOTS; left &= left - 1) {
                const int i = w * 32 + __ffs((int)left) - 1;
                hf_slot_put(a.slots, entry + 8 * r, at++, tile * NT + i / 2 * 8 + lane * 2 + i % 2);
            }
    }
}

#endif
