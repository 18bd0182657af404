/* SPDX-License-Identifier: Apache-2.0
 * Reference of drift: one worker, which relaxes one block after the other; those that are lost
 * too, where others would take over. */
#include "base/clock.h"
#include "core/kernel.h"
#include "device/host/isa.h"
#include "ops/drift/drift.h"
#include "ops/estimate.h"
#include <string.h>

static size_t drift_workspace(const struct hf_call *call) {
    const struct hf_drift_args *args = call->args;
    return (size_t)(args->blocks + args->largest) * sizeof(double);
}

/* Returns the sum of the squared residuals before. */
static double relax_block(const struct hf_drift_args *args, int64_t block, double *residual) {
    const struct hf_sparse *a = &args->a;
    const int64_t begin = args->block_start[block], end = args->block_start[block + 1];
    double square = 0;
    for (int k = 0; k < args->k; k++) {
        for (int64_t i = begin; i < end; i++) {
            residual[i - begin] =
                args->b[i] - sparse_dot(a, a->dtype, a->row_start[i], a->row_start[i + 1], args->x);
            square += k == 0 ? residual[i - begin] * residual[i - begin] : 0;
        }
        for (int64_t i = begin; i < end; i++)
            args->x[i] += args->damping * (args->inverse[i] * residual[i - begin]);
    }
    return square;
}

static bool is_lost(const struct hf_drift_args *args, int64_t block, int64_t epoch) {
    return args->lost != NULL && args->lost[block] && epoch >= args->lost_from;
}

static hf_status drift_run(const struct hf_call *call) {
    const struct hf_drift_args *args = call->args;
    double *square = call->ws, *residual = square + args->blocks;
    const double begin = hf_now_s();
    struct hf_drift_report report = {.square = 1, .slowest = args->epochs};
    memset(square, 0, (size_t)args->blocks * sizeof(double));
    for (int64_t epoch = 0; epoch < args->epochs; epoch++) {
        for (int64_t block = 0; block < args->blocks; block++) {
            const bool lost = is_lost(args, block, epoch);
            if (lost && args->lag == 0) {
                report.slowest = args->lost_from;
                continue;
            }
            if (lost && report.taken_count == 0) /* another worker would do it */
                report.taken[report.taken_count++] =
                    (struct hf_drift_taken){block, epoch, 0, hf_now_s() - begin};
            report.takeovers += lost;
            square[block] = relax_block(args, block, residual);
            report.relaxations++;
        }
        report.square = hf_sparse_total(square, args->blocks);
        if (report.square <= args->target) {
            report.slowest = report.slowest < epoch + 1 ? report.slowest : epoch + 1;
            break;
        }
    }
    *args->report = report;
    return HF_OK;
}

static double drift_estimate(const struct hf_call *call) {
    const struct hf_drift_args *args = call->args;
    return hf_estimate_ns(16.0 * (double)args->epochs * args->k * (double)args->a.elements, 1, 0);
}

static const struct hf_kernel kernels[] = {{.name = "drift_ref",
                                            .device = HF_DEV_HOST,
                                            .dtypes = HF_DT(HF_F32) | HF_DT(HF_F64),
                                            .isa = HF_ISA_ID_scalar,
                                            .traits = HF_TRAIT_REFERENCE,
                                            .workspace = drift_workspace,
                                            .run = drift_run,
                                            .estimate = drift_estimate}};

const struct hf_kernel_table hf_drift_kernels_scalar = {kernels, 1};
