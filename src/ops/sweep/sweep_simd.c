/* SPDX-License-Identifier: Apache-2.0
 * sweep on all threads: some blocks at a time. The first local sweep reads whole rows and adds each
 * product to one of two sums without a branch; the others read the elements inside the block alone,
 * from caches. */
#include "base/mem.h"
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/sweep/sweep.h"
#include <string.h>

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_sweep_kernels) = {NULL, 0};
#else

#include "ops/slices_dot.h"

struct sweep_job {
    const struct hf_sweep_args *args;
    const double *x; /* args->x, or zeros */
    double *square;  /* [blocks] */
    double *scratch; /* [workers, 3, largest]: x before and after a local sweep, what is outside */
};

static size_t carve_job(struct sweep_job *job, int workers, void *ws) {
    const struct hf_sweep_args *args = job->args;
    hf_carve carve = {ws, 0};
    job->square = hf_carve_take(&carve, (size_t)args->blocks * sizeof(double));
    job->scratch =
        hf_carve_take(&carve, (size_t)workers * 3 * (size_t)args->largest * sizeof(double));
    job->x =
        args->x != NULL ? args->x : hf_carve_take(&carve, (size_t)args->a.rows * sizeof(double));
    return carve.used;
}

static size_t sweep_workspace(const struct hf_call *call) {
    struct sweep_job job = {.args = call->args};
    return carve_job(&job, call->device->workers, NULL);
}

ALWAYS_INLINE double inertia(const struct hf_sweep_args *args, int64_t i, double x) {
    return args->momentum * (x - (args->before != NULL ? args->before[i] : 0));
}

/* k = 1: rows [begin, end) */
ALWAYS_INLINE double sweep_rows(const struct sweep_job *job, hf_dtype dtype, bool frozen,
                                int64_t begin, int64_t end) {
    const struct hf_sweep_args *args = job->args;
    const struct hf_sparse *a = &args->a;
    struct sparse_sum square = {{0}};
    for (int64_t i = begin; i < end; i++) {
        const double r =
            args->b[i] - sparse_dot(a, dtype, a->row_start[i], a->row_start[i + 1], job->x);
        sparse_sum_add(&square, i - begin, r * r);
        const double x = job->x[i], after = x + args->damping * (args->inverse[i] * r);
        args->x_new[i] = frozen ? x : args->momentum == 0 ? after : after + inertia(args, i, x);
    }
    return sparse_sum_end(&square);
}

/* The same by slices, of which block and range share the beginnings; without x no matter where the
 * block begins, since the residual is b. */
ALWAYS_INLINE double sweep_slices(const struct sweep_job *job, hf_dtype dtype, bool frozen,
                                  int64_t begin, int64_t end) {
    const struct hf_sweep_args *args = job->args;
    struct sparse_sum square = {{0}};
    vd sum[SLICE_VECTORS], v[SLICE_VECTORS], r[SLICE_VECTORS];
    UNROLL(2) for (int k = 0; k < SLICE_VECTORS; k++) sum[k] = vd_set1(0);
    for (int64_t i = begin; i < end; i += SLICE_ROWS) {
        const int64_t rows = end - i < SLICE_ROWS ? end - i : SLICE_ROWS;
        vd dot[SLICE_VECTORS], x[SLICE_VECTORS], before[SLICE_VECTORS];
        slice_load(args->b + i, rows, r);
        slice_load(args->inverse + i, rows, v);
        UNROLL(2) for (int k = 0; k < SLICE_VECTORS; k++) dot[k] = x[k] = before[k] = vd_set1(0);
        if (args->x != NULL) {
            slice_dot(args->a.slices, dtype, i / SLICE_ROWS, args->x, dot);
            slice_load(args->x + i, rows, x);
        }
        if (args->before != NULL)
            slice_load(args->before + i, rows, before);
        UNROLL(2) for (int k = 0; k < SLICE_VECTORS; k++) {
            r[k] = vd_sub(r[k], dot[k]);
            sum[k] = vd_add(sum[k], vd_mul(r[k], r[k]));
            const vd step = vd_mul(vd_set1(args->damping), vd_mul(v[k], r[k]));
            const vd after = vd_add(x[k], step);
            const vd more = vd_mul(vd_set1(args->momentum), vd_sub(x[k], before[k]));
            x[k] = frozen ? x[k] : args->momentum == 0 ? after : vd_add(after, more);
        }
        slice_store(args->x_new + i, rows, x);
    }
    UNROLL(2) for (int k = 0; k < SLICE_VECTORS; k++) vd_store(square.lane + VDW * k, sum[k]);
    return sparse_sum_end(&square);
}

