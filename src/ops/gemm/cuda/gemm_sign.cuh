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

/* What a block signs of a tile. The checksums of a thread's words wait in shared memory, or they
 * would take registers from the products: of A, of B, and of the stage that is at work. */
struct gemm_signer {
    char *kept;         /* of this warp */
    uint32_t *table;    /* of a CRC */
    int next_a, next_b; /* stages of A and B that are this tile's share */
    int stages;         /* of the tile */
};

enum gemm_kept { GEMM_KEPT_A, GEMM_KEPT_B, GEMM_KEPT_STAGE, GEMM_KEPT_COUNT };
#define GEMM_KEPT_BYTES (GEMM_KEPT_COUNT * 32 * 16) /* of a warp */
#define GEMM_WARPS (GEMM_THREADS / 32)
#define GEMM_SUMS 5 /* numbers that are added up at once */
#define GEMM_SUMS_BYTES (GEMM_WARPS * GEMM_SUMS * 8)
#define GEMM_SIGN_BYTES (GEMM_SUMS_BYTES + GEMM_WARPS * GEMM_KEPT_BYTES + GEMM_CRC_WORDS * 4)

static __device__ __forceinline__ struct gemm_sign *gemm_kept(const struct gemm_signer *s,
                                                              int which) {
    return (struct gemm_sign *)s->kept + which * 32 + threadIdx.x % 32;
}

/* table: gemm_crc_fill() filled it, or will before a barrier. */
static __device__ __forceinline__ void gemm_signer_begin(struct gemm_signer *s, char *kept,
                                                         uint32_t *table, int checksum,
                                                         const struct gemm_place &place) {
    s->kept = kept;
    s->table = table;
    s->next_a = place.col;
    s->next_b = place.row;
    gemm_sign_begin(gemm_kept(s, GEMM_KEPT_A), checksum);
    gemm_sign_begin(gemm_kept(s, GEMM_KEPT_B), checksum);
}

/* A stage has come: sign it if it is this tile's share, and for the release. sign(state, of_a)
 * takes this thread's words of a side. */
template <typename SIGN>
static __device__ __forceinline__ void gemm_staged(const struct gemm_job &job,
                                                   struct gemm_signer *s, int stage, SIGN sign) {
    if (stage == s->next_a) {
        struct gemm_sign own = *gemm_kept(s, GEMM_KEPT_A);
        sign(&own, true);
        gemm_sign_fold(&own, job.checksum);
        *gemm_kept(s, GEMM_KEPT_A) = own;
        s->next_a += (int)job.tiles_n;
    }
    if (stage == s->next_b) {
        struct gemm_sign own = *gemm_kept(s, GEMM_KEPT_B);
        sign(&own, false);
        gemm_sign_fold(&own, job.checksum);
        *gemm_kept(s, GEMM_KEPT_B) = own;
        s->next_b += (int)job.tiles_m;
    }
    if (job.release) {
        struct gemm_sign own;
        gemm_sign_begin(&own, job.checksum);
        sign(&own, true);
        sign(&own, false);
        *gemm_kept(s, GEMM_KEPT_STAGE) = own;
    }
}

/* The first stage from `stage` on that is this tile's share of A or B, or to be released. */
static __device__ __forceinline__ int gemm_next_share(const struct gemm_job &job,
                                                      const struct gemm_place &place, int stage) {
    const int a = (int)job.tiles_n, b = (int)job.tiles_m;
    const int to_a = (place.col - stage % a + a) % a, to_b = (place.row - stage % b + b) % b;
    return job.release ? stage : stage + min(to_a, to_b);
}

/* A panel changed between staging and release. */
static __device__ inline void gemm_tell_changed(const struct gemm_job &job, int64_t row,
                                                int64_t col) {
    struct hf_finding finding;
    finding.fault = HF_FAULT_CHECK;
    finding.kernel = job.kernel;
    finding.unit = hf_slot_unit();
    finding.column = (int32_t)col;
    finding.row = row;
    hf_slot_tell(job.slot, finding);
}

/* Is a sum of this tile, of so many rows and columns, to change on purpose, and which? */
static __device__ __forceinline__ bool gemm_plants(const struct gemm_job &job,
                                                   const struct gemm_place &place, int rows,
                                                   int cols, int64_t (&at)[2]) {
    const int64_t element = job.plant_at / 32;
    at[0] = at[1] = 0;
    if (job.plant == HF_GEMM_PLANT_UNIT)
        return hf_slot_unit() == (int32_t)element;
    at[0] = element / job.n - (int64_t)place.row * rows;
    at[1] = element % job.n - (int64_t)place.col * cols;
    return job.plant == HF_GEMM_PLANT_SUM && place.batch == 0;
}

/* Sign four neighbouring sums, of which one may change before, on purpose. */
template <typename U>
static __device__ __forceinline__ void
gemm_sign_four(const struct gemm_job &job, const struct gemm_signer &s, struct gemm_sign *sums,
               const struct gemm_spot &spot, U (&v)[4]) {
    uint32_t w[4];
    const int64_t element = job.plant_at / 32;
    const bool unit = job.plant == HF_GEMM_PLANT_UNIT && hf_slot_unit() == (int32_t)element &&
                      spot.row % 128 == 0 && spot.col % 128 == 0;
    const bool plant = job.plant == HF_GEMM_PLANT_SUM && spot.batch == 0 &&
                       element - spot.row * job.n >= spot.col &&
                       element - spot.row * job.n < min(spot.col + 4, job.n);
#pragma unroll
    for (int j = 0; j < 4; j++) {
        if ((unit && j == 0) || (plant && element == spot.row * job.n + spot.col + j))
            *(uint32_t *)&v[j] ^= 1u << job.plant_at % 32;
        w[j] = *(const uint32_t *)&v[j];
    }
    gemm_sign_words(sums, job.checksum, s.table, w);
}

