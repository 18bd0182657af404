/* SPDX-License-Identifier: Apache-2.0
 * Grey images; centroids as such. */
#ifndef PICTURE_H
#define PICTURE_H

#include "tool.h"

struct picture {
    void *png; /* a PNG file, to be freed */
    size_t bytes;
};

/* Make a file of grey dots [height, width], top row first, 0 black; `dots` is from malloc() and is
 * freed, NULL stands for no memory. Failures are reported; an exit code. */
int picture_make(struct picture *out, uint8_t *dots, int64_t height, int64_t width);

/* Can k tiles of height x width be drawn? Reported if not; an exit code. */
int picture_check(int64_t k, int64_t height, int64_t width);

/* Each row of a [k, height * width] (F32 or F64) as a tile of a grid; black is the least value of
 * all, white the greatest. picture_check() must have passed. Failures are reported; an exit
 * code. */
int picture_draw(struct picture *out, const hf_array *a, int64_t height, int64_t width);

#endif
