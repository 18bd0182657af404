/* SPDX-License-Identifier: Apache-2.0
 * update with OpenCL. On a CPU each of a few work-items has sums of its own, which are added up at
 * the end; where these would take much memory, all add to the same with atomics. Elsewhere rows
 * that move are sorted by cluster first (pieces.cl). */
#include "core/kernel.h"
#include "device/opencl/opencl.h"
#include "ops/opencl.h"
#include "ops/update/update.h"

#define PRIVATE_CELLS ((int64_t)1 << 20) /* of all parts together */

/* pieces.cl */
#define SORT_GROUP 256
#define LEAST_PIECE 64
#define MOST_PIECED 4096 /* clusters: their counters are in local memory */
#define COUNT_GROUPS 4   /* for each compute unit */
#define COUNT_ROWS 1024  /* of a group at least */
#define ADD_GROUPS 8

struct pieces {
    uint32_t *held, *first, *start, *order; /* struct table of pieces.cl */
    double *factor;
    int64_t groups;
};

static int64_t sum_cells(const struct hf_sums *s) { return s->limbs * s->k * s->d; }

static int64_t cells_of(const struct hf_sums *s) {
    return sum_cells(s) + s->k + (s->weight != NULL ? s->limbs * s->k : 0);
}

/* How many parts; 0: atomics. */
static int64_t parts_of(const struct hf_device_props *device, const struct hf_update_args *a) {
    const int64_t parts = device->units;
    return device->wide && a->x.rows > parts && parts * cells_of(a->sums) <= PRIVATE_CELLS ? parts
                                                                                           : 0;
}

static int64_t entries_of(const struct hf_update_args *a) {
    return a->old_labels != NULL ? 2 * a->x.rows : a->x.rows;
}

static bool is_pieced(const struct hf_call *call, const struct hf_update_args *a) {
    return !call->device->wide && a->sums->k <= MOST_PIECED;
}

static size_t carve_pieces(const struct hf_call *call, const struct hf_update_args *a,
                           struct pieces *p) {
    hf_carve carve = {call->ws, 0};
    const int64_t most = (int64_t)call->device->units * COUNT_GROUPS;
    const int64_t groups = (a->x.rows + COUNT_ROWS - 1) / COUNT_ROWS;
    const size_t k = (size_t)a->sums->k;
    p->groups = groups < most ? groups : most;
    p->held = hf_carve_take(&carve, k * sizeof *p->held);
    p->first = hf_carve_take(&carve, (size_t)p->groups * k * sizeof *p->first);
    p->start = hf_carve_take(&carve, (k + 1) * sizeof *p->start);
    p->order = hf_carve_take(&carve, (size_t)entries_of(a) * sizeof *p->order);
    p->factor = a->weights != NULL || a->metric == HF_COSINE
                    ? hf_carve_take(&carve, (size_t)a->x.rows * sizeof *p->factor)
                    : NULL;
    return carve.used;
}

static size_t update_workspace(const struct hf_call *call) {
    const struct hf_update_args *a = call->args;
    struct pieces pieces;
    struct hf_call empty = *call;
    empty.ws = NULL;
    return is_pieced(call, a)
               ? carve_pieces(&empty, a, &pieces)
               : (size_t)(parts_of(call->device, a) * cells_of(a->sums)) * sizeof(int64_t);
}

