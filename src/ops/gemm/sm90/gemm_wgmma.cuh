/* SPDX-License-Identifier: Apache-2.0
 * Products of 16-bit numbers by wgmma: a warp brings stages of 64 products by the copy engine, two
 * warpgroups have 64 x 256 sums each. Blocks stay and take one tile after the other, so that the
 * first stages of a tile come while the last one is stored. Steps of 16 products are in order.
 * Who multiplies signs, too: pieces of a stage while its products are on their way, and the sums.
 * Three more warps sign stages that are to be released, or sum rows and columns. */
#ifndef HF_GEMM_WGMMA_KERNEL_CUH
#define HF_GEMM_WGMMA_KERNEL_CUH

#include "ops/gemm/sm90/gemm_wgmma_sums.cuh"
#include "ops/gemm/sm90/wgmma.cuh"

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
    hf_bar_sync(WG_BOTH, WG_CONSUMERS + WG_SIGNERS); /* it was signed */
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
    const int64_t down = at[0] - wg_row(0), right = at[1] - wg_col(0);
    if ((down != 0 && down != 8) || right < 0 || right >= WG_COLS || right % 8 > 1)
        return;
    const int which = (int)(right / 8 * 4 + down / 4 + right % 8);
#pragma unroll
    for (int i = 0; i < 128; i++)
        if (i == which)
            sum[i] =
                gemm_float(gemm_planted(job, gemm_bits(sum[i]), gemm_plant_at(job, place.batch)));
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

/* Do the warps that sign stages have nothing to sign? */
static __device__ __forceinline__ bool wg_signs_nothing(const struct gemm_job &job) {
    return !job.release && job.plant != HF_GEMM_PLANT_A;
}

template <enum gemm_mode MODE>
static __device__ __forceinline__ void wg_free(const struct gemm_job &job,
                                               const struct wg_pipe &p) {
    if (threadIdx.x % 32 == 0)
        hf_mbar_arrive(wg_empty(p));
    if (MODE == GEMM_RELEASED && job.release && threadIdx.x % 32 == 0)
        hf_mbar_arrive(wg_used(p));
}

/* All stages of a tile. One is free when the products of the next one have started; when its own
 * are done if it is signed once more, since the signers wait for that. */
template <bool BF16, int TURN_A, int TURN_B, enum gemm_mode MODE>
static __device__ __forceinline__ void
wg_tile(const struct gemm_job &job, const struct gemm_place &place, struct wg_pipe *p, char *shared,
        struct wg_shares *shares, float (&sum)[128]) {
    const int count = p->count;
    const bool at_once = MODE == GEMM_RELEASED && job.release;
    struct wg_pipe last = *p;
    for (int i = 0; i < count; i++) {
        hf_mbar_wait(wg_full(*p), p->parity);
        if (MODE == GEMM_RELEASED)
            wg_shares_sign(job, place, shares, shared, p->stage, i);
        if (MODE == GEMM_RELEASED && job.plant == HF_GEMM_PLANT_A)
            wg_plant(job, place, i, shared + p->stage * WG_STAGE);
        wg_multiply<BF16, TURN_A, TURN_B>(sum, p->base + (uint32_t)(p->stage * WG_STAGE), i > 0);
        if (MODE == GEMM_SIGNED)
            wg_shares_sign(job, place, shares, shared, p->stage, i);
        hf_wgmma_wait<1>();
        if (!at_once && i > 0)
            wg_free<MODE>(job, last);
        last = *p;
        if (at_once) {
            hf_wgmma_wait<0>();
            wg_free<MODE>(job, last);
        }
        wg_next(p);
    }
    if (MODE != GEMM_PLAIN) /* while the last products are on their way */
        wg_sign_panels(job, place, count, shares);
    hf_wgmma_wait<0>();
    hf_wgmma_hold(sum);
    if (count > 0 && !at_once)
        wg_free<MODE>(job, last);
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

/* C is of 16 bits, is not read, and takes 16 bytes at a time. */
static __device__ __forceinline__ bool wg_stores_halves(const struct gemm_job &job) {
    return job.dtype_c != HF_F32 && job.beta == 0 && job.c_wide;
}

/* Two elements. The conversions give a NaN other bits than gemm_half(). */
template <bool BF16> static __device__ __forceinline__ uint32_t wg_halves(float u, float v) {
    constexpr uint32_t NAN_BITS = BF16 ? 0x7fc0 : 0x7e00;
    uint32_t both;
    if (BF16)
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(v), "f"(u));
    else
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(v), "f"(u));
    both = u != u ? (both & 0xffff0000u) | NAN_BITS : both;
    return v != v ? (both & 0xffffu) | NAN_BITS << 16 : both;
}

