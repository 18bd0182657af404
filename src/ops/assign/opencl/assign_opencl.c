/* SPDX-License-Identifier: Apache-2.0
 * assign with OpenCL: a filter in float (tile.cl) decides most rows; those that it leaves open, or
 * all where it knows nothing, are compared with all centroids in float64 (assign.cl). Each shape of
 * tile is a kernel of its own, so that the planner and `holdfast tune` choose among them. */
#include "ops/assign/opencl/filters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEPTH 128 /* tile.cl */
#define MOST_COLUMNS 65536
#define GROUPS_CPU 8 /* for each compute unit */
#define GROUPS 16
#define CHAINS 4     /* assign.cl */
#define BLOCK_EACH 8 /* block.cl */

extern const struct hf_kernel_table hf_update_kernels_opencl;

static int64_t rows_of(const struct hf_cl_shape *s) {
    return (int64_t)s->vw * s->panels * s->group;
}

static int64_t slots_of(const struct hf_cl_shape *s, int64_t k) {
    return (k + s->tile - 1) / s->tile * s->tile;
}

/* Groups of work-items, each of which takes one tile of rows after the other. */
static int64_t groups_of(const struct hf_device_props *device, const struct hf_cl_shape *s,
                         int64_t n) {
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

/* The filter in float32 behind one in 16 bits. */
static const struct hf_cl_shape behind = {HF_CL_FILTER_BLOCK, 1, 128, 128, 1};

static const struct hf_cl_shape *single_of(const struct hf_cl_assign *job,
                                           const struct hf_assign_args *a) {
    if (job->shape->filter == HF_CL_FILTER_MATRIX)
        return hf_cl_matrix_once(a) ? &behind : NULL;
    return job->shape->filter == HF_CL_FILTER_NONE ? NULL : job->shape;
}

static size_t carve_job(struct hf_cl_assign *job, const struct hf_assign_args *a, void *ws) {
    hf_carve carve = {ws, 0};
    const struct hf_cl_shape *s = job->shape;
    const size_t n = (size_t)a->x.rows, k = (size_t)a->c.rows, d = (size_t)a->x.cols;
    hf_opencl_panels_carve(&carve, a->c.rows, a->x.cols, &job->panels);
    job->count = hf_carve_take(&carve, sizeof *job->count);
    job->old = a->sums != NULL || a->old_labels != NULL
                   ? hf_carve_take(&carve, n * sizeof *job->old)
                   : NULL;
    job->list = a->bounds != NULL ? hf_carve_take(&carve, n * sizeof *job->list) : NULL;
    job->update_ws = hf_carve_take(&carve, update_bytes(job->call, a));
    if (s->filter == HF_CL_FILTER_NONE)
        return carve.used;
    const size_t lists = s->filter == HF_CL_FILTER_MATRIX ? 3 : 1;
    job->lengths = hf_carve_take(&carve, 3 * k * sizeof *job->lengths);
    job->open = hf_carve_take(&carve, lists * n * sizeof *job->open);
    job->shift = hf_carve_take(&carve, d * sizeof *job->shift);
    if (s->filter == HF_CL_FILTER_MATRIX)
        hf_cl_matrix_carve(job, a, &carve);
    job->single = s = single_of(job, a);
    if (s == NULL)
        return carve.used;
    const size_t slots = (size_t)slots_of(s, a->c.rows);
    const size_t groups = (size_t)groups_of(job->call->device, s, a->x.rows);
    job->packed = hf_carve_take(&carve, slots * d * sizeof *job->packed);
    job->start = hf_carve_take(&carve, slots * sizeof *job->start);
    job->length = hf_carve_take(&carve, slots * sizeof *job->length);
    job->scratch = hf_carve_take(&carve, groups * (size_t)rows_of(s) * d * sizeof *job->scratch);
    return carve.used;
}

static bool is_half(hf_dtype type) { return type == HF_F16 || type == HF_BF16; }

/* Is the shift small beside the spread of the data, and beside most rows? */
static bool small(const struct hf_assign_args *a, const double *shift) {
    const double reach = 1 / a->filter.scale;
    const double length = a->filter.length > 0 ? a->filter.length * reach : INFINITY;
    double square = 0;
    for (int64_t j = 0; j < a->x.cols; j++)
        square += shift[j] * shift[j];
    return square <= (double)a->x.cols * reach * reach / 256 && square <= length * length / 4;
}

/* 16-bit data are exact in 16 bits as they are, but not without the shift. */
static hf_status drop_shift(struct hf_cl_assign *job) {
    struct hf_cl_stage stage;
    const double *shift = job->a.filter.shift;
    hf_cl_stage_begin(&stage, job->cl);
    shift = hf_cl_host(&stage, shift, (size_t)job->a.x.cols * sizeof *shift, false);
    if (stage.status == HF_OK && small(&job->a, shift))
        job->shift = NULL;
    return hf_cl_stage_end(&stage, HF_OK);
}

/* Is there a shift that the filter subtracts? */
static hf_status choose_shift(struct hf_cl_assign *job) {
    const double scale = job->a.filter.scale > 0 ? job->a.filter.scale : 1;
    job->usable = scale <= 0x1p100 && scale >= 0x1p-100;
    job->a.filter.scale = job->usable ? scale : 1;
    job->factor = job->a.filter.scale;
    if (job->a.metric != HF_EUCLIDEAN || job->a.filter.shift == NULL)
        job->shift = NULL;
    else if (job->shape->filter == HF_CL_FILTER_MATRIX && is_half(job->a.x.dtype))
        return drop_shift(job);
    return HF_OK;
}

/* Labels that come in are copied, counts are 0, the shift becomes float: one launch. */
static hf_status begin(struct hf_cl_assign *job) {
    struct hf_cl_stage stage;
    const int64_t n = job->a.x.rows, d = job->a.x.cols;
    const int32_t words = (int32_t)(sizeof *job->count / sizeof(int32_t));
    const struct hf_cl_job run =
        hf_opencl_job(job->call->device, "assign", "assign_begin", n > d ? n : d);
    if (job->shape->filter == HF_CL_FILTER_NONE)
        job->shift = NULL;
    else
        HF_TRY(choose_shift(job));
    hf_cl_stage_begin(&stage, job->cl);
    const double *from =
        job->shift ? hf_cl_in(&stage, job->a.filter.shift, (size_t)d * sizeof *from) : NULL;
    const hf_status status = stage.status == HF_OK
                                 ? hf_opencl_run(job->cl, &run, "ppipnpip", job->a.labels, job->old,
                                                 n, job->count, words, from, d, job->shift)
                                 : HF_OK;
    return hf_cl_stage_end(&stage, status);
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

/* What the filter must know of the centroids of dot and cosine: lengths as assign_lengths wrote
 * them. */
static void judge(struct hf_cl_assign *job, double *lengths) {
    const struct hf_assign_args *a = &job->a;
    const int64_t k = a->c.rows;
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
}

static hf_status learn_centroids(struct hf_cl_assign *job) {
    struct hf_cl_stage stage;
    const hf_array *c = &job->a.c;
    if (job->a.metric == HF_EUCLIDEAN)
        return HF_OK;
    const struct hf_cl_job run =
        hf_opencl_group_job(job->call->device, "assign", "assign_lengths", c->rows);
    HF_TRY(hf_opencl_run(job->cl, &run, "pniiipdp", c->data, (int32_t)c->dtype, c->row_stride,
                         c->rows, c->cols, job->shift, job->factor, job->lengths));
    hf_cl_stage_begin(&stage, job->cl);
    double *lengths = hf_cl_host(&stage, job->lengths, 3 * (size_t)c->rows * sizeof *lengths, true);
    if (stage.status == HF_OK)
        judge(job, lengths);
    return hf_cl_stage_end(&stage, HF_OK);
}

/* Rows that bounds decide are left out. *rows: the others. */
static hf_status skip_rows(struct hf_cl_assign *job, struct hf_cl_rows *rows) {
    const struct hf_assign_bounds *b = job->a.bounds;
    const hf_array *x = &job->a.x, *c = &job->a.c;
    if (b == NULL || !b->valid || b->sweep)
        return HF_OK;
    *rows = (struct hf_cl_rows){job->list, job->count->rows};
    const struct hf_cl_job run = hf_opencl_job(job->call->device, "assign", "assign_skip", x->rows);
    return hf_opencl_run(job->cl, &run, "pnipniiiipppppnffppp", x->data, (int32_t)x->dtype,
                         x->row_stride, c->data, (int32_t)c->dtype, c->row_stride, x->rows, c->rows,
                         x->cols, job->a.labels, b->upper, b->lower, b->drift, b->half,
                         b->drift_max_index, (double)b->drift_max, (double)b->drift_second,
                         job->list, job->count->rows, job->a.stats);
}

/* The largest length of a centroid, cmax, is known to the device alone. */
static struct filter_bound bound_of(const struct hf_cl_assign *job) {
    const int64_t d = job->a.x.cols;
    const bool cut = d > DEPTH && job->single->filter == HF_CL_FILTER_TILE;
    const double chain = cut ? DEPTH : (double)d;
    struct filter_bound b = filter_bound_make((chain + (double)d / DEPTH + 4) * 0x1p-24, d, 0);
    b.qerr = (float)((double)(d + 24) * 0x1p-24); /* one chain */
    return b;
}

/* *rows: in, those to look at; out, those left open. */
static hf_status run_tiles(struct hf_cl_assign *job, struct hf_cl_rows *rows) {
    const struct hf_cl_shape *s = job->single;
    const struct hf_assign_args *a = &job->a;
    const struct filter_bound bound = bound_of(job), *const b = &bound;
    const bool euclidean = a->metric == HF_EUCLIDEAN;
    const int64_t k = a->c.rows, d = a->x.cols, slots = slots_of(s, k);
    const bool block = s->filter == HF_CL_FILTER_BLOCK;
    const char *source = block ? "decide+block" : "decide+tile";
    const size_t group =
        (size_t)(block ? s->panels / BLOCK_EACH * (s->tile / BLOCK_EACH) : s->group);
    char options[96];
    if (block)
        (void)snprintf(options, sizeof options, "-DROWS=%d -DTILE=%d", s->panels, s->tile);
    else
        (void)snprintf(options, sizeof options, "-DVW=%d -DPANELS=%d -DTILE=%d -DGROUP=%d", s->vw,
                       s->panels, s->tile, s->group);
    struct hf_cl_job pack =
        hf_opencl_group_job(job->call->device, source, block ? "block_pack" : "tile_pack", slots);
    pack.options = options;
    HF_TRY(hf_opencl_run(
        job->cl, &pack, "pniiipdppnpppp", a->c.data, (int32_t)a->c.dtype, a->c.row_stride, k, d,
        job->shift, job->factor, a->metric == HF_COSINE ? job->lengths : NULL, hf_cl_lengths(job),
        (int32_t)euclidean, job->count->limit + 1, job->packed, job->start, job->length));
    const size_t groups = (size_t)groups_of(job->call->device, s, a->x.rows);
    const struct hf_cl_job run = {.source = source,
                                  .options = options,
                                  .kernel = block ? "block_filter" : "tile_filter",
                                  .global = groups * group,
                                  .group = group};
    const struct hf_cl_rows in = *rows;
    hf_cl_passed(job, rows);
    return hf_opencl_run(job->cl, &run, "pniiiipppfpppfffffpfffnppppppp", a->x.data,
                         (int32_t)a->x.dtype, a->x.row_stride, a->x.rows, k, d, in.list, in.count,
                         job->shift, a->filter.scale, job->packed, job->start, job->length,
                         (double)b->eps, (double)b->delta, (double)b->tiny, (double)b->flush,
                         (double)b->qerr, job->count->limit + 1, euclidean ? 0.5 : 0.0,
                         euclidean ? -1.0 : 0x1p-90, 1 / a->filter.scale, (int32_t)a->exact,
                         job->scratch, a->labels, a->bounds ? a->bounds->upper : NULL,
                         a->bounds ? a->bounds->lower : NULL, rows->list, rows->count, a->stats);
}

static hf_status run_exact(struct hf_cl_assign *job, const struct hf_cl_rows *rows) {
    const struct hf_assign_args *a = &job->a;
    const struct hf_cl_job run =
        hf_opencl_job(job->call->device, "assign", "assign_exact", a->x.rows);
    int32_t lanes = 1;
    while (lanes < HF_OPENCL_GROUP && lanes * CHAINS < a->c.rows)
        lanes *= 2;
    HF_TRY(hf_opencl_pack(job->call, &a->c, &job->panels));
    return hf_opencl_run(job->cl, &run, "pnippiiinppppppn", a->x.data, (int32_t)a->x.dtype,
                         a->x.row_stride, job->panels.panel, job->panels.norm, a->x.rows, a->c.rows,
                         a->x.cols, (int32_t)a->metric, rows->list, rows->count, a->labels,
                         a->bounds ? a->bounds->upper : NULL, a->bounds ? a->bounds->lower : NULL,
                         a->stats, lanes);
}

static hf_status label_rows(struct hf_cl_assign *job) {
    const struct hf_assign_args *a = &job->a;
    const size_t bytes = (size_t)a->x.rows * sizeof(int32_t);
    const enum hf_cl_filter filter = job->shape->filter;
    struct hf_cl_rows rows = {NULL, NULL};
    if (a->x.rows == 0)
        return HF_OK;
    HF_TRY(begin(job));
    HF_TRY(skip_rows(job, &rows));
    if (filter != HF_CL_FILTER_NONE)
        HF_TRY(learn_centroids(job));
    if (filter == HF_CL_FILTER_MATRIX && job->usable)
        HF_TRY(hf_cl_matrix_run(job, &rows));
    if (job->single != NULL && job->usable)
        HF_TRY(run_tiles(job, &rows));
    HF_TRY(run_exact(job, &rows));
    if (a->old_labels != NULL)
        HF_TRY(hf_opencl_copy(job->cl, a->old_labels, job->old, bytes));
    if (a->sums == NULL)
        return HF_OK;
    const struct hf_update_args update = update_of(a, job->old);
    return hf_run_part(job->call, hf_update_kernels_opencl.kernels, &update, job->update_ws);
}

static void stage_bounds(struct hf_cl_stage *stage, struct hf_cl_assign *job) {
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

/* Rows that are kept between calls: all of them, in memory of the device; other memory is meant for
 * kernels of the host. */
static struct hf_assign_packed *packed_of(const struct hf_cl_assign *job) {
    size_t offset = 0;
    struct hf_assign_packed *p = job->a.packed;
    const bool all = p != NULL && job->a.packed_first == 0 && p->rows == job->a.x.rows;
    return all && hf_opencl_mem(job->cl, p->data, &offset) != NULL ? p : NULL;
}

static hf_status run_shape(const struct hf_call *call, const struct hf_cl_shape *shape) {
    struct hf_cl_assign job = {.call = call,
                               .cl = call->stream,
                               .shape = shape,
                               .a = *(const struct hf_assign_args *)call->args};
    struct hf_assign_args *a = &job.a;
    struct hf_cl_stage stage;
    carve_job(&job, a, call->ws);
    a->packed = packed_of(&job);
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

static size_t shape_workspace(const struct hf_call *call, const struct hf_cl_shape *shape) {
    struct hf_cl_assign job = {.call = call, .shape = shape};
    return carve_job(&job, call->args, NULL);
}

/* Rough, for a core of about 3 GHz: only the order of the kernels counts. */
static double shape_estimate(const struct hf_call *call, const struct hf_cl_shape *s) {
    const struct hf_assign_args *a = call->args;
    const double n = (double)a->x.rows, k = (double)a->c.rows, d = (double)a->x.cols;
    if (s->filter == HF_CL_FILTER_NONE)
        return n * k * d * 0.9 + 20000;
    if (s->filter == HF_CL_FILTER_MATRIX)
        return hf_cl_matrix_estimate(call);
    const double slots = (double)slots_of(s, a->c.rows);
    const bool block = s->filter == HF_CL_FILTER_BLOCK;
    const double registers = block ? 0 : s->panels * s->tile;
    const double loads = block ? (s->tile > 64 ? 0.7 : 0.9)
                               : 1 + 1.0 / s->panels + 1.0 / s->tile; /* beside products */
    const double spilled = registers > 24 ? 2 : 1;
    const double misfit = (s->vw > 1) == call->device->wide ? 1 : 8;
    const double apart = !call->device->wide && !block && d > 32 ? 4 : 1; /* rows of a warp */
    const double packing = call->device->wide ? 0.4 : 2;
    return n * (slots * d * 0.01 * loads * spilled * misfit * apart + packing * d + 10) + 40000;
}

/* SHAPE(name, supported, filter, rows in a vector, vectors, centroids, group) */
#define SHAPES(SHAPE)                                                                              \
    SHAPE(f16_256x64, hf_cl_matrix_supports, HF_CL_FILTER_MATRIX, 1, 256, 64, 1)                   \
    SHAPE(f32_32x8, tile_supports, HF_CL_FILTER_TILE, 16, 2, 8, 1)                                 \
    SHAPE(f32_16x16, tile_supports, HF_CL_FILTER_TILE, 16, 1, 16, 1)                               \
    SHAPE(f32_16x6, tile_supports, HF_CL_FILTER_TILE, 8, 2, 6, 1)                                  \
    SHAPE(f32_8x8, tile_supports, HF_CL_FILTER_TILE, 8, 1, 8, 1)                                   \
    SHAPE(f32_128x128, tile_supports, HF_CL_FILTER_BLOCK, 1, 128, 128, 1)                          \
    SHAPE(f32_64x64, tile_supports, HF_CL_FILTER_BLOCK, 1, 64, 64, 1)                              \
    SHAPE(f32_128x8, tile_supports, HF_CL_FILTER_TILE, 1, 2, 8, 64)                                \
    SHAPE(f32_256x4, tile_supports, HF_CL_FILTER_TILE, 1, 4, 4, 64)                                \
    SHAPE(f64_1x8, any_supports, HF_CL_FILTER_NONE, 1, 1, 8, 1)

#define SHAPE(name, supported, filter, vw, panels, tile, group)                                    \
    static const struct hf_cl_shape shape_##name = {filter, vw, panels, tile, group};              \
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
#undef SHAPE

#define SHAPE(name_, supported, filter, vw, panels, tile_, group)                                  \
    {.name = "assign_" #name_ "_opencl",                                                           \
     .device = HF_DEV_OPENCL,                                                                      \
     .dtypes = HF_DT_DATA,                                                                         \
     .isa = (vw) > 1 ? HF_OPENCL_WIDE : 0,                                                         \
     .traits = HF_TRAIT_FIXED_ORDER,                                                               \
     .tile = {(vw) * (panels) * (group), tile_, DEPTH},                                            \
     .supports = supported,                                                                        \
     .workspace = workspace_##name_,                                                               \
     .run = run_##name_,                                                                           \
     .estimate = estimate_##name_},

static const struct hf_kernel kernels[] = {SHAPES(SHAPE)};

const struct hf_kernel_table hf_assign_kernels_opencl = {kernels,
                                                         (int)(sizeof kernels / sizeof *kernels)};
