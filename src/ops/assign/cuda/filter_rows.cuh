/* SPDX-License-Identifier: Apache-2.0
 * What a filter kernel knows of a row between tiles and at the end: its best centroids, its error
 * bound, what is written. A thread looks at two rows, lane / 4 and lane / 4 + 8 of its warp's 16;
 * after filter_gather() the four lanes of a row know the same. */
#ifndef HF_ASSIGN_FILTER_ROWS_CUH
#define HF_ASSIGN_FILTER_ROWS_CUH

#include "ops/assign/cuda/filter_schedule.cuh"
#include "device/cuda/ptx.cuh"
#include <cuda_fp16.h>
#include <float.h>

/* The best of the tiles so far of one thread's columns, looked at in chunks of CHUNK columns (those
 * with the same number in neighbouring groups of eight). place: the winning chunk; value: the
 * scores in it; of two columns their difference is enough. */
template <int CHUNK> struct filter_track {
    float best[2], place[2], second[2];
    float value[2][CHUNK == 2 ? 1 : CHUNK];
};

/* A row: its best centroid (lowest index among equals) and the best score of all others. */
struct filter_found {
    float best, second;
    int id;
};

/* What a kernel has at hand of a problem's filter_bounds. */
struct filter_view {
    float reach_base, lost, up;
    const struct filter_fact *most;
};

/* Places are counted in floats whose last bit is 1: their bits are numbers, too. */
#define FILTER_NO_PLACE 0x1p23f

static __device__ __forceinline__ float filter_place(int number) {
    return __int_as_float(__float_as_int(FILTER_NO_PLACE) + number);
}

static __device__ __forceinline__ int filter_place_number(float place) {
    return __float_as_int(place) - __float_as_int(FILTER_NO_PLACE);
}

/* Chunks of more than two are compared as integers: bits of positive scores. -0 is the least. */
template <int CHUNK>
static __device__ __forceinline__ void filter_track_begin(struct filter_track<CHUNK> *t) {
#pragma unroll
    for (int r = 0; r < 2; r++) {
        t->best[r] = t->second[r] = CHUNK == 2 ? -INFINITY : -0.0f;
        t->place[r] = FILTER_NO_PLACE;
#pragma unroll
        for (int i = 0; i < (CHUNK == 2 ? 1 : CHUNK); i++)
            t->value[r][i] = 0;
    }
}

/* Which of the winning chunk's columns it is (the first), and the best of its others. */
template <int CHUNK>
static __device__ __forceinline__ unsigned filter_winner(const struct filter_track<CHUNK> &t, int r,
                                                         float *second) {
    if constexpr (CHUNK == 2) {
        *second = t.best[r] - fabsf(t.value[r][0]);
        return t.value[r][0] < 0;
    }
    unsigned at = CHUNK - 1; /* whose value is kept only if the second best is wanted */
#pragma unroll
    for (int i = CHUNK - 2; i >= 0; i--)
        at = t.value[r][i] == t.best[r] ? (unsigned)i : at;
    *second = -INFINITY;
#pragma unroll
    for (int i = 0; i < CHUNK; i++)
        *second = fmaxf(*second, (unsigned)i == at ? -INFINITY : t.value[r][i]);
    return at;
}

static __device__ __forceinline__ void filter_join(struct filter_found *a, float best, float second,
                                                   int id) {
    a->second = fmaxf(fmaxf(a->second, second), fminf(a->best, best));
    const bool take = (int)(best > a->best) | ((int)(best == a->best) & (int)(id < a->id));
    a->best = take ? best : a->best;
    a->id = take ? id : a->id;
}

/* The best of a row from one lane, before others join. */
template <int MODE, int CHUNK>
static __device__ __forceinline__ struct filter_found
filter_own(const struct filter_track<CHUNK> &t, int r) {
    struct filter_found f;
    float others = -INFINITY;
    const unsigned at = filter_winner(t, r, &others);
    f.best = t.best[r];
    f.second = filter_decides(MODE) ? fmaxf(t.second[r], others) : -INFINITY;
    f.id = filter_place_number(t.place[r]) * (CHUNK * 4) +
           (int)(at / 2 * 8 + at % 2 + 2 * (threadIdx.x & 3));
    return f;
}

