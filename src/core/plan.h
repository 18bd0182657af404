/* SPDX-License-Identifier: Apache-2.0
 * Which kernel row serves a call. */
#ifndef HF_PLAN_H
#define HF_PLAN_H

#include "core/context.h"
#include "core/kernel.h"
#include "core/op.h"

/* Choose the row for a call. Order: HF_KERNEL_<OP>=name in the environment, user tuning file,
 * shipped table, cost model. HF_E_UNSUPPORTED when no row can, HF_E_ARG when the forced row is
 * unknown or cannot. *source says where the choice came from ("forced", "tuned", "shipped",
 * "model"); may be NULL. */
hf_status hf_plan(hf_context *ctx, int op, const void *args, const struct hf_kernel **kernel,
                  const char **source);

#endif
