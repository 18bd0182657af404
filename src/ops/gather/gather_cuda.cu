/* SPDX-License-Identifier: Apache-2.0
 * gather on CUDA: a warp a row. */
#include "core/array.h"
#include "core/kernel.h"
#include "device/cuda/load.cuh"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"
#include "ops/gather/gather.h"

#define THREADS 256
#define WARP 32

/* O is float or double, whichever holds each value of type T exactly. */
template <hf_dtype T, typename O>
static __global__ void gather_rows(const char *x, int64_t row_bytes, int64_t d,
                                   const int64_t *index, int64_t count, O *out) {
    const int64_t warps = (int64_t)gridDim.x * (THREADS / WARP);
    for (int64_t i = (int64_t)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP; i < count;
         i += warps)
        for (int64_t j = threadIdx.x % WARP; j < d; j += WARP)
            out[i * d + j] = (O)hf_device_load<T>(x + index[i] * row_bytes, j);
}

template <hf_dtype T>
static void launch(const struct hf_cuda *cuda, const hf_array *x, const int64_t *index,
                   const struct hf_gather_args *a, void *out) {
    const int64_t row_bytes = hf_array_stride(x) * hf_device_bytes<T>;
    const char *rows = (const char *)x->data;
    const int blocks = cuda->sms * 8;
    if (a->type == HF_F64)
        gather_rows<T, double><<<blocks, THREADS, 0, cuda->stream>>>(
            rows, row_bytes, x->cols, index, a->count, (double *)out);
    else if constexpr (T != HF_F64)
        gather_rows<T, float><<<blocks, THREADS, 0, cuda->stream>>>(rows, row_bytes, x->cols, index,
                                                                    a->count, (float *)out);
}

static hf_status gather_run(const struct hf_call *call) {
    const struct hf_gather_args *a = (const struct hf_gather_args *)call->args;
    struct hf_cuda *cuda = (struct hf_cuda *)call->stream;
    struct hf_stage stage;
    hf_stage_begin(&stage, call->stream);
    const hf_array x = hf_stage_array(&stage, &a->x);
    const size_t count = (size_t)a->count;
    const int64_t *index = (const int64_t *)hf_stage_in(&stage, a->index, count * sizeof *index);
    void *out = hf_stage_out(&stage, a->out, count * (size_t)x.cols * hf_dtype_bytes(a->type));
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    hf_for_dtype(x.dtype,
                 [&](auto type) { launch<decltype(type)::value>(cuda, &x, index, a, out); });
    return hf_stage_end(&stage, hf_cuda_launched(cuda, "gather"));
}

static double gather_estimate(const struct hf_call *call) {
    const struct hf_gather_args *a = (const struct hf_gather_args *)call->args;
    return hf_cuda_pass_ns((double)a->count * (double)a->x.cols *
                           (double)(hf_dtype_bytes(a->x.dtype) + hf_dtype_bytes(a->type)));
}

static const struct hf_kernel kernels[] = {
    HF_CUDA_KERNEL("gather_any_cuda", HF_DT_DATA, 80, HF_TRAIT_FIXED_ORDER, HF_NO_TILE, NULL, NULL,
                   gather_run, gather_estimate, NULL),
};

extern "C" {
extern const struct hf_kernel_table hf_gather_kernels_cuda;
const struct hf_kernel_table hf_gather_kernels_cuda = {kernels, 1};
}
