/* SPDX-License-Identifier: Apache-2.0
 * Products of float64 by the tensor cores, which sum each element as a chain of fused multiply-adds
 * in the order of the products: the bits are those of the CPU's kernels. A tile's 8 warps have 32 x
 * 64 sums each; two stages of 16 products lie in shared memory as they lie in memory, brought by
 * cp.async. The sums of blocks of 256 products so far wait in shared memory. */
#ifndef HF_GEMM_DMMA_CUH
#define HF_GEMM_DMMA_CUH

#include "device/cuda/ptx.cuh"
#include "ops/gemm/cuda/gemm_sign.cuh"

#define DMMA_TILE 128
#define DMMA_DEPTH 16 /* products of a stage */
#define DMMA_STAGES 2
#define DMMA_BLOCK (HF_GEMM_BLOCK / DMMA_DEPTH)
/* Numbers from one line, or product, to the next: four at one place meet all banks. */
#define DMMA_ALONG (DMMA_DEPTH + 4)
#define DMMA_ACROSS (DMMA_TILE + 4)
#define DMMA_SIDE (DMMA_TILE * DMMA_ALONG) /* numbers of a stage of A or B */
static_assert(DMMA_SIDE >= DMMA_DEPTH * DMMA_ACROSS, "both fit");
#define DMMA_SHARED (DMMA_STAGES * 2 * DMMA_SIDE * 8)
#define DMMA_TOTALS (DMMA_TILE * DMMA_TILE * 8)

static __device__ __forceinline__ int dmma_at(bool along, int line, int product) {
    return along ? line * DMMA_ALONG + product : product * DMMA_ACROSS + line;
}

/* Copies of 16 bytes, of which so many are there, or of 8. */
static __device__ __forceinline__ void dmma_copy8(uint32_t dst, const void *src, uint32_t bytes) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(dst), "l"(src), "r"(bytes)
                 : "memory");
}

/* Start the copies of products from `from` on; what is not there becomes 0. */
static __device__ __noinline__ void dmma_fetch(const struct gemm_side &side, const double *data,
                                               uint32_t stage, int64_t first, int64_t from,
                                               int64_t k) {
    const bool along = side.step == 1;
    const int width = side.wide ? 2 : 1;
    const int across = (along ? DMMA_DEPTH : DMMA_TILE) / width;
    for (int at = (int)threadIdx.x; at < DMMA_TILE * DMMA_DEPTH / width; at += GEMM_THREADS) {
        const int line = along ? at / across : at % across * width;
        const int product = along ? at % across * width : at / across;
        const int64_t l = first + line, p = from + product;
        const int64_t left = along ? k - p : side.lines - l;
        const bool there = (along ? l < side.lines : p < k) && left > 0;
        const double *src = there ? data + l * side.line + p * side.step : data;
        const uint32_t to = stage + (uint32_t)dmma_at(along, line, product) * 8;
        if (width == 2)
            hf_copy_async(to, src, there ? (left > 1 ? 16 : 8) : 0);
        else
            dmma_copy8(to, src, there ? 8 : 0);
    }
}

/* Where this thread's part of the next stage of a side comes from, if all of it is there: copies of
 * 16 bytes, or of 8 where rows begin elsewhere, at equal distances. */
struct dmma_source {
    const double *at, *data;
    int64_t first;       /* line of the tile */
    int64_t apart, next; /* from one copy to the next, and to the next stage */
    uint32_t to;         /* of the first one in a stage, bytes */
    bool whole;          /* all lines of the tile are there; else: */
    int rounds, bytes;   /* so many copies, and so much of each */
};

template <bool ALONG>
static __device__ __forceinline__ struct dmma_source
dmma_source_of(const struct gemm_side &side, const double *data, int64_t first) {
    const int t = (int)threadIdx.x, width = side.wide ? 2 : 1;
    const int across = (ALONG ? DMMA_DEPTH : DMMA_TILE) / width;
    const int line = ALONG ? t / across : t % across * width;
    const int product = ALONG ? t % across * width : t / across;
    const int down = GEMM_THREADS / across; /* lines, or products, of a round */
    struct dmma_source s;
    s.data = data;
    s.first = first;
    s.at = data + (first + line) * side.line + product * side.step;
    s.apart = down * (ALONG ? side.line : side.step);
    s.next = DMMA_DEPTH * side.step;
    s.to = (uint32_t)dmma_at(ALONG, line, product) * 8;
    s.whole = first + DMMA_TILE <= side.lines;
    const int left = (int)max((int64_t)0, min(side.lines - first - line, (int64_t)DMMA_TILE));
    s.rounds = ALONG ? (left + down - 1) / down : DMMA_TILE;
    s.bytes = ALONG ? 8 * width : 8 * min(left, width);
    return s;
}

