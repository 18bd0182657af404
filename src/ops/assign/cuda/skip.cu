/* SPDX-License-Identifier: Apache-2.0
 * The scan reads 12 bytes a row. A block looks at some rows at a time: what they need beyond that,
 * the distance to their own centroid, its warps measure together, and what is still undecided then
 * goes to the list in one piece. */
#include "base/dtype.h"
#include "base/mem.h"
#include "device/cuda/load.cuh"
#include "ops/assign/cuda/bounds.cuh"
#include "ops/assign/cuda/drifts.cuh"
#include "ops/assign/cuda/i8.h"

#include <math.h>
#include <string.h>

#define THREADS 256
#define WARPS (THREADS / 32)
#define EACH 4                 /* rows of a thread at a time */
#define CHUNK (THREADS * EACH) /* of a block */
#define TABLE 4096             /* drifts kept in shared memory */
#define FLIGHT 4               /* rows whose distances a warp measures together */
#define LIST_COST 1.3f         /* of a row gathered from a list, against rows in sequence, */
#define GATHER_NS 0.08         /* and so much more a row */
#define MEASURE_RATE 3500      /* bytes a nanosecond when own distances are measured */
#define MEASURE_WORTH 0.8f     /* most that a distance may cost, against scores of the row */
#define NEAR_NS 1.4e-4         /* a column of two centroids that are compared */
#define KEEP_NS 0.02           /* a row, to read, write and learn bounds */
#define WORTH_NS 2.5e5         /* scoring all rows: bounds are not tried where it is less, */
#define WORTH_SHARE 0.1        /* and where keeping them costs more than this share of it */
#define UP (1 + 0x1p-20f)
#define DOWN (1 - 0x1p-20f)

struct skip_job {
    const void *x; /* [batch, n, d] */
    int64_t n, k, d, stride, batch;
    const void *c; /* [batch, k, d] */
    bool c_f64;
    const float *drift; /* [batch, k] NULL: the bounds do not hold */
    struct hf_bounds bounds;
    float grow, tiny; /* see distance_above() */
    const int32_t *old_labels;
    int32_t *labels;
    struct hf_assign_guide *guide;
    bool measures; /* own distances */
    struct hf_skip_cuda s;
    const int32_t *stop;
};

__device__ static double load_c(const void *c, bool f64, int64_t i) {
    return f64 ? static_cast<const double *>(c)[i]
               : static_cast<double>(static_cast<const float *>(c)[i]);
}

template <typename W> __device__ static W warp_sum(W v) {
    for (int step = 16; step > 0; step /= 2)
        v += __shfl_xor_sync(~0u, v, step);
    return v;
}

/* ---- drifts */

/* The two largest drifts of a problem. */
struct drifts {
    float most, second;
    int32_t arg;
};

/* What is not a number is far. */
__device__ static float drift_of(const struct skip_job &job, int64_t b, int64_t k) {
    const float drift = job.drift[b * job.k + k];
    return drift >= 0 ? drift : INFINITY;
}

__device__ static void drifts_join(struct drifts *a, float most, float second, int32_t arg) {
    if (most > a->most) {
        a->second = fmaxf(a->most, second);
        a->most = most;
        a->arg = arg;
    } else {
        a->second = fmaxf(a->second, most);
    }
}

/* All drifts into table, if there is room, and the largest of them to all threads. */
__device__ static struct drifts block_drifts(const struct skip_job &job, int64_t b, float *table) {
    __shared__ struct drifts part[WARPS];
    struct drifts mine = {-1, -1, -1};
    __syncthreads();
    for (int64_t k = threadIdx.x; k < job.k; k += THREADS) {
        const float drift = drift_of(job, b, k);
        drifts_join(&mine, drift, -1, static_cast<int32_t>(k));
        if (job.k <= TABLE)
            table[k] = drift;
    }
    for (int step = 16; step > 0; step /= 2) {
        const float most = __shfl_xor_sync(~0u, mine.most, step);
        const float second = __shfl_xor_sync(~0u, mine.second, step);
        const int32_t arg = __shfl_xor_sync(~0u, mine.arg, step);
        drifts_join(&mine, most, second, arg);
        mine.second = fmaxf(mine.second, second);
    }
    if (threadIdx.x % 32 == 0)
        part[threadIdx.x / 32] = mine;
    __syncthreads();
    struct drifts all = part[0];
    for (int w = 1; w < WARPS; w++) {
        drifts_join(&all, part[w].most, part[w].second, part[w].arg);
        all.second = fmaxf(all.second, part[w].second);
    }
    return all;
}

