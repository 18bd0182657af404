/* SPDX-License-Identifier: Apache-2.0
 * seidel on all threads: the blocks of a colour at once. */
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/seidel/seidel.h"

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_seidel_kernels) = {NULL, 0};
#else

#include "ops/slices_dot.h"

struct seidel_job {
    const struct hf_seidel_args *args;
    double *square; /* [blocks] */
    int64_t first;  /* of the colour; with slices its number */
};

ALWAYS_INLINE double relax_row(const struct hf_seidel_args *args, hf_dtype dtype, int64_t i) {
    const struct hf_sparse *a = &args->a;
    const double r =
        args->b[i] - sparse_dot(a, dtype, a->row_start[i], a->row_start[i + 1], args->x);
    args->x[i] += args->damping * (args->inverse[i] * r);
    return r * r;
}

ALWAYS_INLINE double row_sum(const struct hf_sparse *a, hf_dtype dtype, int64_t first, int64_t last,
                             const double *x, double sum) {
    UNROLL(4)
    for (int64_t e = first; e < last; e++)
        sum += sparse_value(a->value, dtype, e) * x[a->column[e]];
    return sum;
}

/* Rows from the diagonal on. Each waits for the one before it, from its x to the next: so that x is
 * not read back from memory, and 1 no factor. */
ALWAYS_INLINE double turn_rows(const struct hf_seidel_args *args, hf_dtype dtype, int64_t begin,
                               int64_t end) {
    const struct hf_sparse a = args->a;
    const bool backward = args->backward, plain = args->damping == 1;
    const double *b = args->b, *inverse = args->inverse, damping = args->damping;
    const int32_t *before = args->before;
    double *x = args->x, square = 0, newest = 0;
    for (int64_t at = begin; at < end; at++) {
        const int64_t i = backward ? begin + end - 1 - at : at;
        const int64_t first = a.row_start[i], middle = first + before[i];
        double sum = row_sum(&a, dtype, middle, a.row_start[i + 1], x, 0);
        if (middle > first) {
            const int64_t near = a.column[middle - 1];
            const bool known = near == i - 1 && at > begin && !backward;
            sum = row_sum(&a, dtype, first, middle - 1, x, sum);
            sum += sparse_value(a.value, dtype, middle - 1) * (known ? newest : x[near]);
        }
        const double r = b[i] - sum, step = inverse[i] * r;
        newest = x[i] + (plain ? step : damping * step);
        x[i] = newest;
        square += r * r;
    }
    return square;
}

ALWAYS_INLINE double relax_block(const struct hf_seidel_args *args, hf_dtype dtype, int64_t block) {
    const int64_t begin = args->block_start[block], end = args->block_start[block + 1];
    double square = 0;
    if (args->before != NULL)
        square = turn_rows(args, dtype, begin, end);
    else if (args->backward)
        for (int64_t i = end - 1; i >= begin; i--)
            square += relax_row(args, dtype, i);
    else
        for (int64_t i = begin; i < end; i++)
            square += relax_row(args, dtype, i);
    return square;
}

static void run_blocks(void *user, int worker, int64_t begin, int64_t end) {
    const struct seidel_job *job = user;
    const struct hf_seidel_args *args = job->args;
    (void)worker;
    for (int64_t at = job->first + begin; at < job->first + end; at++) {
        const int64_t block = args->colour_block[at];
        job->square[at] = args->a.dtype == HF_F32 ? relax_block(args, HF_F32, block)
                                                  : relax_block(args, HF_F64, block);
    }
}

/* Slices of a colour: none of its rows reads what another writes. */
ALWAYS_INLINE void relax_slices(const struct seidel_job *job, hf_dtype dtype, int64_t begin,
                                int64_t end) {
    const struct hf_seidel_args *args = job->args;
    const struct hf_slices *s = args->a.slices;
    const int64_t first = s->range_row[job->first], last = s->range_row[job->first + 1];
    for (int64_t slice = begin; slice < end; slice++) {
        const int64_t i = first + SLICE_ROWS * slice;
        const int64_t rows = last - i < SLICE_ROWS ? last - i : SLICE_ROWS;
        vd dot[SLICE_VECTORS], v[SLICE_VECTORS], x[SLICE_VECTORS], r[SLICE_VECTORS];
        slice_dot(s, dtype, s->range_slice[job->first] + slice, args->x, dot);
        slice_load(args->b + i, rows, r);
        slice_load(args->inverse + i, rows, v);
        slice_load(args->x + i, rows, x);
        UNROLL(2) for (int k = 0; k < SLICE_VECTORS; k++) {
            r[k] = vd_sub(r[k], dot[k]);
            const vd step = vd_mul(vd_set1(args->damping), vd_mul(v[k], r[k]));
            x[k] = vd_add(x[k], step);
            r[k] = vd_mul(r[k], r[k]);
        }
        slice_store(args->x + i, rows, x);
        slice_store(job->square + i, rows, r);
    }
}

static void run_slices(void *user, int worker, int64_t begin, int64_t end) {
    const struct seidel_job *job = user;
    (void)worker;
    if (job->args->a.dtype == HF_F32)
        relax_slices(job, HF_F32, begin, end);
    else
        relax_slices(job, HF_F64, begin, end);
}

/* Blocks are rows in the order of their colours. */
static void run_sliced(const struct hf_call *call, struct seidel_job *job) {
    const struct hf_seidel_args *args = call->args;
    const struct hf_slices *s = args->a.slices;
    const int64_t grain = hf_sparse_grain(&args->a, 1, SLICE_ROWS) / SLICE_ROWS;
    for (int64_t step = 0; step < args->colours; step++) {
        job->first = args->backward ? args->colours - 1 - step : step;
        hf_parallel_for(call->stream, s->range_slice[job->first + 1] - s->range_slice[job->first],
                        grain, run_slices, job);
    }
    *args->square = hf_sparse_total(job->square, args->blocks);
}

static hf_status seidel_run(const struct hf_call *call) {
    const struct hf_seidel_args *args = call->args;
    struct seidel_job job = {.args = args, .square = call->ws};
    if (args->a.slices != NULL && args->blocks == args->a.rows) {
        run_sliced(call, &job);
        return HF_OK;
    }
    const int64_t rows = hf_sparse_grain(&args->a, 2, 1);
    const int64_t grain =
        1 + (rows < args->a.rows ? rows * args->blocks / args->a.rows : args->blocks);
    for (int64_t step = 0; step < args->colours; step++) {
        const int64_t colour = args->backward ? args->colours - 1 - step : step;
        job.first = args->colour_start[colour];
        hf_parallel_for(call->stream, args->colour_start[colour + 1] - job.first, grain, run_blocks,
                        &job);
    }
    *args->square = hf_sparse_total(job.square, args->blocks);
    return HF_OK;
}

static size_t seidel_workspace(const struct hf_call *call) {
    const struct hf_seidel_args *args = call->args;
    return (size_t)args->blocks * sizeof(double);
}

static double seidel_estimate(const struct hf_call *call) {
    const struct hf_seidel_args *args = call->args;
    const double elements = (double)args->a.elements;
    return hf_estimate_ns(8.0 * elements, 1, hf_sparse_bytes(&args->a));
}

static const struct hf_kernel kernels[] = {{.name = "seidel_blocks_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = seidel_workspace,
                                            .run = seidel_run,
                                            .estimate = seidel_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_seidel_kernels) = {kernels, 1};

#endif
