/* SPDX-License-Identifier: Apache-2.0
 * assign on NVIDIA GPUs as the loop sees it: every pointer is device memory unless said otherwise,
 * everything runs in the order of cuda->stream, nothing waits or allocates.
 *
 * Once for the data:      hf_assign_rows_bytes(), hf_assign_rows_prepare()
 * Once per set of centroids: hf_assign_step_bytes(), hf_assign_step()
 *
 * `batch` problems of one shape lie one behind the other: x [batch, n, d], centroids [batch, k, d],
 * labels [batch, n]. A row number counts through all of them: problem * n + row. */
#ifndef HF_ASSIGN_CUDA_H
#define HF_ASSIGN_CUDA_H

#include "device/cuda/cuda.h"
#include "ops/assign/assign.h"
#include "ops/assign/cuda/tile_check.h"
#include <holdfast/array.h>
#include <holdfast/kmeans.h>

/* Which kernels look at all rows and centroids first. */
enum hf_assign_kind {
    HF_ASSIGN_AUTO,   /* not chosen yet: for questions of what would pay */
    HF_ASSIGN_DENSE,  /* none: differences of all pairs */
    HF_ASSIGN_TENSOR, /* 16 bits (cuda/filter.h) */
    HF_ASSIGN_MMA,    /* asks for HF_ASSIGN_TENSOR by mma.sync (cuda/mma.h), */
    HF_ASSIGN_I8      /* after a filter of u8 rows (cuda/i8.h) */
};

struct hf_kernel;

/* What a row of op assign on CUDA does; HF_ASSIGN_TENSOR for other kernels. */
enum hf_assign_kind hf_assign_kind_of(const struct hf_kernel *kernel);

/* Rows times centroids times columns from which rows that stay open could cost much. */
#define HF_ASSIGN_HARD 0x1p28

/* Open rows times columns from which differences in float32 pay: float64 is done with fewer before
 * these kernels have begun. */
#define HF_ASSIGN_FEW ((int64_t)1 << 22)

/* What does not change from one set of centroids to the next. */
struct hf_assign_problem {
    const struct hf_device_props *device; /* what it is solved on */
    hf_array x;          /* [batch * n, d] device memory, any data type, any row stride */
    int64_t batch, k;    /* n is x.rows / batch */
    hf_dtype c_type;     /* of the centroids: HF_F32 or HF_F64 */
    hf_metric metric;    /* of the distances */
    bool exact;          /* false: take the filter's answer */
    bool once;           /* one step, no bounds: what it finds out by itself is not prepared */
    bool hard;           /* many rows may stay open: it is worth while to look whether they do */
    bool few;            /* so few do that differences in float32 do not pay */
    const double *shift; /* [d] or NULL, one for all, Euclidean only; host memory is best,
                                 device memory must have been written by now */
    double scale;        /* hf_filter.scale; 0 means 1 */
    double length;       /* hf_filter.length */
    enum hf_assign_kind kind; /* of the kernel that was planned: hf_assign_kind_of() */
    bool checks_tiles; /* of scores, as FT K-Means does: kind is HF_ASSIGN_MMA, exact, no bounds, */
    struct hf_tile_check check; /* and this is where they are told; its sums are not looked at */
};

/* Rows as the filter wants them, made by hf_assign_rows_prepare(). */
struct hf_assign_rows {
    struct hf_assign_problem problem;
    int64_t n;                /* rows of a problem */
    enum hf_assign_kind kind; /* what the steps use */
    bool raw;                 /* x16 is x itself, */
    bool bf16;                /* and bf16 */
    bool mma;                 /* the filter multiplies by mma.sync (cuda/mma.h) */
    void *i8;                 /* memory of the filter of u8 rows (cuda/i8.h); NULL: not used */
    const double *shift;      /* [d] device memory or NULL */
    const float *shift32;     /* [d] the same in float32, 0 where there is none */
    double scale;             /* x' = (x - shift) * scale; on tensor cores and with other metrics
                                 than Euclidean each row has one of its own */
    double length;            /* half of the rows have an |x'| below it, 0: not known */
    const void *x16;          /* [batch * n, ld] f16 (or bf16), zeros behind column d */
    int64_t ld;               /* elements from row to row */
    const float *norm; /* [batch * n] at least |x16|; Inf: a row that the filter must not decide;
                          NULL: it finds them out by itself */
    const float *loss; /* [batch * n] at least |x' - x16|, NULL: 0 */
    const int32_t
        *out_of_range; /* [batch, n] those with an infinite norm; NULL: exact mode, no norm, */
    const int32_t *out_of_range_count; /* [batch] and how many */
};

