/* SPDX-License-Identifier: Apache-2.0
 * The kernel of the filter of u8 rows (cuda/i8.h). A block is two thread blocks of a cluster,
 * each with two consumer warpgroups of 64 rows and a producer. Rows stay in shared memory, slabs of
 * 128 columns with barriers of their own, so that the next ones come while the last tile is
 * multiplied; centroids come by in slabs of 256, each half loaded by one thread block for both.
 * Scores are positive int32, whose bits have the same order as float32's: the sweep is the other
 * filter's. */
#include "ops/assign/cuda/filter_sweep.cuh"
#include "ops/assign/cuda/i8.h"
#include <cudaTypedefs.h>

enum { I8_STEP = 32 /* columns of a product */ };

struct i8_shape {
    static constexpr int NT = HF_I8_TILE, WGS = 2, CLUSTER = 2, UNITS = 4, CHUNK = 8;
    static constexpr bool COUNT = false; /* as in filter_shape */
    static constexpr int REGS = 232, PRODUCER_REGS = 40;
    static constexpr int THREADS = WGS * 128 + 128;
    static constexpr int ROWS = FILTER_WG_ROWS * HF_I8_SLAB; /* bytes of a unit's slab */
    static constexpr int SLAB = NT * HF_I8_SLAB;
    static constexpr int STAGE = SLAB + NT * 4, STAGES = 3;
    static constexpr int RING = HF_I8_SLABS * WGS * ROWS, BARS = RING + STAGES * STAGE;
    static constexpr int OPENS = BARS + 256;
    static constexpr int SHARED = OPENS + WGS * 4 * FILTER_WARP_OPEN * 8;
};
typedef struct i8_shape S;

struct i8_shared {
    uint32_t base;
    __device__ __forceinline__ uint32_t rows(int c, int wg) const {
        return base + (uint32_t)((c * S::WGS + wg) * S::ROWS);
    }
    __device__ __forceinline__ uint32_t slab(int stage) const {
        return base + (uint32_t)(S::RING + stage * S::STAGE);
    }
    __device__ __forceinline__ uint32_t bias(int stage) const { return slab(stage) + S::SLAB; }
    __device__ __forceinline__ uint32_t bar(int i) const {
        return base + (uint32_t)(S::BARS + i * 8);
    }
    __device__ __forceinline__ uint32_t full(int i) const { return bar(i); }
    __device__ __forceinline__ uint32_t empty(int i) const { return bar(S::STAGES + i); }
    __device__ __forceinline__ uint32_t rows_full(int c) const { return bar(2 * S::STAGES + c); }
    __device__ __forceinline__ uint32_t rows_empty(int c) const {
        return bar(2 * S::STAGES + HF_I8_SLABS + c);
    }
    __device__ __forceinline__ uint32_t flag(int wg) const {
        return bar(2 * S::STAGES + 2 * HF_I8_SLABS + wg);
    }
    __device__ __forceinline__ uint32_t opens(int warp) const {
        return base + (uint32_t)(S::OPENS + warp * FILTER_WARP_OPEN * 8);
    }
};

static __device__ __forceinline__ int i8_slabs(const struct filter_args &a) {
    return (a.rows.d + HF_I8_SLAB - 1) / HF_I8_SLAB;
}

