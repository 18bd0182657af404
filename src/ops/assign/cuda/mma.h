/* SPDX-License-Identifier: Apache-2.0
 * The filter (cuda/filter.h) by mma.sync, for all tensor cores from compute capability 8.0 on:
 * same packed centroids, bounds, lists and results. Rows are f16. */
#ifndef HF_ASSIGN_MMA_H
#define HF_ASSIGN_MMA_H

#include "ops/assign/cuda/filter_layout.h"

struct filter_args;

enum { MMA_WIDE_D = 256 }; /* columns up to which rows stay in registers */

/* Tiles of centroids: three stages (two beyond MMA_WIDE_D) fit the least shared memory that these
 * devices have. Biases are float32. */
static inline struct filter_tile hf_mma_tile(int d) {
    struct filter_tile tile = {32, 128, 128, false, 0};
    while (tile.dp < d && tile.dp < 128)
        tile.dp *= 2;
    if (d > tile.dp) {
        tile.dp = (d + 63) / 64 * 64;
        tile.nt = d <= MMA_WIDE_D ? 64 : 128;
    }
    if (tile.dp % 64 != 0)
        tile.swizzle = 64;
    tile.bytes = tile.nt * (tile.dp * 2 + 4);
    return tile;
}

static inline struct filter_memory hf_mma_memory(int k, int d, int batch) {
    const struct filter_tile tile = hf_mma_tile(d);
    struct filter_memory m = {};
    m.tiles_per_problem = (k + tile.nt - 1) / tile.nt;
    m.infos_per_problem = m.tiles_per_problem * (tile.nt / FILTER_CHUNK);
    m.tiles = filter_pad((size_t)batch * (size_t)m.tiles_per_problem * (size_t)tile.bytes);
    m.info = filter_pad((size_t)batch * (size_t)m.infos_per_problem * sizeof(struct filter_info));
    m.bounds = filter_pad((size_t)batch * sizeof(struct filter_bounds));
    m.facts = filter_facts_bytes(m.infos_per_problem, batch);
    return m;
}

/* What hf_filter_supports() and hf_filter_estimate_ns() say of the other one. */
bool hf_mma_supports(const struct hf_device_props *device, int64_t n, int k, int d, int batch);
double hf_mma_estimate_ns(const struct hf_device_props *device, int64_t n, int k, int d, int batch);

/* mode: FILTER_BEST, FILTER_TOP2, FILTER_LIST or FILTER_EMIT. */
hf_status hf_mma_run(struct hf_cuda *cuda, struct filter_args args,
                     const struct hf_filter_centroids *centroids, void *packed, int mode);

#endif
