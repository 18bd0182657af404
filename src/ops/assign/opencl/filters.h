/* SPDX-License-Identifier: Apache-2.0
 * What the OpenCL filters of assign share on the host. */
#ifndef HF_ASSIGN_OPENCL_FILTERS_H
#define HF_ASSIGN_OPENCL_FILTERS_H

#include "ops/assign/assign.h"
#include "ops/assign/host/bound.h"
#include "ops/opencl.h"

enum hf_cl_filter { HF_CL_FILTER_NONE, HF_CL_FILTER_TILE, HF_CL_FILTER_BLOCK, HF_CL_FILTER_MATRIX };

/* Of the tile: rows in a vector, vectors, centroids, work-items of a group. */
struct hf_cl_shape {
    enum hf_cl_filter filter;
    int vw, panels, tile, group;
};

/* Rows of a filter: count[0] of list; NULL: all. */
struct hf_cl_rows {
    const int32_t *list;
    const int64_t *count;
};

/* Packed centroids of the filter in 16 bits: matrix.cl. */
struct hf_cl_halves {
    void *packed;
    float *start, *length, *moved;
};

struct hf_cl_assign {
    const struct hf_call *call;
    struct hf_opencl *cl;
    const struct hf_cl_shape *shape;
    struct hf_assign_args a; /* arrays on the device */
    struct hf_assign_bounds bounds;
    struct hf_opencl_panels panels;
    double *lengths; /* [3, k] */
    int32_t *old;    /* [n] labels that came in, or NULL */
    int32_t *list;   /* [n] rows that bounds leave, */
    int64_t *count;  /* [3] their number and those of open rows */
    int32_t *open;   /* [n] rows that the filter leaves; twice that for filters in 16 bits */
    float *shift, *packed, *start, *length, *scratch;
    struct hf_cl_halves halves[2];
    void *update_ws;
    bool usable;    /* the filter's scale and centroids are within its range */
    double factor;  /* of centroids */
    double longest; /* |c'| at most, of those that are held */
    struct filter_bound bound;
};

/* ---- matrix.c */
bool hf_cl_matrix_supports(const struct hf_call *call);
double hf_cl_matrix_estimate(const struct hf_call *call);
void hf_cl_matrix_carve(struct hf_cl_assign *job, const struct hf_assign_args *a, hf_carve *carve);
/* Centroids from this length on are not held. */
#define HF_CL_MATRIX_LOST 0x1p15
/* Labels of the rows; *rows becomes those that are left open. */
hf_status hf_cl_matrix_run(struct hf_cl_assign *job, struct hf_cl_rows *rows);

#endif
