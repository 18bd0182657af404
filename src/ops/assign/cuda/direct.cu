/* SPDX-License-Identifier: Apache-2.0
 * The distances of a few rows to not many centroids, as fast as one launch can be: a warp takes a
 * row, a lane four centroids, so that even some hundred rows keep the device busy. */
#include "ops/assign/cuda/open/exact.cuh"
#include "ops/assign/cuda/open/settle.h"

#define WARPS 4
#define EACH 4 /* centroids of a lane */
#define TILE_K (32 * EACH)
#define DEPTH 32
#define PITCH (TILE_K + 1) /* doubles from feature to feature: no bank conflicts */

struct direct_job {
    const void *x; /* [batch, n, d] */
    int64_t n, k, d, stride, batch;
    const void *c; /* [batch, k, d] */
    hf_metric metric;
    const double *norm;   /* [batch, k] */
    const int32_t *list;  /* [batch, n] */
    const int32_t *count; /* [batch] */
    int32_t *labels;
    const int32_t *stop;
};

struct direct_shared {
    double c[DEPTH * PITCH];
    double x[WARPS][DEPTH];
};

/* Features from first on of TILE_K centroids from k0 on; zeros, which change no sum, where there
 * are none. */
template <bool C_F64>
__device__ static void load_centroids(const struct direct_job &job, struct direct_shared &sm,
                                      const void *c, int64_t k0, int64_t first) {
    const int f = static_cast<int>(threadIdx.x) % DEPTH;
    const int64_t j = first + f;
#pragma unroll 16
    for (int i = static_cast<int>(threadIdx.x) / DEPTH; i < TILE_K; i += WARPS) {
        const bool there = j < job.d && k0 + i < job.k;
        const int64_t at = (k0 + i) * job.d + j;
        double v = 0;
        if (there)
            v = hf_exact_center<C_F64>(c, at);
        sm.c[f * PITCH + i] = v;
    }
}

/* The winner of the row of this warp, in all lanes. */
template <hf_dtype X, bool C_F64, bool PRODUCT>
__device__ static struct hf_winner row_winner(const struct direct_job &job,
                                              struct direct_shared &sm, int64_t b, const void *x) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    double *mine = sm.x[threadIdx.x / 32];
    const char *c = static_cast<const char *>(job.c) + b * job.k * job.d * (C_F64 ? 8 : 4);
    const double norm_x = job.metric == HF_COSINE ? hf_exact_norm<X>(x, job.d) : 0;
    struct hf_winner best = hf_winner_none();
    for (int64_t k0 = 0; k0 < job.k; k0 += TILE_K) {
        double sum[EACH] = {};
        for (int64_t first = 0; first < job.d; first += DEPTH) {
            __syncthreads();
            load_centroids<C_F64>(job, sm, c, k0, first);
            mine[lane] = first + lane < job.d ? hf_device_load<X>(x, first + lane) : 0;
            __syncthreads();
#pragma unroll 8
            for (int f = 0; f < DEPTH; f++)
#pragma unroll
                for (int i = 0; i < EACH; i++)
                    sum[i] = __dadd_rn(
                        sum[i], hf_exact_term<PRODUCT>(mine[f], sm.c[f * PITCH + i * 32 + lane]));
        }
        for (int i = 0; i < EACH; i++) {
            const int64_t arg = k0 + i * 32 + lane;
            if (arg >= job.k)
                break;
            const double norm_c = job.metric == HF_COSINE ? job.norm[b * job.k + arg] : 0;
            hf_winner_offer(&best, hf_exact_finish(job.metric, sum[i], norm_x, norm_c),
                            static_cast<int32_t>(arg));
        }
    }
    return hf_winner_lanes(best, 32);
}

template <hf_dtype X, bool C_F64, bool PRODUCT>
static __global__ void __launch_bounds__(WARPS * 32, 3) settle_direct(const struct direct_job job) {
    __shared__ struct direct_shared sm;
    if (job.stop && *job.stop)
        return;
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y) {
        const int64_t count = job.count[b];
        for (int64_t base = static_cast<int64_t>(blockIdx.x) * WARPS; base < count;
             base += static_cast<int64_t>(gridDim.x) * WARPS) {
            const int64_t i = base + threadIdx.x / 32;
            const int64_t row = job.list[b * job.n + (i < count ? i : base)];
            const char *x = static_cast<const char *>(job.x) +
                            (b * job.n + row) * job.stride * hf_device_bytes<X>;
            const struct hf_winner best = row_winner<X, C_F64, PRODUCT>(job, sm, b, x);
            if (threadIdx.x % 32 == 0 && i < count)
                job.labels[b * job.n + row] = hf_winner_label(best);
        }
    }
}

template <hf_dtype X, bool C_F64>
static void launch_direct(struct hf_cuda *cuda, dim3 grid, const struct direct_job &job) {
    if (job.metric == HF_EUCLIDEAN)
        settle_direct<X, C_F64, false><<<grid, WARPS * 32, 0, cuda->stream>>>(job);
    else
        settle_direct<X, C_F64, true><<<grid, WARPS * 32, 0, cuda->stream>>>(job);
}

hf_status hf_settle_direct(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                           const struct hf_assign_step *step, const struct hf_settle *s) {
    const struct hf_assign_problem *p = &rows->problem;
    struct direct_job job = {};
    job.x = p->x.data;
    job.n = rows->n;
    job.k = p->k;
    job.d = p->x.cols;
    job.stride = p->x.row_stride != 0 ? p->x.row_stride : p->x.cols;
    job.batch = p->batch;
    job.c = step->c;
    job.metric = p->metric;
    job.norm = s->norm;
    job.list = s->open.row;
    job.count = s->open.count;
    job.labels = step->labels;
    job.stop = step->stop;
    const int64_t most = (rows->n + WARPS - 1) / WARPS;
    const int64_t share = (cuda->sms * 4 + p->batch - 1) / p->batch;
    const dim3 grid((unsigned)(most < share ? most : share),
                    (unsigned)(p->batch < 65535 ? p->batch : 65535));
    hf_for_dtype(p->x.dtype, [&](auto type) {
        constexpr hf_dtype X = decltype(type)::value;
        if (p->c_type == HF_F64)
            launch_direct<X, true>(cuda, grid, job);
        else
            launch_direct<X, false>(cuda, grid, job);
    });
    return hf_cuda_launched(cuda, "assign: settle directly");
}
