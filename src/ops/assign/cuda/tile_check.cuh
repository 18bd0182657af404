/* SPDX-License-Identifier: Apache-2.0
 * The checksums of a warp's tile (cuda/tile_check.h). Padding, centroids that 16 bits do not hold
 * and rows without a finite norm are in none of them. */
#ifndef HF_ASSIGN_TILE_CHECK_CUH
#define HF_ASSIGN_TILE_CHECK_CUH

#include "device/cuda/slot_note.cuh"
#include "ops/assign/cuda/mma_kernel.cuh"
#include "ops/assign/cuda/tile_check.h"

#define TILE_SIDE 32
#define TILE_NEAR 0.25f /* a place this far from a whole number is none */

/* Behind the sums [2][dp] of a tile's centroids, plain and weighted by place. */
enum tile_note { TILE_START, TILE_PLACED, TILE_MASK, TILE_LONGEST, TILE_NOTES };

/* What a warp knows of its rows. */
struct tile_rows {
    float *sum;      /* [2][dp] shared memory, plain and weighted by row */
    unsigned in;     /* bit 2 m + half: this thread's row of 16 m + 8 half is in them */
    float rows;      /* how many are, */
    float places;    /* the sum of their weights, */
    float most;      /* and their longest */
    unsigned looked; /* tiles */
};

/* What is struck, for campaigns: once, in a tile of the launch. */
struct tile_strike {
    int64_t row; /* -1: nothing */
    int column;
    uint32_t mask;
    unsigned *struck; /* counts */
};

/* The argument of mma_unit() that makes the checks; strike is looked at where STRIKES. */
template <bool CHECKS_, bool STRIKES_> struct tile_watch {
    static constexpr bool CHECKS = CHECKS_, STRIKES = STRIKES_;
    struct hf_tile_check check;
    struct tile_strike strike;
    struct tile_rows rows;
};

static __device__ __forceinline__ float tile_total(float v) {
#pragma unroll
    for (int lane = 16; lane > 0; lane >>= 1)
        v += __shfl_xor_sync(~0u, v, lane);
    return v;
}

/* Of the warp's 32 rows from place `first` of the problem on; thread by thread as mma_fetch_rows()
 * has them. */
template <class S, bool C, bool T>
static __device__ __forceinline__ void
mma_watch_begin(const struct filter_args &a, int problem, int first, const uint8_t *memory,
                const uint32_t (&rows)[2][S::DP / 16][4], struct tile_watch<C, T> *watch) {
    if constexpr (C) {
        struct tile_rows *const own = &watch->rows;
        const int lane = (int)(threadIdx.x & 31), warp = (int)threadIdx.x / 32;
        float count = 0, places = 0, most = 0;
        own->sum = (float *)(memory + S::SHARED) + warp * 2 * S::DP;
        own->in = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float norm = filter_know<FILTER_TOP2>(a, problem, first + i * 8).norm;
            if (!(norm < INFINITY))
                continue;
            own->in |= 1u << i;
            count += 1;
            places += (float)(lane / 4 + i * 8 + 1);
            most = fmaxf(most, norm);
        }
        /* each row is in four threads */
        own->rows = tile_total(count) / 4;
        own->places = tile_total(places) / 4;
#pragma unroll
        for (int other = 16; other > 0; other >>= 1)
            most = fmaxf(most, __shfl_xor_sync(~0u, most, other));
        own->most = most;
        __syncwarp();
#pragma unroll
        for (int k = 0; k < S::DP / 8; k++) {
            float sum[4] = {0, 0, 0, 0};
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const uint32_t two = rows[i / 2][k / 2][i % 2 + 2 * (k % 2)];
                const float weight = (float)(lane / 4 + i * 8 + 1);
                const float low = (own->in >> i & 1) ? filter_widen<false>(two & 0xFFFF) : 0.0f;
                const float high = (own->in >> i & 1) ? filter_widen<false>(two >> 16) : 0.0f;
                sum[0] += low;
                sum[1] += high;
                sum[2] += weight * low;
                sum[3] += weight * high;
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
                for (int other = 16; other > 2; other >>= 1)
                    sum[i] += __shfl_xor_sync(~0u, sum[i], other);
            if (lane < 4) {
                own->sum[k * 8 + 2 * lane] = sum[0];
                own->sum[k * 8 + 2 * lane + 1] = sum[1];
                own->sum[S::DP + k * 8 + 2 * lane] = sum[2];
                own->sum[S::DP + k * 8 + 2 * lane + 1] = sum[3];
            }
        }
        __syncwarp();
    }
}

