/* SPDX-License-Identifier: Apache-2.0
 * Sums of float64 in an order that one thread, a warp and a block of threads can all follow: term i
 * goes to lane i % lanes, a lane adds its terms one after another, and then the upper half of the
 * lanes is added to the lower half until one is left. Lanes begin as +0, so lanes without a term
 * change nothing. */
#ifndef HF_TREE_H
#define HF_TREE_H

#define HF_TREE_COLUMNS 32    /* lanes of a sum over the columns of a row: a warp */
#define HF_TREE_CLUSTERS 1024 /* lanes of a sum over clusters: a block */

/* The sum of the lanes, a power of two of them; they are used up. */
static inline double hf_tree_fold(double *lane, int lanes) {
    for (int half = lanes / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lane[i] = lane[i] + lane[i + half];
    return lane[0];
}

#endif
