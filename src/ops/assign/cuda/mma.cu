/* SPDX-License-Identifier: Apache-2.0
 * The host side of the filter by mma.sync. */
#include "ops/assign/cuda/mma.h"
#include "ops/assign/cuda/mma_kernel.cuh"
#include "ops/assign/cuda/mma_stream.cuh"

bool hf_mma_supports(const struct hf_device_props *device, int64_t n, int k, int d, int batch) {
    return device->sm >= 80 && n >= 1 && n < INT32_MAX - 1024 && k >= 1 && k <= 1 << 24 && d >= 1 &&
           d <= FILTER_MAX_D && batch >= 1;
}

double hf_mma_estimate_ns(const struct hf_device_props *device, int64_t n, int k, int d,
                          int batch) {
    /* A multiprocessor's 0.8 multiply-adds a ps and what is done with each score. */
    const struct filter_tile tile = hf_mma_tile(d);
    const double pairs = (double)batch * (double)((n + MMA_ROWS - 1) / MMA_ROWS * MMA_ROWS) *
                         (double)((k + tile.nt - 1) / tile.nt * tile.nt);
    const double product = pairs * (tile.dp + 32) / (1200.0 * device->sms);
    const double bytes = (double)batch * (double)n * (2.0 * d + 12) / 2000.0;
    return 15e3 + (product > bytes ? product : bytes);
}

template <class S>
static cudaError_t start(struct hf_cuda *cuda, const void *kernel, int blocks,
                         const struct filter_args &a, int mode) {
    const cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, S::SHARED);
    if (error != cudaSuccess)
        return error;
    void *args[] = {(void *)&a, &mode};
    return cudaLaunchKernel(kernel, dim3((unsigned)(cuda->sms * blocks)), dim3(MMA_THREADS), args,
                            S::SHARED, cuda->stream);
}

template <int DP>
static cudaError_t launch(struct hf_cuda *cuda, const struct filter_args &a, int mode) {
    typedef struct mma_shape<DP> S;
    const void *kernel = mode == FILTER_EMIT ? (const void *)hf_mma_kernel<S, true>
                                             : (const void *)hf_mma_kernel<S, false>;
    return start<S>(cuda, kernel, S::BLOCKS, a, mode);
}

template <int STAGES>
static cudaError_t stream(struct hf_cuda *cuda, const struct filter_args &a, int mode) {
    typedef struct mma_stream_shape<STAGES> S;
    const void *kernel = mode == FILTER_EMIT ? (const void *)hf_mma_stream_kernel<S, true>
                                             : (const void *)hf_mma_stream_kernel<S, false>;
    return start<S>(cuda, kernel, 1, a, mode);
}

static cudaError_t launch_any(struct hf_cuda *cuda, const struct filter_args &a, int dp, int mode) {
    switch (dp) {
    case 32:
        return launch<32>(cuda, a, mode);
    case 64:
        return launch<64>(cuda, a, mode);
    case 128:
        return launch<128>(cuda, a, mode);
    case 192:
        return launch<192>(cuda, a, mode);
    case 256:
        return launch<256>(cuda, a, mode);
    default:
        return cuda->smem >= mma_stream_shape<3>::SHARED ? stream<3>(cuda, a, mode)
                                                         : stream<2>(cuda, a, mode);
    }
}

hf_status hf_mma_run(struct hf_cuda *cuda, struct filter_args a,
                     const struct hf_filter_centroids *c, void *packed, int mode) {
    if (a.rows.bf16)
        return hf_cuda_check(cuda, cudaErrorNotSupported, "filter: rows of bf16");
    mma_describe(&a, c, packed);
    return hf_cuda_check(cuda, launch_any(cuda, a, hf_mma_tile(c->d).dp, mode), "filter by mma");
}
