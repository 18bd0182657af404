/* SPDX-License-Identifier: Apache-2.0
 * assign on NVIDIA GPUs: a step of the loop (assign_cuda.h), and the row of the op, which prepares
 * the data, makes one step, and moves changed rows between the sums with the row of update. */
#include "base/mem.h"
#include "core/array.h"
#include "core/kernel.h"
#include "device/cuda/stage.h"
#include "ops/assign/assign.h"
#include "ops/assign/assign_cuda.h"
#include "ops/assign/assign_cuda_settle.h"

enum hf_assign_kind hf_assign_choose(const struct hf_cuda *cuda,
                                     const struct hf_assign_problem *problem) {
    (void)cuda;
    (void)problem;
    return HF_ASSIGN_DENSE;
}

struct step_memory {
    struct hf_settle settle;
};

static size_t step_carve(const struct hf_assign_problem *problem, void *ws, struct step_memory *m) {
    return hf_settle_carve(problem, ws, &m->settle);
}

size_t hf_assign_step_bytes(const struct hf_assign_problem *problem) {
    struct step_memory m;
    return step_carve(problem, NULL, &m);
}

static hf_status clear_counters(struct hf_cuda *cuda, const struct hf_settle *s) {
    return hf_cuda_check(
        cuda,
        cudaMemsetAsync(s->counters, 0, sizeof(int32_t) * (size_t)s->n_counters, cuda->stream),
        "assign: clear counters");
}

hf_status hf_assign_step(struct hf_cuda *cuda, const struct hf_assign_rows *rows,
                         const struct hf_assign_step *step, void *ws) {
    struct step_memory m;
    (void)step_carve(&rows->problem, ws, &m);
    HF_TRY(hf_settle_norms(cuda, rows, step, &m.settle));
    HF_TRY(clear_counters(cuda, &m.settle));
    HF_TRY(hf_settle_dense(cuda, rows, step, &m.settle, NULL, NULL));
    return hf_settle_compare(cuda, rows, step, &m.settle);
}

/* Counters of a step, added to those of a call. */
__global__ void add_stats(const struct hf_assign_counts *counts, struct hf_assign_stats *stats) {
    stats->changed += static_cast<int64_t>(counts->changed);
    stats->rechecked += static_cast<int64_t>(counts->rechecked);
    stats->pairs += static_cast<int64_t>(counts->pairs);
}

/* No bounds are kept: these hold for any data. */
__global__ void open_bounds(float *upper, float *lower, int64_t n) {
    const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (i < n) {
        upper[i] = __int_as_float(0x7f800000);
        lower[i] = 0;
    }
}

struct row_memory {
    void *rows, *step;
    void *c;        /* [k, d] without gaps */
    int32_t *moved; /* [n] labels that came in */
    struct hf_assign_counts *counts;
    void *update; /* workspace of the row of update */
};

static struct hf_assign_problem problem_of(const struct hf_assign_args *a) {
    struct hf_assign_problem p = {};
    p.x = a->x;
    p.batch = 1;
    p.k = a->c.rows;
    p.c_type = a->c.dtype;
    p.metric = a->metric;
    p.exact = a->exact;
    p.shift = a->metric == HF_EUCLIDEAN ? a->filter.shift : NULL;
    p.scale = a->filter.scale;
    return p;
}

static size_t row_carve(const struct hf_assign_args *a, void *ws, struct row_memory *m) {
    hf_carve carve = {(char *)ws, 0};
    const struct hf_assign_problem p = problem_of(a);
    m->rows = hf_carve_take(&carve, hf_assign_rows_bytes(&p));
    carve.used = (carve.used + 255) / 256 * 256;
    m->step = hf_carve_take(&carve, hf_assign_step_bytes(&p));
    m->c = hf_carve_take(&carve, hf_dtype_bytes(a->c.dtype) * (size_t)(a->c.rows * a->c.cols));
    m->moved = (int32_t *)hf_carve_take(&carve, sizeof(int32_t) * (size_t)a->x.rows);
    m->counts = (struct hf_assign_counts *)hf_carve_take(&carve, sizeof *m->counts);
    return carve.used + 256;
}

static size_t row_workspace(const void *args, int workers) {
    struct row_memory m;
    (void)workers;
    return row_carve((const struct hf_assign_args *)args, NULL, &m);
}

/* The arguments, seen by the device. */
struct row_views {
    hf_array x, c;
    int32_t *labels, *old_labels;
    struct hf_assign_stats *stats;
    float *upper, *lower;
};

