/* SPDX-License-Identifier: Apache-2.0
 * Signatures of simt.cuh's products: words are signed in the registers through which they come. */
#ifndef HF_GEMM_SIMT_SIGN_CUH
#define HF_GEMM_SIMT_SIGN_CUH

#include "ops/gemm/cuda/gemm_sign.cuh"

/* This thread's V units of a stage of one side. */
template <class S> struct simt_part { typename S::unit v[S::V]; };

/* The words of a stage of one side that this thread signs. One function for all who call it: there
 * is code for each checksum. */
template <class S>
static __device__ __noinline__ void simt_sign(struct gemm_sign *sign, int checksum,
                                              const uint32_t *table, const typename S::unit *side) {
    constexpr int LINE = S::TILE * S::WORDS, N = S::DEPTH * LINE / GEMM_THREADS;
    uint32_t w[N];
#pragma unroll
    for (int i = 0; i < N; i++) {
        const int at = (int)threadIdx.x + i * GEMM_THREADS;
        w[i] = ((const uint32_t *)(side + at / LINE * S::PITCH))[at % LINE];
    }
    gemm_sign_words(sign, checksum, table, w);
}

/* Of a block; what it keeps is in shared memory at `signs`. */
template <class S> static __device__ __forceinline__ struct gemm_signer simt_signer(char *signs) {
    struct gemm_signer s = {};
    s.kept = signs + GEMM_SUMS_BYTES + (int)threadIdx.x / 32 * GEMM_KEPT_BYTES;
    s.table = (uint32_t *)(signs + GEMM_SUMS_BYTES + GEMM_WARPS * GEMM_KEPT_BYTES);
    return s;
}

/* The words of a number, unseen by the compiler: see gemm_bits(). */
static __device__ __forceinline__ void simt_words(uint32_t *w, float v) { *w = gemm_bits(v); }
static __device__ __forceinline__ void simt_words(uint32_t *w, int v) { *w = (uint32_t)v; }
static __device__ __forceinline__ void simt_words(uint32_t *w, double v) {
    w[0] = (uint32_t)__double2loint(v);
    w[1] = (uint32_t)__double2hiint(v);
}

/* The stages of A and B that are this tile's share next. They wait in shared memory: the loop over
 * stages has no register to spare. */
template <class S> static __device__ __forceinline__ struct gemm_kept simt_next(const char *signs) {
    const uint32_t at = (uint32_t)__cvta_generic_to_shared(signs) + GEMM_SUMS_BYTES +
                        threadIdx.x / 32 * GEMM_KEPT_BYTES +
                        (GEMM_KEPT_NEXT * 32 + threadIdx.x % 32) * 8;
    struct gemm_kept next;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(next.a), "=r"(next.b) : "r"(at));
    return next;
}

/* What this thread stages of A, B or both is this tile's share: sign it. */
template <class S>
static __device__ __forceinline__ void
simt_sign_parts(const struct gemm_job &job, const struct simt_part<S> &part_a,
                const struct simt_part<S> &part_b, unsigned stage, char *signs) {
    const struct gemm_signer signer = simt_signer<S>(signs);
    struct gemm_kept next = simt_next<S>(signs);
    const bool of_a = stage == next.a, of_b = stage == next.b;
#pragma unroll 1
    for (int side = 0; side < 2; side++) {
        uint32_t w[S::V * S::WORDS];
        if (!(side == 0 ? of_a : of_b))
            continue;
#pragma unroll
        for (int i = 0; i < S::V; i++)
            simt_words(w + i * S::WORDS, side == 0 ? part_a.v[i] : part_b.v[i]);
        struct gemm_sign own = gemm_take(&signer, side);
        gemm_sign_words(&own, job.checksum, signer.table, w);
        gemm_keep(&signer, side, own, job.checksum);
    }
    next.a += of_a ? (unsigned)job.tiles_n : 0;
    next.b += of_b ? (unsigned)job.tiles_m : 0;
    *gemm_kept(&signer, GEMM_KEPT_NEXT) = next;
}

/* The same of a kernel that has registers for checksums. */
struct simt_own {
    struct gemm_sign a, b;
    unsigned next_a, next_b;
};

template <class S>
static __device__ __forceinline__ void simt_sign_part(const struct gemm_job &job,
                                                      const struct simt_part<S> &part,
                                                      struct gemm_sign *sign, const char *signs) {
    uint32_t w[S::V * S::WORDS];
#pragma unroll
    for (int i = 0; i < S::V; i++)
        simt_words(w + i * S::WORDS, part.v[i]);
    if (job.checksum == HF_CHECKSUM_FLETCHER)
        gemm_fletcher(sign, w);
    else
        gemm_sign_words(sign, job.checksum,
                        (const uint32_t *)(signs + GEMM_SUMS_BYTES + GEMM_WARPS * GEMM_KEPT_BYTES),
                        w);
}

template <class S>
static __device__ __forceinline__ void
simt_sign_own(const struct gemm_job &job, const struct simt_part<S> &part_a,
              const struct simt_part<S> &part_b, unsigned stage, struct simt_own *own,
              const char *signs) {
    if (stage == own->next_a) {
        simt_sign_part<S>(job, part_a, &own->a, signs);
        own->next_a += (unsigned)job.tiles_n;
    }
    if (stage == own->next_b) {
        simt_sign_part<S>(job, part_b, &own->b, signs);
        own->next_b += (unsigned)job.tiles_m;
    }
}

/* A stage that is to be released: what its words are before it is used. */
template <class S>
static __device__ __noinline__ void simt_staged(const struct gemm_job &job,
                                                const typename S::unit *own_a, char *signs) {
    const struct gemm_signer signer = simt_signer<S>(signs);
    struct gemm_sign own;
    gemm_sign_begin(&own, job.checksum);
    simt_sign<S>(&own, job.checksum, signer.table, own_a);
    simt_sign<S>(&own, job.checksum, signer.table, own_a + S::SIDE);
    gemm_keep(&signer, GEMM_KEPT_STAGE, own, job.checksum);
}

template <class S>
static __device__ __noinline__ void simt_released(const struct gemm_job &job,
                                                  struct gemm_place place,
                                                  const typename S::unit *own_a, char *signs) {
    const struct gemm_signer signer = simt_signer<S>(signs);
    gemm_released(job, &signer, job.first_tile + blockIdx.x,
                  {(int64_t)place.row * S::TILE, (int64_t)place.col * S::TILE},
                  [&](struct gemm_sign *state, bool of_a) {
                      simt_sign<S>(state, job.checksum, signer.table,
                                   of_a ? own_a : own_a + S::SIDE);
                  });
}

/* Nothing was signed yet. */
template <class S>
static __device__ __forceinline__ void simt_begin(const struct gemm_job &job,
                                                  const struct gemm_place &place, char *signs) {
    struct gemm_signer signer = simt_signer<S>(signs);
    gemm_signer_begin(&signer, signer.kept, signer.table, job.checksum, place);
    *gemm_kept(&signer, GEMM_KEPT_NEXT) = {(uint32_t)place.col, (uint32_t)place.row};
}

#endif
