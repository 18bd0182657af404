/* SPDX-License-Identifier: Apache-2.0
 * coarse on all threads: blocks side by side, sums in vectors. */
#include "base/parallel.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/coarse/coarse.h"
#include "ops/estimate.h"

#if HF_ISA_TILES
const struct hf_kernel_table HF_ISA_NAME(hf_coarse_kernels) = {NULL, 0};
#else

#define GRAIN_TERMS 4096 /* of a range, about */

struct coarse_job {
    const struct hf_coarse_args *args;
    double *s; /* [blocks] */
};

static size_t coarse_workspace(const struct hf_call *call) {
    const struct hf_coarse_args *args = call->args;
    return (size_t)args->blocks * sizeof(double);
}

static void restrict_blocks(void *user, int worker, int64_t begin, int64_t end) {
    const struct coarse_job *job = user;
    const struct hf_coarse_args *args = job->args;
    (void)worker;
    for (int64_t block = begin; block < end; block++) {
        const double *r = args->r + args->block_start[block];
        const int64_t rows = args->block_start[block + 1] - args->block_start[block];
        struct sparse_sum sum = {{0}};
        int64_t i = 0;
        for (; i + SPARSE_LANES <= rows; i += SPARSE_LANES)
            for (int lane = 0; lane < SPARSE_LANES; lane++)
                sum.lane[lane] += r[i + lane];
        for (; i < rows; i++)
            sparse_sum_add(&sum, i, r[i]);
        job->s[block] = sparse_sum_end(&sum);
    }
}

static void correct_blocks(void *user, int worker, int64_t begin, int64_t end) {
    const struct coarse_job *job = user;
    const struct hf_coarse_args *args = job->args;
    (void)worker;
    for (int64_t block = begin; block < end; block++) {
        const double *row = args->inverse + block * args->blocks;
        struct sparse_sum sum = {{0}};
        int64_t j = 0;
        for (; j + SPARSE_LANES <= args->blocks; j += SPARSE_LANES)
            for (int lane = 0; lane < SPARSE_LANES; lane++)
                sum.lane[lane] += row[j + lane] * job->s[j + lane];
        for (; j < args->blocks; j++)
            sparse_sum_add(&sum, j, row[j] * job->s[j]);
        const double y = args->scale * sparse_sum_end(&sum);
        for (int64_t i = args->block_start[block]; i < args->block_start[block + 1]; i++)
            args->z[i] += y;
    }
}

static hf_status coarse_run(const struct hf_call *call) {
    struct coarse_job job = {.args = call->args, .s = call->ws};
    const int64_t blocks = job.args->blocks, rows = job.args->n / blocks;
    hf_parallel_for(call->stream, blocks, 1 + GRAIN_TERMS / (rows + 1), restrict_blocks, &job);
    hf_parallel_for(call->stream, blocks, 1 + GRAIN_TERMS / (rows + blocks), correct_blocks, &job);
    return HF_OK;
}

static double coarse_estimate(const struct hf_call *call) {
    const struct hf_coarse_args *args = call->args;
    const double terms = (double)args->blocks * (double)args->blocks + 2 * (double)args->n;
    return hf_estimate_ns(2 * terms, VDW, 8 * terms);
}

static const struct hf_kernel kernels[] = {{.name = "coarse_blocks_" HF_ISA_TEXT,
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F64),
                                            .isa = HF_ISA_ID,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = coarse_workspace,
                                            .run = coarse_run,
                                            .estimate = coarse_estimate}};

const struct hf_kernel_table HF_ISA_NAME(hf_coarse_kernels) = {kernels, 1};

#endif
