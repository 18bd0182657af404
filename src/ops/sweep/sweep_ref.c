/* SPDX-License-Identifier: Apache-2.0
 * Reference of sweep: one block after the other. The residuals of the rows of a block are in
 * `residual` before any of its x changes. */
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/sweep/sweep.h"
#include <string.h>

static size_t sweep_workspace(const struct hf_call *call) {
    const struct hf_sweep_args *args = call->args;
    return (size_t)args->largest * sizeof(double);
}

/* Residual of row i, with `inside` for the x of its block [begin, end) and x for all others. */
static double residual_of(const struct hf_sweep_args *args, const double *inside, int64_t i,
                          int64_t begin, int64_t end) {
    const struct hf_sparse *a = &args->a;
    double in = 0, out = 0, all = 0;
    for (int64_t e = a->row_start[i]; e < a->row_start[i + 1]; e++) {
        const int64_t j = a->column[e];
        const bool is_inside = j >= begin && j < end;
        const double x = is_inside ? inside[j] : args->x != NULL ? args->x[j] : 0;
        const double term = sparse_value(a->value, a->dtype, e) * x;
        all += term;
        *(is_inside ? &in : &out) += term;
    }
    return args->k == 1 ? args->b[i] - all : (args->b[i] - out) - in;
}

static double next_x(const struct hf_sweep_args *args, int64_t i, double residual) {
    const double x = args->x_new[i];
    const double after = x + args->damping * (args->inverse[i] * residual);
    const double before = args->before != NULL ? args->before[i] : 0;
    return args->momentum == 0 ? after : after + args->momentum * (x - before);
}

static double sweep_block(const struct hf_sweep_args *args, int64_t block, double *residual) {
    const int64_t begin = args->block_start[block], end = args->block_start[block + 1];
    struct sparse_sum square = {{0}};
    for (int64_t i = begin; i < end; i++)
        args->x_new[i] = args->x != NULL ? args->x[i] : 0;
    for (int k = 0; k < args->k; k++) {
        for (int64_t i = begin; i < end; i++)
            residual[i - begin] = residual_of(args, args->x_new, i, begin, end);
        for (int64_t i = begin; i < end; i++) {
            if (k == 0)
                sparse_sum_add(&square, i - begin, residual[i - begin] * residual[i - begin]);
            if (args->frozen == NULL || !args->frozen[block])
                args->x_new[i] = next_x(args, i, residual[i - begin]);
        }
    }
    return sparse_sum_end(&square);
}

static hf_status sweep_run(const struct hf_call *call) {
    const struct hf_sweep_args *args = call->args;
    struct sparse_total total = {{0}, 0};
    for (int64_t block = 0; block < args->blocks; block++)
        sparse_total_add(&total, sweep_block(args, block, call->ws));
    if (args->square != NULL)
        *args->square = sparse_total_end(&total);
    return HF_OK;
}

static double sweep_estimate(const struct hf_call *call) {
    const struct hf_sweep_args *args = call->args;
    return hf_estimate_ns(16.0 * args->k * (double)args->a.elements, 1, 0);
}

static const struct hf_kernel kernels[] = {{.name = "sweep_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .workspace = sweep_workspace,
                                            .run = sweep_run,
                                            .estimate = sweep_estimate}};

const struct hf_kernel_table hf_sweep_kernels_scalar = {kernels, 1};
