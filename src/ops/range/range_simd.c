/* SPDX-License-Identifier: Apache-2.0
 * range in SIMD. A block of rows is tested for NaN and Inf, then, still in cache, its finite rows
 * are folded into the column extremes. Float32 rows of small whole numbers, as many data are, pass
 * once, in float32. */
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "device/host/isa_load.h"
#include "ops/estimate.h"
#include "ops/range/range.h"
#include "ops/range_rows.h"
#include "ops/reference.h"
#include <math.h>
#include <string.h>

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_range_kernels) = {NULL, 0};
#else

#define BLOCK 8   /* rows */
#define GRAIN 256 /* rows, at most */

/* Of so many whole numbers up to SMALL, and of their squares, float32 knows the sums. */
#define SMALL_ROWS 16
#define SMALL 1024.0f

/* What a worker found. */
struct worker {
    double *min, *max; /* [d] */
    double *sums;      /* [2, d] of x and x * x */
    int64_t bad_rows;
    bool whole;
    bool small;   /* so far all values were small whole numbers; their extremes and sums */
    float *block; /* [4, d] in SMALL_ROWS rows: min, max, those of x and x * x */
};

struct range_job {
    const struct hf_range_args *args;
    size_t row_bytes; /* from one row of x to the next */
    char *ws;
    size_t worker_bytes;
};

static size_t worker_bytes(const struct hf_range_args *args) {
    return hf_align_up(sizeof(struct worker)) +
           4 * hf_align_up((size_t)args->x.cols * sizeof(double)) +
           hf_align_up((size_t)args->x.cols * 4 * sizeof(float));
}

static size_t range_workspace(const struct hf_call *call) {
    return (size_t)call->device->workers * worker_bytes(call->args);
}

static struct worker *worker_at(const struct range_job *job, int worker) {
    return (struct worker *)(void *)(job->ws + (size_t)worker * job->worker_bytes);
}

/* 0 * x is NaN for NaN and Inf, and stays in the sum. */
ALWAYS_INLINE bool row_is_finite(const void *row, hf_dtype dtype, int64_t d) {
    const vd zero = vd_set1(0);
    vd even = zero;
    vd odd = zero;
    int64_t j = 0;
    for (; j + 2 * VDW <= d; j += 2 * VDW) {
        even = vd_fma(vd_load_as(row, dtype, j), zero, even);
        odd = vd_fma(vd_load_as(row, dtype, j + VDW), zero, odd);
    }
    for (; j < d; j += VDW) {
        const int n = (int)(d - j < VDW ? d - j : VDW);
        even = vd_fma(vd_load_as_n(row, dtype, j, n), zero, even);
    }
    return vdm_bits(vd_ne(vd_add(even, odd), zero)) == 0;
}

/* What is asked of values beside their extremes. */
enum asked { ASK_NOTHING, ASK_SUMS, ASK_WHOLE, ASK_BOTH };

/* p[0 .. n) += v */
ALWAYS_INLINE void add_values(double *p, vd v, int n) {
    if (n == VDW)
        vd_store(p, vd_add(vd_load(p), v));
    else
        vd_store_n(p, vd_add(vd_load_n(p, n), v), n);
}

/* Rows without NaN and infinity. */
struct good_rows {
    const void *row[BLOCK];
    int count;
    int64_t d;
};

/* Columns j .. j + n - 1 of the rows. Returns 0 if all values are whole or nobody asks. */
ALWAYS_INLINE uint32_t fold_columns(struct worker *own, const struct good_rows *rows,
                                    hf_dtype dtype, enum asked asked, int64_t j, int n) {
    vd min = n == VDW ? vd_load(own->min + j) : vd_load_n(own->min + j, n);
    vd max = n == VDW ? vd_load(own->max + j) : vd_load_n(own->max + j, n);
    const bool sums = asked == ASK_SUMS || asked == ASK_BOTH;
    const bool ask_whole = asked == ASK_WHOLE || asked == ASK_BOTH;
    uint32_t broken = 0;
    vd sum = vd_set1(0);
    vd square = sum;
    for (int r = 0; r < rows->count; r++) {
        const vd v = vd_load_as_n(rows->row[r], dtype, j, n);
        min = vd_min(min, v);
        max = vd_max(max, v);
        if (ask_whole)
            broken |= vdm_bits(vd_ne(v, vd_rint(v)));
        sum = sums ? vd_add(sum, v) : sum;
        square = sums ? vd_fma(v, v, square) : square;
    }
    if (sums) {
        add_values(own->sums + j, sum, n);
        add_values(own->sums + rows->d + j, square, n);
    }
    if (n == VDW) {
        vd_store(own->min + j, min);
        vd_store(own->max + j, max);
    } else {
        vd_store_n(own->min + j, min, n);
        vd_store_n(own->max + j, max, n);
    }
    return broken;
}

