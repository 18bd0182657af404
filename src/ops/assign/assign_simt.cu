/* SPDX-License-Identifier: Apache-2.0
 * The filter in float32 on ordinary lanes, for devices without Hopper's matrix units: the same two
 * passes, the same lists (assign_filter.h), the bound of the CPU's float32 tiles (assign_bound.h)
 * with one chain of d multiply-adds. A block keeps 128 rows and goes through all centroids. */
#include "base/mem.h"
#include "device/cuda/load.cuh"
#include "ops/assign/assign_simt.h"

#include <math.h>

#define TILE_ROWS 128
#define TILE_K 64
#define TILE_DEPTH 16
#define EACH_ROWS 8 /* of a thread */
#define EACH_K 4
#define K_THREADS (TILE_K / EACH_K)
#define THREADS (TILE_ROWS / EACH_ROWS * K_THREADS)
#define WILD 0x1p60f /* |c'| from here on leaves all rows open */

struct simt_job {
    const void *x; /* [batch, n, d] */
    int64_t n, k, d, stride, batch;
    const float *shift; /* [d] */
    float scale;
    bool euclidean;
    const float *norm; /* [batch, n] */
    struct hf_simt s;
    struct hf_filter_open open;
    int32_t *labels;
    int32_t *slots;
    const int32_t *stop;
};

struct simt_shared {
    float x[TILE_DEPTH][TILE_ROWS + 4];
    float c[TILE_DEPTH][TILE_K + 4];
    float bias[TILE_K];
    int32_t row[TILE_ROWS]; /* of the problem */
};

/* Best two scores of a row. */
struct top2 {
    float best, second;
    int32_t arg;
};

__device__ static void top2_offer(struct top2 *t, float score, int32_t arg) {
    if (score > t->best) {
        t->second = t->best;
        t->best = score;
        t->arg = arg;
    } else {
        t->second = fmaxf(t->second, score);
    }
}

__device__ static struct top2 top2_lanes(struct top2 t) {
    for (int step = K_THREADS / 2; step > 0; step /= 2) {
        const float best = __shfl_xor_sync(~0u, t.best, step);
        const float second = __shfl_xor_sync(~0u, t.second, step);
        const int32_t arg = __shfl_xor_sync(~0u, t.arg, step);
        const bool theirs = best > t.best || (best == t.best && arg < t.arg);
        t.second = fmaxf(fmaxf(t.second, second), fminf(t.best, best));
        t.best = theirs ? best : t.best;
        t.arg = theirs ? arg : t.arg;
    }
    return t;
}

/* x' of feature j. */
template <hf_dtype X>
__device__ static float centred(const struct simt_job &job, const void *x, int64_t j) {
    if constexpr (X == HF_F64)
        return static_cast<float>((hf_device_load<X>(x, j) - static_cast<double>(job.shift[j])) *
                                  static_cast<double>(job.scale));
    else
        return (hf_device_load_f32<X>(x, j) - job.shift[j]) * job.scale;
}

template <hf_dtype X>
__device__ static void load_tile(const struct simt_job &job, struct simt_shared &sm, int64_t b,
                                 int64_t first, int64_t k0) {
    const char *x = static_cast<const char *>(job.x) + b * job.n * job.stride * hf_device_bytes<X>;
    const float *c = job.s.c + (b * job.s.k_pad + k0) * job.d;
    const int f = static_cast<int>(threadIdx.x) % TILE_DEPTH;
    const int at = static_cast<int>(threadIdx.x) / TILE_DEPTH;
    const int64_t j = first + f;
    for (int r = at; r < TILE_ROWS; r += THREADS / TILE_DEPTH)
        sm.x[f][r] =
            j < job.d ? centred<X>(job, x + sm.row[r] * job.stride * hf_device_bytes<X>, j) : 0;
    for (int i = at; i < TILE_K; i += THREADS / TILE_DEPTH)
        sm.c[f][i] = j < job.d ? c[i * job.d + j] : 0;
    if (first == 0 && threadIdx.x < TILE_K)
        sm.bias[threadIdx.x] = job.s.bias[b * job.s.k_pad + k0 + threadIdx.x];
}

