/* SPDX-License-Identifier: Apache-2.0
 * The lists of a warp: open rows get labels from float64, rows with another label go from sum to
 * sum. Sums of the block are in halves of 32 bits, whose additions shared memory makes by itself:
 * the lower ones tell of a carry, so that together they are exact modulo 2^64 in any order. */
#ifndef HF_LLOYD_NARROW_FOLLOW_CUH
#define HF_LLOYD_NARROW_FOLLOW_CUH

#include "ops/assign/cuda/open/exact.cuh"
#include "ops/lloyd/sm90/narrow.cuh"
#include "ops/update/update_cuda.cuh"

/* How many entries of a warp's lists there are; how many rows changed and were open so far. */
struct narrow_lists {
    int p; /* the problem of all of them */
    int opens, moves, changed, rechecked;
};

template <int BYTES>
static __device__ __forceinline__ void narrow_copy(void *to, const void *from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(hf_shared(to)), "l"(from),
                 "n"(BYTES)
                 : "memory");
}

static __device__ __forceinline__ void narrow_commit(void) {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int LEFT> static __device__ __forceinline__ void narrow_arrived(void) {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* A row of the problem that gets another label if `moves`. */
struct narrow_change {
    bool moves;
    int row, from, to;
};

/* Rows that get another label, one a lane: it is written, and the row goes into the list. */
template <class S>
static __device__ __forceinline__ void
narrow_note(const struct small_args &a, struct small_memory<S> *m,
            const struct narrow_change &change, struct narrow_lists *lists) {
    const unsigned who = __ballot_sync(~0u, change.moves);
    if (who == 0)
        return;
    if (change.moves) {
        const int at = lists->moves + __popc(who & ((1u << threadIdx.x % 32) - 1));
        struct narrow_move move;
        move.row = change.row;
        move.clusters = (uint32_t)update_label(a.job.update, change.from) << 16 | /* from memory */
                        (uint32_t)change.to;
        m->move[threadIdx.x / 32][at] = move;
        a.job.labels[0][lists->p * a.job.update.n + change.row] = change.to;
    }
    lists->moves += __popc(who);
    lists->changed += __popc(who);
}

/* ---- open rows */

template <hf_dtype T, bool F64>
static __device__ __forceinline__ double narrow_distance(const char *x, const void *centers,
                                                         int64_t at, int d) {
    double sum = 0;
#pragma unroll 8
    for (int f = 0; f < d; f++)
        sum = __dadd_rn(sum, hf_exact_term<false>(hf_device_load<T>(x, f),
                                                  hf_exact_center<F64>(centers, at + f)));
    return sum;
}

/* The same of float32, four columns a load. */
static __device__ __forceinline__ double narrow_distance_wide(const char *x, const float *center,
                                                              int d) {
    double sum = 0;
#pragma unroll 4
    for (int f = 0; f < d; f += 4) {
        const float4 v = *(const float4 *)(x + f * 4), c = *(const float4 *)(center + f);
        sum = __dadd_rn(sum, hf_exact_term<false>(v.x, c.x));
        sum = __dadd_rn(sum, hf_exact_term<false>(v.y, c.y));
        sum = __dadd_rn(sum, hf_exact_term<false>(v.z, c.z));
        sum = __dadd_rn(sum, hf_exact_term<false>(v.w, c.w));
    }
    return sum;
}

/* The reference distance of a row of the problem to its centroid j. */
static __device__ __forceinline__ double narrow_exact(const struct small_args &a,
                                                      const void *centers, int p, int row, int j) {
    const struct hf_update_job &u = a.job.update;
    const char *const x = u.x + (p * u.n + row) * u.row_bytes;
    const int d = (int)u.d;
    const int64_t at = (p * u.k + j) * d;
    if (u.dtype == HF_F32 && d % 4 == 0 && a.job.rule.type == HF_F32 &&
        ((uintptr_t)u.x | (uintptr_t)u.row_bytes | (uintptr_t)centers) % 16 == 0)
        return narrow_distance_wide(x, (const float *)centers + at, d);
    switch (u.dtype) {
    case HF_F64:
        return narrow_distance<HF_F64, true>(x, centers, at, d);
    case HF_F32:
        return narrow_distance<HF_F32, false>(x, centers, at, d);
    case HF_F16:
        return narrow_distance<HF_F16, false>(x, centers, at, d);
    case HF_BF16:
        return narrow_distance<HF_BF16, false>(x, centers, at, d);
    default:
        return narrow_distance<HF_U8, false>(x, centers, at, d);
    }
}

/* The last of the open rows, up to 16, get their labels: a lane works out a distance. */
template <class S>
static __device__ __noinline__ void
narrow_settle(const struct small_args &a, struct small_memory<S> *m, struct narrow_lists *lists) {
    const int p = lists->p;
    const int lane = (int)threadIdx.x % 32, warp = (int)threadIdx.x / 32;
    const int rows = min(lists->opens, 16);
    const struct narrow_open *const open = m->open[warp] + (lists->opens - rows);
    uint32_t *const pair = m->pair[warp];
    double *const distance = m->distance[warp];
    const void *const centers = a.job.centers[m->moves & 1];
    uint32_t bits[2];
    __syncwarp();
#pragma unroll
    for (int r = 0; r < 2; r++)
        bits[r] = lane / 4 + 8 * r < rows ? open[lane / 4 + 8 * r].bits[lane & 3] : 0;
    struct hf_winner best = hf_winner_none();
    for (int left = small_pairs(bits, pair); left > 0; left = small_pairs(bits, pair)) {
        const int count = left < 32 ? left : 32;
        if (lane < count)
            distance[lane] =
                narrow_exact(a, centers, p, open[pair[lane] >> 16].row, (int)(pair[lane] & 0xffff));
        __syncwarp();
        for (int i = 0; i < count; i++)
            if ((int)(pair[i] >> 16) == lane)
                hf_winner_offer(&best, distance[i], (int32_t)(pair[i] & 0xffff));
        __syncwarp();
    }
    const int label = hf_winner_label(best);
    const int old = lane < rows ? open[lane].label : 0;
    const int row = lane < rows ? open[lane].row : 0;
    narrow_note(a, m, {lane < rows && label != old, row, old, label}, lists);
    lists->opens -= rows;
}

/* ---- sums */

static __device__ __forceinline__ uint32_t narrow_atomic(uint32_t at, uint32_t v) {
    uint32_t before;
    asm volatile("atom.shared.add.u32 %0, [%1], %2;" : "=r"(before) : "r"(at), "r"(v) : "memory");
    return before;
}

/* Where a block adds up, in shared memory. */
struct narrow_sums {
    uint32_t low, high; /* [limbs, k, d] */
    const double *mult; /* [d] */
};

/* q[i] to place at[i] of the block's sums, -1: nowhere. */
template <int COUNT>
static __device__ __forceinline__ void
narrow_add(const struct narrow_sums &sums, const int (&at)[COUNT], const int64_t (&q)[COUNT]) {
    uint32_t high[COUNT];
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
        const uint32_t low = (uint32_t)q[i];
        const uint32_t before = at[i] >= 0 ? narrow_atomic(sums.low + 4 * (uint32_t)at[i], low) : 0;
        high[i] = (uint32_t)((uint64_t)q[i] >> 32) + (before + low < low);
    }
#pragma unroll
    for (int i = 0; i < COUNT; i++)
        if (at[i] >= 0 && high[i] != 0)
            (void)narrow_atomic(sums.high + 4 * (uint32_t)at[i], high[i]);
}

/* Up to 32 moves of a problem: a lane has a column, DP lanes a row. Out of line, as it is rare and
 * long. */
template <int DP, hf_dtype T>
static __device__ __noinline__ void narrow_follow_as(const struct hf_update_job &u,
                                                     struct narrow_sums sums, int p,
                                                     const struct narrow_move *list, int count) {
    constexpr int AT_ONCE = 32 / DP, FLIGHT = 8;
    const int lane = (int)threadIdx.x % DP, d = (int)u.d, kd = (int)u.k * d;
    const bool mine = lane < d;
    const double mult = mine ? sums.mult[lane] : 0, scale = update_scale(u.bits);
    for (int base = (int)threadIdx.x % 32 / DP; base < count; base += AT_ONCE * FLIGHT) {
        double v[FLIGHT];
        int from[FLIGHT], to[FLIGHT];
        int64_t q[FLIGHT], minus[FLIGHT];
#pragma unroll
        for (int i = 0; i < FLIGHT; i++) {
            const int place = base + i * AT_ONCE;
            const struct narrow_move move = list[place < count ? place : 0];
            const int64_t row = p * u.n + move.row;
            const int old = (int)(int16_t)(move.clusters >> 16);
            v[i] = hf_device_load<T>(u.x + row * u.row_bytes, mine ? lane : 0);
            to[i] = mine && place < count ? (int)(move.clusters & 0xffff) * d + lane : -1;
            from[i] = to[i] >= 0 && old >= 0 ? old * d + lane : -1;
            if (u.factor != NULL)
                v[i] = __dmul_rn(v[i], u.factor[row]);
        }
        for (int limb = 0; limb < u.limbs; limb++) {
#pragma unroll
            for (int i = 0; i < FLIGHT; i++) {
                const double high = update_high(v[i], mult);
                q[i] = update_integer(limb == 0 ? high : update_low(v[i], mult, high, scale));
                minus[i] = -q[i];
                to[i] += limb > 0 && to[i] >= 0 ? kd : 0;
                from[i] += limb > 0 && from[i] >= 0 ? kd : 0;
            }
            narrow_add(sums, to, q);
            narrow_add(sums, from, minus);
        }
    }
}

template <int DP>
static __device__ __forceinline__ void
narrow_follow_any(const struct hf_update_job &u, const struct narrow_sums &sums, int p,
                  const struct narrow_move *list, int count) {
    switch (u.dtype) {
    case HF_F64:
        return narrow_follow_as<DP, HF_F64>(u, sums, p, list, count);
    case HF_F32:
        return narrow_follow_as<DP, HF_F32>(u, sums, p, list, count);
    case HF_F16:
        return narrow_follow_as<DP, HF_F16>(u, sums, p, list, count);
    case HF_BF16:
        return narrow_follow_as<DP, HF_BF16>(u, sums, p, list, count);
    default:
        return narrow_follow_as<DP, HF_U8>(u, sums, p, list, count);
    }
}

/* The last moves of the list, up to 32, to the sums. */
template <class S>
static __device__ __noinline__ void
narrow_follow(const struct small_args &a, struct small_memory<S> *m, struct narrow_lists *lists) {
    const int p = lists->p;
    const struct hf_update_job &u = a.job.update;
    const int lane = (int)threadIdx.x % 32, count = min(lists->moves, 32);
    const struct narrow_move *const list = m->move[threadIdx.x / 32] + (lists->moves - count);
    const struct narrow_sums sums = {hf_shared(m->low), hf_shared(m->high), m->mult};
    __syncwarp();
    if (lane < count) {
        const struct narrow_move move = list[lane];
        const int from = (int)(int16_t)(move.clusters >> 16), to = (int)(move.clusters & 0xffff);
        if (u.weight != NULL) {
            update_count_row(u, p * u.n + move.row, p, from, to);
        } else {
            atomicAdd(&m->count[to], 1);
            if (from >= 0)
                atomicAdd(&m->count[from], -1);
        }
    }
    narrow_follow_any<S::DP>(u, sums, p, list, count);
    lists->moves -= count;
    __syncwarp();
}

/* What is left in the lists; the counters of the iteration. */
template <class S>
static __device__ void narrow_end_lists(const struct small_args &a, struct small_memory<S> *m,
                                        struct narrow_lists *lists) {
    const int p = lists->p;
    while (lists->opens > 0)
        narrow_settle(a, m, lists);
    while (lists->moves > 0)
        narrow_follow(a, m, lists);
    if (threadIdx.x % 32 == 0 && lists->changed > 0)
        atomicAdd(&a.counters[p].changed, (unsigned long long)lists->changed);
    if (threadIdx.x % 32 == 0 && lists->rechecked > 0)
        atomicAdd(&a.counters[p].rechecked, (unsigned long long)lists->rechecked);
}

/* The block's sums to those of the problem, every block from another place on; then they are 0. */
template <class S>
static __device__ void narrow_put_sums(const struct small_args &a, struct small_memory<S> *m,
                                       const struct small_place &w) {
    const struct hf_update_job &u = a.job.update;
    const int size = u.limbs * (int)(u.k * u.d);
    int64_t *const sum = u.sum + (int64_t)w.p * size;
    const int begin = (int)((int64_t)size * w.g / a.blocks);
    for (int i = (int)threadIdx.x; i < size; i += S::THREADS) {
        const int at = begin + i < size ? begin + i : begin + i - size;
        const uint64_t q = (uint64_t)m->high[at] << 32 | m->low[at];
        if (q != 0)
            update_red(sum + at, (int64_t)q);
        m->low[at] = m->high[at] = 0;
    }
    for (int j = (int)threadIdx.x; j < (int)u.k; j += S::THREADS) {
        if (m->count[j] != 0)
            update_red(u.count + w.p * u.k + j, m->count[j]);
        m->count[j] = 0;
    }
}

#endif
