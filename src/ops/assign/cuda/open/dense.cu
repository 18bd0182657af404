/* SPDX-License-Identifier: Apache-2.0
 * All float64 reference distances of listed rows, and the least of each row: for rows that no
 * filter can help with. A block takes a tile of rows and goes through the centroids, or, when tiles
 * are few, through a part of them: the last block of a tile then joins the parts. Where there are
 * many such rows, sums of differences (tiles.cuh) decide most of them first. */
#include "ops/assign/cuda/open/exact.cuh"
#include "ops/assign/cuda/open/tiles.cuh"

#define DENSE_ROWS HF_SETTLE_TILE
#define DENSE_K HF_SETTLE_CENTROIDS
#define DENSE_DEPTH 16
#define EACH 4   /* rows and centroids of a thread */
#define BLOCKS 3 /* of a multiprocessor */
#define THREADS ((DENSE_ROWS / EACH) * (DENSE_K / EACH))
#define K_THREADS (DENSE_K / EACH)
#define X_PITCH (DENSE_ROWS + 2)
#define C_PITCH (DENSE_K + 2)

struct dense_job : tiles_job {
    bool c_f64;
    hf_metric metric;
    const double *norm;   /* [batch, k] */
    const int32_t *list;  /* [batch, n] NULL: all rows */
    const int32_t *count; /* [batch] NULL: n */
};

