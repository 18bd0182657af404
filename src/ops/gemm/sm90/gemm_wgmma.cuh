/* SPDX-License-Identifier: Apache-2.0
 * Products of 16-bit numbers by wgmma: a warp brings stages of 64 products by the copy engine, two
 * warpgroups have 64 x 256 sums each. Blocks stay and take one tile after the other, so that the
 * first stages of a tile come while the last one is stored. Steps of 16 products are in order. */
#ifndef HF_GEMM_WGMMA_KERNEL_CUH
#define HF_GEMM_WGMMA_KERNEL_CUH

#include "ops/gemm/cuda/gemm_sign.cuh"
#include "ops/gemm/sm90/wgmma.cuh"

#define WG_ROWS 128
#define WG_COLS 256
#define WG_DEPTH 64
#define WG_STAGES 4
#define WG_A_BYTES (WG_ROWS * WG_DEPTH * 2)
#define WG_B_BYTES (WG_COLS * WG_DEPTH * 2)
#define WG_STAGE (WG_A_BYTES + WG_B_BYTES)
#define WG_SLAB (64 * WG_DEPTH * 2) /* of 64 lines */
#define WG_CONSUMERS GEMM_THREADS
#define WG_THREADS (WG_CONSUMERS + 128)
#define WG_BARRIERS (WG_STAGES * WG_STAGE)
#define WG_TABLE (WG_BARRIERS + 128)
#define WG_SUMS (WG_TABLE + GEMM_CRC_WORDS * 4)
#define WG_BLOCKS (WG_SUMS + 384) /* of each warp: its signatures, then what it stores */
#define WG_SHARED                                                                                  \
    (WG_BLOCKS + WG_CONSUMERS / 32 * GEMM_BLOCK_BYTES +                                            \
     1024)       /* and to begin at a multiple of 1,024 */
#define WG_BAR 1 /* of the consumers */
static_assert(GEMM_KEPT_BYTES <= GEMM_BLOCK_BYTES, "a warp has one place for both");
static_assert(GEMM_SUMS_BYTES <= 384, "the sums' place");

struct wg_pipe {
    uint32_t base;
    int stage;
    uint32_t parity;
    int count; /* of stages of a tile */
};

static __device__ __forceinline__ uint32_t wg_full(const struct wg_pipe &p) {
    return p.base + WG_BARRIERS + (uint32_t)p.stage * 8;
}
static __device__ __forceinline__ uint32_t wg_empty(const struct wg_pipe &p) {
    return p.base + WG_BARRIERS + (uint32_t)(WG_STAGES + p.stage) * 8;
}
static __device__ __forceinline__ void wg_next(struct wg_pipe *p) {
    if (++p->stage == WG_STAGES) {
        p->stage = 0;
        p->parity ^= 1;
    }
}

/* A side's stage: lines [line, line + LINES) of products [from, from + 64). */
template <int LINES, int TURN>
static __device__ __forceinline__ void wg_bring(const CUtensorMap *map, uint32_t to, int line,
                                                int from, int batch, uint32_t bar) {
    if constexpr (TURN) {
#pragma unroll
        for (int i = 0; i < LINES / 64; i++)
            hf_tma_load(to + (uint32_t)(i * WG_SLAB), map, line + i * 64, from, batch, bar);
    } else {
        hf_tma_load(to, map, from, line, batch, bar);
    }
}