/* One thread of each thread block. */
static __device__ __forceinline__ void
i8_produce(const struct filter_args &a, const struct i8_shared &m, const CUtensorMap *map) {
    const int slabs = i8_slabs(a);
    const uint32_t rank = hf_cluster_rank(), half = S::SLAB / 2;
    struct filter_segment s;
    int stage = 0;
    uint32_t parity = 1, rows_parity = 1;
    for (int i = 0; filter_segment_at<S, false>(a, i, &s); i++)
        for (int v = 0; v < s.rounds; v++, rows_parity ^= 1)
            for (int t = s.t0; t < s.t1; t++)
                for (int c = 0; c < slabs; c++) {
                    const uint8_t *const tile = a.tiles + (int64_t)t * a.tile_bytes;
                    const bool last = c == slabs - 1;
                    const int unit = (s.group + v) * S::UNITS + (int)rank * S::WGS;
                    if (t == s.t0) {
                        hf_mbar_wait(m.rows_empty(c), rows_parity);
                        hf_mbar_expect(m.rows_full(c), S::WGS * S::ROWS);
                        for (int wg = 0; wg < S::WGS; wg++)
                            hf_tma_load(m.rows(c, wg), map, c * HF_I8_SLAB,
                                        (unit + wg) * FILTER_WG_ROWS, 0, m.rows_full(c));
                    }
                    hf_mbar_wait_cluster(m.empty(stage), parity);
                    hf_mbar_expect(m.full(stage), S::SLAB + (last ? S::NT * 4 : 0));
                    hf_bulk_copy_all(m.slab(stage) + rank * half,
                                     tile + (int64_t)c * S::SLAB + rank * half, half, m.full(stage),
                                     3);
                    if (last)
                        hf_bulk_copy(m.bias(stage), tile + (int64_t)slabs * S::SLAB, S::NT * 4,
                                     m.full(stage));
                    stage = stage + 1 == S::STAGES ? 0 : stage + 1;
                    parity ^= stage == 0;
                }
}

/* d = A B (+ d if add): A [64, 32] u8 and B [256, 32] s8 by descriptor; exact. */
static __device__ __forceinline__ void i8_multiply(int (&d)[128], uint64_t a, uint64_t b, int add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k32.s32.u8.s8 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
        "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
        "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
        "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, "
        "%111, "
        "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, "
        "%127"
        "}, %128, %129, p;\n}"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3]), "+r"(d[4]), "+r"(d[5]), "+r"(d[6]),
          "+r"(d[7]), "+r"(d[8]), "+r"(d[9]), "+r"(d[10]), "+r"(d[11]), "+r"(d[12]), "+r"(d[13]),
          "+r"(d[14]), "+r"(d[15]), "+r"(d[16]), "+r"(d[17]), "+r"(d[18]), "+r"(d[19]), "+r"(d[20]),
          "+r"(d[21]), "+r"(d[22]), "+r"(d[23]), "+r"(d[24]), "+r"(d[25]), "+r"(d[26]), "+r"(d[27]),
          "+r"(d[28]), "+r"(d[29]), "+r"(d[30]), "+r"(d[31]), "+r"(d[32]), "+r"(d[33]), "+r"(d[34]),
          "+r"(d[35]), "+r"(d[36]), "+r"(d[37]), "+r"(d[38]), "+r"(d[39]), "+r"(d[40]), "+r"(d[41]),
          "+r"(d[42]), "+r"(d[43]), "+r"(d[44]), "+r"(d[45]), "+r"(d[46]), "+r"(d[47]), "+r"(d[48]),
          "+r"(d[49]), "+r"(d[50]), "+r"(d[51]), "+r"(d[52]), "+r"(d[53]), "+r"(d[54]), "+r"(d[55]),
          "+r"(d[56]), "+r"(d[57]), "+r"(d[58]), "+r"(d[59]), "+r"(d[60]), "+r"(d[61]), "+r"(d[62]),
          "+r"(d[63]), "+r"(d[64]), "+r"(d[65]), "+r"(d[66]), "+r"(d[67]), "+r"(d[68]), "+r"(d[69]),
          "+r"(d[70]), "+r"(d[71]), "+r"(d[72]), "+r"(d[73]), "+r"(d[74]), "+r"(d[75]), "+r"(d[76]),
          "+r"(d[77]), "+r"(d[78]), "+r"(d[79]), "+r"(d[80]), "+r"(d[81]), "+r"(d[82]), "+r"(d[83]),
          "+r"(d[84]), "+r"(d[85]), "+r"(d[86]), "+r"(d[87]), "+r"(d[88]), "+r"(d[89]), "+r"(d[90]),
          "+r"(d[91]), "+r"(d[92]), "+r"(d[93]), "+r"(d[94]), "+r"(d[95]), "+r"(d[96]), "+r"(d[97]),
          "+r"(d[98]), "+r"(d[99]), "+r"(d[100]), "+r"(d[101]), "+r"(d[102]), "+r"(d[103]),
          "+r"(d[104]), "+r"(d[105]), "+r"(d[106]), "+r"(d[107]), "+r"(d[108]), "+r"(d[109]),
          "+r"(d[110]), "+r"(d[111]), "+r"(d[112]), "+r"(d[113]), "+r"(d[114]), "+r"(d[115]),
          "+r"(d[116]), "+r"(d[117]), "+r"(d[118]), "+r"(d[119]), "+r"(d[120]), "+r"(d[121]),
          "+r"(d[122]), "+r"(d[123]), "+r"(d[124]), "+r"(d[125]), "+r"(d[126]), "+r"(d[127])
        : "l"(a), "l"(b), "r"(add));
}