/* ---- own distances */

/* At least the distance whose square was summed up as W. Terms are positive, so a chain of d / 32
 * and five more additions is off by a share of that many roundings; grow pays for these, for those
 * of the differences and the root, tiny for what underflows. */
template <typename W> __device__ static float distance_above(const struct skip_job &job, W square) {
    if constexpr (sizeof(W) == 8)
        return __double2float_ru(sqrt(square) * (1 + 0x1p-20)) + 0x1p-126f;
    return __fadd_ru(__fmul_ru(__fsqrt_ru(square), job.grow), job.tiny);
}

/* Bounds of a row and its number in the chunk. */
struct entry {
    int32_t at, label;
    float upper, lower;
};

/* At least the distances of FLIGHT rows to their centroids, by a whole warp: the loads of all are
 * under way together. */
template <hf_dtype X, typename W>
__device__ static void own_distances(const struct skip_job &job, int64_t b, int64_t base,
                                     const struct entry *entry, int count, float out[FLIGHT]) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const char *x[FLIGHT];
    int64_t c[FLIGHT];
    W square[FLIGHT] = {};
#pragma unroll
    for (int f = 0; f < FLIGHT; f++) {
        const struct entry &e = entry[f < count ? f : 0];
        x[f] = static_cast<const char *>(job.x) +
               (b * job.n + base + e.at) * job.stride * hf_device_bytes<X>;
        c[f] = (b * job.k + e.label) * job.d;
    }
#pragma unroll 2
    for (int64_t j = lane; j < job.d; j += 32) {
#pragma unroll
        for (int f = 0; f < FLIGHT; f++) {
            W t;
            if constexpr (sizeof(W) == 8)
                t = hf_device_load<X>(x[f], j) - load_c(job.c, job.c_f64, c[f] + j);
            else
                t = hf_device_load_f32<X>(x[f], j) - static_cast<const float *>(job.c)[c[f] + j];
            square[f] += t * t;
        }
    }
#pragma unroll
    for (int f = 0; f < FLIGHT; f++)
        out[f] = distance_above<W>(job, warp_sum<W>(square[f]));
}

/* ---- scan */

/* What the threads of a block hand each other. */
struct shared {
    float table[TABLE];
    struct entry wanted[CHUNK]; /* rows whose own distance may decide them */
    int32_t open[CHUNK];        /* rows that go to the list */
    int wanted_count, open_count, list_at;
};

/* Append to a list in shared memory; all threads of a warp call it. */
__device__ static int append(int *count, bool mine) {
    const unsigned mask = __ballot_sync(~0u, mine);
    const int lane = static_cast<int>(threadIdx.x) % 32;
    int at = 0;
    if (lane == 0 && mask)
        at = atomicAdd(count, __popc(mask));
    return __shfl_sync(~0u, at, 0) + __popc(mask & ((1u << lane) - 1));
}

/* What is known of a row before any distance is measured. */
struct row_bounds {
    int32_t label;
    float drift; /* of its own centroid */
    float upper, lower;
    bool open;   /* they do not decide it */
    bool wanted; /* but perhaps if the row is as near to its centroid as it was */
};

