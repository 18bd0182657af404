/* SPDX-License-Identifier: Apache-2.0
 * The signatures of a pair of checksums on a GPU. A warp computes the inner values of a step of the
 * intermediate loop; as these are the words of the outer checksum, whose place is known, all steps
 * may be computed at once. */
#ifndef HF_ES_PAIRS_CUH
#define HF_ES_PAIRS_CUH

#include "ops/gemm_es/es_internal.cuh"

#define ES_WARPS (ES_THREADS / ES_WARP)

/* Words of an entry in the internal loop, and number `w` of them in step (i, q). */
static __device__ __forceinline__ int64_t es_cell_words(const struct hf_gemm_es_args &p, int entry,
                                                        int64_t whole) {
    return entry < HF_ES_LANES && p.form == HF_ES_AVX ? whole / HF_ES_LANES : 1 + p.n - whole;
}

static __device__ __forceinline__ uint32_t es_cell_word(const struct hf_gemm_es_args &p, int entry,
                                                        int64_t whole, int64_t cell, int64_t w) {
    const float *const row = p.b + cell % p.k * p.n;
    if (entry < HF_ES_LANES && p.form == HF_ES_AVX)
        return __float_as_uint(row[w * HF_ES_LANES + entry]);
    return __float_as_uint(w == 0 ? p.a[cell] : row[whole + w - 1]);
}

template <int CHECKSUM> static __device__ __forceinline__ uint64_t es_warp_sum(uint64_t v) {
#pragma unroll
    for (int step = ES_WARP / 2; step > 0; step /= 2) {
        const uint64_t other = __shfl_xor_sync(~0u, v, step);
        v = es_is_crc(CHECKSUM) || CHECKSUM == HF_CHECKSUM_XOR ? v ^ other
                                                               : es_part_of<CHECKSUM>(v + other);
    }
    return v;
}

/* The inner value of an entry, in all lanes of the warp. jump: over as many words. */
template <int CHECKSUM>
static __device__ __forceinline__ uint64_t es_cell_value(const struct hf_gemm_es_args &p, int entry,
                                                         int64_t cell, const uint32_t *jump,
                                                         const struct es_powers &powers) {
    const int64_t lane = (int64_t)threadIdx.x % ES_WARP;
    const int64_t whole = p.form == HF_ES_AVX ? p.n / HF_ES_LANES * HF_ES_LANES : 0;
    const int64_t words = es_cell_words(p, entry, whole);
    struct es_chain c = {0, 0, words - lane, ES_WARP};
    for (int64_t w = lane; w < words; w += ES_WARP)
        es_take_word<CHECKSUM>(&c, es_cell_word(p, entry, whole, cell, w), jump);
    if (es_is_crc(CHECKSUM) && lane < words)
        c.a = es_moved((uint32_t)c.a, (uint64_t)(c.after + c.each), powers);
    const uint64_t a = es_warp_sum<CHECKSUM>(
        es_is_crc(CHECKSUM) || CHECKSUM == HF_CHECKSUM_XOR ? c.a : es_part_of<CHECKSUM>(c.a));
    const uint64_t b = CHECKSUM == HF_CHECKSUM_FLETCHER ? es_warp_sum<CHECKSUM>(es_folded(c.b)) : 0;
    return es_value({a, b}, p.checksum, words, powers);
}

/* One word with `after` words, itself among them, to the end of its entry. */
static __device__ __forceinline__ void es_add_word(int checksum, uint32_t w, uint64_t after,
                                                   struct es_total *total,
                                                   const struct es_powers &powers) {
    switch (checksum) {
    case HF_CHECKSUM_XOR:
        atomicXor(&total->a, (unsigned long long)w);
        break;
    case HF_CHECKSUM_ONES:
        atomicAdd(&total->a, (unsigned long long)(after & 1 ? (uint32_t)~w : w));
        break;
    case HF_CHECKSUM_FLETCHER:
        atomicAdd(&total->a, (unsigned long long)w);
        atomicAdd(&total->b,
                  (unsigned long long)es_folded((uint64_t)w * (uint32_t)(after % ES_MODULUS)));
        break;
    case HF_CHECKSUM_CRC32:
    case HF_CHECKSUM_CRC32C:
        atomicXor(&total->a, (unsigned long long)es_moved(w, after, powers));
        break;
    default:
        atomicAdd(&total->a, (unsigned long long)w);
    }
}

struct es_two_powers {
    struct es_powers inner, outer;
};

template <int CHECKSUM>
static __global__ void __launch_bounds__(ES_THREADS)
    es_pair_cells(const __grid_constant__ struct hf_gemm_es_args p, struct es_work *work,
                  const __grid_constant__ struct es_two_powers powers) {
    __shared__ uint32_t jump[GEMM_CRC_WORDS];
    __shared__ struct es_total shared[HF_ES_ENTRIES];
    const int lane = (int)threadIdx.x % ES_WARP;
    const int entries = p.form == HF_ES_AVX ? HF_ES_ENTRIES : 1;
    const int64_t cells = p.m * p.k, words = CHECKSUM == HF_CHECKSUM_FLETCHER ? 2 : 1;
    for (int i = (int)threadIdx.x; es_is_crc(CHECKSUM) && i < GEMM_CRC_WORDS; i += ES_THREADS)
        jump[i] = es_jump(i, ES_WARP, powers.inner);
    if (threadIdx.x < HF_ES_ENTRIES)
        shared[threadIdx.x] = {0, 0};
    __syncthreads();
    for (int64_t cell = (int64_t)blockIdx.x * ES_WARPS + threadIdx.x / ES_WARP; cell < cells;
         cell += (int64_t)gridDim.x * ES_WARPS) {
        uint64_t own = 0;
        for (int e = 0; e < entries; e++) {
            const uint64_t value = es_cell_value<CHECKSUM>(p, e, cell, jump, powers.inner);
            own = lane == e ? value : own;
        }
        const uint64_t after = (uint64_t)(words * (cells - cell));
        if (lane < entries)
            es_add_word(p.outer, (uint32_t)own, after, &shared[lane], powers.outer);
        if (lane < entries && words == 2)
            es_add_word(p.outer, (uint32_t)(own >> 32), after - 1, &shared[lane], powers.outer);
    }
    __syncthreads();
    if (threadIdx.x >= HF_ES_ENTRIES)
        return;
    struct es_total *const total = &work->total[threadIdx.x];
    const struct es_total mine = shared[threadIdx.x];
    if (es_is_crc(p.outer) || p.outer == HF_CHECKSUM_XOR) {
        atomicXor(&total->a, mine.a);
    } else {
        atomicAdd(&total->a, mine.a);
        atomicAdd(&total->b, (unsigned long long)es_folded(mine.b));
    }
}

#endif