static __device__ __noinline__ void wg_store_few(uint16_t *at, uint4 v, int count) {
    const uint32_t w[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 8; i++)
        if (i < count)
            at[i] = (uint16_t)(w[i / 2] >> i % 2 * 16);
}

/* 64 columns at a time through [16 rows][8 pieces of 16 bytes], exchanged so that eight rows at one
 * place meet all banks. */
template <bool BF16>
static __device__ __forceinline__ void wg_store_halves(const struct gemm_job &job,
                                                       const struct gemm_place &place, char *block,
                                                       const float (&sum)[128]) {
    const int lane = (int)threadIdx.x % 32, eight = lane / 4 % 8;
    const int64_t row = (int64_t)place.row * WG_ROWS + (int)threadIdx.x / 32 * 16 + lane / 8;
    const int64_t col = (int64_t)place.col * WG_COLS + lane % 8 * 8;
    const float alpha = (float)job.alpha;
    uint16_t *const c = (uint16_t *)job.c + place.batch * job.stride_c + row * job.ldc + col;
    char *const own = block + eight * 128 + lane % 4 * 4;
    const char *const from = block + lane / 8 * 128;
#pragma unroll
    for (int r = 0; r < WG_COLS / 64; r++) {
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 16; i++) {
            const float *const s = sum + r * 32 + i * 2;
            *(uint32_t *)(own + i % 2 * 1024 + ((i / 2 ^ eight) << 4)) =
                wg_halves<BF16>(__fmul_rn(alpha, s[0]), __fmul_rn(alpha, s[1]));
        }
        __syncwarp();
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int piece = lane % 8 ^ ((i * 4 + lane / 8) & 7);
            const uint4 v = *(const uint4 *)(from + i * 512 + (piece << 4));
            uint16_t *const at = c + (int64_t)(i * 4) * job.ldc + r * 64;
            const int64_t left = row + i * 4 < job.m ? job.n - col - r * 64 : 0;
            if (left >= 8)
                *(uint4 *)at = v;
            else if (left > 0)
                wg_store_few(at, v, (int)left);
        }
    }
}