/* Join what the lane at distance `lane` knows. */
template <int MODE>
static __device__ __forceinline__ void filter_join_lane(struct filter_found *f,
                                                        const struct filter_found &sent, int lane) {
    const float best = __shfl_xor_sync(~0u, sent.best, lane);
    const int id = __shfl_xor_sync(~0u, sent.id, lane);
    float second = -INFINITY;
    if constexpr (filter_decides(MODE))
        second = __shfl_xor_sync(~0u, sent.second, lane);
    filter_join(f, best, second, id);
    if constexpr (!filter_decides(MODE))
        f->second = -INFINITY;
}

/* The row that a lane answers for at the end, of the two that it looks at. */
static __device__ __forceinline__ int filter_half(void) { return (int)threadIdx.x & 1; }

/* Bring the four lanes of both rows together: even lanes get the first row, odd ones the second. */
template <int MODE, int CHUNK>
static __device__ __forceinline__ struct filter_found
filter_gather_half(const struct filter_track<CHUNK> &t) {
    const struct filter_found first = filter_own<MODE>(t, 0), next = filter_own<MODE>(t, 1);
    const bool half = filter_half();
    struct filter_found f = {half ? next.best : first.best, half ? next.second : first.second,
                             half ? next.id : first.id};
    const struct filter_found sent = {half ? first.best : next.best,
                                      half ? first.second : next.second, half ? first.id : next.id};
    filter_join_lane<MODE>(&f, sent, 1);
    filter_join_lane<MODE>(&f, f, 2);
    return f;
}

/* Bring the four lanes of row r together. */
template <int MODE, int CHUNK>
static __device__ __forceinline__ struct filter_found
filter_gather(const struct filter_track<CHUNK> &t, int r) {
    struct filter_found f = filter_own<MODE>(t, r);
    filter_join_lane<MODE>(&f, f, 1);
    filter_join_lane<MODE>(&f, f, 2);
    return f;
}

/* What is kept of a row for others to join. */
static __device__ __forceinline__ float4 filter_part(const struct filter_found &f) {
    return make_float4(f.best, __int_as_float(f.id), f.second, 0);
}

static __device__ __forceinline__ void filter_join_part(struct filter_found *f,
                                                        const float4 &part) {
    filter_join(f, part.x, part.z, __float_as_int(part.y));
}

/* Join what blocks `first` to `last`, without `own`, left of a lane's rows. A block later than the
 * first has begun with this group, so only the first's slot must be asked for: divisions, and a
 * trip to memory for each part, took 1,000 cycles a block. parts: the first row's place in slot 0;
 * odd: 1 if the first block's part is its second one. */
template <int ROWS>
static __device__ __forceinline__ void filter_join_parts(const float4 *parts, int first, int last,
                                                         int own, int odd,
                                                         struct filter_found (&f)[ROWS]) {
    for (int c = first; c <= last; c += FILTER_AT_ONCE) {
        float4 part[FILTER_AT_ONCE][ROWS];
#pragma unroll
        for (int i = 0; i < FILTER_AT_ONCE; i++)
#pragma unroll
            for (int r = 0; r < ROWS; r++) {
                const int from = c + i, slot = 2 * from + (from == first ? odd : 0);
                part[i][r] = filter_part({-INFINITY, -INFINITY, INT32_MAX});
                if (from <= last && from != own)
                    part[i][r] = __ldcg(parts + slot * FILTER_MAX_WG * FILTER_WG_ROWS + 8 * r);
            }
#pragma unroll
        for (int i = 0; i < FILTER_AT_ONCE; i++)
#pragma unroll
            for (int r = 0; r < ROWS; r++)
                filter_join_part(&f[r], part[i][r]);
    }
}

static __device__ __forceinline__ struct filter_info filter_no_info(void) {
    struct filter_info info = {INFINITY, INFINITY, {}};
    return info;
}

/* The first level that has centroids of that length. */
static __device__ __forceinline__ int filter_level(float inverse, float length) {
    const int level = (__float_as_int(length * inverse) + 0x7FFFFF >> 23) - 126;
    return min(max(level, 0), FILTER_LEVELS);
}

