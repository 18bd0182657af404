/* SPDX-License-Identifier: Apache-2.0
 * What the OpenCL filters of assign share on the host. */
#ifndef HF_ASSIGN_OPENCL_FILTERS_H
#define HF_ASSIGN_OPENCL_FILTERS_H

#include "ops/assign/assign.h"
#include "ops/assign/host/bound.h"
#include "ops/opencl.h"

#define HF_CL_NEAR 8 /* centroids that may be the nearest, of a row: decide.cl */

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

/* What the kernels of a call count, from 0 on. */
struct hf_cl_counts {
    int64_t rows[4];   /* that bounds leave, and that each pass of a filter leaves open */
    float limit[2];    /* at least |c'| of all centroids that a filter in 16 bits holds; that one in
                          float32 holds */
    float moved[2][2]; /* of each product: as struct bound of decide.cl has it */
};

/* Packed centroids of the filter in 16 bits: matrix.cl. */
struct hf_cl_halves {
    void *packed;
    float *start, *length;
};

struct hf_cl_assign {
    const struct hf_call *call;
    struct hf_opencl *cl;
    const struct hf_cl_shape *shape;
    const struct hf_cl_shape *single; /* of the filter in float32, NULL without one */
    struct hf_assign_args a;          /* arrays on the device */
    struct hf_assign_bounds bounds;
    struct hf_opencl_panels panels;
    double *lengths; /* [3, k] */
    int32_t *old;    /* [n] labels that came in, or NULL */
    int32_t *list;   /* [n] rows that bounds leave, */
    struct hf_cl_counts *count;
    int32_t *open; /* [passes, n] rows that each pass of a filter leaves */
    int passes;    /* so far */
    float *told;   /* of the first `nears` rows that a product leaves: decide.cl */
    int64_t nears;
    float *shift, *packed, *start, *length, *scratch;
    struct hf_cl_halves halves[2];
    void *update_ws;
    bool usable;   /* the filter's scale and centroids are within its range */
    double factor; /* of centroids */
};

/* |c'|, NULL where a kernel that packs a centroid finds it out. */
static inline const double *hf_cl_lengths(const struct hf_cl_assign *job) {
    return job->a.metric == HF_EUCLIDEAN ? NULL : job->lengths + job->a.c.rows;
}

/* What the pass of a filter that is about to run leaves open; it has run. */
static inline struct hf_cl_rows hf_cl_open_rows(const struct hf_cl_assign *job) {
    return (struct hf_cl_rows){job->open + job->passes * job->a.x.rows,
                               job->count->rows + 1 + job->passes};
}

static inline void hf_cl_passed(struct hf_cl_assign *job, struct hf_cl_rows *rows) {
    *rows = hf_cl_open_rows(job);
    job->passes++;
}

/* ---- matrix.c */
bool hf_cl_matrix_supports(const struct hf_call *call);
/* Is there one product only? What it leaves open needs the filter in float32. */
bool hf_cl_matrix_once(const struct hf_assign_args *a);
double hf_cl_matrix_estimate(const struct hf_call *call);
void hf_cl_matrix_carve(struct hf_cl_assign *job, const struct hf_assign_args *a, hf_carve *carve);
/* Labels of the rows; *rows becomes those that are left open. */
hf_status hf_cl_matrix_run(struct hf_cl_assign *job, struct hf_cl_rows *rows);
/* Bytes of args.packed with which the kernel keeps the rows in float16 between calls; 0: it keeps
 * none. */
size_t hf_cl_packed_bytes(const struct hf_kernel *kernel, const struct hf_assign_args *a);

#endif
