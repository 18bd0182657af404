/* SPDX-License-Identifier: Apache-2.0
 * All float64 reference distances of listed rows, and the least of each row: for rows that no
 * filter can help with. A block takes a tile of rows and goes through the centroids, or, when tiles
 * are few, through a part of them: the last block of a tile then joins the parts. */
#include "device/cuda/chain.cuh"
#include "ops/assign/cuda/open/exact.cuh"
#include "ops/assign/cuda/open/settle.h"

#define TILE_ROWS HF_SETTLE_TILE
#define TILE_K 64
#define TILE_DEPTH 16
#define EACH 4 /* rows and centroids of a thread */
#define THREADS ((TILE_ROWS / EACH) * (TILE_K / EACH))
#define K_THREADS (TILE_K / EACH)
#define X_PITCH (TILE_ROWS + 2)
#define C_PITCH (TILE_K + 2)

struct dense_job : hf_settle_job {
    bool c_f64;
    hf_metric metric;
    const double *norm;   /* [batch, k] */
    const int32_t *list;  /* [batch, n] NULL: all rows */
    const int32_t *count; /* [batch] NULL: n */
};

struct dense_shared {
    double x[TILE_DEPTH][X_PITCH];
    double c[TILE_DEPTH][C_PITCH];
    double norm_x[TILE_ROWS];
    int32_t row[TILE_ROWS];
    int last;
};

/* A tile of rows of problem b, and one of the parts of its centroids. */
struct dense_item {
    int64_t b, tile, part, parts;
    int rows; /* of the tile */
};

__device__ static double load_c(const void *c, bool f64, int64_t i) {
    return f64 ? static_cast<const double *>(c)[i]
               : static_cast<double>(static_cast<const float *>(c)[i]);
}

/* Features [first, first + TILE_DEPTH) of the rows of the tile and of centroids from k0 on. What is
 * missing is 0, which changes no sum. */
template <hf_dtype X>
__device__ static void load_tile(const struct dense_job &job, struct dense_shared &sm,
                                 const char *x, const void *c, int64_t first, int64_t k0) {
    const int f = static_cast<int>(threadIdx.x) % TILE_DEPTH;
    const int64_t j = first + f;
    for (int r = static_cast<int>(threadIdx.x) / TILE_DEPTH; r < TILE_ROWS;
         r += THREADS / TILE_DEPTH)
        sm.x[f][r] =
            j < job.d ? hf_device_load<X>(x + sm.row[r] * job.stride * hf_device_bytes<X>, j) : 0;
    for (int i = static_cast<int>(threadIdx.x) / TILE_DEPTH; i < TILE_K; i += THREADS / TILE_DEPTH)
        sm.c[f][i] = j < job.d && k0 + i < job.k ? load_c(c, job.c_f64, (k0 + i) * job.d + j) : 0;
}

/* Sums of the tile's rows and TILE_K centroids. */
template <hf_dtype X, bool PRODUCT>
__device__ static void tile_sums(const struct dense_job &job, struct dense_shared &sm,
                                 const char *x, const void *c, int64_t k0, double sum[EACH][EACH]) {
    const int r0 = static_cast<int>(threadIdx.x) / K_THREADS * EACH;
    const int c0 = static_cast<int>(threadIdx.x) % K_THREADS * EACH;
    for (int64_t first = 0; first < job.d; first += TILE_DEPTH) {
        __syncthreads();
        load_tile<X>(job, sm, x, c, first, k0);
        __syncthreads();
#pragma unroll 4
        for (int f = 0; f < TILE_DEPTH; f++)
#pragma unroll
            for (int r = 0; r < EACH; r++)
#pragma unroll
                for (int i = 0; i < EACH; i++)
                    sum[r][i] = __dadd_rn(sum[r][i],
                                          hf_exact_term<PRODUCT>(sm.x[f][r0 + r], sm.c[f][c0 + i]));
    }
}

/* The nearest centroids of the rows of an item: that of row r0 + i in best[i] of all threads of
 * that row. */