/* Bounds from what all infos of a problem come to, but for `most`.
 *
 * reach_base: a row lies at most |x'| + least from the shortest centroid, so one longer than
 * 2 |x'| + least is not the nearest; with a little more, 2.25 |x'| + 1.25 least + length / 2, its
 * score stays below the nearest one's by more than the errors of both
 * (docs/numerics/gpu-filter.md).
 *
 * up: what makes the best score of most rows positive, as it is at least
 * -|x'| least - least^2 / 2. To move up by the longest centroid's bias would cost all rows the
 * accumulation's share of that. */
static __device__ __forceinline__ void filter_bounds_from(const struct filter_args &a, float least,
                                                          float lost, float cm,
                                                          struct filter_bounds *b) {
    b->reach_base = a.length > 0 ? 1.25f * least + 0.5f * a.length : INFINITY;
    b->lost = lost;
    b->up = 0;
    if (a.shifted)
        b->up = fminf(a.half * cm * cm,
                      a.length > 0 ? least * (8 * a.length + 0.5f * least) : INFINITY) *
                (1 + 0x1p-20f);
    b->unused = 0;
}

static __device__ __forceinline__ struct filter_view filter_view_of(const struct filter_bounds *b) {
    return {b->reach_base, b->lost, b->up, b->most};
}

/* f16's least normal number, where the exponent of smaller ones is taken to lie. */
#define FILTER_LEAST 0x1p-14f

/* E of a row and of centroids of that length and error, see cuda/filter.h; the last factor pays
 * for this arithmetic and for what the accumulation's error adds to its own terms. |x| <= norm,
 * |x'| at most norm + loss. Biases that are moved up begin between -half length^2 and up. The
 * reference's own roundings move its squares by a share of at most (d + 4) 2^-53 of
 * (|x'| + |c'|)^2, so scores by half of that: a.slack is twice as much. */
static __device__ __forceinline__ float filter_error_of(const struct filter_args &a, float norm,
                                                        float loss, float rc, float length,
                                                        float up) {
    const float apart = norm + loss + length, bias = fmaxf(a.half * length * length, up);
    const float e = norm * rc + loss * length +
                    a.acc * ((norm + FILTER_LEAST) * (length + rc + FILTER_LEAST) + bias) +
                    a.slack * apart * apart + a.tiny;
    return e * (1 + 0x1p-10f);
}

/* No centroid longer than that is the nearest of a row. */
static __device__ __forceinline__ float filter_reach(const struct filter_view &b, float norm,
                                                     float loss) {
    return fmaf(2.25f, norm + loss, b.reach_base);
}

/* E of a row and all centroids that may be its nearest. Inf where a lost one may be. */
static __device__ __forceinline__ float
filter_error(const struct filter_args &a, const struct filter_view &b, float norm, float loss) {
    const float reach = filter_reach(b, norm, loss);
    const struct filter_fact most = b.most[filter_level(a.inverse, reach)];
    const float e = filter_error_of(a, norm, loss, most.rc, fminf(most.length, reach), b.up);
    return reach < b.lost || !(b.lost < INFINITY) ? e : INFINITY;
}

/* No centroid beyond a row's reach scores more than that. */
static __device__ __forceinline__ float filter_beyond(const struct filter_view &b, float norm,
                                                      float loss) {
    const float reach = filter_reach(b, norm, loss);
    const float most = reach * fmaf(-0.5f, reach, (norm + loss) * (1 + 0x1p-20f));
    return reach < b.most[FILTER_LEVELS].length || b.lost < INFINITY ? most + fabsf(most) * 0x1p-20f
                                                                     : -INFINITY;
}

/* What a score must reach to matter: best less 2 E. 2^-22: the differences and gap are rounded. */
static __device__ __forceinline__ float filter_threshold(float best, float error) {
    return best - 2 * error - fabsf(best) * 0x1p-22f;
}

/* Open rows of a warp wait in shared memory until some have come together: to wait for an atomic at
 * each unit's end would cost as much as a tile. */
struct filter_open_rows {
    uint32_t at; /* [FILTER_WARP_OPEN] rows and thresholds */
    int count;
};

