/* SPDX-License-Identifier: Apache-2.0
 * A context is one device with its threads, its memory limit and its last error. */
#ifndef HF_CONTEXT_H
#define HF_CONTEXT_H

#include <holdfast/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Opaque; made by hf_context_create(). */
typedef struct hf_context hf_context;

/* All zero means default. */
typedef struct hf_context_opts {
    const char *device;    /* "cpu", "cuda" (the first GPU), "cuda:1", "opencl" (the first OpenCL
                              device), "opencl:1", "opencl:TEXT" (the first whose name or platform
                              has this text) or "auto"; NULL means auto (the fastest device there
                              is; never one of OpenCL) */
    int threads;           /* workers, the caller's thread included; 0 means one per usable core */
    uint64_t memory_bytes; /* of the device, that a call may hold beside the arrays that go in and
                              out of it: workspace, and rows that are read in chunks. What only
                              saves time is taken where data in memory leave room for it too. On a
                              GPU rows that are brought there count. 0 means half of what is free,
                              on a GPU nine tenths */
    void *stream;          /* work on this stream of the caller (cudaStream_t, or cl_command_queue
                              in order, whose cl_context then serves) of that very device;
                              borrowed until the context goes. NULL means one of its own, which
                              waits for no other: device arrays must be complete before a call */
} hf_context_opts;

/* Open a context. opts may be NULL. *ctx is NULL on failure; free it with hf_context_destroy().
 * A context serves one call at a time; make one per thread to work in parallel. A fit, a prediction
 * or a transformation that finds another one at work, in another thread or around a function that
 * it was given (progress, a source, a sink), does nothing and gives HF_E_BUSY; hf_last_error() is
 * about the other one then. It does not pass a fork: a child makes its own.
 * HF_E_ARG          unknown device name, threads < 0 or > 1024
 * HF_E_UNSUPPORTED  the device is not there or not in this build
 * HF_E_NOMEM        no memory or no thread to be had */
HF_API hf_status hf_context_create(hf_context **ctx, const hf_context_opts *opts);

/* Close a context and free all it holds. NULL is allowed. On a GPU the process keeps up to 64 MiB
 * of device memory for the next context. */
HF_API void hf_context_destroy(hf_context *ctx);

/* What went wrong in the last call that failed on this context; "" when nothing did. The text
 * belongs to the context and lives until its next call. NULL asks about hf_context_create(). */
HF_API const char *hf_last_error(const hf_context *ctx);

/* "cpu", "cuda:0", "opencl:0"; belongs to the context. */
HF_API const char *hf_context_device(const hf_context *ctx);

/* Worker threads in use, at least 1. */
HF_API int hf_context_threads(const hf_context *ctx);

/* The memory limit in force, in bytes. */
HF_API uint64_t hf_context_memory(const hf_context *ctx);

#ifdef __cplusplus
}
#endif
#endif
