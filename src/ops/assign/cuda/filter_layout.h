/* SPDX-License-Identifier: Apache-2.0
 * What pack and the filter's kernels agree on: tiles of packed centroids, the memory round them,
 * the numbers of a launch. */
#ifndef HF_ASSIGN_FILTER_LAYOUT_H
#define HF_ASSIGN_FILTER_LAYOUT_H

#include "ops/assign/cuda/filter.h"
#include <math.h>

enum {
    FILTER_CHUNK = 32,     /* centroids that one block packs, and that one info describes */
    FILTER_STREAM_DP = 64, /* columns of a slab when d is too large for registers */
    FILTER_CHUNK_K = 512,  /* centroids from which on a pass over their biases pays */
    FILTER_MAX_D = 8192,
    FILTER_BIAS_STEP = 32, /* bytes a centroid: bias as one more step of the product (k = 16) */
    FILTER_TWICE_DP = 512  /* columns at which each bias lies there twice, see pack_bias() */
};

/* The tile of centroids for d columns. One tile is what one bulk copy brings: `slabs` of [nt rows,
 * swizzle bytes] one behind the other, 16-byte pieces of a row swizzled as the copy engine does,
 * then the bias. */
struct filter_tile {
    int dp;         /* columns of a row in the tile: zeros from d on */
    int nt;         /* centroids */
    int swizzle;    /* bytes of a row in a slab: 64 or 128 */
    bool bias_step; /* bias in three 16-bit pieces [nt, 16] for the matrix unit, and the unit by
                       which it moves them all up; else float32 [nt] in the order in which threads
                       read it, or 2 [nt] at FILTER_TWICE_DP */
    int bytes;      /* of the tile */
};

static inline struct filter_tile filter_tile_of(int d) {
    static const int classes[] = {32, 64, 96, 128, 192, 256, 384, 512};
    struct filter_tile tile = {0, 128, 128, false, 0};
    for (int i = 7; i >= 0; i--)
        if (d <= classes[i])
            tile.dp = classes[i];
    if (tile.dp == 0) {
        tile.dp = (d + FILTER_STREAM_DP - 1) / FILTER_STREAM_DP * FILTER_STREAM_DP;
        tile.nt = 256;
    } else if (tile.dp > 256)
        tile.nt = 64;
    if (tile.dp % 64 != 0)
        tile.swizzle = 64;
    tile.bias_step = tile.dp <= 128;
    const int bias = tile.bias_step ? FILTER_BIAS_STEP : tile.dp == FILTER_TWICE_DP ? 8 : 4;
    tile.bytes = tile.nt * (tile.dp * 2 + bias);
    return tile;
}

/* What pack knows of one centroid, |c' - c16| and |c'|, or at most of several; 0 where there is
 * none. */
struct filter_fact {
    float rc, length;
};

/* Centroids are told apart by their lengths: those up to length * 2^(i - 1) are of level i and all
 * above, the last level has all. See filter_level(). */
#define FILTER_LEVELS 16

/* What a block of pack measures on its FILTER_CHUNK centroids, rounded outwards. Lost centroids,
 * which 16 bits do not hold, are packed as padding and count in `lost` alone. */
struct filter_info {
    float least; /* min |c'|, Inf: there are none */
    float lost;  /* min |c'| of lost centroids, Inf: there are none */
    struct filter_fact most[FILTER_LEVELS + 1]; /* of the centroids of each level that are not of
                                                   one before */
};

/* What is known of all centroids of a problem, made from its infos. */
struct filter_bounds {
    float reach_base; /* no centroid longer than 2.25 |x'| + this is the nearest of row x' */
    float lost;       /* as above */
    float up;         /* how far biases are moved up */
    float unused;
    struct filter_fact most[FILTER_LEVELS + 1]; /* of all centroids of each level */
};

/* Bytes of the parts of `packed`, in this order, each a multiple of 256. */
struct filter_memory {
    size_t tiles, info, bounds, facts, parts, counters, biases;
    int tiles_per_problem, infos_per_problem;
};

enum {
    FILTER_WARP_OPEN = 8, /* open rows that a warp collects */
    FILTER_PART = 4,      /* floats that remember a row: best, its centroid, second, nothing */
    FILTER_AT_ONCE = 2,   /* such that are fetched together */
    FILTER_SHARE = 4,     /* tiles that a block takes of cut groups, or none: they are merged */
    FILTER_MAX_WG = 4,    /* consumer warpgroups of a block */
    FILTER_TURN = 5,      /* the first of as many barriers: whose turn it is to multiply */
    FILTER_WG_ROWS = 64   /* rows of a warpgroup: a unit */
};