/* Rows that move are sorted by cluster, then added up piece by piece. */
static hf_status move_pieces(const struct hf_call *call, const struct hf_update_args *a,
                             const struct hf_sums *s) {
    struct pieces p;
    struct hf_opencl *cl = call->stream;
    const int64_t most = (int64_t)call->device->units * ADD_GROUPS;
    const int64_t pieces = entries_of(a) / LEAST_PIECE + 1;
    struct hf_cl_job job = {.source = "update+pieces", .group = SORT_GROUP};
    (void)carve_pieces(call, a, &p);
    if (a->x.rows == 0)
        return HF_OK;
    HF_TRY(hf_opencl_fill(cl, p.held, 0, (size_t)s->k * sizeof *p.held));
    job.global = SORT_GROUP * (size_t)p.groups;
    job.kernel = "pieces_count";
    HF_TRY(hf_opencl_run(cl, &job, "ppiippl", a->old_labels, a->labels, a->x.rows, s->k, p.held,
                         p.first, (size_t)s->k * sizeof(int32_t)));
    job.kernel = "pieces_place";
    HF_TRY(hf_opencl_run(cl, &job, "pniiinpppipppppl", a->x.data, (int32_t)a->x.dtype,
                         a->x.row_stride, a->x.rows, a->x.cols, (int32_t)a->metric, a->weights,
                         a->old_labels, a->labels, s->k, p.held, p.first, p.start, p.order,
                         p.factor, (size_t)s->k * sizeof(int32_t)));
    job.kernel = "pieces_add";
    job.global = SORT_GROUP * (size_t)(pieces < most ? pieces : most);
    return hf_opencl_run(cl, &job, "pniiinppppppppdinn", a->x.data, (int32_t)a->x.dtype,
                         a->x.row_stride, a->x.rows, a->x.cols, (int32_t)a->metric, a->weights,
                         p.start, p.order, p.factor, s->sum, s->count, s->weight, s->mult,
                         s->weight_mult, s->k, (int32_t)s->limbs, (int32_t)s->bits);
}

static hf_status move(const struct hf_call *call, const struct hf_update_args *a,
                      const struct hf_sums *s) {
    struct hf_opencl *cl = call->stream;
    const int64_t parts = parts_of(call->device, a), cells = cells_of(s), n = a->x.rows;
    if (is_pieced(call, a))
        return move_pieces(call, a, s);
    struct hf_cl_job job = hf_opencl_job(call->device, "update", "update_rows", n);
    if (parts > 0) {
        job.global = (size_t)parts;
        HF_TRY(hf_opencl_fill(cl, call->ws, 0, (size_t)(parts * cells) * sizeof(int64_t)));
    }
    HF_TRY(hf_opencl_run(cl, &job, "pniiinpppppppdinnni", a->x.data, (int32_t)a->x.dtype,
                         a->x.row_stride, n, a->x.cols, (int32_t)a->metric, a->weights,
                         a->old_labels, a->labels, parts > 0 ? call->ws : s->sum, s->count,
                         s->weight, s->mult, s->weight_mult, s->k, (int32_t)s->limbs,
                         (int32_t)s->bits, (int32_t)(parts > 0), cells));
    if (parts == 0)
        return HF_OK;
    const struct hf_cl_job join = hf_opencl_job(call->device, "update", "update_join", cells);
    return hf_opencl_run(cl, &join, "pnipipip", call->ws, (int32_t)parts, cells, s->sum,
                         sum_cells(s), s->count, s->k, s->weight);
}

static hf_status update_run(const struct hf_call *call) {
    struct hf_update_args a = *(const struct hf_update_args *)call->args;
    struct hf_sums s = *a.sums;
    struct hf_cl_stage stage;
    const size_t n = (size_t)a.x.rows, limbs = (size_t)s.limbs;
    hf_cl_stage_begin(&stage, call->stream);
    a.x = hf_cl_array(&stage, &a.x);
    a.weights = hf_cl_in(&stage, a.weights, n * sizeof *a.weights);
    a.old_labels = hf_cl_in(&stage, a.old_labels, n * sizeof *a.old_labels);
    a.labels = hf_cl_in(&stage, a.labels, n * sizeof *a.labels);
    s.mult = hf_cl_in(&stage, s.mult, (size_t)s.d * sizeof *s.mult);
    s.sum = hf_cl_inout(&stage, s.sum, (size_t)sum_cells(&s) * sizeof *s.sum);
    s.count = hf_cl_inout(&stage, s.count, (size_t)s.k * sizeof *s.count);
    s.weight = hf_cl_inout(&stage, s.weight, limbs * (size_t)s.k * sizeof *s.weight);
    a.sums = &s;
    return hf_cl_stage_end(&stage, stage.status == HF_OK ? move(call, &a, &s) : stage.status);
}

static const struct hf_kernel kernels[] = {{.name = "update_any_opencl",
                                            .device = HF_DEV_OPENCL,
                                            .dtypes = HF_DT_DATA,
                                            .traits = HF_TRAIT_FIXED_ORDER,
                                            .workspace = update_workspace,
                                            .run = update_run}};

const struct hf_kernel_table hf_update_kernels_opencl = {kernels, 1};