template <int TURN_A, int TURN_B>
static __device__ __forceinline__ void wg_produce(const struct gemm_job &job, unsigned tiles,
                                                  const CUtensorMap *map_a,
                                                  const CUtensorMap *map_b, uint32_t base) {
    struct wg_pipe p = {base, 0, 1, 0};
    const int64_t count = (job.k + WG_DEPTH - 1) / WG_DEPTH;
    for (unsigned t = blockIdx.x; t < tiles; t += gridDim.x) {
        const struct gemm_place place = gemm_place_of(job, job.first_tile + t);
        const int batch_a = job.a.stride != 0 ? (int)place.batch : 0;
        const int batch_b = job.b.stride != 0 ? (int)place.batch : 0;
        for (int64_t i = 0; i < count; i++) {
            const uint32_t to = base + (uint32_t)(p.stage * WG_STAGE);
            hf_mbar_wait(wg_empty(p), p.parity);
            hf_mbar_expect(wg_full(p), WG_STAGE);
            wg_bring<WG_ROWS, TURN_A>(map_a, to, place.row * WG_ROWS, (int)i * WG_DEPTH, batch_a,
                                      wg_full(p));
            wg_bring<WG_COLS, TURN_B>(map_b, to + WG_A_BYTES, place.col * WG_COLS,
                                      (int)i * WG_DEPTH, batch_b, wg_full(p));
            wg_next(&p);
        }
    }
}

/* The words of a side's stage that this thread signs. */
template <int BYTES>
static __device__ __forceinline__ void wg_sign(struct gemm_sign *sign, int checksum,
                                               const uint32_t *table, const char *side) {
#pragma unroll 1
    for (int i = 0; i < BYTES / 16 / WG_CONSUMERS; i++) {
        const uint4 v = *(const uint4 *)(side + ((int)threadIdx.x + i * WG_CONSUMERS) * 16);
        const uint32_t w[4] = {v.x, v.y, v.z, v.w};
        gemm_sign_words(sign, checksum, table, w);
    }
}

/* Where 16-bit number (line, product) lies in a side's stage. */
static __device__ __forceinline__ uint32_t wg_address(bool turned, int line, int product) {
    const int row = turned ? product : line, at = turned ? line % 64 : product;
    const uint32_t slab = turned ? (uint32_t)(line / 64 * WG_SLAB) : 0;
    return slab + (uint32_t)(row * 128 + ((at / 8 ^ (row & 7)) << 4) + at % 8 * 2);
}

/* A fault on purpose: see mma_plant(). */
static __device__ __forceinline__ void
wg_plant(const struct gemm_job &job, const struct gemm_place &place, int64_t chunk, char *stage) {
    const int64_t element = job.plant_at / 32, row = element / job.k, p = element % job.k;
    const int64_t product = p - chunk * WG_DEPTH, line = row - (int64_t)place.row * WG_ROWS;
    hf_bar_sync(WG_BAR, WG_CONSUMERS);
    if (threadIdx.x == 0 && place.col == 0 && place.batch == 0 && product >= 0 &&
        product < WG_DEPTH && line >= 0 && line < WG_ROWS) {
        const uint32_t at = wg_address(job.a.step != 1, (int)line, (int)product);
        *(uint32_t *)(stage + at / 4 * 4) ^= 1u << job.plant_at % 32;
    }
    hf_copied_fence();
    hf_bar_sync(WG_BAR, WG_CONSUMERS);
}

/* Row of sums d[4 j + 2 h], d[4 j + 2 h + 1] in the tile, and column of the first. */
static __device__ __forceinline__ int wg_row(int h) {
    return (int)threadIdx.x / 32 * 16 + (int)threadIdx.x % 32 / 4 + 8 * h;
}
static __device__ __forceinline__ int wg_col(int j) { return j * 8 + (int)threadIdx.x % 4 * 2; }

/* A sum changes before it is signed, on purpose. */
static __device__ __forceinline__ void
wg_plant_sum(const struct gemm_job &job, const struct gemm_place &place, float (&sum)[128]) {
    int64_t at[2];
    if (!gemm_plants(job, place, WG_ROWS, WG_COLS, at))
        return;
#pragma unroll
    for (int i = 0; i < 128; i++)
        if (at[0] == wg_row(i / 2 % 2) && at[1] == wg_col(i / 4) + i % 2)
            sum[i] = gemm_float(gemm_bits(sum[i]) ^ 1u << job.plant_at % 32);
}