static __device__ __forceinline__ void filter_open_flush(const struct filter_args &a, int problem,
                                                         struct filter_open_rows *opens) {
    const struct hf_filter_open &list = a.out.open;
    const int lane = (int)(threadIdx.x & 31);
    if (opens->count == 0)
        return;
    __syncwarp();
    int at = 0;
    if (lane == 0)
        at = atomicAdd(list.count + problem, opens->count);
    at = __shfl_sync(~0u, at, 0) + lane;
    if (lane < opens->count && at < list.cap) {
        const int64_t entry = problem * list.cap + at;
        int row;
        float threshold;
        asm volatile("ld.shared.v2.b32 {%0, %1}, [%2];"
                     : "=r"(row), "=f"(threshold)
                     : "r"(opens->at + (uint32_t)lane * 8)
                     : "memory");
        list.row[entry] = row;
        list.threshold[entry] = threshold;
        if (list.emitted)
            list.emitted[entry] = 0;
    }
    opens->count = 0;
    __syncwarp();
}

/* All lanes; those with open have one. */
static __device__ __forceinline__ void filter_open(const struct filter_args &a, int problem,
                                                   int row, bool open, float threshold,
                                                   struct filter_open_rows *opens) {
    const unsigned mask = __ballot_sync(~0u, open);
    if (mask == 0)
        return;
    if (opens->count + __popc(mask) > FILTER_WARP_OPEN)
        filter_open_flush(a, problem, opens);
    const int place = opens->count + __popc(mask & ((1u << (threadIdx.x & 31)) - 1));
    if (open)
        asm volatile("st.shared.v2.b32 [%0], {%1, %2};" ::"r"(opens->at + (uint32_t)place * 8),
                     "r"(row), "f"(threshold)
                     : "memory");
    opens->count += __popc(mask);
}

/* The float that 16 bits stand for. */
template <bool BF16> static __device__ __forceinline__ float filter_widen(uint32_t bits) {
    if constexpr (BF16)
        return __int_as_float((int)(bits << 16));
    return __half2float(__ushort_as_half((unsigned short)bits));
}

/* Rows of bf16 as f16, in registers: exact from 2^-14 on, off by at most 2^-25 below. */
template <int STEPS>
static __device__ __forceinline__ void filter_halve_rows(uint32_t (&rows)[STEPS][4]) {
#pragma unroll
    for (int i = 0; i < STEPS * 4; i++) {
        const uint32_t two = rows[i / 4][i % 4];
        const __half2 h =
            __floats2half2_rn(filter_widen<true>(two & 0xFFFF), filter_widen<true>(two >> 16));
        rows[i / 4][i % 4] = *(const uint32_t *)&h;
    }
}

/* The bias of place `slot` of a packed tile. */
template <class S>
static __device__ __forceinline__ float filter_bias_of(const struct filter_args &a,
                                                       const uint8_t *tile, int slot) {
    constexpr int bytes = S::BIAS_STEP ? (int)FILTER_BIAS_STEP : S::TWICE ? 8 : 4;
    const uint8_t *const at = tile + a.tile_bytes - S::NT * bytes;
    if constexpr (S::TWICE)
        return ((const float *)at)[slot / 8 * 16 + slot % 8 / 2 * 4 + slot % 2];
    if constexpr (!S::BIAS_STEP)
        return (
            (const float *)at)[slot / 16 * 16 + slot % 8 / 2 * 4 + slot % 16 / 8 * 2 + slot % 2];
    const uint16_t *const piece = (const uint16_t *)(at + slot / 8 * 256 + slot % 8 * 16);
    return filter_widen<false>(a.one[0]) * filter_widen<false>(piece[0]) +
           (filter_widen<false>(a.one[0] >> 16) * filter_widen<false>(piece[1]) +
            filter_widen<false>(a.one[1]) * filter_widen<false>(piece[2]));
}

/* One row's best by plain arithmetic, a whole warp at it: for rows without a positive score, of
 * which bits say nothing. */