/* Score number e of 16-row block m, in this thread: its row and column in the tile. */
static __device__ __forceinline__ int tile_row(int m, int e) {
    return m * 16 + (int)(threadIdx.x & 31) / 4 + e % 4 / 2 * 8;
}

static __device__ __forceinline__ int tile_column(int e) {
    return e / 4 * 8 + 2 * (int)(threadIdx.x & 3) + e % 2;
}

static __device__ __forceinline__ bool tile_counts(const struct tile_rows &own, unsigned mask,
                                                   int m, int e) {
    return (own.in >> (2 * m + e % 4 / 2) & 1) != 0 && (mask >> tile_column(e) & 1) != 0;
}

/* By how much the three checksums differ: plain, by column, by row; in all lanes. */
template <int DP>
static __device__ __forceinline__ void tile_differ(const struct tile_rows &own, const float *sums,
                                                   const float (&d)[2][16], float (&by)[3]) {
    const float *const note = sums + 2 * DP;
    const unsigned mask = __float_as_uint(note[TILE_MASK]);
    float s[3] = {0, 0, 0};
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int e = 0; e < 16; e++) {
            const float v = tile_counts(own, mask, m, e) ? d[m][e] : 0.0f;
            s[0] += v;
            s[1] = fmaf((float)(tile_column(e) + 1), v, s[1]);
            s[2] = fmaf((float)(tile_row(m, e) + 1), v, s[2]);
        }
#pragma unroll
    for (int k = 0; k < DP; k += 32) {
        const int at = k + (int)(threadIdx.x & 31);
        const float x = own.sum[at], y = own.sum[DP + at];
        const float c = __ldg(sums + at), p = __ldg(sums + DP + at);
        s[0] = fmaf(-x, c, s[0]);
        s[1] = fmaf(-x, p, s[1]);
        s[2] = fmaf(-y, c, s[2]);
    }
    by[0] = tile_total(s[0]) - own.rows * note[TILE_START];
    by[1] = tile_total(s[1]) - own.rows * note[TILE_PLACED];
    by[2] = tile_total(s[2]) - own.places * note[TILE_START];
}

/* How far rounding may move the plain checksum. The matrix unit cuts off, always towards 0, so that
 * errors of the scores may all have one sign: a step of 16 columns 2^-22 of what a score can reach;
 * some more steps for the sums of this check. */
template <int DP>
static __device__ __forceinline__ float tile_most(const struct tile_rows &own, const float *sums) {
    const float longest = sums[2 * DP + TILE_LONGEST];
    const float reach = own.most * longest + longest * longest;
    return (float)(TILE_SIDE * TILE_SIDE * (DP / 16 + 8)) * 0x1p-22f * reach;
}

/* No more than rounding: a NaN is more. */
static __device__ __forceinline__ bool tile_right(const float (&by)[3], float most) {
    return fabsf(by[0]) <= most && fabsf(by[1]) <= TILE_SIDE * most &&
           fabsf(by[2]) <= TILE_SIDE * most;
}

/* The place of a wrong score, column + row * 32; -1: it is not one alone. In all lanes. */
template <int DP>
static __device__ int tile_locate(const struct tile_rows &own, const float *sums,
                                  const float (&d)[2][16], const float (&by)[3]) {
    const unsigned mask = __float_as_uint(sums[2 * DP + TILE_MASK]);
    int found = -1, count = 0;
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int e = 0; e < 16; e++)
            if (tile_counts(own, mask, m, e) && !(fabsf(d[m][e]) < INFINITY)) {
                found = tile_column(e) + TILE_SIDE * tile_row(m, e);
                count++;
            }
    count = __reduce_add_sync(~0u, count);
    if (count > 0)
        return count == 1 ? __reduce_max_sync(~0u, found) : -1;
    const float column = by[1] / by[0] - 1, row = by[2] / by[0] - 1;
    const bool near = fabsf(column - rintf(column)) < TILE_NEAR &&
                      fabsf(row - rintf(row)) < TILE_NEAR && column > -0.5f && row > -0.5f &&
                      column < TILE_SIDE - 0.5f && row < TILE_SIDE - 0.5f;
    return near ? (int)rintf(column) + TILE_SIDE * (int)rintf(row) : -1;
}

/* The score of a place becomes `to`. */
static __device__ __forceinline__ void tile_put(float (&d)[2][16], int at, float to) {
#pragma unroll
    for (int m = 0; m < 2; m++)
#pragma unroll
        for (int e = 0; e < 16; e++)
            if (tile_column(e) + TILE_SIDE * tile_row(m, e) == at)
                d[m][e] = to;
}

