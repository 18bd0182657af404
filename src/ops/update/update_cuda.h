/* SPDX-License-Identifier: Apache-2.0
 * update on NVIDIA GPUs, as its own row and the loop see it. `batch` problems of one shape lie one
 * behind the other; a row number counts through all of them, and so does a cluster number. All
 * pointers are device memory. */
#ifndef HF_UPDATE_CUDA_H
#define HF_UPDATE_CUDA_H

#include "device/cuda/cuda.h"
#include "ops/update/update.h"

#define HF_UPDATE_THREADS 384
#define HF_UPDATE_BLOCKS 2         /* of a multiprocessor */
#define HF_UPDATE_BINS (11 * 1024) /* most clusters that a block counts in shared memory */
#define HF_UPDATE_LEAST_PIECE 32   /* least rows that a piece of a large cluster has */

/* Some rows of one cluster, one behind the other in hf_update_scratch.order. */
struct hf_update_piece {
    uint32_t first;
    int32_t rows;
    int32_t problem;
    int32_t cluster; /* of the problem */
};

/* Memory of a run; sizes and addresses by hf_update_scratch_carve(). */
struct hf_update_scratch {
    unsigned long long *taken; /* [1] pieces << 32 | rows; 0 between runs */
    unsigned *barrier;         /* [1] 0 before the first run */
    unsigned *next;            /* [1] pieces given out; 0 between runs */
    uint32_t *held;            /* [batch * k] entries of each cluster; 0 between runs */
    uint32_t *start;           /* [batch * k] where they begin in order */
    uint32_t *first_piece;     /* [batch * k] */
    uint32_t *rank;            /* [entries] an entry's number within its cluster */
    uint32_t *order;           /* [entries] rows by cluster; the highest bit: taken out */
    struct hf_update_piece *pieces;
};

/* The rows, and the sums that they belong in. */
struct hf_update_job {
    const char *x; /* [batch * n, d] */
    int64_t row_bytes;
    hf_dtype dtype;
    int64_t n, k, d, batch;
    const double *factor;  /* [batch * n] r_i of update.h, NULL: 1 */
    const double *weights; /* [batch * n] what sums.weight gets; used only with that */
    int limbs, bits;
    int64_t mult_stride;       /* from one problem's mult to the next: d, or 0 */
    const double *mult;        /* [batch, d] */
    const double *weight_mult; /* [batch] */
    int64_t *sum;              /* [batch, limbs, k, d] */
    int64_t *count;            /* [batch, k] */
    int64_t *weight;           /* [batch, limbs, k] or NULL */
    struct hf_update_scratch scratch;
};

/* Bytes of scratch for `entries` rows that are added or taken out and `clusters` clusters in all.
 * memory, 256-byte aligned: *scratch gets its pointers; NULL: measure only. */
size_t hf_update_scratch_carve(int64_t entries, int64_t clusters, void *memory,
                               struct hf_update_scratch *scratch);

/* Shared memory of a block that runs the steps: bins for all clusters, else for those of a problem,
 * else none are used. */
static inline size_t hf_update_bins_bytes(int64_t batch, int64_t k) {
    const int64_t all = batch * k <= HF_UPDATE_BINS ? batch * k : k;
    return (size_t)(all <= HF_UPDATE_BINS ? all : 1) * sizeof(uint32_t);
}

/* Make a new scratch fit for a first run. */
hf_status hf_update_scratch_clear(struct hf_cuda *cuda, const struct hf_update_scratch *scratch,
                                  int64_t clusters);

/* factor[i] = r_i of update.h, for the cosine metric. */
hf_status hf_update_factors(struct hf_cuda *cuda, const struct hf_update_job *job, double *factor);

#endif
