/* SPDX-License-Identifier: Apache-2.0
 * The product on a GPU with its signature at one loop: an element of C is one thread's, which signs
 * the operands of that loop as it multiplies them. The words of a thread stand at equal distances
 * in the order of the sequential product, and every checksum here is a sum of what a word
 * contributes at its place: so threads sum their words, and what all have is the signature of the
 * sequential product. */
#ifndef HF_ES_INTERNAL_CUH
#define HF_ES_INTERNAL_CUH

#include "ops/gemm/cuda/checksum.cuh"
#include "ops/gemm_es/gemm_es.h"

#define ES_THREADS 128
#define ES_MODULUS 0xffffffffu
#define ES_POWERS 40

#define ES_WARP 32

/* Powers of x modulo the polynomial of a CRC, whose bits are reversed: x to 32 times 2^b, and to 32
 * times the number of a lane. */
struct es_powers {
    uint32_t of[ES_POWERS], of_lane[ES_WARP], poly;
};

/* Sums of an entry of the array of signatures: see es_take_word(). */
struct es_total {
    unsigned long long a, b;
};

/* What the words of a warp come to, with so many words behind its first lane's last. */
struct es_part {
    uint64_t behind;
    uint32_t crc, unused;
};

/* Workspace; of CRCs of the sequential form parts [warps of the product] follow. jump: what a CRC
 * becomes when it is moved on by as many words as stand between two of a lane, and of the rest. */
struct es_work {
    struct es_total total[HF_ES_ENTRIES];
    uint32_t jump[2][GEMM_CRC_WORDS];
};

/* The product of two polynomials. */
static __host__ __device__ __forceinline__ uint32_t es_times(uint32_t x, uint32_t y,
                                                             uint32_t poly) {
    uint32_t product = 0;
    for (int bit = 31; bit >= 0; bit--) {
        if (x >> bit & 1)
            product ^= y;
        y = y >> 1 ^ (y & 1 ? poly : 0);
    }
    return product;
}

/* v moved on by so many words. */
static __device__ __forceinline__ uint32_t es_moved(uint32_t v, uint64_t words,
                                                    const struct es_powers &powers) {
    for (int b = 0; words > 0; b++, words >>= 1)
        if (words & 1)
            v = es_times(v, powers.of[b], powers.poly);
    return v;
}

static inline struct es_powers es_powers_of(int checksum) {
    struct es_powers powers;
    powers.poly = checksum == HF_CHECKSUM_CRC32 ? 0xedb88320u : 0x82f63b78u;
    powers.of[0] = 0x80000000u; /* 1 */
    for (int i = 0; i < 32; i++)
        powers.of[0] = powers.of[0] >> 1 ^ (powers.of[0] & 1 ? powers.poly : 0);
    for (int b = 1; b < ES_POWERS; b++)
        powers.of[b] = es_times(powers.of[b - 1], powers.of[b - 1], powers.poly);
    powers.of_lane[0] = 0x80000000u;
    for (int l = 1; l < ES_WARP; l++)
        powers.of_lane[l] = es_times(powers.of_lane[l - 1], powers.of[0], powers.poly);
    return powers;
}

/* Words of one entry: `each` for each step of the loop that is signed, this one at `at` of them;
 * takes: it is signed at all. */
struct es_place {
    int entry;
    int64_t each, at;
    bool takes;
};

/* b[q][j], or a[i][q] for j < 0. */
static __device__ __forceinline__ struct es_place es_place_of(const struct hf_gemm_es_args &p,
                                                              int64_t j) {
    const bool avx = p.form == HF_ES_AVX, internal = p.level == HF_ES_I;
    const bool all = internal || (avx && p.level == HF_ES_M); /* the whole rest of a row */
    const int64_t whole = avx ? p.n / HF_ES_LANES * HF_ES_LANES : 0;
    if (j >= 0 && j < whole)
        return {(int)(j % HF_ES_LANES), internal ? whole / HF_ES_LANES : 1,
                internal ? j / HF_ES_LANES : 0, internal || j >= whole - HF_ES_LANES};
    const int64_t each = all ? 1 + p.n - whole : whole > 0 ? 1 : 2;
    return {avx ? HF_ES_LANES : 0, each,
            j < 0 ? 0
            : all ? 1 + j - whole
                  : 1,
            j < 0 || all || (j == p.n - 1 && each == 2)};
}

/* Steps of the loop that is signed: of the external one, or of the intermediate one in all. */
static __device__ __forceinline__ int64_t es_steps(const struct hf_gemm_es_args &p, int64_t rows) {
    return p.level == HF_ES_E ? rows : rows * p.k;
}

static __device__ __forceinline__ uint64_t es_folded(uint64_t v) {
    return (v & ES_MODULUS) + (v >> 32);
}

/* Words of a thread, from the first of its row to the last. */
struct es_chain {
    uint64_t a, b;
    int64_t after; /* words of the entry behind the next one, and that one */
    int64_t each;
};

