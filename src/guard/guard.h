/* SPDX-License-Identifier: Apache-2.0
 * What the protection schemes have in common: names, switches, counters, what is told. Kernels find
 * scheme and checks in struct hf_call (core/call.h). */
#ifndef HF_GUARD_SCHEMES_H
#define HF_GUARD_SCHEMES_H

#include "core/context.h"

/* "off"; NULL for an id out of range. */
const char *hf_scheme_name(int id);

/* The name of a check, as in fault.def; NULL for an id out of range. */
const char *hf_check_name(int fault);

/* The number by which a kernel of the context tells its findings. (verify.c) */
uint32_t hf_guard_number(hf_context *ctx, const struct hf_kernel *kernel);

/* A call begins: its scheme, all checks but those that HF_GUARD_WITHOUT names ("sums,labels"), its
 * counters from 0. on_fault may be NULL. HF_E_ARG: no such guard, or a name of no check. */
hf_status hf_guard_begin(hf_context *ctx, hf_guard guard, hf_on_fault on_fault, void *user);

/* The same without the environment: for tests, and for measuring what a check is worth. */
void hf_guard_set(hf_context *ctx, enum hf_scheme scheme, uint32_t checks);

/* Its counters, with those of the slot. The scheme ends with hf_ctx_leave(). */
hf_status hf_guard_read(hf_context *ctx, hf_guard_counts *counts);

/* The name of the scheme in force: "off" on a device none of whose kernels made a check. */
const char *hf_guard_in_force(const hf_context *ctx);

/* Does the call make this check? */
static inline bool hf_guard_checks(const hf_context *ctx, enum hf_fault fault) {
    return (ctx->guard.checks & HF_CHECK_BIT(fault)) != 0;
}

#endif
