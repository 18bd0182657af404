/* SPDX-License-Identifier: Apache-2.0
 * The scan reads 12 bytes a row; rows that it cannot decide have the distance to their own centroid
 * measured once more, by a warp, before they are listed. */
#include "base/mem.h"
#include "device/cuda/load.cuh"
#include "ops/assign/assign_cuda_skip.h"

#include <math.h>

#define THREADS 256
#define WORTH_A_LIST 0.7 /* rows gathered from a list cost that much more than rows in sequence */
#define UP (1 + 0x1p-20f)
#define DOWN (1 - 0x1p-20f)

struct skip_job {
    const void *x; /* [batch, n, d] */
    int64_t n, k, d, stride, batch;
    const void *c, *c_before; /* [batch, k, d]; before NULL: drifts are known */
    bool valid;               /* the bounds hold for the centroids before they drifted */
    bool c_f64;
    const float *norm, *loss; /* [batch, n] of the prepared rows */
    double unit;              /* what distances of x' are multiplied by */
    const int32_t *old_labels;
    int32_t *labels;
    float *upper, *lower; /* [batch, n] */
    float *drift_out;     /* [batch, k] where skip_drift() writes */
    struct hf_skip_cuda s;
    const int32_t *stop;
};

__device__ static double load_c(const void *c, bool f64, int64_t i) {
    return f64 ? static_cast<const double *>(c)[i]
               : static_cast<double>(static_cast<const float *>(c)[i]);
}

__device__ static double warp_sum(double v) {
    for (int step = 16; step > 0; step /= 2)
        v += __shfl_xor_sync(~0u, v, step);
    return v;
}

/* A distance from its square, rounded up; 2^-20 covers the sums, 2^-126 what underflows. */
__device__ static float root_up(double square) {
    return __double2float_ru(sqrt(square) * (1 + 0x1p-20)) + 0x1p-126f;
}

/* How far each centroid moved, a warp to a centroid; 0 only if it did not. */
static __global__ void __launch_bounds__(THREADS) skip_drift(const struct skip_job job) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t at = (static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x) / 32;
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *job.s.stop_all = *job.s.stop_list = 1;
    if (at >= job.batch * job.k || !job.c_before)
        return;
    double square = 0;
    bool moved = false;
    for (int64_t j = at * job.d + lane; j < (at + 1) * job.d; j += 32) {
        const double now = load_c(job.c, job.c_f64, j);
        const double then = load_c(job.c_before, job.c_f64, j);
        moved |= now != then;
        square += (now - then) * (now - then);
    }
    square = warp_sum(square);
    moved = __any_sync(~0u, moved);
    if (lane == 0)
        job.drift_out[at] = moved ? root_up(square) : 0;
}

/* The two largest drifts of a problem. */
struct drifts {
    float most, second;
    int32_t arg;
};

__device__ static void drifts_join(struct drifts *a, float most, float second, int32_t arg) {
    if (most > a->most) {
        a->second = fmaxf(a->most, second);
        a->most = most;
        a->arg = arg;
    } else {
        a->second = fmaxf(a->second, most);
    }
}

__device__ static struct drifts block_drifts(const struct skip_job &job, int64_t b) {
    __shared__ struct drifts part[THREADS / 32];
    struct drifts mine = {-1, -1, -1};
    for (int64_t k = threadIdx.x; k < job.k; k += THREADS)
        drifts_join(&mine, job.s.drift[b * job.k + k], -1, static_cast<int32_t>(k));
    for (int step = 16; step > 0; step /= 2) {
        const float most = __shfl_xor_sync(~0u, mine.most, step);
        const float second = __shfl_xor_sync(~0u, mine.second, step);
        const int32_t arg = __shfl_xor_sync(~0u, mine.arg, step);
        drifts_join(&mine, most, second, arg);
        mine.second = fmaxf(mine.second, second);
    }
    __syncthreads();
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = mine;
    __syncthreads();
    struct drifts all = part[0];
    for (int w = 1; w < THREADS / 32; w++) {
        drifts_join(&all, part[w].most, part[w].second, part[w].arg);
        all.second = fmaxf(all.second, part[w].second);
    }
    return all;
}

/* At least the distance of a row to a centroid, by a whole warp. */
template <hf_dtype X>
__device__ static float own_distance(const struct skip_job &job, int64_t row, int64_t centroid) {
    const char *x = static_cast<const char *>(job.x) + row * job.stride * hf_device_bytes<X>;
    double square = 0;
    for (int64_t j = static_cast<int>(threadIdx.x) % 32; j < job.d; j += 32) {
        const double t = hf_device_load<X>(x, j) - load_c(job.c, job.c_f64, centroid * job.d + j);
        square += t * t;
    }
    return root_up(warp_sum(square));
}

/* What is known of a row before any distance is measured. */
struct row_bounds {
    int32_t label;
    float drift; /* of its own centroid */
    float upper, lower;
    bool open; /* they do not decide it */
};

