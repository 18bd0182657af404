/* SPDX-License-Identifier: Apache-2.0
 * Copies beside the kernels: one more stream, on which the copy engine works through whole panels
 * one behind the other. Events, not waits, order it with the kernels' stream. */
#include "base/mem.h"
#include "device/cuda/own.h"
#include "device/pipe.h"

#include <string.h>

struct pipe {
    struct hf_cuda_own own; /* its stream is that of the copies; its error text is not shared */
    cudaStream_t kernels;
    cudaEvent_t arrived[HF_PIPE_SLOTS], left[HF_PIPE_SLOTS];
};

extern const struct hf_pipe_table hf_cuda_pipe;
hf_status hf_cuda_compact(void *stream, const struct hf_compaction *job);

static enum hf_place pipe_place(const void *stream, const void *p) {
    const struct hf_cuda *cuda = stream;
    struct cudaPointerAttributes attr;
    if (p == NULL || cudaPointerGetAttributes(&attr, p) != cudaSuccess) {
        (void)cudaGetLastError();
        return HF_PLACE_HOST;
    }
    if (attr.type == cudaMemoryTypeDevice)
        return attr.device == cuda->device ? HF_PLACE_DEVICE : HF_PLACE_OTHER_DEVICE;
    return attr.type == cudaMemoryTypeHost ? HF_PLACE_PINNED : HF_PLACE_HOST;
}

static uint64_t pool_number(struct hf_cuda *cuda, enum cudaMemPoolAttr attribute) {
    uint64_t bytes = 0;
    if (hf_cuda_check(cuda, cudaMemPoolGetAttribute(cuda->pool, attribute, &bytes), "pool") !=
        HF_OK)
        return 0;
    return bytes;
}

static uint64_t pipe_held(void *stream, bool tidy) {
    struct hf_cuda *cuda = stream;
    if (tidy) {
        const int before = hf_cuda_enter(cuda);
        (void)hf_cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "the device");
        (void)hf_cuda_check(cuda, cudaMemPoolTrimTo(cuda->pool, 0), "pool");
        hf_cuda_leave(before);
    }
    return pool_number(cuda, cudaMemPoolAttrUsedMemCurrent);
}

static uint64_t pipe_most(void *stream) { return pool_number(stream, cudaMemPoolAttrUsedMemHigh); }

static void *pipe_lock(size_t bytes) {
    void *p = NULL;
    if (cudaHostAlloc(&p, bytes > 0 ? bytes : 1, cudaHostAllocPortable) == cudaSuccess)
        return p;
    (void)cudaGetLastError();
    return NULL;
}

static void pipe_unlock(void *p) {
    if (p != NULL && cudaFreeHost(p) != cudaSuccess)
        (void)cudaGetLastError();
}

static void pipe_close(void *handle) {
    struct pipe *p = handle;
    if (p == NULL)
        return;
    const int before = hf_cuda_enter(&p->own.cuda);
    if (p->own.cuda.stream != NULL) {
        (void)cudaStreamSynchronize(p->own.cuda.stream);
        (void)cudaStreamDestroy(p->own.cuda.stream);
    }
    for (int i = 0; i < HF_PIPE_SLOTS; i++) {
        if (p->arrived[i] != NULL)
            (void)cudaEventDestroy(p->arrived[i]);
        if (p->left[i] != NULL)
            (void)cudaEventDestroy(p->left[i]);
    }
    (void)cudaGetLastError();
    hf_cuda_leave(before);
    hf_free(p);
}

static hf_status make_events(struct pipe *p) {
    struct hf_cuda *own = &p->own.cuda;
    HF_TRY(hf_cuda_check(own, cudaStreamCreateWithFlags(&own->stream, cudaStreamNonBlocking),
                         "stream"));
    for (int i = 0; i < HF_PIPE_SLOTS; i++) {
        HF_TRY(hf_cuda_check(own, cudaEventCreateWithFlags(&p->arrived[i], cudaEventDisableTiming),
                             "event"));
        HF_TRY(hf_cuda_check(own, cudaEventCreateWithFlags(&p->left[i], cudaEventDisableTiming),
                             "event"));
    }
    return HF_OK;
}

static hf_status pipe_open(void *stream, void **handle) {
    struct hf_cuda *cuda = stream;
    struct pipe *p = hf_alloc_zero(sizeof *p);
    *handle = NULL;
    if (p == NULL)
        return HF_E_NOMEM;
    p->own.cuda = *cuda;
    p->own.cuda.stream = NULL;
    p->kernels = cuda->stream;
    const int before = hf_cuda_enter(cuda);
    const hf_status status = make_events(p);
    hf_cuda_leave(before);
    if (status != HF_OK) {
        memcpy(cuda->error, p->own.cuda.error, sizeof cuda->error);
        pipe_close(p);
        return status;
    }
    *handle = p;
    return HF_OK;
}

static hf_status queue_copy(struct pipe *p, int slot, const struct hf_row_copy *c) {
    struct hf_cuda *own = &p->own.cuda;
    HF_TRY(hf_cuda_check(own, cudaStreamWaitEvent(own->stream, p->left[slot], 0), "copy"));
    const size_t row = c->row_bytes, rows = (size_t)c->rows;
    const cudaError_t error =
        c->src_step == row || rows == 1
            ? cudaMemcpyAsync(c->dst, c->src, row * rows, cudaMemcpyDefault, own->stream)
            : cudaMemcpy2DAsync(c->dst, row, c->src, c->src_step, row, rows, cudaMemcpyDefault,
                                own->stream);
    HF_TRY(hf_cuda_check(own, error, "copy of rows"));
    return hf_cuda_check(own, cudaEventRecord(p->arrived[slot], own->stream), "copy");
}

static hf_status pipe_begin(void *handle, int slot, const struct hf_row_copy *copy) {
    struct pipe *p = handle;
    const int before = hf_cuda_enter(&p->own.cuda);
    const hf_status status = queue_copy(p, slot, copy);
    hf_cuda_leave(before);
    return status;
}

static hf_status pipe_arrive(void *handle, int slot) {
    struct pipe *p = handle;
    return hf_cuda_check(&p->own.cuda, cudaStreamWaitEvent(p->kernels, p->arrived[slot], 0),
                         "copy");
}

static hf_status pipe_wait(void *handle, int slot) {
    struct pipe *p = handle;
    return hf_cuda_check(&p->own.cuda, cudaEventSynchronize(p->arrived[slot]), "copy of rows");
}

static hf_status pipe_leave(void *handle, int slot) {
    struct pipe *p = handle;
    return hf_cuda_check(&p->own.cuda, cudaEventRecord(p->left[slot], p->kernels), "copy");
}

static const char *pipe_error_text(const void *handle) {
    return ((const struct pipe *)handle)->own.cuda.error;
}

const struct hf_pipe_table hf_cuda_pipe = {
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
    .compact = hf_cuda_compact,
};
