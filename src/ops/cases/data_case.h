/* SPDX-License-Identifier: Apache-2.0
 * Matrices, labels and weights for the cases of the streaming ops. Everything depends on the case
 * number and the generator alone. */
#ifndef HF_DATA_CASE_H
#define HF_DATA_CASE_H

#include "core/case.h"
#include <holdfast/kmeans.h>

enum hf_data_kind {
    HF_DATA_NORMAL,    /* N(0, 1) */
    HF_DATA_BLOBS,     /* four groups far apart */
    HF_DATA_WHOLE,     /* small whole numbers: ties, duplicates */
    HF_DATA_OFFSET,    /* 1e4 + N(0, 1) */
    HF_DATA_SCALES,    /* columns from 1e-20 to 1e20 where the type can */
    HF_DATA_EXPONENTS, /* elements from 1e-140 to 1e140 where the type can */
    HF_DATA_ZEROS,     /* every third row 0 of either sign; columns whose minimum or maximum is 0 */
    /* What tables hold, each N(0, 1) but for what it says, as far as the type reaches */
    HF_DATA_OUTLIER_1E4, /* one element 1e4 */
    HF_DATA_OUTLIER_1E8, /* one element 1e8 */
    HF_DATA_SENTINELS,   /* -9999 in 2 % of one column */
    HF_DATA_LOGNORMAL,   /* exp(2 z) */
    HF_DATA_CAUCHY,      /* tails without a mean */
    HF_DATA_COLUMN,      /* one column times 1e5 */
    HF_DATA_DECADES,     /* columns times 1e-3 to 1e3 */
    HF_DATA_NESTED,      /* around 32 sites that lie 1e4 apart */
    HF_DATA_COPIES,      /* nine of ten rows are copies of 50 */
    HF_DATA_SPIKES,      /* some elements 6e4 */
    HF_DATA_FAR,         /* one centroid far from all rows, in float16's range for that type */
    HF_DATA_KINDS
};
#define HF_DATA_MESSY HF_DATA_OUTLIER_1E4 /* the first of what tables hold */

struct hf_data_shape {
    enum hf_data_kind kind;
    hf_dtype dtype;
    int64_t n, k, d;
    int64_t gap;    /* elements between two rows */
    int64_t offset; /* elements from an aligned address to the first row */
};

/* Case `id` of those that every streaming op goes through: degenerate shapes, every tail, every
 * kind in every type, a few that are large enough for several workers. false past the last. */
bool hf_data_case(int64_t id, struct hf_data_shape *shape);

/* A number below `count` that depends on the case and the purpose alone, not on the seed. */
int64_t hf_data_pick(int64_t id, int purpose, int64_t count);

/* Problems that n rows are to be cut into: a divisor of n; 1 and n are likely. */
int64_t hf_data_batch(int64_t id, int purpose, int64_t n);

/* "blobs" */
const char *hf_data_kind_name(enum hf_data_kind kind);

/* "blobs n=37 k=5 d=3 bf16 " and then the rest as printf does */
void hf_data_name(struct hf_case *c, const struct hf_data_shape *shape, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* Element j of row i before it is rounded to the type. It may draw from rng: rows in order. */
double hf_data_value(struct hf_rng *rng, const struct hf_data_shape *shape, int64_t i, int64_t j);

/* Element j of a centroid so far from other data; directions are not those of an axis. */
double hf_data_far(double length, int64_t j);

/* shape->n x shape->d elements; data is NULL when out of memory. */
hf_array hf_data_rows(struct hf_rng *rng, struct hf_case *c, const struct hf_data_shape *shape);

/* shape->k centroids, F32 or F64, without gaps: some of them rows of x, some between two rows. */
hf_array hf_data_centroids(struct hf_rng *rng, struct hf_case *c, const struct hf_data_shape *shape,
                           const hf_array *x, hf_dtype dtype);

/* count labels from -1 or 0 to k - 1. */
int32_t *hf_data_labels(struct hf_rng *rng, struct hf_case *c, int64_t count, int64_t k,
                        bool with_none);

/* count weights, some of them 0. */
double *hf_data_weights(struct hf_rng *rng, struct hf_case *c, int64_t count);

/* Largest |element| of column j; of the whole matrix for j < 0. */
double hf_data_max_abs(const hf_array *x, int64_t j);

/* Benchmark problems of ops whose data are a matrix x [n, d] with the dimensions n, k (if
 * `centroids`) and d. Their kinds of data are HF_BENCH_BLOBS "blobs" and HF_BENCH_NORMAL "normal":
 * without structure, each column with mean, spread and range of the blobs. */
enum { HF_BENCH_BLOBS, HF_BENCH_NORMAL };

/* The shape of the blobs, without gaps; few rows where only a plan is made. */
struct hf_data_shape hf_data_bench(const struct hf_bench *bench, bool centroids);
/* Its rows. */
int64_t hf_bench_rows(const struct hf_bench *bench);
/* The last step of make_bench(), whose result it is: makes of the blobs x what was asked for. */
bool hf_bench_finish(struct hf_rng *rng, const struct hf_bench *bench, struct hf_case *c,
                     hf_array *x);

#endif