/* Begin the products of the first STEPS steps of a slab. */
template <int STEPS>
static __device__ __forceinline__ void i8_slab(int (&d)[128], uint32_t rows, uint32_t slab,
                                               int add) {
    hf_wgmma_begin();
#pragma unroll
    for (int k = 0; k < STEPS; k++)
        i8_multiply(d, hf_wgmma_desc(rows + (uint32_t)(k * 2), hf_wgmma_swizzled(128)),
                    hf_wgmma_desc(slab + (uint32_t)(k * 2), hf_wgmma_swizzled(128)), add || k > 0);
    hf_wgmma_commit();
}

/* The same for a tile's last slab, of which only some may be needed. */
static __device__ __forceinline__ void i8_slab_end(int (&d)[128], uint32_t rows, uint32_t slab,
                                                   int add, int steps) {
    if (steps == 1)
        i8_slab<1>(d, rows, slab, add);
    else if (steps == 2)
        i8_slab<2>(d, rows, slab, add);
    else if (steps == 3)
        i8_slab<3>(d, rows, slab, add);
    else
        i8_slab<4>(d, rows, slab, add);
}

/* What is read of d after this comes after the wait. */
static __device__ __forceinline__ void i8_hold(int (&d)[128]) {
#pragma unroll
    for (int i = 0; i < 128; i++)
        asm volatile("" : "+r"(d[i])::"memory");
}

/* A warp is done with a stage: it says so to both thread blocks, as both write it. */
static __device__ __forceinline__ void i8_release(const struct i8_shared &m, int stage) {
    __syncwarp();
    if ((threadIdx.x & 31) < S::CLUSTER)
        hf_mbar_arrive_at(m.empty(stage), threadIdx.x & 31);
}

/* And with a slab of rows. */
static __device__ __forceinline__ void i8_release_rows(const struct i8_shared &m, int c) {
    __syncwarp();
    if ((threadIdx.x & 31) == 0)
        hf_mbar_arrive(m.rows_empty(c));
}

/* A consumer warp: its warpgroup, its place in the ring and among its rows. */
struct i8_consumer {
    int wg;
    int stage;
    uint32_t parity, rows_parity;
};

/* The scores of one tile, bias included. */
static __device__ __forceinline__ void i8_scores(const struct filter_args &a,
                                                 const struct i8_shared &m, bool first, bool last,
                                                 struct i8_consumer *p, float (&score)[128]) {
    const int slabs = i8_slabs(a);
    int d[128], before = -1;
    for (int c = 0; c < slabs; c++) {
        const int now = p->stage;
        if (first)
            hf_mbar_wait(m.rows_full(c), p->rows_parity);
        hf_mbar_wait_cluster(m.full(now), p->parity);
        const uint32_t low = hf_wgmma_low(m.slab(now)) + (1 << 16);
        const uint32_t own = hf_wgmma_low(m.rows(c, p->wg)) + (1 << 16);
        if (c < slabs - 1)
            i8_slab<HF_I8_SLAB / I8_STEP>(d, own, low, c > 0);
        else
            i8_slab_end(d, own, low, c > 0, (a.rows.d - c * HF_I8_SLAB + I8_STEP - 1) / I8_STEP);
        p->stage = now + 1 == S::STAGES ? 0 : now + 1;
        p->parity ^= p->stage == 0;
        hf_wgmma_wait<1>();
        if (before >= 0)
            i8_release(m, before);
        if (last && c > 0)
            i8_release_rows(m, c - 1);
        before = now;
    }
    hf_wgmma_wait<0>();
    i8_hold(d);
    if (last)
        i8_release_rows(m, slabs - 1);
#pragma unroll
    for (int g = 0; g < S::NT / 16; g++) { /* as filter_add_bias() */
        const float4 f = hf_lds4(m.bias(before) + g * 64 + (threadIdx.x & 3) * 16);
        const int b[4] = {__float_as_int(f.x), __float_as_int(f.y), __float_as_int(f.z),
                          __float_as_int(f.w)};
#pragma unroll
        for (int i = 0; i < 8; i++)
            score[8 * g + i] = __int_as_float(d[8 * g + i] + b[i / 4 * 2 + i % 2]);
    }
    i8_release(m, before);
}

