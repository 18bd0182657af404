/* SPDX-License-Identifier: Apache-2.0
 * Arguments of a call that lie in host memory, seen by the device. A kernel begins with
 * hf_stage_begin(), asks for a device view of every pointer of its arguments, calls
 * hf_stage_ready(), launches, and returns hf_stage_end(). Pointers to device memory pass through at
 * no cost, and then nothing waits. Small pieces pass through a slab of locked memory: a few copies
 * each way, and one wait at the end. */
#ifndef HF_STAGE_H
#define HF_STAGE_H

#include "device/cuda/cuda.h"
#include <holdfast/array.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_STAGE_ITEMS 48

struct hf_stage {
    struct hf_cuda *cuda;
    int before;       /* the caller's current device */
    hf_status status; /* the first failure; the calls below then return NULL */
    int count;
    bool ready;         /* the copies to the device were started */
    size_t slab_before; /* bytes of the slab that were in use */
    struct hf_stage_item {
        void *host, *device;
        char *slab; /* locked memory on the way; NULL: device is an allocation of its own */
        size_t bytes;
        bool back;    /* copied to the host at the end */
        bool in;      /* in the slab, to be copied to the device */
        bool fetched; /* it is on its way to the slab */
    } item[HF_STAGE_ITEMS];
};

void hf_stage_begin(struct hf_stage *stage, void *stream);

/* A device view of `bytes` bytes at p: read only, written only, or both. NULL for NULL. */
const void *hf_stage_in(struct hf_stage *stage, const void *p, size_t bytes);
void *hf_stage_out(struct hf_stage *stage, void *p, size_t bytes);
void *hf_stage_inout(struct hf_stage *stage, void *p, size_t bytes);

/* A device view of a matrix; a staged copy has no gaps between rows. */
hf_array hf_stage_array(struct hf_stage *stage, const hf_array *a);

/* Start the copies to the device: once, before anything is launched. False after a failure, which
 * hf_stage_end() returns. */
bool hf_stage_ready(struct hf_stage *stage);

/* What lies at device by now, to the host when the call ends. */
void hf_stage_fetch(struct hf_stage *stage, void *host, const void *device, size_t bytes);

/* Copy back what was written, free the copies, wait if there is anything to wait for. */
hf_status hf_stage_end(struct hf_stage *stage, hf_status launched);

#ifdef __cplusplus
}
#endif
#endif
