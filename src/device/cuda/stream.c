/* SPDX-License-Identifier: Apache-2.0
 * What every CUDA file needs of a context's stream: its device made current, its memory, and its
 * errors in words. */
#include "device/cuda/own.h"
#include "device/cuda/stage_direct.h"

#include <stdio.h>

void hf_cuda_seen(struct hf_cuda *cuda) { ((struct hf_cuda_own *)(void *)cuda)->seen = true; }

/* All that is queued is asked about here. Each hf_cuda is the first member of an hf_cuda_own. */
hf_status hf_cuda_check(struct hf_cuda *cuda, cudaError_t error, const char *what) {
    ((struct hf_cuda_own *)(void *)cuda)->seen = false;
    if (error == cudaSuccess)
        return HF_OK;
    (void)cudaGetLastError(); /* forget it, unless it is sticky */
    const char *advice = hf_cuda_advice(error);
    (void)snprintf(cuda->error, sizeof cuda->error, "%s: %s (%s)%s%s", what,
                   cudaGetErrorString(error), cudaGetErrorName(error), *advice ? ": " : "", advice);
    return hf_cuda_status(error);
}

hf_status hf_cuda_launched(struct hf_cuda *cuda, const char *kernel) {
    return hf_cuda_check(cuda, cudaGetLastError(), kernel);
}

int hf_cuda_enter(const struct hf_cuda *cuda) {
    int before = cuda->device;
    if (cudaGetDevice(&before) != cudaSuccess || cudaSetDevice(cuda->device) != cudaSuccess)
        (void)cudaGetLastError(); /* the next call on the device says so */
    return before;
}

void hf_cuda_leave(int before) {
    if (cudaSetDevice(before) != cudaSuccess)
        (void)cudaGetLastError();
}

void *hf_cuda_alloc(struct hf_cuda *cuda, size_t bytes) {
    void *p = NULL;
    const cudaError_t error =
        cudaMallocFromPoolAsync(&p, bytes > 0 ? bytes : 1, cuda->pool, cuda->stream);
    return hf_cuda_check(cuda, error, "allocation") == HF_OK ? p : NULL;
}

void hf_cuda_release(struct hf_cuda *cuda, void *p) {
    if (p != NULL && cudaFreeAsync(p, cuda->stream) != cudaSuccess)
        (void)cudaGetLastError(); /* after a failure, whose words shall stay */
}

/* The device whose memory p is; -1: the host can read it, or it is not known. */
static int home_of(const void *p) {
    struct cudaPointerAttributes attr;
    if (p == NULL)
        return -1;
    if (cudaPointerGetAttributes(&attr, p) != cudaSuccess) {
        (void)cudaGetLastError();
        return -1;
    }
    return attr.type == cudaMemoryTypeDevice ? attr.device : -1;
}

bool hf_cuda_is_on(int device, const void *p) { return device >= 0 && home_of(p) == device; }

bool hf_cuda_is_device(const void *p) { return home_of(p) >= 0; }

bool hf_cuda_sees(const struct hf_cuda_own *own, const void *p) {
    const int home = home_of(p);
    return home >= 0 && (home == own->cuda.device || (home < 64 && own->reached >> home & 1));
}

bool hf_cuda_owns(const void *p) {
    int device = -1;
    if (cudaGetDevice(&device) != cudaSuccess) {
        (void)cudaGetLastError();
        return false;
    }
    return hf_cuda_is_on(device, p);
}