template <bool BF16, int TURN_A, int TURN_B, enum gemm_mode MODE>
static __device__ __forceinline__ void wg_consume(const struct gemm_job &job, unsigned tiles,
                                                  char *shared, uint32_t base, bool summed) {
    constexpr bool SIGNED = MODE == GEMM_SIGNED || MODE == GEMM_RELEASED;
    const int count = (int)((job.k + WG_DEPTH - 1) / WG_DEPTH);
    struct wg_pipe p = {base, 0, 0, count};
    char *const own = shared + WG_BLOCKS + (int)threadIdx.x / 32 * GEMM_BLOCK_BYTES;
    float sum[128] = {};
    struct wg_shares shares = {};
    for (unsigned t = blockIdx.x; t < tiles; t += gridDim.x) {
        const struct gemm_place place = gemm_place_of(job, job.first_tile + t);
        if (SIGNED) {
            wg_share_begin(&shares.a, job.checksum, place.col);
            wg_share_begin(&shares.b, job.checksum, place.row);
        }
        if (MODE == GEMM_RELEASED && count == 0) { /* a fault was planted in those before */
#pragma unroll
            for (int i = 0; i < 128; i++)
                sum[i] = 0;
        }
        wg_tile<BF16, TURN_A, TURN_B, MODE>(job, place, &p, shared, &shares, sum);
        if (MODE == GEMM_RELEASED && job.plant != HF_GEMM_PLANT_NONE)
            wg_plant_sum(job, place, sum);
        if (wg_stores_halves(job))
            wg_store_halves<BF16>(job, place, own, sum);
        else
            wg_store(job, place, (float *)own, sum);
        if (summed)
            wg_stored(shared);
        if (MODE == GEMM_SIGNED && wg_ends(job, t, tiles))
            hf_bar_sync(WG_ENTRY, WG_CONSUMERS + 32);
        if (SIGNED)
            wg_sign_sums(job, (const uint32_t *)(shared + WG_TABLE), &shares.sums, sum);
        if (SIGNED)
            shares.all[2] += gemm_placed(shares.sums, job.checksum, shares.key, threadIdx.x);
        if (SIGNED && wg_ends(job, t, tiles))
            wg_sign_entry<MODE>(job, job.by_block ? blockIdx.x : job.first_tile + t, &shares,
                                shared);
    }
    if (MODE == GEMM_SIGNED && job.sums != NULL) /* the entries are there */
        hf_bar_sync(WG_ENTRY, WG_CONSUMERS + 32);
    if (SIGNED)
        gemm_finish<WG_BAR>(job, (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x,
                            (uint64_t *)(shared + WG_SUMS));
}

/* The shared memory of a block, its barriers made. All threads. */
template <enum gemm_mode MODE>
static __device__ __forceinline__ char *wg_begin(const struct gemm_job &job, char *dynamic,
                                                 uint32_t *base) {
    const uint32_t from = hf_shared(dynamic);
    *base = (from + 1023) / 1024 * 1024;
    char *const shared = dynamic + (*base - from);
    if (threadIdx.x == 0) {
        for (int i = 0; i < WG_STAGES; i++) {
            hf_mbar_init(*base + WG_BARRIERS + (uint32_t)i * 8, 1);
            hf_mbar_init(*base + WG_BARRIERS + (uint32_t)(WG_STAGES + i) * 8,
                         (WG_CONSUMERS +
                          (MODE == GEMM_RELEASED && !wg_signs_nothing(job) ? WG_SIGNERS : 0)) /
                             32);
            hf_mbar_init(*base + WG_BARRIERS + (uint32_t)(2 * WG_STAGES + i) * 8,
                         WG_CONSUMERS / 32);
        }
        hf_mbar_init_fence();
        *(struct gemm_beside_tiles *)(shared + WG_TILES) = {0, 0};
    }
    return shared;
}

template <bool BF16, int TURN_A, int TURN_B, enum gemm_mode MODE>
static __global__ void __launch_bounds__(WG_THREADS, 1)
    wgmma_kernel(const __grid_constant__ CUtensorMap map_a,
                 const __grid_constant__ CUtensorMap map_b,
                 const __grid_constant__ struct gemm_job job,
                 const __grid_constant__ struct gemm_beside beside, unsigned tiles) {
    extern __shared__ char wg_shared[];
    uint32_t base;
    char *const shared = wg_begin<MODE>(job, wg_shared, &base), *ring;
    const bool summed = wg_may_sum(MODE) && beside.next != NULL;
    if ((MODE == GEMM_SIGNED || MODE == GEMM_RELEASED) && gemm_is_crc(job.checksum))
        gemm_crc_fill((uint32_t *)(shared + WG_TABLE), job.checksum);
    __syncthreads();
    if (threadIdx.x >= WG_CONSUMERS) {
        hf_regs_lower<wg_regs(MODE)>();
        if (threadIdx.x < WG_CONSUMERS + 32) {
            if (threadIdx.x == WG_CONSUMERS)
                wg_produce<TURN_A, TURN_B>(job, tiles, &map_a, &map_b, base);
            return;
        }
        const unsigned number = (threadIdx.x - WG_CONSUMERS - 32) / 32;
        ring = shared + (number == 2 ? WG_TABLE : WG_RINGS + number * BESIDE_RING);
        if (MODE == GEMM_RELEASED && !wg_signs_nothing(job))
            wg_sign_stages(job, tiles, shared, base);
        else if (MODE == GEMM_SIGNED && threadIdx.x / 32 == WG_CONSUMERS / 32 + 1)
            wg_write_entries(job, tiles, shared);
    } else {
        hf_regs_raise<wg_regs_multiply(MODE)>();
        wg_consume<BF16, TURN_A, TURN_B, MODE>(job, tiles, shared, base, summed);
        if (!wg_may_sum(MODE) || !summed)
            return;
        hf_bar_sync(WG_BAR, WG_CONSUMERS); /* stages are free for what follows */
        hf_regs_lower<wg_regs(MODE)>();
        ring = shared + threadIdx.x / 32 * BESIDE_RING;
    }
    if (wg_may_sum(MODE) && summed)
        wg_sum<BF16>(job, beside, tiles, shared, ring);
}

#endif
