/* SPDX-License-Identifier: Apache-2.0
 * assign with OpenCL: a filter in float (tile.cl) decides most rows; those that it leaves open, or
 * all where it knows nothing, are compared with all centroids in float64 (assign.cl). Each shape of
 * tile is a kernel of its own, so that the planner and `holdfast tune` choose among them. */
#include "ops/assign/assign.h"
#include "ops/assign/host/bound.h"
#include "ops/opencl.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEPTH 128 /* tile.cl */
#define MOST_COLUMNS 65536
#define GROUPS_CPU 8 /* for each compute unit */
#define GROUPS 16

extern const struct hf_kernel_table hf_update_kernels_opencl;

/* A shape of the tile; vw = 0: no filter. */
struct shape {
    int vw, panels, tile, group;
};

struct job {
    const struct hf_call *call;
    struct hf_opencl *cl;
    const struct shape *shape;
    struct hf_assign_args a; /* arrays on the device */
    struct hf_assign_bounds bounds;
    struct hf_opencl_panels panels;
    double *lengths; /* [3, k] */
    int32_t *old;    /* [n] labels that came in, or NULL */
    int32_t *list;   /* [n] rows that bounds leave, */
    int64_t *count;  /* [2] their number and that of open rows */
    int32_t *open;   /* [n] rows that the filter leaves */
    float *shift, *packed, *start, *length, *scratch;
    void *update_ws;
    bool usable;   /* the filter's scale and centroids are within its range */
    double factor; /* of centroids */
    struct filter_bound bound;
};

static int64_t rows_of(const struct shape *s) { return (int64_t)s->vw * s->panels * s->group; }

static int64_t slots_of(const struct shape *s, int64_t k) {
    return (k + s->tile - 1) / s->tile * s->tile;
}

/* Groups of work-items, each of which takes one tile of rows after the other. */
static int64_t groups_of(const struct hf_device_props *device, const struct shape *s, int64_t n) {
    const int64_t tiles = (n + rows_of(s) - 1) / rows_of(s);
    const int64_t most = (int64_t)device->units * (device->wide ? GROUPS_CPU : GROUPS);
    return tiles < 1 ? 1 : tiles < most ? tiles : most;
}

static struct hf_update_args update_of(const struct hf_assign_args *a, const int32_t *old) {
    return (struct hf_update_args){.x = a->x,
                                   .metric = a->metric,
                                   .weights = a->weights,
                                   .old_labels = old,
                                   .labels = a->labels,
                                   .sums = a->sums};
}

static size_t update_bytes(const struct hf_call *call, const struct hf_assign_args *a) {
    const struct hf_update_args update = update_of(a, a->labels);
    const struct hf_call part = hf_call_part(call, &update);
    return a->sums != NULL ? hf_update_kernels_opencl.kernels->workspace(&part) : 0;
}

static size_t carve_job(struct job *job, const struct hf_assign_args *a, void *ws) {
    hf_carve carve = {ws, 0};
    const struct shape *s = job->shape;
    const size_t n = (size_t)a->x.rows, k = (size_t)a->c.rows, d = (size_t)a->x.cols;
    hf_opencl_panels_carve(&carve, a->c.rows, a->x.cols, &job->panels);
    job->count = hf_carve_take(&carve, 2 * sizeof *job->count);
    job->old = a->sums != NULL || a->old_labels != NULL
                   ? hf_carve_take(&carve, n * sizeof *job->old)
                   : NULL;
    job->list = a->bounds != NULL ? hf_carve_take(&carve, n * sizeof *job->list) : NULL;
    job->update_ws = hf_carve_take(&carve, update_bytes(job->call, a));
    if (s->vw == 0)
        return carve.used;
    const size_t slots = (size_t)slots_of(s, a->c.rows);
    const size_t groups = (size_t)groups_of(job->call->device, s, a->x.rows);
    job->lengths = hf_carve_take(&carve, 3 * k * sizeof *job->lengths);
    job->open = hf_carve_take(&carve, n * sizeof *job->open);
    job->shift = hf_carve_take(&carve, d * sizeof *job->shift);
    job->packed = hf_carve_take(&carve, slots * d * sizeof *job->packed);
    job->start = hf_carve_take(&carve, slots * sizeof *job->start);
    job->length = hf_carve_take(&carve, slots * sizeof *job->length);
    job->scratch = hf_carve_take(&carve, groups * (size_t)rows_of(s) * d * sizeof *job->scratch);
    return carve.used;
}

