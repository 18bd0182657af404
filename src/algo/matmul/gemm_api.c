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

/* Matrices lie in memory of the device, all of them, or of the host. */
static hf_status check_places(hf_context *ctx, const hf_gemm_args *args) {
    const void *const data[] = {args->a, args->b, args->c};
    int there = 0, here = 0;
    for (int i = 0; i < 3; i++)
        if (data[i] != NULL)
            *(ctx->device->owns(ctx->stream, data[i]) ? &there : &here) += 1;
    if (there > 0 && here > 0)
        return hf_ctx_fail(ctx, HF_E_ARG,
                           "gemm: some of a, b and c lie in memory of the device, others in memory "
                           "of the host: give all of them in one place");
    return HF_OK;
}

/* Signatures of a product by columns, which was computed as that of the transposes by rows. */
static void turn_signatures(hf_gemm_signatures *s) {
    const uint64_t a = s->a;
    s->a = s->b;
    s->b = a;
    for (int64_t i = 0; s->tile != NULL && i < s->tiles; i++) {
        const int64_t row = s->tile[i].row;
        s->tile[i].row = s->tile[i].col;
        s->tile[i].col = row;
    }
}

/* Was every tile computed by somebody? */
static hf_status check_tiles(hf_context *ctx, const hf_gemm_signatures *s) {
    if (s != NULL && s->tiles == 0)
        return hf_ctx_fail(ctx, HF_E_CORRUPT,
                           "gemm: not all parts of the product were signed: the machine computes "
                           "wrongly; run it again, and if that fails too, on another machine");
    for (int64_t i = 0; s != NULL && s->tile != NULL && i < s->tiles; i++)
        if (s->tile[i].unit < 0)
            return hf_ctx_fail(ctx, HF_E_CORRUPT,
                               "gemm: nobody signed tile %lld of %lld: the machine computes "
                               "wrongly; run it again, and if that fails too, on another machine",
                               (long long)i, (long long)s->tiles);
    return HF_OK;
}

static hf_status multiply(hf_context *ctx, const hf_gemm_args *args, hf_guard guard,
                          hf_gemm_faults *faults, hf_gemm_report *report) {
    const double start = hf_now_s();
    hf_gemm_args full;
    if (args == NULL)
        return hf_ctx_fail(ctx, HF_E_ARG, "gemm: there are no arguments (args is NULL)");
    HF_TRY(hf_gemm_check(ctx, args, &full));
    HF_TRY(check_places(ctx, &full));
    const bool empty = is_empty(&full);
    if (!empty) {
        hf_workspace_trim(ctx, hf_workspace_room(ctx));
        HF_TRY(hf_gemm_guarded_run(ctx, &full, guard, faults));
        HF_TRY(hf_verify(ctx));
        HF_TRY(check_tiles(ctx, full.signatures));
        if (full.signatures != NULL && args->order == HF_COL_MAJOR)
            turn_signatures(full.signatures);
    }
    if (report == NULL)
        return HF_OK;
    *report = (hf_gemm_report){.workspace_bytes = empty ? 0 : ctx->workspace_peak};
    const struct hf_kernel *const kernel = empty ? NULL : ctx->last_kernel[HF_OP_GEMM];
    hf_gemm_error(&full, !empty && hf_gemm_is_tensor(&full, kernel), &report->error, &report->tiny);
    (void)snprintf(report->arithmetic, sizeof report->arithmetic, "%s",
                   empty ? "none" : hf_gemm_arithmetic(&full, kernel, &ctx->props));
    (void)snprintf(report->kernel, sizeof report->kernel, "%s", empty ? "none" : kernel->name);
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