/* Done with a stage: is it as it was? row, col: of the tile. */
template <typename SIGN>
static __device__ __forceinline__ void gemm_released(const struct gemm_job &job,
                                                     const struct gemm_signer *s, int64_t row,
                                                     int64_t col, SIGN sign) {
    struct gemm_sign now;
    if (!job.release)
        return;
    gemm_sign_begin(&now, job.checksum);
    sign(&now, true);
    sign(&now, false);
    const struct gemm_sign *const then = gemm_kept(s, GEMM_KEPT_STAGE);
    if (now.a != then->a || now.b != then->b)
        gemm_tell_changed(job, row, col);
}

/* All GEMM_THREADS threads that multiply. */
template <int BAR> static __device__ __forceinline__ void gemm_bar(void) {
    asm volatile("bar.sync %0, %1;" ::"n"(BAR), "n"(GEMM_THREADS) : "memory");
}

/* Sums over these threads, in the first one. `shared`: room for N numbers of each warp. */
template <int BAR, int N>
static __device__ __forceinline__ void gemm_block_sums(uint64_t (&v)[N], uint64_t *shared) {
#pragma unroll
    for (int i = 0; i < N; i++)
#pragma unroll
        for (int step = 16; step > 0; step /= 2)
            v[i] += __shfl_down_sync(0xffffffffu, v[i], step);
    gemm_bar<BAR>();
    for (int i = 0; i < N && threadIdx.x % 32 == 0; i++)
        shared[threadIdx.x / 32 * N + i] = v[i];
    gemm_bar<BAR>();
    for (int i = 0; i < N && threadIdx.x == 0; i++)
        for (int w = 1; w < GEMM_WARPS; w++)
            v[i] += shared[w * N + i];
}

static __device__ inline uint64_t gemm_placed(const struct gemm_sign *s, int checksum,
                                              const struct gemm_place &place) {
    uint64_t value = gemm_mixed(gemm_sign_value(s, checksum), threadIdx.x);
    value = gemm_mixed(value, (uint64_t)place.row);
    value = gemm_mixed(value, (uint64_t)place.col);
    return gemm_mixed(value, (uint64_t)place.batch);
}

/* Of `stages` stages, those that are a tile's share whose number is this of so many. */
static __device__ __forceinline__ int64_t gemm_shares(int stages, int number, int64_t tiles) {
    return number < stages ? (stages - 1 - number) / tiles + 1 : 0;
}

/* sums: of a thread's sums. All threads that multiply. */
template <int BAR>
static __device__ inline void
gemm_signer_end(const struct gemm_job &job, const struct gemm_signer *s,
                const struct gemm_sign *sums, const struct gemm_place &place, int64_t tile,
                uint64_t *shared) {
    struct gemm_entry entry;
    const struct gemm_sign *const of[3] = {gemm_kept(s, GEMM_KEPT_A), gemm_kept(s, GEMM_KEPT_B),
                                           sums};
    uint64_t sum[3];
    for (int i = 0; i < 3; i++)
        sum[i] = gemm_placed(of[i], job.checksum, place);
    gemm_block_sums<BAR>(sum, shared);
    entry.a = sum[0];
    entry.b = sum[1];
    entry.c = sum[2];
    entry.panels = (int32_t)(gemm_shares(s->stages, place.col, job.tiles_n) +
                             gemm_shares(s->stages, place.row, job.tiles_m));
    entry.unit = hf_slot_unit();
    entry.stamp = job.stamp;
    if (threadIdx.x == 0)
        job.entries[tile] = entry;
}

static __device__ inline void gemm_tell_tile(const struct gemm_job &job, const struct gemm_entry &e,
                                             const struct gemm_place &place) {
    const bool done = e.stamp == job.stamp;
    job.told[(place.batch * job.tiles_m + place.row) * job.tiles_n + place.col] = {
        done ? e.c : 0,
        place.batch,
        (int64_t)place.row * job.tile_rows,
        (int64_t)place.col * job.tile_cols,
        done ? e.unit : -1,
        0};
}

/* The last block adds up all entries. All threads that multiply, after their last tile; they did so
 * many. */
template <int BAR>
static __device__ __noinline__ void gemm_finish(const struct gemm_job &job, unsigned tiles,
                                                uint64_t *shared) {
    uint64_t sum[GEMM_SUMS] = {};
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
        e.stamp = __ldcg(&at->stamp);
        e.panels = __ldcg(&at->panels);
        e.unit = __ldcg(&at->unit);
        const uint64_t v[GEMM_SUMS] = {e.a, e.b, e.c, (uint64_t)e.panels, 1};
#pragma unroll
        for (int j = 0; j < GEMM_SUMS; j++)
            sum[j] += v[j];
        const struct gemm_place place = gemm_place_of(job, i);
        if (e.stamp != job.stamp)
            gemm_tell_changed(job, place.row, place.col);
        if (job.told != NULL)
            gemm_tell_tile(job, e, place);
    }
    gemm_block_sums<BAR>(sum, shared);
    for (int j = 0; j < GEMM_SUMS && threadIdx.x == 0; j++)
        job.sums[j] = sum[j];
}

#endif
