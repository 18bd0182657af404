/* SPDX-License-Identifier: Apache-2.0
 * Reference of seidel: one row after the other. */
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/estimate.h"
#include "ops/seidel/seidel.h"

static double relax_block(const struct hf_seidel_args *args, int64_t block) {
    const struct hf_sparse *a = &args->a;
    const int64_t begin = args->block_start[block], rows = args->block_start[block + 1] - begin;
    double square = 0;
    for (int64_t step = 0; step < rows; step++) {
        const int64_t i = args->backward ? begin + rows - 1 - step : begin + step;
        const int64_t first = a->row_start[i], last = a->row_start[i + 1];
        const int64_t begin_at = first + (args->before != NULL ? args->before[i] : 0);
        double sum = sparse_dot(a, a->dtype, begin_at, last, args->x);
        for (int64_t e = first; e < begin_at; e++)
            sum += sparse_value(a->value, a->dtype, e) * args->x[a->column[e]];
        const double r = args->b[i] - sum;
        args->x[i] += args->damping * (args->inverse[i] * r);
        square += r * r;
    }
    return square;
}

static hf_status seidel_run(const struct hf_call *call) {
    const struct hf_seidel_args *args = call->args;
    double *square = call->ws;
    for (int64_t step = 0; step < args->colours; step++) {
        const int64_t colour = args->backward ? args->colours - 1 - step : step;
        for (int64_t at = args->colour_start[colour]; at < args->colour_start[colour + 1]; at++)
            square[at] = relax_block(args, args->colour_block[at]);
    }
    *args->square = hf_sparse_total(square, args->blocks);
    return HF_OK;
}

static size_t seidel_workspace(const struct hf_call *call) {
    const struct hf_seidel_args *args = call->args;
    return (size_t)args->blocks * sizeof(double);
}

static double seidel_estimate(const struct hf_call *call) {
    const struct hf_seidel_args *args = call->args;
    return hf_estimate_ns(16.0 * (double)args->a.elements, 1, 0);
}

static const struct hf_kernel kernels[] = {{.name = "seidel_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE | HF_TRAIT_FIXED_ORDER,
                                            .workspace = seidel_workspace,
                                            .run = seidel_run,
                                            .estimate = seidel_estimate}};

const struct hf_kernel_table hf_seidel_kernels_scalar = {kernels, 1};