template <bool ALONG, int WIDTH, bool WHOLE>
static __device__ __forceinline__ void dmma_rounds(const struct dmma_source &s, uint32_t stage) {
    constexpr int ACROSS = (ALONG ? DMMA_DEPTH : DMMA_TILE) / WIDTH;
    constexpr int DOWN = GEMM_THREADS / ACROSS;
    constexpr uint32_t STEP = DOWN * (ALONG ? DMMA_ALONG : DMMA_ACROSS) * 8;
#pragma unroll
    for (int i = 0; i < DMMA_TILE * DMMA_DEPTH / WIDTH / GEMM_THREADS; i++) {
        const uint32_t to = stage + s.to + i * STEP;
        const uint32_t bytes = WHOLE ? 8 * WIDTH : i < s.rounds ? (uint32_t)s.bytes : 0;
        const void *const at = WHOLE || bytes > 0 ? s.at + i * s.apart : s.data;
        if (WIDTH == 2)
            hf_copy_async(to, at, bytes);
        else
            dmma_copy8(to, at, bytes);
    }
}

/* The stage of a side that begins with product `from`. */
template <bool ALONG>
static __device__ __forceinline__ void dmma_bring(struct dmma_source &s,
                                                  const struct gemm_side &side, uint32_t stage,
                                                  int64_t from, int64_t k) {
    if (from + DMMA_DEPTH > k)
        dmma_fetch(side, s.data, stage, s.first, from, k);
    else if (s.whole && side.wide)
        dmma_rounds<ALONG, 2, true>(s, stage);
    else if (s.whole)
        dmma_rounds<ALONG, 1, true>(s, stage);
    else if (side.wide)
        dmma_rounds<ALONG, 2, false>(s, stage);
    else
        dmma_rounds<ALONG, 1, false>(s, stage);
    s.at += s.next;
}

/* Products past the end must not change a sum, not even the sign of its zero: -0 times 0. */
static __device__ __forceinline__ void dmma_pad(double *a, bool along, int left) {
    __syncthreads();
    for (int i = (int)threadIdx.x; i < DMMA_TILE * DMMA_DEPTH; i += GEMM_THREADS)
        if (i / DMMA_TILE >= left)
            a[dmma_at(along, i % DMMA_TILE, i / DMMA_TILE)] = -0.0;
    __syncthreads();
}

/* d += A B of 16 x 8 sums and 16 products, in order. a[i]: row lane / 4 + 8 (i % 2), product
 * lane % 4 + 4 (i / 2); b[i]: column lane / 4, product lane % 4 + 4 i; d[i]: row lane / 4 + 8 (i /
 * 2), column lane % 4 * 2 + i % 2. */
static __device__ __forceinline__ void dmma_step(double *d, const double (&a)[8],
                                                 const double (&b)[4]) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f64.f64.f64.f64 {%0, %1, %2, %3}, "
                 "{%4, %5, %6, %7, %8, %9, %10, %11}, {%12, %13, %14, %15}, {%0, %1, %2, %3};"
                 : "+d"(d[0]), "+d"(d[1]), "+d"(d[2]), "+d"(d[3])
                 : "d"(a[0]), "d"(a[1]), "d"(a[2]), "d"(a[3]), "d"(a[4]), "d"(a[5]), "d"(a[6]),
                   "d"(a[7]), "d"(b[0]), "d"(b[1]), "d"(b[2]), "d"(b[3]));
}

/* Warps stand 4 x 2; each has 2 x 8 blocks of 16 x 8. */
static __device__ __forceinline__ int dmma_row(int i) {
    return (int)threadIdx.x / 64 * 32 + i * 16 + (int)threadIdx.x % 32 / 4;
}
static __device__ __forceinline__ int dmma_col(int j) {
    return (int)threadIdx.x / 32 % 2 * 64 + j * 8 + (int)threadIdx.x % 4 * 2;
}

