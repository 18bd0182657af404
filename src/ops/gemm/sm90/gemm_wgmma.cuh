/* SPDX-License-Identifier: Apache-2.0
 * Products of 16-bit numbers by wgmma: a warp brings stages of 64 products by the copy engine, two
 * warpgroups have 64 x 256 sums each. Blocks stay and take one tile after the other, so that the
 * first stages of a tile come while the last one is stored. Steps of 16 products are in order.
 * Who multiplies signs, too: pieces of a stage while its products are on their way, and the sums.
 * Three more warps sign stages that are to be released. */
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
#define WG_BLOCKS (WG_SUMS + 512) /* of each warp, for what it stores */
#define WG_SHARED                                                                                  \
    (WG_BLOCKS + WG_CONSUMERS / 32 * GEMM_BLOCK_BYTES +                                            \
     1024)         /* and to begin at a multiple of 1,024 */
#define WG_BAR 1   /* of the consumers */
#define WG_BOTH 2  /* of consumers and signers */
#define WG_ENTRY 3 /* of consumers and the warp that writes entries */
#define WG_SIGNERS 96
static_assert(GEMM_SUMS_BYTES <= 384, "the sums' place");
static_assert(WG_STAGES * 3 * 8 <= 128 && WG_SHARED <= 232448, "it fits a multiprocessor");

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
/* Consumers are done with it, where it is signed once more. */
static __device__ __forceinline__ uint32_t wg_used(const struct wg_pipe &p) {
    return p.base + WG_BARRIERS + (uint32_t)(2 * WG_STAGES + p.stage) * 8;
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

/* This signer's words of a side's stage; past its end they count as 0. Fletcher's come 16 at once:
 * a stage that takes long to sign holds up the products. */
template <int BYTES>
static __device__ __forceinline__ void wg_sign(struct gemm_sign *sign, int checksum,
                                               const uint32_t *table, const char *side) {
    constexpr int STEP = WG_SIGNERS * 16, EACH = 4;
    const int first = ((int)threadIdx.x - WG_CONSUMERS - 32) * 16;
    if (checksum == HF_CHECKSUM_FLETCHER) {
#pragma unroll 1
        for (int from = first; from < BYTES; from += EACH * STEP) {
            uint32_t w[4 * EACH];
#pragma unroll
            for (int i = 0; i < EACH; i++) {
                const int at = from + i * STEP;
                const uint4 v = at < BYTES ? *(const uint4 *)(side + at) : make_uint4(0, 0, 0, 0);
                w[4 * i] = v.x, w[4 * i + 1] = v.y, w[4 * i + 2] = v.z, w[4 * i + 3] = v.w;
            }
            gemm_fletcher(sign, w);
        }
    } else {
#pragma unroll 1
        for (int at = first; at < BYTES; at += STEP) {
            const uint4 v = *(const uint4 *)(side + at);
            const uint32_t w[4] = {v.x, v.y, v.z, v.w};
            gemm_sign_words(sign, checksum, table, w);
        }
    }
    gemm_sign_fold(sign, checksum);
}

/* A stage that is to be released: signed now, and when the consumers are done with it. */
static __device__ __noinline__ void wg_sign_twice(const struct gemm_job &job, int64_t tile,
                                                  struct wg_pipe p, const char *stage,
                                                  const uint32_t *table) {
    struct gemm_sign then, now;
    gemm_sign_begin(&then, job.checksum);
    wg_sign<WG_STAGE>(&then, job.checksum, table, stage);
    if (job.plant == HF_GEMM_PLANT_A)
        hf_bar_sync(WG_BOTH, WG_CONSUMERS + WG_SIGNERS);
    hf_mbar_wait(wg_used(p), p.parity);
    gemm_sign_begin(&now, job.checksum);
    wg_sign<WG_STAGE>(&now, job.checksum, table, stage);
    const struct gemm_place place = gemm_place_of(job, tile);
    if (now.a != then.a || now.b != then.b)
        gemm_tell_changed(job, tile, (int64_t)place.row * WG_ROWS, (int64_t)place.col * WG_COLS);
}

/* Every stage, signed when it came and when the consumers are done with it. */
static __device__ __forceinline__ void wg_sign_stages(const struct gemm_job &job, unsigned tiles,
                                                      char *shared, uint32_t base) {
    const uint32_t *const table = (const uint32_t *)(shared + WG_TABLE);
    const int count = (int)((job.k + WG_DEPTH - 1) / WG_DEPTH);
    struct wg_pipe p = {base, 0, 0, count};
    for (unsigned t = blockIdx.x; t < tiles; t += gridDim.x) {
        for (int i = 0; i < count; i++) {
            hf_mbar_wait(wg_full(p), p.parity);
            if (job.release)
                wg_sign_twice(job, job.first_tile + t, p, shared + p.stage * WG_STAGE, table);
            else if (job.plant == HF_GEMM_PLANT_A)
                hf_bar_sync(WG_BOTH, WG_CONSUMERS + WG_SIGNERS);
            if (threadIdx.x % 32 == 0)
                hf_mbar_arrive(wg_empty(p));
            wg_next(&p);
        }
    }
}

/* What a consumer signs of a tile's panels: every so many pieces of 16 bytes for each thread. */
#define WG_PIECE (WG_CONSUMERS * 16)
#define WG_PIECES_A (WG_A_BYTES / WG_PIECE)
#define WG_PIECES_B (WG_B_BYTES / WG_PIECE)
struct wg_share {
    struct gemm_sign sign;
    int next; /* piece, counted from the stage's first one on */
};

static __device__ __forceinline__ void wg_share_begin(struct wg_share *share, int checksum,
                                                      int first) {
    gemm_sign_begin(&share->sign, checksum);
    share->next = first;
}

template <int BYTES>
static __device__ __forceinline__ void wg_share_sign(struct wg_share *share, int checksum,
                                                     const uint32_t *table, const char *side,
                                                     int every) {
    constexpr int PIECES = BYTES / WG_PIECE;
    const uint4 *const own = (const uint4 *)side + threadIdx.x;
    int next = share->next;
    if (next < PIECES && checksum == HF_CHECKSUM_FLETCHER) {
        struct gemm_sign sign = share->sign;
#pragma unroll 1
        for (; next + every < PIECES; next += 2 * every) {
            const uint4 u = own[next * WG_CONSUMERS], v = own[(next + every) * WG_CONSUMERS];
            const uint32_t w[8] = {u.x, u.y, u.z, u.w, v.x, v.y, v.z, v.w};
            gemm_fletcher(&sign, w);
        }
        if (next < PIECES) {
            const uint4 v = own[next * WG_CONSUMERS];
            const uint32_t w[4] = {v.x, v.y, v.z, v.w};
            gemm_fletcher(&sign, w);
            next += every;
        }
        share->sign = sign;
    }
#pragma unroll 1
    for (; next < PIECES; next += every) {
        const uint4 v = own[next * WG_CONSUMERS];
        const uint32_t w[4] = {v.x, v.y, v.z, v.w};
        gemm_sign_words(&share->sign, checksum, table, w);
    }
    share->next = next - PIECES;
}

/* What the consumers sign of a tile: shares of its panels, and its sums. */
struct wg_shares {
    struct wg_share a, b;
    struct gemm_sign sums;
    uint64_t key; /* of the tile */
};

#define WG_FOLD 64 /* stages, of each of which a thread signs at most 32 words of a side */
static_assert(WG_FOLD * WG_PIECES_B * 4 <= 4096, "as gemm_sign_fold() asks for");

static __device__ __forceinline__ void wg_shares_sign(const struct gemm_job &job,
                                                      const struct gemm_place &place,
                                                      struct wg_shares *shares, const char *shared,
                                                      int stage, int number) {
    const uint32_t *const table = (const uint32_t *)(shared + WG_TABLE);
    const char *const side = shared + stage * WG_STAGE;
    wg_share_sign<WG_A_BYTES>(&shares->a, job.checksum, table, side, (int)job.tiles_n);
    wg_share_sign<WG_B_BYTES>(&shares->b, job.checksum, table, side + WG_A_BYTES, (int)job.tiles_m);
    if (number % WG_FOLD == 0) {
        gemm_sign_fold(&shares->a.sign, job.checksum);
        gemm_sign_fold(&shares->b.sign, job.checksum);
    }
    if (number == 0)
        shares->key = gemm_key(place);
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

/* Fletcher's words come from registers. Code for each checksum and 128 words would be more than the
 * cache of instructions holds: all others take them from memory, four at a time. */
static __device__ __forceinline__ void wg_sign_sums(const struct gemm_job &job,
                                                    const uint32_t *table, struct gemm_sign *sign,
                                                    const float (&sum)[128]) {
    uint32_t w[128];
#pragma unroll
    for (int i = 0; i < 128; i++)
        w[i] = gemm_bits(sum[i]);
    gemm_sign_begin(sign, job.checksum);
    if (job.checksum == HF_CHECKSUM_FLETCHER) {
        gemm_fletcher(sign, w);
    } else {
        uint32_t kept[128];
#pragma unroll
        for (int i = 0; i < 128; i++)
            *(volatile uint32_t *)&kept[i] = w[i];
#pragma unroll 1
        for (int i = 0; i < 128; i += 4) {
            const uint32_t four[4] = {kept[i], kept[i + 1], kept[i + 2], kept[i + 3]};
            gemm_sign_words(sign, job.checksum, table, four);
        }
    }
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

template <enum gemm_mode MODE>
static __device__ __forceinline__ void wg_free(const struct gemm_job &job,
                                               const struct wg_pipe &p) {
    if (threadIdx.x % 32 == 0)
        hf_mbar_arrive(wg_empty(p));
    if (MODE == GEMM_RELEASED && job.release && threadIdx.x % 32 == 0)
        hf_mbar_arrive(wg_used(p));
}

/* What a consumer has signed of the tiles of an entry. */
struct wg_signed {
    uint64_t sum[3]; /* of A, of B, of the sums */
    int32_t panels, tiles;
};

/* The last stage of a tile was signed. */
static __device__ __forceinline__ void wg_sign_panels(const struct gemm_job &job,
                                                      const struct gemm_place &place, int count,
                                                      const struct wg_shares &shares,
                                                      struct wg_signed *all) {
    all->sum[0] += gemm_placed(shares.a.sign, job.checksum, shares.key, threadIdx.x);
    all->sum[1] += gemm_placed(shares.b.sign, job.checksum, shares.key, threadIdx.x);
    all->panels += gemm_shares(count * WG_PIECES_A, place.col, job.tiles_n) +
                   gemm_shares(count * WG_PIECES_B, place.row, job.tiles_m);
    all->tiles++;
}

/* All stages of a tile. One is free when the products of the next one have started; when its own
 * are done if it is signed once more, since the signers wait for that. */
template <bool BF16, int TURN_A, int TURN_B, enum gemm_mode MODE>
static __device__ __forceinline__ void
wg_tile(const struct gemm_job &job, const struct gemm_place &place, struct wg_pipe *p, char *shared,
        struct wg_shares *shares, struct wg_signed *all, float (&sum)[128]) {
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
    if (MODE != GEMM_PLAIN && count == 0)
        shares->key = gemm_key(place);
    if (MODE != GEMM_PLAIN) /* while the last products are on their way */
        wg_sign_panels(job, place, count, *shares, all);
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

/* Does an entry end with the block's tile t? */
static __device__ __forceinline__ bool wg_ends(const struct gemm_job &job, unsigned t,
                                               unsigned tiles) {
    return !job.by_block || t + gridDim.x >= tiles;
}

/* Where an entry's number of panels and tiles lie beside the sums of the warps. */
static __device__ __forceinline__ int32_t *wg_counts(char *shared) {
    return (int32_t *)(shared + WG_SUMS + GEMM_SUMS_BYTES);
}

/* An entry's last tile is stored and signed. */
template <enum gemm_mode MODE>
static __device__ __forceinline__ void wg_sign_entry(const struct gemm_job &job, int64_t at,
                                                     struct wg_signed *all, char *shared) {
    uint64_t *const sums = (uint64_t *)(shared + WG_SUMS);
    if (MODE == GEMM_SIGNED) {
        gemm_warp_sums(all->sum, sums);
        if (threadIdx.x == 0) {
            wg_counts(shared)[0] = all->panels;
            wg_counts(shared)[1] = all->tiles;
        }
        hf_bar_sync(WG_ENTRY, WG_CONSUMERS + 32);
    } else {
        gemm_block_sums<WG_BAR>(all->sum, sums);
        if (threadIdx.x == 0) {
            gemm_stored(job);
            gemm_write_entry(job, at, all->sum, all->panels, all->tiles);
        }
    }
    *all = {};
}

/* A warp that does nothing else writes the block's entries: it waits until the tile is in memory
 * while the consumers sign it. */
static __device__ __forceinline__ void wg_write_entries(const struct gemm_job &job, unsigned tiles,
                                                        char *shared) {
    for (unsigned t = blockIdx.x; t < tiles; t += gridDim.x) {
        uint64_t sum[3];
        if (!wg_ends(job, t, tiles))
            continue;
        hf_bar_sync(WG_ENTRY, WG_CONSUMERS + 32);
        if (threadIdx.x % 32 == 0)
            gemm_stored(job);
        hf_bar_sync(WG_ENTRY, WG_CONSUMERS + 32);
        gemm_add_warps(sum, (const uint64_t *)(shared + WG_SUMS));
        if (threadIdx.x % 32 == 0)
            gemm_write_entry(job, job.by_block ? blockIdx.x : job.first_tile + t, sum,
                             wg_counts(shared)[0], wg_counts(shared)[1]);
    }
    if (job.sums != NULL)
        hf_bar_sync(WG_ENTRY, WG_CONSUMERS + 32);
}

template <bool BF16, int TURN_A, int TURN_B, enum gemm_mode MODE>
static __device__ __forceinline__ void wg_consume(const struct gemm_job &job, unsigned tiles,
                                                  char *shared, uint32_t base) {
    constexpr bool SIGNED = MODE != GEMM_PLAIN;
    const int count = (int)((job.k + WG_DEPTH - 1) / WG_DEPTH);
    struct wg_pipe p = {base, 0, 0, count};
    char *const own = shared + WG_BLOCKS + (int)threadIdx.x / 32 * GEMM_BLOCK_BYTES;
    float sum[128] = {};
    struct wg_signed all = {};
    for (unsigned t = blockIdx.x; t < tiles; t += gridDim.x) {
        const struct gemm_place place = gemm_place_of(job, job.first_tile + t);
        struct wg_shares shares;
        if (SIGNED) {
            wg_share_begin(&shares.a, job.checksum, place.col);
            wg_share_begin(&shares.b, job.checksum, place.row);
        }
        if (MODE == GEMM_RELEASED && count == 0) { /* a fault was planted in those before */
#pragma unroll
            for (int i = 0; i < 128; i++)
                sum[i] = 0;
        }
        wg_tile<BF16, TURN_A, TURN_B, MODE>(job, place, &p, shared, &shares, &all, sum);
        if (MODE == GEMM_RELEASED && job.plant != HF_GEMM_PLANT_NONE)
            wg_plant_sum(job, place, sum);
        if (wg_stores_halves(job))
            wg_store_halves<BF16>(job, place, own, sum);
        else
            wg_store(job, place, (float *)own, sum);
        if (MODE == GEMM_SIGNED && wg_ends(job, t, tiles))
            hf_bar_sync(WG_ENTRY, WG_CONSUMERS + 32);
        if (SIGNED)
            wg_sign_sums(job, (const uint32_t *)(shared + WG_TABLE), &shares.sums, sum);
        if (SIGNED)
            all.sum[2] += gemm_placed(shares.sums, job.checksum, shares.key, threadIdx.x);
        if (SIGNED && wg_ends(job, t, tiles))
            wg_sign_entry<MODE>(job, job.by_block ? blockIdx.x : job.first_tile + t, &all, shared);
    }
    if (MODE == GEMM_SIGNED && job.sums != NULL) /* the entries are there */
        hf_bar_sync(WG_ENTRY, WG_CONSUMERS + 32);
    if (SIGNED)
        gemm_finish<WG_BAR>(job, (tiles - blockIdx.x + gridDim.x - 1) / gridDim.x,
                            (uint64_t *)(shared + WG_SUMS));
}

/* The shared memory of a block, its barriers made. All threads. */
template <enum gemm_mode MODE>
static __device__ __forceinline__ char *wg_begin(char *dynamic, uint32_t *base) {
    const uint32_t from = hf_shared(dynamic);
    *base = (from + 1023) / 1024 * 1024;
    char *const shared = dynamic + (*base - from);
    if (threadIdx.x == 0) {
        for (int i = 0; i < WG_STAGES; i++) {
            hf_mbar_init(*base + WG_BARRIERS + (uint32_t)i * 8, 1);
            hf_mbar_init(*base + WG_BARRIERS + (uint32_t)(WG_STAGES + i) * 8,
                         (WG_CONSUMERS + (MODE == GEMM_RELEASED ? WG_SIGNERS : 0)) / 32);
            hf_mbar_init(*base + WG_BARRIERS + (uint32_t)(2 * WG_STAGES + i) * 8,
                         WG_CONSUMERS / 32);
        }
        hf_mbar_init_fence();
    }
    return shared;
}

template <bool BF16, int TURN_A, int TURN_B, enum gemm_mode MODE>
static __global__ void __launch_bounds__(WG_THREADS, 1)
    wgmma_kernel(const __grid_constant__ CUtensorMap map_a,
                 const __grid_constant__ CUtensorMap map_b,
                 const __grid_constant__ struct gemm_job job, unsigned tiles) {
    extern __shared__ char wg_shared[];
    uint32_t base;
    char *const shared = wg_begin<MODE>(wg_shared, &base);
    if (MODE != GEMM_PLAIN && gemm_is_crc(job.checksum))
        gemm_crc_fill((uint32_t *)(shared + WG_TABLE), job.checksum);
    __syncthreads();
    if (threadIdx.x >= WG_CONSUMERS) {
        hf_regs_lower<MODE == GEMM_RELEASED ? 56 : 40>();
        if (threadIdx.x == WG_CONSUMERS)
            wg_produce<TURN_A, TURN_B>(job, tiles, &map_a, &map_b, base);
        else if (MODE == GEMM_RELEASED && threadIdx.x >= WG_CONSUMERS + 32)
            wg_sign_stages(job, tiles, shared, base);
        else if (MODE == GEMM_SIGNED && threadIdx.x / 32 == WG_CONSUMERS / 32 + 1)
            wg_write_entries(job, tiles, shared);
    } else {
        hf_regs_raise<MODE == GEMM_RELEASED ? 224 : 232>();
        wg_consume<BF16, TURN_A, TURN_B, MODE>(job, tiles, shared, base);
    }
}

#endif