/* How far below the best a score of the nearest centroid may be: with D = |x - q_b|, nearer ones
 * have |x - q_j| <= D + reach. Scores are (square of x - square of x - q_j) / 2 in steps, moved up,
 * with biases rounded to whole numbers. 64 pays for the roundings of the square here. */
static __device__ __forceinline__ float i8_margin(float best, int fact, float reach, int lift) {
    const float step = (float)(255.0 / 254.0);
    const float square = (float)fact - 2 * step * (float)(__float_as_int(best) - lift);
    const float distance = sqrtf(fmaxf(square, 0.0f) + 64);
    return (reach * distance + reach * reach / 2) * (1 + 0x1p-8f) + 4;
}

/* The end of a unit's rows. */
static __device__ __forceinline__ void i8_conclude(const struct filter_args &a,
                                                   const struct filter_segment &s,
                                                   const struct filter_warpgroup &wg, int unit,
                                                   float eps,
                                                   const struct filter_track<S::CHUNK> &track) {
    struct filter_found f[2] = {filter_gather<FILTER_TOP2_CHUNK>(track, 0),
                                filter_gather<FILTER_TOP2_CHUNK>(track, 1)};
    if (s.tail >= 0 &&
        !filter_merge<S>(a, filter_tail_of<S, false>(a), s.tail, unit % S::UNITS, wg, f))
        return;
#pragma unroll
    for (int r = 0; r < 2; r++) {
        const int row = unit * FILTER_WG_ROWS + filter_row() + 8 * r;
        const bool mine = (threadIdx.x & 3) == 0 && row < a.rows.n;
        bool open = false;
        if (mine) {
            const float margin = i8_margin(f[r].best, __float_as_int(a.rows.norm[row]),
                                           eps + a.rows.loss[f[r].id], a.rows.d * 40640 + 8);
            const float gap =
                (float)(__float_as_int(f[r].best) - max(__float_as_int(f[r].second), 0));
            open = !(gap > margin);
            a.out.label[row] = f[r].id;
        }
        filter_open(a, 0, row, open, 0, wg.opens);
    }
}

/* All lanes of a warp: the largest error of all centroids. */
static __device__ __forceinline__ float i8_most(const struct filter_args &a) {
    int most = 0;
    for (int j = (int)threadIdx.x & 31; j < a.infos_per_problem * FILTER_CHUNK; j += 32)
        most = max(most, __float_as_int(a.rows.loss[j]));
    return __int_as_float(__reduce_max_sync(~0u, most));
}

static __device__ __forceinline__ void i8_consume(const struct filter_args &a,
                                                  const struct i8_shared &m, int wg) {
    struct filter_open_rows opens = {m.opens((int)threadIdx.x / 32), 0};
    struct filter_segment s;
    struct i8_consumer p = {wg, 0, 0, 0};
    const struct filter_warpgroup group = {wg, m.flag(wg), 0, &opens};
    const float eps = i8_most(a);
    for (int i = 0; filter_segment_at<S, false>(a, i, &s); i++)
        for (int v = 0; v < s.rounds; v++, p.rows_parity ^= 1) {
            const int unit = (s.group + v) * S::UNITS + (int)hf_cluster_rank() * S::WGS + wg;
            struct filter_track<S::CHUNK> track;
            filter_track_begin(&track);
            for (int t = s.t0; t < s.t1; t++) {
                float score[128];
                i8_scores(a, m, t == s.t0, t == s.t1 - 1, &p, score);
                filter_keep<S::NT, FILTER_TOP2_CHUNK, S::CHUNK>(score, t, a.minus_zero, &track);
            }
            i8_conclude(a, s, group, unit, eps, track);
        }
    filter_open_flush(a, 0, &opens);
}

