/* SPDX-License-Identifier: Apache-2.0
 * What the parts of the kernel share: shapes, memory, how the blocks of a problem wait.
 *
 * A block is three warpgroups. Rows come in units of 64; a warpgroup has a ring of units in shared
 * memory, filled by the copy engine, and keeps them there for all iterations if all of its own fit.
 * All centroids of the problem are one tile in shared memory. */
#ifndef HF_LLOYD_SMALL_CUH
#define HF_LLOYD_SMALL_CUH

#include "ops/assign/cuda/filter_sweep.cuh"
#include "ops/lloyd/cuda/means.cuh"
#include "ops/lloyd/sm90/small.h"

#define SMALL_OPEN 256         /* open rows of a block that wait */
#define SMALL_FEW 4            /* distances that a warp works out together */
#define SMALL_ROWS 0x11111111u /* the first of the four lanes that share a row */

/* RAW: the rows in shared memory are x itself. */
template <int DP_, bool RAW_> struct small_shape {
    static constexpr int DP = DP_; /* columns, padded with zeros */
    static constexpr bool RAW = RAW_;
    static constexpr int NT = HF_LLOYD_SMALL_K; /* clusters, padded */
    static constexpr int WGS = 3;
    static constexpr int THREADS = WGS * 128;
    static constexpr int WARPS = WGS * 4;
    static constexpr int STAGES = DP == 64 ? 6 : 3; /* of a warpgroup */
    static constexpr int UNIT = FILTER_WG_ROWS * DP * 2;
    static constexpr int TILE = NT * DP * 2;
    static constexpr int COLUMNS = DP / 32; /* of a lane */
};

/* What the warp that moved a cluster tells all blocks. */
struct __align__(16) small_cluster {
    double inertia, shift;
    struct filter_fact fact; /* of its centroid */
    int64_t count;
    int32_t empty;
    int32_t lost;   /* 16 bits do not hold the centroid */
    uint32_t fault; /* of the guard slot, told with cluster 0: all blocks see the same */
};

/* An open row that waits until the block's other rows are done. */
struct __align__(16) small_open_row {
    uint32_t bits[4]; /* its candidates, as small_candidates() of the four lanes of a row */
};

/* A problem's counters; they only grow. */
struct small_counters {
    unsigned long long changed, rechecked;
    unsigned barrier;
    unsigned unused;
};

/* Device memory beside that of the job. */
struct small_args {
    struct hf_lloyd_job job;
    struct filter_args filter;       /* what filter_error() looks at */
    const float *norm, *loss;        /* [batch * n] of the rows; loss NULL: 0 */
    const double *shift;             /* [d] of the filter or NULL */
    double scale;                    /* of the centroids: 1 for raw rows */
    uint8_t *packed;                 /* [batch, TILE + NT * 4] centroids and biases */
    struct small_cluster *clusters;  /* [batch, NT] */
    struct small_counters *counters; /* [batch] */
    unsigned *barrier;               /* of all blocks */
    int32_t *steps;                  /* that the longest problem made */
    int blocks, groups, units;       /* blocks of a problem, problems at once, units of 64 rows */
    const void *x16;                 /* narrow rows: [batch * n, stride] f16, */
    int64_t stride;                  /* in elements, */
    int ld;                          /* of which so many are there, a multiple of 8; */
    struct filter_units pieces;      /* and of the pieces of biases, if they have any */
};

/* Sums over 32 clusters. */
struct small_part {
    float least, lost;
    struct filter_fact most[FILTER_LEVELS + 1];
    int64_t count;
    int32_t empty, negative;
};