__device__ static struct row_bounds move_bounds(const struct skip_job &job, int64_t b, int64_t row,
                                                const struct drifts &most) {
    struct row_bounds r = {-1, 0, INFINITY, 0, true};
    if (!job.valid)
        return r;
    r.label = job.old_labels[row];
    if (r.label < 0)
        return r;
    r.drift = job.s.drift[b * job.k + r.label];
    const float others = r.label == most.arg ? most.second : most.most;
    r.upper = job.upper[row];
    r.lower = job.lower[row];
    if (r.drift > 0)
        r.upper = (r.upper + r.drift) * UP;
    if (others > 0)
        r.lower = fmaxf(0, (r.lower - others) * DOWN);
    r.open = !(r.upper < r.lower);
    return r;
}

/* Measure the open rows of a warp again: those whose own centroid moved, and that may be decided if
 * it came nearer. */
template <hf_dtype X>
__device__ static void tighten(const struct skip_job &job, int64_t b, int64_t row,
                               struct row_bounds *r) {
    unsigned wanted =
        __ballot_sync(~0u, r->open && r->drift > 0 && r->upper - 2 * r->drift < r->lower);
    for (; wanted; wanted &= wanted - 1) {
        const int who = __ffs(static_cast<int>(wanted)) - 1;
        const int64_t its = __shfl_sync(~0u, row, who);
        const int32_t label = __shfl_sync(~0u, r->label, who);
        const float distance = own_distance<X>(job, its, b * job.k + label);
        if (static_cast<int>(threadIdx.x) % 32 == who) {
            r->upper = fminf(r->upper, distance);
            r->open = !(r->upper < r->lower);
        }
    }
}

/* Append the open rows of a warp to the list of the problem. */
__device__ static int list_open(const struct skip_job &job, int64_t b, int64_t i, bool open) {
    const unsigned mask = __ballot_sync(~0u, open);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int at = 0;
    if (lane == 0 && mask)
        at = atomicAdd(job.s.count + b, __popc(mask));
    at = __shfl_sync(~0u, at, 0);
    if (open)
        job.s.list[b * job.n + at + __popc(mask & ((1u << lane) - 1))] = static_cast<int32_t>(i);
    return __popc(mask);
}

/* The last block chooses between all rows and the list. */
__device__ static void choose_pass(const struct skip_job &job, int listed) {
    if (threadIdx.x % 32 == 0 && listed > 0)
        atomicAdd(job.s.total, listed);
    __threadfence();
    __syncthreads();
    if (threadIdx.x != 0)
        return;
    if (atomicAdd(job.s.ticket, 1) != static_cast<int>(gridDim.x * gridDim.y) - 1)
        return;
    const int total = *static_cast<volatile int32_t *>(job.s.total);
    const bool all = total > WORTH_A_LIST * static_cast<double>(job.batch * job.n);
    *job.s.stop_all = !all;
    *job.s.stop_list = all;
}

template <hf_dtype X>
static __global__ void __launch_bounds__(THREADS, 3) skip_scan(const struct skip_job job) {
    if (job.stop && *job.stop)
        return;
    int listed = 0;
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y) {
        struct drifts most = {0, 0, -1};
        if (job.valid)
            most = block_drifts(job, b);
        const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
        const int64_t end = (job.n + 31) / 32 * 32; /* whole warps stay together */
        for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < end;
             i += step) {
            const bool there = i < job.n;
            const int64_t row = b * job.n + (there ? i : 0);
            struct row_bounds r = move_bounds(job, b, row, most);
            r.open = r.open && there;
            tighten<X>(job, b, row, &r);
            if (there && !r.open) {
                job.labels[row] = r.label;
                job.upper[row] = r.upper;
                job.lower[row] = r.lower;
            }
            listed += list_open(job, b, i, r.open);
        }
    }
    choose_pass(job, listed);
}

/* Bounds of one row from its scores. t is the score of the true x' and c', |t - score| <= error and
 * |x' - c'|^2 = |x'|^2 - 2 t. A row that float64 decided may have any of those that score nearly
 * best: then the best score bounds the distance to all, or the second where the filter knew nothing
 * of the row but that. */
__device__ static void learn_row(const struct skip_job &job, int64_t row) {
    const double best = static_cast<double>(job.s.best[row]);
    const double second = static_cast<double>(job.s.second[row]);
    const double error = static_cast<double>(job.s.error[row]);
    const double norm = static_cast<double>(job.norm[row]);
    const double loss = job.loss ? static_cast<double>(job.loss[row]) : 0;
    const double share = 0x1p-18 + static_cast<double>(job.d) * 0x1p-28; /* norm is so much above */
    const double high = norm + loss;
    const double low = fmax(0.0, norm * (1 - share) - loss - 0x1p-59);
    const bool decided = best - second > 2.5 * error;
    const double reach = high * high - 2 * (best - error);
    const double clear = low * low - 2 * ((decided ? second : fmax(best, second)) + error);
    const float upper = __double2float_ru(sqrt(fmax(reach, 0.0)) * job.unit * (1 + 0x1p-20));
    const float lower = __double2float_rd(sqrt(fmax(clear, 0.0)) * job.unit * (1 - 0x1p-20));
    job.upper[row] = reach == reach && reach < INFINITY ? upper + 0x1p-126f : INFINITY;
    job.lower[row] = clear > 0 && norm < INFINITY ? fminf(lower, 3e38f) : 0;
}

