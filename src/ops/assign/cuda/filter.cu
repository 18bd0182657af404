/* SPDX-License-Identifier: Apache-2.0
 * The filter's host side: which kernel, its arguments. */
#include "ops/assign/cuda/filter_launch.h"
#include "ops/assign/cuda/mma.h"
#include <cuda_fp16.h>
#include <cudaTypedefs.h>

bool hf_filter_supports(const struct hf_device_props *device, int64_t n, int k, int d, int batch) {
    return device->sm == 90 && n >= 1 && n < INT32_MAX - 1024 && k >= 1 && k <= 1 << 24 && d >= 1 &&
           d <= FILTER_MAX_D && batch >= 1;
}

double hf_filter_estimate_ns(const struct hf_device_props *device, int64_t n, int k, int d,
                             int batch) {
    /* Fitted to measurements on an H200: 3 multiply-adds a ps and multiprocessor, columns of the
     * tile, some more columns for what is done with each score; rows at 3.5 bytes a ps. */
    const struct filter_tile tile = filter_tile_of(d);
    const double pairs = (double)batch * (double)((n + 63) / 64 * 64) *
                         (double)((k + tile.nt - 1) / tile.nt * tile.nt);
    const double columns = d > 512 ? 1.3 * tile.dp : tile.dp + (tile.dp < 64 ? 40 : 22);
    const double product = pairs * columns / (3000.0 * device->sms);
    const double bytes = (double)batch * (double)n * (2.0 * d + 12) / 3500.0;
    return 15e3 + (product > bytes ? product : bytes);
}

size_t hf_filter_pack_bytes(const struct hf_device_props *device, int k, int d, int batch) {
    const struct filter_memory m = filter_memory_of(device->sms, k, d, batch);
    const struct filter_memory mma = hf_mma_memory(k, d, batch);
    const size_t bytes = m.tiles + m.info + m.bounds + m.facts + m.parts + m.counters + m.biases;
    const size_t others = mma.tiles + mma.info + mma.bounds + mma.facts;
    return bytes > others ? bytes : others;
}

/* The rows as the copy engine sees them: boxes of 64 rows and one slab of columns. */
static hf_status rows_map(struct hf_cuda *cuda, const struct hf_filter_rows *rows,
                          CUtensorMap *map) {
    const struct filter_tile tile = filter_tile_of(rows->d);
    void *entry = NULL;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    HF_TRY(hf_cuda_check(cuda,
                         cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000,
                                                          cudaEnableDefault, &found),
                         "cuTensorMapEncodeTiled"));
    if (found != cudaDriverEntryPointSuccess)
        return hf_cuda_check(cuda, cudaErrorNotSupported, "cuTensorMapEncodeTiled");
    const cuuint64_t dims[3] = {(cuuint64_t)rows->d, (cuuint64_t)rows->n, (cuuint64_t)rows->batch};
    const cuuint64_t steps[2] = {(cuuint64_t)rows->ld * 2,
                                 (cuuint64_t)rows->ld * 2 * (cuuint64_t)rows->n};
    const cuuint32_t box[3] = {(cuuint32_t)tile.swizzle / 2, FILTER_WG_ROWS, 1};
    const cuuint32_t every[3] = {1, 1, 1};
    const CUresult result = ((PFN_cuTensorMapEncodeTiled_v12000)entry)(
        map, rows->bf16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16 : CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 3,
        (void *)(uintptr_t)rows->x16, dims, steps, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE,
        tile.swizzle == 128 ? CU_TENSOR_MAP_SWIZZLE_128B : CU_TENSOR_MAP_SWIZZLE_64B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return hf_cuda_check(cuda, result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue,
                         "tensor map of the rows");
}

static uint32_t half_bits(float v) { return __half_as_ushort(__float2half(v)); }

typedef cudaError_t launcher(const struct hf_cuda *, const CUtensorMap &, struct filter_args, int);

static launcher *launcher_of(int dp, bool bf16) {
    switch (dp) {
#define CLASS(d)                                                                                   \
    case d:                                                                                        \
        return bf16 ? hf_filter_launch<d, true> : hf_filter_launch<d, false>;
        CLASS(32)
        CLASS(64)
        CLASS(96)
        CLASS(128)
        CLASS(192)
        CLASS(256)
        CLASS(384)
        CLASS(512)
#undef CLASS
    default:
        return bf16 ? hf_filter_stream<true> : hf_filter_stream<false>;
    }
}

/* By what rows are multiplied before they are squared in f16: by 1, which costs nothing, where
 * dp / 4 squares of components up to 1 / scale stay well below f16's most. */