__device__ static struct row_bounds move_bounds(const struct skip_job &job, int64_t b,
                                                const struct drifts &most, const float *table,
                                                struct row_bounds r) {
    r.open = true;
    r.wanted = false;
    if (r.label < 0)
        return r;
    r.drift = job.k <= TABLE ? table[r.label] : drift_of(job, b, r.label);
    const float others = r.label == most.arg ? most.second : most.most;
    const float before = r.upper;
    if (r.drift > 0)
        r.upper = (r.upper + r.drift) * UP;
    if (others > 0) {
        const float lower = r.lower;
        r.lower = fmaxf(0, (lower - others) * DOWN);
        if (job.s.drifts.most != nullptr)
            r.lower =
                fmaxf(r.lower, hf_drift_lower(job.s.drifts, b * job.k + r.label, r.upper, lower));
    }
    r.open = !(r.upper < r.lower);
    r.wanted = job.measures && r.open && r.drift > 0 && before < r.lower;
    return r;
}

/* A row that is decided keeps its label; bounds are written where they changed. */
__device__ static void keep_row(const struct skip_job &job, int64_t row, int32_t label, float upper,
                                float lower, bool moved) {
    job.labels[row] = label;
    if (moved)
        job.bounds.upper[row] = upper;
    job.bounds.lower[row] = lower;
}

/* The rows from `base` on, by what is known of them. */
__device__ static void sort_chunk(const struct skip_job &job, int64_t b, int64_t base,
                                  const struct drifts &most, struct shared *sh) {
    struct row_bounds r[EACH];
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int64_t i = base + e * THREADS + threadIdx.x;
        const int64_t row = b * job.n + (i < job.n ? i : 0);
        r[e].label = job.old_labels[row];
        r[e].upper = job.bounds.upper[row];
        r[e].lower = job.bounds.lower[row];
    }
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int at = e * THREADS + static_cast<int>(threadIdx.x);
        const bool valid = base + at < job.n;
        const struct row_bounds now = move_bounds(job, b, most, sh->table, r[e]);
        if (valid && !now.open)
            keep_row(job, b * job.n + base + at, now.label, now.upper, now.lower, now.drift > 0);
        const int place = append(&sh->wanted_count, valid && now.wanted);
        if (valid && now.wanted) {
            const struct entry entry = {at, now.label, now.upper, now.lower};
            sh->wanted[place] = entry;
        }
        const bool open = valid && now.open && !now.wanted;
        const int last = append(&sh->open_count, open);
        if (open)
            sh->open[last] = at;
    }
}

/* The rows of a chunk that their own distance may decide. */
template <hf_dtype X>
__device__ static void measure_chunk(const struct skip_job &job, int64_t b, int64_t base,
                                     struct shared *sh) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int count = sh->wanted_count;
    for (int i = static_cast<int>(threadIdx.x) / 32 * FLIGHT; i < count; i += WARPS * FLIGHT) {
        const int some = count - i < FLIGHT ? count - i : FLIGHT;
        float distance[FLIGHT];
        if (X == HF_F64 || job.c_f64)
            own_distances<X, double>(job, b, base, sh->wanted + i, some, distance);
        else
            own_distances<X, float>(job, b, base, sh->wanted + i, some, distance);
        float own = distance[0];
#pragma unroll
        for (int f = 1; f < FLIGHT; f++)
            own = lane == f ? distance[f] : own;
        bool open = false;
        struct entry e = sh->wanted[i + (lane < some ? lane : 0)];
        if (lane < some) {
            e.upper = fminf(e.upper, own);
            open = !(e.upper < e.lower);
            if (!open)
                keep_row(job, b * job.n + base + e.at, e.label, e.upper, e.lower, true);
        }
        const int place = append(&sh->open_count, open);
        if (open)
            sh->open[place] = e.at;
    }
}

/* The rest of the chunk to the list of the problem; returns how many. */
__device__ static int list_chunk(const struct skip_job &job, int64_t b, int64_t base,
                                 struct shared *sh) {
    const int count = sh->open_count;
    if (threadIdx.x == 0 && count > 0)
        sh->list_at = atomicAdd(job.s.count + b, count);
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < count; i += THREADS)
        job.s.list[b * job.n + sh->list_at + i] = static_cast<int32_t>(base + sh->open[i]);
    return count;
}

