/* SPDX-License-Identifier: Apache-2.0
 * Are the distances of a row to all centroids right? A weighted sum of them follows from the row
 * and two sums over the centroids, at a k-th of the work. */
#ifndef HF_GUARD_DISTANCES_H
#define HF_GUARD_DISTANCES_H

#include "core/context.h"
#include <holdfast/kmeans.h>

/* Sums over the centroids. */
struct hf_distance_book {
    double *block;   /* owns the rest; NULL: there is none, and nothing is checked */
    double *weight;  /* [k] of a centroid, 1 to 2 */
    double *origin;  /* [d] about which all is measured: the mean; 0 but for HF_EUCLIDEAN */
    double *sum;     /* [d] weighted, of centroids less origin; HF_COSINE: of directions */
    double *size;    /* [d] the same of absolute values */
    double *vectors; /* [2, d] scratch */
    double spread;   /* HF_EUCLIDEAN: weighted sum of squared distances to origin */
    double all;      /* sum of the weights */
};

/* From centroids [k, d] F32 or F64; nothing where the call makes no such check. HF_E_NOMEM */
hf_status hf_distance_book_open(hf_context *ctx, const hf_array *centroids, hf_metric metric,
                                struct hf_distance_book *book);
void hf_distance_book_close(struct hf_distance_book *book);

/* What op distance has written for the rows of x, and which of them do not count (bad, or NULL). */
struct hf_distance_check {
    const hf_array *x, *c;
    hf_metric metric;
    double *out; /* [n, k] as transform gives it: HF_EUCLIDEAN the root */
    const uint8_t *bad;
    int64_t first; /* row of the data that x begins with */
};

/* Rows whose sum is off by more than rounding can be are computed again by the reference; those
 * that differ were wrong and are replaced, or with detect: HF_E_CORRUPT. */
hf_status hf_distance_book_check(hf_context *ctx, const struct hf_distance_book *book,
                                 const struct hf_distance_check *check);

#endif
