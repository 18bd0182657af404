/* SPDX-License-Identifier: Apache-2.0
 * How to reach a device. One table of functions per backend, listed in device.def. */
#ifndef HF_DEVICE_H
#define HF_DEVICE_H

#include "base/status.h"
#include "device/slot.h"
#include <stdbool.h>

#define HF_MAX_OPS 32
#define HF_MARKS 4

#ifdef __cplusplus
extern "C" {
#endif

enum hf_device_id { HF_DEV_HOST = 0, HF_DEV_CUDA, HF_DEV_OPENCL, HF_DEV_COUNT };

struct hf_device_opts {
    int index;    /* which of the backend's devices */
    int threads;  /* of the host; > 0 */
    void *stream; /* the caller's own stream of the backend, NULL: a new one. Host: must be NULL */
};

/* What kernels ask of a device to say whether they can run on it, and how fast. */
struct hf_device_props {
    int workers; /* threads of the host; 1 elsewhere */
    int sm;      /* compute capability of a CUDA device: 90 for 9.0; 0 elsewhere */
    int sms;     /* its multiprocessors; 0 elsewhere */
    int units;   /* compute units of an OpenCL device; 0 elsewhere */
    bool wide;   /* it is a CPU, where a work-item works on vectors */
    bool matrix; /* it has a matrix unit that kernels know, or does as if */
};

/* Rows to copy: `rows` of row_bytes each, whose beginnings lie dst_step and src_step bytes apart.
 * */
struct hf_row_copy {
    void *dst;
    const void *src;
    size_t dst_step, src_step, row_bytes;
    int64_t rows;
};

struct hf_device {
    const char *name; /* "cpu", "cuda", "opencl" */
    int id;
    /* How many there are; at least 1 for the CPU. */
    int (*count)(void);
    /* Is device `index` there? Writes one line about it, or why not. */
    hf_status (*probe)(int index, char *text, size_t text_bytes);
    /* The device whose name contains `text`, -1 if none does. NULL: they have no names. */
    int (*find)(const char *text);
    hf_status (*open)(const struct hf_device_opts *opts, void **stream, hf_error *err);
    void (*close)(void *stream);
    struct hf_device_props (*props)(const void *stream);
    /* Where the guard slot of the stream lies, and the word of it that the host reads. NULL: in
     * host memory of the caller's. */
    void (*slot)(void *stream, struct hf_slot **slot, uint32_t **told);
    /* Bytes of its memory that are free now. */
    uint64_t (*memory)(void *stream);
    /* Memory of the device, aligned to HF_ALIGN; NULL when there is none. In order with the stream.
     */
    void *(*alloc)(void *stream, size_t bytes);
    void (*release)(void *stream, void *p); /* p may be NULL */
    /* Does p point to memory of this device that the host cannot read? */
    bool (*owns)(const void *stream, const void *p);
    /* Between memory of the host and of the device, any way round. When one side is the host's, the
     * copy is done on return, as far as the host can tell. */
    hf_status (*copy)(void *stream, void *dst, const void *src, size_t bytes);
    /* To the host, what was complete when the device was last waited for: beside what is queued
     * from then on. One at a time; done when end_fetch() returns. */
    hf_status (*start_fetch)(void *stream, void *dst, const void *src, size_t bytes);
    hf_status (*end_fetch)(void *stream);
    /* As copy(), of rows. */
    hf_status (*copy_rows)(void *stream, const struct hf_row_copy *copy);
    hf_status (*fill)(void *stream, void *dst, int byte, size_t bytes);
    /* Are all of these bytes, a multiple of 8, 0? Waits for what was queued before. */
    hf_status (*is_zero)(void *stream, const void *p, size_t bytes, bool *zero);
    /* Are all of these numbers in 0 .. limit - 1? end_below() returns it after the
     * next wait. */
    hf_status (*start_below)(void *stream, const int32_t *p, size_t count, int32_t limit);
    bool (*end_below)(void *stream);
    /* What calls that do not wait have in common of host memory, from begin_calls() to end_calls(),
     * is copied to the device once: what one of them writes on the device the next one may read.
     * The host may at the end, which waits. NULL: there is nothing to do. False: it cannot be done.
     * */
    bool (*begin_calls)(void *stream);
    hf_status (*end_calls)(void *stream, hf_status status);
    /* Wait until all is done. */
    hf_status (*sync)(void *stream);
    /* Note when the stream gets here: 0 and 1 are the beginning and the end of a span, the others
     * of HF_MARKS serve follow(). */
    hf_status (*mark)(void *stream, int which);
    /* Wait for the end; seconds of the span, < 0 when that failed. */
    double (*span)(void *stream);
    /* Between streams of one backend on different devices; NULL where memory is the host's. May
     * kernels of `stream` use memory that `other` has allocated? From then on they may. */
    bool (*reach)(void *stream, void *other);
    /* What is queued on `stream` from here on comes after mark `which` of `other`. */
    hf_status (*follow)(void *stream, void *other, int which);
    /* Lock memory of the host in place, so that copies of it take no detour, or let go of it. NULL:
     * that makes no difference. */
    hf_status (*lock)(void *stream, void *p, size_t bytes);
    void (*unlock)(void *stream, void *p);
    /* What the last call that failed with HF_E_DEVICE said; "" when none did. */
    const char *(*error_text)(const void *stream);
};

/* The device called name ("cpu", "cuda", "cuda:1", "opencl:NAME"), or the best one that is there
 * for "auto" and NULL; NULL if the name is unknown. *index is the number of the device, 0 without a
 * colon. */
const struct hf_device *hf_device_find(const char *name, int *index);
/* Backend i in the order of device.def, NULL past the last. */
const struct hf_device *hf_device_at(int i);

struct hf_absent {
    const char *name, *why;
};
/* Backend i of those that this build lacks, NULL past the last. */
const struct hf_absent *hf_device_absent(int i);
/* The backend with this id, NULL when it is not in this build. */
const struct hf_device *hf_device_of(int id);

#ifdef __cplusplus
}
#endif
#endif