/* What the step cost, as a share of scoring all rows. */
__device__ static float step_cost(const struct hf_assign_guide &g, float listed, float measured) {
    return g.keep + g.measure * measured + (listed * g.list < 1 ? listed * g.list : 1.0f);
}

/* The last block chooses between all rows and the list, and whether bounds go on. */
__device__ static void choose_pass(const struct skip_job &job, int listed, int measured) {
    if (threadIdx.x != 0)
        return;
    if (listed > 0)
        atomicAdd(job.s.total, listed);
    if (measured > 0)
        atomicAdd(job.s.measured, measured);
    __threadfence();
    if (atomicAdd(job.s.ticket, 1) != static_cast<int>(gridDim.x * gridDim.y) - 1)
        return;
    __threadfence();
    const float rows = static_cast<float>(job.batch * job.n);
    const float total = static_cast<float>(*static_cast<volatile int32_t *>(job.s.total)) / rows;
    const float own = static_cast<float>(*static_cast<volatile int32_t *>(job.s.measured)) / rows;
    const bool all = !(total * (job.guide != nullptr ? job.guide->list : LIST_COST) < 1);
    *job.s.stop_all = !all;
    *job.s.stop_list = all;
    struct hf_assign_guide *g = job.guide;
    if (g == nullptr || g->always)
        return;
    if (step_cost(*g, total, own) < 1) {
        g->penalty = g->first;
        return;
    }
    g->use = g->learn = 0;
    g->rest = g->penalty;
    g->penalty = 2 * g->penalty < g->longest ? 2 * g->penalty : g->longest;
}

/* A step that looks at all rows without bounds, or at none. */
__device__ static void choose_all(const struct skip_job &job, bool stopped) {
    if (blockIdx.x != 0 || blockIdx.y != 0 || threadIdx.x != 0)
        return;
    *job.s.stop_all = stopped;
    *job.s.stop_list = 1;
    if (job.guide != nullptr && !stopped && !job.guide->learn && --job.guide->rest <= 0)
        job.guide->learn = 1;
}

template <hf_dtype X>
static __global__ void __launch_bounds__(THREADS, 3) skip_scan(const struct skip_job job) {
    __shared__ struct shared sh;
    const bool stopped = job.stop && *job.stop;
    if (stopped || !job.drift || !job.old_labels || (job.guide != nullptr && !job.guide->use)) {
        choose_all(job, stopped);
        return;
    }
    int listed = 0, measured = 0;
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y) {
        const struct drifts most = block_drifts(job, b, sh.table);
        for (int64_t base = static_cast<int64_t>(blockIdx.x) * CHUNK; base < job.n;
             base += static_cast<int64_t>(gridDim.x) * CHUNK) {
            __syncthreads();
            if (threadIdx.x == 0)
                sh.wanted_count = sh.open_count = 0;
            __syncthreads();
            sort_chunk(job, b, base, most, &sh);
            __syncthreads();
            measured += sh.wanted_count;
            measure_chunk<X>(job, b, base, &sh);
            __syncthreads();
            listed += list_chunk(job, b, base, &sh);
        }
    }
    choose_pass(job, listed, measured);
}

/* ---- new bounds */

static __global__ void __launch_bounds__(THREADS) skip_learn(const struct skip_job job) {
    if ((job.stop && *job.stop) || !hf_bounds_wanted(job.bounds))
        return;
    if (job.guide != nullptr && blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0)
        job.guide->use = 1;
    const bool all = *job.s.stop_all == 0;
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y) {
        const int64_t count = all ? job.n : job.s.count[b];
        const int64_t step = static_cast<int64_t>(gridDim.x) * THREADS;
        for (int64_t i = static_cast<int64_t>(blockIdx.x) * THREADS + threadIdx.x; i < count;
             i += step)
            hf_bounds_scored(job.bounds, b * job.n + (all ? i : job.s.list[b * job.n + i]));
    }
}

