/* SPDX-License-Identifier: Apache-2.0
 * Questions about a piece of memory, each answered in one pass: nothing but the answer comes to the
 * host. */
#include "base/below.h"
#include "device/cuda/own.h"

#define THREADS 256

/* Is there a word that is not 0? */
struct any_bit {
    const uint64_t *word;
    __device__ bool operator()(size_t i) const { return word[i] != 0; }
};

/* Is there a number outside 0 .. limit - 1? */
struct out_of_range {
    const int32_t *number;
    int32_t last;
    __device__ bool operator()(size_t i) const { return hf_outside(number[i], last) >> 31 != 0; }
};

template <typename F>
static __global__ void __launch_bounds__(THREADS) look(F wrong, size_t count, uint32_t *found) {
    const size_t step = (size_t)gridDim.x * THREADS;
    bool seen = false;
    for (size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x; i < count; i += step)
        seen |= wrong(i);
    if (__syncthreads_or(seen) && threadIdx.x == 0)
        *found = 1;
}

/* The kernel writes its answer to locked memory: there is nothing to copy. */
template <typename F> static hf_status start(struct hf_cuda *cuda, const F &wrong, size_t count) {
    uint32_t *const found_host = ((struct hf_cuda_own *)cuda)->found;
    const size_t blocks = (count + THREADS - 1) / THREADS, most = (size_t)cuda->sms * 8;
    *(volatile uint32_t *)found_host = 0;
    if (count > 0)
        look<<<(unsigned)(blocks < most ? blocks : most), THREADS, 0, cuda->stream>>>(wrong, count,
                                                                                      found_host);
    return hf_cuda_launched(cuda, "inspection of memory");
}

bool hf_cuda_end_below(void *stream) {
    return *(volatile uint32_t *)((struct hf_cuda_own *)stream)->found == 0;
}

hf_status hf_cuda_is_zero(void *stream, const void *p, size_t bytes, bool *zero) {
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    const struct any_bit wrong = {(const uint64_t *)p};
    HF_TRY(start(cuda, wrong, bytes / sizeof(uint64_t)));
    HF_TRY(hf_cuda_check(cuda, cudaStreamSynchronize(cuda->stream), "inspection of memory"));
    *zero = hf_cuda_end_below(stream);
    return HF_OK;
}

hf_status hf_cuda_start_below(void *stream, const int32_t *p, size_t count, int32_t limit) {
    const struct out_of_range wrong = {p, limit - 1};
    return start((struct hf_cuda *)stream, wrong, count);
}
