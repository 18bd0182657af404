/* SPDX-License-Identifier: Apache-2.0
 * Signatures of gemm_wgmma.cuh's products: its shared memory, and what consumers, signers and the
 * warp that writes entries do. */
#ifndef HF_GEMM_WGMMA_SIGN_CUH
#define HF_GEMM_WGMMA_SIGN_CUH

#include "device/cuda/ptx.cuh"
#include "ops/gemm/cuda/gemm_sign.cuh"
#include "ops/gemm/sm90/gemm_beside.cuh"

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
#define WG_RINGS (WG_BLOCKS + WG_CONSUMERS / 32 * GEMM_BLOCK_BYTES)
#define WG_TILES (WG_RINGS + 2 * BESIDE_RING) /* of two warps that sum; a third has the table */
#define WG_SHARED (WG_TILES + 16 + 1024)      /* and to begin at a multiple of 1,024 */
#define WG_BAR 1                              /* of the consumers */
#define WG_BOTH 2                             /* of consumers and signers */
#define WG_ENTRY 3                            /* of consumers and the warp that writes entries */
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

/* What a consumer signs of a tile, shares of its panels and its sums; and has signed of the tiles
 * of an entry. */
struct wg_shares {
    struct wg_share a, b;
    struct gemm_sign sums;
    uint64_t key;    /* of the tile */
    uint64_t all[3]; /* of A, of B, of the sums */
    int32_t panels, tiles;
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

/* The last stage of a tile was signed. */
static __device__ __forceinline__ void wg_sign_panels(const struct gemm_job &job,
                                                      const struct gemm_place &place, int count,
                                                      struct wg_shares *shares) {
    if (count == 0)
        shares->key = gemm_key(place);
    shares->all[0] += gemm_placed(shares->a.sign, job.checksum, shares->key, threadIdx.x);
    shares->all[1] += gemm_placed(shares->b.sign, job.checksum, shares->key, threadIdx.x);
    shares->panels += gemm_shares(count * WG_PIECES_A, place.col, job.tiles_n) +
                      gemm_shares(count * WG_PIECES_B, place.row, job.tiles_m);
    shares->tiles++;
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
                                                     struct wg_shares *shares, char *shared) {
    uint64_t *const sums = (uint64_t *)(shared + WG_SUMS);
    if (MODE == GEMM_SIGNED) {
        gemm_warp_sums(shares->all, sums);
        if (threadIdx.x == 0) {
            wg_counts(shared)[0] = shares->panels;
            wg_counts(shared)[1] = shares->tiles;
        }
        hf_bar_sync(WG_ENTRY, WG_CONSUMERS + 32);
    } else {
        gemm_block_sums<WG_BAR>(shares->all, sums);
        if (threadIdx.x == 0) {
            gemm_stored(job);
            gemm_write_entry(job, at, shares->all, shares->panels, shares->tiles);
        }
    }
    shares->all[0] = shares->all[1] = shares->all[2] = 0;
    shares->panels = shares->tiles = 0;
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

#endif