/* Scores of this thread's rows and centroids of one tile. */
template <hf_dtype X>
__device__ static void tile_scores(const struct simt_job &job, struct simt_shared &sm, int64_t b,
                                   int64_t k0, float score[EACH_ROWS][EACH_K]) {
    const int r0 = static_cast<int>(threadIdx.x) / K_THREADS * EACH_ROWS;
    const int c0 = static_cast<int>(threadIdx.x) % K_THREADS * EACH_K;
    for (int64_t first = 0; first < job.d; first += TILE_DEPTH) {
        __syncthreads();
        load_tile<X>(job, sm, b, first, k0);
        __syncthreads();
        if (first == 0)
            for (int r = 0; r < EACH_ROWS; r++)
                for (int i = 0; i < EACH_K; i++)
                    score[r][i] = sm.bias[c0 + i];
#pragma unroll 4
        for (int f = 0; f < TILE_DEPTH; f++)
#pragma unroll
            for (int r = 0; r < EACH_ROWS; r++)
#pragma unroll
                for (int i = 0; i < EACH_K; i++)
                    score[r][i] = fmaf(sm.x[f][r0 + r], sm.c[f][c0 + i], score[r][i]);
    }
}

/* What a centroid may score less than the best and still be the nearest one. */
__device__ static float margin_of(const struct simt_job &job, float norm, float cmax) {
    const double q = static_cast<double>(norm), c = static_cast<double>(cmax);
    const double d = static_cast<double>(job.d);
    const double eps = 1.01 * (d + 3) * 0x1p-24 + 8 * 0x1p-24;
    const double delta = 1.02 * 0x1p-24 + (d + 8) * 0x1p-52;
    const double e = eps * (q * c + c * c / 2) + d * 0x1p-118 * (1 + c) * (1 + c);
    const double off = delta * (q + c) + d * 0x1p-126;
    const double margin =
        job.euclidean ? 2 * (e + (q + c) * off + off * off) : 2 * (e + 4 * delta * q * c);
    return __double2float_ru(margin * (1 + 0x1p-10));
}

/* The first pass: labels, and rows that stay open. */
template <hf_dtype X>
static __global__ void __launch_bounds__(THREADS, 1) simt_top2(const struct simt_job job) {
    __shared__ struct simt_shared sm;
    if (job.stop && *job.stop)
        return;
    const int64_t tiles = (job.n + TILE_ROWS - 1) / TILE_ROWS;
    const int r0 = static_cast<int>(threadIdx.x) / K_THREADS * EACH_ROWS;
    const int c0 = static_cast<int>(threadIdx.x) % K_THREADS * EACH_K;
    for (int64_t item = blockIdx.x; item < tiles * job.batch; item += gridDim.x) {
        const int64_t b = item / tiles;
        const int64_t base = item % tiles * TILE_ROWS;
        __syncthreads();
        if (threadIdx.x < TILE_ROWS) {
            const int64_t row = base + threadIdx.x;
            sm.row[threadIdx.x] = static_cast<int32_t>(row < job.n ? row : job.n - 1);
        }
        struct top2 top[EACH_ROWS];
        for (int r = 0; r < EACH_ROWS; r++)
            top[r] = {-INFINITY, -INFINITY, 0};
        for (int64_t k0 = 0; k0 < job.s.k_pad; k0 += TILE_K) {
            float score[EACH_ROWS][EACH_K];
            tile_scores<X>(job, sm, b, k0, score);
            for (int r = 0; r < EACH_ROWS; r++)
                for (int i = 0; i < EACH_K; i++)
                    top2_offer(&top[r], score[r][i], static_cast<int32_t>(k0) + c0 + i);
        }
        for (int r = 0; r < EACH_ROWS; r++) {
            const struct top2 t = top2_lanes(top[r]);
            const int64_t row = base + r0 + r;
            if (threadIdx.x % K_THREADS != 0 || row >= job.n)
                continue;
            job.labels[b * job.n + row] = t.arg;
            const float threshold =
                t.best - margin_of(job, job.norm[b * job.n + row], job.s.cmax[b]);
            if (t.second < threshold)
                continue;
            const int64_t entry = b * job.open.cap + atomicAdd(job.open.count + b, 1);
            job.open.row[entry] = static_cast<int32_t>(row);
            job.open.threshold[entry] = threshold;
            job.open.emitted[entry] = 0;
        }
    }
}

