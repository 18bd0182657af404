/* SPDX-License-Identifier: Apache-2.0
 * moments in SIMD. A block of rows is walked a vector of columns at a time with the four sums of
 * those columns in registers. The bits of HF_RINT_MAGIC (see ops/update/update_row.h) ride along in
 * the sums, which wrap, and are taken off once a block. */
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "device/host/isa_load.h"
#include "ops/estimate.h"
#include "ops/moments/moments.h"
#include "ops/range_rows.h"
#include "ops/reference.h"
#include <string.h>

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_moments_kernels) = {NULL, 0};
#else

#define BLOCK_BYTES                                                                                \
    (INT64_C(32) << 10) /* of rows walked at once: they stay in the first-level cache */
#define BLOCK_MIN 4     /* rows */
#define BLOCK_MAX 128   /* rows */
#define GRAIN 512       /* rows, at most */
#define SUMS 4          /* limbs of t, limbs of t * t */
#define MAGIC_BITS UINT64_C(0x4338000000000000) /* those of HF_RINT_MAGIC */

struct moments_job {
    const struct hf_moments_args *args;
    size_t row_bytes; /* from one row of x to the next */
    int64_t *sums;    /* [workers][SUMS][d] */
    size_t worker_bytes;
};

static size_t worker_bytes(const struct hf_moments_args *args) {
    return hf_align_up(SUMS * (size_t)args->x.cols * sizeof(int64_t));
}

static size_t moments_workspace(const struct hf_call *call) {
    return (size_t)call->device->workers * worker_bytes(call->args);
}

static int64_t *worker_sums(const struct moments_job *job, int worker) {
    return (int64_t *)(void *)((char *)job->sums + (size_t)worker * job->worker_bytes);
}

/* Both limbs of v * mult, with the magic bits, onto sum[0] and sum[1] */
ALWAYS_INLINE void add_limbs(vl sum[2], vd v, vd mult, vd scale) {
    const vd magic = vd_set1(HF_RINT_MAGIC);
    const vd high = vd_fma(v, mult, magic);
    const vd rest = vd_fma(v, mult, vd_sub(magic, high));
    sum[0] = vl_add(sum[0], vd_bits(high));
    sum[1] = vl_add(sum[1], vd_bits(vd_fma(rest, scale, magic)));
}

/* Rows that are added up before their sums are. */
struct row_block {
    const char *row; /* the first */
    int64_t count;
};

/* Columns j .. j + n - 1 of a block. */
ALWAYS_INLINE void block_columns(const struct moments_job *job, int64_t *sums, hf_dtype dtype,
                                 struct row_block block, int64_t j, int n) {
    const struct hf_moments_args *args = job->args;
    const int64_t d = args->x.cols;
    const bool full = n == VDW;
    const vd shift = full ? vd_load(args->shift + j) : vd_load_n(args->shift + j, n);
    const vd mult = full ? vd_load(args->mult + j) : vd_load_n(args->mult + j, n);
    const vd mult_square =
        full ? vd_load(args->mult_square + j) : vd_load_n(args->mult_square + j, n);
    const vd scale = vd_set1((double)(INT64_C(1) << args->bits));
    const size_t row_bytes = job->row_bytes;
    const vl offset = vl_set1((int64_t)(MAGIC_BITS * (uint64_t)block.count));
    vl sum[SUMS];
    UNROLL(SUMS) for (int s = 0; s < SUMS; s++) sum[s] = vl_set1(0);
    const char *row = block.row;
    for (int64_t i = 0; i < block.count; i++, row += row_bytes) {
        const vd t = vd_sub(vd_load_as_n(row, dtype, j, n), shift);
        add_limbs(sum, t, mult, scale);
        add_limbs(sum + 2, vd_mul(t, t), mult_square, scale);
    }
    UNROLL(SUMS) for (int s = 0; s < SUMS; s++) {
        int64_t *at = sums + s * d + j;
        const vl part = vl_sub(sum[s], offset);
        if (full)
            vl_store(at, vl_add(vl_load(at), part));
        else
            vl_store_n(at, vl_add(vl_load_n(at, n), part), n);
    }
}

ALWAYS_INLINE void moments_type(const struct moments_job *job, int64_t *sums, hf_dtype dtype,
                                int64_t begin, int64_t end) {
    const hf_array *x = &job->args->x;
    const int64_t d = x->cols;
    const int64_t fit = BLOCK_BYTES / (d * (int64_t)hf_dtype_bytes(dtype));
    const int64_t block = fit < BLOCK_MIN ? BLOCK_MIN : fit < BLOCK_MAX ? fit : BLOCK_MAX;
    for (int64_t i = begin; i < end; i += block) {
        const int64_t count = end - i < block ? end - i : block;
        const struct row_block part = {(const char *)x->data + (size_t)i * job->row_bytes, count};
        int64_t j = 0;
        for (; j + VDW <= d; j += VDW)
            block_columns(job, sums, dtype, part, j, VDW);
        if (j < d)
            block_columns(job, sums, dtype, part, j, (int)(d - j));
    }
}

static void moments_rows(void *job_, int worker, int64_t begin, int64_t end) {
    const struct moments_job *job = job_;
    int64_t *sums = worker_sums(job, worker);
    switch (job->args->x.dtype) {
    case HF_F64:
        moments_type(job, sums, HF_F64, begin, end);
        break;
    case HF_F16:
        moments_type(job, sums, HF_F16, begin, end);
        break;
    case HF_BF16:
        moments_type(job, sums, HF_BF16, begin, end);
        break;
    case HF_U8:
        moments_type(job, sums, HF_U8, begin, end);
        break;
    default:
        moments_type(job, sums, HF_F32, begin, end);
        break;
    }
}

static void moments_problem(void *stream, const struct hf_moments_args *args, void *ws) {
    struct moments_job job = {args, hf_row_bytes(&args->x), ws, worker_bytes(args)};
    const int workers = hf_pool_workers(stream);
    const int64_t d = args->x.cols;
    memset(ws, 0, (size_t)workers * worker_bytes(args));
    const int64_t grain = hf_range_rows(&args->x, GRAIN, 1);
    hf_parallel_for(stream, args->x.rows, grain, moments_rows, &job);
    for (int w = 0; w < workers; w++) {
        const int64_t *own = worker_sums(&job, w);
        for (int64_t e = 0; e < 2 * d; e++) {
            args->sum[e] += own[e];
            args->sum_square[e] += own[2 * d + e];
        }
    }
}

static hf_status moments_run(const struct hf_call *call) {
    const struct hf_moments_args *args = call->args;
    for (int64_t i = 0; i < hf_moments_batch(args); i++) {
        const struct hf_moments_args one = hf_moments_problem(args, i);
        moments_problem(call->stream, &one, call->ws);
    }
    return HF_OK;
}

static double moments_estimate(const struct hf_call *call) {
    const struct hf_moments_args *args = call->args;
    const double values = (double)args->x.rows * (double)args->x.cols;
    return hf_estimate_ns(14 * values, VDW, values * (double)hf_dtype_bytes(args->x.dtype));
}

static const struct hf_kernel kernels[] = {{.name = "moments_rows_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT_DATA,
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = moments_workspace,
                                            .run = moments_run,
                                            .estimate = moments_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_moments_kernels) = {kernels, 1};

#endif