struct dense_shared {
    double x[DENSE_DEPTH][X_PITCH];
    double c[DENSE_DEPTH][C_PITCH];
    double norm_x[DENSE_ROWS];
    int32_t row[DENSE_ROWS];
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

/* Features [first, first + DENSE_DEPTH) of the rows of the tile and of centroids from k0 on. What
 * is missing is 0, which changes no sum. */
template <hf_dtype X>
__device__ static void load_dense(const struct dense_job &job, struct dense_shared &sm,
                                  const char *x, const void *c, int64_t first, int64_t k0) {
    const int f = static_cast<int>(threadIdx.x) % DENSE_DEPTH;
    const int64_t j = first + f;
    for (int r = static_cast<int>(threadIdx.x) / DENSE_DEPTH; r < DENSE_ROWS;
         r += THREADS / DENSE_DEPTH)
        sm.x[f][r] =
            j < job.d ? hf_device_load<X>(x + sm.row[r] * job.stride * hf_device_bytes<X>, j) : 0;
    for (int i = static_cast<int>(threadIdx.x) / DENSE_DEPTH; i < DENSE_K;
         i += THREADS / DENSE_DEPTH)
        sm.c[f][i] = j < job.d && k0 + i < job.k ? load_c(c, job.c_f64, (k0 + i) * job.d + j) : 0;
}

/* Sums of the tile's rows and DENSE_K centroids. */
template <hf_dtype X, bool PRODUCT>
__device__ static void dense_sums(const struct dense_job &job, struct dense_shared &sm,
                                  const char *x, const void *c, int64_t k0,
                                  double sum[EACH][EACH]) {
    const int r0 = static_cast<int>(threadIdx.x) / K_THREADS * EACH;
    const int c0 = static_cast<int>(threadIdx.x) % K_THREADS * EACH;
    for (int64_t first = 0; first < job.d; first += DENSE_DEPTH) {
        __syncthreads();
        load_dense<X>(job, sm, x, c, first, k0);
        __syncthreads();
#pragma unroll 4
        for (int f = 0; f < DENSE_DEPTH; f++)
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
__device__ static void dense_winners(const struct dense_job &job, struct dense_shared &sm,
                                     const struct dense_item &item, struct hf_winner best[EACH]) {
    const int64_t b = item.b;
    const char *x = static_cast<const char *>(job.x) + b * job.n * job.stride * hf_device_bytes<X>;
    const char *c = static_cast<const char *>(job.c) + b * job.k * job.d * (job.c_f64 ? 8 : 4);
    const int r0 = static_cast<int>(threadIdx.x) / K_THREADS * EACH;
    const int c0 = static_cast<int>(threadIdx.x) % K_THREADS * EACH;
    const int64_t tiles = (job.k + DENSE_K - 1) / DENSE_K;
    for (int r = 0; r < EACH; r++)
        best[r] = hf_winner_none();
    for (int64_t t = tiles * item.part / item.parts; t < tiles * (item.part + 1) / item.parts;
         t++) {
        double sum[EACH][EACH] = {};
        dense_sums<X, PRODUCT>(job, sm, x, c, t * DENSE_K, sum);
        for (int i = 0; i < EACH; i++) {
            const int64_t arg = t * DENSE_K + c0 + i;
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
    const int64_t base = b * job.s.parts + tile * parts * DENSE_ROWS;
    if (threadIdx.x % K_THREADS == 0)
        for (int r = 0; r < EACH; r++) {
            job.s.least[base + item.part * DENSE_ROWS + r0 + r] = best[r].least;
            job.s.least_arg[base + item.part * DENSE_ROWS + r0 + r] = best[r].arg;
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
        hf_winner_offer(&all, __ldcg(job.s.least + base + p * DENSE_ROWS + r),
                        __ldcg(job.s.least_arg + base + p * DENSE_ROWS + r));
    put_label(job, b, sm.row[r], all);
}

/* Labels of `count` rows of problem b: those of list [batch, n], NULL: all of them. */
template <hf_dtype X, bool PRODUCT>
__device__ static void dense_rows(const struct dense_job &job, struct dense_shared &sm, int64_t b,
                                  const int32_t *list, int64_t count) {
    const int thread = static_cast<int>(threadIdx.x);
    const int64_t tiles = (count + DENSE_ROWS - 1) / DENSE_ROWS;
    const int64_t k_tiles = (job.k + DENSE_K - 1) / DENSE_K;
    int64_t parts = tiles > 0 ? job.s.items / tiles : 1;
    parts = parts < 1 ? 1 : parts < k_tiles ? parts : k_tiles;
    for (int64_t at = blockIdx.x; at < tiles * parts; at += gridDim.x) {
        const int64_t tile = at / parts;
        const int64_t left = count - tile * DENSE_ROWS;
        const int rows = static_cast<int>(left < DENSE_ROWS ? left : DENSE_ROWS);
        const struct dense_item item = {b, tile, at % parts, parts, rows};
        __syncthreads();
        if (thread < DENSE_ROWS) {
            const int64_t i = tile * DENSE_ROWS + (thread < rows ? thread : 0);
            sm.row[thread] = list ? list[b * job.n + i] : static_cast<int32_t>(i);
            if (job.metric == HF_COSINE)
                sm.norm_x[thread] = hf_exact_norm<X>(static_cast<const char *>(job.x) +
                                                         (b * job.n + sm.row[thread]) * job.stride *
                                                             hf_device_bytes<X>,
                                                     job.d);
        }
        __syncthreads();
        struct hf_winner best[EACH];
        dense_winners<X, PRODUCT>(job, sm, item, best);
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

template <hf_dtype X, bool PRODUCT>
static __global__ void __launch_bounds__(THREADS, BLOCKS) assign_dense(const struct dense_job job) {
    __shared__ struct dense_shared sm;
    hf_chain_wait();
    hf_chain_next();
    if (job.stop && *job.stop)
        return;
    for (int64_t b = blockIdx.y; b < job.batch; b += gridDim.y)
        dense_rows<X, PRODUCT>(job, sm, b, job.list, job.count ? job.count[b] : job.n);
}

/* The rows of s.rest, of which s.last_count need float64. */
template <hf_dtype X, hf_dtype C>
static __global__ void __launch_bounds__(THREADS, BLOCKS) assign_rest(const struct dense_job job) {
    static_assert(THREADS == TILE_THREADS, "one launch for both");
    __shared__ union {
        struct tile_shared tile;
        struct dense_shared dense;
    } sm;
    hf_chain_wait();
    hf_chain_next();
    if (job.stop && *job.stop)
        return;
    const int count = *job.s.rest_count;
    if (count >= LEAST_LISTED) {
        listed_tiles<X, C>(job, sm.tile, count, job.s.phases + HF_PHASE_LISTED);
        dense_rows<X, false>(job, sm.dense, 0, job.s.open.row, *job.s.last_count);
        return;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0)
        *job.s.last_count = count;
    dense_rows<X, false>(job, sm.dense, 0, job.s.rest, count);
}

/* ---- host */

static struct dense_job dense_job_of(const struct hf_assign_rows *rows,
                                     const struct hf_assign_step *step, const struct hf_settle *s) {
    struct dense_job job = {};
    static_cast<struct tiles_job &>(job) = tiles_job_of(rows, step, s);
    job.c_f64 = rows->problem.c_type == HF_F64;
    job.metric = rows->problem.metric;
    job.norm = s->norm;
    return job;
}

/* Blocks that are worth while for all rows, and problems. */
static dim3 dense_grid(const struct hf_cuda *cuda, const struct hf_assign_rows *rows) {
    const struct hf_assign_problem *p = &rows->problem;
    const int64_t tiles =
        (rows->n + DENSE_ROWS - 1) / DENSE_ROWS * ((p->k + DENSE_K - 1) / DENSE_K);
    const int64_t share = (cuda->sms * 4 + p->batch - 1) / p->batch;
    return dim3((unsigned)(tiles < share ? tiles : share),
                (unsigned)(p->batch < 65535 ? p->batch : 65535));
}

hf_status hf_settle_dense(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                          const struct hf_assign_step *step, const struct hf_settle *s,
                          const int32_t *list, const int32_t *count) {
    struct dense_job job = dense_job_of(rows, step, s);
    job.list = list;
    job.count = count;
    cudaError_t error = cudaSuccess;
    hf_for_dtype(rows->problem.x.dtype, [&](auto type) {
        constexpr hf_dtype X = decltype(type)::value;
        error = hf_chain_launch(
            cuda, job.metric == HF_EUCLIDEAN ? assign_dense<X, false> : assign_dense<X, true>,
            dense_grid(cuda, rows), THREADS, 0, 1, job);
    });
    return hf_cuda_check(cuda, error, "assign: dense");
}

template <hf_dtype X, hf_dtype C>
static cudaError_t launch_rest(struct hf_cuda *cuda, dim3 grid, struct dense_job job) {
    tile_errors<X, C>(&job);
    return hf_chain_launch(cuda, assign_rest<X, C>, grid, THREADS, 0, 1, job);
}

hf_status hf_settle_rest(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, const struct hf_settle *s,
                         const int32_t **count) {
    const struct hf_assign_problem *p = &rows->problem;
    *count = s->rest_count;
    if (!p->hard || p->batch != 1 || !tiles_serve(p))
        return hf_settle_dense(cuda, rows, step, s, s->rest, s->rest_count);
    *count = s->last_count;
    const struct dense_job job = dense_job_of(rows, step, s);
    cudaError_t error = cudaSuccess;
    hf_for_dtype(p->x.dtype, [&](auto type) {
        constexpr hf_dtype X = decltype(type)::value;
        error = launch_rest<X, tile_center<X>>(cuda, dense_grid(cuda, rows), job);
    });
    return hf_cuda_check(cuda, error, "assign: rows that need all centroids");
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