ALWAYS_INLINE uint32_t fold_rows(struct worker *own, const struct good_rows *rows, hf_dtype dtype,
                                 enum asked asked) {
    const int64_t d = rows->d;
    uint32_t broken = 0;
    int64_t j = 0;
    for (; j + VDW <= d; j += VDW)
        broken |= fold_columns(own, rows, dtype, asked, j, VDW);
    if (j < d)
        broken |= fold_columns(own, rows, dtype, asked, j, (int)(d - j));
    return broken;
}

ALWAYS_INLINE void range_block(const struct range_job *job, struct worker *own, hf_dtype dtype,
                               int64_t first, int count) {
    const struct hf_range_args *args = job->args;
    const int64_t d = args->x.cols;
    const char *row = (const char *)args->x.data + (size_t)first * job->row_bytes;
    struct good_rows good;
    good.count = 0;
    good.d = d;
    for (int r = 0; r < count; r++, row += job->row_bytes) {
        const bool bad = dtype != HF_U8 && !row_is_finite(row, dtype, d);
        args->row_bad[first + r] = bad;
        if (!bad)
            good.row[good.count++] = row;
    }
    own->bad_rows += count - good.count;
    if (dtype == HF_U8 && args->sums)
        fold_rows(own, &good, dtype, ASK_SUMS);
    else if (dtype == HF_U8 || !own->whole)
        fold_rows(own, &good, dtype, ASK_NOTHING);
    else if (args->sums)
        own->whole = fold_rows(own, &good, dtype, ASK_BOTH) == 0;
    else
        own->whole = fold_rows(own, &good, dtype, ASK_WHOLE) == 0;
}

ALWAYS_INLINE void range_type(const struct range_job *job, struct worker *own, hf_dtype dtype,
                              int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; i += BLOCK)
        range_block(job, own, dtype, i, (int)(end - i < BLOCK ? end - i : BLOCK));
}

/* Columns [j, j + VW) of SMALL_ROWS rows to own->block; returns 0 when all are small and whole, and
 * so finite. The rows behind them are asked for. */
ALWAYS_INLINE uint32_t small_columns(const struct range_job *job, struct worker *own,
                                     const char *row, int64_t j) {
    const int64_t d = job->args->x.cols;
    const char *next = row + SMALL_ROWS * job->row_bytes;
    vf sum = vf_set1(0);
    vf square = sum;
    vf min = vf_load((const float *)(const void *)row + j);
    vf max = min;
    uint32_t broken = 0;
    for (int r = 0; r < SMALL_ROWS; r++, row += job->row_bytes, next += job->row_bytes) {
        const vf v = vf_load((const float *)(const void *)row + j);
        __builtin_prefetch(next + j * (int64_t)sizeof(float));
        min = vf_min(min, v);
        max = vf_max(max, v);
        broken |= vm_bits(vf_ne(v, vf_rint(v)));
        sum = vf_add(sum, v);
        square = vf_fma(v, v, square);
    }
    vf_store(own->block + j, min);
    vf_store(own->block + d + j, max);
    vf_store(own->block + 2 * d + j, sum);
    vf_store(own->block + 3 * d + j, square);
    return broken | vm_bits(vf_lt(vf_set1(SMALL), max)) | vm_bits(vf_lt(min, vf_set1(-SMALL)));
}

static void fold_small(double *restrict min, double *restrict max, const float *restrict block,
                       int64_t d) {
    for (int64_t j = 0; j < d; j++) {
        min[j] = block[j] < min[j] ? block[j] : min[j];
        max[j] = block[d + j] > max[j] ? block[d + j] : max[j];
    }
}

static void add_small(double *restrict sums, const float *restrict block, int64_t count) {
    for (int64_t j = 0; j < count; j++)
        sums[j] += block[j];
}

