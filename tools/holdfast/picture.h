/* SPDX-License-Identifier: Apache-2.0
 * Centroids as grey images. */
#ifndef PICTURE_H
#define PICTURE_H

#include "tool.h"

struct picture {
    void *png; /* a PNG file, to be freed */
    size_t bytes;
};

/* Can k tiles of height x width be drawn? Reported if not; an exit code. */
int picture_check(int64_t k, int64_t height, int64_t width);

/* Each row of a [k, height * width] (F32 or F64) as a tile of a grid; black is the least value of
 * all, white the greatest. picture_check() must
 * have passed. Failures are reported; an exit code. */
int picture_draw(struct picture *out, const hf_array *a, int64_t height, int64_t width);

#endif
