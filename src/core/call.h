/* SPDX-License-Identifier: Apache-2.0
 * A call of an op, as a kernel sees it. */
#ifndef HF_CALL_H
#define HF_CALL_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A kernel is asked about a call (supports, workspace, estimate) before there is a stream: then
 * only `device` and `args` are set. */
struct hf_call {
    const struct hf_device_props *device;
    const void *args; /* the op's argument struct */
    void *stream;     /* of the device. Host: hf_pool *, CUDA: struct hf_cuda * */
    void *ws; /* workspace in memory of the device, aligned to HF_ALIGN; undefined contents */
};

/* The same call with other arguments, and another workspace: one part of what a kernel does. */
static inline struct hf_call hf_call_part(const struct hf_call *call, const void *args, void *ws) {
    struct hf_call part = *call;
    part.args = args;
    part.ws = ws;
    return part;
}

#ifdef __cplusplus
}
#endif

#endif
