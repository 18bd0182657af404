/* SPDX-License-Identifier: Apache-2.0
 * The only door to a kernel (guard/run.c): plan, run under the context's protection scheme, wait.
 */
#ifndef HF_RUN_H
#define HF_RUN_H

#include "core/context.h"
#include "core/op.h"

/* args is the op's argument struct; ops/<op>/<op>.h has a typed wrapper. */
hf_status hf_run(hf_context *ctx, enum hf_op_id op, const void *args);
/* The same without the wait: what comes behind it on the stream sees the results. */
hf_status hf_queue(hf_context *ctx, enum hf_op_id op, const void *args);

#endif
