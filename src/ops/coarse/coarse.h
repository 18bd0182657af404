/* SPDX-License-Identifier: Apache-2.0
 * coarse: a correction with one unknown per block of rows: z_i += scale * (inverse s)_block(i),
 * where s is the sum of r over each block. Sums over the rows of a block and over blocks have
 * SPARSE_LANES lanes (ops/sparse.h). */
#ifndef HF_COARSE_H
#define HF_COARSE_H

#include "core/run.h"
#include "ops/sparse.h"
#include <stdbool.h>

struct hf_coarse_args {
    int64_t n, blocks;
    const int64_t *block_start; /* [blocks + 1], ascending from 0 to n */
    const double *inverse;      /* [blocks, blocks] of the coarse matrix */
    const double *r;            /* [n] */
    double scale;
    double *z; /* [n] in, out; shares no memory with r */
};

#endif
