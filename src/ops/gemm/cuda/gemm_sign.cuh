/* SPDX-License-Identifier: Apache-2.0
 * Execution signatures in kernels of a GPU. A thread signs the words that it finds in shared memory
 * at its places, in the order of the products, and its sums before they are stored; what threads
 * signed is mixed with their place and added modulo 2^64. Of the tiles that read the same panel
 * each signs a share, so that every staged word is signed once. */
#ifndef HF_GEMM_SIGN_CUH
#define HF_GEMM_SIGN_CUH

#include "device/cuda/slot.cuh"
#include "ops/gemm/cuda/checksum.cuh"
#include "ops/gemm/cuda/gemm_tile.cuh"

/* The bits of a sum, and back, unseen by the compiler: it would keep sums as integers, and move
 * them at each step. */
static __device__ __forceinline__ uint32_t gemm_bits(float v) {
    uint32_t w;
    asm("mov.b32 %0, %1;" : "=r"(w) : "f"(v));
    return w;
}
static __device__ __forceinline__ float gemm_float(uint32_t w) {
    float v;
    asm("mov.b32 %0, %1;" : "=f"(v) : "r"(w));
    return v;
}

/* Steele, Lea and Flood: Fast splittable pseudorandom number generators (2014). */
static __device__ inline uint64_t gemm_mixed(uint64_t x, uint64_t place) {
    x += 0x9e3779b97f4a7c15u * (place + 1);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

/* Of an entry of the call with this stamp: each of its parts changes it. */
static __host__ __device__ inline uint64_t gemm_seal(const struct gemm_entry &e, uint64_t stamp) {
    const uint64_t by = 0x9e3779b97f4a7c15u;
    const uint64_t counts = (uint64_t)(uint32_t)e.tiles << 32 | (uint32_t)e.panels;
    return ((((stamp * by + e.a) * by + e.b) * by + e.c) * by + counts) * by + (uint32_t)e.unit;
}

/* What a block signs of a tile. The checksums of a thread's words wait in shared memory, or they
 * would take registers from the products: of A, of B, and of the stage that is at work. */
struct gemm_signer {
    char *kept;         /* of this warp */
    uint32_t *table;    /* of a CRC */
    int next_a, next_b; /* stages of A and B that are this tile's share */
    int stages;         /* of the tile */
};

/* A folded checksum, or two numbers of stages. */
struct gemm_kept {
    uint32_t a, b;
};

enum gemm_kept_at {
    GEMM_KEPT_A,
    GEMM_KEPT_B,
    GEMM_KEPT_STAGE,
    GEMM_KEPT_NEXT, /* next_a and next_b of those who have no registers for them */
    GEMM_KEPT_COUNT
};
#define GEMM_KEPT_BYTES (GEMM_KEPT_COUNT * 32 * 8) /* of a warp */
#define GEMM_WARPS (GEMM_THREADS / 32)
#define GEMM_SUMS 5 /* numbers that are added up at once */
#define GEMM_SUMS_BYTES (GEMM_WARPS * GEMM_SUMS * 8)
#define GEMM_SIGN_BYTES (GEMM_SUMS_BYTES + GEMM_WARPS * GEMM_KEPT_BYTES + GEMM_CRC_WORDS * 4)

static __device__ __forceinline__ struct gemm_kept *gemm_kept(const struct gemm_signer *s,
                                                              int which) {
    return (struct gemm_kept *)s->kept + which * 32 + threadIdx.x % 32;
}

static __device__ __forceinline__ struct gemm_sign gemm_take(const struct gemm_signer *s,
                                                             int which) {
    const struct gemm_kept k = *gemm_kept(s, which);
    return {k.a, k.b};
}

static __device__ __forceinline__ void gemm_keep(const struct gemm_signer *s, int which,
                                                 struct gemm_sign sign, int checksum) {
    gemm_sign_fold(&sign, checksum);
    *gemm_kept(s, which) = {(uint32_t)sign.a, (uint32_t)sign.b};
}

/* table: gemm_crc_fill() filled it, or will before a barrier. */
static __device__ __forceinline__ void gemm_signer_begin(struct gemm_signer *s, char *kept,
                                                         uint32_t *table, int checksum,
                                                         const struct gemm_place &place) {
    struct gemm_sign begin;
    s->kept = kept;
    s->table = table;
    s->next_a = place.col;
    s->next_b = place.row;
    gemm_sign_begin(&begin, checksum);
    gemm_keep(s, GEMM_KEPT_A, begin, checksum);
    gemm_keep(s, GEMM_KEPT_B, begin, checksum);
}

/* What a kernel does beside the product: nothing; T and O; these, and L or a fault on purpose; sums
 * of rows and columns (wgmma's alone). Each is a kernel of its own, so that products keep their
 * registers. */
enum gemm_mode { GEMM_PLAIN, GEMM_SIGNED, GEMM_RELEASED, GEMM_SUMMED };

static inline enum gemm_mode gemm_mode_of(const struct gemm_job *job) {
    if (job->entries == NULL)
        return GEMM_PLAIN;
    return job->release || job->plant != HF_GEMM_PLANT_NONE ? GEMM_RELEASED : GEMM_SIGNED;
}

/* Which stages a tile signs: every so many of those of A and B, or all of them. */
struct gemm_turns {
    int checksum, release;
    int a, b; /* tiles that share a panel of A, of B */
};

static __device__ __forceinline__ struct gemm_turns gemm_turns_of(const struct gemm_job &job) {
    return {job.checksum, job.release, (int)job.tiles_n, (int)job.tiles_m};
}

/* A stage has come: sign it if it is this tile's share, and for the release. sign(state, of_a)
 * takes this thread's words of a side. */
template <typename SIGN>
static __device__ __forceinline__ void gemm_staged(const struct gemm_turns &turns,
                                                   struct gemm_signer *s, int stage, SIGN sign) {
    if (stage == s->next_a) {
        struct gemm_sign own = gemm_take(s, GEMM_KEPT_A);
        sign(&own, true);
        gemm_keep(s, GEMM_KEPT_A, own, turns.checksum);
        s->next_a += turns.a;
    }
    if (stage == s->next_b) {
        struct gemm_sign own = gemm_take(s, GEMM_KEPT_B);
        sign(&own, false);
        gemm_keep(s, GEMM_KEPT_B, own, turns.checksum);
        s->next_b += turns.b;
    }
    if (turns.release) {
        struct gemm_sign own;
        gemm_sign_begin(&own, turns.checksum);
        sign(&own, true);
        sign(&own, false);
        gemm_keep(s, GEMM_KEPT_STAGE, own, turns.checksum);
    }
}

/* A panel changed between staging and release, or nobody computed this tile. */
static __device__ inline void gemm_tell_changed(const struct gemm_job &job, int64_t tile,
                                                int64_t row, int64_t col) {
    struct hf_finding finding;
    job.entries[tile].changed[0] = job.stamp;
    finding.fault = HF_FAULT_CHECK;
    finding.kernel = job.kernel;
    finding.unit = hf_slot_unit();
    finding.column = (int32_t)col;
    finding.row = row;
    hf_slot_tell(job.slot, finding);
}

/* The bit at which product `batch` has its fault on purpose; -1: it has none. */
static __device__ __forceinline__ int64_t gemm_plant_at(const struct gemm_job &job, int64_t batch) {
    return batch == 0 || job.plant_step != 0 ? job.plant_at + batch * job.plant_step : -1;
}

/* A word with its bit `at` changed on purpose. */
static __device__ __forceinline__ uint32_t gemm_planted(const struct gemm_job &job, uint32_t word,
                                                        int64_t at) {
    const uint32_t bit = 1u << at % 32;
    return job.plant == HF_GEMM_PLANT_CARRY ? word + bit : word ^ bit;
}

/* Is a sum of this tile, of so many rows and columns, to change on purpose, and which? */
static __device__ __forceinline__ bool gemm_plants(const struct gemm_job &job,
                                                   const struct gemm_place &place, int rows,
                                                   int cols, int64_t (&at)[2]) {
    const int64_t bit = gemm_plant_at(job, place.batch), element = bit / 32;
    at[0] = at[1] = 0;
    if (job.plant == HF_GEMM_PLANT_UNIT)
        return hf_slot_unit() == (int32_t)(job.plant_at / 32);
    at[0] = element / job.n - (int64_t)place.row * rows;
    at[1] = element % job.n - (int64_t)place.col * cols;
    return (job.plant == HF_GEMM_PLANT_SUM || job.plant == HF_GEMM_PLANT_CARRY) && bit >= 0;
}

/* Sign four neighbouring sums, of which with PLANTS one may change before, on purpose. */
template <bool PLANTS, typename U>
static __device__ __forceinline__ void
gemm_sign_four(const struct gemm_job &job, const struct gemm_signer &s, struct gemm_sign *sums,
               const struct gemm_spot &spot, U (&v)[4]) {
    uint32_t w[4];
    if (PLANTS && job.plant != HF_GEMM_PLANT_NONE) {
        const bool unit = job.plant == HF_GEMM_PLANT_UNIT &&
                          hf_slot_unit() == (int32_t)(job.plant_at / 32) &&
                          spot.row % job.tile_rows == 0 && spot.col % job.tile_cols == 0;
        const int64_t bit = unit ? job.plant_at : gemm_plant_at(job, spot.batch);
        const int64_t element = bit / 32;
        const bool plant = (job.plant == HF_GEMM_PLANT_SUM || job.plant == HF_GEMM_PLANT_CARRY) &&
                           bit >= 0 && element - spot.row * job.n >= spot.col &&
                           element - spot.row * job.n < min(spot.col + 4, job.n);
#pragma unroll
        for (int j = 0; j < 4; j++)
            if ((unit && j == 0) || (plant && element == spot.row * job.n + spot.col + j))
                *(uint32_t *)&v[j] = gemm_planted(job, *(uint32_t *)&v[j], bit);
    }
#pragma unroll
    for (int j = 0; j < 4; j++)
        w[j] = *(const uint32_t *)&v[j];
    gemm_sign_words(sums, job.checksum, s.table, w);
}

/* Done with a stage: is it as it was? at: row and column of the tile. */
template <typename SIGN>
static __device__ __forceinline__ void gemm_released(const struct gemm_job &job,
                                                     const struct gemm_signer *s, int64_t tile,
                                                     const int64_t (&at)[2], SIGN sign) {
    struct gemm_sign now;
    if (!job.release)
        return;
    gemm_sign_begin(&now, job.checksum);
    sign(&now, true);
    sign(&now, false);
    gemm_sign_fold(&now, job.checksum);
    const struct gemm_sign then = gemm_take(s, GEMM_KEPT_STAGE);
    if ((uint32_t)now.a != then.a || (uint32_t)now.b != then.b)
        gemm_tell_changed(job, tile, at[0], at[1]);
}

/* All GEMM_THREADS threads that multiply. */
template <int BAR> static __device__ __forceinline__ void gemm_bar(void) {
    asm volatile("bar.sync %0, %1;" ::"n"(BAR), "n"(GEMM_THREADS) : "memory");
}

/* The sum over a warp, in three parts, of which 32 do not overflow. */
static __device__ __forceinline__ uint64_t gemm_warp_sum(uint64_t v) {
    const uint32_t part = (1u << 22) - 1, all = 0xffffffffu;
    const uint64_t low = __reduce_add_sync(all, (uint32_t)v & part);
    const uint64_t mid = __reduce_add_sync(all, (uint32_t)(v >> 22) & part);
    const uint64_t high = __reduce_add_sync(all, (uint32_t)(v >> 44));
    return low + (mid << 22) + (high << 44);
}

/* Sums over a warp into its place at `shared`. */
template <int N>
static __device__ __forceinline__ void gemm_warp_sums(const uint64_t (&v)[N], uint64_t *shared) {
#pragma unroll
    for (int i = 0; i < N; i++) {
        const uint64_t sum = gemm_warp_sum(v[i]);
        if (threadIdx.x % 32 == 0)
            shared[threadIdx.x / 32 * N + i] = sum;
    }
}

/* The sums of those. All threads of a warp. */
template <int N>
static __device__ __forceinline__ void gemm_add_warps(uint64_t (&v)[N], const uint64_t *shared) {
    const unsigned warp = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < N; i++)
        v[i] = gemm_warp_sum(warp < GEMM_WARPS ? shared[warp * N + i] : 0);
}