static __global__ void __launch_bounds__(S::THREADS, 1)
    i8_kernel(const __grid_constant__ CUtensorMap map, const __grid_constant__ filter_args a) {
    extern __shared__ __align__(1024) uint8_t memory[];
    if (*a.rows.stop)
        return;
    const struct i8_shared m = {hf_shared(memory)};
    const int wg = (int)__reduce_or_sync(~0u, threadIdx.x >> 7);
    if (threadIdx.x == 0) {
        for (int i = 0; i < S::STAGES; i++) {
            hf_mbar_init(m.full(i), 1);
            hf_mbar_init(m.empty(i), 4 * S::WGS * S::CLUSTER);
        }
        for (int c = 0; c < HF_I8_SLABS; c++) {
            hf_mbar_init(m.rows_full(c), 1);
            hf_mbar_init(m.rows_empty(c), 4 * S::WGS);
        }
        hf_mbar_init_fence();
    }
    __syncthreads();
    hf_cluster_sync();
    if (wg == S::WGS) {
        hf_regs_lower<S::PRODUCER_REGS>();
        if ((threadIdx.x & 127) == 0)
            i8_produce(a, m, &map);
    } else {
        hf_regs_raise<S::REGS>();
        i8_consume(a, m, wg);
    }
    /* Nobody leaves while the other may still write here. */
    __syncwarp();
    hf_cluster_sync();
}

static cudaError_t rows_map(const struct hf_filter_rows &rows, CUtensorMap *map) {
    void *entry = NULL;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    const cudaError_t error = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry,
                                                               12000, cudaEnableDefault, &found);
    if (error != cudaSuccess || found != cudaDriverEntryPointSuccess)
        return error != cudaSuccess ? error : cudaErrorNotSupported;
    const cuuint64_t dims[3] = {(cuuint64_t)rows.d, (cuuint64_t)rows.n, 1};
    const cuuint64_t steps[2] = {(cuuint64_t)rows.ld, (cuuint64_t)rows.ld * (cuuint64_t)rows.n};
    const cuuint32_t box[3] = {HF_I8_SLAB, FILTER_WG_ROWS, 1};
    const cuuint32_t every[3] = {1, 1, 1};
    const CUresult result = ((PFN_cuTensorMapEncodeTiled_v12000)entry)(
        map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 3, (void *)(uintptr_t)rows.x16, dims, steps, box, every,
        CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
        CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    return result == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t hf_i8_launch(const struct hf_cuda *cuda, const struct filter_args *args) {
    CUtensorMap map = {};
    cudaError_t error = rows_map(args->rows, &map);
    if (error == cudaSuccess)
        error = cudaFuncSetAttribute((const void *)i8_kernel,
                                     cudaFuncAttributeMaxDynamicSharedMemorySize, S::SHARED);
    if (error != cudaSuccess)
        return error;
    cudaLaunchAttribute cluster[1] = {};
    cluster[0].id = cudaLaunchAttributeClusterDimension;
    cluster[0].val.clusterDim.x = S::CLUSTER;
    cluster[0].val.clusterDim.y = cluster[0].val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((unsigned)(cuda->sms / S::CLUSTER * S::CLUSTER));
    config.blockDim = dim3(S::THREADS);
    config.dynamicSmemBytes = S::SHARED;
    config.stream = cuda->stream;
    config.attrs = cluster;
    config.numAttrs = 1;
    return cudaLaunchKernelEx(&config, i8_kernel, map, *args);
}
