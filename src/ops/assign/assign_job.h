/* SPDX-License-Identifier: Apache-2.0
 * One call of a SIMD row: the centroids as the tiles want them, and what each worker holds. */
#ifndef HF_ASSIGN_JOB_H
#define HF_ASSIGN_JOB_H

#include "base/mem.h"
#include "base/parallel.h"
#include "device/host/isa.h"
#include "ops/assign/assign.h"
#include "ops/assign/assign_bound.h"
#include "ops/reference.h"
#include <stdatomic.h>

#define LOST (-3e38f)        /* score of a centroid that the filter never picks */
#define WILD 0x1p60          /* |c'| from here on is out of the filter's range */
#define FAR_ROW 0x1p50f      /* so is a row whose nearest centroid is this far */
#define OUT_OF_SIGHT 0x1p58f /* nearer to such a row than any centroid out of range */
#define PAIRS_MAX 2048       /* candidates waiting for float64 */
#define CHAINS 8             /* float64 distances evaluated side by side */

/* Centroids packed for the tiles: all of them, or those that moved. */
struct pack {
    int64_t count;        /* centroids in it */
    int64_t groups;       /* ceil(count / TILE_K) */
    const int32_t *index; /* [count] number of each, NULL: 0, 1, 2, ... */
    void *tiles;          /* [groups] TILE_K centroids each, layout of the tile file */
    float *start;         /* what scores start from: -|c'|^2 / 2, LOST for lost ones */
};

/* Rows gathered for a pass of the tiles, and what the pass found. */
struct block {
    int64_t *row; /* [capacity] row numbers */
    int rows, capacity;
    float *norm2; /* |x'|^2 */
    float *best;  /* largest score so far (collect: the threshold) */
    float *next;  /* second largest */
    int32_t *arg; /* centroid of the largest */
};

/* A row that the filter left open. */
struct open_row {
    int64_t row;
    float threshold; /* candidates score at least this */
    float lower;     /* bound on the distance to any centroid */
};

struct pair {
    int32_t slot; /* row of the block */
    int32_t centroid;
};

struct worker {
    void *x;       /* packed rows of the block */
    float *rows;   /* [VW, d_pad] x' on the way there */
    float *parts;  /* [VW, VW] and |x'|^2 in VW parts */
    void *scratch; /* of the tile file */
    struct block block;
    int64_t *full;         /* rows waiting for all centroids */
    int64_t *partial;      /* rows waiting for the moved centroids */
    struct open_row *open; /* rows that the filter left open */
    int n_full, n_partial, n_open;
    struct pair *pairs; /* [PAIRS_MAX] */
    int n_pairs;
    double *least;       /* [capacity] least float64 distance of a slot */
    int32_t *least_arg;  /* [capacity] its centroid */
    double *x64;         /* [d] a row, */
    double *squares;     /* [d, CHAINS] and the terms of its distances */
    double norm64;       /* |x| of x64 (cosine) */
    int slot64;          /* slot that x64 holds, -1: none */
    struct hf_sums sums; /* this worker's share */
    int has_sums;
    struct hf_assign_stats stats;
    const char *soon, *soon_end; /* rows of the next block: fetched into cache while tiles run */
    size_t soon_step;            /* bytes each time */
};

struct job {
    const struct hf_assign_args *a;
    int64_t n, k, d, d_pad; /* d_pad: d up to a multiple of TILE_PAD */
    int any_twin;           /* some centroids are equal */
    size_t row_bytes;       /* from one row of x to the next */
    float *shift;           /* [d_pad] float32 */
    float scale;
    int whole;  /* rows are exact in bf16 */
    int usable; /* 0: every row goes to float64 */
    struct filter_bound bound;
    struct pack all, moved;
    double *c64;        /* [k, d] */
    double *c_norm;     /* [k] |c| (cosine) */
    double *c_length;   /* [k] |c'|; Inf where that is out of range */
    uint8_t *c_twin;    /* [k] 1: a later centroid equals this one */
    uint64_t *c_hash;   /* [k] of the bits of c64 */
    int32_t *hash_slot; /* [hash_size] for finding equal centroids */
    int64_t hash_size;
    double c_scale; /* power of two that c' is scaled by (dot) */
    int block_rows;
    struct worker *workers;
    int n_workers;
    _Atomic int64_t next_row;
};

/* The tiles will call job_prefetch() `times` times. */
static inline void job_prefetch_plan(struct worker *w, int64_t times) {
    const size_t bytes = (size_t)(w->soon_end - w->soon);
    w->soon_step = hf_align_up(bytes / (size_t)times + 1);
}

static inline void job_prefetch(struct worker *w) {
    if (w->soon == w->soon_end)
        return;
    const size_t left = (size_t)(w->soon_end - w->soon);
    const char *stop = left < w->soon_step ? w->soon_end : w->soon + w->soon_step;
    for (; w->soon < stop; w->soon += HF_ALIGN)
        __builtin_prefetch(w->soon, 0, 2);
    w->soon = w->soon < w->soon_end ? w->soon : w->soon_end;
}

/* Row i of the data. */
static inline const char *job_row(const struct job *job, int64_t i) {
    return (const char *)job->a->x.data + (size_t)i * job->row_bytes;
}

#endif
