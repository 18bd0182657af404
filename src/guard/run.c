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

/* Kernels of the CPU that make checks count each call in the slot, so that one that was dropped
 * shows: it would leave labels that look as if nothing were left to do. */
static bool was_dropped(const struct hf_kernel *kernel, const struct hf_call *call,
                        uint64_t counted) {
    return kernel->device == HF_DEV_HOST && call->scheme != HF_SCHEME_OFF &&
           (kernel->guards & call->checks) != 0 &&
           __atomic_load_n(&call->slot->checked, __ATOMIC_RELAXED) == counted;
}

static uint64_t counted_so_far(const struct hf_kernel *kernel, const struct hf_call *call) {
    return kernel->device == HF_DEV_HOST ? __atomic_load_n(&call->slot->checked, __ATOMIC_RELAXED)
                                         : 0;
}

/* A call was dropped: nothing was written, so it can simply be made. */
static hf_status run_again(hf_context *ctx, const struct hf_kernel *kernel,
                           const struct hf_call *call) {
    const uint64_t counted = counted_so_far(kernel, call);
    hf_guard_found(ctx, HF_FAULT_CHECK, -1, -1);
    const hf_status lost = hf_ctx_fail(ctx, HF_E_CORRUPT,
                                       "kernel %s was called and did nothing: the machine computes "
                                       "wrongly; run it again, and if that fails too, on another "
                                       "machine",
                                       kernel->name);
    if (!hf_guard_retries(ctx, lost))
        return lost;
    const hf_status status = HF_RUN_KERNEL(kernel, call);
    if (status != HF_OK)
        return hf_ctx_fail(ctx, status, "kernel %s failed: %s", kernel->name,
                           hf_status_text(status));
    if (was_dropped(kernel, call, counted))
        return lost;
    hf_guard_repaired(ctx, HF_FAULT_TRANSIENT, 0);
    return HF_OK;
}

static hf_status run(hf_context *ctx, enum hf_op_id op, const void *args,
                     const struct hf_kernel *kernel, size_t bytes, bool wait) {
    struct hf_call call;
    HF_TRY(hf_call_of(ctx, kernel, args, &call));
    if (bytes > 0)
        HF_TRY(hf_workspace(ctx, bytes, &call.ws));
    ctx->last_kernel[op] = kernel;
    ctx->guard.covered |= kernel->guards & call.checks;
    const uint64_t counted = counted_so_far(kernel, &call);
    hf_status status = HF_RUN_KERNEL(kernel, &call);
    if (status == HF_OK && was_dropped(kernel, &call, counted))
        return run_again(ctx, kernel, &call);
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
    if (ctx->guard.elsewhere)
        return hf_run_kernel(ctx, op, hf_guard_twin(ctx, op, kernel, args), args);
    return run(ctx, op, args, kernel, bytes, true);
}

hf_status hf_run_kernel(hf_context *ctx, enum hf_op_id op, const struct hf_kernel *kernel,
                        const void *args) {
    return run(ctx, op, args, kernel, hf_kernel_workspace(ctx, kernel, args), true);
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
    return run(ctx, op, args, *kernel, hf_kernel_workspace(ctx, *kernel, args), false);
}