static __device__ __forceinline__ struct es_chain
es_chain_of(const struct hf_gemm_es_args &p, const struct es_place &place, int64_t i) {
    return {0, 0, es_steps(p, p.m - i) * place.each - place.at, place.each};
}

/* jump: what a CRC becomes when it is moved on by `each` words, table of its bytes. */
template <int CHECKSUM>
static __device__ __forceinline__ void es_take_word(struct es_chain *c, uint32_t w,
                                                    const uint32_t *jump) {
    switch (CHECKSUM) {
    case HF_CHECKSUM_XOR:
        c->a ^= w;
        break;
    case HF_CHECKSUM_ONES:
        c->a += c->after & 1 ? (uint32_t)~w : w;
        break;
    case HF_CHECKSUM_FLETCHER:
        c->a += w;
        c->b += es_folded((uint64_t)w * (uint32_t)((uint64_t)c->after % ES_MODULUS));
        break;
    case HF_CHECKSUM_CRC32:
    case HF_CHECKSUM_CRC32C:
        c->a = gemm_crc_step(jump, (uint32_t)c->a) ^ w;
        break;
    default:
        c->a += w;
    }
    c->after -= c->each;
}

static __host__ __device__ __forceinline__ bool es_is_crc(int checksum) {
    return checksum == HF_CHECKSUM_CRC32 || checksum == HF_CHECKSUM_CRC32C;
}

/* Sums modulo 2^32 stay as they are: no carry of theirs comes back. 2^32 words fit into 64 bits. */
template <int CHECKSUM>
static __device__ __forceinline__ unsigned long long es_part_of(uint64_t v) {
    return CHECKSUM == HF_CHECKSUM_TWOS ? v : es_folded(v);
}

/* A thread's words join the block's. */
template <int CHECKSUM>
static __device__ __forceinline__ void es_join(const struct es_chain &c, struct es_total *total,
                                               const struct es_powers &powers) {
    if (es_is_crc(CHECKSUM)) {
        const uint64_t behind = (uint64_t)(c.after + c.each);
        atomicXor(&total->a, (unsigned long long)es_moved((uint32_t)c.a, behind, powers));
    } else if (CHECKSUM == HF_CHECKSUM_XOR) {
        atomicXor(&total->a, (unsigned long long)c.a);
    } else {
        atomicAdd(&total->a, es_part_of<CHECKSUM>(c.a));
        atomicAdd(&total->b, es_part_of<CHECKSUM>(c.b));
    }
}

/* Of a byte, followed by 0 to 3 others, moved on by `each` words. */
static __device__ __forceinline__ uint32_t es_jump(int i, int64_t each,
                                                   const struct es_powers &powers) {
    return es_moved((uint32_t)(i & 255) << 8 * (i / 256), (uint64_t)each, powers);
}

static __global__ void __launch_bounds__(ES_THREADS)
    es_fill_jumps(const __grid_constant__ struct hf_gemm_es_args p, struct es_work *work,
                  const __grid_constant__ struct es_powers powers) {
    const int i = (int)(blockIdx.x * ES_THREADS + threadIdx.x), which = i / GEMM_CRC_WORDS;
    if (which < 2)
        work->jump[which][i % GEMM_CRC_WORDS] =
            es_jump(i % GEMM_CRC_WORDS, es_place_of(p, which == 0 ? 0 : -1).each, powers);
}

static __device__ __forceinline__ uint32_t es_warp_xor(uint32_t v) {
#pragma unroll
    for (int step = ES_WARP / 2; step > 0; step /= 2)
        v ^= __shfl_xor_sync(~0u, v, step);
    return v;
}

/* The CRCs of a warp whose words are neighbours become one, which es_join_parts() moves to its
 * place: that takes longer than the words of a thread. */
static __device__ __forceinline__ void es_join_warp(const struct es_chain &c, struct es_part *part,
                                                    const uint32_t *of_lane, uint32_t poly) {
    const int lane = (int)threadIdx.x % ES_WARP;
    const uint32_t crc = es_warp_xor(es_times((uint32_t)c.a, of_lane[ES_WARP - 1 - lane], poly));
    if (lane == ES_WARP - 1)
        *part = {(uint64_t)(c.after + c.each), crc, 0};
}

static __global__ void __launch_bounds__(ES_THREADS)
    es_join_parts(const struct es_part *part, int64_t parts, struct es_total *total,
                  const __grid_constant__ struct es_powers powers) {
    const int64_t i = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    const uint32_t crc = es_warp_xor(i < parts ? es_moved(part[i].crc, part[i].behind, powers) : 0);
    if (threadIdx.x % ES_WARP == 0)
        atomicXor(&total->a, (unsigned long long)crc);
}

