/* SPDX-License-Identifier: Apache-2.0
 * One call of a SIMD row: the centroids as the tiles want them, and what each worker holds. */
#ifndef HF_ASSIGN_JOB_H
#define HF_ASSIGN_JOB_H

#include "base/mem.h"
#include "base/parallel.h"
#include "device/host/isa.h"
#include "ops/assign/assign.h"
#include "ops/assign/host/bound.h"
#include "ops/reference.h"
#include <stdatomic.h>

/* Score of a centroid that the filter never picks. Its last bits are 0: a key made of it, which has
 * the centroid's place there, is not above it. */
#define LOST (-0x1.c2p127f)
#define WILD 0x1p60          /* |c'| from here on is out of the filter's range */
#define FAR_ROW 0x1p50f      /* so is a row whose nearest centroid is this far */
#define SHARE_LEAST 0x1p-60f /* shares of the lengths of shorter centroids are shares of this */
#define LEAST_ROW 0x1p-90f   /* cosine, dot: |x'|^2 below this may be wrong */
#define OUT_OF_SIGHT 0x1p58f /* nearer to such a row than any centroid out of range */
#define NEAR_LIST 64         /* candidates of an open row that are listed: more, and all are met */
#define DENSE_DEPTH 32       /* terms added in one chain: keeps the error bound short */
#define MOVES_MAX 64         /* rows waiting for the sums */
#define MOVES_FETCH 4096     /* bytes of a row that are fetched ahead at most */
#define BASIS_ROOM (HF_ISA_TILES ? 128 : 64) /* directions and one */
#define LENGTHS_DIFFER 4                     /* times as long as others */
#define CHAINS VDW                           /* float64 distances evaluated side by side */

/* What a row of the table does. */
enum idea { IDEA_PLAIN, IDEA_PROJECT, IDEA_I16, IDEA_HALF, IDEA_I8, IDEA_I8X2 };

/* How open rows are compared before float64 in order (host/near.h). */
enum near_kind { NEAR_NONE, NEAR_F32, NEAR_F64 };

/* What a call does with rows that are kept. */
enum kept_use { KEPT_NONE, KEPT_FILL, KEPT_READ };

/* Centroids packed for the tiles: all of them, or those that moved. */
struct pack {
    int64_t count;        /* centroids in it */
    int64_t groups;       /* ceil(count / TILE_K) */
    const int32_t *index; /* [count] number of each, NULL: 0, 1, 2, ... */
    void *tiles;          /* [groups] TILE_K centroids each, layout of the tile file */
    float *start;         /* what scores start from: -|c'|^2 / 2, LOST for lost ones */
    float *lost;          /* coarse tiles: how far rounding moved each */
    float *length;        /* at least |c'| */
};

/* Directions that rows with many features are looked at first (host/basis.h). */
struct basis {
    int p;                   /* directions */
    float *v;                /* [d_pad, BASIS_ROOM] */
    float *c32;              /* [k up to a multiple of 4, d_pad] c' */
    double *square;          /* [k] |c'|^2 */
    float *start;            /* [k] what scores start from */
    float *z;                /* [k up to a multiple of 4, BASIS_ROOM] coordinates of c' */
    double *wide;            /* [d, BASIS_ROOM] scratch: v in float64, */
    double *inner, *inverse; /* [BASIS_ROOM, BASIS_ROOM] and for its factors */
    float slack;             /* error of an upper bound: slack (|x'| C + C^2 / 2) + eta */
    float rest_slack;        /* relative error of |x' - V y|^2, in shares of |x'|^2 */
    float tiny;              /* absolute error of |x'| from underflow */
    float *lost;             /* [k] how far rounding moved the coordinates, */
    float lost_most;         /* the most of them */
    struct pack directions;  /* V as tiles */
    struct pack coarse;      /* coordinates and lengths of the rest */
    struct job *coarse_job;  /* what the tile functions need to know of coarse rows */
};

