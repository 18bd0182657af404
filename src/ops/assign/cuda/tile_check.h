/* SPDX-License-Identifier: Apache-2.0
 * The scheme of FT K-Means (Wu and others, 2024) on tensor cores, for comparison with ours: each
 * tile of 32 rows by 32 centroids that a warp scores has three checksums, those of its scores
 * plain, weighted by column and weighted by row, against products of the sums of its rows and of
 * its centroids. Their ratios are the place of a wrong score, which is put right in registers. */
#ifndef HF_ASSIGN_TILE_CHECK_H
#define HF_ASSIGN_TILE_CHECK_H

#include "device/slot.h"
#include "ops/assign/cuda/filter.h"

struct hf_tile_check {
    float *sums;          /* of the centroids of each tile: hf_tile_check_bytes() */
    struct hf_slot *slot; /* where findings are told, */
    uint32_t kernel;      /* by this number */
};

/* Rows have up to so many columns. */
#define HF_TILE_CHECK_D 256

/* Bytes for k centroids of d columns. */
size_t hf_tile_check_bytes(int k, int d);

/* After hf_filter_pack(): the sums of packed centroids. batch is 1, and mma set. */
hf_status hf_tile_check_sums(struct hf_cuda *cuda, const struct hf_filter_centroids *centroids,
                             const void *packed, const struct hf_tile_check *check);

/* hf_filter_top2() of all rows with checks. */
hf_status hf_tile_check_top2(struct hf_cuda *cuda, const struct hf_filter_call *call,
                             const struct hf_filter_out *out, const struct hf_tile_check *check);

#endif
