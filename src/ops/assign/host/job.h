/* SPDX-License-Identifier: Apache-2.0
 * One call of a SIMD kernel: the centroids in the form that the tiles read, and the buffers of each
 * worker. x' and c' are rows and centroids as the filter sees them, (x - shift) * scale. */
#ifndef HF_ASSIGN_JOB_H
#define HF_ASSIGN_JOB_H

#include "base/mem.h"
#include "base/parallel.h"
#include "device/host/isa.h"
#include "ops/assign/assign.h"
#include "ops/assign/host/bound.h"
#include "ops/assign/host/guard/guard_job.h"
#include "ops/reference.h"
#include <stdatomic.h>

/* Score of a centroid that the filter must never find best. Its last bits are 0, so that a key made
 * of it (host/scan_amx.h), which has the place of the centroid there, is not above it. */
#define EXCLUDED (-0x1.c2p127f)
#define OUT_OF_RANGE 0x1p60  /* the filter excludes centroids with |c'| from here on */
#define FAR_ROW 0x1p50f      /* and cannot decide rows whose nearest centroid is this far */
#define SHARE_LEAST 0x1p-60f /* relative losses of shorter centroids are relative to this */
#define LEAST_ROW 0x1p-90f   /* cosine, dot: |x'|^2 below this may be wrong */
#define OUT_OF_SIGHT 0x1p58f /* from a row within FAR_ROW, a centroid out of range is farther */
#define CANDIDATES_MAX 64    /* listed for an open row; with more, it is compared with all */
#define DENSE_DEPTH 32       /* terms added in one chain: keeps the error bound small */
#define MOVES_MAX 64         /* rows waiting to be moved between sums */
#define MOVES_FETCH 4096     /* bytes of such a row that are prefetched at most */
#define BASIS_ROOM (HF_ISA_TILES ? 128 : 64) /* directions, and one more for the rest */
#define LENGTHS_DIFFER 4 /* a centroid is short if the longest is so many times as long */
#define CHAINS VDW       /* float64 distances evaluated side by side */

/* What the filter of a kernel computes with. */
enum variant {
    VARIANT_PLAIN,   /* float32, on AMX as bf16 in two parts */
    VARIANT_PROJECT, /* the same, after a look at a few directions (host/project.h) */
    VARIANT_I16,     /* int16 (host/tile_i16.h) */
    VARIANT_HALF,    /* the high bf16 part alone (host/tile_amx.h) */
    VARIANT_I8,      /* rows in bytes, centroids in one byte per component (host/tile_i8.h) */
    VARIANT_I8X2     /* and in two */
};

/* Numbers that open rows are compared in before float64 in order (host/differences.h). */
enum difference_type { DIFFERENCE_NONE, DIFFERENCE_F32, DIFFERENCE_F64 };

/* What a call does with rows that stay packed between calls. */
enum packed_use { PACKED_NONE, PACKED_FILL, PACKED_READ };

/* Centroids packed for the tiles: all of them, or those that moved. */
struct pack {
    int64_t count;        /* centroids in it */
    int64_t groups;       /* ceil(count / TILE_K) */
    const int32_t *index; /* [count] number of each; NULL: 0, 1, 2, ... */
    void *tiles;          /* [groups] of TILE_K centroids each; the tile file has the layout */
    float *start;         /* what scores start from: -|c'|^2 / 2, or EXCLUDED */
    float *loss;          /* |stored c' - c'| of each; NULL: bound.eps covers it */
    float *length;        /* at least |c'| */
    struct guard_pack check;
};

/* Directions on which rows with many features are scored first (host/basis.h). */
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
    float rest_slack;        /* error of |x' - V y|^2, relative to |x'|^2 */
    float tiny;              /* absolute error of |x'| from underflow */
    float *loss;             /* [k] how far rounding moved the coordinates, */
    float loss_most;         /* and the most of them */
    struct pack directions;  /* V as tiles */
    struct pack coarse;      /* coordinates, and the length of what they leave */
    struct job *coarse_job;  /* what the tile functions need to know of coarse rows */
};

/* Rows gathered for a pass of the tiles, and what the pass found. A slot is a place in it. */
struct block {
    int64_t first; /* its rows are those from this one on, in sequence; -1: those of row[] */
    int64_t *row;  /* [capacity] their numbers */
    int rows, capacity;
    void *x;       /* packed for the tiles */
    float *norm2;  /* |x'|^2 */
    float *loss;   /* |stored x' - x'|; NULL: bound.eps covers it */
    float *unit;   /* int16: what 1 in the stored row stands for */
    int32_t *word; /* sums of the words above (host/guard/guard_words.h) */
    float *best;   /* largest score so far; tile_collect() reads the row's threshold here */
    float *next;   /* second largest */
    int32_t *arg;  /* centroid of the largest */
};

