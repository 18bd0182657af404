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

#define GRAIN_ROWS 256 /* of a range of the loop over blocks, about */

struct seidel_job {
    const struct hf_seidel_args *args;
    double *square; /* [blocks] */
    int64_t first;  /* of the colour */
};

ALWAYS_INLINE double relax_row(const struct hf_seidel_args *args, hf_dtype dtype, int64_t i) {
    const struct hf_sparse *a = &args->a;
    const double r =
        args->b[i] - sparse_dot(a, dtype, a->row_start[i], a->row_start[i + 1], args->x);
    args->x[i] += args->damping * (args->inverse[i] * r);
    return r * r;
}

ALWAYS_INLINE double relax_block(const struct hf_seidel_args *args, hf_dtype dtype, int64_t block) {
    const int64_t begin = args->block_start[block], end = args->block_start[block + 1];
    double square = 0;
    if (args->backward)
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

static hf_status seidel_run(const struct hf_call *call) {
    const struct hf_seidel_args *args = call->args;
    struct seidel_job job = {.args = args, .square = call->ws};
    const int64_t grain = 1 + GRAIN_ROWS * args->blocks / (args->a.rows + 1);
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
