/* SPDX-License-Identifier: Apache-2.0
 * The second tier: sum (x - c)^2 of the candidates of open rows, in float32 or, where rows or
 * centroids are float64, in float64, added in any order. Its error is a share of the distance
 * itself, however long the vectors are, so it tells apart nearly all that the filter could not;
 * rows with candidates that it cannot tell apart either are left to hf_settle_pairs(). A warp takes
 * a row and some of its candidates at a time, a lane some columns. */
#include "device/cuda/chain.cuh"
#include "device/cuda/pack.cuh"
#include "ops/assign/cuda/bounds.cuh"
#include "ops/assign/cuda/open/settle.h"

#include <float.h>

#define THREADS 256
#define BLOCKS 2 /* of a multiprocessor: registers for more bytes under way rather than warps */
#define GROUP 8  /* candidates of a row side by side */

struct differ_job : hf_settle_job {
    double share, tiny; /* a sum is off by at most that share of itself, and by tiny */
};

/* What a lane knows of one of its warp's rows. */
struct differ_row {
    int32_t entry;  /* of the open list */
    int32_t row;    /* within the problem */
    int candidates; /* how many to compare, 0: none */
};

/* Entries first, first + 1, ... of a problem to the lanes, `each` of them; rows of which nothing is
 * known, or with candidates that are not all listed, go to s.rest. */
__device__ static struct differ_row take_row(const struct differ_job &job, int64_t b, int64_t first,
                                             int count, int each, bool bounded) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const struct hf_filter_open &open = job.s.open;
    const bool has_row = lane < each && first + lane < count;
    struct differ_row r;
    r.entry = static_cast<int32_t>(first + (has_row ? lane : 0));
    r.row = open.row[b * open.cap + r.entry];
    r.candidates = 0;
    const int emitted = open.emitted[b * open.cap + r.entry];
    const bool known = open.threshold[b * open.cap + r.entry] > -FLT_MAX; /* not -Inf, not NaN */
    if (has_row && known && emitted == 1 && !bounded)
        job.labels[b * job.n + r.row] = hf_slot_get(job.s.slots, b * open.cap + r.entry, 0);
    else if (has_row && known && emitted >= 1 && emitted <= HF_FILTER_SLOTS)
        r.candidates = emitted;
    else if (has_row)
        job.s.rest[b * job.n + atomicAdd(job.s.rest_count + b, 1)] = r.row;
    return r;
}

/* A lane's share of the sums of GROUP candidates, of which `count` are there: W columns at a time.
 * x, c: the row and the first centroid. */
template <hf_dtype X, hf_dtype C, int W, typename S>
__device__ __forceinline__ void add_columns(const char *x, const char *c, int d,
                                            const int32_t (&arg)[GROUP], int count,
                                            S (&sum)[GROUP]) {
    for (int j = static_cast<int>(threadIdx.x) % 32 * W; j < d; j += 32 * W) {
        const struct hf_pack<X, W> v =
            *reinterpret_cast<const struct hf_pack<X, W> *>(x + j * hf_device_bytes<X>);
        struct hf_pack<C, W> at[GROUP];
#pragma unroll
        for (int q = 0; q < GROUP; q++)
            if (q < count)
                at[q] = *reinterpret_cast<const struct hf_pack<C, W> *>(
                    c + (static_cast<int64_t>(arg[q]) * d + j) * hf_device_bytes<C>);
#pragma unroll
        for (int q = 0; q < GROUP; q++)
#pragma unroll
            for (int e = 0; e < W; e++) {
                const S apart = static_cast<S>(hf_widen<X>(v.e[e])) - static_cast<S>(at[q].e[e]);
                sum[q] = fma(apart, apart, sum[q]);
            }
    }
}

/* The sums of all lanes: that of candidate q to the lanes whose bits 4, 3 and 2 are those of q. */
template <typename S> __device__ __forceinline__ S fold_group(S (&sum)[GROUP]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int half = GROUP / 2, step = 16; half > 0; half /= 2, step /= 2)
#pragma unroll
        for (int q = 0; q < half; q++) {
            const bool upper = lane & step;
            const S sent = upper ? sum[q] : sum[q + half];
            sum[q] = (upper ? sum[q + half] : sum[q]) + __shfl_xor_sync(~0u, sent, step);
        }
    sum[0] += __shfl_xor_sync(~0u, sum[0], 2);
    return sum[0] + __shfl_xor_sync(~0u, sum[0], 1);
}

/* The candidates of a row: lane i has numbers i and i + 32, arg -1 where there is none. */
template <typename S> struct differ_candidates {
    int32_t arg[2];
    S sum[2];
};

