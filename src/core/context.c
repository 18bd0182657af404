/* SPDX-License-Identifier: Apache-2.0 */
#include "core/context.h"
#include "core/run.h"

#include "base/mem.h"
#include "core/array.h"
#include "device/host/isa.h"
#include "device/pipe.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_THREADS 1024
#define MIN_MEMORY ((uint64_t)1 << 20)

/* Words about the last hf_context_create() of this thread. */
static _Thread_local hf_error create_error;

static hf_status check_opts(const hf_context_opts *opts) {
    if (opts->threads < 0 || opts->threads > MAX_THREADS)
        return hf_fail(&create_error, HF_E_ARG,
                       "threads is %d; it must be 1 to %d, or 0 for one per usable core",
                       opts->threads, MAX_THREADS);
    if (opts->memory_bytes != 0 && opts->memory_bytes < MIN_MEMORY)
        return hf_fail(&create_error, HF_E_ARG,
                       "memory_bytes is %llu; allow at least %llu, or 0 for half of what is free",
                       (unsigned long long)opts->memory_bytes, (unsigned long long)MIN_MEMORY);
    const char *max = getenv("HF_ISA_MAX");
    if (max != NULL && *max != '\0' && hf_isa_find(max) < 0)
        return hf_fail(&create_error, HF_E_ARG,
                       "HF_ISA_MAX=%s names no instruction set; `holdfast info` lists them", max);
    return HF_OK;
}

static hf_status find_device(const char *name, const struct hf_device **device, int *index) {
    const struct hf_absent *absent = NULL;
    for (int i = 0; name != NULL && (absent = hf_device_absent(i)) != NULL; i++)
        if (strncmp(name, absent->name, strlen(absent->name)) == 0)
            return hf_fail(&create_error, HF_E_UNSUPPORTED, "device %s is not in this build: %s",
                           name, absent->why);
    *device = hf_device_find(name, index);
    if (*device == NULL)
        return hf_fail(&create_error, HF_E_ARG,
                       "no device is called '%s'; use \"auto\" or one that `holdfast info` lists",
                       name != NULL ? name : "auto");
    char text[200] = "";
    const hf_status status = (*device)->probe(*index, text, sizeof text);
    if (status != HF_OK)
        return hf_fail(&create_error, status, "device %s is not available: %s",
                       name != NULL ? name : "auto", text);
    return HF_OK;
}

static void name_context(hf_context *ctx, int index) {
    if (hf_ctx_is_host(ctx))
        (void)snprintf(ctx->name, sizeof ctx->name, "%s", ctx->device->name);
    else
        (void)snprintf(ctx->name, sizeof ctx->name, "%s:%d", ctx->device->name, index);
}

/* Half of the host's memory, which others need too, also as that of an OpenCL device; most of a
 * device's own. */
static void choose_memory(hf_context *ctx, uint64_t asked) {
    ctx->memory_bytes = asked;
    if (asked == 0) {
        const uint64_t total = ctx->device->memory(ctx->stream);
        ctx->memory_bytes = hf_ctx_is_host(ctx) || ctx->props.wide ? total / 2 : total / 10 * 9;
    }
    if (ctx->memory_bytes < MIN_MEMORY)
        ctx->memory_bytes = MIN_MEMORY;
}

