/* SPDX-License-Identifier: Apache-2.0
 * inertia in SIMD: blocks of CHAIN_ROWS rows through ops/chains.h, every row against its own
 * centroid. */
#include "base/dtype.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "core/inject_hooks.h"
#include "device/host/isa.h"
#include "ops/chains.h"
#include "ops/estimate.h"
#include "ops/inertia/inertia.h"
#include "ops/range_rows.h"
#include "ops/reference.h"
#include <math.h>
#include <string.h>

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_inertia_kernels) = {NULL, 0};
#else

#define GRAIN (CHAIN_ROWS * 32)        /* rows, at most */
#define WIDE_BYTES ((size_t)256 << 10) /* of centroids that are converted once, not by row */
#define AHEAD_BYTES ((size_t)16 << 10) /* of rows that are fetched ahead at most */

/* Workspace: a sum for each worker, each on a line of its own, then for HF_COSINE the norms of the
 * centroids [k], and their float64 copy. */
struct inertia_job {
    const struct hf_inertia_args *args;
    hf_array c;              /* the centroids, or their copy */
    size_t x_bytes, c_bytes; /* from one row to the next */
    char *sums;
    double *norm;
};

static hf_wide *worker_sum(const struct inertia_job *job, int worker) {
    return (hf_wide *)(void *)(job->sums + (size_t)worker * hf_align_up(sizeof(hf_wide)));
}

static const void *row_at(const hf_array *a, size_t row_bytes, int64_t i) {
    return (const char *)a->data + (size_t)i * row_bytes;
}

/* Of the centroids as float64; 0: they are taken as they are. */
static size_t wide_bytes(const struct hf_inertia_args *args) {
    const size_t bytes = (size_t)(args->c.rows * args->c.cols) * sizeof(double);
    const bool pays = args->c.dtype == HF_F32 && args->c.rows < args->x.rows;
    return pays && bytes <= WIDE_BYTES ? bytes : 0;
}

/* Lay out the workspace; returns its bytes. ws NULL measures. */
static size_t carve_job(struct inertia_job *job, int workers, void *ws) {
    const struct hf_inertia_args *args = job->args;
    const size_t norms = args->metric == HF_COSINE ? (size_t)args->c.rows : 0;
    const size_t wide = wide_bytes(args);
    hf_carve carve = {ws, 0};
    job->sums = hf_carve_take(&carve, (size_t)workers * hf_align_up(sizeof(hf_wide)));
    job->norm = hf_carve_take(&carve, norms * sizeof(double));
    job->c = args->c;
    if (wide > 0)
        job->c = hf_array_view(hf_carve_take(&carve, wide), HF_F64, args->c.rows, args->c.cols);
    return carve.used;
}

static size_t inertia_workspace(const struct hf_call *call) {
    struct inertia_job job = {.args = call->args};
    return carve_job(&job, call->device->workers, NULL);
}

static void convert_centers(const struct inertia_job *job) {
    const hf_array *from = &job->args->c;
    for (int64_t i = 0; i < from->rows; i++)
        hf_to_f64((double *)job->c.data + i * from->cols, hf_array_row(from, i), from->dtype,
                  from->cols);
}

ALWAYS_INLINE void pair_sums_kind(double *out, hf_metric metric, struct chain_rows x,
                                  struct chain_rows c, int64_t d) {
    if (metric == HF_EUCLIDEAN)
        chain_sums(out, CHAIN_DIFFERENCE, x, c, d);
    else
        chain_sums(out, CHAIN_PRODUCT, x, c, d);
}

ALWAYS_INLINE void pair_sums_type(double *out, hf_metric metric, struct chain_rows x,
                                  struct chain_rows c, int64_t d) {
    if (c.dtype == HF_F64)
        pair_sums_kind(out, metric, x, (struct chain_rows){c.row, HF_F64}, d);
    else
        pair_sums_kind(out, metric, x, (struct chain_rows){c.row, HF_F32}, d);
}

/* out[r] = sum of (x - c)^2, or of x * c for the other metrics */
static void pair_sums(double out[CHAIN_ROWS], hf_metric metric, struct chain_rows x,
                      struct chain_rows c, int64_t d) {
    switch (x.dtype) {
    case HF_F64:
        pair_sums_type(out, metric, (struct chain_rows){x.row, HF_F64}, c, d);
        break;
    case HF_F16:
        pair_sums_type(out, metric, (struct chain_rows){x.row, HF_F16}, c, d);
        break;
    case HF_BF16:
        pair_sums_type(out, metric, (struct chain_rows){x.row, HF_BF16}, c, d);
        break;
    case HF_U8:
        pair_sums_type(out, metric, (struct chain_rows){x.row, HF_U8}, c, d);
        break;
    default:
        pair_sums_type(out, metric, (struct chain_rows){x.row, HF_F32}, c, d);
        break;
    }
}

static void centroid_norms(void *job_, int worker, int64_t begin, int64_t end) {
    (void)worker;
    const struct inertia_job *job = job_;
    const hf_array *c = &job->c;
    for (int64_t i = begin; i < end; i += CHAIN_ROWS) {
        const void *row[CHAIN_ROWS];
        double square[CHAIN_ROWS];
        for (int r = 0; r < CHAIN_ROWS; r++)
            row[r] = row_at(c, job->c_bytes, i + r < end ? i + r : end - 1);
        chain_squares(square, row, c->dtype, c->cols);
        for (int r = 0; r < CHAIN_ROWS && i + r < end; r++)
            job->norm[i + r] = sqrt(square[r]);
    }
}

