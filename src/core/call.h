/* SPDX-License-Identifier: Apache-2.0
 * A call of an op, as a kernel sees it. */
#ifndef HF_CALL_H
#define HF_CALL_H

#include "comm/comm.h"
#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel is asked about a call (supports, workspace, estimate) before there is a stream: then
 * only `device`, `comm` and `args` are set. */
struct hf_call {
    const struct hf_device_props *device;
    const hf_comm *comm; /* who works on the same problem: for ops that make iterations */
    const void *args;    /* the op's argument struct */
    void *stream;        /* of the device. Host: hf_pool *, CUDA: struct hf_cuda * */
    void *
        ws; /* workspace in memory of the device, aligned to HF_ALIGN; its contents are undefined */
    struct hf_slot *slot; /* in memory of the device: where the kernel tells what went wrong, */
    uint32_t kernel;      /* and as whose finding */
};

/* The same call with other arguments, to ask about a part of it. */
static inline struct hf_call hf_call_part(const struct hf_call *call, const void *args) {
    struct hf_call part = *call;
    part.args = args;
    return part;
}

#ifdef __cplusplus
}
#endif

#endif