static __global__ void __launch_bounds__(THREADS) skip_learn(const struct skip_job job) {
    if (job.stop && *job.stop)
        return;
    const bool all = *job.s.stop_all == 0;
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y) {
        const int64_t count = all ? job.n : job.s.count[b];
        const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
        for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < count;
             i += step)
            learn_row(job, b * job.n + (all ? i : job.s.list[b * job.n + i]));
    }
}

static struct skip_job make_job(const struct hf_assign_rows *rows,
                                const struct hf_assign_step *step, const struct hf_skip_cuda *s) {
    const struct hf_assign_problem *p = &rows->problem;
    struct skip_job job = {};
    job.x = p->x.data;
    job.n = rows->n;
    job.k = p->k;
    job.d = p->x.cols;
    job.stride = p->x.row_stride != 0 ? p->x.row_stride : p->x.cols;
    job.batch = p->batch;
    job.c = step->c;
    job.c_before = step->drift != NULL ? NULL : step->c_before;
    job.valid = step->old_labels != NULL && (step->drift != NULL || step->c_before != NULL);
    job.c_f64 = p->c_type == HF_F64;
    job.norm = rows->norm;
    job.loss = rows->raw ? NULL : rows->loss;
    job.unit = rows->raw ? 1 : 1 / rows->scale;
    job.old_labels = step->old_labels;
    job.labels = step->labels;
    job.upper = (float *)step->bounds;
    job.lower = job.upper + p->x.rows;
    job.s = *s;
    job.drift_out = s->drift_out;
    if (step->drift != NULL)
        job.s.drift = step->drift;
    job.stop = step->stop;
    return job;
}

static dim3 rows_grid(const struct hf_cuda *cuda, const struct skip_job *job) {
    const int64_t most = (job->n + THREADS - 1) / THREADS;
    const int64_t share = (cuda->sms * 8 + job->batch - 1) / job->batch;
    return dim3((unsigned)(most < share ? most : share),
                (unsigned)(job->batch < 65535 ? job->batch : 65535));
}

hf_status hf_skip_scan(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                       const struct hf_assign_step *step, const struct hf_skip_cuda *s) {
    const struct skip_job job = make_job(rows, step, s);
    HF_TRY(hf_cuda_check(
        cuda,
        cudaMemsetAsync(s->counters, 0, sizeof(int32_t) * (size_t)(job.batch + 2), cuda->stream),
        "assign: clear counters"));
    const int64_t warps = job.batch * job.k;
    skip_drift<<<(unsigned)((warps * 32 + THREADS - 1) / THREADS), THREADS, 0, cuda->stream>>>(job);
    hf_for_dtype(rows->problem.x.dtype, [&](auto type) {
        skip_scan<decltype(type)::value><<<rows_grid(cuda, &job), THREADS, 0, cuda->stream>>>(job);
    });
    return hf_cuda_launched(cuda, "assign: scan bounds");
}

hf_status hf_skip_learn(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                        const struct hf_assign_step *step, const struct hf_skip_cuda *s) {
    const struct skip_job job = make_job(rows, step, s);
    skip_learn<<<rows_grid(cuda, &job), THREADS, 0, cuda->stream>>>(job);
    return hf_cuda_launched(cuda, "assign: new bounds");
}

size_t hf_skip_carve(const struct hf_assign_problem *problem, void *ws, struct hf_skip_cuda *s) {
    hf_carve carve = {(char *)ws, 0};
    const size_t rows = (size_t)problem->x.rows;
    const size_t batch = (size_t)problem->batch;
    *s = (struct hf_skip_cuda){};
    s->drift_out = (float *)hf_carve_take(&carve, sizeof(float) * batch * (size_t)problem->k);
    s->drift = s->drift_out;
    s->best = (float *)hf_carve_take(&carve, sizeof(float) * rows);
    s->second = (float *)hf_carve_take(&carve, sizeof(float) * rows);
    s->error = (float *)hf_carve_take(&carve, sizeof(float) * rows);
    s->list = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * rows);
    s->stop_all = (int32_t *)hf_carve_take(&carve, sizeof(int32_t));
    s->stop_list = (int32_t *)hf_carve_take(&carve, sizeof(int32_t));
    s->counters = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * (batch + 2));
    s->count = s->counters;
    if (s->counters != NULL) {
        s->total = s->counters + batch;
        s->ticket = s->total + 1;
    }
    return carve.used;
}
