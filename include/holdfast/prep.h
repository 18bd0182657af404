/* SPDX-License-Identifier: Apache-2.0
 * Rows made ready for clustering as they are read: columns chosen, values that mean "missing"
 * turned into NaN, columns scaled. hf_dataset_open() does this for files; here it is for rows of
 * one's own. */
#ifndef HF_PREP_H
#define HF_PREP_H

#include <holdfast/array.h>
#include <holdfast/base.h>
#include <holdfast/context.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A scaled value is (x - shift) / unit, each column with its own shift and unit. Parameters are
 * those of the rows that hold neither NaN nor Inf in the chosen columns. */
typedef enum hf_scale {
    HF_SCALE_NONE = 0,     /* as they are */
    HF_SCALE_STANDARD = 1, /* mean and standard deviation (divided by n) */
    HF_SCALE_ROBUST = 2,   /* median and distance of the quartiles, interpolated linearly */
    HF_SCALE_MINMAX = 3    /* least value, and greatest less least */
} hf_scale;

/* Parameters of a scaling; reals that are finite, no unit is 0. A column whose unit would be 0 (all
 * values, or with ROBUST both quartiles, are equal) has unit 1. */
typedef struct hf_scaling {
    hf_scale method;     /* for the record */
    int64_t cols;        /* of the rows that are scaled */
    const double *shift; /* [cols] */
    const double *unit;  /* [cols] */
} hf_scaling;

/* y = (x - shift) / unit in float64, rounded to y's type. x and y [n, cols] in host memory, x of
 * any type, y F32 or F64; y may be x. HF_E_ARG: other shapes or types. */
HF_API hf_status hf_scaling_apply(hf_context *ctx, const hf_scaling *scaling, const hf_array *x,
                                  const hf_array *y);

/* The way back: y = x * unit + shift. */
HF_API hf_status hf_scaling_undo(hf_context *ctx, const hf_scaling *scaling, const hf_array *x,
                                 const hf_array *y);

/* All zero means that rows stay as they are. */
typedef struct hf_prep_opts {
    const int64_t *columns;    /* numbers, from 0, of those to keep, in this order; NULL: all */
    int64_t columns_count;     /* of columns, none of them twice */
    const double *missing;     /* values that become NaN; each is rounded to the rows' own type */
    int64_t missing_count;     /* of missing; 0: none */
    hf_scale scale;            /* parameters are computed by passes over the rows */
    const hf_scaling *scaling; /* or given: copied; scale is then ignored */
} hf_prep_opts;

/* Prepared rows; made by hf_prep_create(). */
typedef struct hf_prep hf_prep;

/* Prepare rows. Exactly one of x and source is not NULL; x lies in host memory; both are borrowed
 * until hf_prep_destroy(), the structs themselves during this call alone. Scaled rows are F32, of
 * F64 data F64; U8 with `missing` becomes F32; others keep their type. MINMAX passes over the rows
 * once, STANDARD twice, ROBUST four times (F64: seven), more often where counting for all columns
 * at once would take more than 64 MiB or an eighth of the context's limit. Any size of chunks gives
 * the same bits.
 * HF_E_ARG   a column out of range or twice, lists without values, scaling of another width
 * HF_E_DATA  to be scaled: no row without NaN and Inf, or a value beyond 1e150
 * HF_E_NOMEM no memory for parameters and chunks
 * Others are what reading the source returned. */
HF_API hf_status hf_prep_create(hf_context *ctx, const hf_array *x, const hf_source *source,
                                const hf_prep_opts *opts, hf_prep **prep);

/* NULL is allowed. */
HF_API void hf_prep_destroy(hf_prep *prep);

/* The prepared rows; belongs to prep. All of them in one call may be read into the memory of x
 * itself where the type is the same. Reading fails with HF_E_DATA where a scaled value is too large
 * for F32. */
HF_API const hf_source *hf_prep_source(const hf_prep *prep);

/* The parameters, NULL without scaling; belong to prep. */
HF_API const hf_scaling *hf_prep_scaling(const hf_prep *prep);

/* "none", "standard", "robust", "minmax". */
HF_API const char *hf_scale_name(hf_scale scale);

#ifdef __cplusplus
}
#endif
#endif
