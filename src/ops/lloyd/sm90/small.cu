/* SPDX-License-Identifier: Apache-2.0
 * The kernel for rows that come through shared memory. */
#include "ops/lloyd/sm90/small_label.cuh"
#include "ops/lloyd/sm90/small_frame.cuh"
#include <cudaTypedefs.h>

template <class S>
static __global__ void __launch_bounds__(S::THREADS, 1)
    lloyd_small(const __grid_constant__ CUtensorMap map, const __grid_constant__ small_args a) {
    extern __shared__ __align__(1024) uint8_t memory[];
    struct small_memory<S> *const m = (struct small_memory<S> *)memory;
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::WGS * S::STAGES; i++)
            hf_mbar_init(hf_shared(&m->full[0][i]), 1);
        hf_mbar_init(hf_shared(&m->ready), 1);
        hf_mbar_init_fence();
    }
    __syncthreads();
    small_problems(a, m, &map);
}

/* ---- host */

size_t hf_lloyd_small_bytes(int64_t batch) {
    return small_packed_bytes(batch) + small_zero_bytes(batch) +
           (size_t)batch * HF_LLOYD_SMALL_K * sizeof(struct small_cluster);
}

bool hf_lloyd_small_supports(const struct hf_lloyd_args *a) {
    return a->rule.metric == HF_EUCLIDEAN && a->exact && a->sums->k <= HF_LLOYD_SMALL_K &&
           a->sums->d <= HF_LLOYD_SMALL_D && a->skipping != HF_SKIP_ON &&
           (double)a->x.rows * (double)a->x.cols <= HF_LLOYD_SMALL_VALUES;
}

bool hf_lloyd_small_takes(const struct hf_cuda *cuda, const struct hf_assign_rows *rows) {
    return cuda->sm == 90 && rows->kind == HF_ASSIGN_TENSOR;
}

/* The rows as the copy engine sees them: boxes of 64 rows and 64 columns. */
static hf_status small_map(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                           CUtensorMap *map) {
    void *entry = NULL;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    HF_TRY(hf_cuda_check(cuda,
                         cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                          cudaEnableDefault, &found),
                         "cuTensorMapEncodeTiled"));
    if (found != cudaDriverEntryPointSuccess)
        return hf_cuda_check(cuda, cudaErrorNotSupported, "cuTensorMapEncodeTiled");
    const cuuint64_t dims[3] = {(cuuint64_t)rows->problem.x.cols, (cuuint64_t)rows->n,
                                (cuuint64_t)rows->problem.batch};
    const cuuint64_t steps[2] = {(cuuint64_t)rows->ld * 2,
                                 (cuuint64_t)rows->ld * 2 * (cuuint64_t)rows->n};
    const cuuint32_t box[3] = {64, FILTER_WG_ROWS, 1};
    const cuuint32_t every[3] = {1, 1, 1};
    const CUresult result = ((PFN_cuTensorMapEncodeTiled_v12000)entry)(
        map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3, (void *)(uintptr_t)rows->x16, dims, steps, box,
        every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return hf_cuda_check(cuda, result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue,
                         "tensor map of the rows");
}

template <int DP, bool RAW>
static hf_status small_start(struct hf_cuda *cuda, CUtensorMap map, struct small_args a) {
    typedef struct small_shape<DP, RAW> S;
    const void *kernel = (const void *)lloyd_small<S>;
    const int bytes = (int)sizeof(struct small_memory<S>);
    void *args[] = {&map, &a};
    cudaError_t error =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    if (error == cudaSuccess)
        error = cudaLaunchCooperativeKernel(kernel, dim3((unsigned)(a.groups * a.blocks)),
                                            dim3(S::THREADS), args, (size_t)bytes, cuda->stream);
    return hf_cuda_check(cuda, error, "lloyd_small");
}

hf_status hf_lloyd_small_run(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                             const struct hf_assign_rows *rows, void *memory) {
    CUtensorMap map;
    const int dp = job->update.d <= 64 ? 64 : 128;
    const struct small_args a = small_make_args(cuda, job, rows, dp, memory);
    HF_TRY(small_clear(cuda, a));
    HF_TRY(small_map(cuda, rows, &map));
    if (dp == 64)
        return rows->raw ? small_start<64, true>(cuda, map, a)
                         : small_start<64, false>(cuda, map, a);
    return rows->raw ? small_start<128, true>(cuda, map, a) : small_start<128, false>(cuda, map, a);
}
