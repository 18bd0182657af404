/* SPDX-License-Identifier: Apache-2.0
 * Scores of the tensor-core filter on NVIDIA GPUs, struck in registers, with and without the
 * checksums of tiles (ops/assign/cuda/tile_check.h). */
#ifndef HF_TILE_STRIKE_H
#define HF_TILE_STRIKE_H

#include "device/slot.h"
#include <holdfast/base.h>
#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { HF_STRUCK_ROWS = 512, HF_STRUCK_CLUSTERS = 96, HF_STRUCK_COLUMNS = 64 };

/* Rows and centroids on a device, packed. */
struct hf_struck_tiles;

/* x [rows, columns] bits of float16, c [clusters, columns], norm [rows] at least |x|. stream: of a
 * CUDA context. NULL: no memory, or an error of the device. */
struct hf_struck_tiles *hf_struck_tiles_open(void *stream, const uint16_t *x, const float *norm,
                                             const float *c);
void hf_struck_tiles_close(struct hf_struck_tiles *tiles);

/* The bits of `mask` are inverted in the score of a row and a centroid; row -1: none. */
struct hf_struck_score {
    int row, column;
    uint32_t mask;
};

struct hf_struck_labels {
    int32_t label[HF_STRUCK_ROWS]; /* -1: the filter leaves the row open */
    struct hf_slot slot;           /* what checksums told */
    int struck;                    /* how often the score was passed */
};

/* checked: tiles have their checksums. */
hf_status hf_struck_tiles_label(struct hf_struck_tiles *tiles, bool checked,
                                const struct hf_struck_score *score, struct hf_struck_labels *out);

#ifdef __cplusplus
}
#endif
#endif
