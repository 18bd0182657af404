/* SPDX-License-Identifier: Apache-2.0
 * Float64 sums over the features of a row, features in order, one rounding for each operation: a
 * lane of a warp has a pair of a row and a centroid. The warp brings some columns of all 32 pairs
 * into shared memory, so that global memory is read in whole lines, and reads the next ones while
 * it adds. */
#ifndef HF_CHAINS_CUH
#define HF_CHAINS_CUH

#include "device/cuda/pack.cuh"
#include <holdfast/kmeans.h>

#define HF_CHAIN_WARP 32
#define HF_CHAIN_STAGES 2

/* Columns staged at once, and bytes from one row of a stage to the next: 16 more than its columns
 * take, so that 16-byte reads of eight lanes meet all banks. */
template <hf_dtype T, hf_dtype C> __host__ __device__ constexpr int hf_chain_cols() {
    return hf_device_bytes<T> + hf_device_bytes<C> > 8 ? 16 : 32;
}
template <hf_dtype T> __host__ __device__ constexpr int hf_chain_pitch(int cols) {
    return cols * hf_device_bytes<T> + 16;
}
/* Shared memory of a warp. */
template <hf_dtype T, hf_dtype C> __host__ __device__ constexpr int hf_chain_bytes() {
    return HF_CHAIN_STAGES * HF_CHAIN_WARP *
           (hf_chain_pitch<T>(hf_chain_cols<T, C>()) + hf_chain_pitch<C>(hf_chain_cols<T, C>()));
}

/* The sums of a pair: Euclidean and dot have one, cosine also the squares. */
struct hf_chain {
    double sum, xx, cc;
};

template <hf_metric M>
__device__ __forceinline__ void hf_chain_add(struct hf_chain *s, double x, double c) {
    if constexpr (M == HF_EUCLIDEAN) {
        const double diff = __dsub_rn(x, c);
        s->sum = __dadd_rn(s->sum, __dmul_rn(diff, diff));
    } else {
        s->sum = __dadd_rn(s->sum, __dmul_rn(x, c));
        if constexpr (M == HF_COSINE) {
            s->xx = __dadd_rn(s->xx, __dmul_rn(x, x));
            s->cc = __dadd_rn(s->cc, __dmul_rn(c, c));
        }
    }
}

/* The last step of the cosine distance (ops/reference.h), from the squares of both norms. */
static __device__ __forceinline__ double hf_cosine_end(double dot, double xx, double cc) {
    const double norm_x = __dsqrt_rn(xx);
    const double norm_c = __dsqrt_rn(cc);
    if (norm_x == 0 || norm_c == 0)
        return 1;
    return __dsub_rn(1, __ddiv_rn(dot, __dmul_rn(norm_x, norm_c)));
}

template <hf_metric M>
__device__ __forceinline__ double hf_chain_distance(const struct hf_chain s) {
    if constexpr (M == HF_COSINE)
        return hf_cosine_end(s.sum, s.xx, s.cc);
    return M == HF_DOT ? -s.sum : s.sum;
}

/* The widest copies that rows allow which begin at multiples of it and are as long;
 * all: addresses, strides and lengths or-ed. 0: element by element. */
static inline int hf_chain_piece(uintptr_t all) {
    return all % 16 == 0 ? 16 : all % 8 == 0 ? 8 : all % 4 == 0 ? 4 : 0;
}

/* AGAIN: through the first-level cache, for what many rows read: a few centroids, asked of the one
 * or two slices of the second-level cache that have them, take ten times as long as the rows. */
template <int PIECE, bool AGAIN>
__device__ __forceinline__ void hf_chain_copy(char *dst, const char *src) {
    const unsigned to = (unsigned)__cvta_generic_to_shared(dst);
    if constexpr (PIECE == 16 && !AGAIN)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(src) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(src), "n"(PIECE)
                     : "memory");
}

template <int PIECE, bool AGAIN>
__device__ __forceinline__ void hf_chain_pieces(char *dst, int pitch, const char *row, int bytes) {
    const int pieces = bytes / PIECE;
#pragma unroll(PIECE == 16 ? 4 : 1) /* few rows need the others, and code is long */
    for (int i = (int)threadIdx.x % HF_CHAIN_WARP; i < pieces * HF_CHAIN_WARP; i += HF_CHAIN_WARP) {
        const int r = i / pieces;
        const int at = i % pieces * PIECE;
        const char *src = (const char *)__shfl_sync(0xffffffffu, (unsigned long long)row, r);
        hf_chain_copy<PIECE, AGAIN>(dst + r * pitch + at, src + at);
    }
}

/* Columns [from, from + cols) of the rows of all lanes to dst [32][pitch]. */
template <hf_dtype T, bool AGAIN = false>
__device__ __forceinline__ void hf_chain_stage(char *dst, int pitch, const char *row, int64_t from,
                                               int cols, int piece) {
    typedef typename hf_element<T>::type element;
    const int lane = (int)threadIdx.x % HF_CHAIN_WARP;
    const int bytes = cols * hf_device_bytes<T>;
    row += from * (int64_t)hf_device_bytes<T>;
    if (piece == 16) {
        hf_chain_pieces<16, AGAIN>(dst, pitch, row, bytes);
    } else if (piece == 8) {
        hf_chain_pieces<8, AGAIN>(dst, pitch, row, bytes);
    } else if (piece == 4) {
        hf_chain_pieces<4, AGAIN>(dst, pitch, row, bytes);
    } else {
#pragma unroll 4 /* few rows are so: all of 32 at once made half of the code */
        for (int r = 0; r < HF_CHAIN_WARP; r++) {
            const char *src = (const char *)__shfl_sync(0xffffffffu, (unsigned long long)row, r);
            if (lane < cols)
                ((element *)(dst + r * pitch))[lane] = ((const element *)src)[lane];
        }
    }
}

