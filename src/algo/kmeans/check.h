/* SPDX-License-Identifier: Apache-2.0
 * What the public calls of k-means accept. Each check writes to the context what is wrong, where,
 * and what to do. Nothing behind kmeans_api.c checks its arguments again. */
#ifndef HF_CHECK_H
#define HF_CHECK_H

#include "core/context.h"
#include <holdfast/kmeans.h>

/* Shape and element type of the rows, whichever of the two is given. */
struct hf_shape {
    int64_t n, d;
    hf_dtype dtype;
};
hf_status hf_check_rows(hf_context *ctx, const hf_array *x, const hf_source *source,
                        struct hf_shape *shape);
/* [k, d] of any type, finite; k < 0: any number of rows. */
hf_status hf_check_centroids(hf_context *ctx, const hf_array *c, int64_t k, int64_t d);
/* The place of an output: [k, d] F64. */
hf_status hf_check_seeds(hf_context *ctx, const hf_array *c, int64_t k, int64_t d);
/* [n, 1], finite, >= 0, not all 0. */
hf_status hf_check_weights(hf_context *ctx, const hf_array *weights, int64_t n);
hf_status hf_check_metric(hf_context *ctx, hf_metric metric, hf_precision precision);
/* *full is a copy of opts with the defaults filled in. */
hf_status hf_check_opts(hf_context *ctx, const hf_kmeans_opts *opts, const struct hf_shape *shape,
                        hf_kmeans_opts *full);
/* "row 3, column 7 of the data is NaN": the first bad element of row i of a chunk that begins at
 * row `first`; `remedy` ends the message. */
hf_status hf_bad_row(hf_context *ctx, const hf_array *chunk, int64_t i, int64_t first,
                     const char *remedy);

/* Copies on the host of arguments that may lie on the device. b is zeroed before; free with
 * hf_host_args_close(), on failure too. */
struct hf_host_args {
    hf_array centroids, weights;
    void *owned[2];
};
hf_status hf_host_args_open(hf_context *ctx, const hf_array **centroids, const hf_array **weights,
                            struct hf_host_args *b);
/* Centroids that were checked as F32 or F64, into which the other types go exactly. */
hf_status hf_widen_centroids(hf_context *ctx, const hf_array **centroids, struct hf_host_args *b);
void hf_host_args_close(struct hf_host_args *b);

#endif