/* Counters of a step. Written (not added to) by hf_assign_step(). */
struct hf_assign_counts {
    unsigned long long changed;   /* labels that differ from the old ones */
    unsigned long long rechecked; /* rows that the filter left open, */
    unsigned long long float64;   /* of these, rows that float64 decided */
    unsigned long long pairs;     /* float64 distances evaluated */
    unsigned long long skipped;   /* rows decided by bounds alone */
};

/* When bounds are used, decided on the device from what they saved. Costs are shares of scoring all
 * rows. Made by hf_assign_guide_begin(). */
struct hf_assign_guide {
    int32_t use;            /* the bounds hold and are looked at */
    int32_t learn;          /* the step leaves bounds */
    int32_t rest;           /* steps until they are tried again */
    int32_t penalty;        /* and after the next failure */
    int32_t first, longest; /* its limits */
    int32_t always;         /* no failure ends their use */
    float keep;             /* cost of reading and writing the bounds of all rows, */
    float measure;          /* of measuring all own distances, */
    float list;             /* of scoring all rows from a list */
};

struct hf_assign_step {
    const void *c;                   /* [batch, k, d] c_type, without gaps */
    const int32_t *old_labels;       /* [batch * n] or NULL: all -1 */
    int32_t *labels;                 /* [batch * n] out: the labels; must not be old_labels */
    int32_t *replaced;               /* old_labels or NULL: it becomes the labels at the end, */
    int32_t *before;                 /* [batch * n] and this what it was; NULL: not wanted */
    struct hf_assign_counts *counts; /* [batch] out */
    struct hf_assign_stats *stats;   /* [1] or NULL: counts are added to it; batch 1 */
    int32_t *moved;       /* [batch * n] out or NULL: numbers of the rows whose label changed, */
    int32_t *moved_count; /* [1] out: and how many, in no fixed order; NULL with moved */
    void *bounds;         /* hf_assign_bounds_bytes() that live from step to step, or NULL; */
    const float *drift;   /* [batch, k] then: at least how far each centroid moved since the step
                             that left the bounds and old_labels, 0 only if it did not; not a
                             number is far. NULL: the bounds do not hold */
    struct hf_assign_guide *guide; /* [1] then: decides whether they are used; NULL: drift does */
    const int32_t *stop; /* NULL, or: nothing is done (outputs stay) if *stop != 0 by then */
};

/* Bytes (a multiple of HF_ALIGN) that the prepared rows need beside x; 0 is possible. */
size_t hf_assign_rows_bytes(const struct hf_assign_problem *problem);

/* memory: hf_assign_rows_bytes(), 256-byte aligned, must live as long as the rows are used. */
hf_status hf_assign_rows_prepare(struct hf_cuda *cuda, const struct hf_assign_problem *problem,
                                 void *memory, struct hf_assign_rows *rows);

/* With HF_ASSIGN_I8 and one step rows are not converted to 16 bits before they are asked for here:
 * those of a list [*count], NULL: all. */
hf_status hf_assign_rows_convert(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                                 const int32_t *list, const int32_t *count, const int32_t *stop);

/* Bytes of bounds by which a step finds rows that keep their labels; 0 where there can be none. */
size_t hf_assign_bounds_bytes(const struct hf_assign_problem *problem);

/* Is the problem so large that bounds may save more than they cost? */
bool hf_assign_bounds_pay(const struct hf_assign_problem *problem);

/* guide for a run that begins without bounds; always: use them in any case. */
hf_status hf_assign_guide_begin(struct hf_cuda *cuda, const struct hf_assign_problem *problem,
                                bool always, struct hf_assign_guide *guide);

/* Workspace of a step: contents need not survive from one to the next. problem->x.data is not
 * looked at. */
size_t hf_assign_step_bytes(const struct hf_assign_problem *problem);

/* Labels of all rows. ws: hf_assign_step_bytes(), 256-byte aligned. */
hf_status hf_assign_step(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, void *ws);

#endif