template <class S>
static __device__ __forceinline__ struct filter_found filter_plainly(const struct filter_args &a,
                                                                     int problem, int row) {
    const uint16_t *const x = (const uint16_t *)a.rows.x16 + (problem * a.rows.n + row) * a.rows.ld;
    const uint8_t *const tiles = a.tiles + (int64_t)problem * a.tiles_per_problem * a.tile_bytes;
    struct filter_found f = {-INFINITY, -INFINITY, 0};
    for (int j = (int)(threadIdx.x & 31); j < a.tiles_per_problem * S::NT; j += 32) {
        const uint8_t *const tile = tiles + (int64_t)(j / S::NT) * a.tile_bytes;
        const int slot = j % S::NT;
        float sum = filter_bias_of<S>(a, tile, slot);
        for (int column = 0; column < a.rows.d; column++) {
            const int flip = S::SWIZZLE == 128 ? slot & 7 : slot >> 1 & 3;
            const int width = S::SWIZZLE / 2, in = column % width;
            const int at = column / width * S::NT * S::SWIZZLE + slot * S::SWIZZLE +
                           ((in / 8 ^ flip) << 4) + column % 8 * 2;
            sum = fmaf(filter_widen<S::BF16>(x[column]),
                       filter_widen<false>(*(const uint16_t *)(tile + at)), sum);
        }
        filter_join(&f, sum, -INFINITY, j);
    }
#pragma unroll
    for (int lane = 1; lane < 32; lane <<= 1) {
        const float best = __shfl_xor_sync(~0u, f.best, lane);
        filter_join(&f, best, -INFINITY, __shfl_xor_sync(~0u, f.id, lane));
    }
    return f;
}

/* BEST: is the answer worth nothing, as 16 bits do not hold all centroids? */
static __device__ __forceinline__ float filter_worth(const struct filter_view &b) {
    return b.lost < INFINITY ? INFINITY : 0.0f;
}

/* A row: its problem, and its place there or in the problem's list. */
struct filter_entry {
    int problem, place;
};

/* The end of a row: all lanes of a warp; the first LANES of four write a row each. BEST: error is
 * filter_worth(); open are rows where it is Inf, and those without a finite score. */
template <class S, int MODE, int LANES = 1>
static __device__ __forceinline__ void
filter_finish(const struct filter_args &a, const struct filter_entry &entry, float error,
              const struct filter_view &bounds, struct filter_open_rows *opens,
              struct filter_found f) {
    const int problem = entry.problem, i = entry.place;
    const float shift = bounds.up;
    constexpr bool LIST = filter_lists(MODE);
    const int lane = (int)(threadIdx.x & 3);
    const bool mine = lane < LANES && i < filter_rows_of<LIST>(a, problem);
    bool open = false;
    float threshold = NAN;
    int row = i;
    if (mine && LIST)
        row = a.rows.list[problem * a.rows.n + i];
    const int64_t at = problem * a.rows.n + row;
    /* Bits of negative scores have another order: nothing is known of a row that has no others, and
     * of its second best only that it is not positive. */
    const bool unknown = filter_chunks(MODE) && !(f.best >= 0);
    if constexpr (!filter_decides(MODE))
        open = mine && (unknown || !(fabsf(f.best) + error < INFINITY));
    if constexpr (MODE == FILTER_BEST_CHUNK) {
        const unsigned odd = __ballot_sync(~0u, mine && unknown);
        for (unsigned left = odd; left != 0; left &= left - 1) {
            const int from = __ffs((int)left) - 1;
            const struct filter_found plain =
                filter_plainly<S>(a, problem, __shfl_sync(~0u, row, from));
            if ((int)(threadIdx.x & 31) == from) {
                f = plain;
                f.best += S::BIAS_STEP ? shift : 0.0f; /* others are packed with it */
            }
        }
    }
    if (mine) {
        /* of unknown rows it may be padding's */
        a.out.label[at] = filter_decides(MODE) && unknown ? 0 : f.id;
        if (a.out.best)
            a.out.best[at] = f.best - shift;
    }
    if constexpr (filter_decides(MODE)) {
        const float second = filter_chunks(MODE) ? fmaxf(f.second, 0.0f) : f.second;
        if (mine && a.out.second) /* then rows have norms */
            a.out.second[at] =
                fmaxf(second - shift, filter_beyond(bounds, a.rows.norm[at],
                                                    a.rows.loss ? a.rows.loss[at] : a.loss));
        if (mine && a.out.error)
            a.out.error[at] = error;
        threshold = filter_threshold(f.best, error);
        open = mine && (unknown || !(second < threshold));
        if (unknown || !(threshold > -FLT_MAX))
            threshold = NAN;
    }
    if (!__any_sync(~0u, open))
        return;
    if (!filter_decides(MODE))
        open = open && a.out.open.count && !(fabsf(f.best) + error < INFINITY);
    for (int turn = 0; turn < LANES; turn++)
        filter_open(a, problem, row, open && lane == turn, threshold, opens);
}