static __device__ __forceinline__ void wg_sign_sums(const struct gemm_job &job,
                                                    const struct gemm_signer &s,
                                                    struct gemm_sign *sign,
                                                    const float (&sum)[128]) {
    uint32_t w[128];
#pragma unroll
    for (int i = 0; i < 128; i++)
        w[i] = gemm_bits(sum[i]);
    gemm_sign_begin(sign, job.checksum);
    gemm_sign_words(sign, job.checksum, s.table, w);
    gemm_sign_fold(sign, job.checksum);
}

/* The products of a stage, started. */
template <bool BF16, int TURN_A, int TURN_B>
static __device__ __forceinline__ void wg_multiply(float (&sum)[128], uint32_t stage, bool add) {
    constexpr uint32_t STEP_A = (TURN_A ? 16 * 128 : 32) >> 4;
    constexpr uint32_t STEP_B = (TURN_B ? 16 * 128 : 32) >> 4;
    const uint32_t upper = hf_wgmma_swizzled(128);
    const uint32_t own = stage + threadIdx.x / 128 * WG_SLAB;
    const uint32_t low_a = hf_wgmma_low(own) | (WG_SLAB >> 4) << 16;
    const uint32_t low_b = hf_wgmma_low(stage + WG_A_BYTES) | (WG_SLAB >> 4) << 16;
    hf_wgmma_hold(sum);
    hf_wgmma_begin();
#pragma unroll
    for (int p = 0; p < WG_DEPTH / 16; p++)
        wgmma_256<BF16, TURN_A, TURN_B>(sum, hf_wgmma_desc(low_a + (uint32_t)p * STEP_A, upper),
                                        hf_wgmma_desc(low_b + (uint32_t)p * STEP_B, upper),
                                        add || p > 0);
    hf_wgmma_commit();
}

static __device__ __forceinline__ void wg_free(const struct wg_pipe &p) {
    if (threadIdx.x % 32 == 0)
        hf_mbar_arrive(wg_empty(p));
}

/* All stages of a tile. */
template <bool BF16, int TURN_A, int TURN_B, bool SIGNED>
static __device__ __forceinline__ void
wg_tile(const struct gemm_job &job, const struct gemm_place &place, struct wg_pipe *p, char *shared,
        struct gemm_signer *signer, float (&sum)[128]) {
    const int count = p->count;
    struct wg_pipe last = *p;
    for (int i = 0; i < count; i++) {
        char *const stage = shared + p->stage * WG_STAGE;
        const auto sign = [&](struct gemm_sign *state, bool of_a) {
            if (of_a)
                wg_sign<WG_A_BYTES>(state, job.checksum, signer->table, stage);
            else
                wg_sign<WG_B_BYTES>(state, job.checksum, signer->table, stage + WG_A_BYTES);
        };
        hf_mbar_wait(wg_full(*p), p->parity);
        if (SIGNED)
            gemm_staged(job, signer, i, sign);
        if (SIGNED && job.plant == HF_GEMM_PLANT_A)
            wg_plant(job, place, i, stage);
        wg_multiply<BF16, TURN_A, TURN_B>(sum, p->base + (uint32_t)(p->stage * WG_STAGE), i > 0);
        hf_wgmma_wait<1>();
        if (SIGNED && job.release) {
            hf_wgmma_wait<0>();
            gemm_released(job, signer, (int64_t)place.row * WG_ROWS, (int64_t)place.col * WG_COLS,
                          sign);
        }
        if (i > 0)
            wg_free(last);
        last = *p;
        wg_next(p);
    }
    hf_wgmma_wait<0>();
    hf_wgmma_hold(sum);
    if (count > 0)
        wg_free(last);
}

