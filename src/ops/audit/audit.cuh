/* SPDX-License-Identifier: Apache-2.0
 * Parts of audit for kernels: what the lanes of a warp do together. */
#ifndef HF_AUDIT_CUH
#define HF_AUDIT_CUH

#include "device/cuda/reduce.cuh"
#include "ops/audit/audit_cuda.h"

#define AUDIT_WARP 32
#define AUDIT_STEP 2654435769u

/* The sums of a problem as audit reads them. */
struct audit_sums {
    const int64_t *sum;    /* [limbs, k, d] */
    const int64_t *weight; /* [limbs, k] or NULL */
    const hf_u64 *factor;  /* [limbs, d + 1] */
    int64_t k, d;
    int limbs;
};

/* The lowest of all rows or clusters that are told; -1, the highest as unsigned, before. */
static __device__ __forceinline__ void audit_note(int64_t *lowest, int64_t at) {
    atomicMin((hf_u64 *)lowest, (hf_u64)at);
}

/* The word that the sums of cluster j give, in all lanes of the warp. */
static __device__ __forceinline__ hf_u64 audit_word(const struct audit_sums &s, int64_t j) {
    const int lane = (int)threadIdx.x % AUDIT_WARP;
    hf_u64 word = 0;
    for (int64_t limb = 0; limb < s.limbs; limb++) {
        const hf_u64 *factor = s.factor + limb * (s.d + 1);
        const int64_t *sum = s.sum + (limb * s.k + j) * s.d;
        for (int64_t f = lane; f < s.d; f += AUDIT_WARP)
            word += factor[f] * (hf_u64)sum[f];
        if (s.weight != NULL && lane == 0)
            word += factor[s.d] * (hf_u64)s.weight[limb * s.k + j];
    }
    return hf_warp_sum(word);
}

/* ---- the book */

#define AUDIT_BINS 2048 /* most clusters that a block sums up for itself */

/* What a block changes: words in halves of 32 bits, whose additions it makes by itself. NULL: it
 * adds to those of all blocks. */
struct audit_bins {
    uint32_t *low, *high; /* [k] */
    int *rows;            /* [k] */
};

/* shared: [3 * k] or NULL. */
static __device__ __forceinline__ struct audit_bins audit_bins_of(uint32_t *shared, int k) {
    if (shared == NULL)
        return {NULL, NULL, NULL};
    return {shared, shared + k, (int *)(shared + 2 * k)};
}

/* By all `threads` of the block, as audit_bins_add(). */
static __device__ __forceinline__ void audit_bins_clear(const struct audit_bins &own, int k,
                                                        int threads) {
    if (own.low == NULL)
        return;
    for (int j = (int)threadIdx.x; j < 3 * k; j += threads)
        own.low[j] = 0;
    __syncthreads();
}

/* To those of all blocks. */
static __device__ __forceinline__ void
audit_bins_add(const struct hf_audit_job &job, const struct audit_bins &own, int k, int threads) {
    if (own.low == NULL)
        return;
    __syncthreads();
    for (int j = (int)threadIdx.x; j < k; j += threads) {
        const hf_u64 word = (hf_u64)own.high[j] << 32 | own.low[j];
        if (word != 0)
            atomicAdd((hf_u64 *)job.word + j, word);
        if (own.rows[j] != 0)
            atomicAdd((hf_u64 *)job.rows + j, (hf_u64)(int64_t)own.rows[j]);
    }
    __syncthreads();
}

static __device__ __forceinline__ void audit_move_word(const struct hf_audit_job &job,
                                                       const struct audit_bins &own,
                                                       int32_t cluster, hf_u64 word, int rows) {
    if (own.low == NULL) {
        atomicAdd((hf_u64 *)job.word + cluster, word);
        atomicAdd((hf_u64 *)job.rows + cluster, (hf_u64)(int64_t)rows);
        return;
    }
    const uint32_t low = (uint32_t)word;
    const uint32_t before = atomicAdd(&own.low[cluster], low);
    atomicAdd(&own.high[cluster], (uint32_t)(word >> 32) + (before + low < low));
    atomicAdd(&own.rows[cluster], rows);
}

/* Row i, whose label is not that of the book; true: it left a cluster. */
static __device__ __forceinline__ bool audit_move_row(const struct hf_audit_job &job,
                                                      const struct audit_bins &own, int64_t i,
                                                      int32_t from, int32_t to) {
    const uint32_t k = (uint32_t)job.k;
    if ((uint32_t)to >= k) {
        audit_note(&job.found->outside, i);
        return false;
    }
    const hf_u64 word = job.hash[i];
    const bool leaves = (uint32_t)from < k;
    if (leaves)
        audit_move_word(job, own, from, 0 - word, -1);
    audit_move_word(job, own, to, word, 1);
    job.booked[i] = to;
    return leaves;
}

/* ---- signatures */

/* What word i adds to a signature. */
static __device__ __forceinline__ hf_u64 audit_sign(uint32_t word, int64_t i) {
    return (hf_u64)word * (((uint32_t)i * AUDIT_STEP) | 1u);
}

#endif