/* The first of several local sweeps: new x to `next`, b - what is outside to `outside` */
ALWAYS_INLINE double first_sweep(const struct sweep_job *job, hf_dtype dtype, int64_t begin,
                                 int64_t end, double *next, double *outside) {
    const struct hf_sweep_args *args = job->args;
    const struct hf_sparse *a = &args->a;
    const uint64_t rows = (uint64_t)(end - begin);
    struct sparse_sum square = {{0}};
    for (int64_t i = begin; i < end; i++) {
        double in = 0, out = 0;
        for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++) {
            const int64_t j = a->column[e];
            const double term = sparse_value(a->value, dtype, e) * job->x[j];
            const bool inside = (uint64_t)(j - begin) < rows;
            in += inside ? term : 0;
            out += inside ? 0 : term;
        }
        const double rest = args->b[i] - out, r = rest - in;
        sparse_sum_add(&square, i - begin, r * r);
        outside[i - begin] = rest;
        next[i - begin] = job->x[i] + args->damping * (args->inverse[i] * r);
    }
    return sparse_sum_end(&square);
}

ALWAYS_INLINE void local_sweep(const struct sweep_job *job, hf_dtype dtype, int64_t block,
                               const double *outside, const double *x, double *next) {
    const struct hf_sweep_args *args = job->args;
    const int64_t begin = args->block_start[block], end = args->block_start[block + 1];
    const struct hf_sparse *a = &args->a;
    for (int64_t i = begin; i < end; i++) {
        const int64_t first = a->row_start[i] + args->inner[2 * i];
        const int64_t last = first + args->inner[2 * i + 1];
        double in = 0;
        for (int64_t e = first; e < last; e++)
            in += sparse_value(a->value, dtype, e) * x[a->column[e] - begin];
        const double r = outside[i - begin] - in;
        next[i - begin] = x[i - begin] + args->damping * (args->inverse[i] * r);
    }
}

ALWAYS_INLINE void sweep_block(const struct sweep_job *job, hf_dtype dtype, double *scratch,
                               int64_t block) {
    const struct hf_sweep_args *args = job->args;
    const int64_t begin = args->block_start[block], end = args->block_start[block + 1];
    const bool frozen = args->frozen != NULL && args->frozen[block];
    const bool sliced = args->a.slices != NULL && args->a.slices->ranges == 1 &&
                        begin % SLICE_ROWS == 0 && (end % SLICE_ROWS == 0 || end == args->a.rows);
    if (args->k == 1 && (sliced || args->x == NULL)) {
        job->square[block] = sweep_slices(job, dtype, frozen, begin, end);
        return;
    }
    if (args->k == 1) {
        job->square[block] = sweep_rows(job, dtype, frozen, begin, end);
        return;
    }
    double *outside = scratch, *x = outside + args->largest, *next = x + args->largest;
    job->square[block] = first_sweep(job, dtype, begin, end, next, outside);
    for (int k = 1; k < args->k && !frozen; k++) {
        double *const before = next;
        next = x;
        x = before;
        local_sweep(job, dtype, block, outside, x, next);
    }
    memcpy(args->x_new + begin, frozen ? job->x + begin : next,
           (size_t)(end - begin) * sizeof(double));
}

static void run_blocks(void *user, int worker, int64_t begin, int64_t end) {
    const struct sweep_job *job = user;
    double *scratch = job->scratch + 3 * (int64_t)worker * job->args->largest;
    for (int64_t block = begin; block < end; block++) {
        if (job->args->a.dtype == HF_F32)
            sweep_block(job, HF_F32, scratch, block);
        else
            sweep_block(job, HF_F64, scratch, block);
    }
}

static hf_status sweep_run(const struct hf_call *call) {
    const struct hf_sweep_args *args = call->args;
    struct sweep_job job = {.args = args};
    (void)carve_job(&job, hf_pool_workers(call->stream), call->ws);
    if (args->x == NULL && args->k > 1)
        memset((void *)job.x, 0, (size_t)args->a.rows * sizeof(double));
    const int64_t rows = hf_sparse_grain(&args->a, args->k, 1);
    const int64_t grain =
        1 + (rows < args->a.rows ? rows * args->blocks / args->a.rows : args->blocks);
    hf_parallel_for(call->stream, args->blocks, grain, run_blocks, &job);
    if (args->square != NULL)
        *args->square = hf_sparse_total(job.square, args->blocks);
    return HF_OK;
}

static double sweep_estimate(const struct hf_call *call) {
    const struct hf_sweep_args *args = call->args;
    const double elements = (double)args->a.elements;
    return hf_estimate_ns(4.0 * args->k * elements, 1, hf_sparse_bytes(&args->a));
}

static const struct hf_kernel kernels[] = {{.name = "sweep_blocks_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = sweep_workspace,
                                            .run = sweep_run,
                                            .estimate = sweep_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_sweep_kernels) = {kernels, 1};

#endif