/* amid() comes when some products are on their way, so that the tensor cores do not wait for it. */
template <bool ALONG_A, bool ALONG_B, typename AMID>
static __device__ __forceinline__ void dmma_multiply(double (&sum)[2][8][4], const double *a,
                                                     const double *b, AMID amid) {
    const int line = (int)threadIdx.x % 32 / 4, product = (int)threadIdx.x % 4;
    double x[2][8];
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
        for (int e = 0; e < 8; e++)
            x[i][e] = a[dmma_at(ALONG_A, dmma_row(i) + e % 2 * 8, product + e / 2 * 4)];
#pragma unroll
    for (int j = 0; j < 8; j++) {
        double y[4];
        const int col = (int)threadIdx.x / 32 % 2 * 64 + j * 8 + line;
#pragma unroll
        for (int e = 0; e < 4; e++)
            y[e] = b[dmma_at(ALONG_B, col, product + e * 4)];
#pragma unroll
        for (int i = 0; i < 2; i++)
            dmma_step(sum[i][j], x[i], y);
        if (j == 1)
            amid();
    }
}

/* The sums of a block of products join those before. */
static __device__ __forceinline__ void dmma_add(double (&sum)[2][8][4], double *totals, bool begin,
                                                bool end) {
#pragma unroll
    for (int i = 0; i < 64; i++) {
        double &s = sum[i / 32][i / 4 % 8][i % 4];
        double *const at = totals + i * GEMM_THREADS + (int)threadIdx.x;
        const double t = begin ? s : *at + s;
        if (end) {
            s = t;
        } else {
            *at = t;
            s = 0;
        }
    }
}

/* The words of a side's stage that this thread signs, eight at a time. */
template <typename SIGN>
static __device__ __forceinline__ void dmma_words(const double *side, bool along, SIGN sign) {
    constexpr int EACH = 4;
#pragma unroll 1
    for (int from = (int)threadIdx.x; from < DMMA_TILE * DMMA_DEPTH; from += EACH * GEMM_THREADS) {
        uint32_t w[2 * EACH];
#pragma unroll
        for (int e = 0; e < EACH; e++) {
            const int i = from + e * GEMM_THREADS;
            const double v = side[along ? dmma_at(true, i / DMMA_DEPTH, i % DMMA_DEPTH)
                                        : dmma_at(false, i % DMMA_TILE, i / DMMA_TILE)];
            w[2 * e] = (uint32_t)__double2loint(v);
            w[2 * e + 1] = (uint32_t)__double2hiint(v);
        }
        sign(w);
    }
}

static __device__ __noinline__ struct gemm_sign dmma_sign_any(struct gemm_sign sign, int checksum,
                                                              const uint32_t *table,
                                                              const double *side, bool along) {
    dmma_words(side, along,
               [&](const uint32_t(&w)[8]) { gemm_sign_words(&sign, checksum, table, w); });
    return sign;
}

/* Fletcher beside the products, all others in a place of their own: the loop over stages shall stay
 * in the cache of instructions. */
static __device__ __forceinline__ void dmma_sign(struct gemm_sign *sign, int checksum,
                                                 const uint32_t *table, const double *side,
                                                 bool along) {
    if (checksum == HF_CHECKSUM_FLETCHER)
        dmma_words(side, along, [&](const uint32_t(&w)[8]) { gemm_fletcher(sign, w); });
    else
        *sign = dmma_sign_any(*sign, checksum, table, side, along);
}

/* Faults on purpose: see mma_plant(). */
static __device__ __forceinline__ void
dmma_plant(const struct gemm_job &job, const struct gemm_place &place, int stage, double *a) {
    const int64_t element = job.plant_at / 32, row = element / job.k, p = element % job.k;
    const int64_t product = p - (int64_t)stage * DMMA_DEPTH;
    const int64_t line = row - (int64_t)place.row * DMMA_TILE;
    __syncthreads();
    if (threadIdx.x == 0 && place.col == 0 && place.batch == 0 && product >= 0 &&
        product < DMMA_DEPTH && line >= 0 && line < DMMA_TILE)
        *(uint32_t *)(a + dmma_at(job.a.step == 1, (int)line, (int)product)) ^=
            1u << job.plant_at % 32;
    __syncthreads();
}

