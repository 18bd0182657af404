/* SPDX-License-Identifier: Apache-2.0
 * What pack and the filter's kernels agree on: tiles of packed centroids, the memory round them,
 * the numbers of a launch. */
#ifndef HF_ASSIGN_FILTER_LAYOUT_H
#define HF_ASSIGN_FILTER_LAYOUT_H

#include "ops/assign/assign_filter.h"
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

/* What a block of pack measures on its FILTER_CHUNK centroids, rounded up. */
struct filter_info {
    float rc;   /* max |c' - c16| */
    float cm;   /* max |c'|, also >= |c16| - rc */
    float bias; /* max |bias| */
    float far;  /* max |c| in the units of x16 before any shift: for the reference's roundings */
};

/* Bytes of the parts of `packed`, in this order, each a multiple of 256. */
struct filter_memory {
    size_t tiles, info, parts, counters, biases;
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

/* Scores are compared as integers (assign_filter_sweep.cuh) where biases are moved up by the
 * largest, so that best scores are positive: by the matrix unit, or by a pass over packed biases,
 * which pays with many centroids. */
static inline bool filter_shifts(int k, int d) {
    return k >= FILTER_CHUNK_K || filter_tile_of(d).bias_step;
}

static inline size_t filter_pad(size_t bytes) { return (bytes + 255) / 256 * 256; }

static inline struct filter_memory filter_memory_of(int sms, int k, int d, int batch) {
    const struct filter_tile tile = filter_tile_of(d);
    struct filter_memory m;
    m.tiles_per_problem = (k + tile.nt - 1) / tile.nt;
    m.infos_per_problem = m.tiles_per_problem * (tile.nt / FILTER_CHUNK);
    m.tiles = filter_pad((size_t)batch * (size_t)m.tiles_per_problem * (size_t)tile.bytes);
    m.info = filter_pad((size_t)batch * (size_t)m.infos_per_problem * sizeof(struct filter_info));
    /* A block leaves up to two parts for others. */
    m.parts = filter_pad((size_t)sms * 2 * FILTER_MAX_WG * FILTER_WG_ROWS * FILTER_PART * 4);
    m.counters = filter_pad((size_t)sms * FILTER_MAX_WG * sizeof(int));
    m.biases = 0;
    if (filter_shifts(k, d) && !tile.bias_step)
        m.biases = filter_pad((size_t)batch * (size_t)m.infos_per_problem * FILTER_CHUNK * 8);
    return m;
}

/* The unit by which the pieces of a bias are multiplied (a power of two): f16 pieces must neither
 * overflow nor lose what float32 would keep. `size` bounds the biases, also when they are moved up,
 * while components are at most 1 in scaled units; pack gives up on larger ones. */
static inline float filter_bias_unit(const struct hf_filter_centroids *c) {
    const double size = c->raw ? 4.0 * c->d / (c->scale * c->scale) : c->d;
    int e = -24;
    while (e < 15 && size > ldexp(32768, e))
        e++;
    return ldexpf(1.0f, e);
}

#endif