/* Terms of `cols` staged columns, a multiple of 4. */
template <hf_dtype T, hf_dtype C, hf_metric M>
__device__ __forceinline__ void hf_chain_terms(struct hf_chain *s, const char *x, const char *c,
                                               int cols) {
    for (int j = 0; j < cols; j += 4) {
        const hf_pack<T, 4> a = *(const hf_pack<T, 4> *)(x + j * (int)sizeof a.e[0]);
        const hf_pack<C, 4> b = *(const hf_pack<C, 4> *)(c + j * (int)sizeof b.e[0]);
#pragma unroll
        for (int e = 0; e < 4; e++)
            hf_chain_add<M>(s, (double)hf_widen<T>(a.e[e]), (double)hf_widen<C>(b.e[e]));
    }
}

/* The sums of this lane's pair. All lanes of the warp call it, with rows that are there; smem is
 * the warp's own, hf_chain_bytes() long and aligned to 16. piece: hf_chain_piece() of both. */
template <hf_dtype T, hf_dtype C, hf_metric M>
__device__ __forceinline__ struct hf_chain hf_chain_pair(const char *x, const char *c, int64_t d,
                                                         int piece, char *smem) {
    constexpr int COLS = hf_chain_cols<T, C>();
    constexpr int XP = hf_chain_pitch<T>(COLS);
    constexpr int CP = hf_chain_pitch<C>(COLS);
    const int lane = (int)threadIdx.x % HF_CHAIN_WARP;
    struct hf_chain s = {0, 0, 0};
    for (int64_t from = -COLS; from < d; from += COLS) {
        const int64_t next = from + COLS;
        const int stage = (int)(next / COLS) % HF_CHAIN_STAGES;
        char *to = smem + stage * HF_CHAIN_WARP * (XP + CP);
        if (next < d) {
            const int cols = d - next < COLS ? (int)(d - next) : COLS;
            hf_chain_stage<T>(to, XP, x, next, cols, piece);
            hf_chain_stage<C, true>(to + HF_CHAIN_WARP * XP, CP, c, next, cols, piece);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (from < 0)
            continue;
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncwarp();
        const char *own = smem + (1 - stage) * HF_CHAIN_WARP * (XP + CP);
        const char *own_x = own + lane * XP;
        const char *own_c = own + HF_CHAIN_WARP * XP + lane * CP;
        const int cols = d - from < COLS ? (int)(d - from) : COLS;
        const int fours = cols == COLS ? COLS : cols / 4 * 4;
        hf_chain_terms<T, C, M>(&s, own_x, own_c, fours);
        for (int j = fours; j < cols; j++)
            hf_chain_add<M>(&s, hf_device_load<T>(own_x, j), hf_device_load<C>(own_c, j));
        __syncwarp();
    }
    return s;
}

/* Shared memory of a warp for hf_chain_to(). */
#define HF_CHAIN_TO_COLS 32
template <hf_dtype T> __host__ __device__ constexpr int hf_chain_to_bytes() {
    return HF_CHAIN_STAGES * HF_CHAIN_WARP * hf_chain_pitch<T>(HF_CHAIN_TO_COLS);
}

/* The same where all lanes have the same centroid, float64 in global memory; piece: of x. */
template <hf_dtype T, hf_metric M>
__device__ __forceinline__ struct hf_chain hf_chain_to(const char *x, const double *__restrict__ c,
                                                       int64_t d, int piece, char *smem) {
    constexpr int COLS = HF_CHAIN_TO_COLS, PITCH = hf_chain_pitch<T>(COLS);
    const int lane = (int)threadIdx.x % HF_CHAIN_WARP;
    struct hf_chain s = {0, 0, 0};
    for (int64_t from = -COLS; from < d; from += COLS) {
        const int64_t next = from + COLS;
        const int stage = (int)(next / COLS) % HF_CHAIN_STAGES;
        if (next < d)
            hf_chain_stage<T>(smem + stage * HF_CHAIN_WARP * PITCH, PITCH, x, next,
                              (int)min(d - next, (int64_t)COLS), piece);
        asm volatile("cp.async.commit_group;" ::: "memory");
        if (from < 0)
            continue;
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncwarp();
        const char *own = smem + ((1 - stage) * HF_CHAIN_WARP + lane) * PITCH;
        const int cols = (int)min(d - from, (int64_t)COLS);
        for (int j = 0; j < cols / 4 * 4; j += 4) {
            const hf_pack<T, 4> a = *(const hf_pack<T, 4> *)(own + j * hf_device_bytes<T>);
#pragma unroll
            for (int e = 0; e < 4; e++)
                hf_chain_add<M>(&s, (double)hf_widen<T>(a.e[e]), __ldg(c + from + j + e));
        }
        for (int j = cols / 4 * 4; j < cols; j++)
            hf_chain_add<M>(&s, hf_device_load<T>(own, j), __ldg(c + from + j));
        __syncwarp();
    }
    return s;
}

#endif