template <hf_dtype X, hf_dtype C, int W, typename S>
__device__ __forceinline__ void compare(const char *x, const char *c, int d, int candidates,
                                        struct differ_candidates<S> *own) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
    for (int first = 0; first < candidates; first += GROUP) {
        int32_t arg[GROUP];
        S sum[GROUP];
#pragma unroll
        for (int q = 0; q < GROUP; q++) {
            arg[q] = __shfl_sync(~0u, first < 32 ? own->arg[0] : own->arg[1], (first + q) % 32);
            sum[q] = 0;
        }
        add_columns<X, C, W, S>(x, c, d, arg, candidates - first, sum);
        const S folded = fold_group(sum);
        const int q = lane % GROUP;
        const S mine = __shfl_sync(~0u, folded, (q & 4) << 2 | (q & 2) << 2 | (q & 1) << 2);
        const bool takes = first % 32 / GROUP == lane / GROUP;
        own->sum[0] = takes && first < 32 ? mine : own->sum[0];
        own->sum[1] = takes && first >= 32 ? mine : own->sum[1];
    }
}

template <typename S> __device__ __forceinline__ S least_of(S v) {
    for (int step = 16; step > 0; step /= 2)
        v = fmin(v, __shfl_xor_sync(~0u, v, step));
    return v;
}

/* All lanes, with the sums of a row: the masks of the candidates that may be the nearest, which
 * are not farther than the least by more than both may be off. Not a number may be anything, and
 * so may a sum that is near the end of the range. */
template <typename S>
__device__ __forceinline__ S staying(const struct differ_job &job,
                                     const struct differ_candidates<S> &own, unsigned (&stays)[2]) {
    const S most = static_cast<S>(INFINITY), share = static_cast<S>(job.share);
    const S tiny = static_cast<S>(job.tiny), end = static_cast<S>(sizeof(S) == 8 ? 1e300 : 1e36);
    const S least =
        least_of(fmin(own.arg[0] >= 0 ? own.sum[0] : most, own.arg[1] >= 0 ? own.sum[1] : most));
    const S reach = least * (1 + share) + tiny;
#pragma unroll
    for (int i = 0; i < 2; i++)
        stays[i] = __ballot_sync(
            ~0u, own.arg[i] >= 0 && !(own.sum[i] < end && own.sum[i] * (1 - share) - tiny > reach));
    return least;
}

/* Bounds of a row that is decided: the least sum, and the least of all others. */
template <typename S>
__device__ static void put_bounds(const struct differ_job &job, int64_t row,
                                  const struct differ_candidates<S> &own,
                                  const unsigned (&stays)[2], S least) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const S most = static_cast<S>(INFINITY);
    S second = most;
#pragma unroll
    for (int i = 0; i < 2; i++)
        if (own.arg[i] >= 0 && !(stays[i] >> lane & 1))
            second = fmin(second, own.sum[i]);
    second = least_of(second);
    if (lane == 0)
        hf_bounds_settled(job.s.bounds, row,
                          static_cast<double>(least) * (1 + job.share) + job.tiny,
                          fmax(static_cast<double>(second) * (1 - job.share) - job.tiny, 0.0));
}

/* A row that is not decided: to the list of those, with the candidates that are left. With bounds
 * it keeps all, whose distances are wanted. */
template <typename S>
__device__ static void leave_row(const struct differ_job &job, int64_t b,
                                 const struct differ_row &r, const struct differ_candidates<S> &own,
                                 const unsigned (&stays)[2], bool bounded) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const struct hf_filter_open &open = job.s.open;
    const unsigned before = (1u << lane) - 1;
    const int64_t place = b * open.cap + r.entry;
    const int first = __popc(stays[0]);
    if (!bounded && (stays[0] >> lane & 1))
        hf_slot_put(job.s.slots, place, __popc(stays[0] & before), own.arg[0]);
    if (!bounded && (stays[1] >> lane & 1))
        hf_slot_put(job.s.slots, place, first + __popc(stays[1] & before), own.arg[1]);
    if (lane != 0)
        return;
    if (!bounded)
        open.emitted[b * open.cap + r.entry] = first + __popc(stays[1]);
    job.s.unsure[b * open.cap + atomicAdd(job.s.unsure_count + b, 1)] = r.entry;
}

/* One row, all lanes. */
template <hf_dtype X, hf_dtype C, int W, typename S>
__device__ static void differ_one(const struct differ_job &job, int64_t b,
                                  const struct differ_row &r, bool bounded) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t place = b * job.s.open.cap + r.entry;
    const char *x =
        static_cast<const char *>(job.x) + (b * job.n + r.row) * job.stride * hf_device_bytes<X>;
    struct differ_candidates<S> own = {};
    own.arg[0] = lane < r.candidates ? hf_slot_get(job.s.slots, place, lane) : -1;
    own.arg[1] = lane + 32 < r.candidates ? hf_slot_get(job.s.slots, place, lane + 32) : -1;
    compare<X, C, W, S>(x,
                        static_cast<const char *>(job.c) + b * job.k * job.d * hf_device_bytes<C>,
                        static_cast<int>(job.d), r.candidates, &own);
    unsigned stays[2];
    const S least = staying(job, own, stays);
    if (__popc(stays[0]) + __popc(stays[1]) != 1) {
        leave_row(job, b, r, own, stays, bounded);
        return;
    }
    const int32_t label = stays[0] != 0
                              ? __shfl_sync(~0u, own.arg[0], __ffs(static_cast<int>(stays[0])) - 1)
                              : __shfl_sync(~0u, own.arg[1], __ffs(static_cast<int>(stays[1])) - 1);
    if (lane == 0)
        job.labels[b * job.n + r.row] = label;
    if (bounded)
        put_bounds(job, b * job.n + r.row, own, stays, least);
}

