/* SPDX-License-Identifier: Apache-2.0
 * The only door to a kernel (guard/run.c): plan, run under the context's protection scheme, wait;
 * and the same without the wait, for many small calls. */
#ifndef HF_RUN_H
#define HF_RUN_H

#include "core/context.h"
#include "core/op.h"

/* args is the op's argument struct; ops/<op>/<op>.h has a typed wrapper. */
hf_status hf_run(hf_context *ctx, enum hf_op_id op, const void *args);

/* hf_run() that does not wait for the device, where all arrays of args lie in its memory: a call
 * that waits, such as a copy to the host, tells what failed there. *kernel: a row, taken again if
 * it serves this call, or NULL: then one is planned and kept there. Calls that share it differ in
 * the contents and the places of their arrays alone. */
hf_status hf_queue(hf_context *ctx, enum hf_op_id op, const void *args,
                   const struct hf_kernel **kernel);

#endif
