/* SPDX-License-Identifier: Apache-2.0 */
#include "ops/gemm/sm90/gemm_wgmma.cuh"

#include <cudaTypedefs.h>

/* A side as the copy engine sees it: what lies in one piece, the other dimension, the batch. */
static cudaError_t side_map(const struct gemm_job *job, const struct gemm_side &side, int lines,
                            hf_dtype dtype, CUtensorMap *map) {
    void *entry = NULL;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry,
                                                               12000, cudaEnableDefault, &found);
    if (error != cudaSuccess || found != cudaDriverEntryPointSuccess)
        return error != cudaSuccess ? error : cudaErrorNotSupported;
    const bool along = side.step == 1;
    const int64_t batch = job->tiles / (job->tiles_m * job->tiles_n);
    const int64_t rows = along ? side.lines : job->k, cols = along ? job->k : side.lines;
    const int64_t ld = (along ? side.line : side.step) * 2;
    const bool many = side.stride != 0 && batch > 1;
    const cuuint64_t dims[3] = {(cuuint64_t)cols, (cuuint64_t)rows, many ? (cuuint64_t)batch : 1};
    const cuuint64_t steps[2] = {(cuuint64_t)ld,
                                 many ? (cuuint64_t)side.stride * 2 : (cuuint64_t)ld};
    const cuuint32_t box[3] = {64, along ? (cuuint32_t)lines : WG_DEPTH, 1};
    const cuuint32_t every[3] = {1, 1, 1};
    const CUresult result = ((PFN_cuTensorMapEncodeTiled_v12000)entry)(
        map, dtype == HF_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        3, (void *)(uintptr_t)side.data, dims, steps, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
        CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

static unsigned ceil_div(int64_t a, int64_t b) { return (unsigned)((a + b - 1) / b); }

/* One of sums of rows, or of columns; false: it is not for this kernel. */
static bool pass_of(const struct hf_sums_pass *pass, struct gemm_beside_pass *to) {
    const struct hf_sums_pass p = hf_sums_by_rows(pass);
    const bool along = p.row != NULL;
    *to = {(const uint16_t *)p.m.data,
           p.m.row,
           (int)p.rows,
           (int)p.cols,
           along ? p.by_col : p.by_row,
           along ? p.by_col_size : p.by_row_size,
           along ? p.row : p.col,
           along ? p.row_size : p.col_size,
           along,
           ceil_div(p.rows, BESIDE_ROWS),
           ceil_div(p.cols, BESIDE_COLS)};
    to->chunks *= to->across;
    return (uintptr_t)p.m.data % 16 == 0 && p.m.row % BESIDE_EACH == 0;
}

/* The sums that this launch makes, and says so. */
static struct gemm_beside beside_of(const struct gemm_job *job, enum gemm_mode mode) {
    struct gemm_beside beside = {};
    struct hf_sums_beside *const wanted = job->beside;
    if (wanted == NULL || job->k == 0 || mode == GEMM_SIGNED || job->release ||
        job->plant == HF_GEMM_PLANT_A || job->tiles != job->tiles_m * job->tiles_n ||
        (mode == GEMM_RELEASED && job->checksum != HF_CHECKSUM_FLETCHER))
        return beside;
    for (int i = 0; i < HF_SUMS_BESIDE; i++) {
        if (!pass_of(&wanted->pass[i], &beside.pass[i]))
            return beside;
        beside.chunks += beside.pass[i].chunks;
        if (i + 1 == HF_SUMS_EARLY)
            beside.early = beside.chunks;
    }
    beside.next = wanted->next;
    wanted->operands = true;
    if (job->dtype_c == HF_F32 || !job->c_wide)
        return beside;
    double *const c[4] = {wanted->c.row, wanted->c.row_size, wanted->c.col, wanted->c.col_size};
    for (int i = 0; i < 4; i++)
        beside.c[i] = c[i];
    wanted->product = true;
    return beside;
}

template <bool BF16, int TURN_A, int TURN_B, enum gemm_mode MODE>
static hf_status start(struct hf_cuda *cuda, const struct gemm_job *job, unsigned tiles) {
    CUtensorMap a = {}, b = {};
    const hf_dtype dtype = BF16 ? HF_BF16 : HF_F16;
    cudaError_t error = cudaSuccess;
    if (job->k > 0)
        error = side_map(job, job->a, WG_ROWS, dtype, &a);
    if (error == cudaSuccess && job->k > 0)
        error = side_map(job, job->b, WG_COLS, dtype, &b);
    if (error == cudaSuccess)
        error = cudaFuncSetAttribute(wgmma_kernel<BF16, TURN_A, TURN_B, MODE>,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, WG_SHARED);
    if (error != cudaSuccess)
        return hf_cuda_check(cuda, error, "gemm");
    const struct gemm_beside beside = beside_of(job, MODE);
    const bool all = tiles > (unsigned)cuda->sms || beside.next != NULL; /* who has no tile sums */
    const unsigned blocks = all ? (unsigned)cuda->sms : tiles;
    wgmma_kernel<BF16, TURN_A, TURN_B, MODE>
        <<<blocks, WG_THREADS, WG_SHARED, cuda->stream>>>(a, b, *job, beside, tiles);
    return hf_cuda_launched(cuda, "gemm");
}

template <bool BF16, int TURN_A, int TURN_B>
static hf_status start_as(struct hf_cuda *cuda, const struct gemm_job *job, unsigned tiles) {
    switch (gemm_mode_of(job)) {
    case GEMM_PLAIN:
        return job->beside == NULL || job->k == 0
                   ? start<BF16, TURN_A, TURN_B, GEMM_PLAIN>(cuda, job, tiles)
                   : start<BF16, TURN_A, TURN_B, GEMM_SUMMED>(cuda, job, tiles);
    case GEMM_SIGNED:
        return start<BF16, TURN_A, TURN_B, GEMM_SIGNED>(cuda, job, tiles);
    default:
        return start<BF16, TURN_A, TURN_B, GEMM_RELEASED>(cuda, job, tiles);
    }
}

template <bool BF16>
static hf_status launch(struct hf_cuda *cuda, const struct gemm_job *job, unsigned tiles) {
    const bool a = job->a.step != 1, b = job->b.step != 1;
    if (a)
        return b ? start_as<BF16, 1, 1>(cuda, job, tiles) : start_as<BF16, 1, 0>(cuda, job, tiles);
    return b ? start_as<BF16, 0, 1>(cuda, job, tiles) : start_as<BF16, 0, 0>(cuda, job, tiles);
}

hf_status hf_gemm_wgmma_f16(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    return launch<false>(cuda, job, blocks);
}

hf_status hf_gemm_wgmma_bf16(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    return launch<true>(cuda, job, blocks);
}