/* A row that the filter left open. */
struct open_row {
    int64_t row;
    float threshold;   /* its candidates score at least this */
    float lower;       /* at most the distance to any centroid */
    uint32_t again[2]; /* both of the first, folded */
};

/* A row from one cluster to another (-1: none). */
struct move {
    int64_t row;
    int32_t from, to;
    float score; /* of `to`, as the filter found it; NaN: the filter did not decide */
    float norm2; /* |x'|^2, if it did */
};

/* Memory for the rows of a block: the worker's own, or where rows stay packed between calls. */
struct rows_at {
    void *x;
    float *norm2, *loss, *unit;
    int32_t *word;
};

struct worker {
    struct rows_at own;
    float *rows;       /* [VW, d_pad] x' before it is packed; with directions [capacity, d_pad] */
    float *parts;      /* [VW, VW] and |x'|^2 in VW parts */
    void *scratch;     /* of the tile file */
    float *y;          /* [capacity / TILE_ROWS, directions, TILE_ROWS] coordinates */
    float *scores;     /* [coarse slots, TILE_ROWS] upper bounds of a tile */
    float *coarse_row; /* [BASIS_ROOM, VW] */
    void *coarse;      /* coarse rows of the block, packed */
    int64_t compared;  /* pairs that the upper bounds did not rule out */
    struct block block;
    int64_t *full;         /* rows waiting for all centroids */
    int64_t *partial;      /* rows waiting for the moved centroids */
    struct open_row *open; /* rows that the filter left open */
    int n_full, n_partial, n_open;
    /* Of each open row in the block: */
    int32_t *list;      /* [open rows, CANDIDATES_MAX] candidates, */
    int32_t *listed;    /* how many; CANDIDATES_MAX + 1: more than the list holds */
    double *least;      /* least float64 distance so far; decided: at least its square */
    int32_t *least_arg; /* its centroid */
    double *others;     /* at most the square of the distance to any other; < 0: not known */
    uint8_t *decided;   /* 1: differences decided least_arg, without float64 in order */
    int *dense;         /* slots to be compared with all centroids; of those, in float64: */
    double *key_best, *key_next, *key_arg, *key_error;
    float *row32;        /* [d_pad] a row as it is, in float32 */
    size_t dense_bytes;  /* of own.x */
    double *x64;         /* [d_pad] a row in float64 */
    double norm64;       /* |x| of x64 (cosine) */
    int slot64;          /* slot that x64 holds; -1: none */
    struct hf_sums sums; /* the caller's (worker 0), or this worker's own */
    int has_sums;        /* rows went into them */
    int n_moves;         /* in moves[] */
    struct hf_assign_stats stats;
    const char *fetch, *fetch_end; /* rows of the next block: prefetched while tiles run, */
    size_t fetch_step;             /* so many bytes each time */
    struct guard_block guard;
    /* Rows that changed their cluster and wait for the sums; last, because it is not cleared. */
    struct move moves[MOVES_MAX];
};

struct job {
    const struct hf_assign_args *a;
    int64_t n, k, d, d_pad; /* d_pad: d up to a multiple of TILE_PAD */
    int any_equal;          /* some centroids are equal */
    size_t row_bytes;       /* from one row of x to the next */
    float *shift;           /* [d_pad] float32 */
    float scale;
    int whole;  /* rows are exact in bf16 */
    int single; /* centroids too: they have no low parts */
    int differ; /* many centroids are short (LENGTHS_DIFFER): margins follow each row's best one */
    int usable; /* 0: every row goes to float64 */
    int exact;  /* float64 decides what the filter leaves open */
    struct filter_bound bound;
    struct pack all, moved;
    int half;        /* rows and centroids go to the tiles as one bf16 each, or as bytes */
    int i8;          /* as bytes: so many for a component of a centroid (0, 1, 2), */
    float i8_step;   /* 1 in a stored centroid stands for this, */
    int i8_most;     /* the largest number there, */
    int32_t *i8_off; /* [d_pad / 2] pairs, added to x' to make it a byte */
    double *c_most;  /* [k] the largest |component| of c' */
    int i16;         /* as int16, */
    int i16_own;     /* each centroid times a power of two of its own, */
    float i16_scale; /* or all of them times this */
    int project;     /* score directions first */
    struct basis basis;
    enum difference_type difference;
    double difference_share, difference_least; /* error of keys: relative, and from underflow */
    double difference_reach;                   /* at least |c| (dot), or 1 */
    int dense_first; /* compare open rows with all centroids at once: lists cost more */
    int begin_dense; /* compare every row so: the filter would decide too few */
    int in_range;    /* no float64 product of a row and a centroid overflows */
    int32_t *live;   /* [n_live] centroids; of equal ones the first */
    int n_live;
    double *c_inverse;  /* [k] 1 / |c|, 0 for 0 (cosine) */
    double *c_norm;     /* [k] |c| (cosine) */
    double *c_length;   /* [k] |c'|; Inf if that is out of range */
    uint8_t *has_equal; /* [k] 1: a later centroid equals this one */
    uint64_t *c_hash;   /* [k] of its bits */
    int32_t *hash_slot; /* [hash_size] table that finds equal centroids */
    int64_t hash_size;
    double c_scale; /* power of two that c' is scaled by (dot) */
    int block_rows;
    int64_t take_least; /* rows that a worker takes at once, at least */
    enum packed_use packed_use;
    int sweep;             /* compare packed rows with the moved centroids first */
    struct rows_at packed; /* of row 0 of the call */
    struct worker *workers;
    int n_workers;
    struct guard guard;
    _Atomic int64_t next_row;
};

