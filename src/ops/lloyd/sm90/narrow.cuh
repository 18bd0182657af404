/* SPDX-License-Identifier: Apache-2.0
 * Shapes and memory of the kernel for narrow rows.
 *
 * Every warp goes its own way. It has all centroids of the problem in registers, as B operands of
 * mma.sync, and looks at 16 rows at a time, which the copies of a ring of its own bring. Rows that
 * 16 bits do not decide, and rows that move from sum to sum, wait in lists of the warp until there
 * are enough to keep many loads under way. The sums of a block are in shared memory until all its
 * rows have labels. */
#ifndef HF_LLOYD_NARROW_CUH
#define HF_LLOYD_NARROW_CUH

#include "ops/lloyd/sm90/small.cuh"

enum {
    NARROW_ROWS = 16,  /* a unit: rows of a product */
    NARROW_RING = 4,   /* units of a warp in shared memory */
    NARROW_OPENS = 32, /* open rows of a warp that wait: less than 16, and those of a unit */
    NARROW_MOVES = 64  /* moves of a warp: less than 32, those of a unit and of 16 open rows */
};

/* KS steps of 16 columns, TILES times 8 centroids. */
template <int KS_, int TILES_> struct narrow_shape {
    static constexpr int KS = KS_, TILES = TILES_;
    static constexpr int DP = 16 * KS; /* columns, padded with zeros */
    static constexpr bool RAW = false; /* rows are taken from x itself where float64 is needed */
    static constexpr int NT = HF_LLOYD_SMALL_K;
    static constexpr int TILE = NT * DP * 2;
    static constexpr int COLUMNS = 1; /* of a lane */
    static constexpr int SUMS = HF_MAX_LIMBS * 8 * TILES * DP;
    static constexpr int REGS = TILES * (2 * KS + 5) + 37; /* operands, scores, the rest */
    static constexpr int MOST = 65536 / 32 / ((REGS + 7) / 8 * 8) / 4 * 4;
    static constexpr int WARPS = MOST < 24 ? MOST : 24;
    static constexpr int THREADS = WARPS * 32;
};

/* A unit on its way. */
template <int DP> struct __align__(16) narrow_unit {
    uint8_t x[NARROW_ROWS * DP * 2]; /* row by row; columns behind those that are there stay 0 */
    float norm[NARROW_ROWS], loss[NARROW_ROWS];
    int label[NARROW_ROWS]; /* the old one */
};

/* A row of the problem that waits for float64. */
struct narrow_open {
    uint32_t bits[4]; /* its candidates, as small_pairs() wants those of four lanes */
    int row, label;
};

/* A row of the problem that goes from sum to sum. */
struct narrow_move {
    int row;
    uint32_t clusters; /* to, and << 16 the old one, 0xffff: none */
};

template <int KS, int TILES> struct __align__(1024) small_memory<struct narrow_shape<KS, TILES>> {
    typedef struct narrow_shape<KS, TILES> S;
    uint8_t tile[S::TILE]; /* [NT][DP] f16 */
    float bias[S::NT];     /* in the order of filter_add_bias() */
    struct narrow_unit<S::DP> ring[S::WARPS][NARROW_RING];
    double mult[S::DP], unit[S::DP];
    double shift[S::DP], base[S::DP];
    double lane[2][S::NT];
    double distance[S::WARPS][32];
    uint32_t low[S::SUMS]; /* [limbs, k, d] of the sums, modulo 2^32 */
    uint32_t high[S::SUMS];
    int count[S::NT];
    struct narrow_open open[S::WARPS][NARROW_OPENS];
    struct narrow_move move[S::WARPS][NARROW_MOVES];
    uint32_t pair[S::WARPS][32];
    struct small_part part[S::NT / 32];
    struct totals totals;
    struct filter_bounds bounds;
    unsigned long long changed, rechecked;
    int moves, opens;
    bool plain, go;
    uint64_t ready;
};

#endif
