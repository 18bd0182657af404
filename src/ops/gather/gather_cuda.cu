/* SPDX-License-Identifier: Apache-2.0
 * gather on CUDA: a warp a row. */
#include "core/kernel.h"
#include "device/cuda/load.cuh"
#include "device/cuda/reduce.cuh"
#include "device/cuda/stage.h"
#include "ops/gather/gather.h"

#define THREADS 256
#define WARP 32

template <hf_dtype T>
static __global__ void gather_rows(const char *x, int64_t row_bytes, int64_t d,
                                   const int64_t *index, int64_t count, double *out) {
    const int64_t warps = (int64_t)gridDim.x * (THREADS / WARP);
    for (int64_t i = (int64_t)blockIdx.x * (THREADS / WARP) + threadIdx.x / WARP; i < count;
         i += warps)
        for (int64_t j = threadIdx.x % WARP; j < d; j += WARP)
            out[i * d + j] = hf_device_load<T>(x + index[i] * row_bytes, j);
}

static hf_status gather_run(void *stream, const void *p, void *ws) {
    (void)ws;
    const struct hf_gather_args *a = (const struct hf_gather_args *)p;
    struct hf_cuda *cuda = (struct hf_cuda *)stream;
    struct hf_stage stage;
    hf_stage_begin(&stage, stream);
    const hf_array x = hf_stage_array(&stage, &a->x);
    const size_t count = (size_t)a->count;
    const int64_t *index = (const int64_t *)hf_stage_in(&stage, a->index, count * sizeof *index);
    double *out = (double *)hf_stage_out(&stage, a->out, count * (size_t)x.cols * sizeof *out);
    if (!hf_stage_ready(&stage))
        return hf_stage_end(&stage, HF_OK);
    const int64_t row_bytes =
        (x.row_stride ? x.row_stride : x.cols) * (int64_t)hf_dtype_bytes(x.dtype);
    hf_for_dtype(x.dtype, [&](auto type) {
        gather_rows<decltype(type)::value><<<cuda->sms * 8, THREADS, 0, cuda->stream>>>(
            (const char *)x.data, row_bytes, x.cols, index, a->count, out);
    });
    return hf_stage_end(&stage, hf_cuda_launched(cuda, "gather"));
}

static double gather_estimate(const void *p) {
    const struct hf_gather_args *a = (const struct hf_gather_args *)p;
    return hf_cuda_pass_ns((double)a->count * (double)a->x.cols *
                           (double)(hf_dtype_bytes(a->x.dtype) + sizeof(double)));
}

static const struct hf_kernel rows[] = {{"gather_any_cuda",
                                         HF_DEV_CUDA,
                                         HF_DT_DATA,
                                         80,
                                         HF_TRAIT_FIXED_ORDER,
                                         0,
                                         {0, 0, 0},
                                         NULL,
                                         NULL,
                                         gather_run,
                                         gather_estimate}};

extern "C" {
extern const struct hf_kernel_table hf_gather_rows_cuda;
const struct hf_kernel_table hf_gather_rows_cuda = {rows, 1};
}