hf_status hf_context_create(hf_context **ctx, const hf_context_opts *opts) {
    static const hf_context_opts defaults = {NULL, 0, 0, NULL};
    create_error.text[0] = '\0';
    if (ctx == NULL)
        return hf_fail(&create_error, HF_E_ARG, "ctx is NULL; give a place for the new context");
    *ctx = NULL;
    if (opts == NULL)
        opts = &defaults;
    const struct hf_device *device = NULL;
    int index = 0;
    HF_TRY(check_opts(opts));
    HF_TRY(find_device(opts->device, &device, &index));
    assert(device != NULL);
    hf_context *c = hf_alloc_zero(sizeof *c);
    if (c == NULL)
        return hf_fail(&create_error, HF_E_NOMEM, "no memory for a context");
    c->device = device;
    c->threads = opts->threads != 0 ? opts->threads : hf_usable_cores();
    if (c->threads > MAX_THREADS)
        c->threads = MAX_THREADS;
    const struct hf_device_opts open = {
        .index = index, .threads = c->threads, .stream = opts->stream};
    const hf_status status = device->open(&open, &c->stream, &create_error);
    if (status != HF_OK) {
        hf_free(c);
        return status;
    }
    c->props = device->props(c->stream);
    hf_comm_self(&c->comm, device);
    name_context(c, index);
    const hf_status opened = hf_ctx_check(c, hf_guard_open(c));
    if (opened != HF_OK) {
        create_error = c->error;
        hf_context_destroy(c);
        return opened;
    }
    choose_memory(c, opts->memory_bytes);
    *ctx = c;
    return HF_OK;
}

void hf_context_destroy(hf_context *ctx) {
    if (ctx == NULL)
        return;
    ctx->device->release(ctx->stream, ctx->workspace);
    ctx->comm.close(&ctx->comm);
    ctx->device->close(ctx->stream);
    hf_tune_clear(&ctx->tune);
    hf_free(ctx);
}

const char *hf_last_error(const hf_context *ctx) {
    return ctx != NULL ? ctx->error.text : create_error.text;
}

const char *hf_context_device(const hf_context *ctx) { return ctx->name; }

int hf_context_threads(const hf_context *ctx) { return ctx->threads; }

uint64_t hf_context_memory(const hf_context *ctx) { return ctx->memory_bytes; }

/* A plain int with atomic access: the header is read as C++, too. */
bool hf_ctx_enter(hf_context *ctx) {
    return __atomic_exchange_n(&ctx->busy, 1, __ATOMIC_ACQUIRE) == 0;
}

hf_status hf_ctx_leave(hf_context *ctx, hf_status status) {
    if (status == HF_OK)
        status = hf_verify(ctx);
    else
        (void)hf_guard_forget(ctx);
    ctx->guard.scheme = HF_SCHEME_OFF;
    ctx->guard.checks = 0;
    __atomic_store_n(&ctx->busy, 0, __ATOMIC_RELEASE);
    return status;
}

uint64_t hf_workspace_room(const hf_context *ctx) {
    return ctx->memory_bytes > ctx->held_bytes ? ctx->memory_bytes - ctx->held_bytes : 0;
}

uint64_t hf_ctx_room(const hf_context *ctx) {
    const struct hf_pipe_table *pipe = hf_pipe_of(ctx->device->id);
    const uint64_t held = pipe != NULL ? pipe->held(ctx->stream, false) : ctx->held_bytes;
    return held < ctx->memory_bytes ? ctx->memory_bytes - held : 0;
}

uint64_t hf_ctx_host_limit(const hf_context *ctx) {
    return hf_ctx_is_host(ctx) ? ctx->memory_bytes : INT64_MAX;
}

uint64_t hf_ctx_device_limit(const hf_context *ctx) {
    return hf_ctx_is_host(ctx) ? UINT64_MAX : ctx->memory_bytes;
}

bool hf_ctx_hold(hf_context *ctx, uint64_t bytes) {
    if (hf_ctx_is_host(ctx))
        ctx->held_bytes = bytes;
    return hf_ctx_is_host(ctx);
}

hf_pool *hf_ctx_pool(const hf_context *ctx) { return hf_ctx_is_host(ctx) ? ctx->stream : NULL; }

void hf_workspace_trim(hf_context *ctx, uint64_t bytes) {
    if (ctx->workspace_bytes > bytes) {
        ctx->device->release(ctx->stream, ctx->workspace);
        ctx->workspace = NULL;
        ctx->workspace_bytes = 0;
    }
    ctx->workspace_peak = ctx->workspace_bytes;
}