template <class S> struct __align__(1024) small_memory {
    uint8_t tile[S::TILE]; /* [DP / 64][NT][64] f16, swizzled */
    uint8_t rows[S::WGS][S::STAGES][S::UNIT];
    float bias[S::NT];                /* in the order of filter_add_bias() */
    double mult[S::DP], unit[S::DP];  /* of the sums */
    double shift[S::DP], base[S::DP]; /* of the inertia, of the filter */
    double lane[2][S::NT];            /* of inertia and shift */
    double distance[S::WARPS][32];    /* of candidates of open rows */
    struct small_open_row open[SMALL_OPEN];
    int open_row[SMALL_OPEN];             /* within the problem */
    double term[S::WARPS][SMALL_FEW][33]; /* of them, 32 columns at a time */
    uint32_t pair[S::WARPS][32];
    struct small_part part[S::NT / 32];
    struct totals totals;
    struct filter_bounds bounds;
    unsigned long long changed, rechecked; /* up to the last iteration */
    int moves;
    int opens; /* may pass SMALL_OPEN: the rows beyond did not wait */
    bool plain, go;
    uint64_t full[S::WGS][S::STAGES];
    uint64_t ready; /* the tile */
};

/* This block's problem and its part in it. */
struct small_place {
    int p;            /* problem */
    int g;            /* block of the problem */
    int first, count; /* units of this warpgroup: first, first + WGS, ... */
    bool stays;       /* they stay in shared memory */
    uint32_t parity;  /* bit s: of the next load into stage s */
    uint32_t ready;   /* the same of the tile */
    int at;           /* ring: loads used so far */
};

/* hf_grid_wait() for the blocks of one problem. */
static __device__ __forceinline__ void small_wait(const struct small_args &a,
                                                  const struct small_place &w) {
    __syncthreads();
    if (threadIdx.x == 0) {
        unsigned *const barrier = &a.counters[w.p].barrier;
        __threadfence();
        if (a.blocks > 1) {
            const unsigned add = w.g == 0 ? 0x80000000u - (unsigned)(a.blocks - 1) : 1;
            const unsigned before = atomicAdd(barrier, add);
            while (((hf_acquire(barrier) ^ before) & 0x80000000u) == 0)
                ;
        }
        __threadfence();
    }
    __syncthreads();
}

static __device__ __forceinline__ void small_fence_copies(void) {
    asm volatile("fence.proxy.async;" ::: "memory");
}

template <class S>
static __device__ __forceinline__ uint8_t *small_packed(const struct small_args &a, int p) {
    return a.packed + (int64_t)p * (S::TILE + S::NT * 4);
}

/* The next up to 32 pairs of row and column of a warp into pair[]; returns how many are left with
 * them. bits: those of this lane's candidates that are left. */
static __device__ __forceinline__ int small_pairs(uint32_t (&bits)[2], uint32_t *pair) {
    const int lane = (int)(threadIdx.x & 31);
    const int own = __popc(bits[0]) + __popc(bits[1]);
    int end = own;
    for (int step = 1; step < 32; step *= 2) {
        const int before = __shfl_up_sync(~0u, end, step);
        end += lane >= step ? before : 0;
    }
    int at = end - own;
#pragma unroll
    for (int r = 0; r < 2; r++)
        for (; bits[r] != 0 && at < 32; at++, bits[r] &= bits[r] - 1) {
            const int i = __ffs((int)bits[r]) - 1;
            const int column = i / 2 * 8 + 2 * (lane & 3) + i % 2;
            pair[at] = (uint32_t)(lane / 4 + 8 * r) << 16 | (uint32_t)column;
        }
    __syncwarp();
    return __shfl_sync(~0u, end, 31);
}

/* Byte of column f of row `row` in a matrix of `rows` rows, 128-byte pieces swizzled. */
static __device__ __forceinline__ int small_at(int rows, int row, int f) {
    return f / 64 * rows * 128 + row * 128 + ((f % 64 / 8 ^ (row & 7)) << 4) + f % 8 * 2;
}

/* The same of centroid j in the tile. */
template <class S> static __device__ __forceinline__ int small_tile_at(int j, int f) {
    return S::DP < 64 ? (j * S::DP + f) * 2 : small_at(S::NT, j, f);
}

#endif
