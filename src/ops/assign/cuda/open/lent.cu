/* SPDX-License-Identifier: Apache-2.0
 * Open rows that lie in host memory: most of them are decided from their 16 bits after all. The
 * filter's bound pays for the rounding of all centroids and for its sums; here centroids are exact,
 * and what the row lost counts along the line from one candidate to the other only. Rows between
 * two centroids are those that move soon: they are noted (device/cuda/row_cache.h). */
#include "device/cuda/pack.cuh"
#include "ops/assign/cuda/open/exact.cuh"
#include "ops/assign/cuda/label.cuh"
#include "ops/assign/cuda/open/settle.h"

#include <float.h>
#include <math.h>

#define THREADS 256
#define BLOCKS 4    /* of a multiprocessor */
#define ROW_LANES 8 /* of a warp, to a row of two candidates */
#define ROWS (32 / ROW_LANES)
#define MOST 32  /* candidates of a row: a lane each */
#define CHAINS 4 /* in which a lane adds up each of its sums */

struct lent_job {
    const __half *x16; /* [n, ld] */
    const float *norm, *loss;
    const void *c;     /* [k, d] */
    const void *shift; /* [d] of the type of c, NULL: 0 */
    double scale;
    int64_t ld, d, n;
    int32_t *labels;
    struct hf_settle s;
    struct hf_row_cache cache;
    const int32_t *stop;
};

/* Squares, for a candidate c' of the row. */
template <typename W> struct lent_sums {
    W row;   /* |c' - x16|^2 */
    W first; /* |c' - f'|^2, f the first candidate */
};

/* All lanes: the sums of one candidate. N columns at a time, d is a multiple of N. */
template <hf_dtype C, int N, typename W>
__device__ static struct lent_sums<W> lent_add(const struct lent_job &job, const __half *x16,
                                               int32_t arg, int32_t first) {
    typedef struct hf_pack<C, N> center_pack;
    const center_pack *const shift = static_cast<const center_pack *>(job.shift);
    const center_pack *const c = static_cast<const center_pack *>(job.c) + arg * (job.d / N);
    const center_pack *const f = static_cast<const center_pack *>(job.c) + first * (job.d / N);
    const W scale = static_cast<W>(job.scale);
    struct lent_sums<W> sums = {
        0, 0
    };
    for (int64_t j = static_cast<int64_t>(threadIdx.x) % 32; j < job.d / N; j += 32) {
        const struct hf_pack<HF_F16, N> x =
            reinterpret_cast<const struct hf_pack<HF_F16, N> *>(x16)[j];
        const center_pack its = c[j], other = f[j];
        center_pack s = {};
        if (shift)
            s = shift[j];
#pragma unroll
        for (int i = 0; i < N; i++) {
            const W at = (its.e[i] - s.e[i]) * scale;
            const W from_row = at - static_cast<W>(__half2float(x.e[i]));
            const W from_first = at - (other.e[i] - s.e[i]) * scale;
            sums.row += from_row * from_row;
            sums.first += from_first * from_first;
        }
    }
    for (int step = 16; step > 0; step /= 2) {
        sums.row += __shfl_xor_sync(~0u, sums.row, step);
        sums.first += __shfl_xor_sync(~0u, sums.first, step);
    }
    return sums;
}

/* All lanes, each with the sums of its candidate, the first `count` lanes: the lane whose candidate
 * is the nearest for certain, -1 where there is none. See docs/numerics/gpu-host-rows.md. */
template <typename W>
__device__ static int lent_judge(const struct lent_sums<W> &sums, int count, double d, double norm,
                                 double loss) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const double unit = sizeof(W) == sizeof(double) ? 0x1p-53 : 0x1p-24;
    const double share = (d / 64 + 12) * unit;
    struct hf_winner best = hf_winner_none();
    if (lane < count)
        hf_winner_offer(&best, static_cast<double>(sums.row), lane);
    best = hf_winner_lanes(best, 32);
    if (best.arg >= count) /* NaN and Inf only */
        return -1;
    const double r = sqrt(static_cast<double>(sums.row));
    const double off = share * r + 2 * unit * norm + 0x1p-66;
    const double first_off = __shfl_sync(~0u, off, 0);
    const double first =
        lane == 0 ? 0 : sqrt(static_cast<double>(sums.first)) * (1 + share) + off + first_off;
    const double reach = __shfl_sync(~0u, r + off, best.arg);
    const double apart = first + __shfl_sync(~0u, first, best.arg);
    const double low = fmax(r - off, 0.0);
    const double far = r + off + reach + loss;
    const bool farther =
        low * low - reach * reach > 2 * loss * apart + (d + 16) * 0x1p-52 * far * far;
    return __all_sync(~0u, farther || lane >= count || lane == best.arg) ? best.arg : -1;
}