/* Sums over these threads, in the first one. `shared`: room for N numbers of each warp. */
template <int BAR, int N>
static __device__ __forceinline__ void gemm_block_sums(uint64_t (&v)[N], uint64_t *shared) {
    gemm_bar<BAR>();
    gemm_warp_sums(v, shared);
    gemm_bar<BAR>();
    if (threadIdx.x < 32)
        gemm_add_warps(v, shared);
}

/* By one thread that has met those who stored the tiles: the host takes a sealed entry for the end
 * of them. */
static __device__ __forceinline__ void gemm_stored(const struct gemm_job &job) {
    if (job.sums == NULL)
        __threadfence_system();
}

/* By that thread. */
static __device__ __forceinline__ void gemm_write_entry(const struct gemm_job &job, int64_t at,
                                                        const uint64_t (&sum)[3], int32_t panels,
                                                        int32_t tiles) {
    struct gemm_entry e = {sum[0], sum[1], sum[2], 0, panels, tiles, hf_slot_unit(), 0, {}};
    ulonglong2 *const to = (ulonglong2 *)(job.entries + at);
    e.seal = gemm_seal(e, job.stamp);
    to[0] = make_ulonglong2(e.a, e.b);
    to[1] = make_ulonglong2(e.c, e.seal);
    *(int4 *)(to + 2) = make_int4(e.panels, e.tiles, e.unit, 0);
}

