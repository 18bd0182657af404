/* SPDX-License-Identifier: Apache-2.0
 * The steps of preparing: the first passes over the data. Internal to prepare*.c. */
#ifndef HF_SCAN_H
#define HF_SCAN_H

#include "algo/kmeans/fit.h"
#include "algo/kmeans/prepare_frame.h"
#include "ops/moments/moments.h"
#include "ops/range/range.h"
#include <math.h>

struct hf_scan {
    struct hf_fit *fit;
    struct hf_range_args range;
    struct hf_range_args again; /* the same by another kernel; min NULL: there is no such check */
    bool whole_again;
    int64_t bad_rows_again;
    bool differ;             /* which rows are bad came out twice differently */
    uint64_t rows_before;    /* signature of the rows in the pass that failed last; */
    bool failed;             /* there was one */
    int64_t *moments_before; /* [4, d] as sum and sum_square; NULL as again.min */
    int64_t *moments_again;  /* likewise */
    uint8_t *bad;            /* [panel_rows or fewer] the device's memory */
    uint8_t *bad_copy;       /* the same where the host can read it; NULL until it is wanted */
    int64_t bad_rows;
    int64_t dropped, room; /* used and allocated of fit->data.dropped */
    int32_t *zeros;        /* [scan_rows or n], only with weights or HF_COSINE */
    double *squares;       /* likewise, only with HF_COSINE */
    double *whole_sums;    /* [2, d] of x and x * x, for whole numbers; NULL: not hf_range_sums() */
    int64_t *sum, *sum_square;           /* [2, d] */
    double *middle, *mult, *mult_square; /* [d] */
    double *sample;                      /* of hf_frame_measure(), NULL where it needs none */
    struct hf_bulk bulk;                 /* its median is over middle */
    hf_wide square;
};

/* fit->data.rows and room for fit->columns. */
hf_status hf_scan_open(const struct hf_fit_problem *problem, struct hf_data *data,
                       struct hf_columns *columns);
/* Extremes of no rows, of so many columns. */
static inline void hf_scan_no_range(double *min, double *max, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        min[i] = INFINITY;
        max[i] = -INFINITY;
    }
}
/* With the ranges: weights, and whether anything may overflow. */
hf_status hf_scan_check(struct hf_fit *fit);
/* Scales of the sums about the middle of each column's range, which are set to 0. */
void hf_scan_plan_moments(struct hf_scan *s);
/* Mean and variance of each column from those sums. */
void hf_scan_take_moments(const struct hf_scan *s);
/* fit->columns.shift: the mean, whole for whole numbers; zeros unless the metric is Euclidean. */
void hf_scan_center(const struct hf_scan *s);
/* All that depends on ranges, moments and the bulk of the rows. */
hf_status hf_scan_conclude(struct hf_scan *s);
/* ---- prepare_twice.c: protection of the first pass */
/* Memory of the check; chunk: most rows of a panel. */
void hf_scan_carve_again(struct hf_scan *s, hf_carve *carve, int64_t chunk);
/* Before the first panel, */
void hf_scan_begin_ranges(struct hf_scan *s);
/* the ranges of a panel, whose rows are signed, */
hf_status hf_scan_ranges(struct hf_scan *s, const hf_array *panel, int64_t first);
/* and after the last one. HF_E_CORRUPT: they came out twice differently. */
hf_status hf_scan_compare_ranges(struct hf_scan *s);
/* Moments of some rows, added to the sums; twice by other kernels, slice by slice. */
hf_status hf_scan_moments(struct hf_scan *s, const struct hf_moments_args *args);
/* Make the pass until it succeeds, three times at most, where the scheme is to correct. */
hf_status hf_scan_attempts(struct hf_scan *s, hf_status (*pass)(struct hf_scan *s));
/* ---- prepare_square.c */
/* |x - shift|^2 of a chunk's rows, with weights [rows] (NULL means 1) added to *sum, and to squares
 * [rows] (NULL: not wanted). */
hf_status hf_scan_squares(struct hf_scan *s, const hf_array *chunk, const double *weights,
                          double *squares, hf_wide *sum);
/* Euclidean: fit->frame.total_square. */
hf_status hf_scan_measure_square(struct hf_scan *s);
/* fit->frame.slack. */
void hf_scan_choose_slack(struct hf_fit *fit);
/* prepare_zeros.c, HF_COSINE: fit->weights.directed. */
hf_status hf_scan_zero_rows(struct hf_scan *s);

#endif