/* ---- host */

/* What it takes to score all rows. */
static double score_ns(const struct hf_assign_problem *p) {
    const int64_t n = p->x.rows / p->batch;
    return hf_filter_estimate_ns(p->device, n, (int)p->k, (int)p->x.cols, (int)p->batch);
}

/* Of measuring the own distances of all rows. */
static float measure_cost(const struct hf_assign_problem *p) {
    const double row =
        (double)p->x.cols * (double)(hf_dtype_bytes(p->x.dtype) + hf_dtype_bytes(p->c_type));
    return (float)((double)p->x.rows * row / MEASURE_RATE / score_ns(p));
}

/* Of comparing all centroids with each other. */
static double drifts_ns(const struct hf_assign_problem *p) {
    return (double)p->batch * (double)p->k * (double)p->k * (double)p->x.cols * NEAR_NS;
}

/* Is that little, beside scoring all rows? Float32 centroids, as their differences are right in
 * float32. */
static bool drifts_pays(const struct hf_assign_problem *p) {
    return p->c_type == HF_F32 && drifts_ns(p) < 0.05 * score_ns(p);
}

struct hf_bounds hf_skip_bounds(const struct hf_assign_rows *rows,
                                const struct hf_assign_step *step, const struct hf_skip_cuda *s) {
    struct hf_bounds b = {};
    b.upper = (float *)step->bounds;
    b.lower = b.upper + rows->problem.x.rows;
    b.best = s->best;
    b.second = s->second;
    b.error = s->error;
    b.norm = rows->norm;
    b.loss = rows->raw ? NULL : rows->loss;
    b.unit = rows->raw ? 1 : 1 / rows->scale;
    b.d = rows->problem.x.cols;
    b.guide = step->guide;
    return b;
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
    job.c_f64 = p->c_type == HF_F64;
    job.drift = step->drift;
    job.bounds = hf_skip_bounds(rows, step, s);
    job.grow = 1 + static_cast<float>((double)(job.d / 32 + 16) * 1.0625 * 0x1p-24) + 0x1p-22f;
    job.tiny = static_cast<float>(sqrt((double)job.d) * 0x1p-74) + 0x1p-126f;
    job.old_labels = step->old_labels;
    job.labels = step->labels;
    job.guide = step->guide;
    job.measures = step->guide == NULL || measure_cost(p) < MEASURE_WORTH;
    job.s = *s;
    job.stop = step->stop;
    return job;
}

static dim3 rows_grid(const struct hf_cuda *cuda, const struct skip_job *job, int64_t rows,
                      int blocks) {
    const int64_t most = (job->n + rows - 1) / rows;
    const int64_t share = (cuda->sms * blocks + job->batch - 1) / job->batch;
    return dim3((unsigned)(most < share ? most : share),
                (unsigned)(job->batch < 65535 ? job->batch : 65535));
}

hf_status hf_skip_scan(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                       const struct hf_assign_step *step, const struct hf_skip_cuda *s) {
    const struct skip_job job = make_job(rows, step, s);
    HF_TRY(hf_cuda_check(cuda, cudaMemsetAsync(s->counters, 0, s->cleared_bytes, cuda->stream),
                         "assign: clear counters"));
    HF_TRY(hf_drifts_collect(cuda, rows, step, &s->drifts));
    const dim3 grid = rows_grid(cuda, &job, CHUNK, 3);
    hf_for_dtype(rows->problem.x.dtype, [&](auto type) {
        skip_scan<decltype(type)::value><<<grid, THREADS, 0, cuda->stream>>>(job);
    });
    return hf_cuda_launched(cuda, "assign: scan bounds");
}