static __device__ __forceinline__ void
dmma_plant_sum(const struct gemm_job &job, const struct gemm_place &place, double (&sum)[2][8][4]) {
    int64_t at[2];
    if (!gemm_plants(job, place, DMMA_TILE, DMMA_TILE, at))
        return;
#pragma unroll
    for (int i = 0; i < 64; i++) {
        double &s = sum[i / 32][i / 4 % 8][i % 4];
        if (at[0] == dmma_row(i / 32) + i / 2 % 2 * 8 && at[1] == dmma_col(i / 4 % 8) + i % 2)
            s = __hiloint2double(__double2hiint(s),
                                 (int)gemm_planted(job, (uint32_t)__double2loint(s),
                                                   gemm_plant_at(job, place.batch)));
    }
}

static __device__ __forceinline__ void dmma_sign_sums(const struct gemm_job &job,
                                                      const struct gemm_signer &s,
                                                      struct gemm_sign *sign,
                                                      const double (&sum)[2][8][4]) {
    uint32_t w[128];
#pragma unroll
    for (int i = 0; i < 64; i++) {
        w[2 * i] = (uint32_t)__double2loint(sum[i / 32][i / 4 % 8][i % 4]);
        w[2 * i + 1] = (uint32_t)__double2hiint(sum[i / 32][i / 4 % 8][i % 4]);
    }
    gemm_sign_begin(sign, job.checksum);
    gemm_sign_words(sign, job.checksum, s.table, w);
    gemm_sign_fold(sign, job.checksum);
}