static void row_stage(struct hf_stage *stage, const struct hf_assign_args *a, struct row_views *v) {
    const size_t n = (size_t)a->x.rows;
    v->x = hf_stage_array(stage, &a->x);
    v->c = hf_stage_array(stage, &a->c);
    v->labels = (int32_t *)hf_stage_inout(stage, a->labels, sizeof(int32_t) * n);
    v->old_labels = (int32_t *)hf_stage_out(stage, a->old_labels, sizeof(int32_t) * n);
    v->stats = (struct hf_assign_stats *)hf_stage_inout(stage, a->stats, sizeof *a->stats);
    v->upper = v->lower = NULL;
    if (a->bounds != NULL) {
        v->upper = (float *)hf_stage_out(stage, a->bounds->upper, sizeof(float) * n);
        v->lower = (float *)hf_stage_out(stage, a->bounds->lower, sizeof(float) * n);
    }
}

static hf_status row_copies(struct hf_cuda *cuda, const struct row_views *v,
                            const struct row_memory *m, int32_t *old_labels) {
    const size_t row = hf_dtype_bytes(v->c.dtype) * (size_t)v->c.cols;
    const size_t pitch = hf_dtype_bytes(v->c.dtype) * (size_t)hf_array_stride(&v->c);
    HF_TRY(hf_cuda_check(cuda,
                         cudaMemcpy2DAsync(m->c, row, v->c.data, pitch, row, (size_t)v->c.rows,
                                           cudaMemcpyDefault, cuda->stream),
                         "assign: copy centroids"));
    return hf_cuda_check(cuda,
                         cudaMemcpyAsync(old_labels, v->labels, sizeof(int32_t) * (size_t)v->x.rows,
                                         cudaMemcpyDefault, cuda->stream),
                         "assign: copy labels");
}

static hf_status row_launch(struct hf_cuda *cuda, const struct hf_assign_args *a,
                            const struct row_views *v, void *ws) {
    struct row_memory m;
    (void)row_carve(a, (void *)(((uintptr_t)ws + 255) / 256 * 256), &m);
    int32_t *old_labels = v->old_labels != NULL ? v->old_labels : m.moved;
    HF_TRY(row_copies(cuda, v, &m, old_labels));
    struct hf_assign_problem problem = problem_of(a);
    problem.x = v->x;
    struct hf_assign_rows rows;
    HF_TRY(hf_assign_rows_prepare(cuda, &problem, m.rows, &rows));
    struct hf_assign_step step = {};
    step.c = m.c;
    step.old_labels = old_labels;
    step.labels = v->labels;
    step.counts = m.counts;
    HF_TRY(hf_assign_step(cuda, &rows, &step, m.step));
    add_stats<<<1, 1, 0, cuda->stream>>>(m.counts, v->stats);
    if (v->upper != NULL)
        open_bounds<<<(unsigned)((v->x.rows + 255) / 256), 256, 0, cuda->stream>>>(
            v->upper, v->lower, v->x.rows);
    return hf_cuda_launched(cuda, "assign: counters");
}

static hf_status row_run(void *stream, const void *args, void *ws) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)args;
    struct hf_stage stage;
    struct row_views views;
    hf_stage_begin(&stage, stream);
    row_stage(&stage, a, &views);
    if (stage.status != HF_OK)
        return hf_stage_end(&stage, HF_OK);
    return hf_stage_end(&stage, row_launch((struct hf_cuda *)stream, a, &views, ws));
}

static bool row_supports(const void *args) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)args;
    return a->sums == NULL && a->x.rows < INT32_MAX && a->c.rows < INT32_MAX;
}

static double row_estimate(const void *args) {
    const struct hf_assign_args *a = (const struct hf_assign_args *)args;
    const double pairs = (double)a->x.rows * (double)a->c.rows;
    return 20000 + pairs * (double)a->x.cols * 3 / 10000;
}

static const struct hf_kernel rows[] = {{"assign_f64_32x64_cuda",
                                         HF_DEV_CUDA,
                                         HF_DT_DATA,
                                         80,
                                         HF_TRAIT_FIXED_ORDER,
                                         0,
                                         {HF_SETTLE_TILE, 64, 0},
                                         row_supports,
                                         row_workspace,
                                         row_run,
                                         row_estimate}};

extern "C" {
extern const struct hf_kernel_table hf_assign_rows_cuda;
const struct hf_kernel_table hf_assign_rows_cuda = {rows, 1};
}
