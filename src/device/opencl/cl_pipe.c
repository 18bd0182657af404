/* SPDX-License-Identifier: Apache-2.0
 * Copies beside the kernels: one more queue, ordered with that of the kernels by events. */
#include "base/mem.h"
#include "device/opencl/opencl.h"
#include "device/pipe.h"

#include <string.h>

struct pipe {
    struct hf_opencl *cl;
    struct hf_opencl own; /* for the words of its failures alone */
    hf_cl_queue copies;
    hf_cl_event arrived[HF_PIPE_SLOTS], left[HF_PIPE_SLOTS];
};

extern const struct hf_pipe_table hf_opencl_pipe;

static enum hf_place pipe_place(const void *stream, const void *p) {
    size_t offset = 0;
    return hf_opencl_mem(stream, p, &offset) != NULL ? HF_PLACE_DEVICE : HF_PLACE_HOST;
}

static uint64_t pipe_held(void *stream, bool tidy) {
    struct hf_opencl *cl = stream;
    if (tidy)
        (void)cl->api->Finish(cl->queue);
    return cl->held;
}

static uint64_t pipe_most(void *stream) { return ((const struct hf_opencl *)stream)->most; }

static void *pipe_lock(size_t bytes) { return hf_alloc(bytes); }

static void pipe_unlock(void *p) { hf_free(p); }

static void forget(struct pipe *p, hf_cl_event *event) {
    if (*event != NULL)
        (void)p->cl->api->ReleaseEvent(*event);
    *event = NULL;
}

static void pipe_close(void *handle) {
    struct pipe *p = handle;
    if (p == NULL)
        return;
    if (p->copies != NULL) {
        (void)p->cl->api->Finish(p->copies);
        (void)p->cl->api->Finish(p->cl->queue);
        (void)p->cl->api->ReleaseCommandQueue(p->copies);
    }
    for (int i = 0; i < HF_PIPE_SLOTS; i++) {
        forget(p, &p->arrived[i]);
        forget(p, &p->left[i]);
    }
    hf_free(p);
}

static hf_status pipe_open(void *stream, void **handle) {
    struct hf_opencl *cl = stream;
    struct pipe *p = hf_alloc_zero(sizeof *p);
    hf_cl_int error = HF_CL_SUCCESS;
    *handle = NULL;
    if (p == NULL)
        return HF_E_NOMEM;
    p->cl = cl;
    p->copies = cl->api->CreateCommandQueue(cl->context, cl->info->device, 0, &error);
    const hf_status status = hf_opencl_check(cl, error, "queue for copies");
    if (status != HF_OK)
        pipe_close(p);
    else
        *handle = p;
    return status;
}

/* Without a wait: the copy goes on beside the kernels. */
static hf_status pipe_begin(void *handle, int slot, const struct hf_row_copy *c) {
    struct pipe *p = handle;
    const struct hf_cl_api *api = p->cl->api;
    const size_t row = c->row_bytes, step = c->rows > 1 ? c->src_step : row;
    size_t offset = 0;
    hf_cl_mem into = hf_opencl_mem(p->cl, c->dst, &offset);
    const hf_cl_uint waits = p->left[slot] != NULL;
    const hf_cl_event *left = waits ? &p->left[slot] : NULL;
    const size_t at[3] = {offset, 0, 0}, zero[3] = {0, 0, 0}, region[3] = {row, (size_t)c->rows, 1};
    forget(p, &p->arrived[slot]);
    hf_cl_int error;
    if (step == row)
        error = api->EnqueueWriteBuffer(p->copies, into, 0, offset, row * (size_t)c->rows, c->src,
                                        waits, left, &p->arrived[slot]);
    else
        error = api->EnqueueWriteBufferRect(p->copies, into, 0, at, zero, region, row, 0, step, 0,
                                            c->src, waits, left, &p->arrived[slot]);
    HF_TRY(hf_opencl_check(&p->own, error, "copy of rows"));
    return hf_opencl_check(&p->own, api->Flush(p->copies), "copy of rows");
}

/* A slot that nothing was copied to has no event, and nobody waits. */
static hf_status pipe_arrive(void *handle, int slot) {
    struct pipe *p = handle;
    if (p->arrived[slot] == NULL)
        return HF_OK;
    return hf_opencl_check(
        &p->own, p->cl->api->EnqueueBarrierWithWaitList(p->cl->queue, 1, &p->arrived[slot], NULL),
        "copy");
}

static hf_status pipe_wait(void *handle, int slot) {
    struct pipe *p = handle;
    if (p->arrived[slot] == NULL)
        return HF_OK;
    return hf_opencl_check(&p->own, p->cl->api->WaitForEvents(1, &p->arrived[slot]),
                           "copy of rows");
}

static hf_status pipe_leave(void *handle, int slot) {
    struct pipe *p = handle;
    forget(p, &p->left[slot]);
    HF_TRY(hf_opencl_check(
        &p->own, p->cl->api->EnqueueMarkerWithWaitList(p->cl->queue, 0, NULL, &p->left[slot]),
        "copy"));
    return hf_opencl_check(&p->own, p->cl->api->Flush(p->cl->queue), "copy");
}

static const char *pipe_error_text(const void *handle) {
    return ((const struct pipe *)handle)->own.error;
}

/* One copy for each run of rows that stay. */
static hf_status pipe_compact(void *stream, const struct hf_compaction *job) {
    struct hf_opencl *cl = stream;
    const char *from = job->src;
    char *to = job->dst;
    int64_t row = 0;
    for (int64_t i = 0; i <= job->count; i++) {
        const int64_t end = i < job->count ? job->dropped[i] - job->first : job->rows + job->count;
        const size_t bytes = (size_t)(end - row) * job->row_bytes;
        HF_TRY(hf_opencl_copy(cl, to, from + (size_t)row * job->row_bytes, bytes));
        to += bytes;
        row = end + 1;
    }
    return HF_OK;
}

const struct hf_pipe_table hf_opencl_pipe = {
    .place = pipe_place,
    .held = pipe_held,
    .most = pipe_most,
    .lock = pipe_lock,
    .unlock = pipe_unlock,
    .open = pipe_open,
    .close = pipe_close,
    .begin = pipe_begin,
    .arrive = pipe_arrive,
    .wait = pipe_wait,
    .leave = pipe_leave,
    .error_text = pipe_error_text,
    .compact = pipe_compact,
};
