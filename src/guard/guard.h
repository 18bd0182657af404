/* SPDX-License-Identifier: Apache-2.0
 * What the protection schemes have in common: names, switches, counters, what is told. Kernels find
 * scheme and checks in struct hf_call (core/call.h). */
#ifndef HF_GUARD_SCHEMES_H
#define HF_GUARD_SCHEMES_H

#include "core/context.h"
#include "core/op.h"

/* "off"; NULL for an id out of range. */
const char *hf_scheme_name(int id);

/* The name of a check, as in fault.def; NULL for an id out of range. */
const char *hf_check_name(int fault);

/* The number by which a kernel of the context tells its findings. (verify.c) */
uint32_t hf_guard_number(hf_context *ctx, const struct hf_kernel *kernel);

/* A call begins: its scheme, all checks but those that HF_GUARD_WITHOUT names ("sums,labels"), its
 * counters from 0. on_fault may be NULL. HF_E_ARG: no such guard, or a name of no check. */
hf_status hf_guard_begin(hf_context *ctx, hf_guard asked, hf_on_fault on_fault, void *user);

/* The same without the environment: for tests, and for measuring what a check is worth. */
void hf_guard_set(hf_context *ctx, enum hf_scheme scheme, uint32_t checks);

/* Its counters, with those of the slot. The scheme ends with hf_ctx_leave(). */
hf_status hf_guard_read(hf_context *ctx, hf_guard_counts *counts);

/* A check of a call disagrees: noted for hf_guard_repaired(), and counted as suspected. The message
 * is the caller's, who fails with HF_E_CORRUPT. row, column: -1 where not known. */
void hf_guard_found(hf_context *ctx, enum hf_fault fault, int64_t row, int64_t column);

/* Nothing was found yet: an attempt begins. */
void hf_guard_nothing(hf_context *ctx);

/* So many values agreed, or not, with a check. */
static inline void hf_guard_checked(hf_context *ctx, enum hf_fault fault, int64_t values) {
    ctx->guard.counts.checked += values;
    ctx->guard.covered |= HF_CHECK_BIT(fault);
}

/* What was found last, whose message is the context's last error, is right after its work was done
 * again: counted as confirmed and repaired, told, forgotten. rolled_back: iterations made again. */
void hf_guard_repaired(hf_context *ctx, hf_fault_kind kind, int rolled_back);

/* Nothing helped: counted and told; the message stays. */
void hf_guard_lost(hf_context *ctx, hf_fault_kind kind);

/* Does a failure call for another attempt under the scheme of the call? */
bool hf_guard_retries(const hf_context *ctx, hf_status status);

/* A sum over the 32-bit words of an array, each times an odd number of its own: no single wrong
 * word leaves it the same. bytes: a multiple of 4. */
uint64_t hf_guard_sign(const void *data, size_t bytes);

/* The same by the threads of the pool, which may be NULL. */
uint64_t hf_guard_sign_by(hf_pool *pool, const void *data, size_t bytes);

/* The same over rows first, first + 1, ... of the data, such that parts of them add up to the
 * signature of all. What does not fill a word at the end of a row counts as a word. */
uint64_t hf_guard_sign_rows(hf_pool *pool, const hf_array *x, int64_t first);

/* Sum of factor[i] * value[i], modulo 2^64. */
uint64_t hf_guard_fold(const uint64_t *factor, const int64_t *value, int64_t count);

/* Work that gives the same bits each time. */
struct hf_repeated {
    enum hf_fault fault;                    /* the check */
    hf_status (*run)(void *user, int turn); /* turn 0, 1, ...: odd ones on other code */
    uint64_t (*sign)(const void *user);     /* of all that it wrote */
    const char *what;                       /* "the centroids": for the message */
    bool host_only;                         /* the check is not made on other devices */
};

/* Do it until two turns in a row agree, at most five times: once where the call does not make the
 * check. HF_E_CORRUPT: they did not, or the scheme is detect. */
hf_status hf_guard_repeat(hf_context *ctx, const struct hf_repeated *work, void *user);

/* Another kernel than this one for its op, on the same device and with the same bits for any call;
 * the same one where there is none. */
const struct hf_kernel *hf_guard_twin(hf_context *ctx, enum hf_op_id op,
                                      const struct hf_kernel *kernel, const void *args);

/* The name of the scheme in force: "off" on a device none of whose kernels made a check. */
const char *hf_guard_in_force(const hf_context *ctx);

/* Does the call make this check? */
static inline bool hf_guard_checks(const hf_context *ctx, enum hf_fault fault) {
    return (ctx->guard.checks & HF_CHECK_BIT(fault)) != 0;
}

/* The same of a check that other devices do not have. */
static inline bool hf_guard_checks_on_host(const hf_context *ctx, enum hf_fault fault) {
    return hf_ctx_is_host(ctx) && hf_guard_checks(ctx, fault);
}

#endif
