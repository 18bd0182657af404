/* SPDX-License-Identifier: Apache-2.0 */
#include "core/run.h"

#include "core/inject_hooks.h"
#include "core/plan.h"
#include "guard/guard.h"

hf_status hf_call_of(hf_context *ctx, const struct hf_kernel *kernel, const void *args,
                     struct hf_call *call) {
    *call = (struct hf_call){.device = &ctx->props,
                             .comm = &ctx->comm,
                             .args = args,
                             .stream = ctx->stream,
                             .slot = ctx->guard.slot,
                             .scheme = ctx->guard.scheme,
                             .checks = ctx->guard.checks,
                             .kernel = hf_guard_number(ctx, kernel)};
    return hf_plan_steps(ctx, kernel, call);
}

static hf_status run(hf_context *ctx, enum hf_op_id op, const void *args,
                     const struct hf_kernel *kernel, size_t bytes, bool wait) {
    struct hf_call call;
    HF_TRY(hf_call_of(ctx, kernel, args, &call));
    if (bytes > 0)
        HF_TRY(hf_workspace(ctx, bytes, &call.ws));
    ctx->last_kernel[op] = kernel;
    ctx->guard.covered |= kernel->guards & call.checks;
    hf_status status = HF_RUN_KERNEL(kernel, &call);
    if (status == HF_OK && wait)
        status = ctx->device->sync(ctx->stream);
    if (status == HF_OK)
        return HF_OK;
    const char *said = ctx->device->error_text(ctx->stream);
    return hf_ctx_fail(ctx, status, "kernel %s failed: %s%s%s", kernel->name,
                       hf_status_text(status), *said ? ": " : "", said);
}

hf_status hf_run(hf_context *ctx, enum hf_op_id op, const void *args) {
    const struct hf_kernel *kernel = NULL;
    size_t bytes = 0;
    HF_TRY(hf_plan_measured(ctx, op, args, &kernel, &bytes));
    return run(ctx, op, args, kernel, bytes, true);
}

hf_status hf_run_kernel(hf_context *ctx, enum hf_op_id op, const struct hf_kernel *kernel,
                        const void *args) {
    return run(ctx, op, args, kernel, hf_row_workspace(ctx, kernel, args), true);
}

hf_status hf_run_part(const struct hf_call *call, const struct hf_kernel *kernel, const void *args,
                      void *ws) {
    struct hf_call part = hf_call_part(call, args);
    part.ws = ws;
    return HF_RUN_KERNEL(kernel, &part);
}

hf_status hf_queue(hf_context *ctx, enum hf_op_id op, const void *args,
                   const struct hf_kernel **kernel) {
    const struct hf_call asked = {.device = &ctx->props, .comm = &ctx->comm, .args = args};
    if (*kernel == NULL || ((*kernel)->supports != NULL && !(*kernel)->supports(&asked)))
        HF_TRY(hf_plan(ctx, op, args, kernel, NULL));
    return run(ctx, op, args, *kernel, hf_row_workspace(ctx, *kernel, args), false);
}
