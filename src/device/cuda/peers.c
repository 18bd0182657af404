/* SPDX-License-Identifier: Apache-2.0
 * GPUs of one process: memory of one used by another, and their order in time. */
#include "device/cuda/own.h"

bool hf_cuda_reach(void *stream, void *other) {
    struct hf_cuda_own *own = stream;
    const struct hf_cuda *there = other;
    const int from = own->cuda.device, to = there->device;
    if (from == to)
        return true;
    int can = 0;
    struct cudaMemAccessDesc access = {.flags = cudaMemAccessFlagsProtReadWrite};
    access.location.type = cudaMemLocationTypeDevice;
    access.location.id = from;
    const bool done = to < 64 && cudaDeviceCanAccessPeer(&can, from, to) == cudaSuccess && can &&
                      cudaMemPoolSetAccess(there->pool, &access, 1) == cudaSuccess;
    if (!done) {
        (void)cudaGetLastError();
        return false;
    }
    own->reached |= (uint64_t)1 << to;
    return true;
}

hf_status hf_cuda_follow(void *stream, void *other, int which) {
    struct hf_cuda *cuda = stream;
    const struct hf_cuda *there = other;
    if (there->mark[which] == NULL)
        return HF_OK; /* it was never set: there is nothing to wait for */
    return hf_cuda_check(cuda, cudaStreamWaitEvent(cuda->stream, there->mark[which], 0), "event");
}

hf_status hf_cuda_lock(void *stream, void *p, size_t bytes) {
    struct hf_cuda *cuda = stream;
    const int before = hf_cuda_enter(cuda);
    const hf_status status = hf_cuda_check(
        cuda, cudaHostRegister(p, bytes, cudaHostRegisterPortable), "locking memory of the host");
    hf_cuda_leave(before);
    return status;
}

void hf_cuda_unlock(void *stream, void *p) {
    const int before = hf_cuda_enter(stream);
    if (cudaHostUnregister(p) != cudaSuccess)
        (void)cudaGetLastError();
    hf_cuda_leave(before);
}
