/* SPDX-License-Identifier: Apache-2.0
 * The only door to a kernel (guard/run.c): plan, run under the context's protection scheme, wait;
 * and the same without the wait, for many small calls. */
#ifndef HF_RUN_H
#define HF_RUN_H

#include "core/call.h"
#include "core/context.h"
#include "core/op.h"

#ifdef __cplusplus
extern "C" {
#endif

/* args is the op's argument struct; ops/<op>/<op>.h has a typed wrapper. */
hf_status hf_run(hf_context *ctx, enum hf_op_id op, const void *args);

/* hf_run() that does not wait for the device, where all arrays of args lie in its memory: a call
 * that waits, such as a copy to the host, tells what failed there. *kernel: a row, taken again if
 * it serves this call, or NULL: then one is planned and kept there. Calls that share it differ in
 * the contents and the places of their arrays alone. */
hf_status hf_queue(hf_context *ctx, enum hf_op_id op, const void *args,
                   const struct hf_kernel **kernel);

struct hf_kernel;

/* The guard slot of a new context; cleared, with the kernels it knows; cleared if it holds a
 * finding that nobody read. They return the status of the device. */
hf_status hf_guard_open(hf_context *ctx);
hf_status hf_guard_clear(hf_context *ctx);
hf_status hf_guard_forget(hf_context *ctx);

/* What hf_verify() does about a finding. (guard/verify.c) */
hf_status hf_verify_told(hf_context *ctx);

/* The call of this kernel with these arguments, its steps planned, but for the workspace. For what
 * runs a kernel that no plan chose: the harness. */
hf_status hf_call_of(hf_context *ctx, const struct hf_kernel *kernel, const void *args,
                     struct hf_call *call);

/* A call by this kernel, which must serve it. */
hf_status hf_run_kernel(hf_context *ctx, enum hf_op_id op, const struct hf_kernel *kernel,
                        const void *args);

/* A part of a call that is itself one of an op, by this kernel: under the same guard. */
hf_status hf_run_part(const struct hf_call *call, const struct hf_kernel *kernel, const void *args,
                      void *ws);

/* Has a kernel told in the guard slot that arithmetic went wrong? To be asked once an iteration,
 * when the device was waited for. HF_E_CORRUPT with kernel and place in words, once for each
 * finding. Costs one read of a word of host memory. */
static inline hf_status hf_verify(hf_context *ctx) {
    return *(const volatile uint32_t *)ctx->guard.told != HF_FAULT_NONE ? hf_verify_told(ctx)
                                                                        : HF_OK;
}

#ifdef __cplusplus
}
#endif
#endif