/* The shift as float, which is what the filter subtracts. NULL: 0. */
static hf_status bring_shift(struct job *job) {
    struct hf_cl_stage stage;
    const int64_t d = job->a.x.cols;
    if (job->a.metric != HF_EUCLIDEAN || job->a.filter.shift == NULL) {
        job->shift = NULL;
        return HF_OK;
    }
    hf_cl_stage_begin(&stage, job->cl);
    const double *from = hf_cl_host(&stage, job->a.filter.shift, (size_t)d * sizeof *from, false);
    float *to = hf_cl_host(&stage, job->shift, (size_t)d * sizeof *to, true);
    for (int64_t j = 0; stage.status == HF_OK && j < d; j++)
        to[j] = (float)from[j];
    return hf_cl_stage_end(&stage, HF_OK);
}

/* Of the numbers that are less than `below` the largest; 0 if there is none. */
static double largest_of(const double *v, int64_t count, double below) {
    double most = 0;
    for (int64_t i = 0; i < count; i++)
        most = v[i] < below && v[i] > most ? v[i] : most;
    return most;
}

/* Norms of cosine's centroids, whose products must neither over- nor underflow. */
static bool norms_in_range(const double *norm, int64_t k) {
    for (int64_t i = 0; i < k; i++)
        if (norm[i] != 0 && !(norm[i] > 0x1p-400 && norm[i] < 0x1p400))
            return false;
    return true;
}

/* What the filter must know of the centroids: lengths [3, k] as assign_lengths wrote them. */
static void judge(struct job *job, double *lengths) {
    const struct hf_assign_args *a = &job->a;
    const int64_t k = a->c.rows, d = a->x.cols;
    double most = largest_of(lengths + 2 * k, k, INFINITY);
    int exponent = 0;
    if (a->metric == HF_DOT) {
        if (most > 0)
            (void)frexp(most, &exponent);
        exponent = exponent < -1000 ? -1000 : exponent > 1000 ? 1000 : exponent;
        job->factor = ldexp(1, -exponent);
        job->usable = job->usable && job->factor >= 0x1p-400 && job->factor <= 0x1p400;
        for (int64_t i = 0; i < k; i++)
            lengths[k + i] = lengths[i] * job->factor;
    } else if (a->metric == HF_COSINE) {
        job->usable = job->usable && norms_in_range(lengths, k);
        for (int64_t i = 0; i < k; i++)
            lengths[k + i] = lengths[i] > 0 ? 1 : 0;
    }
    const double cmax = largest_of(lengths + k, k, 0x1p60) * (1 + 0x1p-20);
    const double chain = d < DEPTH ? (double)d : DEPTH;
    job->bound = filter_bound_make((chain + (double)d / DEPTH + 4) * 0x1p-24, d, cmax);
    job->bound.qerr = (float)((double)(d + 24) * 0x1p-24); /* one chain */
}