hf_status hf_skip_learn(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                        const struct hf_assign_step *step, const struct hf_skip_cuda *s) {
    const struct skip_job job = make_job(rows, step, s);
    skip_learn<<<rows_grid(cuda, &job, THREADS, 8), THREADS, 0, cuda->stream>>>(job);
    return hf_cuda_launched(cuda, "assign: new bounds");
}

/* The last bin holds the largest distances that there can be within the data. */
static int32_t drifts_key(const struct hf_assign_problem *p) {
    const double scale = p->scale > 0 ? p->scale : 1;
    const float most = (float)fmin(2 * sqrt((double)p->x.cols) / scale, 0x1p120);
    int32_t bits;
    memcpy(&bits, &most, sizeof bits);
    const int32_t key = (bits >> 22) - HF_DRIFT_BINS + 2;
    return key > 2 ? key : 2;
}

size_t hf_skip_carve(const struct hf_assign_problem *problem, void *ws, struct hf_skip_cuda *s) {
    hf_carve carve = {(char *)ws, 0};
    const size_t rows = (size_t)problem->x.rows;
    const size_t batch = (size_t)problem->batch;
    *s = (struct hf_skip_cuda){};
    s->best = (float *)hf_carve_take(&carve, sizeof(float) * rows);
    s->second = (float *)hf_carve_take(&carve, sizeof(float) * rows);
    s->error = (float *)hf_carve_take(&carve, sizeof(float) * rows);
    s->list = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * rows);
    s->stop_all = (int32_t *)hf_carve_take(&carve, sizeof(int32_t));
    s->stop_list = (int32_t *)hf_carve_take(&carve, sizeof(int32_t));
    const size_t before = carve.used;
    s->counters = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * (batch + 3));
    s->count = s->counters;
    if (drifts_pays(problem)) {
        const size_t bins = batch * (size_t)problem->k * HF_DRIFT_BINS;
        s->drifts.most = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * bins);
        s->drifts.key = drifts_key(problem);
    }
    s->cleared_bytes = carve.used - before;
    if (s->counters != NULL) {
        s->total = s->counters + batch;
        s->measured = s->total + 1;
        s->ticket = s->measured + 1;
    }
    return carve.used;
}

size_t hf_assign_bounds_bytes(const struct hf_assign_problem *p) {
    if (p->metric != HF_EUCLIDEAN || !p->exact)
        return 0;
    return 2 * sizeof(float) * (size_t)p->x.rows;
}

/* Of keeping bounds, as a share of scoring all rows. */
static double keep_cost(const struct hf_assign_problem *p) {
    const double drifts = drifts_pays(p) ? drifts_ns(p) : 0;
    return (KEEP_NS * (double)p->x.rows + drifts) / score_ns(p);
}

bool hf_assign_bounds_pay(const struct hf_assign_problem *p) {
    if (hf_assign_bounds_bytes(p) == 0 || hf_i8_wanted(p)) /* either bounds or 8 bits */
        return false;
    return score_ns(p) > WORTH_NS && keep_cost(p) < WORTH_SHARE;
}

hf_status hf_assign_guide_begin(struct hf_cuda *cuda, const struct hf_assign_problem *p,
                                bool always, struct hf_assign_guide *guide) {
    const double all = score_ns(p);
    struct hf_assign_guide g = {};
    g.keep = (float)keep_cost(p);
    g.measure = measure_cost(p);
    g.list = LIST_COST + (float)(GATHER_NS * (double)p->x.rows / all);
    g.always = always;
    /* in the long run failures are to cost a third of a per cent */
    const double longest = ceil(300 * (double)g.keep);
    g.longest = longest < 8 ? 8 : longest > 64 ? 64 : (int32_t)longest;
    g.first = g.longest / 8;
    g.rest = g.penalty = g.first;
    g.learn = always;
    return hf_cuda_check(cuda,
                         cudaMemcpyAsync(guide, &g, sizeof g, cudaMemcpyDefault, cuda->stream),
                         "assign: guide");
}