/* As many of the rows as come in blocks of small whole numbers; returns the first one left. */
static int64_t range_small(const struct range_job *job, struct worker *own, int64_t begin,
                           int64_t end) {
    const struct hf_range_args *args = job->args;
    const int64_t d = args->x.cols;
    for (; own->small && end - begin >= SMALL_ROWS; begin += SMALL_ROWS) {
        const char *row = (const char *)args->x.data + (size_t)begin * job->row_bytes;
        uint32_t broken = 0;
        for (int64_t j = 0; j < d; j += VW) /* the last ones may overlap */
            broken |= small_columns(job, own, row, j + VW <= d ? j : d - VW);
        own->small = broken == 0;
        if (!own->small)
            break;
        memset(args->row_bad + begin, 0, SMALL_ROWS);
        fold_small(own->min, own->max, own->block, d);
        add_small(own->sums, own->block + 2 * d, 2 * d);
    }
    return begin;
}

static void range_rows(void *job_, int worker, int64_t begin, int64_t end) {
    const struct range_job *job = job_;
    struct worker *own = worker_at(job, worker);
    switch (job->args->x.dtype) {
    case HF_F64:
        range_type(job, own, HF_F64, begin, end);
        break;
    case HF_F16:
        range_type(job, own, HF_F16, begin, end);
        break;
    case HF_BF16:
        range_type(job, own, HF_BF16, begin, end);
        break;
    case HF_U8:
        range_type(job, own, HF_U8, begin, end);
        break;
    default:
        range_type(job, own, HF_F32, range_small(job, own, begin, end), end);
        break;
    }
}

static void worker_begin(const struct range_job *job, int w) {
    const int64_t d = job->args->x.cols;
    struct worker *own = worker_at(job, w);
    hf_carve carve = {(char *)own, hf_align_up(sizeof *own)};
    own->min = hf_carve_take(&carve, (size_t)d * sizeof(double));
    own->max = hf_carve_take(&carve, (size_t)d * sizeof(double));
    own->sums = hf_carve_take(&carve, 2 * (size_t)d * sizeof(double));
    memset(own->sums, 0, 2 * (size_t)d * sizeof(double));
    own->block = hf_carve_take(&carve, 4 * (size_t)d * sizeof(float));
    own->bad_rows = 0;
    own->whole = true;
    own->small = d >= VW;
    for (int64_t j = 0; j < d; j++) {
        own->min[j] = INFINITY;
        own->max[j] = -INFINITY;
    }
}

/* Adding +0 turns -0 into +0: which of the two a minimum is would depend on the order. */
static void worker_merge(const struct range_job *job, int w) {
    const struct hf_range_args *args = job->args;
    const struct worker *own = worker_at(job, w);
    *args->bad_rows += own->bad_rows;
    *args->whole = *args->whole && own->whole;
    for (int64_t j = 0; j < args->x.cols; j++) {
        args->min[j] = fmin(args->min[j], own->min[j] + 0.0);
        args->max[j] = fmax(args->max[j], own->max[j] + 0.0);
    }
    for (int64_t j = 0; args->sums && j < 2 * args->x.cols; j++)
        args->sums[j] += own->sums[j];
}

static void range_problem(void *stream, const struct hf_range_args *args, void *ws) {
    struct range_job job = {args, hf_row_bytes(&args->x), ws, worker_bytes(args)};
    const int workers = hf_pool_workers(stream);
    for (int w = 0; w < workers; w++)
        worker_begin(&job, w);
    const int64_t grain = hf_range_rows(&args->x, GRAIN, SMALL_ROWS);
    hf_parallel_for(stream, args->x.rows, grain, range_rows, &job);
    for (int w = 0; w < workers; w++)
        worker_merge(&job, w);
}

static hf_status range_run(const struct hf_call *call) {
    const struct hf_range_args *args = call->args;
    for (int64_t i = 0; i < hf_range_batch(args); i++) {
        const struct hf_range_args one = hf_range_problem(args, i);
        range_problem(call->stream, &one, call->ws);
    }
    return HF_OK;
}

static double range_estimate(const struct hf_call *call) {
    const struct hf_range_args *args = call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_estimate_ns(6 * values, VDW, values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel kernels[] = {{.name = "range_rows_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = range_workspace,
                                            .run = range_run,
                                            .estimate = range_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_range_kernels) = {kernels, 1};

#endif
