/* SPDX-License-Identifier: Apache-2.0
 * All iterations of problems with few clusters and columns in one launch on Hopper. The blocks of a
 * problem wait for each other twice an iteration; problems of a batch do not wait. Two kernels: one
 * for small problems, one for narrow rows, however many. */
#ifndef HF_LLOYD_SMALL_H
#define HF_LLOYD_SMALL_H

#include "ops/lloyd/cuda/lloyd_cuda.h"

#define HF_LLOYD_SMALL_K 128 /* most clusters */
#define HF_LLOYD_SMALL_D 128 /* most columns */
#define HF_LLOYD_SMALL_VALUES                                                                      \
    33554432.0 /* of all rows; beyond, launches are cheap beside the work */

#define HF_LLOYD_NARROW_D 32        /* most columns of narrow rows */
#define HF_LLOYD_NARROW_ROWS 200000 /* up to so many the other kernel is faster, */
#define HF_LLOYD_NARROW_SHARE 4096  /* if each cluster has no more than so many of them */

/* Is the problem one of these, by its shape and rules? */
bool hf_lloyd_small_supports(const struct hf_lloyd_args *args);

/* Can the kernel look at these rows? */
bool hf_lloyd_small_takes(const struct hf_cuda *cuda, const struct hf_assign_rows *rows);

/* Bytes of memory, 256-byte aligned. */
size_t hf_lloyd_small_bytes(int64_t batch);

/* Make the iterations; afterwards labels are in job->labels[0], centroids in job->centers[0], those
 * before the last move in job->centers[1]. Queued on cuda->stream. */
hf_status hf_lloyd_small_run(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                             const struct hf_assign_rows *rows, void *memory);

/* The same for narrow rows; hf_lloyd_small_takes() and hf_lloyd_small_bytes() are of both. */
bool hf_lloyd_narrow_supports(const struct hf_lloyd_args *args);
hf_status hf_lloyd_narrow_run(struct hf_cuda *cuda, const struct hf_lloyd_job *job,
                              const struct hf_assign_rows *rows, void *memory);

#endif
