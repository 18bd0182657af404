/* SPDX-License-Identifier: Apache-2.0
 * Which kernel serves a call. */
#ifndef HF_PLAN_H
#define HF_PLAN_H

#include "core/context.h"
#include "core/kernel.h"
#include "core/op.h"

/* An op and its kernels. Where the functions below take the id of an op instead, its kernels are
 * those of the registry. */
struct hf_kernel_set {
    const struct hf_op *op;
    const struct hf_kernel *const *kernels; /* [count] */
    int count;
};

/* Choose the kernel for a call: a forced one (HF_KERNEL_<OP>=name in the environment), else the
 * fastest of the closest entries of the user's tuning file, else the least estimate among those
 * that run here and support the call, else the reference. On the CPU one that is not forced and
 * whose workspace is above what the context's limit leaves is passed over when another one fits
 * and hf_op::unanimous() says so: memory never decides what comes out.
 * Depends on nothing but the call, that, the file and the environment, never on earlier calls.
 * HF_E_UNSUPPORTED when none can, HF_E_ARG when the forced one is unknown or cannot. *source says
 * where the choice came from ("forced", "tuned", "model", "reference"); may be NULL. */
hf_status hf_plan(hf_context *ctx, int op, const void *args, const struct hf_kernel **kernel,
                  const char **source);

/* The same among kernels of the caller's. */
hf_status hf_plan_set(hf_context *ctx, const struct hf_kernel_set *set, const void *args,
                      const struct hf_kernel **kernel, const char **source);

/* The kernel, and the bytes of workspace that it asks for. */
hf_status hf_plan_measured(hf_context *ctx, int op, const void *args,
                           const struct hf_kernel **kernel, size_t *workspace_bytes);

/* Plan the steps of the kernel's call: call->step. */
hf_status hf_plan_steps(hf_context *ctx, const struct hf_kernel *kernel, struct hf_call *call);

/* Bytes of workspace that a kernel asks for in a call; 0 if a step of it cannot be planned. */
size_t hf_kernel_workspace(hf_context *ctx, const struct hf_kernel *kernel, const void *args);

/* Bytes of workspace of the kernel that hf_plan() chooses; where none fits, the least that any
 * asks for; 0 when there is none. */
uint64_t hf_plan_workspace(hf_context *ctx, int op, const void *args);

/* Whose measurements count for this context: hf_tune_fingerprint() on the CPU, else the device's
 * name without blanks ("NVIDIA_H200"). */
void hf_plan_machine(const hf_context *ctx, char text[HF_TUNE_NAME_BYTES]);

/* What the measurements that come with the library call it: the same, but for OpenCL devices, as
 * those of all drivers count, and PoCL's of all CPUs of an instruction set ("OpenCL-NVIDIA_H200",
 * "PoCL-AVX512"). */
void hf_plan_family(const hf_context *ctx, char text[HF_TUNE_NAME_BYTES]);

struct hf_plan_candidate {
    const struct hf_kernel *kernel;
    bool usable; /* runs here and supports this call */
    bool chosen;
    double estimate_ns; /* on one worker; < 0: the kernel gives none */
    char why[160];      /* why it was chosen, or why it lost */
};

/* What the plan thinks of each kernel of the set: out [set->count]. When none can serve, none is
 * chosen. */
void hf_plan_explain(hf_context *ctx, const struct hf_kernel_set *set, const void *args,
                     struct hf_plan_candidate *out);

#endif