/* Squares, for two candidates of a row. */
template <typename W> struct lent_pair {
    W row[2]; /* |c' - x16|^2 */
    W apart;  /* between them */
};

/* The lanes of a row: the sums of its pair. N columns at a time, d is a multiple of N. */
template <hf_dtype C, int N, typename W>
__device__ static struct lent_pair<W> lent_add_pair(const struct lent_job &job, int32_t row,
                                                    const int32_t arg[2]) {
    typedef struct hf_pack<C, N> center_pack;
    typedef struct hf_pack<HF_F16, N> row_pack;
    const int64_t packs = job.d / N;
    const center_pack *const shift = static_cast<const center_pack *>(job.shift);
    const center_pack *const a = static_cast<const center_pack *>(job.c) + arg[0] * packs;
    const center_pack *const b = static_cast<const center_pack *>(job.c) + arg[1] * packs;
    const row_pack *const x = reinterpret_cast<const row_pack *>(job.x16 + row * job.ld);
    const W scale = static_cast<W>(job.scale);
    W from_a[CHAINS] = {}, from_b[CHAINS] = {}, between[CHAINS] = {};
    for (int64_t first = threadIdx.x % ROW_LANES; first < packs; first += ROW_LANES * CHAINS) {
        row_pack its[CHAINS] = {}; /* under way together: they are far away */
#pragma unroll
        for (int u = 0; u < CHAINS; u++)
            if (first + u * ROW_LANES < packs)
                its[u] = x[first + u * ROW_LANES];
#pragma unroll
        for (int u = 0; u < CHAINS; u++) {
            const int64_t j = first + u * ROW_LANES;
            if (j >= packs)
                break;
            const center_pack at_a = a[j], at_b = b[j];
            center_pack s = {};
            if (shift)
                s = shift[j];
#pragma unroll
            for (int i = 0; i < N; i++) {
                const int chain = N == 1 ? u : i;
                const W p = (at_a.e[i] - s.e[i]) * scale, q = (at_b.e[i] - s.e[i]) * scale;
                const W v = static_cast<W>(__half2float(its[u].e[i]));
                from_a[chain] += (p - v) * (p - v);
                from_b[chain] += (q - v) * (q - v);
                between[chain] += (p - q) * (p - q);
            }
        }
    }
    struct lent_pair<W> sums = {
        {(from_a[0] + from_a[1]) + (from_a[2] + from_a[3]),
         (from_b[0] + from_b[1]) + (from_b[2] + from_b[3])},
            (between[0] + between[1]) + (between[2] + between[3])
    };
#pragma unroll
    for (int step = ROW_LANES / 2; step > 0; step /= 2) {
        sums.row[0] += __shfl_xor_sync(~0u, sums.row[0], step);
        sums.row[1] += __shfl_xor_sync(~0u, sums.row[1], step);
        sums.apart += __shfl_xor_sync(~0u, sums.apart, step);
    }
    return sums;
}

/* A lane: which of the two is nearer for certain, -1: neither. As lent_judge(); sums that are not
 * numbers compare false. */