template <hf_dtype X, bool PRODUCT>
__device__ static void tile_winners(const struct dense_job &job, struct dense_shared &sm,
                                    const struct dense_item &item, struct hf_winner best[EACH]) {
    const int64_t b = item.b;
    const char *x = static_cast<const char *>(job.x) + b * job.n * job.stride * hf_device_bytes<X>;
    const char *c = static_cast<const char *>(job.c) + b * job.k * job.d * (job.c_f64 ? 8 : 4);
    const int r0 = static_cast<int>(threadIdx.x) / K_THREADS * EACH;
    const int c0 = static_cast<int>(threadIdx.x) % K_THREADS * EACH;
    const int64_t tiles = (job.k + TILE_K - 1) / TILE_K;
    for (int r = 0; r < EACH; r++)
        best[r] = hf_winner_none();
    for (int64_t t = tiles * item.part / item.parts; t < tiles * (item.part + 1) / item.parts;
         t++) {
        double sum[EACH][EACH] = {};
        tile_sums<X, PRODUCT>(job, sm, x, c, t * TILE_K, sum);
        for (int i = 0; i < EACH; i++) {
            const int64_t arg = t * TILE_K + c0 + i;
            if (arg >= job.k)
                break;
            const double norm_c = job.metric == HF_COSINE ? job.norm[b * job.k + arg] : 0;
            for (int r = 0; r < EACH; r++)
                hf_winner_offer(&best[r],
                                hf_exact_finish(job.metric, sum[r][i], sm.norm_x[r0 + r], norm_c),
                                static_cast<int32_t>(arg));
        }
    }
    for (int r = 0; r < EACH; r++)
        best[r] = hf_winner_lanes(best[r], K_THREADS);
}

__device__ static void put_label(const struct dense_job &job, int64_t b, int32_t row,
                                 const struct hf_winner &best) {
    job.labels[b * job.n + row] = hf_winner_label(best);
}

/* Leave the winners of one part; the block that comes last makes labels of all parts. */
__device__ static void join_parts(const struct dense_job &job, struct dense_shared &sm,
                                  const struct dense_item &item,
                                  const struct hf_winner best[EACH]) {
    const int64_t b = item.b, tile = item.tile, parts = item.parts;
    const int r0 = static_cast<int>(threadIdx.x) / K_THREADS * EACH;
    const int64_t base = b * job.s.parts + tile * parts * TILE_ROWS;
    if (threadIdx.x % K_THREADS == 0)
        for (int r = 0; r < EACH; r++) {
            job.s.least[base + item.part * TILE_ROWS + r0 + r] = best[r].least;
            job.s.least_arg[base + item.part * TILE_ROWS + r0 + r] = best[r].arg;
        }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0)
        sm.last = atomicAdd(job.s.split + b * job.s.items + tile, 1) == parts - 1;
    __syncthreads();
    const int r = static_cast<int>(threadIdx.x);
    if (sm.last && r == 0)
        job.s.split[b * job.s.items + tile] = 0; /* for the next launch */
    if (!sm.last || r >= item.rows)
        return;
    __threadfence();
    struct hf_winner all = hf_winner_none();
    for (int64_t p = 0; p < parts; p++)
        hf_winner_offer(&all, __ldcg(job.s.least + base + p * TILE_ROWS + r),
                        __ldcg(job.s.least_arg + base + p * TILE_ROWS + r));
    put_label(job, b, sm.row[r], all);
}

