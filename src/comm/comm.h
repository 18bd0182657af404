/* SPDX-License-Identifier: Apache-2.0
 * Processes that work on one problem together, each with a device of its own. A context has one
 * communicator; algo and kernels speak to it always, also when the process is alone, so that they
 * have no branch for the number of ranks. All ranks make the same calls in the same order. */
#ifndef HF_COMM_H
#define HF_COMM_H

#include "device/device.h"

#ifdef __cplusplus
extern "C" {
#endif

enum hf_comm_reduction {
    HF_COMM_SUM_I64, /* int64_t, wraps: sums of fixed-point integers are exact and free of order */
    HF_COMM_MIN_F64,
    HF_COMM_MAX_F64
};

typedef struct hf_comm hf_comm;

/* Where a call has a stream (that of the context's device, as kernels get it), its data lie in
 * memory of the device or of the host, and it follows what was queued on the stream before. What
 * comes out in memory of the device is there for what is queued after; in memory of the host it is
 * there on return. */
struct hf_comm {
    const char *name;               /* "self" */
    const struct hf_device *device; /* whose streams it knows */
    int (*rank)(const hf_comm *comm);
    int (*size)(const hf_comm *comm);
    /* Replace data[0 .. count) by its reduction over all ranks. */
    hf_status (*allreduce)(const hf_comm *comm, void *stream, void *data, int64_t count,
                           enum hf_comm_reduction reduction);
    /* Replace data[0 .. count) by the sums over all ranks before this one, 0 on the first: where
     * the rows of a rank begin, if data holds how many it has. */
    hf_status (*scan)(const hf_comm *comm, void *stream, int64_t *data, int64_t count);
    /* `bytes` bytes of each rank, as many everywhere, one behind the other in the order of ranks,
     * into all [size * bytes] of rank `root`; `all` is not looked at elsewhere. HF_E_ARG when there
     * is no such rank. */
    hf_status (*gather)(const hf_comm *comm, void *stream, const void *data, size_t bytes,
                        void *all, int root);
    /* Replace data by that of rank `root`. */
    hf_status (*bcast)(const hf_comm *comm, void *stream, void *data, size_t bytes, int root);
    /* Replace a decision by the greatest of all ranks', so that all do the same: to stop, to fail.
     * Waits for the other ranks. */
    hf_status (*agree)(const hf_comm *comm, int32_t *decision);
    void (*close)(hf_comm *comm);
};

/* One process alone. */
void hf_comm_self(hf_comm *comm, const struct hf_device *device);

#ifdef __cplusplus
}
#endif
#endif