/* Scores are compared as integers (cuda/filter_sweep.cuh) where biases are moved up by the
 * largest, so that best scores are positive: by the matrix unit, or by a pass over packed biases,
 * which pays with many centroids. */
static inline bool filter_shifts(int k, int d) {
    return k >= FILTER_CHUNK_K || filter_tile_of(d).bias_step;
}

static inline size_t filter_pad(size_t bytes) { return (bytes + 255) / 256 * 256; }

static inline size_t filter_facts_bytes(int infos_per_problem, int batch) {
    return filter_pad((size_t)batch * (size_t)infos_per_problem * FILTER_CHUNK *
                      sizeof(struct filter_fact));
}

static inline struct filter_memory filter_memory_of(int sms, int k, int d, int batch) {
    const struct filter_tile tile = filter_tile_of(d);
    struct filter_memory m;
    m.tiles_per_problem = (k + tile.nt - 1) / tile.nt;
    m.infos_per_problem = m.tiles_per_problem * (tile.nt / FILTER_CHUNK);
    m.tiles = filter_pad((size_t)batch * (size_t)m.tiles_per_problem * (size_t)tile.bytes);
    m.info = filter_pad((size_t)batch * (size_t)m.infos_per_problem * sizeof(struct filter_info));
    m.bounds = filter_pad((size_t)batch * sizeof(struct filter_bounds));
    m.facts = filter_facts_bytes(m.infos_per_problem, batch);
    /* A block leaves up to two parts for others. */
    m.parts = filter_pad((size_t)sms * 2 * FILTER_MAX_WG * FILTER_WG_ROWS * FILTER_PART * 4);
    m.counters = filter_pad((size_t)sms * FILTER_MAX_WG * sizeof(int));
    m.biases = 0;
    if (filter_shifts(k, d) && !tile.bias_step)
        m.biases = filter_pad((size_t)batch * (size_t)m.infos_per_problem * FILTER_CHUNK * 8);
    return m;
}

/* A bias is a sum of three f16 pieces, each times a unit of its own (powers of two, 2^11 apart), so
 * that it may be large and loses little: at most 2^-25 times the last unit, and 2^-33 of itself.
 * The first unit must not be large: the matrix unit may give zeros and other small pieces f16's
 * least exponent, -14, and cuts other terms of the step off at 2^-25 of the unit times 2^-14. */
struct filter_units {
    float unit[3];
};

/* Columns 4 to 6 of that step hold the error of a score, so that candidates can be told by that of
 * each: |x16| p + loss q + key r, as filter_error_of() has it but for what is the same for all
 * centroids. None may be Inf, which times the 0 of other passes is NaN: key is FILTER_KEY times the
 * first unit, as r grows with the bias, and p and q end with the longest centroid that is held. */
#define FILTER_KEY 0x1p-16f
#define FILTER_LENGTH_MOST 65000.0

/* The accumulation's share of the error for d columns. A step adds 16 products and the sum so far,
 * all but the largest cut off at 2^-25 of that, and cuts the result off at 2^-23: 5 2^-23, or 6
 * 2^-23 if it were two of eight. Two steps more: the biases', and one for float32's roundings of
 * them. */
static inline float filter_share(int d) { return (float)((d + 15) / 16 + 2) * 0x1.8p-21f; }

/* What the pieces of a bias may lack, and their step beside acc: see "Biases" in
 * docs/numerics/gpu-filter.md. */
#define FILTER_TINY 0x1p-32f /* of the first unit */

/* Of the largest bias that the pieces hold; moved up it may double. */
#define FILTER_BIAS_MOST 32752.0

static inline struct filter_units filter_units_of(const struct hf_filter_centroids *c) {
    /* rows and centroids of x16 have lengths of about 1, those of raw rows of 1 / scale */
    const int raw = c->raw ? (int)fmax(fmin(-2 * log2(c->scale), 64), -64) : 0;
    const int e = 4 + raw < -2 ? -2 : 4 + raw > 15 ? 15 : 4 + raw;
    const struct filter_units u = {{ldexpf(1, e), ldexpf(1, e - 11), ldexpf(1, e - 22)}};
    return u;
}

#endif
