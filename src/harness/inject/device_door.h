/* SPDX-License-Identifier: Apache-2.0
 * Faults in the memory of kernels of a GPU. The kernels are those that are shipped: between two
 * calls, and between two iterations of op lloyd, words are copied to the host, altered there and
 * copied back. */
#ifndef HF_DEVICE_DOOR_H
#define HF_DEVICE_DOOR_H

#include "core/kernel.h"
#include "harness/inject/fault.h"

/* The op of a kernel of a GPU; -1: it is none. */
int hf_device_kernel_op(const struct hf_kernel *kernel);

/* Between any memory of the call and the host. */
void hf_device_copy(const struct hf_call *call, const struct hf_kernel *kernel, void *dst,
                    const void *src, size_t bytes);

/* Who strikes between the iterations of op lloyd. */
struct hf_device_striker {
    /* Before the first iteration, made 0, and after `made` more. */
    void (*strike)(void *user, const void *args, int made);
    /* Iterations until the next strike, which one call may make; 0: each must be told of. */
    int (*ahead)(void *user);
    /* The multiprocessor that is always wrong; -1: none. Each problem that it has a part in is
     * struck after the call. */
    int64_t (*unit)(void *user);
    void *user;
};

/* Op lloyd with its arrays in memory of the device, so that they can be struck between iterations,
 * each of which is a visit. */
hf_status hf_device_run_lloyd(const struct hf_kernel *kernel, const struct hf_call *call,
                              const struct hf_device_striker *striker);

/* Op lanes with the fault: a lane of a multiprocessor that is always wrong. */
hf_status hf_device_run_lanes(const struct hf_call *call, const struct hf_fault_site *site);

/* What op lloyd works with beside its arrays. */
struct hf_place_array hf_device_workspace_place(void);

#endif