template <bool ALONG_A, bool ALONG_B, enum gemm_mode MODE>
static __global__ void __launch_bounds__(GEMM_THREADS, 1)
    dmma_kernel(const __grid_constant__ struct gemm_job job) {
    constexpr bool SIGNED = MODE != GEMM_PLAIN;
    extern __shared__ __align__(128) char dmma_shared[];
    double *const stages = (double *)dmma_shared;
    char *const signs = dmma_shared + DMMA_SHARED;
    double *const totals = (double *)(signs + (SIGNED ? GEMM_SIGN_BYTES : 0));
    const uint32_t base = hf_shared(dmma_shared);
    const int64_t tile = job.first_tile + blockIdx.x;
    const struct gemm_place place = gemm_place_of(job, tile);
    const double *const a = (const double *)job.a.data + place.batch * job.a.stride;
    const double *const b = (const double *)job.b.data + place.batch * job.b.stride;
    const int64_t row = (int64_t)place.row * DMMA_TILE, col = (int64_t)place.col * DMMA_TILE;
    const int count = (int)((job.k + DMMA_DEPTH - 1) / DMMA_DEPTH);
    struct dmma_source from_a = dmma_source_of<ALONG_A>(job.a, a, row);
    struct dmma_source from_b = dmma_source_of<ALONG_B>(job.b, b, col);
    double sum[2][8][4] = {};
    struct gemm_signer signer = {};
    if (SIGNED)
        gemm_signer_begin(&signer,
                          signs + GEMM_SUMS_BYTES + (int)threadIdx.x / 32 * GEMM_KEPT_BYTES,
                          (uint32_t *)(signs + GEMM_SUMS_BYTES + GEMM_WARPS * GEMM_KEPT_BYTES),
                          job.checksum, place);
    if (SIGNED)
        signer.stages = count;
    if (SIGNED && gemm_is_crc(job.checksum))
        gemm_crc_fill(signer.table, job.checksum);
    const auto fetch = [&](int stage) {
        const uint32_t to = base + (uint32_t)(stage % DMMA_STAGES * 2 * DMMA_SIDE * 8);
        const int64_t from = (int64_t)stage * DMMA_DEPTH;
        if (stage < count) {
            dmma_bring<ALONG_A>(from_a, job.a, to, from, job.k);
            dmma_bring<ALONG_B>(from_b, job.b, to + DMMA_SIDE * 8, from, job.k);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int s = 0; s < DMMA_STAGES - 1; s++)
        fetch(s);
    int stage = 0;
    do {
        const int next = min(signer.next_a, signer.next_b);
        const int stop = MODE == GEMM_SIGNED ? min(count, next + 1) : count;
        const auto sign_stage = [&](int which) {
            const double *const of = stages + which % DMMA_STAGES * 2 * DMMA_SIDE;
            gemm_staged(gemm_turns_of(job), &signer, which,
                        [&](struct gemm_sign *state, bool of_a) {
                            dmma_sign(state, job.checksum, signer.table, of_a ? of : of + DMMA_SIDE,
                                      of_a ? ALONG_A : ALONG_B);
                        });
        };
        for (; stage < stop; stage++) {
            double *const own_a = stages + stage % DMMA_STAGES * 2 * DMMA_SIDE;
            double *const own_b = own_a + DMMA_SIDE;
            const bool last = stage + 1 == count;
            asm volatile("cp.async.wait_group %0;" ::"n"(DMMA_STAGES - 2) : "memory");
            __syncthreads(); /* this stage has come for all, and the one before is free */
            if (last && job.k % DMMA_DEPTH != 0)
                dmma_pad(own_a, ALONG_A, (int)(job.k % DMMA_DEPTH));
            if (MODE == GEMM_RELEASED)
                sign_stage(stage);
            if (MODE == GEMM_RELEASED && job.plant == HF_GEMM_PLANT_A)
                dmma_plant(job, place, stage, own_a);
            dmma_multiply<ALONG_A, ALONG_B>(sum, own_a, own_b,
                                            [&]() { fetch(stage + DMMA_STAGES - 1); });
            if (MODE == GEMM_RELEASED)
                gemm_released(job, &signer, tile, {row, col},
                              [&](struct gemm_sign *state, bool of_a) {
                                  dmma_sign(state, job.checksum, signer.table, of_a ? own_a : own_b,
                                            of_a ? ALONG_A : ALONG_B);
                              });
            if (count > DMMA_BLOCK && ((stage + 1) % DMMA_BLOCK == 0 || last))
                dmma_add(sum, totals, stage < DMMA_BLOCK, last);
        }
        if (MODE == GEMM_SIGNED && stage == next + 1) /* it lies there until the next one is done */
            sign_stage(next);
    } while (MODE == GEMM_SIGNED && stage < count);
    struct gemm_sign sums;
    if (SIGNED) {
        if (MODE == GEMM_RELEASED && job.plant != HF_GEMM_PLANT_NONE)
            dmma_plant_sum(job, place, sum);
        __syncthreads(); /* for the table where there is no stage */
        dmma_sign_sums(job, signer, &sums, sum);
    }
#pragma unroll
    for (int i = 0; i < 32; i++) {
        const double v[2] = {sum[i / 16][i / 2 % 8][i % 2 * 2],
                             sum[i / 16][i / 2 % 8][i % 2 * 2 + 1]};
        gemm_store<double, 2>(job, place.batch, row + dmma_row(i / 16) + i % 2 * 8,
                              col + dmma_col(i / 2 % 8), v);
    }
    if (SIGNED) {
        gemm_signer_end<0>(job, &signer, &sums, place, gemm_key(place), (uint64_t *)signs);
        gemm_finish<0>(job, 1, (uint64_t *)signs);
    }
}

template <bool ALONG_A, bool ALONG_B, enum gemm_mode MODE>
static hf_status dmma_start(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    const int shared = DMMA_SHARED + (MODE != GEMM_PLAIN ? GEMM_SIGN_BYTES : 0) +
                       (job->k > HF_GEMM_BLOCK ? DMMA_TOTALS : 0);
    return gemm_start(cuda, dmma_kernel<ALONG_A, ALONG_B, MODE>, job, blocks, shared);
}

template <enum gemm_mode MODE>
static hf_status dmma_launch(struct hf_cuda *cuda, const struct gemm_job *job, unsigned blocks) {
    const bool a = job->a.step == 1, b = job->b.step == 1;
    if (a)
        return b ? dmma_start<true, true, MODE>(cuda, job, blocks)
                 : dmma_start<true, false, MODE>(cuda, job, blocks);
    return b ? dmma_start<false, true, MODE>(cuda, job, blocks)
             : dmma_start<false, false, MODE>(cuda, job, blocks);
}

#endif