template <typename W>
__device__ static int lent_judge_pair(const struct lent_pair<W> &sums, double d, double norm,
                                      double loss) {
    const double unit = sizeof(W) == sizeof(double) ? 0x1p-53 : 0x1p-24;
    const double share = (d / 64 + 12) * unit;
    const int nearer = sums.row[1] < sums.row[0] ? 1 : 0;
    const double near = sqrt(static_cast<double>(nearer ? sums.row[1] : sums.row[0]));
    const double other = sqrt(static_cast<double>(nearer ? sums.row[0] : sums.row[1]));
    const double near_off = share * near + 2 * unit * norm + 0x1p-66;
    const double other_off = share * other + 2 * unit * norm + 0x1p-66;
    const double apart = sqrt(static_cast<double>(sums.apart)) * (1 + share) + near_off + other_off;
    const double reach = near + near_off;
    const double low = fmax(other - other_off, 0.0);
    const double far = other + other_off + reach + loss;
    return low * low - reach * reach > 2 * loss * apart + (d + 16) * 0x1p-52 * far * far ? nearer
                                                                                         : -1;
}

/* What a lane knows of its entry of the open list. */
struct lent_row {
    int32_t entry, row;
    int32_t there;  /* candidates that can be compared here, 0: none */
    int32_t arg[2]; /* the first two of them */
    int32_t label;  /* -1: not decided */
};

__device__ static struct lent_row lent_take(const struct lent_job &job, int64_t entry,
                                            int64_t count) {
    const struct hf_filter_open &open = job.s.open;
    const int64_t e = entry < count ? entry : count - 1;
    struct lent_row r;
    r.entry = static_cast<int32_t>(e);
    r.row = open.row[e];
    const int there = open.emitted[e];
    const bool listed = there >= 1 && there <= MOST && open.threshold[e] > -FLT_MAX;
    r.there = entry < count && listed ? there : 0;
    r.arg[0] = r.there > 0 ? hf_slot_get(job.s.slots, e, 0) : 0;
    r.arg[1] = r.there > 1 ? hf_slot_get(job.s.slots, e, 1) : 0;
    r.label = r.there == 1 ? r.arg[0] : -1;
    return r;
}

/* All lanes, each with an entry: those with two candidates, some side by side. */
template <hf_dtype C, int N, typename W>
__device__ static void decide_pairs(const struct lent_job &job, struct lent_row *r) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const unsigned wanted = __ballot_sync(~0u, r->there == 2);
    struct lent_pair<W> mine = {};
    for (int first = 0; first < 32; first += ROWS) {
        if ((wanted >> first & ((1u << ROWS) - 1)) == 0)
            continue; /* all lanes */
        const int who = first + lane / ROW_LANES;
        const int32_t arg[2] = {__shfl_sync(~0u, r->arg[0], who), __shfl_sync(~0u, r->arg[1], who)};
        const struct lent_pair<W> sums =
            lent_add_pair<C, N, W>(job, __shfl_sync(~0u, r->row, who), arg);
        const int from = lane % ROWS * ROW_LANES;
        const struct lent_pair<W> its = {
            {__shfl_sync(~0u, sums.row[0], from), __shfl_sync(~0u, sums.row[1], from)},
                __shfl_sync(~0u, sums.apart, from)
        };
        if (lane / ROWS == first / ROWS)
            mine = its;
    }
    if (r->there != 2)
        return;
    const int nearer =
        lent_judge_pair(mine, static_cast<double>(job.d), static_cast<double>(job.norm[r->row]),
                        static_cast<double>(job.loss[r->row]));
    r->label = nearer < 0 ? -1 : nearer == 0 ? r->arg[0] : r->arg[1];
}

/* All lanes: those with more, one by one, all lanes to a row. */
template <hf_dtype C, int N, typename W>
__device__ static void decide_more(const struct lent_job &job, struct lent_row *r) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    for (unsigned left = __ballot_sync(~0u, r->there > 2); left != 0; left &= left - 1) {
        const int who = __ffs(static_cast<int>(left)) - 1;
        const int there = __shfl_sync(~0u, r->there, who);
        const int32_t row = __shfl_sync(~0u, r->row, who);
        const int64_t entry = __shfl_sync(~0u, r->entry, who);
        const int32_t arg = hf_slot_get(job.s.slots, entry, lane < there ? lane : 0);
        const int32_t first = __shfl_sync(~0u, arg, 0);
        struct lent_sums<W> mine = {
            0, 0
        };
        for (int i = 0; i < there; i++) {
            const struct lent_sums<W> sums =
                lent_add<C, N, W>(job, job.x16 + row * job.ld, __shfl_sync(~0u, arg, i), first);
            if (lane == i)
                mine = sums;
        }
        const int nearest =
            lent_judge(mine, there, static_cast<double>(job.d), static_cast<double>(job.norm[row]),
                       static_cast<double>(job.loss[row]));
        const int32_t label = __shfl_sync(~0u, arg, nearest < 0 ? 0 : nearest);
        if (lane == who)
            r->label = nearest < 0 ? -1 : label;
    }
}

