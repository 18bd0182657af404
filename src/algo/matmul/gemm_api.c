/* SPDX-License-Identifier: Apache-2.0
 * hf_gemm(): check, run, report. */
#include "algo/matmul/gemm_check.h"
#include "base/clock.h"
#include "core/kernel.h"
#include "ops/gemm/gemm.h"

#include <stdio.h>

/* Nothing to write: BLAS's quick return. */
static bool is_empty(const hf_gemm_args *args) {
    return args->m == 0 || args->n == 0 || (!hf_gemm_reads_ab(args) && args->beta == 1);
}

static hf_status multiply(hf_context *ctx, const hf_gemm_args *args, hf_guard guard,
                          hf_gemm_faults *faults, hf_gemm_report *report) {
    const double start = hf_now_s();
    hf_gemm_args full;
    if (args == NULL)
        return hf_ctx_fail(ctx, HF_E_ARG, "gemm: there are no arguments (args is NULL)");
    if (!hf_ctx_is_host(ctx))
        return hf_ctx_fail(ctx, HF_E_UNSUPPORTED,
                           "gemm: there is no kernel for %s: make a context for the device cpu",
                           hf_context_device(ctx));
    HF_TRY(hf_gemm_check(ctx, args, &full));
    const bool empty = is_empty(&full);
    if (!empty) {
        hf_workspace_trim(ctx, hf_workspace_room(ctx));
        HF_TRY(hf_gemm_guarded_run(ctx, &full, guard, faults));
        HF_TRY(hf_verify(ctx));
    }
    if (report == NULL)
        return HF_OK;
    *report = (hf_gemm_report){.workspace_bytes = empty ? 0 : ctx->workspace_peak};
    hf_gemm_error(&full, &report->error, &report->tiny);
    (void)snprintf(report->arithmetic, sizeof report->arithmetic, "%s", hf_gemm_arithmetic(&full));
    (void)snprintf(report->kernel, sizeof report->kernel, "%s",
                   empty ? "none" : ctx->last_kernel[HF_OP_GEMM]->name);
    report->seconds = hf_now_s() - start;
    return HF_OK;
}

hf_status hf_gemm(hf_context *ctx, const hf_gemm_args *args, hf_gemm_report *report) {
    if (ctx == NULL)
        return HF_E_ARG;
    if (!hf_ctx_enter(ctx))
        return HF_E_BUSY;
    hf_gemm_faults faults = {.row = -1};
    return hf_ctx_leave(ctx, multiply(ctx, args, HF_GUARD_OFF, &faults, report));
}

hf_status hf_gemm_guarded(hf_context *ctx, const hf_gemm_args *args, hf_guard guard,
                          hf_gemm_faults *faults, hf_gemm_report *report) {
    hf_gemm_faults found = {.row = -1, .column = -1};
    if (ctx == NULL)
        return HF_E_ARG;
    if (!hf_ctx_enter(ctx))
        return HF_E_BUSY;
    hf_status status;
    if ((int)guard < HF_GUARD_DEFAULT || (int)guard > HF_GUARD_SAMPLED)
        status = hf_ctx_fail(ctx, HF_E_ARG, "gemm: guard is %d: give one of hf_guard", (int)guard);
    else
        status = multiply(ctx, args, guard, &found, report);
    if (faults != NULL)
        *faults = found;
    return hf_ctx_leave(ctx, status);
}