/* The place of this thread's first row in its unit. */
static __device__ __forceinline__ int filter_row(void) {
    return (int)(threadIdx.x & 127) / 32 * 16 + (int)(threadIdx.x & 31) / 4;
}

/* A consumer warpgroup of a block. */
struct filter_warpgroup {
    int number;
    uint32_t flag, bounds;          /* shared memory: a word; the problem's bounds */
    struct filter_open_rows *opens; /* of this thread's warp */
};

/* The last of the blocks that share a cut group merges all parts of its unit `unit`; others leave.
 * ROWS: 2, a lane knows both of its rows; 1, the one it answers for. */
template <class S, int ROWS>
static __device__ __forceinline__ bool
filter_merge(const struct filter_args &a, const struct filter_tail &tail, int group, int unit,
             const struct filter_warpgroup &wg, struct filter_found (&f)[ROWS]) {
    const int tiles = a.tiles_per_problem;
    const int first = filter_tail_owner(tail, (int64_t)group * tiles);
    const int last = filter_tail_owner(tail, (int64_t)(group + 1) * tiles - 1);
    const int own = filter_block<S>(), slot = filter_tail_slot(tail, tiles, group, own);
    const int row = filter_row() + (ROWS == 1 ? 8 * filter_half() : 0);
    float4 *const parts = (float4 *)a.parts + unit * FILTER_WG_ROWS + row;
    for (int r = 0; r < ROWS; r++)
        if ((threadIdx.x & 3) < 3 - ROWS)
            parts[slot * FILTER_MAX_WG * FILTER_WG_ROWS + 8 * r] = filter_part(f[r]);
    __threadfence();
    hf_bar_sync(1 + wg.number, 128);
    int *const counter = a.counters + group * S::UNITS + unit;
    if ((threadIdx.x & 127) == 0) {
        const int others = atomicAdd(counter, 1);
        if (others == last - first)
            *counter = 0; /* for the next launch */
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(wg.flag), "r"(others) : "memory");
    }
    hf_bar_sync(1 + wg.number, 128);
    int others;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(others) : "r"(wg.flag) : "memory");
    if (others != last - first)
        return false;
    __threadfence();
    filter_join_parts(parts, first, last, own,
                      filter_tail_slot(tail, tiles, group, first) - 2 * first, f);
    return true;
}

/* What is loaded of a row before the tiles come and used after them: norm and loss, or, for emit,
 * its threshold. i: its place in the problem or its list. SKIP: look whether there is anything. */
struct filter_row_facts {
    float norm, loss;
};

template <int MODE, bool SKIP = false>
static __device__ __forceinline__ struct filter_row_facts filter_know(const struct filter_args &a,
                                                                      int problem, int i) {
    constexpr bool LIST = filter_lists(MODE);
    struct filter_row_facts f = {MODE == FILTER_EMIT ? NAN : 0.0f, a.loss};
    if (!filter_decides(MODE) && MODE != FILTER_EMIT)
        return f;
    if ((SKIP && MODE != FILTER_EMIT && a.unread) || i >= filter_rows_of<LIST>(a, problem))
        return f;
    if (MODE == FILTER_EMIT) {
        f.norm = a.out.open.threshold[problem * a.out.open.cap + i];
        return f;
    }
    const int row = LIST ? a.rows.list[problem * a.rows.n + i] : i;
    const int64_t at = problem * a.rows.n + row;
    f.norm = a.rows.norm ? a.rows.norm[at] : 0.0f;
    f.loss = a.rows.loss ? a.rows.loss[at] : f.loss;
    return f;
}

#endif
