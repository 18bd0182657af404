/* SPDX-License-Identifier: Apache-2.0
 * distance in SIMD: lane = centroid, so that every lane adds its features in order. Centroids are
 * packed a block at a time as float64 [panel][d][VDW], a block being what stays in the second-level
 * cache; tiles of TILE_ROWS rows x TILE_PANELS panels give enough independent sums to hide the
 * latency of an addition. */
#include "base/dtype.h"
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "device/host/isa_load.h"
#include "ops/distance/distance.h"
#include "ops/estimate.h"
#include "ops/reference.h"
#include <math.h>

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_distance_kernels) = {NULL, 0};
#else

#define TILE_ROWS 4
#define TILE_PANELS 2
#define TILE_COLS (TILE_PANELS * VDW)
#define BLOCK_BYTES (INT64_C(256) << 10)
#define GRAIN (TILE_ROWS * 4)

struct distance_job {
    const struct hf_distance_args *args;
    int64_t first, count; /* centroids of the block */
    double *panels;       /* [block / VDW][d][VDW], 0 where there is no centroid */
    double *norm_c;       /* [block] for HF_COSINE */
    double *rows;         /* [workers][TILE_ROWS][d] */
};

/* Centroids of a block: a multiple of TILE_COLS. */
static int64_t block_size(const struct hf_distance_args *args) {
    const int64_t fit = BLOCK_BYTES / 8 / args->x.cols / TILE_COLS * TILE_COLS;
    const int64_t all = (args->c.rows + TILE_COLS - 1) / TILE_COLS * TILE_COLS;
    return fit < TILE_COLS ? TILE_COLS : fit < all ? fit : all;
}

static size_t distance_workspace(const struct hf_call *call) {
    const struct hf_distance_args *args = call->args;
    const int64_t block = block_size(args);
    return (size_t)(block * args->x.cols + block +
                    call->device->workers * TILE_ROWS * args->x.cols) *
           sizeof(double);
}

/* Pack panels [begin, end) of the block; TILE_COLS centroids of which only some may exist. */
static void pack_range(void *job_, int worker, int64_t begin, int64_t end) {
    (void)worker;
    const struct distance_job *job = job_;
    const hf_array *c = &job->args->c;
    const int64_t d = c->cols;
    for (int64_t l = begin * VDW; l < end * VDW; l++) {
        double *lane = job->panels + l / VDW * VDW * d + l % VDW;
        const void *row = l < job->count ? hf_array_row(c, job->first + l) : NULL;
        for (int64_t j = 0; j < d; j++)
            lane[j * VDW] = !row                 ? 0
                            : c->dtype == HF_F64 ? ((const double *)row)[j]
                                                 : (double)((const float *)row)[j];
    }
    for (int64_t panel = begin; panel < end; panel++) {
        const double *c_panel = job->panels + panel * VDW * d;
        vd sum = vd_set1(0);
        for (int64_t j = 0; j < d; j++) {
            const vd v = vd_load(c_panel + j * VDW);
            sum = vd_add(sum, vd_mul(v, v));
        }
        vd_store(job->norm_c + panel * VDW, vd_sqrt(sum));
    }
}

ALWAYS_INLINE void convert_row(double *dst, const void *row, hf_dtype dtype, int64_t d) {
    int64_t j = 0;
    for (; j + VDW <= d; j += VDW)
        vd_store(dst + j, vd_load_as(row, dtype, j));
    if (j < d)
        vd_store_n(dst + j, vd_load_as_n(row, dtype, j, (int)(d - j)), (int)(d - j));
}

static void load_row(double *dst, const void *row, hf_dtype dtype, int64_t d) {
    switch (dtype) {
    case HF_F64:
        convert_row(dst, row, HF_F64, d);
        break;
    case HF_F16:
        convert_row(dst, row, HF_F16, d);
        break;
    case HF_BF16:
        convert_row(dst, row, HF_BF16, d);
        break;
    case HF_U8:
        convert_row(dst, row, HF_U8, d);
        break;
    default:
        convert_row(dst, row, HF_F32, d);
        break;
    }
}

/* Ordered sums of squares of TILE_ROWS rows, then their roots */
static void row_norms(double norm[TILE_ROWS], const double *x, int64_t d) {
    double sum[TILE_ROWS] = {0};
    for (int64_t j = 0; j < d; j++)
        UNROLL(TILE_ROWS) for (int r = 0; r < TILE_ROWS; r++) sum[r] += x[r * d + j] * x[r * d + j];
    for (int r = 0; r < TILE_ROWS; r++)
        norm[r] = sqrt(sum[r]);
}