/* The row in a slot. */
static inline int64_t block_row(const struct block *b, int slot) {
    return b->first >= 0 ? b->first + slot : b->row[slot];
}

/* The tiles will call job_prefetch() `times` times. */
static inline void job_prefetch_plan(struct worker *w, int64_t times) {
    const size_t bytes = (size_t)(w->fetch_end - w->fetch);
    w->fetch_step = hf_align_up(bytes / (size_t)times + 1);
}

static inline void job_prefetch(struct worker *w) {
    if (w->fetch == w->fetch_end)
        return;
    const size_t left = (size_t)(w->fetch_end - w->fetch);
    const char *stop = left < w->fetch_step ? w->fetch_end : w->fetch + w->fetch_step;
    for (; w->fetch < stop; w->fetch += HF_ALIGN)
        __builtin_prefetch(w->fetch, 0, 2);
    w->fetch = w->fetch < w->fetch_end ? w->fetch : w->fetch_end;
}

/* At least the size of a score of a row with |x'| <= norm, and of the terms that it adds up. */
ALWAYS_INLINE vf job_reach(const struct job *job, vf norm) {
    const float cmax = job->bound.cmax;
    const float half = job->a->metric == HF_EUCLIDEAN ? 0.5f : 0;
    return vf_fma(norm, vf_set1(cmax), vf_set1(cmax * cmax * half));
}

/* The larger and the smaller one, b where either is NaN: fmaxf() and fminf() are calls. */
static inline float larger(float a, float b) { return a > b ? a : b; }
static inline float smaller(float a, float b) { return a < b ? a : b; }

/* Row i of the data. */
static inline const char *job_row(const struct job *job, int64_t i) {
    return (const char *)job->a->x.data + (size_t)i * job->row_bytes;
}

/* At most `most` bytes of a row that is used soon, into the L1 cache; it may begin and end within a
 * cache line. */
static inline void job_fetch_row(const struct job *job, int64_t i, size_t most) {
    const char *row = job_row(job, i);
    const char *end = row + (job->row_bytes < most ? job->row_bytes : most);
    for (const char *at = row - (uintptr_t)row % HF_ALIGN; at < end; at += HF_ALIGN)
        __builtin_prefetch(at);
}

/* The most that storing moved a centroid. */
static inline float pack_loss_most(const struct pack *p) {
    float most = 0;
    for (int64_t slot = 0; slot < p->count; slot++)
        most = larger(most, p->loss[slot]);
    return most;
}

/* The same relative to |c'|, except for the shortest. */
static inline float pack_loss_share(const struct pack *p) {
    float most = 0;
    for (int64_t slot = 0; slot < p->count; slot++)
        most = larger(most, p->loss[slot] / larger(p->length[slot], SHARE_LEAST));
    return most * (1 + 0x1p-6f);
}

/* How many centroids are so short that a bound, or a scale, for the longest is too wide for them.
 */
static inline int64_t lengths_below(const struct job *job, double cmax) {
    int64_t count = 0;
    for (int64_t k = 0; k < job->k; k++)
        count += job->c_length[k] < cmax / LENGTHS_DIFFER;
    return count;
}

/* Lane i: the sum of the lanes of part i of parts [VW, VW]. */
ALWAYS_INLINE vf sum_lanes(const float *parts) {
    vf r[VW];
    UNROLL(16)
    for (int i = 0; i < VW; i++)
        r[i] = vf_load(parts + i * VW);
    return vf_sums(r);
}

/* Likewise of w->parts. */
ALWAYS_INLINE vf sum_parts(const struct worker *w) { return sum_lanes(w->parts); }

#endif