template <hf_dtype X, hf_dtype C, int W>
static __global__ void __launch_bounds__(THREADS, BLOCKS)
    compare_candidates(const struct differ_job job) {
    constexpr bool WIDE = X == HF_F64 || C == HF_F64;
    typedef typename hf_element<WIDE ? HF_F64 : HF_F32>::wide S;
    hf_chain_wait();
    hf_chain_next();
    if (job.stop && *job.stop)
        return;
    const bool bounded = hf_bounds_wanted(job.s.bounds);
    const int64_t warps = static_cast<int64_t>(gridDim.x) * (THREADS / 32);
    const int64_t warp = static_cast<int64_t>(blockIdx.x) * (THREADS / 32) + threadIdx.x / 32;
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y) {
        const int64_t listed = job.s.open.count[b];
        const int count = static_cast<int>(listed < job.s.open.cap ? listed : job.s.open.cap);
        if (count * job.d < HF_ASSIGN_FEW) {
            if (blockIdx.x == 0 && threadIdx.x == 0)
                job.s.unsure_count[b] = HF_SETTLE_ALL;
            continue;
        }
        const int64_t share = (count + warps - 1) / warps;
        const int each = share < 32 ? static_cast<int>(share) : 32;
        for (int64_t first = warp * each; first < count; first += warps * each) {
            const struct differ_row mine = take_row(job, b, first, count, each, bounded);
            for (unsigned left = __ballot_sync(~0u, mine.candidates > 0); left != 0;
                 left &= left - 1) {
                const int who = __ffs(static_cast<int>(left)) - 1;
                const struct differ_row r = {__shfl_sync(~0u, mine.entry, who),
                                             __shfl_sync(~0u, mine.row, who),
                                             __shfl_sync(~0u, mine.candidates, who)};
                differ_one<X, C, W, S>(job, b, r, bounded);
            }
        }
    }
}

/* ---- host */

/* Can rows and centroids be read W elements at a time? */
template <hf_dtype X, hf_dtype C, int W> static bool are_wide(const struct differ_job &job) {
    const uint64_t bytes = W * hf_device_bytes<X>;
    const uint64_t rows = (uintptr_t)job.x | (uint64_t)job.stride * hf_device_bytes<X>;
    return job.d % W == 0 && rows % bytes == 0 && (uintptr_t)job.c % (W * hf_device_bytes<C>) == 0;
}

template <hf_dtype X, hf_dtype C>
static cudaError_t launch(struct hf_cuda *cuda, dim3 grid, struct differ_job job) {
    constexpr bool WIDE = X == HF_F64 || C == HF_F64;
    constexpr int W = WIDE ? 2 : 4;
    /* A term has the roundings of the difference and of the sum's, of at most d / 32 + W of a lane
     * and 5 over the lanes; the reference's are one for each of d + 4 operations. */
    const double unit = WIDE ? 0x1p-53 : 0x1p-24, d = (double)job.d;
    job.share = 1.02 * ((d / 32 + 16) * unit + (d + 4) * 0x1p-53);
    job.tiny = WIDE ? 0x1p-1000 : (d + 1) * 0x1p-140; /* squares that underflow */
    return hf_chain_launch(
        cuda, are_wide<X, C, W>(job) ? compare_candidates<X, C, W> : compare_candidates<X, C, 1>,
        grid, THREADS, 0, 1, job);
}

/* Are they an answer to what the filter left open, and can they pay? */
static bool differs(const struct hf_assign_rows *rows) {
    const struct hf_assign_problem *p = &rows->problem;
    return p->metric == HF_EUCLIDEAN && p->x.cols <= 1 << 24 && !p->few &&
           rows->n * p->x.cols >= HF_ASSIGN_FEW;
}

hf_status hf_settle_differences(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                                const struct hf_assign_step *step, struct hf_settle *s) {
    const struct hf_assign_problem *p = &rows->problem;
    if (!differs(rows))
        return HF_OK;
    struct differ_job job = {};
    static_cast<struct hf_settle_job &>(job) = hf_settle_job_of(rows, step, s);
    const int64_t most = (s->open.cap + THREADS / 32 - 1) / (THREADS / 32);
    const int64_t share = (cuda->sms * BLOCKS + p->batch - 1) / p->batch;
    const dim3 grid((unsigned)(most < share ? most : share),
                    (unsigned)(p->batch < 65535 ? p->batch : 65535));
    cudaError_t error = cudaSuccess;
    hf_for_dtype(p->x.dtype, [&](auto type) {
        constexpr hf_dtype X = decltype(type)::value;
        error = p->c_type == HF_F64 ? launch<X, HF_F64>(cuda, grid, job)
                                    : launch<X, HF_F32>(cuda, grid, job);
    });
    s->doubt = s->unsure;
    s->doubt_count = s->unsure_count;
    return hf_cuda_check(cuda, error, "assign: differences");
}