template <hf_dtype X, bool PRODUCT>
static __global__ void __launch_bounds__(THREADS, 3) assign_dense(const struct dense_job job) {
    __shared__ struct dense_shared sm;
    hf_chain_wait();
    hf_chain_next();
    if (job.stop && *job.stop)
        return;
    const int thread = static_cast<int>(threadIdx.x);
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y) {
        const int64_t count = job.count ? job.count[b] : job.n;
        const int64_t tiles = (count + TILE_ROWS - 1) / TILE_ROWS;
        const int64_t k_tiles = (job.k + TILE_K - 1) / TILE_K;
        int64_t parts = tiles > 0 ? job.s.items / tiles : 1;
        parts = parts < 1 ? 1 : parts < k_tiles ? parts : k_tiles;
        for (int64_t at = blockIdx.x; at < tiles * parts; at += gridDim.x) {
            const int64_t tile = at / parts;
            const int64_t left = count - tile * TILE_ROWS;
            const int rows = static_cast<int>(left < TILE_ROWS ? left : TILE_ROWS);
            const struct dense_item item = {b, tile, at % parts, parts, rows};
            __syncthreads();
            if (thread < TILE_ROWS) {
                const int64_t i = tile * TILE_ROWS + (thread < rows ? thread : 0);
                sm.row[thread] = job.list ? job.list[b * job.n + i] : static_cast<int32_t>(i);
                if (job.metric == HF_COSINE)
                    sm.norm_x[thread] = hf_exact_norm<X>(static_cast<const char *>(job.x) +
                                                             (b * job.n + sm.row[thread]) *
                                                                 job.stride * hf_device_bytes<X>,
                                                         job.d);
            }
            __syncthreads();
            struct hf_winner best[EACH];
            tile_winners<X, PRODUCT>(job, sm, item, best);
            if (parts > 1) {
                join_parts(job, sm, item, best);
                continue;
            }
            const int r0 = thread / K_THREADS * EACH;
            for (int r = 0; r < EACH; r++)
                if (thread % K_THREADS == 0 && r0 + r < rows)
                    put_label(job, b, sm.row[r0 + r], best[r]);
        }
    }
}

hf_status hf_settle_dense(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                          const struct hf_assign_step *step, const struct hf_settle *s,
                          const int32_t *list, const int32_t *count) {
    const struct hf_assign_problem *p = &rows->problem;
    struct dense_job job = {};
    static_cast<struct hf_settle_job &>(job) = hf_settle_job_of(rows, step, s);
    job.c_f64 = p->c_type == HF_F64;
    job.metric = p->metric;
    job.norm = s->norm;
    job.list = list;
    job.count = count;
    const int64_t tiles = (rows->n + TILE_ROWS - 1) / TILE_ROWS * ((p->k + TILE_K - 1) / TILE_K);
    const int64_t share = (cuda->sms * 4 + p->batch - 1) / p->batch;
    const dim3 grid((unsigned)(tiles < share ? tiles : share),
                    (unsigned)(p->batch < 65535 ? p->batch : 65535));
    cudaError_t error = cudaSuccess;
    hf_for_dtype(p->x.dtype, [&](auto type) {
        constexpr hf_dtype X = decltype(type)::value;
        error = hf_chain_launch(
            cuda, p->metric == HF_EUCLIDEAN ? assign_dense<X, false> : assign_dense<X, true>, grid,
            THREADS, 0, 1, job);
    });
    return hf_cuda_check(cuda, error, "assign: dense");
}

struct norms_job {
    const void *c; /* [rows, d] */
    bool c_f64;
    int64_t rows, d;
    double *norm;
    const int32_t *stop;
};

static __global__ void centroid_norms(const struct norms_job job) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i >= job.rows || (job.stop && *job.stop))
        return;
    const char *c = static_cast<const char *>(job.c) + i * job.d * (job.c_f64 ? 8 : 4);
    job.norm[i] = job.c_f64 ? hf_exact_norm<HF_F64>(c, job.d) : hf_exact_norm<HF_F32>(c, job.d);
}

hf_status hf_settle_norms(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                          const struct hf_assign_step *step, const struct hf_settle *s) {
    const struct hf_assign_problem *p = &rows->problem;
    if (p->metric != HF_COSINE)
        return HF_OK;
    struct norms_job job = {};
    job.c = step->c;
    job.c_f64 = p->c_type == HF_F64;
    job.rows = p->batch * p->k;
    job.d = p->x.cols;
    job.norm = s->norm;
    job.stop = step->stop;
    centroid_norms<<<(unsigned)((job.rows + 63) / 64), 64, 0, cuda->stream>>>(job);
    return hf_cuda_launched(cuda, "assign: norms of centroids");
}
