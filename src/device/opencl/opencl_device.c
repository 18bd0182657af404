/* SPDX-License-Identifier: Apache-2.0
 * Devices of OpenCL 1.2 and later, of whatever vendor. */
#include "base/below.h"
#include "base/clock.h"
#include "base/mem.h"
#include "device/opencl/cl_cache.h"
#include "device/opencl/opencl.h"

#include <stdio.h>
#include <string.h>

extern const struct hf_device hf_opencl_device;

static int cl_count(void) { return hf_cl_count(NULL, 0); }

static void add_note(const struct hf_cl_info *info, char *text, size_t text_bytes) {
    char path[HF_CL_PATH];
    const size_t used = strlen(text);
    if (hf_opencl_loads_nothing(info, path, sizeof path))
        (void)snprintf(text + used, text_bytes - used,
                       "; kernels are compiled by each process, as two died over kept ones: "
                       "for a day, or until somebody removes %s",
                       path);
}

/* "NAME DRIVER" comes first: whose measurements count for it. */
static hf_status cl_probe(int index, char *text, size_t text_bytes) {
    char why[200];
    const int count = hf_cl_count(why, sizeof why);
    const struct hf_cl_info *info = hf_cl_at(index);
    if (info == NULL) {
        if (count == 0)
            (void)snprintf(text, text_bytes, "%s", why);
        else
            (void)snprintf(text, text_bytes, "there %s %d, numbered from 0",
                           count == 1 ? "is" : "are", count);
        return HF_E_UNSUPPORTED;
    }
    (void)snprintf(text, text_bytes, "%s %s, %s, %u units, %.1f GiB%s%s%s%s%s%s%s%s%s", info->name,
                   info->driver, info->platform_name, (unsigned)info->units,
                   (double)info->memory / (double)(1 << 30),
                   info->fp64 ? ", fp64" : ", without fp64: software float64",
                   info->atomics64 ? ", 64-bit atomics" : ", no 64-bit atomics",
                   info->sub_groups ? ", sub-groups" : ", no sub-groups",
                   info->dot8 ? ", integer dot product" : "",
                   info->matrix ? ", matrix units (Intel)" : "",
                   info->ptx ? ", matrix units (PTX)" : "",
                   !info->matrix && !info->ptx ? ", no matrix extension" : "",
                   info->missing[0] != '\0' ? "; it lacks " : "", info->missing);
    add_note(info, text, text_bytes);
    return info->missing[0] == '\0' ? HF_OK : HF_E_UNSUPPORTED;
}

static void destroy(struct hf_opencl *cl) {
    if (cl->queue != NULL)
        (void)cl->api->Finish(cl->queue);
    hf_opencl_forget(cl);
    hf_opencl_release_all(cl);
    if (cl->nothing != NULL)
        (void)cl->api->ReleaseMemObject(cl->nothing);
    if (cl->queue != NULL)
        (void)cl->api->ReleaseCommandQueue(cl->queue);
    if (cl->context != NULL)
        (void)cl->api->ReleaseContext(cl->context);
    (void)pthread_mutex_destroy(&cl->lock);
    hf_free(cl);
}

static void cl_close(void *stream) { destroy(stream); }

/* A queue that the caller lends brings its context; kernels rely on its order. */
static hf_status borrow(struct hf_opencl *cl, void *stream) {
    const struct hf_cl_api *api = cl->api;
    hf_cl_queue queue = stream;
    hf_cl_context context = NULL;
    hf_cl_device device = NULL;
    hf_cl_ulong properties = 0;
    const char *what = "the caller's queue";
    HF_TRY(hf_opencl_check(
        cl, api->GetCommandQueueInfo(queue, HF_CL_QUEUE_CONTEXT, sizeof context, &context, NULL),
        what));
    HF_TRY(hf_opencl_check(
        cl, api->GetCommandQueueInfo(queue, HF_CL_QUEUE_DEVICE, sizeof device, &device, NULL),
        what));
    HF_TRY(hf_opencl_check(cl,
                           api->GetCommandQueueInfo(queue, HF_CL_QUEUE_PROPERTIES,
                                                    sizeof properties, &properties, NULL),
                           what));
    if (device != cl->info->device || (properties & HF_CL_QUEUE_OUT_OF_ORDER) != 0) {
        (void)snprintf(cl->error, sizeof cl->error,
                       device != cl->info->device
                           ? "the caller's queue is of another device than this one, %s"
                           : "the caller's queue for %s runs out of order; lend one that does not",
                       cl->info->name);
        return HF_E_ARG;
    }
    HF_TRY(hf_opencl_check(cl, api->RetainContext(context), what));
    cl->context = context;
    HF_TRY(hf_opencl_check(cl, api->RetainCommandQueue(queue), what));
    cl->queue = queue;
    return HF_OK;
}

static hf_status make(struct hf_opencl *cl) {
    const intptr_t properties[] = {HF_CL_CONTEXT_PLATFORM, (intptr_t)cl->info->platform, 0};
    hf_cl_int error = HF_CL_SUCCESS;
    cl->context = cl->api->CreateContext(properties, 1, &cl->info->device, NULL, NULL, &error);
    HF_TRY(hf_opencl_check(cl, error, "context"));
    cl->queue = cl->api->CreateCommandQueue(cl->context, cl->info->device, 0, &error);
    return hf_opencl_check(cl, error, "queue");
}

static hf_status open_all(struct hf_opencl *cl, void *stream) {
    hf_cl_int error = HF_CL_SUCCESS;
    HF_TRY(stream != NULL ? borrow(cl, stream) : make(cl));
    cl->nothing = cl->api->CreateBuffer(cl->context, HF_CL_MEM_READ_WRITE, 64, NULL, &error);
    HF_TRY(hf_opencl_check(cl, error, "memory"));
    hf_cl_unit_choose(cl);
    return HF_OK;
}

