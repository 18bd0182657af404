/* SPDX-License-Identifier: Apache-2.0
 * Rows on their way to a device while it computes: copies on a stream of their own, each in one of
 * a few slots, and events that order them with the device's stream. */
#ifndef HF_PIPE_H
#define HF_PIPE_H

#include "device/device.h"
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define HF_PIPE_SLOTS 3 /* one is computed on, one is copied, one waits for its turn */

/* Where memory lies, as a device sees it. */
enum hf_place {
    HF_PLACE_HOST,        /* of the host */
    HF_PLACE_PINNED,      /* likewise, locked: the device copies from it by itself */
    HF_PLACE_DEVICE,      /* of this device */
    HF_PLACE_OTHER_DEVICE /* of another device: neither the host nor this one may read it */
};

/* Rows [first, first + rows + count) at src, of which those among dropped[count] are left out, to
 * dst. dst and src are device memory and do not overlap. */
struct hf_compaction {
    void *dst;
    const void *src;
    size_t row_bytes;
    int64_t rows, first;    /* rows that stay; number of the first row of src */
    const int64_t *dropped; /* [count] host memory, ascending, all in that range */
    int64_t count;
};

/* stream: of hf_device.open(); pipe: of open() below. */
struct hf_pipe_table {
    enum hf_place (*place)(const void *stream, const void *p);
    /* Bytes of device memory that the context has in use. tidy: what it freed is given back to the
     * system first, which takes a while. */
    uint64_t (*held)(void *stream, bool tidy);
    /* The most that it ever had in use at once. */
    uint64_t (*most)(void *stream);
    /* Locked host memory; NULL when there is none. */
    void *(*lock)(size_t bytes);
    void (*unlock)(void *p); /* p may be NULL */
    hf_status (*open)(void *stream, void **pipe);
    void (*close)(void *pipe); /* NULL is allowed; waits for all copies */
    /* Copy rows to the device, without gaps, when its stream has left the slot. copy->src is locked
     * memory, or the call takes as long as the copy. */
    hf_status (*begin)(void *pipe, int slot, const struct hf_row_copy *copy);
    /* What the device's stream gets from now on waits for the slot's copy. */
    hf_status (*arrive)(void *pipe, int slot);
    /* The host waits for it. */
    hf_status (*wait)(void *pipe, int slot);
    /* The device's stream needs the slot no longer once it gets here. */
    hf_status (*leave)(void *pipe, int slot);
    const char *(*error_text)(const void *pipe);
    /* Copy the rows that stay, in the order of the device's stream. */
    hf_status (*compact)(void *stream, const struct hf_compaction *job);
};

/* Of a backend (enum hf_device_id); NULL: its memory is the host's. */
const struct hf_pipe_table *hf_pipe_of(int id);

#ifdef __cplusplus
}
#endif
#endif
