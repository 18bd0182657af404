/* SPDX-License-Identifier: Apache-2.0
 * The filter of `assign` on Hopper's tensor cores: 16-bit scores of all pairs of rows and
 * centroids, of which nothing but each row's best (and how close the runner-up came) is kept.
 *
 *   score(i, j) = x16_i . c16_j + bias_j,   bias_j = -|c'_j|^2 / 2 (Euclidean), 0 (cosine, dot)
 *
 * in float32; c'_j = (c_j - shift) * scale (cosine: c_j / |c_j|; dot: c_j * scale) and c16_j is
 * c'_j rounded to f16. With x'_i the row that x16_i stands for,
 *
 *   E_i(C) = |x16_i| RC(C) + loss_i C + acc (|x16_i| C + C^2 / 2) + slack
 *
 * bounds the error of each score of row i whose |c'_j| <= C. RC(C) bounds |c'_j - c16_j|, measured
 * by pack, acc pays for the accumulation, slack for the reference's own float64 roundings. With
 * Euclidean distances C is how long a centroid may be that is near row i, so that centroids far out
 * spoil the bound of far rows only. A row is decided when second < best - 2 E_i; else it is open,
 * and every centroid that can be the nearest one scores at least threshold_i = best - 2 E_i. NaN
 * and Inf leave a row open.
 *
 * All pointers are device memory; everything is queued on cuda->stream and nothing waits. Calls
 * that share `packed` must be in stream order (it holds scratch). Needs compute capability 9.0.
 */
#ifndef HF_ASSIGN_FILTER_H
#define HF_ASSIGN_FILTER_H

#include "device/cuda/cuda.h"
#include "ops/assign/cuda/slots.h"
#include <holdfast/base.h>
#include <holdfast/kmeans.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Rows to look at: `batch` problems of n rows. Row i of problem b is row b * n + i. */
struct hf_filter_rows {
    const void
        *x16; /* [batch * n, ld] f16 or bf16; 16-byte aligned; columns from d on are not read */
    const float *norm; /* [batch * n] at least |x16_i|; NULL: found on the way; not by mma */
    const float *loss; /* [batch * n] at least |x'_i - x16_i|; NULL: 0, with bf16 what f16 loses */
    const int32_t
        *list; /* [batch, n] NULL: all rows; else only these (numbers within the problem) */
    const int32_t *count; /* [batch] how many of them: read on the device. NULL without list */
    int64_t n, ld;        /* ld in elements, a multiple of 8 */
    int d, batch;
    bool bf16; /* x16 is bf16, which becomes f16 on its way to the tensor cores; not mma */
    bool mma;  /* by mma.sync (cuda/mma.h), not Hopper's own instructions */
    const int32_t *stop; /* NULL, or: nothing is done if *stop != 0 by then */
};

/* Centroids to pack. */
struct hf_filter_centroids {
    const void *c;       /* [batch, k, d] */
    const double *shift; /* [d] or NULL: 0 */
    double scale;        /* a power of two */
    double length;       /* of most rows, in units of x': half of them are shorter; 0: not known */
    int32_t *zero;       /* counters set to 0 on the way (say, hf_filter_open.count), or NULL */
    int64_t zeros;       /* how many */
    int k, d, batch;
    hf_metric metric;
    bool f64; /* c is float64, else float32 */
    bool mma; /* as the rows' */
    bool raw; /* x16 is x itself (Euclidean): c' = c, without shift; scale says how large x is all
                 the same */
    const int32_t *stop;
};

/* Rows and packed centroids that one call scores; all modes but emit read rows.list. */
struct hf_filter_call {
    struct hf_filter_rows rows;
    struct hf_filter_centroids centroids;
    void *packed; /* what hf_filter_pack() made of them */
};

/* Open rows. Problem b has its own list: entries [b * cap, b * cap + min(count[b], cap)). */
struct hf_filter_open {
    int32_t
        *count;   /* [batch] added to (zero it before); may pass cap: rows beyond are not listed */
    int32_t *row; /* [batch, cap] within the problem */
    float *threshold; /* [batch, cap]; NaN where nothing is known */
    int32_t *emitted; /* [batch, cap] set to 0 for each row listed; NULL: not wanted */
    int64_t cap;
};

struct hf_filter_out {
    int32_t *label;             /* [batch * n] best centroid; open rows get theirs provisionally */
    float *best;                /* [batch * n] its score, NULL: not wanted */
    float *second;              /* [batch * n] at least every other score of rows that are decided;
                                    NULL: not wanted; TOP2 only */
    float *error;               /* [batch * n] E_i, NULL: not wanted; TOP2 only */
    struct hf_filter_open open; /* TOP2 */
};

/* Can the filter take this shape on this device? All d up to 8192, k up to 2^24, n below 2^31. */
bool hf_filter_supports(const struct hf_device_props *device, int64_t n, int k, int d, int batch);

/* Predicted time of hf_filter_top2 on an H200; best mode is a little faster. */
double hf_filter_estimate_ns(const struct hf_device_props *device, int64_t n, int k, int d,
                             int batch);

/* Bytes of `packed`, for any of the types and metrics. */
size_t hf_filter_pack_bytes(const struct hf_device_props *device, int k, int d, int batch);

/* Lay the centroids out as the kernels want them. One kernel, two if there are many. */
hf_status hf_filter_pack(struct hf_cuda *cuda, const struct hf_filter_centroids *centroids,
                         void *packed);

/* Labels by score alone, lowest index among equal scores; of all rows (rows->list: NULL). Rows of
 * which scores say nothing are appended to out->open, if it has a count: those without a finite
 * score, and all where 16 bits do not hold some centroid. */
hf_status hf_filter_best(struct hf_cuda *cuda, const struct hf_filter_call *call,
                         const struct hf_filter_out *out);

/* The same, and the rows that scores cannot decide are appended to out->open. */
hf_status hf_filter_top2(struct hf_cuda *cuda, const struct hf_filter_call *call,
                         const struct hf_filter_out *out);

/* For the rows of open (as top2 left it; rows->list and rows->count are ignored): entry
 * b * part + i of slots [batch, part, HF_FILTER_SLOTS] gets those centroids that can be the nearest
 * of the row of entry b * cap + i, in any order: by the error of each alone they may score as much
 * as the row's label, which must be as top2 left it; where rows have no norm, by its threshold.
 * emitted[b * cap + i] grows by how many there are: more than HF_FILTER_SLOTS means that some were
 * not listed, 0 (threshold NaN) that the filter knows nothing: evaluate all. */
hf_status hf_filter_emit(struct hf_cuda *cuda, const struct hf_filter_call *call,
                         const struct hf_filter_open *open, const int32_t *labels,
                         struct hf_filter_slots slots);

#endif
