/* SPDX-License-Identifier: Apache-2.0
 * Rows without those that take no part: one launch, however many are left out. A warp copies a row
 * in the widest pieces that all addresses allow. */
#include "device/cuda/cuda.h"

#define THREADS 256

struct squeeze {
    char *dst;
    const char *src;
    size_t row_bytes;
    int64_t rows, first;    /* rows that stay; number of the first row of src */
    const int64_t *dropped; /* [count] ascending */
    int64_t count;
};

/* Number, dropped ones counted, of the row that is number i of those that stay. */
static __device__ int64_t raw_number(const struct squeeze &job, int64_t i) {
    int64_t low = 0, high = job.count;
    while (low < high) {
        const int64_t mid = low + (high - low) / 2;
        if (job.dropped[mid] - job.first - mid <= i)
            low = mid + 1;
        else
            high = mid;
    }
    return i + low;
}

template <typename P> static __global__ void __launch_bounds__(THREADS) copy(struct squeeze job) {
    const int lane = (int)threadIdx.x % 32;
    const int64_t step = (int64_t)gridDim.x * (THREADS / 32);
    const size_t pieces = job.row_bytes / sizeof(P);
    for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32; i < job.rows; i += step) {
        const P *from = (const P *)(job.src + (size_t)raw_number(job, i) * job.row_bytes);
        P *to = (P *)(job.dst + (size_t)i * job.row_bytes);
        for (size_t p = (size_t)lane; p < pieces; p += 32)
            to[p] = from[p];
    }
}

static void launch(struct hf_cuda *cuda, const struct squeeze &job) {
    const uintptr_t all = (uintptr_t)job.dst | (uintptr_t)job.src | (uintptr_t)job.row_bytes;
    const int64_t blocks = (job.rows + THREADS / 32 - 1) / (THREADS / 32);
    const int64_t most = (int64_t)cuda->sms * 32;
    const unsigned grid = (unsigned)(blocks < most ? blocks : most);
    if (all % sizeof(uint4) == 0)
        copy<uint4><<<grid, THREADS, 0, cuda->stream>>>(job);
    else if (all % sizeof(uint32_t) == 0)
        copy<uint32_t><<<grid, THREADS, 0, cuda->stream>>>(job);
    else
        copy<char><<<grid, THREADS, 0, cuda->stream>>>(job);
}

extern "C" hf_status hf_cuda_squeeze(void *stream, void *dst, const void *src, size_t row_bytes,
                                     int64_t rows, int64_t first, const int64_t *dropped,
                                     int64_t count);

hf_status hf_cuda_squeeze(void *stream, void *dst, const void *src, size_t row_bytes, int64_t rows,
                          int64_t first, const int64_t *dropped, int64_t count) {
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    const size_t bytes = (size_t)count * sizeof(int64_t);
    if (rows == 0)
        return HF_OK;
    const int before = hf_cuda_enter(cuda);
    int64_t *list = (int64_t *)hf_cuda_alloc(cuda, bytes);
    hf_status status = list != NULL ? HF_OK : HF_E_NOMEM;
    if (status == HF_OK)
        status = hf_cuda_check(
            cuda, cudaMemcpyAsync(list, dropped, bytes, cudaMemcpyDefault, cuda->stream),
            "rows left out");
    if (status == HF_OK) {
        const struct squeeze job = {(char *)dst, (const char *)src, row_bytes, rows, first, list,
                                    count};
        launch(cuda, job);
        status = hf_cuda_launched(cuda, "rows left out");
    }
    hf_cuda_release(cuda, list);
    hf_cuda_leave(before);
    return status;
}