/* Of a tile. */
static __device__ __forceinline__ uint64_t gemm_key(const struct gemm_place &place) {
    return gemm_mixed(gemm_mixed(gemm_mixed(0, (uint64_t)place.row), (uint64_t)place.col),
                      (uint64_t)place.batch);
}

/* What thread `thread` of those that sign a tile of this key adds to the sums. */
static __device__ __forceinline__ uint64_t gemm_placed(const struct gemm_sign &s, int checksum,
                                                       uint64_t key, unsigned thread) {
    return gemm_mixed(gemm_sign_value(&s, checksum) ^ key, thread);
}

/* Of `stages` stages, those that are a tile's share whose number is this of so many. */
static __device__ __forceinline__ int32_t gemm_shares(int stages, int number, int64_t tiles) {
    return number < stages ? (int32_t)((unsigned)(stages - 1 - number) / (unsigned)tiles + 1) : 0;
}

/* sums: of a thread's sums; key: of the tile. All threads that multiply, a block for each tile,
 * when they have stored it. */
template <int BAR>
static __device__ inline void
gemm_signer_end(const struct gemm_job &job, const struct gemm_signer *s,
                const struct gemm_sign *sums, const struct gemm_place &place, uint64_t key,
                uint64_t *shared) {
    const struct gemm_sign a = gemm_take(s, GEMM_KEPT_A), b = gemm_take(s, GEMM_KEPT_B);
    uint64_t sum[3] = {gemm_placed(a, job.checksum, key, threadIdx.x),
                       gemm_placed(b, job.checksum, key, threadIdx.x),
                       gemm_placed(*sums, job.checksum, key, threadIdx.x)};
    gemm_block_sums<BAR>(sum, shared);
    if (threadIdx.x == 0) {
        gemm_stored(job);
        gemm_write_entry(job, job.first_tile + blockIdx.x, sum,
                         gemm_shares(s->stages, place.col, job.tiles_n) +
                             gemm_shares(s->stages, place.row, job.tiles_m),
                         1);
    }
}