/* INTERNAL: every operand is signed; else those that the place says, at E in the last step. */
template <int CHECKSUM, bool INTERNAL>
static __global__ void __launch_bounds__(ES_THREADS)
    es_signed_product(const __grid_constant__ struct hf_gemm_es_args p, struct es_work *work,
                      const __grid_constant__ struct es_powers powers) {
    __shared__ uint32_t jump[2][GEMM_CRC_WORDS], of_lane[ES_WARP];
    __shared__ struct es_total shared[HF_ES_ENTRIES];
    const int64_t at = (int64_t)blockIdx.x * ES_THREADS + threadIdx.x;
    const int64_t i = at / p.n, j = at % p.n;
    const struct es_place of_b = es_place_of(p, j), of_a = es_place_of(p, -1);
    struct es_part *const part = (struct es_part *)(work + 1) + at / ES_WARP;
    /* The warp's words are neighbours: one row, no lanes of AVX. */
    const bool joins = INTERNAL && es_is_crc(CHECKSUM) && p.form == HF_ES_SEQ;
    const bool row = joins && __all_sync(~0u, i == __shfl_sync(~0u, i, 0) && i < p.m);
    for (int e = (int)threadIdx.x; e < HF_ES_ENTRIES; e += ES_THREADS)
        shared[e] = {0, 0};
    for (int e = (int)threadIdx.x; es_is_crc(CHECKSUM) && e < 2 * GEMM_CRC_WORDS; e += ES_THREADS)
        jump[e / GEMM_CRC_WORDS][e % GEMM_CRC_WORDS] =
            work->jump[e / GEMM_CRC_WORDS][e % GEMM_CRC_WORDS];
    if (joins && threadIdx.x < ES_WARP)
        of_lane[threadIdx.x] = powers.of_lane[threadIdx.x];
    __syncthreads();
    if (i < p.m) {
        struct es_chain a = es_chain_of(p, of_a, i), b = es_chain_of(p, of_b, i);
        const uint32_t *const jump_b = jump[of_b.entry == of_a.entry];
        const int64_t from = p.level == HF_ES_E ? p.k - 1 : 0;
        float sum = 0;
        for (int64_t q = 0; q < p.k; q++) {
            const float x = p.a[i * p.k + q], y = p.b[q * p.n + j];
            const bool signs = INTERNAL || q >= from;
            if (j == 0 && signs)
                es_take_word<CHECKSUM>(&a, __float_as_uint(x), jump[1]);
            if (INTERNAL || (signs && of_b.takes))
                es_take_word<CHECKSUM>(&b, __float_as_uint(y), jump_b);
            sum = __fadd_rn(sum, __fmul_rn(x, y));
        }
        p.c[at] = sum != sum ? __int_as_float((int)0xffc00000) : sum; /* as a CPU's NaN */
        if (row)
            es_join_warp(b, part, of_lane, powers.poly);
        else if (INTERNAL || of_b.takes)
            es_join<CHECKSUM>(b, &shared[of_b.entry], powers);
        if (j == 0)
            es_join<CHECKSUM>(a, &shared[of_a.entry], powers);
    }
    if (joins && !row && threadIdx.x % ES_WARP == 0)
        *part = {0, 0, 0};
    __syncthreads();
    for (int e = (int)threadIdx.x; e < HF_ES_ENTRIES; e += ES_THREADS) {
        struct es_total *const total = &work->total[e];
        if (es_is_crc(CHECKSUM) || CHECKSUM == HF_CHECKSUM_XOR) {
            atomicXor(&total->a, shared[e].a);
        } else {
            atomicAdd(&total->a, es_part_of<CHECKSUM>(shared[e].a));
            atomicAdd(&total->b, es_part_of<CHECKSUM>(shared[e].b));
        }
    }
}

/* What all words of an entry come to, from the sums of their contributions. */
static __device__ __forceinline__ uint64_t es_value(struct gemm_sign s, int checksum, int64_t words,
                                                    const struct es_powers &powers) {
    if (checksum == HF_CHECKSUM_ONES)
        s.a %= ES_MODULUS;
    if (es_is_crc(checksum))
        s.a ^= es_moved(0xffffffffu, (uint64_t)words, powers);
    return gemm_sign_value(&s, checksum);
}

/* The signatures. */
static __global__ void es_signed_end(const __grid_constant__ struct hf_gemm_es_args p,
                                     const struct es_work *work,
                                     const __grid_constant__ struct es_powers powers) {
    const int e = (int)threadIdx.x;
    const bool pair = p.level == HF_ES_PAIR, used = e == 0 || p.form == HF_ES_AVX;
    const bool lane = p.form == HF_ES_AVX && e < HF_ES_LANES;
    const int64_t each = pair                        ? (p.checksum == HF_CHECKSUM_FLETCHER ? 2 : 1)
                         : lane && p.n < HF_ES_LANES ? 0
                                                     : es_place_of(p, lane ? 0 : -1).each;
    const struct gemm_sign s = {work->total[e].a, work->total[e].b};
    p.signature[e] =
        used ? es_value(s, pair ? p.outer : p.checksum, es_steps(p, p.m) * each, powers) : 0;
}

#endif
