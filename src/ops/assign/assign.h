/* SPDX-License-Identifier: Apache-2.0
 * assign: the nearest centroid of each row, exactly, with nothing of size n x k.
 *
 * Reference (hf_metric in kmeans.h): d(x, c) in float64, features in order, one rounding per
 * operation; the label is the lowest index with the least d. Other kernels use a filter in float32
 * or fewer bits with a proven bound (docs/numerics/filter.md), and evaluate d only where the filter
 * leaves a doubt. */
#ifndef HF_ASSIGN_H
#define HF_ASSIGN_H

#include "base/parallel.h"
#include "core/run.h"
#include "ops/update/update.h"
#include <holdfast/kmeans.h>
#include <stdbool.h>
#include <string.h>

/* How the filter sees the data: (x - shift) * scale. It never changes a result, only how many rows
 * the filter leaves open. Euclidean only; other metrics use shift = 0. */
struct hf_filter {
    const double *shift; /* [d], NULL means 0 */
    double scale;        /* a power of two; |(x - shift) * scale| is about 1 for most rows, but a
                            few may be so long that float32 cannot hold them */
    double length;       /* about the median of |(x - shift) * scale|; 0: not known */
    bool whole;          /* every x - shift is a whole number of at most 256: exact in bf16 */
    const double *least, *most; /* [d] the data are whole numbers from least to most, at most
                                   256 different ones per column; NULL: that is not known */
};

/* Rows that a kernel packed for its tiles and that stay so between calls: the same rows, shift and
 * scale each time. The kernel writes everything but data and rows. */
struct hf_assign_packed {
    void *data;       /* hf_assign_packed_bytes(), aligned to HF_ALIGN */
    int64_t rows;     /* of the problem */
    int64_t filled;   /* rows from 0 on that are packed, */
    int form;         /* in this form; 0: none are; */
    bool summed;      /* each with the sum of its words, for checks, */
    bool loss, unit;  /* and with these numbers beside it */
    int lanes;        /* rows are packed so many at a time, */
    size_t row_bytes; /* each into so many bytes */
    int rest;         /* calls until a variant that did not pay is tried again, */
    int fallback;     /* and the variant that the kernel uses meanwhile */
};

/* Bytes that n rows of d columns need; 0 if no kernel of this machine's CPU would use them. */
size_t hf_assign_packed_bytes(int64_t n, int64_t d);
/* Do the words of packed rows add up to the sums that were taken when they were packed? One wrong
 * word is always seen. True where there are no sums. */
bool hf_assign_packed_right(hf_pool *pool, const struct hf_assign_packed *packed);
/* Where they do not: the first rows of groups of packed->lanes rows one of which is wrong, at most
 * `most` of them. Returns how many there are. */
int hf_assign_packed_wrong(hf_pool *pool, const struct hf_assign_packed *packed, int64_t *first,
                           int most);
/* Do kernels of the context's device keep rows packed? Only those of the CPU do. */
bool hf_assign_packs(const hf_context *ctx);

/* Shares of packed rows, from the cost of each step on this CPU.
 *   _packed_share    bounds must settle this share so that skipping pays, if otherwise each row is
 *                    compared with `compared` <= k centroids
 *   _sweep_share     the same for a sweep over `moved` centroids (bounds.sweep)
 *   _packed_partial  the part of a skipped row's saving that remains if the row is packed again and
 *                    compared with the moved centroids, were there none */
double hf_assign_packed_share(int64_t k, int64_t d, int64_t compared);
double hf_assign_sweep_share(int64_t k, int64_t d, int64_t moved);
double hf_assign_packed_partial(int64_t k, int64_t d);

/* Two bounds per row, in units of the Euclidean distance (not squared), rounded outwards, and what
 * kernels need to use them (Hamerly 2010). Euclidean metric only. */
struct hf_assign_bounds {
    float *upper;       /* [n] at least d(x, centroid of its label) */
    float *lower;       /* [n] at most d(x, any other centroid) */
    bool valid;         /* they hold for the centroids before the last move: use them to skip */
    bool sweep;         /* valid, packed rows: compare all with the moved centroids, skip none */
    const float *drift; /* [k] at least how far centroid j moved since; 0 only if it did not */
    int32_t drift_max_index;       /* centroid with the largest drift */
    float drift_max, drift_second; /* the two largest drifts */
    const float *half;    /* [k] at most half the distance to the nearest other centroid, or NULL */
    const int32_t *moved; /* [n_moved] ascending: centroids with drift > 0 */
    int64_t n_moved;
    /* What the words (32 bits) of upper and lower add up to, modulo 2^32: kernels of the host add
     * what they write less what stood there; NULL: nobody asks. */
    uint32_t *sum;
};

/* The word of a bound. */
static inline uint32_t hf_bound_word(float bound) {
    uint32_t word;
    memcpy(&word, &bound, sizeof word);
    return word;
}

/* Write the bounds of a row. Returns what that adds to the sum. */
static inline uint32_t hf_bounds_put(struct hf_assign_bounds *b, int64_t i, float upper,
                                     float lower) {
    const uint32_t had = hf_bound_word(b->upper[i]) + hf_bound_word(b->lower[i]);
    b->upper[i] = upper;
    b->lower[i] = lower;
    return hf_bound_word(upper) + hf_bound_word(lower) - had;
}

struct hf_assign_stats {
    int64_t changed;   /* labels that differ from those that came in */
    int64_t skipped;   /* rows decided by bounds alone */
    int64_t partial;   /* rows compared with moved centroids only */
    int64_t rechecked; /* rows that the filter left open, */
    int64_t float64;   /* those of them that float64 decided: differences in float32 did not, */
    int64_t pairs;     /* and the pairs of row and centroid compared for them */
    int64_t lasting;   /* faults that a check found and that came again in the same place */
};

struct hf_assign_args {
    hf_array x; /* [n, d] any data type */
    hf_array c; /* [k, d] F32 or F64 */
    hf_metric metric;
    bool exact; /* false: take the filter's answer */
    struct hf_filter filter;
    struct hf_assign_packed *packed; /* NULL: rows are packed for this call alone */
    int64_t packed_first;            /* row of the problem that x begins with */
    int32_t *labels;                 /* [n] in: the last labels, or -1; out: the labels */
    int32_t *old_labels;             /* [n] out: the labels that came in; NULL when not wanted */
    struct hf_assign_bounds *bounds; /* NULL: none */
    struct hf_sums
        *sums; /* fused update (see update.h): rows whose label changed are moved from their
                                  old cluster to the new one; NULL: not fused */
    const double *weights;         /* [n] for sums, NULL means 1 */
    struct hf_assign_stats *stats; /* counters are added to it; not NULL */
    /* Of protected calls on the CPU: */
    hf_array before; /* [k, d] as c: centroids for which the labels that came in are right; data
                        NULL: not known. Rows that move are looked at there, too */
    int turn;        /* with `before`: scores of a share of the rows are tested, another one with
                        each number; 0: those of all rows */
};

/* Should the sums be updated while rows are assigned? On the CPU, where they stay in its cache. */
bool hf_assign_fuses(const hf_context *ctx, const struct hf_sums *sums);

static inline hf_status hf_assign(hf_context *ctx, const struct hf_assign_args *args) {
    return hf_run(ctx, HF_OP_ASSIGN, args);
}

#endif