/* The second pass, over open rows: who reaches the threshold. */
template <hf_dtype X>
static __global__ void __launch_bounds__(THREADS, 1) simt_emit(const struct simt_job job) {
    __shared__ struct simt_shared sm;
    if (job.stop && *job.stop)
        return;
    const int r0 = static_cast<int>(threadIdx.x) / K_THREADS * EACH_ROWS;
    const int c0 = static_cast<int>(threadIdx.x) % K_THREADS * EACH_K;
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y) {
        const int64_t count = job.open.count[b];
        for (int64_t base = static_cast<int64_t>(blockIdx.x) * TILE_ROWS; base < count;
             base += static_cast<int64_t>(gridDim.x) * TILE_ROWS) {
            const int64_t entry = b * job.open.cap + base;
            __syncthreads();
            if (threadIdx.x < TILE_ROWS)
                sm.row[threadIdx.x] =
                    job.open.row[entry + (base + threadIdx.x < count ? threadIdx.x : 0)];
            float threshold[EACH_ROWS];
            for (int r = 0; r < EACH_ROWS; r++)
                threshold[r] = base + r0 + r < count ? job.open.threshold[entry + r0 + r]
                                                     : NAN; /* reached by none */
            for (int64_t k0 = 0; k0 < job.s.k_pad; k0 += TILE_K) {
                float score[EACH_ROWS][EACH_K];
                tile_scores<X>(job, sm, b, k0, score);
                for (int r = 0; r < EACH_ROWS; r++)
                    for (int i = 0; i < EACH_K; i++) {
                        if (!(score[r][i] >= threshold[r]) || k0 + c0 + i >= job.k)
                            continue;
                        const int at = atomicAdd(job.open.emitted + entry + r0 + r, 1);
                        if (at < HF_FILTER_SLOTS)
                            job.slots[(entry + r0 + r) * HF_FILTER_SLOTS + at] =
                                static_cast<int32_t>(k0) + c0 + i;
                    }
            }
        }
    }
}

struct pack_job {
    const void *c; /* [batch, k, d] */
    bool c_f64;
    int64_t k, d, batch;
    hf_metric metric;
    const float *shift;
    double scale;
    struct hf_simt s;
    const int32_t *stop;
};

__device__ static double pack_load(const struct pack_job &job, int64_t i) {
    return job.c_f64 ? static_cast<const double *>(job.c)[i]
                     : static_cast<double>(static_cast<const float *>(job.c)[i]);
}

__device__ static double warp_sum(double v) {
    for (int step = 16; step > 0; step /= 2)
        v += __shfl_xor_sync(~0u, v, step);
    return v;
}

/* c' and its bias, a warp to a centroid; the longest of each problem. */
static __global__ void simt_pack(const struct pack_job job) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const int64_t at =
        (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / 32; /* of [batch, k_pad] */
    const int64_t b = at / job.s.k_pad;
    const int64_t k = at % job.s.k_pad;
    if (b >= job.batch || (job.stop && *job.stop))
        return;
    const bool there = k < job.k;
    const int64_t from = (b * job.k + (there ? k : 0)) * job.d;
    double unit = job.scale;
    if (job.metric == HF_COSINE) {
        double square = 0;
        for (int64_t j = lane; j < job.d; j += 32)
            square += pack_load(job, from + j) * pack_load(job, from + j);
        square = warp_sum(square);
        unit = square > 0 ? 1 / sqrt(square) : 0;
    }
    double square = 0;
    for (int64_t j = lane; j < job.d; j += 32) {
        const double shift = static_cast<double>(job.shift[j]);
        const float c = there ? static_cast<float>((pack_load(job, from + j) - shift) * unit) : 0;
        job.s.c[at * job.d + j] = c;
        square += static_cast<double>(c) * static_cast<double>(c);
    }
    square = warp_sum(square);
    if (lane != 0)
        return;
    job.s.bias[at] = !there                       ? -INFINITY
                     : job.metric == HF_EUCLIDEAN ? static_cast<float>(-square / 2)
                                                  : 0;
    const float length = __double2float_ru(sqrt(square) * (1 + 0x1p-20));
    if (there) /* as integers floats that are not negative have the same order, NaN on top */
        atomicMax(reinterpret_cast<int *>(job.s.cmax + b),
                  __float_as_int(length < WILD ? length : INFINITY));
}