static hf_status learn_centroids(struct job *job) {
    struct hf_cl_stage stage;
    const hf_array *c = &job->a.c;
    const double scale = job->a.filter.scale > 0 ? job->a.filter.scale : 1;
    job->usable = scale <= 0x1p100 && scale >= 0x1p-100;
    job->a.filter.scale = job->usable ? scale : 1;
    job->factor = job->a.filter.scale;
    HF_TRY(bring_shift(job));
    const struct hf_cl_job run =
        hf_opencl_job(job->call->device, "assign", "assign_lengths", c->rows);
    HF_TRY(hf_opencl_run(job->cl, &run, "pniiipdp", c->data, (int32_t)c->dtype, c->row_stride,
                         c->rows, c->cols, job->shift, job->factor, job->lengths));
    hf_cl_stage_begin(&stage, job->cl);
    double *lengths = hf_cl_host(&stage, job->lengths, 3 * (size_t)c->rows * sizeof *lengths, true);
    if (stage.status == HF_OK)
        judge(job, lengths);
    return hf_cl_stage_end(&stage, HF_OK);
}

/* Rows that bounds decide are left out. *list: the others, NULL: all. */
static hf_status skip_rows(struct job *job, const int32_t **list, const int64_t **count) {
    const struct hf_assign_bounds *b = job->a.bounds;
    const hf_array *x = &job->a.x, *c = &job->a.c;
    if (b == NULL || !b->valid || b->sweep)
        return HF_OK;
    *list = job->list;
    *count = job->count;
    const struct hf_cl_job run = hf_opencl_job(job->call->device, "assign", "assign_skip", x->rows);
    return hf_opencl_run(job->cl, &run, "pnipniiipppppnffppp", x->data, (int32_t)x->dtype,
                         x->row_stride, c->data, (int32_t)c->dtype, c->row_stride, x->rows, x->cols,
                         job->a.labels, b->upper, b->lower, b->drift, b->half, b->drift_max_index,
                         (double)b->drift_max, (double)b->drift_second, job->list, job->count,
                         job->a.stats);
}

static hf_status run_filter(struct job *job, const int32_t *list, const int64_t *count) {
    const struct shape *s = job->shape;
    const struct hf_assign_args *a = &job->a;
    const struct filter_bound *b = &job->bound;
    const bool euclidean = a->metric == HF_EUCLIDEAN;
    const int64_t k = a->c.rows, d = a->x.cols, slots = slots_of(s, k);
    char options[96];
    (void)snprintf(options, sizeof options, "-DVW=%d -DPANELS=%d -DTILE=%d -DGROUP=%d", s->vw,
                   s->panels, s->tile, s->group);
    struct hf_cl_job pack = hf_opencl_job(job->call->device, "tile", "tile_pack", slots);
    pack.options = options;
    HF_TRY(hf_opencl_run(job->cl, &pack, "pniiipdppnppp", a->c.data, (int32_t)a->c.dtype,
                         a->c.row_stride, k, d, job->shift, job->factor,
                         a->metric == HF_COSINE ? job->lengths : NULL, job->lengths + k,
                         (int32_t)euclidean, job->packed, job->start, job->length));
    const size_t groups = (size_t)groups_of(job->call->device, s, a->x.rows);
    const struct hf_cl_job run = {.source = "tile",
                                  .options = options,
                                  .kernel = "tile_filter",
                                  .global = groups * (size_t)s->group,
                                  .group = (size_t)s->group};
    return hf_opencl_run(job->cl, &run, "pniiiipppfpppfffffffffnppppppp", a->x.data,
                         (int32_t)a->x.dtype, a->x.row_stride, a->x.rows, k, d, list, count,
                         job->shift, a->filter.scale, job->packed, job->start, job->length,
                         (double)b->eps, (double)b->delta, (double)b->tiny, (double)b->flush,
                         (double)b->qerr, (double)b->cmax, euclidean ? 0.5 : 0.0,
                         euclidean ? -1.0 : 0x1p-90, 1 / a->filter.scale, (int32_t)a->exact,
                         job->scratch, a->labels, a->bounds ? a->bounds->upper : NULL,
                         a->bounds ? a->bounds->lower : NULL, job->open, job->count + 1, a->stats);
}

