/* SPDX-License-Identifier: Apache-2.0
 * Rows without those that take no part: one launch, however many are left out. A warp copies a row
 * in the widest pieces that all addresses allow. */
#include "device/cuda/cuda.h"
#include "device/pipe.h"

#define THREADS 256

/* Number, dropped ones counted, of the row that is number i of those that stay. */
static __device__ int64_t raw_number(const struct hf_compaction &job, int64_t i) {
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

template <typename P>
static __global__ void __launch_bounds__(THREADS) copy(struct hf_compaction job) {
    const int lane = (int)threadIdx.x % 32;
    const int64_t step = (int64_t)gridDim.x * (THREADS / 32);
    const size_t pieces = job.row_bytes / sizeof(P);
    for (int64_t i = ((int64_t)blockIdx.x * THREADS + threadIdx.x) / 32; i < job.rows; i += step) {
        const P *from =
            (const P *)((const char *)job.src + (size_t)raw_number(job, i) * job.row_bytes);
        P *to = (P *)((char *)job.dst + (size_t)i * job.row_bytes);
        for (size_t p = (size_t)lane; p < pieces; p += 32)
            to[p] = from[p];
    }
}

static void launch(struct hf_cuda *cuda, const struct hf_compaction &job) {
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

extern "C" hf_status hf_cuda_compact(void *stream, const struct hf_compaction *job);

hf_status hf_cuda_compact(void *stream, const struct hf_compaction *job) {
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    const size_t bytes = (size_t)job->count * sizeof(int64_t);
    if (job->rows == 0)
        return HF_OK;
    const int before = hf_cuda_enter(cuda);
    int64_t *list = (int64_t *)hf_cuda_alloc(cuda, bytes);
    hf_status status = list != NULL ? HF_OK : HF_E_NOMEM;
    if (status == HF_OK)
        status = hf_cuda_check(
            cuda, cudaMemcpyAsync(list, job->dropped, bytes, cudaMemcpyDefault, cuda->stream),
            "rows left out");
    if (status == HF_OK) {
        struct hf_compaction on_device = *job;
        on_device.dropped = list;
        launch(cuda, on_device);
        status = hf_cuda_launched(cuda, "rows left out");
    }
    hf_cuda_release(cuda, list);
    hf_cuda_leave(before);
    return status;
}