static __device__ inline void gemm_tell_tile(const struct gemm_job &job, const struct gemm_entry &e,
                                             const struct gemm_place &place) {
    const bool done = e.seal == gemm_seal(e, job.stamp);
    job.told[(place.batch * job.tiles_m + place.row) * job.tiles_n + place.col] = {
        done ? e.c : 0,
        place.batch,
        (int64_t)place.row * job.tile_rows,
        (int64_t)place.col * job.tile_cols,
        done ? e.unit : -1,
        e.changed[0] == job.stamp,
        done ? e.a : 0,
        done ? e.b : 0};
}

/* The last block adds up all entries, unless the host does. All threads that multiply, after their
 * last tile; they did so many. */
template <int BAR>
static __device__ __noinline__ void gemm_finish(const struct gemm_job &job, unsigned tiles,
                                                uint64_t *shared) {
    uint64_t sum[GEMM_SUMS] = {};
    if (job.sums == NULL)
        return;
    gemm_bar<BAR>();
    if (threadIdx.x == 0) {
        __threadfence();
        *shared = atomicAdd(job.done, tiles) + tiles == (unsigned)job.tiles;
        __threadfence();
    }
    gemm_bar<BAR>();
    if (*shared == 0)
        return;
    for (int64_t i = threadIdx.x; i < job.tiles; i += GEMM_THREADS) {
        const struct gemm_entry *const at = job.entries + i;
        struct gemm_entry e;
        e.a = __ldcg(&at->a);
        e.b = __ldcg(&at->b);
        e.c = __ldcg(&at->c);
        e.seal = __ldcg(&at->seal);
        e.panels = __ldcg(&at->panels);
        e.tiles = __ldcg(&at->tiles);
        e.unit = __ldcg(&at->unit);
        e.changed[0] = __ldcg(&at->changed[0]);
        const uint64_t v[GEMM_SUMS] = {e.a, e.b, e.c, (uint64_t)e.panels, 1};
#pragma unroll
        for (int j = 0; j < GEMM_SUMS; j++)
            sum[j] += v[j];
        const struct gemm_place place = gemm_place_of(job, i);
        if (e.seal != gemm_seal(e, job.stamp))
            gemm_tell_changed(job, i, place.row, place.col);
        if (job.told != NULL)
            gemm_tell_tile(job, e, place);
    }
    gemm_block_sums<BAR>(sum, shared);
    for (int j = 0; j < GEMM_SUMS && threadIdx.x == 0; j++)
        job.sums[j] = sum[j];
}

#endif