static hf_status run_exact(struct job *job, const int32_t *list, const int64_t *count) {
    const struct hf_assign_args *a = &job->a;
    const struct hf_cl_job run =
        hf_opencl_job(job->call->device, "assign", "assign_exact", a->x.rows);
    HF_TRY(hf_opencl_pack(job->call, &a->c, &job->panels));
    return hf_opencl_run(job->cl, &run, "pnippiiinpppppp", a->x.data, (int32_t)a->x.dtype,
                         a->x.row_stride, job->panels.panel, job->panels.norm, a->x.rows, a->c.rows,
                         a->x.cols, (int32_t)a->metric, list, count, a->labels,
                         a->bounds ? a->bounds->upper : NULL, a->bounds ? a->bounds->lower : NULL,
                         a->stats);
}

static hf_status label_rows(struct job *job) {
    const struct hf_assign_args *a = &job->a;
    const size_t bytes = (size_t)a->x.rows * sizeof(int32_t);
    const int32_t *list = NULL;
    const int64_t *count = NULL;
    if (a->x.rows == 0)
        return HF_OK;
    if (job->old != NULL)
        HF_TRY(hf_opencl_copy(job->cl, job->old, a->labels, bytes));
    HF_TRY(hf_opencl_fill(job->cl, job->count, 0, 2 * sizeof *job->count));
    HF_TRY(skip_rows(job, &list, &count));
    if (job->shape->vw > 0)
        HF_TRY(learn_centroids(job));
    if (job->shape->vw > 0 && job->usable) {
        HF_TRY(run_filter(job, list, count));
        list = job->open;
        count = job->count + 1;
    }
    HF_TRY(run_exact(job, list, count));
    if (a->old_labels != NULL)
        HF_TRY(hf_opencl_copy(job->cl, a->old_labels, job->old, bytes));
    if (a->sums == NULL)
        return HF_OK;
    const struct hf_update_args update = update_of(a, job->old);
    return hf_run_part(job->call, hf_update_kernels_opencl.kernels, &update, job->update_ws);
}

static void stage_bounds(struct hf_cl_stage *stage, struct job *job) {
    const size_t n = (size_t)job->a.x.rows * sizeof(float);
    const size_t k = (size_t)job->a.c.rows * sizeof(float);
    if (job->a.bounds == NULL)
        return;
    job->bounds = *job->a.bounds;
    job->a.bounds = &job->bounds;
    job->bounds.upper = hf_cl_inout(stage, job->bounds.upper, n);
    job->bounds.lower = hf_cl_inout(stage, job->bounds.lower, n);
    if (!job->bounds.valid)
        return;
    job->bounds.drift = hf_cl_in(stage, job->bounds.drift, k);
    job->bounds.half = hf_cl_in(stage, job->bounds.half, k);
}

static hf_status run_shape(const struct hf_call *call, const struct shape *shape) {
    struct job job = {.call = call,
                      .cl = call->stream,
                      .shape = shape,
                      .a = *(const struct hf_assign_args *)call->args};
    struct hf_assign_args *a = &job.a;
    struct hf_cl_stage stage;
    carve_job(&job, a, call->ws);
    const size_t labels = (size_t)a->x.rows * sizeof *a->labels;
    hf_cl_stage_begin(&stage, call->stream);
    a->x = hf_cl_array(&stage, &a->x);
    a->c = hf_cl_array(&stage, &a->c);
    a->labels = hf_cl_inout(&stage, a->labels, labels);
    a->old_labels = hf_cl_out(&stage, a->old_labels, labels);
    a->stats = hf_cl_inout(&stage, a->stats, sizeof *a->stats);
    a->weights = hf_cl_in(&stage, a->weights, (size_t)a->x.rows * sizeof *a->weights);
    stage_bounds(&stage, &job);
    return hf_cl_stage_end(&stage, stage.status == HF_OK ? label_rows(&job) : stage.status);
}

static bool any_supports(const struct hf_call *call) {
    const struct hf_assign_args *a = call->args;
    return a->x.rows < INT32_MAX && a->c.rows < INT32_MAX;
}

