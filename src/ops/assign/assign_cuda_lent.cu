/* SPDX-License-Identifier: Apache-2.0
 * Open rows that lie in host memory: most of them are decided from their 16 bits after all. The
 * filter's bound pays for the rounding of all centroids and for its sums; here centroids are exact,
 * and what the row lost counts along the line from one candidate to the other only. Rows between
 * two centroids are those that move soon: they are noted (device/cuda/row_cache.h). */
#include "device/cuda/pack.cuh"
#include "ops/assign/assign_cuda_exact.cuh"
#include "ops/assign/assign_cuda_settle.h"

#include <float.h>
#include <math.h>

#define THREADS 256
#define BLOCKS 6 /* of a multiprocessor */

struct lent_job {
    const __half *x16; /* [n, ld] */
    const float *norm, *loss;
    const void *c;     /* [k, d] */
    const void *shift; /* [d] of the type of c, NULL: 0 */
    double scale;
    int64_t ld, d;
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
 * is the nearest for certain, -1 where there is none. docs/numerics.md says why. */
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

/* A warp to a row. One that is decided is left with a single candidate. */
template <hf_dtype C, int N>
static __global__ void __launch_bounds__(THREADS) decide_lent(const struct lent_job job) {
    typedef typename hf_element<C>::wide W;
    if (job.stop && *job.stop)
        return;
    const struct hf_filter_open &open = job.s.open;
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t count = *open.count < open.cap ? *open.count : open.cap;
    const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS / 32;
    for (int64_t e = (static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x) / 32; e < count;
         e += step) {
        const int there = open.emitted[e];
        if (there < 2 || there > HF_FILTER_SLOTS || !(open.threshold[e] > -FLT_MAX))
            continue; /* all lanes */
        int32_t *const slots = job.s.slots + e * HF_FILTER_SLOTS;
        const int32_t row = open.row[e], arg = slots[lane < there ? lane : 0];
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
        __syncwarp(); /* slots have been read */
        if (lane == nearest) {
            slots[0] = arg;
            open.emitted[e] = 1;
            hf_row_note(job.cache, row);
        }
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

bool hf_settle_single(const struct hf_assign_rows *rows, const struct hf_assign_step *step) {
    return rows->cache.data != NULL && step->bounds == NULL && rows->problem.batch == 1;
}

bool hf_assign_notes(const struct hf_assign_rows *rows) {
    const struct hf_assign_problem *p = &rows->problem;
    return rows->cache.data != NULL && p->batch == 1 && rows->kind == HF_ASSIGN_TENSOR &&
           p->exact && p->metric == HF_EUCLIDEAN && !rows->raw && rows->loss != NULL &&
           (p->c_type == HF_F64) == (p->x.dtype == HF_F64);
}

hf_status hf_settle_lent(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, const struct hf_settle *s) {
    const bool wide = rows->problem.c_type == HF_F64;
    if (!hf_settle_single(rows, step) || !hf_assign_notes(rows))
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
    job.s = *s;
    job.cache = rows->cache;
    job.stop = step->stop;
    if (wide)
        launch_lent<HF_F64>(cuda, job);
    else
        launch_lent<HF_F32>(cuda, job);
    return hf_cuda_launched(cuda, "assign: decide lent rows");
}
