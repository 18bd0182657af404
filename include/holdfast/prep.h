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
    hf_scale method;
    int64_t cols;
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

/* "none", "standard", "robust", "minmax". */
HF_API const char *hf_scale_name(hf_scale scale);

#ifdef __cplusplus
}
#endif
#endif