static __device__ void tile_tell(const struct hf_tile_check &check, int64_t row, int column,
                                 uint32_t behaviour) {
    const struct hf_event event = {
        {HF_FAULT_TILE, check.kernel, hf_slot_unit(), column, row}, behaviour, 0};
    hf_slot_note(check.slot, event);
    atomicAdd((unsigned long long *)&check.slot->confirmed, 1ull);
    atomicAdd((unsigned long long *)&check.slot->repaired, 1ull);
}

/* A tile whose checksums differ: the scores that it should have by them; -1: not one alone is
 * wrong. */
template <int DP>
static __device__ __noinline__ int tile_mend(const struct tile_rows &own, const float *sums,
                                             float (&d)[2][16]) {
    const float most = tile_most<DP>(own, sums);
    float t[2][16], by[3];
#pragma unroll
    for (int i = 0; i < 32; i++)
        t[i / 16][i % 16] = d[i / 16][i % 16];
    tile_differ<DP>(own, sums, t, by);
    const int at = tile_locate<DP>(own, sums, t, by);
    if (at < 0)
        return -1;
    tile_put(t, at, 0);
    tile_differ<DP>(own, sums, t, by);
    tile_put(t, at, -by[0]);
    tile_differ<DP>(own, sums, t, by);
    if (!tile_right(by, most))
        return -1;
#pragma unroll
    for (int i = 0; i < 32; i++)
        d[i / 16][i % 16] = t[i / 16][i % 16];
    return at;
}

/* The scores d of the warp's rows, from place `first` on, and of part `part` of tile t. */
template <class S, bool C, bool T>
static __device__ __forceinline__ void
mma_watch_tile(const struct mma_part &p, const uint32_t (&rows)[2][S::DP / 16][4],
               struct tile_watch<C, T> *watch, float (&d)[2][16]) {
    if constexpr (T) {
        const int64_t row = watch->strike.row - p.first;
        const int column = watch->strike.column - p.number * TILE_SIDE;
        if (row >= 0 && row < TILE_SIDE && column >= 0 && column < TILE_SIDE) {
#pragma unroll
            for (int m = 0; m < 2; m++)
#pragma unroll
                for (int e = 0; e < 16; e++)
                    if (tile_row(m, e) == row && tile_column(e) == column) {
                        d[m][e] = __uint_as_float(__float_as_uint(d[m][e]) ^ watch->strike.mask);
                        atomicAdd(watch->strike.struck, 1u);
                    }
        }
    }
    if constexpr (C) {
        struct tile_rows &own = watch->rows;
        const float *const sums = watch->check.sums + (int64_t)p.number * (2 * S::DP + TILE_NOTES);
        const bool first = (threadIdx.x & 31) == 0;
        float by[3];
        tile_differ<S::DP>(own, sums, d, by);
        own.looked++;
        if (__builtin_expect(tile_right(by, tile_most<S::DP>(own, sums)), 1))
            return;
        float t[2][16];
#pragma unroll
        for (int i = 0; i < 32; i++)
            t[i / 16][i % 16] = d[i / 16][i % 16];
        if (first)
            atomicAdd((unsigned long long *)&watch->check.slot->suspected, 1ull);
        const int at = tile_mend<S::DP>(own, sums, t);
        if (at >= 0) {
            if (first)
                tile_tell(watch->check, p.first + at / TILE_SIDE,
                          p.number * TILE_SIDE + at % TILE_SIDE, HF_BEHAVIOUR_UNKNOWN);
        } else { /* computed again */
            mma_scores<S>(p.tile, p.part * TILE_SIDE, rows, t);
            bool other = false;
#pragma unroll
            for (int i = 0; i < 32; i++)
                other |= __float_as_uint(t[i / 16][i % 16]) != __float_as_uint(d[i / 16][i % 16]);
            other = __any_sync(~0u, other);
            if (first && other)
                tile_tell(watch->check, p.first, -1, HF_BEHAVIOUR_TRANSIENT);
            if (first && !other)
                atomicAdd((unsigned long long *)&watch->check.slot->beyond, 1ull);
        }
#pragma unroll
        for (int i = 0; i < 32; i++)
            d[i / 16][i % 16] = t[i / 16][i % 16];
    }
}

/* A block is done: what it looked at is counted. */
template <bool C, bool T>
static __device__ __forceinline__ void mma_watch_end(const struct tile_watch<C, T> &watch) {
    if (C && (threadIdx.x & 31) == 0 && watch.rows.looked > 0)
        atomicAdd((unsigned long long *)&watch.check.slot->checked,
                  (unsigned long long)watch.rows.looked);
}

#endif