/* Rows first .. first + CHAIN_ROWS - 1 into the L2 cache: the CPU sees them coming, but no further
 * than to the end of a page. */
static void fetch_rows(const struct inertia_job *job, int64_t first) {
    const int64_t left = job->args->x.rows - first;
    if (left <= 0)
        return;
    const size_t bytes = (size_t)(left < CHAIN_ROWS ? left : CHAIN_ROWS) * job->x_bytes;
    const char *x = row_at(&job->args->x, job->x_bytes, first);
    for (size_t at = 0; at < bytes && at < AHEAD_BYTES; at += HF_ALIGN)
        __builtin_prefetch(x + at, 0, 2);
}

#ifdef HF_INJECT
/* A planted fault in the distances of rows first .. first + count - 1 (core/inject_hooks.h). */
static inline void strike_distances(int worker, int64_t first, int count, double *distance) {
    const struct hf_strike s = {.where = HF_REGISTER_DISTANCE,
                                .worker = worker,
                                .lanes = count,
                                .columns = 1,
                                .first_row = first,
                                .step = -1,
                                .value = distance};
    if (hf_strikes(HF_REGISTER_DISTANCE))
        hf_strike(&s);
}
#define STRIKE_DISTANCES(worker, first, count, distance)                                           \
    strike_distances(worker, first, count, distance)
#else
#define STRIKE_DISTANCES(worker, first, count, distance) ((void)0)
#endif

/* A label beyond all is a fault that others see; memory there is nobody's. */
static int64_t cluster_of(const struct hf_inertia_args *args, int64_t i) {
    const uint32_t label = (uint32_t)args->labels[i];
    return label < (uint64_t)args->c.rows ? (int64_t)label : 0;
}

/* Distances of rows first .. first + count - 1 */
static void block_distances(double distance[CHAIN_ROWS], const struct inertia_job *job,
                            int64_t first, int count) {
    const struct hf_inertia_args *args = job->args;
    const void *x[CHAIN_ROWS];
    const void *c[CHAIN_ROWS];
    for (int r = 0; r < CHAIN_ROWS; r++) {
        const int64_t i = first + (r < count ? r : count - 1);
        x[r] = row_at(&args->x, job->x_bytes, i);
        c[r] = row_at(&job->c, job->c_bytes, cluster_of(args, i));
    }
    pair_sums(distance, args->metric, (struct chain_rows){x, args->x.dtype},
              (struct chain_rows){c, job->c.dtype}, args->x.cols);
    if (args->metric == HF_DOT)
        for (int r = 0; r < count; r++)
            distance[r] = -distance[r];
    if (args->metric != HF_COSINE)
        return;
    double square[CHAIN_ROWS];
    chain_squares(square, x, args->x.dtype, args->x.cols);
    for (int r = 0; r < count; r++)
        distance[r] = hf_cosine_distance(distance[r], sqrt(square[r]),
                                         job->norm[cluster_of(args, first + r)]);
}

static void sum_rows(void *job_, int worker, int64_t begin, int64_t end) {
    const struct inertia_job *job = job_;
    const struct hf_inertia_args *args = job->args;
    hf_wide *sum = worker_sum(job, worker);
    double distance[CHAIN_ROWS];
    for (int64_t first = begin; first < end; first += CHAIN_ROWS) {
        const int count = (int)(end - first < CHAIN_ROWS ? end - first : CHAIN_ROWS);
        fetch_rows(job, first + CHAIN_ROWS);
        block_distances(distance, job, first, count);
        STRIKE_DISTANCES(worker, first, count, distance);
        for (int r = 0; r < count; r++) {
            if (args->distances)
                args->distances[first + r] = distance[r];
            hf_wide_add(sum, args->weights ? args->weights[first + r] * distance[r] : distance[r]);
        }
    }
}

static hf_status inertia_run(const struct hf_call *call) {
    const int workers = hf_pool_workers(call->stream);
    const struct hf_inertia_args *args = call->args;
    struct inertia_job job = {.args = args, .x_bytes = hf_row_bytes(&args->x)};
    (void)carve_job(&job, workers, call->ws);
    job.c_bytes = hf_row_bytes(&job.c);
    if (job.c.data != args->c.data)
        convert_centers(&job);
    for (int w = 0; w < workers; w++)
        memset(worker_sum(&job, w), 0, sizeof(hf_wide));
    if (args->metric == HF_COSINE)
        hf_parallel_for(call->stream, args->c.rows, GRAIN, centroid_norms, &job);
    const int64_t grain = hf_range_rows(&args->x, GRAIN, CHAIN_ROWS);
    hf_parallel_for(call->stream, args->x.rows, grain, sum_rows, &job);
    for (int w = 0; w < workers; w++)
        hf_wide_merge(args->sum, worker_sum(&job, w));
    return HF_OK;
}

static double inertia_estimate(const struct hf_call *call) {
    const struct hf_inertia_args *args = call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_estimate_ns((args->metric == HF_COSINE ? 16 : 10) * values, VDW,
                          values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel kernels[] = {{.name = "inertia_rows_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = inertia_workspace,
                                            .run = inertia_run,
                                            .estimate = inertia_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_inertia_kernels) = {kernels, 1};

#endif
