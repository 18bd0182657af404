/* SPDX-License-Identifier: Apache-2.0
 * Is a piece of memory all 0? One pass, nothing but the answer comes to the host. */
#include "device/cuda/cuda.h"

#define THREADS 256

static __global__ void __launch_bounds__(THREADS)
    look(const uint64_t *word, size_t count, uint32_t *any) {
    const size_t step = (size_t)gridDim.x * THREADS;
    uint64_t seen = 0;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step)
        seen |= word[i];
    if (__syncthreads_or(seen != 0) && threadIdx.x == 0)
        *any = 1;
}

extern "C" hf_status hf_cuda_is_zero(void *stream, const void *p, size_t bytes, bool *zero);

hf_status hf_cuda_is_zero(void *stream, const void *p, size_t bytes, bool *zero) {
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    const size_t count = bytes / sizeof(uint64_t);
    const size_t blocks = (count + THREADS - 1) / THREADS, most = (size_t)cuda->sms * 8;
    uint32_t found = 0;
    *zero = true;
    if (count == 0)
        return HF_OK;
    uint32_t *any = (uint32_t *)hf_cuda_alloc(cuda, sizeof *any);
    hf_status status = any != NULL ? HF_OK : HF_E_NOMEM;
    if (status == HF_OK)
        status =
            hf_cuda_check(cuda, cudaMemsetAsync(any, 0, sizeof *any, cuda->stream), "check for 0");
    if (status == HF_OK) {
        const unsigned grid = (unsigned)(blocks < most ? blocks : most);
        look<<<grid, THREADS, 0, cuda->stream>>>((const uint64_t *)p, count, any);
        status = hf_cuda_launched(cuda, "check for 0");
    }
    if (status == HF_OK)
        status = hf_cuda_check(
            cuda, cudaMemcpyAsync(&found, any, sizeof found, cudaMemcpyDeviceToHost, cuda->stream),
            "check for 0");
    if (status == HF_OK)
        status = hf_cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "check for 0");
    hf_cuda_release(cuda, any);
    *zero = found == 0;
    return status;
}