static float measure_of(double scale, int dp) {
    if (scale <= 1 && scale * scale * 0x1p17 >= dp)
        return 1;
    return (float)fmin(fmax(scale, 0x1p-24), 0x1p15);
}

static hf_status run(struct hf_cuda *cuda, struct filter_args a,
                     const struct hf_filter_centroids *c, void *packed, int mode) {
    if (a.rows.mma)
        return hf_mma_run(cuda, a, c, packed, mode);
    const struct filter_memory m = filter_memory_of(cuda->sms, c->k, c->d, c->batch);
    const struct filter_tile tile = filter_tile_of(c->d);
    launcher *const launch = launcher_of(tile.dp, a.rows.bf16);
    CUtensorMap map = {};
    if (a.rows.list == NULL)
        HF_TRY(rows_map(cuda, &a.rows, &map));
    a.tiles = (const uint8_t *)packed;
    uint8_t *const behind = (uint8_t *)packed + m.tiles + m.info;
    a.bounds = (const struct filter_bounds *)behind;
    a.facts = (const struct filter_fact *)(behind + m.bounds);
    uint8_t *const scratch = behind + m.bounds + m.facts;
    a.parts = (float *)scratch;
    a.counters = (int *)(scratch + m.parts);
    a.tiles_per_problem = m.tiles_per_problem;
    a.infos_per_problem = m.infos_per_problem;
    a.tile_bytes = tile.bytes;
    a.acc = filter_share(c->d);
    a.loss = a.rows.bf16 ? (float)sqrt((double)c->d) * 0x1.001p-25f : 0.0f;
    filter_describe(&a, c);
    const struct filter_units units = filter_units_of(c);
    a.tiny = units.unit[0] * FILTER_TINY;
    a.shifted = filter_shifts(c->k, c->d) && c->metric == HF_EUCLIDEAN;
    a.measure = measure_of(c->scale, tile.dp);
    a.plain = a.measure == 1;
    a.measured = (1 + 0x1p-20f) / a.measure;
    a.labels = a.out.best == NULL && a.out.second == NULL && a.out.error == NULL;
    a.unread = a.rows.norm == NULL && a.rows.loss == NULL;
    a.one[0] = half_bits(units.unit[1]) << 16 | half_bits(units.unit[0]);
    a.one[1] = half_bits(units.unit[2]);
    a.rise = units.unit[0];
    a.key = units.unit[0] * FILTER_KEY;
    return hf_cuda_check(cuda, launch(cuda, map, a, mode), "filter");
}

/* Where scores are positive for all but odd rows they are looked at in chunks. */
static bool chunked(const struct hf_filter_rows *rows, const struct hf_filter_centroids *c) {
    if (rows->mma)
        return false;
    return c->k >= FILTER_CHUNK_K ||
           (c->k >= 64 && filter_tile_of(c->d).bias_step && c->metric == HF_EUCLIDEAN);
}

static struct filter_args args_of(const struct hf_filter_rows *rows) {
    struct filter_args a = {};
    a.rows = *rows;
    a.limit = rows->n;
    return a;
}

hf_status hf_filter_best(struct hf_cuda *cuda, const struct hf_filter_call *call,
                         const struct hf_filter_out *out) {
    struct filter_args a = args_of(&call->rows);
    a.out = *out;
    if (call->rows.list)
        return hf_cuda_check(cuda, cudaErrorNotSupported, "filter: best of listed rows, use top2");
    return run(cuda, a, &call->centroids, call->packed,
               chunked(&call->rows, &call->centroids) ? FILTER_BEST_CHUNK : FILTER_BEST);
}

hf_status hf_filter_top2(struct hf_cuda *cuda, const struct hf_filter_call *call,
                         const struct hf_filter_out *out) {
    const struct hf_filter_rows *rows = &call->rows;
    struct filter_args a = args_of(rows);
    a.out = *out;
    if (rows->norm == NULL && rows->mma)
        return hf_cuda_check(cuda, cudaErrorNotSupported, "filter: norms of these rows");
    return run(cuda, a, &call->centroids, call->packed,
               rows->list                        ? FILTER_LIST
               : chunked(rows, &call->centroids) ? FILTER_TOP2_CHUNK
                                                 : FILTER_TOP2);
}

hf_status hf_filter_emit(struct hf_cuda *cuda, const struct hf_filter_call *call,
                         const struct hf_filter_open *open, const int32_t *labels,
                         struct hf_filter_slots slots) {
    struct filter_args a = args_of(&call->rows);
    a.out.open = *open;
    a.rows.list = open->row;
    a.rows.count = open->count;
    a.limit = open->cap;
    a.found = labels;
    a.slots = slots;
    a.split = true;
    return run(cuda, a, &call->centroids, call->packed, FILTER_EMIT);
}