/* 32 columns at a time. */
static __device__ __forceinline__ void wg_store(const struct gemm_job &job,
                                                const struct gemm_place &place, float *block,
                                                const float (&sum)[128]) {
    const int64_t row = (int64_t)place.row * WG_ROWS + (int)threadIdx.x / 32 * 16;
    const int64_t col = (int64_t)place.col * WG_COLS;
#pragma unroll 1
    for (int r = 0; r < WG_COLS / GEMM_BLOCK_COLS; r++) {
#pragma unroll
        for (int i = 0; i < WG_COLS / GEMM_BLOCK_COLS; i++)
            if (i == r) {
                float part[16];
#pragma unroll
                for (int e = 0; e < 16; e++)
                    part[e] = sum[i * 16 + e];
                gemm_block_keep(block, part);
            }
        gemm_block_store(job, {place.batch, row, col + r * GEMM_BLOCK_COLS}, block,
                         [](const struct gemm_spot &, float(&)[4]) {});
    }
}

template <bool BF16, int TURN_A, int TURN_B, bool SIGNED>
static __device__ __forceinline__ void wg_consume(const struct gemm_job &job, unsigned tiles,
                                                  char *shared, uint32_t base) {
    const int count = (int)((job.k + WG_DEPTH - 1) / WG_DEPTH);
    struct wg_pipe p = {base, 0, 0, count};
    char *const own = shared + WG_BLOCKS + (int)threadIdx.x / 32 * GEMM_BLOCK_BYTES;
    float sum[128];
    struct gemm_signer signer;
    for (unsigned t = blockIdx.x; t < tiles; t += gridDim.x) {
        const struct gemm_place place = gemm_place_of(job, job.first_tile + t);
        if (count == 0) {
#pragma unroll
            for (int i = 0; i < 128; i++)
                sum[i] = 0;
        }
        if (SIGNED)
            gemm_signer_begin(&signer, own, (uint32_t *)(shared + WG_TABLE), job.checksum, place);
        if (SIGNED)
            signer.stages = count;
        wg_tile<BF16, TURN_A, TURN_B, SIGNED>(job, place, &p, shared, &signer, sum);
        if (SIGNED) {
            struct gemm_sign sums;
            if (job.plant != HF_GEMM_PLANT_NONE)
                wg_plant_sum(job, place, sum);
            wg_sign_sums(job, signer, &sums, sum);
            gemm_signer_end<WG_BAR>(job, &signer, &sums, place, job.first_tile + t,
                                    (uint64_t *)(shared + WG_SUMS));
        }
        wg_store(job, place, (float *)own, sum);
    }
    if (SIGNED)
        gemm_finish<WG_BAR>(job, (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x,
                            (uint64_t *)(shared + WG_SUMS));
}

template <bool BF16, int TURN_A, int TURN_B, bool SIGNED>
static __global__ void __launch_bounds__(WG_THREADS, 1)
    wgmma_kernel(const __grid_constant__ CUtensorMap map_a,
                 const __grid_constant__ CUtensorMap map_b,
                 const __grid_constant__ struct gemm_job job, unsigned tiles) {
    extern __shared__ char wg_shared[];
    const uint32_t from = hf_shared(wg_shared), base = (from + 1023) / 1024 * 1024;
    char *const shared = wg_shared + (base - from);
    if (threadIdx.x == 0) {
        for (int i = 0; i < WG_STAGES; i++) {
            hf_mbar_init(base + WG_BARRIERS + (uint32_t)i * 8, 1);
            hf_mbar_init(base + WG_BARRIERS + (uint32_t)(WG_STAGES + i) * 8, WG_CONSUMERS / 32);
        }
        hf_mbar_init_fence();
    }
    if (SIGNED && gemm_is_crc(job.checksum))
        gemm_crc_fill((uint32_t *)(shared + WG_TABLE), job.checksum);
    __syncthreads();
    if (threadIdx.x >= WG_CONSUMERS) {
        hf_regs_lower<40>();
        if (threadIdx.x == WG_CONSUMERS)
            wg_produce<TURN_A, TURN_B>(job, tiles, &map_a, &map_b, base);
    } else {
        hf_regs_raise<232>();
        wg_consume<BF16, TURN_A, TURN_B, SIGNED>(job, tiles, shared, base);
    }
}

#endif
