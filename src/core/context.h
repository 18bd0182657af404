/* SPDX-License-Identifier: Apache-2.0
 * The inside of a context. */
#ifndef HF_CORE_CONTEXT_H
#define HF_CORE_CONTEXT_H

#include "base/parallel.h"
#include "base/status.h"
#include "comm/comm.h"
#include "core/scheme.h"
#include "core/tune.h"
#include "device/device.h"
#include <holdfast/array.h>
#include <holdfast/context.h>
#include <holdfast/guard.h>
#include <stdbool.h>

#define HF_GUARD_KERNELS 32

/* The guard slot, and who may have written to it. */
struct hf_guard_state {
    uint32_t scheme;        /* enum hf_scheme of the calls, and */
    uint32_t checks;        /* which checks they make: 0 when off */
    uint32_t covered;       /* those that kernels made */
    hf_guard_counts counts; /* of the call at work, beside what the slot counts */
    hf_on_fault on_fault;   /* NULL: nobody is told */
    void *on_fault_user;
    bool elsewhere;          /* calls are made by other kernels than planned, if there are any */
    int iteration;           /* for what is told, */
    struct hf_finding found; /* and what a check of the loop saw last, */
    const char *found_by;    /* by which kernel, NULL: none, */
    int lane;                /* in which lane of the unit's vectors, -1: not known */
    bool leaves_out;         /* a worker that errs again and again can be left out: then what it
                              * erred in fails, whether it was repaired or not */
    int32_t erred;           /* the worker of the last repaired fault, */
    uint32_t erred_as;       /* what it was, */
    int erred_in;            /* and the iteration */
    bool judged;             /* one that nothing was known of was made again in this call */
    struct hf_slot *slot;    /* in memory of the device */
    uint32_t *told;          /* the word that hf_verify() reads: 0, or enum hf_fault */
    const struct hf_kernel *kernel[HF_GUARD_KERNELS]; /* that ran since it was last cleared, by */
    uint32_t kernels;                                 /* number */
    struct hf_slot of_host; /* the slot and the word of devices that have none of their own */
    uint32_t word;
};

struct hf_context {
    const struct hf_device *device;
    void *stream; /* of the device; the host's is its hf_pool */
    struct hf_device_props props;
    hf_comm comm;          /* the ranks that work together, this process alone so far */
    char name[24];         /* "cpu", "cuda:0" */
    int threads;           /* of the host */
    uint64_t memory_bytes; /* of the device */
    hf_error error;
    int busy;        /* a public call is at work: hf_ctx_enter() */
    void *workspace; /* grown by hf_workspace(), kept until the context goes */
    size_t workspace_bytes;
    size_t workspace_peak;
    uint64_t held_bytes; /* of the limit, beside the workspace, by the call that runs; host only */
    const struct hf_kernel *last_kernel[HF_MAX_OPS]; /* which row ran last, by op id */
    struct hf_tune tune; /* the user's tuning file, read when the first plan is made */
    bool tune_loaded;
    struct hf_guard_state guard;
};

/* The beginning and the end of a public call that computes; the end returns status or, where that
 * is HF_OK, hf_verify(). False, and no end: there is another one. */
bool hf_ctx_enter(hf_context *ctx);
hf_status hf_ctx_leave(hf_context *ctx, hf_status status);

/* Kernel workspace of at least `bytes` bytes; contents undefined; valid until the next call.
 * HF_E_NOMEM when the context's memory limit or the machine does not allow it. */
hf_status hf_workspace(hf_context *ctx, size_t bytes, void **ws);

/* What the limit leaves for the workspace. */
uint64_t hf_workspace_room(const hf_context *ctx);

/* Bytes of the memory allowed that are free for hf_ctx_alloc(). */
uint64_t hf_ctx_room(const hf_context *ctx);

/* The limit of what a call may hold of the host's memory, and of a device's own: on the CPU the
 * first is memory_bytes, on a device the second; the other is beyond any size. */
uint64_t hf_ctx_host_limit(const hf_context *ctx);
uint64_t hf_ctx_device_limit(const hf_context *ctx);

/* The call at work holds so many bytes of the host's memory, its kernels get the rest. False, and
 * nothing is noted, on a device, whose limit is that of its own memory. */
bool hf_ctx_hold(hf_context *ctx, uint64_t bytes);

/* The threads of the CPU where it is what computes, for loops of the host; NULL: a device is. */
hf_pool *hf_ctx_pool(const hf_context *ctx);

/* Give back a workspace of more than `bytes` bytes; the peak is counted anew. */
void hf_workspace_trim(hf_context *ctx, uint64_t bytes);

/* Memory of the device for arrays that kernels work on; NULL when there is none. The host reads and
 * writes it through hf_ctx_copy() alone; on the CPU it is plain memory. */
void *hf_ctx_alloc(hf_context *ctx, size_t bytes);
void hf_ctx_release(hf_context *ctx, void *p); /* p may be NULL */

/* The same for a second copy of what the host has: NULL on the CPU, which needs none, and where the
 * memory allowed has no room for it. */
void *hf_ctx_alloc_copy(hf_context *ctx, size_t bytes);

/* Returns `status`, that of a call of the device; a failure becomes the context's last error, in
 * the device's words. */
hf_status hf_ctx_check(hf_context *ctx, hf_status status);

/* Copy between any two places, host or device; fill memory of the device. Done on return where the
 * host takes part. Failures are said on the context. */
hf_status hf_ctx_copy(hf_context *ctx, void *dst, const void *src, size_t bytes);
/* To the host, what was complete when the device was last waited for: beside calls that are queued
 * from then on. One at a time; done when the second returns. */
hf_status hf_ctx_start_fetch(hf_context *ctx, void *dst, const void *src, size_t bytes);
hf_status hf_ctx_end_fetch(hf_context *ctx);
/* The rows of src, without the gaps between them. */
hf_status hf_ctx_copy_rows(hf_context *ctx, void *dst, const hf_array *src);
hf_status hf_ctx_fill(hf_context *ctx, void *dst, int byte, size_t bytes);
/* Calls of hf_queue() from here to the end, at least one, share what they have in common of host
 * memory: what one writes there the next one may read, the host not before the end. The end returns
 * `status`, that of the calls, or says what failed on the device. False: the calls are not joined,
 * each must be waited for, and there is no end. */
bool hf_ctx_begin_calls(hf_context *ctx);
hf_status hf_ctx_end_calls(hf_context *ctx, hf_status status);
/* Are all of these bytes of the device's memory, a multiple of 8, 0? */
hf_status hf_ctx_is_zero(hf_context *ctx, const void *p, size_t bytes, bool *zero);
/* Start the check whether all of these numbers of the device's memory are in 0 .. limit - 1; its
 * result, hf_ctx_end_below(), is valid after the next wait. */
hf_status hf_ctx_start_below(hf_context *ctx, const int32_t *p, int64_t count, int32_t limit);
bool hf_ctx_end_below(hf_context *ctx);

/* Can the host read what hf_ctx_alloc() gives? */
static inline bool hf_ctx_is_host(const hf_context *ctx) { return ctx->device->id == HF_DEV_HOST; }

/* A failure, said on the context. */
#define hf_ctx_fail(ctx, ...) hf_fail(&(ctx)->error, __VA_ARGS__)

#endif