/* sum[r][p] over the features, of (x - c)^2 or of x * c */
ALWAYS_INLINE void tile_sums(vd sum[TILE_ROWS][TILE_PANELS], bool euclidean, const double *x,
                             const double *c, int64_t d) {
    UNROLL(TILE_ROWS)
    for (int r = 0; r < TILE_ROWS; r++)
        UNROLL(TILE_PANELS) for (int p = 0; p < TILE_PANELS; p++) sum[r][p] = vd_set1(0);
    for (int64_t j = 0; j < d; j++) {
        vd cj[TILE_PANELS];
        UNROLL(TILE_PANELS)
        for (int p = 0; p < TILE_PANELS; p++)
            cj[p] = vd_load(c + (p * d + j) * VDW);
        UNROLL(TILE_ROWS) for (int r = 0; r < TILE_ROWS; r++) {
            const vd xj = vd_set1(x[r * d + j]);
            UNROLL(TILE_PANELS) for (int p = 0; p < TILE_PANELS; p++) {
                const vd diff = vd_sub(xj, cj[p]);
                const vd term = euclidean ? vd_mul(diff, diff) : vd_mul(xj, cj[p]);
                sum[r][p] = vd_add(sum[r][p], term);
            }
        }
    }
}

ALWAYS_INLINE vd finish(vd sum, hf_metric metric, bool root, double norm_x, const double *norm_c) {
    if (metric == HF_EUCLIDEAN)
        return root ? vd_sqrt(sum) : sum;
    if (metric == HF_DOT)
        return vd_mul(sum, vd_set1(-1));
    const vd one = vd_set1(1);
    const vd nc = vd_load(norm_c);
    const vd d = vd_sub(one, vd_div(sum, vd_mul(vd_set1(norm_x), nc)));
    return norm_x == 0 ? one : vd_select(vd_lt(vd_set1(0), nc), d, one);
}

/* TILE_ROWS rows, of which `count` are wanted, against centroids l .. l + TILE_COLS - 1 of the
 * block */
static void tile(const struct distance_job *job, const double *x, const double *norm_x,
                 double *const out[TILE_ROWS], int64_t l) {
    const struct hf_distance_args *args = job->args;
    const int64_t d = args->x.cols;
    vd sum[TILE_ROWS][TILE_PANELS];
    if (args->metric == HF_EUCLIDEAN)
        tile_sums(sum, true, x, job->panels + l * d, d);
    else
        tile_sums(sum, false, x, job->panels + l * d, d);
    for (int r = 0; r < TILE_ROWS && out[r]; r++)
        for (int p = 0; p < TILE_PANELS; p++) {
            const int64_t at = l + p * VDW;
            const int64_t left = job->count - at;
            const vd v = finish(sum[r][p], args->metric, args->root, norm_x[r], job->norm_c + at);
            if (left >= VDW)
                vd_store(out[r] + at, v);
            else if (left > 0)
                vd_store_n(out[r] + at, v, (int)left);
        }
}

static void distance_rows(void *job_, int worker, int64_t begin, int64_t end) {
    const struct distance_job *job = job_;
    const struct hf_distance_args *args = job->args;
    const int64_t d = args->x.cols;
    double *x = job->rows + worker * TILE_ROWS * d;
    for (int64_t i = begin; i < end; i += TILE_ROWS) {
        double norm_x[TILE_ROWS] = {0};
        double *out[TILE_ROWS] = {NULL}; /* of this block; NULL: no such row */
        for (int r = 0; r < TILE_ROWS; r++) {
            const int64_t row = i + r < end ? i + r : end - 1;
            load_row(x + r * d, hf_array_row(&args->x, row), args->x.dtype, d);
            if (i + r < end)
                out[r] = args->out + row * args->c.rows + job->first;
        }
        if (args->metric == HF_COSINE)
            row_norms(norm_x, x, d);
        for (int64_t l = 0; l < job->count; l += TILE_COLS)
            tile(job, x, norm_x, out, l);
    }
}

static hf_status distance_run(const struct hf_call *call) {
    struct distance_job job = {.args = call->args, .panels = call->ws};
    const int64_t k = job.args->c.rows;
    const int64_t block = block_size(job.args);
    job.norm_c = job.panels + block * job.args->x.cols;
    job.rows = job.norm_c + block;
    for (job.first = 0; job.first < k; job.first += block) {
        job.count = k - job.first < block ? k - job.first : block;
        const int64_t panels = (job.count + TILE_COLS - 1) / TILE_COLS * TILE_PANELS;
        hf_parallel_for(call->stream, panels, 1, pack_range, &job);
        hf_parallel_for(call->stream, job.args->x.rows, GRAIN, distance_rows, &job);
    }
    return HF_OK;
}

static double distance_estimate(const struct hf_call *call) {
    const struct hf_distance_args *args = call->args;
    const double pairs = (double)args->x.rows * (double)args->c.rows;
    return hf_estimate_ns(3 * pairs * (double)args->x.cols, VDW, 8 * pairs);
}

static const struct hf_kernel kernels[] = {{.name = "distance_rows_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = distance_workspace,
                                            .run = distance_run,
                                            .estimate = distance_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_distance_kernels) = {kernels, 1};

#endif