static hf_status cl_open(const struct hf_device_opts *opts, void **stream, hf_error *err) {
    char why[200];
    const struct hf_cl_api *api = hf_cl_api(why, sizeof why);
    const struct hf_cl_info *info = hf_cl_at(opts->index);
    if (info == NULL)
        return hf_fail(err, HF_E_UNSUPPORTED, "device opencl:%d is not there: %s", opts->index,
                       why);
    struct hf_opencl *cl = hf_alloc_zero(sizeof *cl);
    if (cl == NULL || pthread_mutex_init(&cl->lock, NULL) != 0) {
        hf_free(cl);
        return hf_fail(err, HF_E_NOMEM, "no memory to open device opencl:%d", opts->index);
    }
    cl->api = api;
    cl->info = info;
    const hf_status status = open_all(cl, opts->stream);
    if (status != HF_OK) {
        (void)hf_fail(err, status, "device opencl:%d cannot be opened: %s", opts->index, cl->error);
        destroy(cl);
        return status;
    }
    *stream = cl;
    return HF_OK;
}

static struct hf_device_props props_of(const struct hf_cl_info *info) {
    return (struct hf_device_props){.workers = 1,
                                    .units = (int)info->units,
                                    .wide = (info->type & HF_CL_DEVICE_TYPE_CPU) != 0,
                                    .matrix = hf_cl_unit_kernels(info)};
}

struct hf_device_props hf_opencl_props(int i) {
    const struct hf_cl_info *info = hf_cl_at(i);
    return info != NULL ? props_of(info) : (struct hf_device_props){.workers = 1};
}

static struct hf_device_props cl_props(const void *stream) {
    const struct hf_opencl *cl = stream;
    struct hf_device_props props = props_of(cl->info);
    props.matrix = cl->matrix != NULL;
    return props;
}

/* OpenCL does not say what others use. */
static uint64_t cl_memory(void *stream) {
    const struct hf_opencl *cl = stream;
    const uint64_t left = cl->info->memory > cl->held ? cl->info->memory - cl->held : 0;
    const uint64_t host = cl->info->unified ? hf_mem_available() : UINT64_MAX;
    return left < host ? left : host;
}

static void *cl_alloc(void *stream, size_t bytes) { return hf_opencl_alloc(stream, bytes); }

static void cl_release(void *stream, void *p) { hf_opencl_release(stream, p); }

static bool cl_owns(const void *stream, const void *p) {
    size_t offset = 0;
    return hf_opencl_mem(stream, p, &offset) != NULL;
}

static hf_status cl_sync(void *stream) {
    struct hf_opencl *cl = stream;
    return hf_opencl_check(cl, cl->api->Finish(cl->queue), "the device");
}

static hf_status cl_copy(void *stream, void *dst, const void *src, size_t bytes) {
    return hf_opencl_copy(stream, dst, src, bytes);
}

static hf_status cl_end_fetch(void *stream) {
    (void)stream;
    return HF_OK;
}

static hf_status cl_copy_rows(void *stream, const struct hf_row_copy *copy) {
    return hf_opencl_copy_rows(stream, copy);
}

static hf_status cl_fill(void *stream, void *dst, int byte, size_t bytes) {
    return hf_opencl_fill(stream, dst, byte, bytes);
}

static hf_status cl_is_zero(void *stream, const void *p, size_t bytes, bool *zero) {
    struct hf_cl_stage stage;
    uint64_t any = 0;
    hf_cl_stage_begin(&stage, stream);
    const uint64_t *word = hf_cl_host(&stage, p, bytes, false);
    for (size_t i = 0; stage.status == HF_OK && i < bytes / sizeof *word; i++)
        any |= word[i];
    *zero = any == 0;
    return hf_cl_stage_end(&stage, HF_OK);
}

static hf_status cl_start_below(void *stream, const int32_t *p, size_t count, int32_t limit) {
    struct hf_opencl *cl = stream;
    struct hf_cl_stage stage;
    hf_cl_stage_begin(&stage, stream);
    const int32_t *number = hf_cl_host(&stage, p, count * sizeof *p, false);
    cl->below = stage.status == HF_OK && hf_all_below(NULL, number, (int64_t)count, limit);
    return hf_cl_stage_end(&stage, HF_OK);
}

static bool cl_end_below(void *stream) { return ((const struct hf_opencl *)stream)->below; }

/* Not all drivers note when a queue gets to a place, so the host waits for it. */
static hf_status cl_mark(void *stream, int which) {
    HF_TRY(cl_sync(stream));
    ((struct hf_opencl *)stream)->mark[which] = hf_now_s();
    return HF_OK;
}

static double cl_span(void *stream) {
    const struct hf_opencl *cl = stream;
    return cl->mark[1] - cl->mark[0];
}

static const char *cl_error_text(const void *stream) {
    return ((const struct hf_opencl *)stream)->error;
}

const struct hf_device hf_opencl_device = {
    .name = "opencl",
    .id = HF_DEV_OPENCL,
    .count = cl_count,
    .probe = cl_probe,
    .find = hf_cl_find,
    .open = cl_open,
    .close = cl_close,
    .props = cl_props,
    .memory = cl_memory,
    .alloc = cl_alloc,
    .release = cl_release,
    .owns = cl_owns,
    .copy = cl_copy,
    .start_fetch = cl_copy,
    .end_fetch = cl_end_fetch,
    .copy_rows = cl_copy_rows,
    .fill = cl_fill,
    .is_zero = cl_is_zero,
    .start_below = cl_start_below,
    .end_below = cl_end_below,
    .sync = cl_sync,
    .mark = cl_mark,
    .span = cl_span,
    .error_text = cl_error_text,
};
