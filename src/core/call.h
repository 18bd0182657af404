/* SPDX-License-Identifier: Apache-2.0
 * A call of an op, as a kernel sees it. */
#ifndef HF_CALL_H
#define HF_CALL_H

#include "comm/comm.h"
#include "core/scheme.h"
#include "device/device.h"
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct hf_kernel;

#define HF_MAX_STEPS 2

/* A kernel is asked about a call before there is a stream: for supports, estimate and steps only
 * `device`, `comm` and `args` are set, for workspace `step` as well. */
struct hf_call {
    const struct hf_device_props *device;
    const hf_comm *comm;  /* who works on the same problem: for ops that make iterations */
    const void *args;     /* the op's argument struct */
    void *stream;         /* of the device. Host: hf_pool *, CUDA: struct hf_cuda * */
    void *ws;             /* workspace: memory of the device, aligned to HF_ALIGN, not cleared */
    struct hf_slot *slot; /* in memory of the device: where the kernel tells what went wrong, */
    uint32_t kernel;      /* and as whose finding */
    uint32_t scheme;      /* enum hf_scheme: a kernel without checks ignores it, */
    uint32_t checks;      /* and the checks wanted of a kernel, HF_CHECK_BIT()s; 0 when off */
    const struct hf_kernel *step[HF_MAX_STEPS]; /* those planned for what hf_kernel.steps told */
};

/* Is a check wanted of the kernel? */
static inline bool hf_call_checks(const struct hf_call *call, enum hf_fault fault) {
    return (call->checks & HF_CHECK_BIT(fault)) != 0;
}

/* The same call with other arguments, to ask about a part of it. */
static inline struct hf_call hf_call_part(const struct hf_call *call, const void *args) {
    struct hf_call part = *call;
    part.args = args;
    for (int i = 0; i < HF_MAX_STEPS; i++)
        part.step[i] = NULL;
    return part;
}

#ifdef __cplusplus
}
#endif

#endif