hf_status hf_workspace(hf_context *ctx, size_t bytes, void **ws) {
    if (bytes > ctx->workspace_bytes || ctx->workspace == NULL) {
        if (bytes > hf_workspace_room(ctx))
            return hf_ctx_fail(ctx, HF_E_NOMEM,
                               "the kernel needs %zu bytes of workspace beside %llu bytes in use, "
                               "the context may use %llu; raise memory_bytes or use fewer threads",
                               bytes, (unsigned long long)ctx->held_bytes,
                               (unsigned long long)ctx->memory_bytes);
        ctx->device->release(ctx->stream, ctx->workspace);
        ctx->workspace_bytes = 0;
        ctx->workspace = ctx->device->alloc(ctx->stream, bytes);
        if (ctx->workspace == NULL)
            return hf_ctx_fail(ctx, HF_E_NOMEM,
                               "no memory for %zu bytes of kernel workspace; close other programs "
                               "or use fewer threads",
                               bytes);
        ctx->workspace_bytes = bytes;
        if (bytes > ctx->workspace_peak)
            ctx->workspace_peak = bytes;
    }
    *ws = ctx->workspace;
    return HF_OK;
}

void *hf_ctx_alloc(hf_context *ctx, size_t bytes) { return ctx->device->alloc(ctx->stream, bytes); }

void *hf_ctx_alloc_copy(hf_context *ctx, size_t bytes) {
    return hf_ctx_is_host(ctx) || bytes > hf_ctx_room(ctx) ? NULL : hf_ctx_alloc(ctx, bytes);
}

void hf_ctx_release(hf_context *ctx, void *p) { ctx->device->release(ctx->stream, p); }

hf_status hf_ctx_check(hf_context *ctx, hf_status status) {
    return status == HF_OK ? HF_OK
                           : hf_ctx_fail(ctx, status, "device %s: %s", ctx->name,
                                         ctx->device->error_text(ctx->stream));
}

hf_status hf_ctx_copy(hf_context *ctx, void *dst, const void *src, size_t bytes) {
    return hf_ctx_check(ctx, ctx->device->copy(ctx->stream, dst, src, bytes));
}

hf_status hf_ctx_start_fetch(hf_context *ctx, void *dst, const void *src, size_t bytes) {
    return hf_ctx_check(ctx, ctx->device->start_fetch(ctx->stream, dst, src, bytes));
}

hf_status hf_ctx_end_fetch(hf_context *ctx) {
    return hf_ctx_check(ctx, ctx->device->end_fetch(ctx->stream));
}

hf_status hf_ctx_copy_rows(hf_context *ctx, void *dst, const hf_array *src) {
    const size_t size = hf_dtype_bytes(src->dtype), row = (size_t)src->cols * size;
    const size_t step = (size_t)hf_array_stride(src) * size;
    const struct hf_row_copy copy = {.dst = dst,
                                     .src = src->data,
                                     .dst_step = row,
                                     .src_step = step,
                                     .row_bytes = row,
                                     .rows = src->rows};
    return hf_ctx_check(ctx, ctx->device->copy_rows(ctx->stream, &copy));
}

hf_status hf_ctx_is_zero(hf_context *ctx, const void *p, size_t bytes, bool *zero) {
    return hf_ctx_check(ctx, ctx->device->is_zero(ctx->stream, p, bytes, zero));
}

hf_status hf_ctx_start_below(hf_context *ctx, const int32_t *p, int64_t count, int32_t limit) {
    return hf_ctx_check(ctx, ctx->device->start_below(ctx->stream, p, (size_t)count, limit));
}

bool hf_ctx_end_below(hf_context *ctx) { return ctx->device->end_below(ctx->stream); }

bool hf_ctx_begin_calls(hf_context *ctx) {
    return ctx->device->begin_calls != NULL && ctx->device->begin_calls(ctx->stream);
}

hf_status hf_ctx_end_calls(hf_context *ctx, hf_status status) {
    const hf_status ended = ctx->device->end_calls(ctx->stream, status);
    return status != HF_OK ? status : hf_ctx_check(ctx, ended);
}

hf_status hf_ctx_fill(hf_context *ctx, void *dst, int byte, size_t bytes) {
    return hf_ctx_check(ctx, ctx->device->fill(ctx->stream, dst, byte, bytes));
}