/* Rows gathered for a pass of the tiles, and what the pass found. */
struct block {
    int64_t first; /* rows from this one on, in sequence; -1: others */
    int64_t *row;  /* [capacity] their numbers */
    int rows, capacity;
    void *x;      /* packed for the tiles */
    float *norm2; /* |x'|^2 */
    float *loss;  /* how far storing x' in the tiles moved it; NULL: in bound.eps */
    float *unit;  /* int16: what one in the row stands for */
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

/* A row from one cluster to another (-1: none). */
struct move {
    int64_t row;
    int32_t from, to;
};

/* Where a block's rows lie: of the worker, or those that are kept. */
struct rows_at {
    void *x;
    float *norm2, *loss, *unit;
};

struct worker {
    struct rows_at own;
    float *rows;       /* [VW, d_pad] x' on the way there; with directions [capacity, d_pad] */
    float *parts;      /* [VW, VW] and |x'|^2 in VW parts */
    void *scratch;     /* of the tile file */
    float *y;          /* [capacity / TILE_ROWS, directions, TILE_ROWS] coordinates */
    float *scores;     /* [coarse slots, TILE_ROWS] upper bounds of a tile */
    float *coarse_row; /* [BASIS_ROOM, VW] */
    void *coarse;      /* coarse rows of the block, packed */
    int64_t looks;     /* centroids that they did not rule out */
    struct block block;
    int64_t *full;         /* rows waiting for all centroids */
    int64_t *partial;      /* rows waiting for the moved centroids */
    struct open_row *open; /* rows that the filter left open */
    int n_full, n_partial, n_open;
    int32_t *list;      /* [open rows, NEAR_LIST] candidates of a slot, */
    int32_t *listed;    /* [open rows] and how many; NEAR_LIST + 1: more */
    double *least;      /* [open rows] least float64 distance of a slot; sure ones: not less, */
    int32_t *least_arg; /* [open rows] its centroid, */
    double *beside;     /* [open rows] at most the distances to others (squares); < 0: not known */
    uint8_t *sure; /* [open rows] 1: least_arg was told by what comes before float64 in order */
    int *dense;    /* [open rows] slots that meet all centroids */
    double *near_best, *near_next, *near_arg, *near_flat; /* [open rows] of those, in float64 */
    float *near_row;                                      /* [d_pad] a row as it is */
    size_t dense_bytes;                                   /* of own.x */
    double *x64;                                          /* [d_pad] a row */
    double norm64;                                        /* |x| of x64 (cosine) */
    int slot64;                                           /* slot that x64 holds, -1: none */
    struct hf_sums sums;                                  /* this worker's share */
    int has_sums;                                         /* rows went into them */
    int n_moves;
    struct hf_assign_stats stats;
    const char *soon, *soon_end; /* rows of the next block: fetched into cache while tiles run */
    size_t soon_step;            /* bytes each time */
    /* Rows that changed their cluster and wait for the sums; last, for nobody clears them. */
    struct move moves[MOVES_MAX];
};

struct job {
    const struct hf_assign_args *a;
    int64_t n, k, d, d_pad; /* d_pad: d up to a multiple of TILE_PAD */
    int any_twin;           /* some centroids are equal */
    size_t row_bytes;       /* from one row of x to the next */
    float *shift;           /* [d_pad] float32 */
    float scale;
    int whole;  /* rows are exact in bf16 */
    int single; /* centroids too: no low parts */
    int differ; /* lengths of centroids do, much: bounds begin with those of each row's best */
    int usable; /* 0: every row goes to float64 */
    int exact;  /* labels are, by float64 where the filter leaves a doubt */
    struct filter_bound bound;
    struct pack all, moved;
    int half;        /* rows and centroids go to the tiles as bf16 and nothing else, */
    int i8;          /* perhaps even as bytes, so many for a component of a centroid, */
    float i8_step;   /* one in a centroid standing for this, */
    int i8_most;     /* the largest number there, */
    int32_t *i8_off; /* [d_pad / 2] pairs, added to x' to make it a byte, */
    double *c_most;  /* [k] the largest |component| of c', */
    int i16;         /* or as int16, */
    int i16_own;     /* each centroid times a power of two of its own, */
    float i16_scale; /* or all times this */
    int project;     /* look at directions first */
    struct basis basis;
    enum near_kind near;
    double near_share, near_least; /* what their keys are off: a share, and underflow */
    double near_reach;             /* at least |c| (dot), or 1 */
    int dense_first;               /* open rows meet all centroids at once: lists cost more */
    int begin_dense;               /* rows do, too: the filter would decide too few */
    int in_range;                  /* float64 products of rows and centroids are */
    int32_t *live;                 /* [n_live] centroids but the later ones of equals */
    int n_live;
    double *c_inverse;  /* [k] 1 / |c|, 0 for 0 (cosine) */
    double *c_norm;     /* [k] |c| (cosine) */
    double *c_length;   /* [k] |c'|; Inf where that is out of range */
    uint8_t *c_twin;    /* [k] 1: a later centroid equals this one */
    uint64_t *c_hash;   /* [k] of its bits */
    int32_t *hash_slot; /* [hash_size] for finding equal centroids */
    int64_t hash_size;
    double c_scale; /* power of two that c' is scaled by (dot) */
    int block_rows;
    int64_t scan_least; /* rows that a worker takes at once, at least */
    enum kept_use kept_use;
    int sweep;           /* kept rows meet the moved centroids first */
    struct rows_at kept; /* of row 0 of the call */
    struct worker *workers;
    int n_workers;
    _Atomic int64_t next_row;
};

/* The row in a slot. */
static inline int64_t block_row(const struct block *b, int slot) {
    return b->first >= 0 ? b->first + slot : b->row[slot];
}

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

/* The larger and the smaller one, b where either is NaN: fmaxf() and fminf() are calls. */
static inline float larger(float a, float b) { return a > b ? a : b; }
static inline float smaller(float a, float b) { return a < b ? a : b; }

/* Row i of the data. */
static inline const char *job_row(const struct job *job, int64_t i) {
    return (const char *)job->a->x.data + (size_t)i * job->row_bytes;
}

/* The most that rounding moved a centroid. */
static inline float pack_lost_most(const struct pack *p) {
    float most = 0;
    for (int64_t slot = 0; slot < p->count; slot++)
        most = larger(most, p->lost[slot]);
    return most;
}

/* The same in shares of |c'|, of all but the shortest. */
static inline float pack_lost_share(const struct pack *p) {
    float most = 0;
    for (int64_t slot = 0; slot < p->count; slot++)
        most = larger(most, p->lost[slot] / larger(p->length[slot], SHARE_LEAST));
    return most * (1 + 0x1p-6f);
}

/* How many centroids are so much shorter than the longest that a bound, or a scale, for all is too
 * wide for them. */
static inline int64_t lengths_below(const struct job *job, double cmax) {
    int64_t count = 0;
    for (int64_t k = 0; k < job->k; k++)
        count += job->c_length[k] < cmax / LENGTHS_DIFFER;
    return count;
}

#endif
