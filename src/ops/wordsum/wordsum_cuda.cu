/* SPDX-License-Identifier: Apache-2.0
 * wordsum on CUDA: each thread takes every so manieth 16 bytes. */
#include "core/kernel.h"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"
#include "ops/wordsum/wordsum.h"

#define THREADS 256
#define EACH 4 /* pieces of 16 bytes that a thread asks for at once */

typedef unsigned long long sum_t;

static __device__ __forceinline__ sum_t add_piece(sum_t sum, const uint4 &v, sum_t first) {
    const sum_t factor = 2 * first + 1;
    sum += factor * v.x;
    sum += (factor + 2) * v.y;
    sum += (factor + 4) * v.z;
    return sum + (factor + 6) * v.w;
}

static __global__ void __launch_bounds__(THREADS)
    wordsum_pieces(const char *data, int64_t bytes, sum_t *out) {
    const uint4 *piece = (const uint4 *)data;
    const int64_t pieces = bytes / 16, step = (int64_t)gridDim.x * THREADS;
    const int64_t own = (int64_t)blockIdx.x * THREADS + threadIdx.x;
    sum_t sum = 0;
    for (int64_t at = own; at < pieces; at += EACH * step) {
        uint4 v[EACH];
#pragma unroll
        for (int u = 0; u < EACH; u++)
            v[u] = at + u * step < pieces ? __ldcs(piece + at + u * step) : uint4{0, 0, 0, 0};
#pragma unroll
        for (int u = 0; u < EACH; u++)
            sum = add_piece(sum, v[u], 4 * (sum_t)(at + u * step));
    }
    if (own == 0) /* what is left, byte after byte */
        for (int64_t at = 16 * pieces; at < bytes; at++)
            sum += (2 * (sum_t)(at / 4) + 1) *
                   ((sum_t)(unsigned char)data[at] << (8 * (unsigned)(at % 4)));
    for (int half = 16; half > 0; half /= 2)
        sum += __shfl_down_sync(0xffffffffu, sum, half);
    if (threadIdx.x % 32 == 0)
        atomicAdd(out, sum);
}

/* A case's data may begin anywhere that words do. */
static bool wordsum_supports(const struct hf_call *call) {
    const struct hf_wordsum_args *args = (const struct hf_wordsum_args *)call->args;
    return (uintptr_t)args->data % 16 == 0;
}

static hf_status wordsum_run(const struct hf_call *call) {
    const struct hf_wordsum_args *args = (const struct hf_wordsum_args *)call->args;
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    const char *data = (const char *)hf_stage_in(&stage, args->data, (size_t)args->bytes);
    sum_t *sum = (sum_t *)hf_stage_out(&stage, args->sum, sizeof *sum);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    const int64_t most = args->bytes / (16 * EACH * THREADS) + 1, full = (int64_t)cuda->sms * 8;
    const cudaError_t error = cudaMemsetAsync(sum, 0, sizeof *sum, cuda->stream);
    wordsum_pieces<<<(unsigned)(most < full ? most : full), THREADS, 0, cuda->stream>>>(
        data, args->bytes, sum);
    hf_status status = hf_cuda_check(cuda, error, "wordsum");
    if (status == HF_OK)
        status = hf_cuda_launched(cuda, "wordsum");
    return hf_stage_end(&stage, status);
}

static double wordsum_estimate(const struct hf_call *call) {
    const struct hf_wordsum_args *args = (const struct hf_wordsum_args *)call->args;
    return hf_cuda_pass_ns((double)args->bytes);
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("wordsum_any_cuda", HF_DT(HF_F32), 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE,
                   wordsum_supports, NULL, wordsum_run, wordsum_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_wordsum_kernels_cuda;
const struct hf_kernel_table hf_wordsum_kernels_cuda = {kernels, 1};
}