/* All lanes: the entries that are left go to a list. */
__device__ static void lent_leave(const struct lent_job &job, const struct lent_row &r, bool left) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const unsigned all = __ballot_sync(~0u, left);
    int at = 0;
    if (lane == 0 && all != 0)
        at = atomicAdd(job.s.doubt_count, __popc(all));
    at = __shfl_sync(~0u, at, 0) + __popc(all & ((1u << lane) - 1));
    if (left)
        job.s.doubt_memory[at] = r.entry;
}

/* A warp to 32 open rows at a time. One that is decided gets its label, and may move soon. */
template <hf_dtype C, int N>
static __global__ void __launch_bounds__(THREADS) decide_lent(const struct lent_job job) {
    typedef typename hf_element<C>::wide W;
    if (job.stop && *job.stop)
        return;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t listed = *job.s.open.count;
    const int64_t count = listed < job.s.open.part ? listed : job.s.open.part;
    const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
    for (int64_t first = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x - lane;
         first < count; first += step) {
        const bool there = first + lane < count;
        struct lent_row r = lent_take(job, first + lane, count);
        decide_pairs<C, N, W>(job, &r);
        decide_more<C, N, W>(job, &r);
        if (there && r.label >= 0) {
            const int32_t old = job.s.marks.word ? job.s.marks.old_labels[r.row] : 0;
            hf_settle_label(job.labels, job.s.marks, 0, job.n, r.row, old, r.label);
            hf_row_note(job.cache, r.row);
        }
        lent_leave(job, r, there && r.label < 0);
    }
}

template <hf_dtype C> static void launch_lent(struct hf_cuda *cuda, const struct lent_job &job) {
    constexpr int N = 4;
    const uint64_t bits = (uintptr_t)job.c | (uintptr_t)job.shift;
    const unsigned grid = (unsigned)cuda->sms * BLOCKS;
    if (job.d % N == 0 && bits % (N * hf_device_bytes<C>) == 0)
        decide_lent<C, N><<<grid, THREADS, 0, cuda->stream>>>(job);
    else
        decide_lent<C, 1><<<grid, THREADS, 0, cuda->stream>>>(job);
}

bool hf_assign_notes(const struct hf_assign_rows *rows) {
    const struct hf_assign_problem *p = &rows->problem;
    return rows->cache.data != NULL && p->batch == 1 && rows->kind == HF_ASSIGN_TENSOR &&
           p->exact && p->metric == HF_EUCLIDEAN && !rows->raw && rows->loss != NULL &&
           (p->c_type == HF_F64) == (p->x.dtype == HF_F64);
}

hf_status hf_settle_lent(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, struct hf_settle *s) {
    const bool wide = rows->problem.c_type == HF_F64;
    if (step->bounds != NULL || !hf_assign_notes(rows))
        return HF_OK;
    struct lent_job job = {};
    job.x16 = static_cast<const __half *>(rows->x16);
    job.norm = rows->norm;
    job.loss = rows->loss;
    job.c = step->c;
    job.shift = rows->shift == NULL ? NULL : wide ? (const void *)rows->shift : rows->shift32;
    job.scale = rows->scale;
    job.ld = rows->ld;
    job.d = rows->problem.x.cols;
    job.n = rows->n;
    job.labels = step->labels;
    s->doubt = s->doubt_memory;
    job.s = *s;
    job.cache = rows->cache;
    job.stop = step->stop;
    if (wide)
        launch_lent<HF_F64>(cuda, job);
    else
        launch_lent<HF_F32>(cuda, job);
    return hf_cuda_launched(cuda, "assign: decide lent rows");
}