static bool tile_supports(const struct hf_call *call) {
    return any_supports(call) &&
           ((const struct hf_assign_args *)call->args)->x.cols <= MOST_COLUMNS;
}

static size_t shape_workspace(const struct hf_call *call, const struct shape *shape) {
    struct job job = {.call = call, .shape = shape};
    return carve_job(&job, call->args, NULL);
}

/* Rough, for a core of about 3 GHz: only the order of the kernels counts. */
static double shape_estimate(const struct hf_call *call, const struct shape *s) {
    const struct hf_assign_args *a = call->args;
    const double n = (double)a->x.rows, k = (double)a->c.rows, d = (double)a->x.cols;
    if (s->vw == 0)
        return n * k * d * 0.9 + 20000;
    const double slots = (double)slots_of(s, a->c.rows);
    const double registers = s->panels * s->tile;
    const double loads = 1 + 1.0 / s->panels + 1.0 / s->tile; /* beside each multiply-add */
    const double spilled = registers > 24 ? 2 : 1;
    const double misfit = (s->vw > 1) == call->device->wide ? 1 : 8;
    return n * (slots * d * 0.01 * loads * spilled * misfit + 2 * d + 10) + 40000;
}

/* SHAPE(name, rows in a vector, vectors, centroids, group) */
#define SHAPES(SHAPE)                                                                              \
    SHAPE(f32_32x8, 16, 2, 8, 1)                                                                   \
    SHAPE(f32_16x16, 16, 1, 16, 1)                                                                 \
    SHAPE(f32_16x6, 8, 2, 6, 1)                                                                    \
    SHAPE(f32_8x8, 8, 1, 8, 1)                                                                     \
    SHAPE(f32_128x8, 1, 2, 8, 64)                                                                  \
    SHAPE(f32_256x4, 1, 4, 4, 64)

#define SHAPE(name, vw, panels, tile, group)                                                       \
    static const struct shape shape_##name = {vw, panels, tile, group};                            \
    static hf_status run_##name(const struct hf_call *call) {                                      \
        return run_shape(call, &shape_##name);                                                     \
    }                                                                                              \
    static size_t workspace_##name(const struct hf_call *call) {                                   \
        return shape_workspace(call, &shape_##name);                                               \
    }                                                                                              \
    static double estimate_##name(const struct hf_call *call) {                                    \
        return shape_estimate(call, &shape_##name);                                                \
    }
SHAPES(SHAPE)
SHAPE(f64_1x8, 0, 0, 0, 0)
#undef SHAPE

#define SHAPE(name_, vw, panels, tile_, group)                                                     \
    {.name = "assign_" #name_ "_opencl",                                                           \
     .device = HF_DEV_OPENCL,                                                                      \
     .dtypes = HF_DT_DATA,                                                                         \
     .isa = (vw) > 1 ? HF_OPENCL_WIDE : 0,                                                         \
     .traits = HF_TRAIT_FIXED_ORDER,                                                               \
     .tile = {(vw) * (panels) * (group), tile_, DEPTH},                                            \
     .supports = tile_supports,                                                                    \
     .workspace = workspace_##name_,                                                               \
     .run = run_##name_,                                                                           \
     .estimate = estimate_##name_},

static const struct hf_kernel kernels[] = {SHAPES(SHAPE){.name = "assign_f64_1x8_opencl",
                                                         .device = HF_DEV_OPENCL,
                                                         .dtypes = HF_DT_DATA,
                                                         .traits = HF_TRAIT_FIXED_ORDER,
                                                         .tile = {1, 8, 1},
                                                         .supports = any_supports,
                                                         .workspace = workspace_f64_1x8,
                                                         .run = run_f64_1x8,
                                                         .estimate = estimate_f64_1x8}};

const struct hf_kernel_table hf_assign_kernels_opencl = {kernels,
                                                         (int)(sizeof kernels / sizeof *kernels)};
