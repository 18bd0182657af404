/* SPDX-License-Identifier: Apache-2.0
 * The arguments of hf_gemm(). */
#ifndef HF_GEMM_CHECK_H
#define HF_GEMM_CHECK_H

#include "core/context.h"
#include <holdfast/gemm.h>

/* Check args; *full: the same product as op gemm wants it, row-major and complete. */
hf_status hf_gemm_check(hf_context *ctx, const hf_gemm_args *args, hf_gemm_args *full);

/* The product of checked arguments, none of whose dimensions is 0, under a guard. (gemm_guard.c) */
hf_status hf_gemm_guarded_run(hf_context *ctx, const hf_gemm_args *args, hf_guard guard,
                              hf_gemm_faults *faults);

#endif