size_t hf_simt_carve(const struct hf_assign_problem *problem, void *ws, struct hf_simt *s) {
    hf_carve carve = {(char *)ws, 0};
    const size_t batch = (size_t)problem->batch;
    *s = (struct hf_simt){};
    s->k_pad = (problem->k + TILE_K - 1) / TILE_K * TILE_K;
    s->c = (float *)hf_carve_take(&carve, sizeof(float) * batch * (size_t)s->k_pad *
                                              (size_t)problem->x.cols);
    s->bias = (float *)hf_carve_take(&carve, sizeof(float) * batch * (size_t)s->k_pad);
    s->cmax = (float *)hf_carve_take(&carve, sizeof(float) * batch);
    return carve.used;
}

static hf_status simt_centroids(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                                const struct hf_assign_step *step, const struct hf_simt *s) {
    const struct hf_assign_problem *p = &rows->problem;
    struct pack_job job = {};
    job.c = step->c;
    job.c_f64 = p->c_type == HF_F64;
    job.k = p->k;
    job.d = p->x.cols;
    job.batch = p->batch;
    job.metric = p->metric;
    job.shift = rows->shift32;
    job.scale = rows->scale;
    job.s = *s;
    job.stop = step->stop;
    HF_TRY(hf_cuda_check(
        cuda, cudaMemsetAsync(s->cmax, 0, sizeof(float) * (size_t)p->batch, cuda->stream),
        "assign: clear counters"));
    const int64_t warps = p->batch * s->k_pad;
    simt_pack<<<(unsigned)((warps + 7) / 8), 256, 0, cuda->stream>>>(job);
    return hf_cuda_launched(cuda, "assign: pack centroids");
}

hf_status hf_simt_run(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                      const struct hf_assign_step *step, const struct hf_simt *s,
                      const struct hf_filter_open *open, int32_t *slots) {
    const struct hf_assign_problem *p = &rows->problem;
    HF_TRY(simt_centroids(cuda, rows, step, s));
    struct simt_job job = {};
    job.x = p->x.data;
    job.n = rows->n;
    job.k = p->k;
    job.d = p->x.cols;
    job.stride = p->x.row_stride != 0 ? p->x.row_stride : p->x.cols;
    job.batch = p->batch;
    job.shift = rows->shift32;
    job.scale = static_cast<float>(rows->scale);
    job.euclidean = p->metric == HF_EUCLIDEAN;
    job.norm = rows->norm;
    job.s = *s;
    job.open = *open;
    job.labels = step->labels;
    job.slots = slots;
    job.stop = step->stop;
    const int64_t tiles = (rows->n + TILE_ROWS - 1) / TILE_ROWS;
    const int64_t most = (int64_t)cuda->sms * 8;
    const unsigned grid = (unsigned)(tiles * p->batch < most ? tiles * p->batch : most);
    const unsigned share = (unsigned)((cuda->sms * 2 + p->batch - 1) / p->batch);
    const dim3 emit(tiles < share ? (unsigned)tiles : share,
                    (unsigned)(p->batch < 65535 ? p->batch : 65535));
    hf_for_dtype(p->x.dtype, [&](auto type) {
        constexpr hf_dtype X = decltype(type)::value;
        simt_top2<X><<<grid, THREADS, 0, cuda->stream>>>(job);
        simt_emit<X><<<emit, THREADS, 0, cuda->stream>>>(job);
    });
    return hf_cuda_launched(cuda, "assign: float32 filter");
}
