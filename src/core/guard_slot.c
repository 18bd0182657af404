/* SPDX-License-Identifier: Apache-2.0
 * The guard slot of a context: opened with it, cleared after a finding. guard/verify.c reads it. */
#include "core/run.h"

hf_status hf_guard_clear(hf_context *ctx) {
    struct hf_guard_state *guard = &ctx->guard;
    const struct hf_slot empty = {.told = guard->told};
    *guard->told = HF_FAULT_NONE;
    guard->kernels = 0;
    return ctx->device->copy(ctx->stream, guard->slot, &empty, sizeof empty);
}

hf_status hf_guard_forget(hf_context *ctx) {
    return *ctx->guard.told != HF_FAULT_NONE ? hf_guard_clear(ctx) : HF_OK;
}

hf_status hf_guard_open(hf_context *ctx) {
    struct hf_guard_state *guard = &ctx->guard;
    guard->slot = &guard->of_host;
    guard->told = &guard->word;
    if (ctx->device->slot != NULL)
        ctx->device->slot(ctx->stream, &guard->slot, &guard->told);
    return hf_guard_clear(ctx);
}
